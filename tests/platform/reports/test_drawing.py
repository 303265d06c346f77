"""Figures of made-up cells: the places of panels and texts."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from dprl.platform.configs.experiment import read_experiment
from dprl.platform.reports.charts import COLOURS, NEUTRAL, NO_PRIVACY, report_charts
from dprl.platform.reports.drawing import draw, label_colour, spread, style_of
from dprl.platform.results.cells import Cell
from tests.platform.reports.cases import NONE, jdp
from tests.platform.reports.chart_cases import LDP, chart, mixed, of, report_cell

ALGORITHMS = ("private_ucb_vi", "private_ucb_po", "bernstein_vi")
COLUMN = 3.3
"""Width of a column of a paper, in inches."""


def three_algorithms() -> list[Cell]:
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
    figure = draw(chart(name, *three_algorithms()), style_of("paper", width=width))
    panels = panels_of(figure)
    assert figure.get_size_inches()[0] == pytest.approx(width)
    for axes in panels if width < 5.0 else panels[-1:]:
        labels = boxes_of(axes.texts[-7:])
        texts = {text.replace("\n", " ") for text in labels}
        assert texts == {*ALGORITHMS, *(f"{algorithm}, no privacy" for algorithm in ALGORITHMS), "no learning"}
        assert all(box.x0 > axes.bbox.x1 for box in labels.values())
        assert not any(one.padded(-1.0).overlaps(other) for one, other in itertools.combinations(labels.values(), 2))


@pytest.mark.parametrize("colour", [*COLOURS, NEUTRAL, NO_PRIVACY, "#A8A8A8"])
def test_labels_can_be_read(colour: str) -> None:
    parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(label_colour(colour))]
    assert 1.05 / (np.dot([0.2126, 0.7152, 0.0722], parts) + 0.05) >= 4.5


@pytest.mark.parametrize(("width", "columns"), [(8.0, 2), (COLUMN, 1)])
def test_panels_of_trust_models_are_side_by_side_where_they_fit(width: float, columns: int) -> None:
    panels = panels_of(draw(chart("frontier", *three_algorithms()), style_of("paper", width=width)))
    assert len({round(axes.bbox.x0) for axes in panels}) == columns
    assert len({round(axes.bbox.y0) for axes in panels}) == 2 // columns


@pytest.mark.parametrize("name", ["frontier", "curves"])
def test_a_figure_has_the_height_asked_for_unless_labels_need_more(name: str) -> None:
    found = chart(name, *three_algorithms())
    for width, height in ((8.0, 2.5), (5.5, 4.0), (COLUMN, 6.0)):
        size = draw(found, style_of("paper", width=width, height=height)).get_size_inches()
        assert size == pytest.approx((width, height))
    low = draw(found, style_of("paper", width=COLUMN, height=1.5))
    assert low.get_size_inches()[1] > 1.5
    labels = [text.get_window_extent() for text in panels_of(low)[0].texts[-7:]]
    assert not any(one.padded(-1.0).overlaps(other) for one, other in itertools.combinations(labels, 2))


@pytest.mark.parametrize(("style", "width"), [("paper", 5.5), ("paper", 2.7), ("slides", None)])
def test_no_text_leaves_the_figure_or_lies_on_another(style: str, width: float | None) -> None:
    wide = [report_cell(of("pucb", jdp(1.0), horizon=6)), report_cell(of("bernstein_vi", LDP, horizon=6))]
    raw = of("pucb", jdp(1.0)).as_mapping()
    names = "random_mdp", "gridworld"
    long = [report_cell(read_experiment(raw | {"env": {"name": name, "horizon": 12}})) for name in names]
    for found in report_charts([*mixed(), *wide, *long]):
        figure = draw(found, style_of(style, width=width))
        figure.canvas.draw()
        unseen = set()  # ticks beyond the ends of an axis, which are not drawn
        for axis in (each for axes in figure.axes for each in (axes.xaxis, axes.yaxis)):
            low, high = sorted(axis.get_view_interval())
            unseen |= {tick.label1 for tick in axis.get_major_ticks() if not low <= tick.get_loc() <= high}
        texts: list[Any] = [text for text in figure.findobj(Text) if text.get_text().strip()]
        texts = [text for text in texts if text.get_visible() and text not in unseen]
        boxes = [text.get_window_extent() for text in texts]
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
