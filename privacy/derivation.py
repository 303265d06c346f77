"""Derivation of the noise of a run, step by step, from the request to the verdict, as data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

from dprl.privacy.accounting.composition import ComposedLoss, bound_of
from dprl.privacy.accounting.curves import (
    ZCDP,
    ApproximateLoss,
    GaussianDP,
    MaximumCurve,
    MinimumCurve,
    OneHotResponses,
    PrivacyCurve,
    PureDP,
    RandomizedResponses,
    Unbounded,
)
from dprl.privacy.accounting.discrete_gaussians import DiscreteGaussianLoss, RoundedGaussianLoss
from dprl.privacy.accounting.laplace_losses import LaplaceLoss
from dprl.privacy.accounting.poisson_sampling import SampledGaussianLoss
from dprl.privacy.accounting.shuffling import ShuffledLoss
from dprl.privacy.base import Guarantee
from dprl.privacy.counters.base import Counter, Tree
from dprl.privacy.ledger import ReleaseEvent, curve_of
from dprl.privacy.mechanisms import GramMechanism
from dprl.privacy.mechanisms.base import Sensitivity
from dprl.privacy.mechanisms.gram import GramRelease, gram_sensitivity
from dprl.privacy.mechanisms.one_hot_encoding import UnaryEncoder, encodings
from dprl.privacy.mechanisms.sampled import SampledGaussian
from dprl.privacy.mechanisms.shuffled import ShuffledReports
from dprl.privacy.verdicts import in_json

_MODEL, _MAP = "docs/privacy_model.md", "docs/paper_map.md"
_PROVED, _MODELS, _SOURCES = f"{_MODEL}#claimed-proved-measured", f"{_MODEL}#trust-models", f"{_MAP}#other-sources"
SOLVED = ("least ", "largest ", "printed ")
"""First words of formulas that are no expressions: the step's code solves for the number, or a paper prints it."""


class Step(NamedTuple):
    """One step: `value` is `formula` of `numbers`, by `lemma`, stated in `place`; `code` computes it.

    A formula is an expression in the names of `numbers`, `sqrt` and `min`, or begins with a word of SOLVED. code:
    'module:name'.
    """

    name: str
    formula: str
    numbers: dict[str, float]
    value: float
    lemma: str
    place: str
    code: str

    def to_dict(self) -> dict[str, Any]:
        """Return the step as JSON-ready data; infinity is the string 'inf'."""
        numbers = {name: in_json(value) for name, value in self.numbers.items()}
        return {**self._asdict(), "numbers": numbers, "value": in_json(self.value)}


class Terms(NamedTuple):
    """The claim with which the noise is compared, and the origin of the noise scale.

    claimed: None without a claim. calibration, source: of the scale, as in `PrivacyRequest`. submissions, attempts: one
    user takes part in every release `submissions` times per attempt. proved: epsilon at the claimed delta. groups: the
    releases of each group of disjoint users, as in `LedgerSpec`.
    """

    claimed: Guarantee | None
    calibration: str
    source: str
    submissions: int
    attempts: int
    proved: float
    groups: tuple[tuple[int, ...], ...] = ()


def code_of(owner: Any, name: str = "") -> str:  # noqa: ANN401
    """Return 'module:name' of a function, a class, or the attribute `name` of an object's class."""
    found = owner if hasattr(owner, "__qualname__") else type(owner)
    return f"{found.__module__}:{found.__qualname__}{f'.{name}' if name else ''}"


def step_of_counter(counter: Counter, row: Sensitivity, norm: str) -> Step:
    """Return the step from one user's row to the change of a counter's noisy numbers, in a norm."""
    changed, axis = counter.sensitivity(row), "l1" if norm == "l1" else "l2"
    before, after = float(getattr(row, axis)), float(getattr(changed, axis))
    factor, told = "column", "largest norm of a column of its matrix"
    formula, value = "change * column", after / before
    if isinstance(counter, Tree):
        factor, value, told = "levels", float(counter.levels), f"nodes that one user is in, {counter.levels_text}"
        formula = "change * levels" if norm == "l1" else "change * sqrt(levels)"
    name = f"all noisy sums of the counter {counter.name}, {axis.upper()} ({factor}: {told})"
    place, code = "docs/counters.md#adaptive-users", code_of(counter, "sensitivity")
    return Step(name, formula, {"change": before, factor: value}, after, _ADAPTIVE, place, code)


def steps_from_ledger(releases: Sequence[ReleaseEvent], terms: Terms) -> list[Step]:
    """Return the steps from the releases of one submission to the verdict on the claim."""
    claimed = terms.claimed
    if claimed is None:
        return []
    total, which = curve_of(releases, terms.submissions * terms.attempts, terms.groups), 0
    if isinstance(total, MinimumCurve):
        which = min((0, -1), key=lambda i: total.curves[i].epsilon(claimed.delta))
    parts = _parts(releases, which)
    found = [step for part in parts for step in _part_steps(part, terms, claimed, alone=len(parts) == 1)]
    found += _composition(parts, terms)
    if not math.isclose(found[-1].value, terms.proved, rel_tol=1e-9):
        found.append(_conversion(bound_of(total, which), claimed.delta, terms))
    found[-1] = found[-1]._replace(value=terms.proved)
    if claimed.trust_model == "jdp":
        name, code = "policies, and all that other users do with them", code_of(curve_of)
        found.append(Step(name, "proved", {"proved": terms.proved}, terms.proved, _BILLBOARD, _MODELS, code))
    ratio, code = {"proved": terms.proved, "claimed": claimed.epsilon}, "dprl.privacy.verdicts:verdict"
    value, lemma = terms.proved / claimed.epsilon, "The claim holds if this is at most 1"
    return [*found, Step("compared with the claim", "proved / claimed", ratio, value, lemma, _PROVED, code)]


class _Part(NamedTuple):
    """Equal releases, the curve of one of them, and the law of their noise; for shuffled reports that of a report."""

    releases: tuple[ReleaseEvent, ...]
    curve: PrivacyCurve
    law: Any

    @property
    def channels(self) -> str:
        """Names of the channels."""
        return ", ".join(release.channel for release in self.releases)

    @property
    def number(self) -> int:
        """Number of releases, repeats included."""
        return len(self.releases) * self.releases[0].times

    @property
    def loss(self) -> tuple[str, float]:
        """Kind and size of the loss of all of them."""
        kind, n = _LOSSES[type(self.curve)].kind, len(self.releases)
        return kind, float(getattr(self.curve, kind)) * (math.sqrt(n) if kind == "mu" else n)

    @property
    def norm(self) -> str:
        """Norm of the change that decides the loss."""
        if isinstance(self.law, UnaryEncoder):
            return "vectors"
        return "L2" if self.loss[0] in ("mu", "rho") else "L1"

    @property
    def change(self) -> float:
        """Change of one release in that norm; 0 if the law bounds a loss instead."""
        if isinstance(self.law, SampledGaussian):
            return self.law.law.clip / 2.0
        if isinstance(self.law, GramMechanism) and self.law.release.clipped:
            change: Sensitivity | None = gram_sensitivity(self.law.release.dimension, self.law.release.bounds[0])
        else:
            change = self.releases[0].sensitivity or _change(self.law)
        if change is None:
            return 0.0
        return float(encodings(change)) if self.norm == "vectors" else float(getattr(change, self.norm.lower()))

    @property
    def together(self) -> float:
        """Change of all of them."""
        return self.change * (math.sqrt(self.number) if self.norm == "L2" else self.number)


def _parts(releases: Sequence[ReleaseEvent], which: int) -> list[_Part]:
    """Return the releases, equal ones as one part. which: of two bounds on a loss, 0 or -1."""
    equal: dict[Any, list[ReleaseEvent]] = {}
    for release in releases:
        equal.setdefault((release.mechanism, release.sensitivity, release.times), []).append(release)
    found = []
    for each in map(tuple, equal.values()):
        law: Any = each[0].mechanism
        curve = each[0].curve()
        if isinstance(law, ShuffledReports):
            law, curve = law.report, law.report.curve(cast("Sensitivity", each[0].sensitivity))
        found.append(_Part(each, bound_of(curve, which), law))
    return found


def _part_steps(part: _Part, terms: Terms, claimed: Guarantee, *, alone: bool) -> list[Step]:
    """Return the steps from the change of one release to the loss of all equal ones in one submission."""
    found = []
    if part.number > 1 and part.change:
        formula = "sqrt(channels) * change" if part.norm == "L2" else "channels * change"
        numbers = {"channels": float(part.number), "change": part.change}
        name = f"all {part.number} channels, {part.norm} ({part.channels})"
        found.append(Step(name, formula, numbers, part.together, _NORMS, _PROVED, code_of(curve_of)))
    if part.law is not None and terms.calibration != "composed":
        found.append(_scale_step(part, terms, claimed, alone=alone))
    kind, value = part.loss
    rule = _LOSSES[type(part.curve)]
    numbers = {name: number for name, number in _numbers(part.curve).items() if math.isfinite(number)}
    formula = rule.formula if "cap" in numbers else rule.formula.replace("min(n * epsilon_0, cap)", "n * epsilon_0")
    if len(part.releases) > 1 and not formula.startswith(SOLVED):
        formula = f"{'sqrt(channels)' if kind == 'mu' else 'channels'} * {formula}"
        numbers["channels"] = float(len(part.releases))
    for candidate, names in _losses(part):
        if math.isclose(candidate[1], value, rel_tol=1e-9):
            formula, numbers = candidate[0], names
            break
    name, code = f"{part.channels}: {_KINDS[kind]} of one submission", code_of(type(part.curve), "delta")
    return [*found, Step(name, formula, numbers, value, rule.lemma, _SOURCES, code)]


def _scale_step(part: _Part, terms: Terms, claimed: Guarantee, *, alone: bool) -> Step:
    """Return the step from the request to the parameter of a law that determines the amount of noise."""
    law = part.law
    name, value = _parameter(law)
    told = f"{part.channels}: {name} of the noise {law.name}"
    numbers = {"epsilon": claimed.epsilon, "delta": claimed.delta}
    if terms.calibration != "certified":
        module = "statistics_calibration" if isinstance(law, GramMechanism) else "printed"
        code = f"dprl.privacy.queries.{module}:PRINTED"
        return Step(told, f"printed {name}", numbers, value, terms.source, _MAP, code)
    lemma, place, code = "Least noise that meets the request", f"{_MODEL}#choosing-noise", code_of(type(law))
    coin, change = name == "epsilon_0", part.together * terms.submissions
    if (
        alone
        and change
        and not isinstance(law, GramMechanism)
        and math.isclose(value, claimed.epsilon / change if coin else change / claimed.epsilon)
    ):
        shown = {"change": part.together, "epsilon": claimed.epsilon}
        formula = "epsilon / change" if coin else "change / epsilon"
        if terms.submissions > 1:
            shown["submissions"] = float(terms.submissions)
            formula = f"{formula} / submissions" if coin else f"{formula} * submissions"
        return Step(told, formula, shown, value, lemma, place, code)
    formula = f"{'largest' if coin else 'least'} {name} that proves (epsilon, delta) in the steps below"
    return Step(told, formula, numbers, value, lemma, place, code)


def _losses(part: _Part) -> Iterator[tuple[tuple[str, float], dict[str, float]]]:
    """Yield formulas of a loss by change and noise with their values, and their numbers."""
    law, change = part.law, part.together
    if law is None or not change:
        return
    name, noise = _parameter(law)
    numbers = {"change": change, name.split()[0]: noise}
    if name == "epsilon_0":
        coins = isinstance(law, UnaryEncoder)
        yield (
            ("change * epsilon_0", change * noise) if coins else ("epsilon_0", noise),
            numbers if coins else {name: noise},
        )
        return
    sizes: dict[str, tuple[str, float]] = {
        "pure_epsilon": ("change / scale", change / noise),
        "mu": ("change / scale", change / noise),
        "rho": ("change**2 / (2 * scale**2)", change**2 / (2.0 * noise**2)),
        "multiplier": ("scale / change", noise / change),
    }
    kind = part.loss[0]
    formula, value = sizes.get(kind, ("", 0.0))
    yield (formula, value), numbers
    if not isinstance(law, GramMechanism) or not formula:
        return
    for factor, size, names in weights_of_stages(law.release, 2 if kind == "pure_epsilon" else 4):
        many = f"sqrt({factor})" if kind == "mu" else factor
        yield (f"{many} * {formula}", (math.sqrt(size) if kind == "mu" else size) * value), {**names, **numbers}


def weights_of_stages(release: GramRelease, power: int) -> Iterator[tuple[str, float, dict[str, float]]]:
    """Yield factors from the first stage of one message to all, for equal losses at all stages and for equal scales.

    power: of the bound m, in the size of a stage. Each factor comes with its value and its numbers.
    """
    first, n = release.bounds[0], float(release.n_messages)
    yield "messages * stages", n * release.sent_stages, {"messages": n, "stages": float(release.sent_stages)}
    names = {f"m{h}": m for h, m in enumerate(release.bounds, 1) if m > 0.0}
    terms = " + ".join(f"{name}**{power}" for name in names)
    yield f"messages * ({terms}) / m1**{power}", n * release.power_sum(power) / first**power, {"messages": n, **names}


def _composition(parts: Sequence[_Part], terms: Terms) -> list[Step]:
    """Return the step to all submissions and attempts; none if losses have no sum or there is only one."""
    (kind, *others), n = {part.loss[0] for part in parts}, len(parts)
    shuffled = any(isinstance(part.releases[0].mechanism, ShuffledReports) for part in parts)
    times = {"submissions": float(terms.submissions), "attempts": float(terms.attempts)}
    factors = {name: value for name, value in times.items() if value > 1.0}
    if others or kind not in _SUMS or shuffled or terms.groups or (n == 1 and not factors):
        return []
    losses = {f"loss_{i}" if n > 1 else "loss": part.loss[1] for i, part in enumerate(parts, 1)}
    square, number = kind == "mu", math.prod(factors.values())
    summed = " + ".join(f"{name}**2" if square else name for name in losses)
    formula = " * ".join([f"({summed})" if n > 1 and factors else summed, *factors])
    value = number * math.fsum(loss**2 if square else loss for loss in losses.values())
    name, code = f"all releases of one user together: {_KINDS[kind]}", code_of(curve_of)
    formula, value = (f"sqrt({formula})", math.sqrt(value)) if square else (formula, value)
    return [Step(name, formula, {**losses, **factors}, value, _SUMS[kind], _PROVED, code)]


def _conversion(curve: PrivacyCurve, delta: float, terms: Terms) -> Step:
    """Return the step from the total loss to epsilon at the claimed delta."""
    name, code = f"epsilon at the claimed delta: {curve.method}", code_of(type(curve), "epsilon")
    if terms.groups:
        numbers, formula = (
            {"groups": float(len(terms.groups)), "delta": delta},
            "largest epsilon of a group of releases",
        )
        return Step(name, formula, numbers, terms.proved, _DISJOINT, _SOURCES, code)
    numbers = {key: value for key, value in _numbers(curve).items() if math.isfinite(value)} | {"delta": delta}
    known = isinstance(curve, GaussianDP)
    condition = "Phi(mu / 2 - epsilon / mu) - e**epsilon * Phi(-mu / 2 - epsilon / mu)" if known else "delta(epsilon)"
    rule = _LOSSES[type(curve)]
    lemma = rule.at_delta or rule.lemma
    return Step(name, f"least epsilon with {condition} <= delta", numbers, terms.proved, lemma, _SOURCES, code)


class _Rule(NamedTuple):
    """Kind of a loss, its formula in the curve's numbers, its lemma, and the lemma for epsilon if that is another."""

    kind: str
    formula: str
    lemma: str
    at_delta: str = ""


_ADAPTIVE = (
    "Sums for users who react to earlier ones, adaptive streams: Denisov, McMahan, Rush, Smith, Thakurta 2022, "
    "Theorem 2.1, for Gaussian noise; Lemma A for all"
)
_NORMS = "All numbers of one user, each with noise of its own, are one vector: L1 norms and squared L2 norms add up"
_LOSS_SUMS = "Adaptive composition, sums of privacy losses: Zhu, Dong, Wang 2022, Theorem 10"
_BILLBOARD = "Post-processing, and billboard lemma: Hsu, Huang, Roth, Roughgarden, Wu 2016, Lemma 9"
_DISJOINT = "Parallel composition: McSherry 2009, Theorem 4"
_RESPONSES = "Adaptive composition of randomized responses: Kairouz, Oh, Viswanath 2015, Theorem 3.3"
_LOSSES: dict[type[PrivacyCurve], _Rule] = {
    PureDP: _Rule("pure_epsilon", "epsilon_0", "Pure loss of one message, by the mechanism's class", _RESPONSES),
    RandomizedResponses: _Rule(
        "pure_epsilon", "min(n * epsilon_0, cap)", "Equal losses: Kairouz, Oh, Viswanath 2015, Theorem 3.3", _RESPONSES
    ),
    LaplaceLoss: _Rule(
        "pure_epsilon", "pure", "Laplace mechanism: Dwork, McSherry, Nissim, Smith 2006, Proposition 1", _LOSS_SUMS
    ),
    RoundedGaussianLoss: _Rule("mu", "l2 / sigma", "Rounded Gaussian: Peikert 2010, Theorem 3.1"),
    OneHotResponses: _Rule("pure_epsilon", "n * epsilon_0", "One-hot vectors: Wang, Blocki, Li, Jha 2017, sec. 4"),
    GaussianDP: _Rule("mu", "mu", "Gaussian mechanism: Balle, Wang 2018, Theorem 8"),
    DiscreteGaussianLoss: _Rule(
        "rho", "n / (2 * sigma**2)", "Discrete Gaussian: Canonne, Kamath, Steinke 2020, Theorem 7"
    ),
    ZCDP: _Rule("rho", "rho", "Concentrated loss: Canonne, Kamath, Steinke 2020, Proposition 12"),
    ComposedLoss: _Rule("pure_epsilon", "pure", _LOSS_SUMS),
    ApproximateLoss: _Rule("delta_0", "delta_0", "Noise on a bounded interval: Lemma E"),
    ShuffledLoss: _Rule("epsilon_0", "epsilon_0", "Clones: Feldman, McMillan, Talwar 2021, Theorem 3.2"),
    SampledGaussianLoss: _Rule("multiplier", "multiplier", "Poisson sampling: Zhu, Dong, Wang 2022"),
    MaximumCurve: _Rule("pure_epsilon", "pure_epsilon", _DISJOINT),
    Unbounded: _Rule("pure_epsilon", "largest loss", "Without noise, or without clips, no epsilon is finite"),
}
"""Rules by the curve of equal releases."""
_SUMS = {
    "pure_epsilon": _LOSS_SUMS,
    "mu": "Adaptive composition of Gaussian noise: Dong, Roth, Su 2022, Corollary 3.3 of arXiv:1905.02383",
    "rho": "Adaptive composition of concentrated losses: Bun, Steinke 2016, Lemma 2.3",
}
"""Lemmas of sums, by kind of loss."""
_KINDS = {
    "pure_epsilon": "pure epsilon",
    "mu": "mu",
    "rho": "rho",
    "delta_0": "delta",
    "epsilon_0": "pure epsilon",
    "multiplier": "noise multiplier",
}


def _change(law: Any) -> Sensitivity | None:  # noqa: ANN401
    """Return the sensitivity that a law of whole messages bounds itself."""
    found = getattr(law, "sensitivity", None)
    return found if isinstance(found, Sensitivity) else None


def _parameter(law: Any) -> tuple[str, float]:  # noqa: ANN401
    """Return the parameter that determines a law's amount of noise: a scale, or the epsilon of one coin."""
    law = law.law if isinstance(law, SampledGaussian) else law
    for name in ("additive", "bit", "encoding"):
        law = getattr(law, name, law)
    if scales := getattr(law, "scales", ()):
        return "scale of the first stage", float(scales[0])
    name = "scale" if getattr(law, "scale", None) else "epsilon"
    return name.replace("epsilon", "epsilon_0"), float(getattr(law, name))


def _numbers(curve: PrivacyCurve) -> dict[str, float]:
    """Return the numbers that a curve is made of."""
    return {k: float(v) for k, v in vars(curve).items() if isinstance(v, int | float) and not isinstance(v, bool)}
