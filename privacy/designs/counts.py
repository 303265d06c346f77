"""Noise on counts of episodes: what a config's `privacy` section says, and the least noise that meets it.

Read `CountPrivacy.design` first: the paper's noise and each trust model are one function below it. Then the calibration
of a server's counter and of users' reports, the scales that papers print, and the size of the noise for certificates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Literal, cast

from dprl.privacy.accounting.amplification import local_epsilon
from dprl.privacy.base import TrustModel, check_whole
from dprl.privacy.counters import COUNTERS, BinaryTree, ExactCounter
from dprl.privacy.counters.base import node_of
from dprl.privacy.counters.selection import calibrated_of, choose
from dprl.privacy.designs.base import AUTO, MET_BY_CERTIFIED, NODE_LAWS, NODE_NAMES, PrivacySettings, ReleaseTimes
from dprl.privacy.mechanisms import ADDITIVE, ENCODINGS
from dprl.privacy.mechanisms.base import INTEGER, Mechanism
from dprl.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.mechanisms.reports import SAMPLED_PREFIX, UnaryEncoder
from dprl.privacy.noise_design import NoiseDesign
from dprl.privacy.queries.count_layout import RELEASED_FAMILIES, CountEncoding, CountFamilies
from dprl.privacy.queries.counts import CountQuery, PrintedError
from dprl.privacy.randomness.streams import NoiseConfig
from dprl.privacy.schedule import ReleaseSchedule

Report = Mechanism | UnaryEncoder
_MOST_SHUFFLED = 10**12


@dataclass(frozen=True)
class CountPrivacy(PrivacySettings[CountFamilies, CountQuery]):
    """Privacy of counts of episodes; neighbours differ in one user's trajectory.

    Where the noise comes from: a scale is the change by one user over epsilon. Two trajectories differ in at most 2 H
    cells of each of F families that are sent, by 1 each (H steps; D3: the papers count H). So Laplace noise on a report
    has the scale b = 2 H F / epsilon; with a counter, where a user enters L nodes of each cell, b = 2 H F L / epsilon.
    Separate families have F = 3; one-hot families, the default, F = 1. With a delta, or for other laws, b is the least
    scale whose privacy curve meets (epsilon, delta). By default, jdp takes the best counter (with delta = 0 usually
    kary_tree, whose L is the number of its levels), and ldp the best report, usually one randomized one-hot row of one
    step, sampled_optimized_unary_encoding, and no Laplace noise.

    *Formal guarantee.* `jdp`, joint differential privacy: a trusted server keeps exact counts and releases noisy
    running counts. `certified`: (epsilon, delta)-JDP by the counter's guarantee and the billboard lemma. `printed`: the
    paper's node scale, which proves 2 L / ln K times epsilon for K users.

    `ldp`, local differential privacy: every user randomizes their report before it leaves. `certified`: (epsilon,
    delta)-LDP for any two trajectories. `printed`: the paper's scale 3 H / epsilon; it proves exactly 2 epsilon.

    `shuffle`: every report is epsilon_0-LDP, and the server sees a block's reports in random order only. Users between
    two plans are a block, and no plan is made before a block is full. (epsilon, delta)-DP of everything that the server
    and everyone outside the block see, by `ShuffledLoss`: a user is in one block, whose policy is a function of earlier
    blocks. Without the shuffler, epsilon_0-LDP. The last bits of a float64 sum reveal the order of its terms, so noise
    from the operating system, for real users, must be whole-number noise.

    Args:
        calibration: source of the scale; a printed one has the paper's separate families, laplace, and binary_tree.
        precision: source of the error bound E: exact for the noise that is drawn, or printed by the paper.
        families: families that get noise: 'separate' or 'one_hot', see count_layout.py; unary encodings need
            'one_hot'. 'auto': 'one_hot' where the counts allow it, for the least noise on transitions.
        mechanism: the noise of a report, 'auto': the one that detects visits best; with a counter, the noise of its
            nodes, 'auto': the one with the smaller variance.
        counter: a counter's name, or 'auto' for the one with the smallest error.
        releases: 'scheduled': the counter is built for only the releases that plans read (with `replan_growth` above 0
            and certified noise), so L = floor(log2 n) + 1 in a binary tree of n releases; 'every_user': for a release
            after every user.
        smallest_block: minimum of users shuffled together; the first plan waits for this many.

    Examples:
        >>> from dprl.privacy import CountFamily
        >>> visits = CountFamilies(5, (CountFamily("visits", 6),))
        >>> tree = CountPrivacy("jdp", 1.0, counter="binary_tree").design(visits, 1000, NoiseConfig())
        >>> tree.releases[0].mechanism  # 2 H F L / epsilon with H = 5, F = 1 and L = 10
        Laplace(scale=100.0)

    Paper: [CZ22] Lemmas 3 and 4; Feldman, McMillan, Talwar 2021, *Hiding Among the Clones*.
    """

    calibration: Literal["certified", "printed"] = "certified"
    precision: Literal["exact", "printed"] = "exact"
    families: str = AUTO
    mechanism: str = AUTO
    counter: str = AUTO
    releases: ReleaseTimes = "scheduled"
    smallest_block: int = 10_000
    data: ClassVar[str] = "counts"
    KEYS: ClassVar[dict[TrustModel, tuple[str, ...]]] = {
        "none": (),
        "jdp": ("calibration", "precision", "families", "mechanism", "counter", "releases"),
        "shuffle": ("mechanism", "smallest_block"),
        "ldp": ("calibration", "precision", "families", "mechanism"),
    }

    @classmethod
    def names(cls, model: TrustModel) -> dict[str, Sequence[str]]:
        if model == "none":
            return {}
        found = {"families": [*RELEASED_FAMILIES, AUTO], "mechanism": NODE_NAMES, "counter": [*COUNTERS, AUTO]}
        return found if model == "jdp" else {**found, "mechanism": report_names(pure=model == "shuffle")}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model == "shuffle" and self.delta <= 0.0:
            raise ValueError(f"delta must be above 0 with model shuffle, got {self.delta}; add delta: 1e-6")
        check_whole("smallest_block", self.smallest_block, 1, _MOST_SHUFFLED, "take 10000")
        if self.calibration == "printed":
            self._check_printed()

    def _check_printed(self) -> None:
        separate = ("separate", AUTO)
        self._require("the printed calibration", "use calibration: certified", delta=(0,), families=separate)
        if self.counter not in (AUTO, BinaryTree.name) or self.mechanism not in (AUTO, Laplace.name):
            given = f"counter {self.counter} and mechanism" if self.model == "jdp" else "mechanism"
            tree = "binary_tree with laplace" if self.model == "jdp" else "laplace"
            rule = f"calibration must be certified with {given} {self.mechanism}"
            raise ValueError(f"{rule}, got 'printed'; the papers print a scale for {tree} only")

    @property
    def printed(self) -> bool:
        """Whether the noise or its error bound is a paper's; 'auto' then stands for what the paper has."""
        return "printed" in (self.calibration, self.precision)

    def design(
        self, data: CountFamilies, n_users: int, noise: NoiseConfig, growth: float = 0.0
    ) -> NoiseDesign[CountQuery]:
        """Return the noise: none, as printed, of a server's counter, of reports, or of shuffled reports."""
        exact, why = noise.arithmetic == "exact", ""
        if self.model == "none":
            query = CountQuery(CountEncoding(data), None, ExactCounter(n_users))
            return self._designed(query, data, n_users, noise)
        encoding, source = self._encoding(data, exact), f"{MET_BY_CERTIFIED}scale"
        if self.calibration == "printed":
            query, source = self._printed(encoding, n_users, noise)
        elif self.model == "jdp":
            query, why = self._central(encoding, n_users, growth, exact)
        elif self.model == "ldp":
            law = Laplace.name if self.printed and self.mechanism == AUTO else self.mechanism
            report, why = least_report(law, self.epsilon, self.delta, encoding, n_users, exact)
            query = CountQuery(encoding, report, ExactCounter(n_users))
        else:
            query, why = self._shuffled(encoding, n_users, growth, noise)
        if self.precision == "printed":
            self._lemma(data, noise, "precision", "exact")
            query = replace(query, printed=PRINTED_ERRORS[self.model])
        origin = {"source": source, "calibration": self.calibration, "choice": why}
        design, step = self._designed(query, data, n_users, noise, growth, **origin), 1e-6
        # The certificate composes families one by one, whose roundings add up to more than those of their joint row.
        while (
            self.calibration == "certified"
            and isinstance(query.counter.node, DiscreteGaussian)
            and design.curve(self.submissions).epsilon(self.delta) > self.epsilon
        ):
            node, step = DiscreteGaussian(query.counter.node.scale * (1.0 + step)), 2.0 * step
            query = replace(query, counter=replace(cast("Any", query.counter), node=node))
            design = self._designed(query, data, n_users, noise, growth, **origin)
        return design

    def _encoding(self, data: CountFamilies, exact: bool) -> CountEncoding:
        """Return the encoding; 'auto' is `one_hot`, whose row changes least, if families and paper allow it."""
        law = ADDITIVE.get(self.mechanism)
        # Whole-number noise hides only whole numbers, even with arithmetic: fast.
        whole = exact or (law is not None and law.arithmetic == INTEGER)
        kind = "one_hot" if self.model == "shuffle" else self.families
        if kind != AUTO:
            return CountEncoding(data, kind, whole=whole)
        if not self.printed:
            with suppress(ValueError):
                return CountEncoding(data, "one_hot", whole=whole)
        return CountEncoding(data, "separate", whole=whole)

    def _printed(self, encoding: CountEncoding, n_users: int, noise: NoiseConfig) -> tuple[CountQuery, str]:
        """Return the paper's noise, for a release after every user, and the name of its lemma."""
        data = encoding.needed
        source = self._lemma(data, noise, "calibration", "certified")
        law = Laplace(printed_scale(self.model, len(data.families), data.n_steps, n_users, self.epsilon))
        if self.model == "jdp":
            return CountQuery(encoding, None, BinaryTree(n_users, law)), source
        return CountQuery(encoding, law, ExactCounter(n_users)), source

    def _central(self, encoding: CountEncoding, n_users: int, growth: float, exact: bool) -> tuple[CountQuery, str]:
        """Return the server's counter of least noise on its schedule, and the reason if there was a choice."""
        # Only releases that plans read need an item of the counter.
        scheduled = growth != 0.0 and self.releases == "scheduled"
        schedule = ReleaseSchedule(growth, n_users) if scheduled else None
        name, law = self.counter, self.mechanism
        if self.printed:  # its error bound
            name, law = BinaryTree.name if name == AUTO else name, Laplace.name if law == AUTO else law
        laws = additive_laws(law, self.delta, exact)
        released, n_items = encoding.released, n_users if schedule is None else schedule.number
        # Everything that one user adds to the sums: the families together.
        row = released.row(len(released.families))
        if AUTO not in (name, law):
            counter, why = calibrated_of(name, laws[0], self.epsilon, self.delta, row, n_items, released.n_cells)
        else:
            names = tuple(COUNTERS) if name == AUTO else (name,)
            counter, _, why = choose(names, tuple(laws), self.epsilon, self.delta, row, n_items, released.n_cells)
            why = why if name == AUTO else ""
        return CountQuery(encoding, None, counter, schedule), why

    def _shuffled(
        self, encoding: CountEncoding, n_users: int, growth: float, noise: NoiseConfig
    ) -> tuple[CountQuery, str]:
        """Return reports with the largest epsilon_0 for which the smallest block meets the guarantee."""
        if n_users < self.smallest_block:
            rule = f"smallest_block must be at most {n_users}, the users who send a report"
            raise ValueError(f"{rule}, got {self.smallest_block}; run more episodes, or lower it")
        each = local_epsilon(self.epsilon, self.delta, self.smallest_block)
        report, why = least_report(self.mechanism, each, 0.0, encoding, n_users, noise.arithmetic == "exact")
        if noise.entropy == "os" and (report.arithmetic != INTEGER or isinstance(report, UnaryEncoder)):
            wrong = f"mechanism must be discrete_laplace with model shuffle and entropy: os, got {self.mechanism!r}"
            raise ValueError(f"{wrong}; write it, as the rounding of a sum in float64 reveals the order of the reports")
        told = f"reports of epsilon {each:.4g} in blocks of {self.smallest_block} users or more"
        schedule = ReleaseSchedule(growth, n_users, self.smallest_block)
        query = CountQuery(encoding, report, ExactCounter(n_users), schedule, shuffled=True)
        return query, "; ".join(filter(None, [told, why]))

    def _lemma(self, families: CountFamilies, noise: NoiseConfig, key: str, otherwise: str) -> str:
        """Return the name of the paper's lemma; `otherwise` is the value of `key` to recommend if it prints none."""
        lemma = LEMMAS.get((families.paper, self.model))
        if lemma is None:
            raise ValueError(f"{key} must be {otherwise} here, got printed; no paper prints one for these counts")
        if noise.arithmetic == "exact":
            wrong = f"{key} must be {otherwise} with arithmetic: exact, got printed"
            raise ValueError(f"{wrong}; papers print real numbers: write arithmetic: fast, or {key}: {otherwise}")
        if key == "precision" and families.paper not in PAPERS_WITH_ERRORS:
            raise ValueError(f"precision must be exact here, got printed; {lemma} gives its bound up to a constant")
        return lemma

    def summary(self, design: NoiseDesign[CountQuery]) -> dict[str, Any]:
        query = design.query
        if query is None or design.requested is None:
            return {}
        epsilon, delta = self.epsilon, self.delta
        if query.shuffled:  # the best noise is that of reports with the same loss
            epsilon, delta = design.releases[0].curve().pure_epsilon, 0.0
        return noise_summary(epsilon, delta, query, design.noise.arithmetic == "exact")


# ---- the least noise of a kind ----


def report_names(*, pure: bool = False) -> list[str]:
    """Return the names for `mechanism` in the local model; pure: only those of laws with a pure guarantee."""
    additive = [law.name for law in NODE_LAWS if law.pure or not pure]
    return [*additive, *(SAMPLED_PREFIX + name for name in ENCODINGS), AUTO]


def additive_laws(name: str, delta: float, exact: bool) -> list[type[Mechanism]]:
    """Return the additive mechanisms that a config's `mechanism` stands for; raise ValueError if a delta is missing."""
    if name == AUTO:
        laws = [law for law in NODE_LAWS if (law.arithmetic == INTEGER) == exact]
        return [law for law in laws if delta > 0.0 or law.pure]
    law = ADDITIVE[name]
    if not law.pure and delta <= 0.0:
        pure = ", ".join(law.name for law in NODE_LAWS if law.pure)
        rule = f"mechanism must have pure privacy without a delta, as {pure}"
        raise ValueError(f"{rule}, got {name!r}; Gaussian noise needs a delta above 0: add delta: 1e-6")
    whole = {law.replaces: law for law in ADDITIVE.values()} if exact else {}
    return [whole.get(name, law)]


def least_report(
    mechanism: str, epsilon: float, delta: float, encoding: CountEncoding, n_users: int, exact: bool
) -> tuple[Report, str]:
    """Return the report that a name stands for; for 'auto' that of least `detection_threshold`, with the reason."""
    if mechanism != AUTO:
        return _report(mechanism, epsilon, delta, encoding, exact), ""
    (visits, best), *others = ranked_reports(epsilon, delta, encoding, n_users, exact)
    which = "the largest" if encoding.needed.by_bound else "their"
    text = f"{best.name}: counts of visits exceed {which} standard deviation from {visits:.4g} visits on"
    return best, text + (f"; next: {others[0][1].name}, {others[0][0]:.4g}" if others else "")


def ranked_reports(
    epsilon: float, delta: float, encoding: CountEncoding, n_users: int, exact: bool
) -> list[tuple[float, Report]]:
    """Return the reports that can meet the guarantee with their thresholds, best first; ValueError if none can."""
    names = [law.name for law in additive_laws(AUTO, delta, exact)]
    if _one_hot(encoding):
        names += [SAMPLED_PREFIX + name for name in ENCODINGS]
    found, refusals = [], []
    for name in names:
        try:
            found.append(_report(name, epsilon, delta, encoding, exact))
        except ValueError as error:  # The scale may be too small or too large for the law.
            refusals.append(error)
    if not found:
        raise refusals[-1]
    return sorted(((detection_threshold(each, encoding, n_users), each) for each in found), key=lambda pair: pair[0])


def _report(name: str, epsilon: float, delta: float, encoding: CountEncoding, exact: bool) -> Report:
    released = encoding.released
    if name in ADDITIVE:
        return additive_laws(name, delta, exact)[0].calibrated(epsilon, delta, released.row(len(released.families)))
    if not _one_hot(encoding):
        raise ValueError(f"mechanism must be additive unless a step sends one cell, got {name}; use families: one_hot")
    row = ENCODINGS[name.removeprefix(SAMPLED_PREFIX)].calibrated(epsilon, delta, released.block)
    return UnaryEncoder(row, released.n_steps, released.block)


def _one_hot(encoding: CountEncoding) -> bool:
    """Whether a user sends exactly one cell of one family at every step, for any data on the device."""
    return encoding.integral and len(encoding.released.families) == 1 and encoding.released.families[0].indicator


def detection_threshold(report: Report, encoding: CountEncoding, n_users: int) -> float:
    """Return the number N of visits whose released count, after all n users, has the standard deviation N.

    The variance of this count is N (1 + v - u) + n u. A user adds the variance v to a count of visits that they enter
    and u to each of the others (of all steps, if they are pooled), and N is the variance of the visits themselves. With
    additive noise v = u. A large n u hides rare visits, needed for exploration, and a large v blurs frequent ones. For
    families `by_bound`, N is the largest standard deviation of the noise on any count: that of a count that all n users
    visit, in the number of pooled steps that makes it largest.
    """
    needed = encoding.needed
    summands = max((encoding.summands(family) for family in needed.families if family.indicator), default=1)
    sampled = isinstance(report, UnaryEncoder)
    own, other = report.variances(summands) if isinstance(report, UnaryEncoder) else (summands * report.variance,) * 2
    bits = encoding.released.n_steps // encoding.released.layers if sampled else 1
    slope, hidden = 1.0 + own - other, n_users * other * bits
    if needed.by_bound:
        # A report has one step only, so a user's h visits are dependent: h (h - 1) less variance.
        most = max(h * (own - other) - sampled * h * (h - 1) for h in range(1, bits + 1))
        return math.sqrt(n_users * most + hidden)
    return (slope + math.sqrt(slope**2 + 4.0 * hidden)) / 2.0


# ---- scales and error bounds as papers print them ----
# They can be run and certified, but not all are correct: docs/paper_map.md has a proof about each.


def printed_scale(model: TrustModel, n_families: int, horizon: int, n_users: int, epsilon: float) -> float:
    """Return the Laplace scale b for K = n_users + 1 episodes: F H log K / epsilon on nodes, F H / epsilon on reports.

    Paper: [CZ22] Lemmas 3 and 4, with three families; [QW24] Lemmas 5.1 and 5.4, with two.
    """
    # D1, D2: [CZ22] prints Lap(1/eps') with eps' = 3H log K / eps and 3H / eps: inverted, as its bounds E show.
    return n_families * horizon * (math.log(n_users + 1) if model == "jdp" else 1.0) / epsilon


def printed_central_error(scale: float, n_users: int, n_cells: int, beta: float) -> float:
    """Return the error bound E of [CZ22] Lemma 3."""
    return scale * math.sqrt(8.0 * math.log(n_users + 1) * math.log(6.0 * n_cells * (n_users + 1) / beta))


def printed_local_error(scale: float, n_users: int, n_cells: int, beta: float) -> float:
    """Return the error bound E of [CZ22] Lemma 4."""
    return scale * math.sqrt(8.0 * (n_users + 1) * math.log(6.0 * n_cells * (n_users + 1) / beta))


LEMMAS: dict[tuple[str, TrustModel], str] = {
    ("[CZ22]", "jdp"): "[CZ22] Lemma 3",
    ("[CZ22]", "ldp"): "[CZ22] Lemma 4",
    ("[QW24]", "jdp"): "[QW24] Lemma 5.1",
    ("[QW24]", "ldp"): "[QW24] Lemma 5.4",
}
"""Names of lemmas by the `paper` of the count families and by trust model."""
PRINTED_ERRORS: dict[TrustModel, PrintedError] = {"jdp": printed_central_error, "ldp": printed_local_error}
PAPERS_WITH_ERRORS = ("[CZ22]",)
"""[QW24] leaves the constant open."""


# ---- the size of the noise, for certificates ----


@lru_cache(maxsize=4096)  # the cells of a sweep share them
def noise_summary(epsilon: float, delta: float, query: CountQuery, exact: bool) -> dict[str, Any]:
    """Return 'error' and 'best_available' for a certificate; callers share the result and copy it.

    Errors are standard deviations of one cell of the first family: the root mean square over episodes, or the releases
    of a counter, and the maximum. exact: whether the best noise must be whole-number noise.
    """
    encoding, counter, report = query.encoding, query.counter, query.report
    family, users = encoding.needed.families[0], counter.n_items
    summands, (rms, largest) = encoding.summands(family), (0.0, 0.0)
    if report is not None:
        one = math.sqrt(encoding.report_variance(report, summands))
        rms, largest = one * math.sqrt((users + 1) / 2.0), one * math.sqrt(users)
    elif counter.node is not None:
        node = math.sqrt(counter.node.variance * summands)
        rms, largest = (node * each for each in counter.errors())
    error = {"family": family.name, "rms": rms, "max": largest}
    best = best_of_all(epsilon, delta, encoding, users, exact, local=report is not None)
    if report is not None:
        error["threshold"] = detection_threshold(report, encoding, users)
    return {"error": error, "best_available": {**best, "ratio": rms / best["rms"] if best["rms"] > 0.0 else 1.0}}


def best_of_all(
    epsilon: float, delta: float, encoding: CountEncoding, n_items: int, exact: bool, *, local: bool
) -> dict[str, Any]:
    """Return the released families that allow the least error of the first needed one, and the best noise for them.

    local: whether the noise is on the client's side, where 'auto' chooses the best. 'rms' is the root mean square over
    episodes of the standard deviation of a count, and 'threshold', for reports, their `detection_threshold`.
    """
    found: list[tuple[float, dict[str, Any]]] = []
    for kind in RELEASED_FAMILIES:
        try:
            each = replace(encoding, kind=kind)
        except ValueError:  # the families do not allow it
            continue
        summands = each.summands(each.needed.families[0])
        if local:
            ranked = ranked_reports(epsilon, delta, each, n_items, exact)
            errors = [math.sqrt(each.report_variance(one, summands) * (n_items + 1) / 2.0) for _, one in ranked]
            threshold, report = ranked[0]
            told = {"mechanism": report.name, "families": kind, "rms": errors[0], "threshold": threshold}
            found.append((min(errors), told))
        else:
            laws, row = additive_laws(AUTO, delta, exact), each.released.row(len(each.released.families))
            best, of_cell, _ = choose(tuple(COUNTERS), tuple(laws), epsilon, delta, row, n_items, each.released.n_cells)
            rms, law = of_cell * math.sqrt(summands), node_of(best).name
            found.append((rms, {"counter": best.name, "mechanism": law, "families": kind, "rms": rms}))
    return min(found, key=lambda pair: pair[0])[1]
