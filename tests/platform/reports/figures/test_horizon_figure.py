"""A line over horizons stands under no less than any of its points proves."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from dprl.platform.reports.figures.horizon_figure import horizon_figure, lines_over_horizon
from tests.platform.reports.cases import is_png
from tests.platform.reports.comparing.cases import report_cell

FINALS = [1.0, 2.0, 3.0]


def test_a_line_is_named_after_the_point_that_proves_least(drawn: list[Figure]) -> None:
    proved = {2: 1.409, 3: 1.730, 5: 0.939}
    settings: dict[int, Any] = {h: {"env.horizon": h, "cell": str(h)} for h in proved}
    cells = [report_cell(FINALS, claimed=20.0, proved=epsilon, **settings[h]) for h, epsilon in proved.items()]
    (line,) = lines_over_horizon(cells)
    assert [cell.row["env.horizon"] for cell in line] == [2, 3, 5]
    assert is_png(horizon_figure([line]))
    (legend,) = (axes.get_legend() for axes in drawn[0].axes)
    assert legend is not None
    (name,) = (text.get_text() for text in legend.get_texts())
    assert "proved \u03b5 = 1.73, holds" in name
