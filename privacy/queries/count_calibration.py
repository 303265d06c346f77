"""Calibration of counts: names for configs, the least noise of a kind, and the best of all kinds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from dprl.privacy.counters import COUNTERS
from dprl.privacy.counters.base import Counter, node_of
from dprl.privacy.counters.selection import CounterRequirements, calibrated_of, choose
from dprl.privacy.mechanisms import ADDITIVE, ENCODINGS, laws_for
from dprl.privacy.mechanisms.base import INTEGER, NODE, Mechanism, Sensitivity
from dprl.privacy.mechanisms.one_hot_encoding import SAMPLED_PREFIX, UnaryEncoder
from dprl.privacy.queries.count_encoding import RELEASED_FAMILIES, CountEncoding
from dprl.privacy.queries.count_families import CountFamilies

AUTO = "auto"


@dataclass(frozen=True)
class CountBudget:
    """The guarantee that the noise of a run must meet.

    epsilon, delta: the guarantee. encoding: the released families. n_users: T. arithmetic: 'fast' or 'exact'.
    """

    epsilon: float
    delta: float
    encoding: CountEncoding
    n_users: int
    arithmetic: str

    @property
    def exact(self) -> bool:
        """Whether only whole-number noise is allowed."""
        return self.arithmetic == "exact"

    @property
    def row(self) -> Sensitivity:
        """Sensitivity of everything that one user adds to the sums."""
        released = self.encoding.released
        return released.row(len(released.families))

    def laws(self, name: str) -> list[type[Mechanism]]:
        """Return the additive mechanisms that a config's `mechanism` stands for, under this arithmetic and delta."""
        if name != AUTO:
            whole = {law.replaces: law for law in ADDITIVE.values()} if self.exact else {}
            return [whole.get(name, ADDITIVE[name])]
        laws = [law for law in laws_for(NODE) if (law.arithmetic == INTEGER) == self.exact]
        return [law for law in laws if self.delta > 0.0 or law.pure]

    @property
    def wanted(self) -> CounterRequirements:
        """The requirements for the choice of a counter."""
        n_cells = self.encoding.released.n_cells
        return CounterRequirements(self.epsilon, self.delta, self.row, self.n_users, n_cells)


def counter_names() -> tuple[list[str], list[str]]:
    """Return the names for `counter` and for `mechanism` in the central model."""
    return [*COUNTERS, AUTO], [*(law.name for law in laws_for(NODE)), AUTO]


def report_names(*, pure: bool = False) -> list[str]:
    """Return the names for `mechanism` in the local model; pure: only those of laws with a pure guarantee."""
    additive = [law.name for law in laws_for(NODE) if law.pure or not pure]
    return [*additive, *(SAMPLED_PREFIX + name for name in ENCODINGS), AUTO]


def calibrated_counter(counter: str, mechanism: str, budget: CountBudget) -> tuple[Counter, str]:
    """Return the counter with the least noise that the two names allow, with the reason if there was a choice.

    Raises ValueError if none can meet the budget.
    """
    _check_delta(mechanism, budget)
    laws = budget.laws(mechanism)
    if AUTO not in (counter, mechanism):
        return calibrated_of(counter, laws[0], budget.wanted)
    counters = list(COUNTERS) if counter == AUTO else [counter]
    choice = choose(budget.wanted, counters, laws)
    return choice.counter, choice.reason if counter == AUTO else ""


def calibrated_report(mechanism: str, budget: CountBudget) -> tuple[Mechanism | UnaryEncoder, str]:
    """Return the randomizer of reports that a name stands for, with the reason if it was chosen.

    'auto' stands for the one with the smallest `detection_threshold`. Raises ValueError if none can meet the budget.
    """
    _check_delta(mechanism, budget)
    if mechanism != AUTO:
        return _report(mechanism, budget), ""
    (visits, best), *others = _ranked(budget)
    which = "the largest" if budget.encoding.needed.by_bound else "their"
    text = f"{best.name}: counts of visits exceed {which} standard deviation from {visits:.4g} visits on"
    return best, text + (f"; next: {others[0][1].name}, {others[0][0]:.4g}" if others else "")


def _ranked(budget: CountBudget) -> list[tuple[float, Mechanism | UnaryEncoder]]:
    """Return the reports that can meet the budget with their thresholds, best first; raise ValueError if none can."""
    names = [law.name for law in budget.laws(AUTO)]
    if _one_hot(budget.encoding):
        names += [SAMPLED_PREFIX + name for name in ENCODINGS]
    found, refusals = [], []
    for name in names:
        try:
            found.append(_report(name, budget))
        except ValueError as error:  # The scale may be too small or too large for the law.
            refusals.append(error)
    if not found:
        raise refusals[-1]
    return sorted(((detection_threshold(report, budget), report) for report in found), key=lambda pair: pair[0])


def detection_threshold(report: Mechanism | UnaryEncoder, budget: CountBudget) -> float:
    """Return the number N of visits whose released count, after all n users, has the standard deviation N.

    The variance of this count is N (1 + v - u) + n u. A user adds the variance v to a count of visits that they enter
    and u to each of the others (of all steps, if they are pooled), and N is the variance of the visits themselves. With
    additive noise v = u. A large n u hides rare visits, needed for exploration, and a large v blurs frequent ones. For
    families `by_bound`, N is the largest standard deviation of the noise on any count: that of a count that all n users
    visit, in the number of pooled steps that makes it largest.
    """
    encoding = budget.encoding
    summands = max((encoding.summands(family) for family in encoding.needed.families if family.indicator), default=1)
    if isinstance(report, UnaryEncoder):
        own, other = report.variances(summands)
    else:
        own = other = summands * report.variance
    bits = _bits(report, encoding.released)
    slope, hidden = 1.0 + own - other, budget.n_users * other * bits
    if encoding.needed.by_bound:
        # A report has one step only, so a user's h visits are dependent: h (h - 1) less variance.
        sampled = isinstance(report, UnaryEncoder)
        most = max(h * (own - other) - sampled * h * (h - 1) for h in range(1, bits + 1))
        return math.sqrt(budget.n_users * most + hidden)
    return (slope + math.sqrt(slope**2 + 4.0 * hidden)) / 2.0


def report_variance(report: Mechanism | UnaryEncoder, families: CountFamilies, summands: int) -> float:
    """Return the variance that a user's report adds to a sum of released cells; pooled ones have the bits of all steps.

    For encodings of one-hot vectors it is the mean over the sums of a row.
    """
    if isinstance(report, UnaryEncoder):
        return report.mean_variance(summands) * _bits(report, families)
    return report.variance * summands


def _bits(report: Mechanism | UnaryEncoder, families: CountFamilies) -> int:
    return families.n_steps // families.layers if isinstance(report, UnaryEncoder) else 1


def best_of_all(budget: CountBudget, *, local: bool) -> dict[str, Any]:
    """Return the released families that allow the least error of the first needed one, and the best noise for them.

    local: whether the noise is on the client's side, where the best is the choice of 'auto'. 'rms' in the result is the
    root mean square over episodes of the standard deviation of one of the counts, and 'threshold', for reports, their
    `detection_threshold`.
    """
    found = [_best(replace(budget, encoding=encoding), local=local) for encoding in _encodings(budget.encoding)]
    return min(found, key=lambda pair: pair[0])[1]


def _best(budget: CountBudget, *, local: bool) -> tuple[float, dict[str, Any]]:
    """Return the least error of the budget's families, and their best noise."""
    summands = budget.encoding.summands(budget.encoding.needed.families[0])
    if not local:
        laws = budget.laws(AUTO)
        best = choose(budget.wanted, tuple(COUNTERS), laws)
        rms, law = best.rms * math.sqrt(summands), node_of(best.counter).name
        named = {"counter": best.counter.name, "mechanism": law, "families": budget.encoding.kind, "rms": rms}
        return rms, named

    def error(report: Mechanism | UnaryEncoder) -> float:
        variance = report_variance(report, budget.encoding.released, summands)
        return math.sqrt(variance * (budget.n_users + 1) / 2.0)

    ranked = _ranked(budget)
    threshold, report = ranked[0]
    named = {"mechanism": report.name, "families": budget.encoding.kind, "rms": error(report), "threshold": threshold}
    return min(error(each) for _, each in ranked), named


def _encodings(encoding: CountEncoding) -> Iterator[CountEncoding]:
    """Yield every possible encoding of the same needed families."""
    for kind in RELEASED_FAMILIES:
        try:
            yield replace(encoding, kind=kind)
        except ValueError:
            continue


def _report(name: str, budget: CountBudget) -> Mechanism | UnaryEncoder:
    if name in ADDITIVE:
        return budget.laws(name)[0].calibrated(budget.epsilon, budget.delta, budget.row)
    if not _one_hot(budget.encoding):
        raise ValueError(
            f"mechanism must be additive noise unless every step sends one cell, got {name}; use families: one_hot"
        )
    encoding, released = ENCODINGS[name.removeprefix(SAMPLED_PREFIX)], budget.encoding.released
    calibrated = encoding.calibrated(budget.epsilon, budget.delta, released.block)
    return UnaryEncoder(calibrated, released.n_steps, released.block)


def _one_hot(encoding: CountEncoding) -> bool:
    """Whether a user sends exactly one cell of one family at every step, for any data on the device."""
    return encoding.integral and len(encoding.released.families) == 1 and encoding.released.families[0].indicator


def _check_delta(mechanism: str, budget: CountBudget) -> None:
    law = ADDITIVE.get(mechanism)
    if law is not None and not law.pure and budget.delta <= 0.0:
        pure = ", ".join(law.name for law in laws_for(NODE) if law.pure)
        raise ValueError(
            f"mechanism must have pure privacy without a delta, as {pure}, got {mechanism!r}; "
            "Gaussian noise needs a delta above 0: add delta: 1e-6"
        )
