"""Cells and comparisons of a report as rows of data for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from dprl.platform.reports.comparing.groups import Group

_COMPARISON_COLUMNS = ("group", "first", "second", "first_cell", "second_cell", "metric", "difference")
_TESTED = ("p_value", "p_holm", "told_apart", "better", "with_the_best")
_EFFECT = ("kind", "scale", "effect", "effect_lower", "effect_upper")


def cell_frame(groups: Sequence[Group]) -> pd.DataFrame:
    """Return one row per cell: the report's own columns first, then those of summary.csv.

    headline: of the whole run, the geometric mean over seeds on the log scale, else the mean. band_lower, band_upper:
    the ends of its 95 % interval. scale: 'log' or 'linear'. rank: 1 for the best of its group.
    """
    rows: list[dict[str, Any]] = []
    for group in groups:
        for i, cell in enumerate(group.cells):
            about: dict[str, Any] = {"group": group.title, "name": group.names[i], "n_seeds": cell.seeds}
            if group.metric is not None:
                found = cell.estimate
                about |= {"metric": group.metric.name, "unit": group.metric.unit, "rank": i + 1}
                about |= {"headline": found.value, "band_lower": found.lower, "band_upper": found.upper}
                about["scale"] = found.scale
            audit = cell.certificate.get("audit") or {}
            rows.append(about | {"audit_verdict": audit.get("verdict", "")} | dict(cell.row))
    return pd.DataFrame(rows)


def comparison_frame(groups: Sequence[Group]) -> pd.DataFrame:
    """Return one row per declared comparison of two cells of a group, and its test.

    kind: the factor that differs. difference: of the means, first minus second. effect: the ratio of the first to the
    second on the log scale, their difference on the linear one; effect_lower, effect_upper: the ends of its 95 %
    interval. p_value: of Welch's test on that scale. p_holm: adjusted for the declared comparisons of the group.
    told_apart: whether the difference is significant. better: the better cell, if it is.
    """
    rows = []
    for group in groups:
        metric = group.metric.name if group.metric is not None else ""
        for (i, j), (kind, test) in group.comparisons.items():
            one, other = group.cells[i], group.cells[j]
            about = (group.title, group.names[i], group.names[j], str(one.row["cell"]), str(other.row["cell"]), metric)
            place = None if group.metric is None else test.better(group.metric.better)
            better = "" if place is None else group.names[place]
            tested = (test.p_value, test.adjusted, test.significant, better, i == 0)
            found = test.effect
            effect = (kind, found.scale, found.value, found.lower, found.upper)
            rows.append((*about, float(one.finals.mean() - other.finals.mean()), *tested, *effect))
    return pd.DataFrame(rows, columns=[*_COMPARISON_COLUMNS, *_TESTED, *_EFFECT])
