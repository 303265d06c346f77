"""Claims of papers as data, such as 'cell A exceeds cell B' or published numbers, and their tests on our cells."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from dprl.algorithms.base import Float64Array
from dprl.platform.reproductions import resampling
from dprl.platform.results.inference import LEVEL, Estimate, holm
from dprl.platform.results.summary import standing

Verdict = Literal["holds", "open", "fails", "not run"]
UNKNOWN = Estimate(math.nan, math.nan, math.nan, "linear")


class Key(NamedTuple):
    """Name of a cell.

    group: the reading of the paper, '' if a claim is about every group. mechanism: of the noise. epsilon: claimed,
    infinite without privacy. setting: one more number to distinguish cells. control: '' for the algorithm itself.
    """

    group: str
    mechanism: str
    epsilon: float
    setting: float = 1.0
    control: str = ""

    def of(self, group: str) -> Key:
        """Return the key of the same cell in a group."""
        return self._replace(group=group)


@dataclass(frozen=True, eq=False)
class PaperCell:
    """Results of the runs of one cell.

    Args:
        values: float64[n] by name, one number per run.
        episodes: length of each run.
        certificate: result of `Certificate.to_dict`.
        facts: numbers over all runs by name, NaN if the algorithm has none.
    """

    values: Mapping[str, Float64Array]
    episodes: int
    certificate: Mapping[str, Any]
    facts: Mapping[str, float] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Number of runs."""
        return len(next(iter(self.values.values())))


Cells = Mapping[Key, PaperCell]


class Measure(NamedTuple):
    """Number that is compared between cells.

    values: its name in `PaperCell.values`. statistic: over the runs. decimals: number shown on pages. ones: whether
    values are zeros and ones, so that their mean is a share of runs.
    """

    name: str
    values: str
    statistic: resampling.Statistic = resampling.mean
    decimals: int = 3
    ones: bool = False

    def estimate(self, cell: PaperCell) -> Estimate:
        """Return the statistic of all runs with its 95 % interval."""
        values = cell.values[self.values]
        return resampling.share(values) if self.ones else resampling.estimate(values, self.statistic)


class Side(NamedTuple):
    """One side of a claim: a cell of any group, and its name on pages."""

    label: str
    key: Key


class Inequality(NamedTuple):
    """Claim that `larger` exceeds `smaller` in a measure; without `smaller`, that every run of `larger` has a 1.

    place: the theorem or section. ratio: the paper's ratio of both, NaN if it has none.
    """

    measure: Measure
    larger: Side
    smaller: Side | None = None
    place: str = ""
    ratio: float = math.nan

    @property
    def keys(self) -> list[Key]:
        """The cells of both sides."""
        return [side.key for side in (self.larger, self.smaller) if side is not None]

    @property
    def order(self) -> str:
        """The two sides."""
        return self.larger.label if self.smaller is None else f"{self.larger.label} > {self.smaller.label}"

    @property
    def label(self) -> str:
        """The claim in full."""
        return f"{self.measure.name}{'' if self.smaller is None else ':'} {self.order}"


class Sentence(NamedTuple):
    """Sentence of a paper: its words, and all claims that it makes.

    test: 'intervals' tests a claim by the 95 % interval of its difference, 'permutations' by p-values with Holm's
    adjustment for all claims of the sentence.
    """

    text: str
    place: str
    claims: tuple[Inequality, ...]
    test: Literal["intervals", "permutations"] = "intervals"


class Outcome(NamedTuple):
    """Test of one claim.

    difference: of the statistics, with `seen` for as many runs as the paper has. ratio: of the means. p: one-sided
    p-value by permutations. adjusted, opposite: this p-value and that of the opposite order, adjusted by Holm.
    """

    claim: Inequality
    verdict: Verdict
    difference: resampling.Difference
    ratio: Estimate = UNKNOWN
    p: float = math.nan
    adjusted: float = math.nan
    opposite: float = math.nan

    @property
    def excluded(self) -> bool:
        """Whether the printed ratio lies above the interval of ours."""
        return self.ratio.upper < self.claim.ratio


Decided = Mapping[Sentence, Mapping[str, Sequence[Outcome]]]
"""Outcomes of each sentence's claims, by group; none if cells are missing."""


def decide(sentence: Sentence, group: str, cells: Cells, runs: int) -> tuple[Outcome, ...]:
    """Return the outcome of each claim in the cells of one group, none if a cell is missing. runs: the paper's."""
    keys = [[key.of(group) for key in claim.keys] for claim in sentence.claims]
    if not all(key in cells for each in keys for key in each):
        return ()
    found = zip(sentence.claims, keys, strict=True)
    values = [[cells[key].values[claim.measure.values] for key in each] for claim, each in found]
    if sentence.test == "permutations":
        return _permuted(sentence.claims, values, runs)
    return tuple(_by_interval(claim, each, runs) for claim, each in zip(sentence.claims, values, strict=True))


def verdict_of(outcomes: Sequence[Outcome]) -> Verdict:
    """Return the verdict on a sentence: 'fails' if some claim fails, 'holds' if all hold, 'open' if some is open."""
    verdicts = {one.verdict for one in outcomes}
    return "fails" if "fails" in verdicts else "open" if "open" in verdicts else "holds" if verdicts else "not run"


def _by_interval(claim: Inequality, values: Sequence[Float64Array], runs: int) -> Outcome:
    if claim.smaller is None:
        return _every_run(claim, values[0], runs)
    larger, smaller = values
    found = resampling.compared(larger, smaller, claim.measure.statistic, runs)
    return Outcome(claim, "holds" if found.lower > 0.0 else "fails" if found.upper < 0.0 else "open", found)


def _every_run(claim: Inequality, ones: Float64Array, runs: int) -> Outcome:
    """Return whether all runs have a 1; if not, 'open' if 2.5 % of resamples of the paper's size do."""
    ours, (_, highest) = resampling.share(ones), resampling.trial_range(ones, resampling.mean, runs)
    verdict: Verdict = "holds" if ours.value == 1.0 else "open" if highest == 1.0 else "fails"
    return Outcome(claim, verdict, resampling.Difference(ours.value, ours.lower, ours.upper, ours.value**runs))


def _permuted(claims: Sequence[Inequality], values: Sequence[Sequence[Float64Array]], runs: int) -> tuple[Outcome, ...]:
    p_values = [resampling.permutation_p(larger, smaller) for larger, smaller in values]
    adjusted, opposite = holm(p_values), holm([resampling.permutation_p(smaller, larger) for larger, smaller in values])
    verdicts: list[Verdict] = [
        "holds" if p < LEVEL else "fails" if q < LEVEL else "open" for p, q in zip(adjusted, opposite, strict=True)
    ]
    return tuple(
        Outcome(
            claim,
            verdict,
            resampling.compared(one, other, claim.measure.statistic, runs),
            resampling.ratio(one, other),
            *found,
        )
        for claim, verdict, (one, other), *found in zip(
            claims, verdicts, values, p_values, adjusted, opposite, strict=True
        )
    )


class _NumberEntry(NamedTuple):
    """One cell of a published table.

    published: None if the paper has none, or it is lost. ours: of all runs. first: of as many first runs as the paper
    has. spread: the central 95 % of results of that many runs.
    """

    key: Key
    published: float | None
    ours: Estimate
    first: float
    spread: tuple[float, float]

    @property
    def inside(self) -> bool | None:
        """Whether the published number lies within `spread`; None if there is no such number."""
        if self.published is None or math.isnan(self.spread[0]):
            return None
        return self.spread[0] <= self.published <= self.spread[1]


@dataclass(frozen=True, eq=False)
class PublishedTable:
    """Table of a paper.

    keys: its cells, in the paper's order. numbers: those that are printed and legible. references: for relative
    numbers, the cell that each one is relative to.
    """

    name: str
    title: str
    measure: Measure
    keys: Sequence[Key]
    numbers: Mapping[Key, float]
    decimals: int
    references: Mapping[Key, Key] = field(default_factory=dict)

    def entries(self, group: str, cells: Cells, runs: int) -> list[_NumberEntry]:
        """Return the cells of one group that were run. runs: of a cell in the paper."""
        shown = [row for row in self.keys if row.of(group) in cells]
        return [self._entry(row, group, cells, runs) for row in shown]

    def _entry(self, row: Key, group: str, cells: Cells, runs: int) -> _NumberEntry:
        cell, key, published = cells[row.of(group)], row.of(group), self.numbers.get(row)
        values, statistic = cell.values[self.measure.values], self.measure.statistic
        if not self.references:
            ours = self.measure.estimate(cell)
            first = float(statistic(values[:runs]))
            return _NumberEntry(key, published, ours, first, resampling.trial_range(values, statistic, runs))
        reference = cells[self.references[row].of(group)].values[self.measure.values]
        relative, first = resampling.ratio(values, reference), resampling.ratio(values[:runs], reference[:runs]).value
        return _NumberEntry(key, published, relative, first, resampling.ratio_range(values, reference, runs, runs))


def inside(entries: Sequence[_NumberEntry]) -> tuple[int, int]:
    """Return the number of published numbers within the range of ours, and the number compared."""
    asked = [entry.inside for entry in entries if entry.inside is not None]
    return sum(asked), len(asked)


def standard_error(cell: PaperCell, measure: Measure) -> float:
    """Return the standard error of a mean over runs; NaN for one run."""
    values = cell.values[measure.values]
    return float(np.std(values, ddof=1) / math.sqrt(cell.count)) if cell.count > 1 else math.nan


def finite_epsilon(key: Key) -> float | None:
    """Return the claimed epsilon for JSON, None without privacy."""
    return None if math.isinf(key.epsilon) else key.epsilon


def estimate_data(found: Estimate) -> dict[str, float]:
    """Return an estimate as plain data."""
    return {"value": found.value, "lower": found.lower, "upper": found.upper}


def entry_data(entry: _NumberEntry, runs: int) -> dict[str, Any]:
    """Return a published number beside ours as plain data."""
    return {
        "published": entry.published,
        "ours": estimate_data(entry.ours),
        f"first_{runs}": entry.first,
        f"range_of_{runs}": list(entry.spread),
        "inside": entry.inside,
    }


def sentence_data(sentence: Sentence, by_group: Mapping[str, Sequence[Outcome]]) -> dict[str, Any]:
    """Return the outcomes of a sentence as plain data."""
    return {
        "sentence": sentence.text,
        "place": sentence.place,
        "verdicts": {group: verdict_of(outcomes) for group, outcomes in by_group.items()},
        "comparisons": {
            group: {one.claim.label: one.difference._asdict() for one in outcomes}
            for group, outcomes in by_group.items()
        },
    }


def cell_data(
    cell: PaperCell, measures: Sequence[Measure], units: tuple[str, str] = ("runs", "episodes")
) -> dict[str, Any]:
    """Return the results of a cell as plain data."""
    stands = standing(cell.certificate)
    return {
        units[0]: cell.count,
        units[1]: cell.episodes,
        **{one.values: estimate_data(one.estimate(cell)) for one in measures},
        "verdict": stands.verdict,
        "proved_epsilon": stands.proved,
    }
