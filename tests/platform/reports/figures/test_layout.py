"""Figures of made-up cells: the places of panels and texts."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from dprl.platform.configs.experiment import read_experiment
from dprl.platform.reports.comparing.report_cells import ReportCell
from dprl.platform.reports.figures.catalogue import report_charts
from dprl.platform.reports.figures.layout import compose, in_lines, spread
from dprl.platform.reports.figures.styles import style_of, text_width
from tests.platform.reports.cases import NONE, jdp
from tests.platform.reports.figures.cases import LDP, chart, mixed, of, report_cell
from tests.platform.reports.figures.test_colours import contrast

ALGORITHMS = ("private_ucb_vi", "private_ucb_po", "bernstein_vi")
COLUMN = 3.3
"""Width of a column of a paper, in inches."""


def three_algorithms() -> list[ReportCell]:
    return [
        report_cell(of(name, privacy), [factor * (1.0 + i / 5) for factor in (1.0, 1.1, 1.2)])
        for i, name in enumerate(ALGORITHMS)
        for privacy in (NONE, jdp(1.0), jdp(4.0), LDP, {**LDP, "epsilon": 4.0})
    ]


def boxes_of(texts: list[Text]) -> dict[str, Bbox]:
    return {text.get_text(): text.get_window_extent() for text in texts}


def panels_of(figure: Figure) -> list[Axes]:
    figure.canvas.draw()
    return [axes for axes in figure.axes if axes.axison]


@pytest.mark.parametrize("name", ["frontier", "curves"])
@pytest.mark.parametrize("width", [5.5, COLUMN, 2.7])
def test_labels_name_the_algorithm_and_cover_nothing(name: str, width: float) -> None:
    figure = compose(chart(name, *three_algorithms()), style_of("paper", width=width))
    panels = panels_of(figure)
    assert figure.get_size_inches()[0] == pytest.approx(width)
    for axes in panels if width < 5.0 else panels[-1:]:
        labels = boxes_of(axes.texts[-7:])
        texts = {text.replace("\n", " ") for text in labels}
        assert texts == {*ALGORITHMS, *(f"{algorithm}, no privacy" for algorithm in ALGORITHMS), "no learning"}
        assert all(box.x0 > axes.bbox.x1 for box in labels.values())
        assert not any(one.padded(-1.0).overlaps(other) for one, other in itertools.combinations(labels.values(), 2))


@pytest.mark.parametrize("algorithm", ["bernstein_vi", "private_ucb_vi"])
def test_labels_of_lighter_lines_can_be_read(algorithm: str) -> None:
    cells = [report_cell(of(algorithm, jdp(epsilon))) for epsilon in (1.0, 2.0, 4.0)]
    (axes,) = panels_of(compose(chart("curves", *cells), style_of("paper")))
    colours = {text.get_text(): to_hex(text.get_color()) for text in axes.texts}
    assert all(contrast(colours[f"\u03b5 = {epsilon}"], "#FFFFFF") >= 4.5 for epsilon in (1, 2, 4))


@pytest.mark.parametrize(("width", "columns"), [(5.5, 2), (COLUMN, 1)])
def test_panels_of_trust_models_are_side_by_side_where_they_fit(width: float, columns: int) -> None:
    panels = panels_of(compose(chart("frontier", *three_algorithms()), style_of("paper", width=width)))
    assert len({round(axes.bbox.x0) for axes in panels}) == columns
    assert len({round(axes.bbox.y0) for axes in panels}) == 2 // columns


@pytest.mark.parametrize("name", ["frontier", "curves"])
def test_a_figure_has_the_height_asked_for_unless_labels_need_more(name: str) -> None:
    found = chart(name, *three_algorithms())
    for width, height in ((5.5, 1.9), (5.5, 4.0), (COLUMN, 5.0)):
        size = compose(found, style_of("paper", width=width, height=height)).get_size_inches()
        assert size == pytest.approx((width, height))
    low = compose(found, style_of("paper", width=COLUMN, height=1.5))
    assert low.get_size_inches()[1] > 1.5
    labels = [text.get_window_extent() for text in panels_of(low)[0].texts[-7:]]
    assert not any(one.padded(-1.0).overlaps(other) for one, other in itertools.combinations(labels, 2))


def test_texts_are_broken_after_commas_or_else_at_spaces_or_else_at_underscores() -> None:
    def lines(text: str, widest: str) -> list[str]:
        return in_lines(text, text_width(widest, 7.0), 7.0).split("\n")

    assert lines("private_ucb_vi, no privacy", "private_ucb_vi,") == ["private_ucb_vi,", "no privacy"]
    assert lines("my own name, H = 4", "own name,") == ["my own", "name,", "H = 4"]
    assert lines("private_ucb_vi", "private_") == ["private_", "ucb_vi"]
    assert lines("private_ucb_vi", "i") == ["private_", "ucb_", "vi"]
    assert lines("riverswim, H = 4", "riverswim, H = 4") == ["riverswim, H = 4"]


@pytest.mark.parametrize(("style", "width"), [("paper", 5.5), ("paper", 2.7), ("slides", None)])
def test_no_text_leaves_the_figure_or_lies_on_another(style: str, width: float | None) -> None:
    wide = [report_cell(of("pucb", jdp(1.0), horizon=6)), report_cell(of("bernstein_vi", LDP, horizon=6))]
    raw = of("pucb", jdp(1.0)).as_mapping()
    names = "random_mdp", "gridworld"
    long = [report_cell(read_experiment(raw | {"env": {"name": name, "horizon": 12}})) for name in names]
    for found in report_charts([*mixed(), *wide, *long]):
        figure = compose(found, style_of(style, width=width))
        figure.canvas.draw()
        texts: list[Any] = [text for text in figure.findobj(Text) if text.get_text().strip()]
        boxes = [text.get_window_extent() for text in texts if text.get_visible()]
        for i, box in enumerate(boxes):
            assert box.x0 >= -1.0, texts[i]
            assert box.x1 <= figure.bbox.width + 1.0, texts[i]
            assert box.y0 >= -1.0, texts[i]
            assert box.y1 <= figure.bbox.height + 1.0, texts[i]
        large = [box for box, text in zip(boxes, texts, strict=True) if text.get_fontsize() == style_of(style).text]
        assert not any(one.padded(-2.0).overlaps(other) for one, other in itertools.combinations(large, 2))


def test_labels_are_moved_apart_and_stay_in_the_panel() -> None:
    places = spread([0.5, 0.5, 0.5, 0.99], [0.1] * 4)
    assert np.diff(places).min() >= 0.1 - 1e-9
    assert places[1] == pytest.approx(0.5)
    assert spread([0.99, 0.99, 1.0], [0.1] * 3) == pytest.approx([0.75, 0.85, 0.95])
    assert spread([0.0, 0.0, 0.5, 0.61], [0.1] * 4) == pytest.approx([0.05, 0.15, 0.5, 0.61])
