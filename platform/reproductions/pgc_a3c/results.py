"""The three tables of [OT20] beside ours, as numbers: pages, terminals and programs show the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from dprl.algorithms.base import Float64Array
from dprl.platform.reproductions.pgc_a3c import published
from dprl.platform.reproductions.pgc_a3c.published import BUFFERS, EPSILONS, LAPLACE, TRIALS, Numbers
from dprl.platform.reproductions.pgc_a3c.trials import ELEMENTWISE, WITHOUT_NOISE, Key, Trials, as_in_the_paper
from dprl.platform.reproductions.resampling import (
    Estimate,
    Statistic,
    estimate,
    mean,
    median,
    ratio,
    ratio_range,
    share,
    trial_range,
)

Range = tuple[float, float]


class Entry(NamedTuple):
    """One cell of a table.

    published: None where the paper has none, or it is lost. ours: of all trials. first: of as many as the paper has,
    our first ones. spread: the central 95 % of what so many trials say. area: of Table 3, absolute.
    """

    key: Key
    published: float | None
    ours: Estimate
    first: float
    spread: Range
    area: Estimate | None = None

    @property
    def inside(self) -> bool | None:
        """Whether the published number is one that 20 trials like ours give; None if there is none to ask about."""
        if self.published is None or math.isnan(self.spread[0]):
            return None
        return self.spread[0] <= self.published <= self.spread[1]


class PaperTable(NamedTuple):
    """A table of the paper. entries: of one reading, those of its cells that were run."""

    number: int
    title: str
    published: Numbers
    entry: Callable[[Key, float | None, Trials, Trials | None], Entry]

    def entries(self, reading: str, trials: Mapping[Key, Trials]) -> list[Entry]:
        """Return the cells of one reading that were run, in the paper's order."""
        found = []
        for mechanism, key in rows(reading):
            cell, reference = trials.get(key), trials.get(reference_of(key))
            if cell is not None:
                lost = key.mechanism == WITHOUT_NOISE
                value = None if lost else self.published.get((mechanism, key.epsilon))
                found.append(self.entry(key, value, cell, reference))
        return found


def rows(reading: str) -> list[tuple[str, Key]]:
    """Return the rows of the tables: the mechanism whose row it is, and the cell."""
    found = []
    for mechanism, buffer_size in BUFFERS.items():
        found += [(mechanism, Key(reading, mechanism, epsilon, buffer_size)) for epsilon in EPSILONS]
        found.append((mechanism, Key(reading, ELEMENTWISE, math.inf, buffer_size)))
    return [*found, (LAPLACE, Key(reading, WITHOUT_NOISE, math.inf, BUFFERS[LAPLACE]))]


def reference_of(key: Key) -> Key:
    """Return the cell without privacy that relative areas are relative to: of the same reading and buffer."""
    return Key(key.reading, ELEMENTWISE, math.inf, key.buffer_size)


def inside(entries: Sequence[Entry]) -> tuple[int, int]:
    """Return how many published numbers lie in our 20-trial range, and of how many."""
    asked = [entry.inside for entry in entries if entry.inside is not None]
    return sum(asked), len(asked)


def _plain(
    of: Callable[[Trials], Float64Array], statistic: Statistic, interval: Callable[[Float64Array], Estimate]
) -> Callable[[Key, float | None, Trials, Trials | None], Entry]:
    """Return what makes entries of a statistic of the trials alone."""

    def entry(key: Key, value: float | None, cell: Trials, reference: Trials | None) -> Entry:
        del reference
        values = of(cell)
        first = float(statistic(as_in_the_paper(values)))
        return Entry(key, value, interval(values), first, trial_range(values, statistic, TRIALS))

    return entry


def _relative(key: Key, value: float | None, cell: Trials, reference: Trials | None) -> Entry:
    """Return the entry of Table 3."""
    area = estimate(cell.area, mean)
    if reference is None:
        return Entry(key, value, Estimate(math.nan, math.nan, math.nan), math.nan, (math.nan, math.nan), area)
    first = ratio(as_in_the_paper(cell.area), as_in_the_paper(reference.area)).value
    return Entry(
        key, value, ratio(cell.area, reference.area), first, ratio_range(cell.area, reference.area, TRIALS), area
    )


TABLES = (
    PaperTable(
        1,
        "first success, median over trials, in submissions",
        published.FIRST_SUCCESS,
        _plain(lambda trials: trials.first_success, median, lambda values: estimate(values, median)),
    ),
    PaperTable(2, "success ratio", published.SUCCESS, _plain(lambda trials: trials.succeeded, mean, share)),
    PaperTable(3, "relative area under the success ratio", published.AREA, _relative),
)
