"""Charts side by side with a legend under each column."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from dprl.platform.reports.figures.charts import Axis, Chart
from dprl.platform.reports.figures.colours import BLUE, Look
from dprl.platform.reproductions import figures as plots

X = Axis("users", "users", False, (0.0, 2.0), counts=True)
Y = Axis("score", "score", False, (0.0, 1.0))


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that a test draws."""
    found: list[Figure] = []

    def keep(figure: Figure, _: str) -> bytes:
        found.append(figure)
        return b""

    monkeypatch.setattr(plots, "render", keep)
    return found


def chart(title: str, *names: str, y: Axis = Y, warning: str = "") -> Chart:
    lines = [plots.curve(name, [0, 2], [0.0, 0.5], (BLUE, Look("-", "", 1.0))) for name in names]
    return plots.chart(title, lines, X, y, warning)


def test_legends_name_the_lines_of_the_last_row_but_those_without_a_name(drawn: list[Figure]) -> None:
    plots.draw_charts([[chart("above", "one")], [chart("below", "one", "", "other")]], "title")
    [figure] = drawn
    above, below = figure.axes
    legend = below.get_legend()
    assert above.get_legend() is None
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["one", "other"]
    assert [axes.get_xlabel() for axes in (above, below)] == ["", "users"]


def test_a_scale_of_its_own_has_ticks_and_a_title(drawn: list[Figure]) -> None:
    other = Axis("regret", "regret", False, (0.0, 9.0))
    plots.draw_charts([[chart("a", "one"), chart("b", "one"), chart("c", "one", y=other)]], "title")
    assert [axes.get_ylabel() for axes in drawn[0].axes] == ["score", "", "regret"]


def test_a_warning_is_written_across_its_panel_only(drawn: list[Figure]) -> None:
    plots.draw_charts([[chart("a", "one"), chart("b", "one", warning="NOT PRIVATE")]], "title")
    assert [[text.get_text() for text in axes.texts] for axes in drawn[0].axes] == [[], ["NOT PRIVATE"]]


def test_a_curve_without_a_band_has_no_ends() -> None:
    line = plots.curve("one", [0, 1], [1.0, 2.0], (BLUE, Look("-", "", 1.0)))
    assert np.isnan(line.low).all()
    assert np.isnan(line.high).all()
