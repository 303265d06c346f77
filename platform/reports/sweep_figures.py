"""Which figures a sweep has."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from dprl.platform.reports.frontier import frontier_figure
from dprl.platform.reports.gaps import gaps_figure

_FRONTIER, _GAPS = "frontier.png", "gaps.png"
SWEEP_FIGURES = (_FRONTIER, _GAPS)


def sweep_figures(summary: pd.DataFrame, gaps: Mapping[str, pd.DataFrame]) -> dict[str, bytes]:
    """Return the figures of a sweep as PNGs by the name of their file; that of gaps if some cell has any.

    summary: rows of `records.summary_row`. gaps: curves of the smallest gap, by the digest of the cell.
    """
    found = {_FRONTIER: frontier_figure(summary)}
    with_gaps = summary[summary["cell"].isin(list(gaps))]
    if len(with_gaps):
        found[_GAPS] = gaps_figure(with_gaps, gaps)
    return found
