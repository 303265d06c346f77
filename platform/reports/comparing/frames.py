"""The report as data: a row a cell, and a row a pair of cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from dprl.platform.reports.comparing.answers import band_ends
from dprl.platform.reports.comparing.groups import Group

COMPARISON_COLUMNS = ("group", "first", "second", "first_cell", "second_cell", "metric", "difference")
_TESTED = ("p_value", "p_holm", "told_apart", "better", "with_the_best")


def cell_frame(groups: Sequence[Group]) -> pd.DataFrame:
    """Return one row a cell: the report's own columns first, then those of summary.csv.

    headline: the mean over seeds of what a whole run amounts to. band_lower, band_upper: the ends of its 95 % band, of
    a sum those of the band of the whole curve at its end. rank: 1 for the best of its group.
    """
    rows: list[dict[str, Any]] = []
    for group in groups:
        for i, cell in enumerate(group.cells):
            about: dict[str, Any] = {"group": group.title, "name": group.names[i], "n_seeds": cell.seeds}
            if group.metric is not None:
                low, high = band_ends(cell)
                mean = float(cell.finals.mean())
                about |= {"metric": group.metric.name, "unit": group.metric.unit, "rank": i + 1}
                about |= {"headline": mean, "band_lower": low, "band_upper": high}
            audit = cell.certificate.get("audit") or {}
            rows.append(about | {"audit_verdict": audit.get("verdict", "")} | dict(cell.row))
    return pd.DataFrame(rows)


def comparison_frame(groups: Sequence[Group]) -> pd.DataFrame:
    """Return one row a pair of cells of a group: the difference of the headline, first minus second, and its test.

    p_value: of Welch's test. p_holm: adjusted for all pairs of the group. better: the one that is, if told apart.
    """
    rows = []
    for group in groups:
        for (i, j), pair in group.pairs.items():
            digests = (str(group.cells[k].row["cell"]) for k in (i, j))
            metric = group.metric.name if group.metric is not None else ""
            # Cells of a group are ordered, the best first.
            better = group.names[i] if pair.differs else ""
            tested = (pair.p_value, pair.adjusted, pair.differs, better, i == 0)
            rows.append((group.title, group.names[i], group.names[j], *digests, metric, pair.difference, *tested))
    return pd.DataFrame(rows, columns=[*COMPARISON_COLUMNS, *_TESTED])
