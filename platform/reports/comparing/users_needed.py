"""Users until a score has gone 90 % of the way from that of the untrained policy to the final one without privacy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dprl.algorithms import Metric
from dprl.platform.reports.cell_texts import EPISODES, NOISE, Settings, settings_in
from dprl.platform.reports.comparing.report_cells import ReportCell, clips_alike, longer_blocks
from dprl.platform.reports.inference.effects import Estimate, estimate
from dprl.platform.reports.number_texts import rounded

_SHARE = 0.9
_ALGORITHM = ("env.", "algorithm.")
_EVERY = (*_ALGORITHM, *NOISE, EPISODES, "release", "audit", "cell_label")
"""Sections and keys of all settings but the seeds."""


class Needed(NamedTuple):
    """Users that runs with one setting need. cells: from few users to many. first, level: scores; see docs/reports.md.

    users: infinite if the mean score is below the level for every number of users run. lower, upper: ends of its 95 %
    interval, NaN below 3 seeds. fewest: number of users with the first known score.
    """

    cells: Sequence[ReportCell]
    first: float
    level: float
    users: float
    lower: float
    upper: float
    fewest: float

    @property
    def most(self) -> int:
        """The largest number of users run."""
        return int(self.cells[-1].row[EPISODES])

    def text(self, unit: str) -> str:
        """Return the number with its interval, or a remark that the level is not reached."""
        if math.isinf(self.users):
            return f"not reached with {self.most:,} {unit}s"
        ends = "" if math.isnan(self.lower) else f" [{self._number(self.lower)}, {self._number(self.upper)}]"
        return self._number(self.users) + ends

    def _number(self, users: float) -> str:
        if math.isinf(users):
            return f"> {self.most:,}"
        return f"\u2264 {int(users):,}" if users <= self.fewest else rounded(users)


def cells_along(cells: Sequence[ReportCell], setting: str) -> list[list[ReportCell]]:
    """Return lists of cells that share all settings but one, sorted by its value."""
    found: dict[Settings, list[ReportCell]] = {}
    for cell in cells:
        if setting in cell.row:
            found.setdefault(_settings(cell, _EVERY, setting), []).append(cell)
    return [sorted(line, key=lambda cell: cell.row[setting]) for line in found.values()]


def untrained(cells: Sequence[ReportCell], metric: Metric) -> float:
    """Return the first value of a final score, the mean over all cells without privacy; NaN without one."""
    firsts = [float(cell.values_of(metric)[1][:, 0].mean()) for cell in cells if not cell.private]
    return float(np.mean(firsts)) if firsts else math.nan


def users_needed(cells: Sequence[ReportCell], metric: Metric) -> list[Needed]:
    """Return the users that each setting needs for a final score, if the same algorithm also ran without privacy.

    The best run without privacy is the goal. Runs that learned nothing do not count.
    """
    runs = cells_along([cell for cell in cells if metric.name in cell.row], EPISODES)
    goals: list[tuple[ReportCell, tuple[float, float]]] = []
    for run in runs:
        first, last = untrained(run, metric), float(run[-1].values_of(metric)[1][:, -1].mean())
        if last > first:  # false for private runs: their `first` is NaN
            goals.append((run[0], (first + _SHARE * (last - first), first)))
    found = [(run, [goal for free, goal in goals if _alike(free, run[0])]) for run in runs]
    return [_needed(run, metric, *max(levels)) for run, levels in found if levels]


def _alike(free: ReportCell, cell: ReportCell) -> bool:
    return _settings(free, _ALGORITHM) == _settings(cell, _ALGORITHM) and clips_alike(free.row, cell.row)


def _settings(cell: ReportCell, sections: tuple[str, ...], left_out: str = "") -> Settings:
    return settings_in(cell.row, sorted(key for key in cell.row if key.startswith(sections) and key != left_out))


def _needed(run: Sequence[ReportCell], metric: Metric, level: float, first: float) -> Needed:
    users, scores = _scores(run, metric)
    found, upper, lower = (_reached(users, np.array([each[i] for each in scores]), level) for i in range(3))
    return Needed(run, first, level, found, lower, upper, float(users[0]))


def _scores(run: Sequence[ReportCell], metric: Metric) -> tuple[np.ndarray, list[Estimate]]:
    """Return numbers of users and final scores: one per cell, or for a single cell those along its run."""
    users = np.array([int(cell.row[EPISODES]) for cell in run])
    values: Sequence[np.ndarray] = [cell.values_of(metric)[1][:, -1] for cell in run]
    if len(run) == 1:
        users, along = longer_blocks(*run[0].values_of(metric))
        values = list(along.T)
    bounds = metric.range(float(run[0].row.get("env.horizon", math.inf)))
    return users, [estimate(each, "linear", bounds) for each in values]


def _reached(users: np.ndarray, scores: np.ndarray, level: float) -> float:
    """Return the number of users at which scores first reach the level, interpolated on logs; infinite if never."""
    if np.isnan(scores).any():
        return math.nan
    above = np.flatnonzero(scores >= level)
    if not len(above) or above[0] == 0:
        return float(users[0]) if len(above) else math.inf
    low, high = int(above[0]) - 1, int(above[0])
    share = (level - scores[low]) / (scores[high] - scores[low])
    return float(users[low] * (users[high] / users[low]) ** share)
