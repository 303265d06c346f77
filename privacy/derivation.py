"""Derivation of the noise of a run, step by step, from the request to the verdict, as data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

from dprl.privacy.accounting.curves import (
    ZCDP,
    ApproximateLoss,
    GaussianDP,
    MinimumCurve,
    OptimizedUnaryEncodings,
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
from dprl.privacy.mechanisms.sampled import SampledGaussian
from dprl.privacy.mechanisms.shuffled import ShuffledReports
from dprl.privacy.verdicts import in_json

_MODEL, _MAP = "docs/privacy_model.md", "docs/paper_map.md"
SOLVED = ("least ", "largest ", "printed ")
"""First words of formulas that are no expressions: the step's code solves them, or a paper prints the number."""


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
    """The claim that the noise is held against, and the origin of its scale.

    claimed: None where nothing is claimed. calibration, source: of the scale, as in `PrivacyRequest`. submissions,
    attempts: how often one user takes part in every release. proved: epsilon at the claimed delta. groups: the
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
    """Return the step from one user's row to the numbers that a counter noises, in a norm."""
    changed, axis = counter.sensitivity(row), "l1" if norm == "l1" else "l2"
    before, after = float(getattr(row, axis)), float(getattr(changed, axis))
    lemma, place, code = "Sensitivity of the counter", "docs/counters.md", code_of(counter, "sensitivity")
    name = f"change of all noised numbers of the counter {counter.name}, {norm.upper()}"
    if isinstance(counter, Tree):
        formula = "row * levels" if norm == "l1" else "row * sqrt(levels)"
        return Step(name, formula, {"row": before, "levels": counter.levels}, after, lemma, place, code)
    return Step(name, "row * column", {"row": before, "column": after / before}, after, lemma, place, code)


def steps_from_ledger(releases: Sequence[ReleaseEvent], terms: Terms) -> list[Step]:
    """Return the steps from the releases of one submission to the verdict on the claim."""
    claimed, times = terms.claimed, terms.submissions * terms.attempts
    if claimed is None:
        return []
    found = [step for release in releases for step in _release_steps(release, releases, terms, claimed)]
    pure = [release.curve().pure_epsilon for release in releases]
    curve = curve_of(releases, times, terms.groups)
    counts = {"submissions": float(terms.submissions), "attempts": float(terms.attempts)}
    formula, numbers = "least epsilon with delta(epsilon) <= delta", {**counts, "delta": claimed.delta}
    if claimed.delta == 0.0 and math.isfinite(math.fsum(pure)) and not terms.groups:
        formula, numbers = "losses * submissions * attempts", {"losses": math.fsum(pure), **counts}
    name = f"all releases of one user together: {curve.method}"
    lemma, code = "Composition, adaptive", code_of(curve_of)
    composed = Step(name, formula, numbers, terms.proved, lemma, f"{_MODEL}#claimed-proved-measured", code)
    ratio = {"proved": terms.proved, "claimed": claimed.epsilon}
    lemma, code = "Verdict: holds for at most 1, at the claimed delta", "dprl.privacy.verdicts:verdict"
    factor = terms.proved / claimed.epsilon
    held = Step(
        "held against the claim", "proved / claimed", ratio, factor, lemma, f"{_MODEL}#claimed-proved-measured", code
    )
    return [*found, composed, held]


def _release_steps(
    release: ReleaseEvent, releases: Sequence[ReleaseEvent], terms: Terms, claimed: Guarantee
) -> list[Step]:
    """Return the steps from the request to the scale of each law, and from there to the loss of one submission."""
    if release.mechanism is None:
        return [_loss_step(release, None)]
    law = release.mechanism.report if isinstance(release.mechanism, ShuffledReports) else release.mechanism
    laws = getattr(law, "parts", (law,))
    l1 = math.fsum(each.sensitivity.l1 for each in releases if each.sensitivity) or getattr(_change(laws[0]), "l1", 0.0)
    scales = [_scale_step(release.channel, each, l1, terms, claimed) for each in laws]
    return [*scales, _loss_step(release, laws[0])]


def _scale_step(channel: str, law: Any, l1: float, terms: Terms, claimed: Guarantee) -> Step:  # noqa: ANN401
    """Return the step from the request to the number that sets how much noise a law has."""
    name, value = _parameter(law)
    told = f"{channel}: {name} of {law.name}"
    numbers = {"epsilon": claimed.epsilon, "delta": claimed.delta}
    if terms.calibration != "certified":
        module = "statistics_calibration" if isinstance(law, GramMechanism) else "printed"
        code = f"dprl.privacy.queries.{module}:PRINTED"
        return Step(told, f"printed {name}", numbers, value, terms.source, _MAP, code)
    lemma, place, code = "Least noise that meets the request", f"{_MODEL}#choosing-noise", code_of(type(law))
    if math.isclose(l1 * terms.submissions / claimed.epsilon, value, rel_tol=1e-9):
        shown = {"l1": l1, "submissions": float(terms.submissions), "epsilon": claimed.epsilon}
        return Step(told, "l1 * submissions / epsilon", shown, value, "Laplace mechanism", place, code)
    word = "largest" if name == "epsilon_0" else "least"
    return Step(told, f"{word} {name} with delta(epsilon) <= delta", numbers, value, lemma, place, code)


def _loss_step(release: ReleaseEvent, law: Any) -> Step:  # noqa: ANN401
    """Return the step from the scale to the loss of one submission."""
    curve = release.curve()
    formula, attribute, lemma = _LOSSES[type(curve)]
    value, numbers = float(getattr(curve, attribute)), _numbers(curve) or {"pure_epsilon": curve.pure_epsilon}
    change = release.sensitivity or _change(law)
    scale = float(getattr(getattr(law, "additive", law), "scale", 0.0) or 0.0)
    if change is not None and scale > 0.0:
        candidates = (
            ("l1 / scale", {"l1": change.l1, "scale": scale}, change.l1 / scale),
            ("l2 / scale", {"l2": change.l2, "scale": scale}, change.l2 / scale),
            ("l2**2 / (2 * scale**2)", {"l2": change.l2, "scale": scale}, change.l2**2 / (2.0 * scale**2)),
        )
        told = ((a, b) for a, b, found in candidates if math.isclose(found, value, rel_tol=1e-12))
        formula, numbers = next(told, (formula, numbers))
    name = f"{release.channel}: {attribute.replace('_', ' ')} of one submission"
    return Step(name, formula, numbers, value, lemma, f"{_MAP}#other-sources", code_of(type(curve), "delta"))


_LOSSES: dict[type[PrivacyCurve], tuple[str, str, str]] = {
    PureDP: ("epsilon_0", "pure_epsilon", "Pure loss: Kairouz, Oh, Viswanath 2015, Theorem 3.3"),
    RandomizedResponses: (
        "min(n * epsilon_0, cap)", "pure_epsilon", "Equal losses: Kairouz, Oh, Viswanath 2015, Theorem 3.3"
    ),
    LaplaceLoss: ("pure", "pure_epsilon", "Losses of all changed numbers: Dwork, McSherry, Nissim, Smith 2006"),
    RoundedGaussianLoss: ("l2 / sigma", "mu", "Rounded Gaussian: Peikert 2010, Theorem 3.1"),
    OptimizedUnaryEncodings: ("n * epsilon_0", "pure_epsilon", "Unary encoding: Wang, Blocki, Li, Jha 2017"),
    GaussianDP: ("mu", "mu", "Gaussian mechanism: Balle, Wang 2018, Theorem 8"),
    DiscreteGaussianLoss: (
        "n / (2 * sigma**2)", "rho", "Discrete Gaussian: Canonne, Kamath, Steinke 2020, Theorem 7"
    ),
    ZCDP: ("rho", "rho", "Concentrated loss: Canonne, Kamath, Steinke 2020, Proposition 12"),
    MinimumCurve: ("least of several bounds", "pure_epsilon", "Every bound holds, so the least does"),
    ApproximateLoss: ("delta_0", "delta_0", "Noise on a bounded interval: Lemma E"),
    ShuffledLoss: ("epsilon_0", "epsilon_0", "Clones: Feldman, McMillan, Talwar 2021, Theorem 3.2"),
    SampledGaussianLoss: ("multiplier", "multiplier", "Poisson sampling: Zhu, Dong, Wang 2022"),
    Unbounded: ("pure_epsilon", "pure_epsilon", "Without noise, or without clips, no epsilon is finite"),
}  # fmt: skip
"""By class of the curve of one release: the formula of its own numbers, its loss, the lemma."""


def _change(law: Any) -> Sensitivity | None:  # noqa: ANN401
    """Return the sensitivity that a law of whole messages bounds itself."""
    found = getattr(law, "sensitivity", None)
    return found if isinstance(found, Sensitivity) else None


def _parameter(law: Any) -> tuple[str, float]:  # noqa: ANN401
    """Return the number that sets how much noise a law has: a scale, or the epsilon of one coin."""
    law = law.law if isinstance(law, SampledGaussian) else law
    for name in ("additive", "bit", "encoding"):
        law = getattr(law, name, law)
    if scales := getattr(law, "scales", ()):
        return "scale of the first stage", float(scales[0])
    name = "scale" if getattr(law, "scale", None) else "epsilon"
    return name.replace("epsilon", "epsilon_0"), float(getattr(law, name))


def _numbers(curve: PrivacyCurve) -> dict[str, float]:
    """Return the numbers that a curve is made of."""
    values: dict[str, Any] = (
        {field.name: getattr(curve, field.name) for field in fields(curve)} if is_dataclass(curve) else {}
    )
    return {k: float(v) for k, v in values.items() if isinstance(v, int | float) and not isinstance(v, bool)}
