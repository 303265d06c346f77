"""Noise of counts of two cells, for comparisons at unequal noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from dprl.platform.reports.comparing.report_cells import ReportCell
from dprl.platform.reports.number_texts import rounded

_GROWTH = "algorithm.replan_growth"
_NOISE = "noise_sd"
_EQUAL = 0.005
"""Noise that differs by a smaller fraction counts as equal."""


class NoiseRatio(NamedTuple):
    """Noise of a count in one cell, relative to another cell.

    value: 1 if both are equal, NaN if one is unknown. releases: whether their schedules of releases differ.
    """

    value: float
    releases: bool

    @property
    def unequal(self) -> bool:
        """Whether both are known and differ."""
        return not math.isnan(self.value) and self.value != 1.0


def noise_ratio(one: ReportCell, other: ReportCell) -> NoiseRatio:
    """Return the standard deviation of a count in `one`, divided by that in `other`."""
    first, second = (float(cell.row.get(_NOISE, math.nan)) for cell in (one, other))
    releases = one.certificate.get("releases") != other.certificate.get("releases")
    if not (first > 0.0 and second > 0.0):
        return NoiseRatio(math.nan, releases)
    return NoiseRatio(1.0 if math.isclose(first, second, rel_tol=_EQUAL) else first / second, releases)


def noise_clause(ratios: Sequence[NoiseRatio], names: Sequence[str] = ()) -> str:
    """Return e.g. ', with 0.55 times the noise of a count of B (other schedule of releases)'; '' at equal noise.

    names: the algorithms with the other noise.
    """
    unequal = [ratio for ratio in ratios if ratio.unequal]
    if not unequal:
        return ""
    values = sorted(ratio.value for ratio in ratios if not math.isnan(ratio.value))
    amount = " to ".join(dict.fromkeys(_times(value) for value in (values[0], values[-1])))
    whose = f" of {' and '.join(names)}" if names else ""
    why = " (other schedule of releases)" if all(ratio.releases for ratio in unequal) else ""
    return f", with {amount} times the noise of a count{whose}{why}"


def _times(value: float) -> str:
    """Return a ratio in two digits, in three close to 1."""
    if value == 1.0:
        return "1"
    return rounded(value, 3 if 0.95 < value < 1.05 else 2)


def schedule_remedy(one: ReportCell, other: ReportCell, differs_in: Sequence[str]) -> str:
    """Return how the noise of two cells may become equal if their schedules of releases differ, else ''."""
    same_growth = one.row.get(_GROWTH) == other.row.get(_GROWTH)
    if (
        same_growth
        or not noise_ratio(one, other).releases
        or not set(differs_in) <= {"algorithm", "noise", "constants"}
    ):
        return ""
    return f" (their counters are for different numbers of releases: set the same {_GROWTH} in both)"
