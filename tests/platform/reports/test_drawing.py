"""Figures of made-up cells: labels that can be read, sizes, formats, and restyling."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text

from dprl.platform.configs.experiment import read_experiment
from dprl.platform.reports.charts import COLOURS, NEUTRAL, NO_PRIVACY, report_charts
from dprl.platform.reports.drawing import FORMATS, draw, render, spread, style_of, tick_text
from dprl.platform.results.cells import Cell
from tests.platform.reports.cases import NONE, jdp
from tests.platform.reports.chart_cases import LDP, chart, mixed, of, report_cell

ALGORITHMS = ("private_ucb_vi", "private_ucb_po", "bernstein_vi")
COLUMN = 3.25
"""Width of a column of a paper, in inches."""


def three_algorithms() -> list[Cell]:
    return [
        report_cell(of(name, privacy), [factor * (1.0 + i / 5) for factor in (1.0, 1.1, 1.2)])
        for i, name in enumerate(ALGORITHMS)
        for privacy in (NONE, jdp(1.0), jdp(4.0), LDP, {**LDP, "epsilon": 4.0})
    ]


def panels_of(figure: Figure) -> list[Axes]:
    figure.canvas.draw()
    return [axes for axes in figure.axes if axes.axison]


@pytest.mark.parametrize("name", ["frontier", "curves"])
@pytest.mark.parametrize("width", [5.5, COLUMN, 2.7])
def test_labels_name_the_algorithm_cover_nothing_and_can_be_read(name: str, width: float) -> None:
    figure = draw(chart(name, *three_algorithms()), style_of("paper", width=width))
    panels = panels_of(figure)
    assert figure.get_size_inches()[0] == pytest.approx(width)
    labels = {text.get_text().replace("\n", " "): text for text in panels[-1].texts}
    assert {*labels} == {*ALGORITHMS, *(f"{algorithm}, no privacy" for algorithm in ALGORITHMS), "first policy"}
    boxes = [text.get_window_extent() for text in labels.values()]
    assert all(box.x0 > panels[-1].bbox.x1 for box in boxes)
    assert not any(one.padded(-1.0).overlaps(other) for one, other in itertools.combinations(boxes, 2))


def test_all_colours_of_labels_can_be_read_on_white() -> None:
    for colour in (*COLOURS, NEUTRAL, NO_PRIVACY):
        figure = draw(chart("frontier", *mixed()), style_of("paper"), dict.fromkeys(ALGORITHMS, colour))
        for text in figure.axes[0].texts:
            shares = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(text.get_color())]
            assert 1.05 / (np.dot([0.2126, 0.7152, 0.0722], shares) + 0.05) >= 4.5, colour


@pytest.mark.parametrize(("width", "columns"), [(8.0, 2), (COLUMN, 1)])
def test_panels_are_side_by_side_where_they_fit(width: float, columns: int) -> None:
    panels = panels_of(draw(chart("frontier", *three_algorithms()), style_of("paper", width=width)))
    assert len({round(axes.bbox.x0) for axes in panels}) == columns


def test_a_figure_has_the_height_asked_for_unless_labels_need_more() -> None:
    found = chart("frontier", *three_algorithms())
    assert draw(found, style_of("paper", 8.0, 2.5)).get_size_inches() == pytest.approx((8.0, 2.5))
    low = draw(found, style_of("paper", COLUMN, 1.5))
    assert low.get_size_inches()[1] > 1.5
    labels = [text.get_window_extent() for text in panels_of(low)[0].texts]
    assert not any(one.padded(-1.0).overlaps(other) for one, other in itertools.combinations(labels, 2))


@pytest.mark.parametrize(("style", "width"), [("paper", 5.5), ("paper", 2.7), ("slides", None)])
def test_no_text_leaves_the_figure_or_lies_on_another(style: str, width: float | None) -> None:
    wide = [report_cell(of("pucb", jdp(1.0), horizon=6)), report_cell(of("bernstein_vi", LDP, horizon=6))]
    printed = report_cell(of("private_ucb_vi", jdp(1.0, calibration="printed")))
    raw = of("pucb", jdp(1.0)).as_mapping()
    names = "random_mdp", "gridworld"
    long = [report_cell(read_experiment(raw | {"env": {"name": name, "horizon": 12}})) for name in names]
    for found in [*report_charts([*mixed(), *wide, *long]), chart("frontier", printed)]:
        figure = draw(found, style_of(style, width=width))
        figure.canvas.draw()
        unseen = set()  # ticks beyond the ends of an axis, which are not drawn
        for axis in (each for axes in figure.axes for each in (axes.xaxis, axes.yaxis)):
            low, high = sorted(axis.get_view_interval())
            unseen |= {tick.label1 for tick in axis.get_major_ticks() if not low <= tick.get_loc() <= high}
        texts: list[Any] = [text for text in figure.findobj(Text) if text.get_text().strip()]
        texts = [text for text in texts if text.get_visible() and text not in unseen]
        boxes = [text.get_window_extent() for text in texts]
        for text, box in zip(texts, boxes, strict=True):
            assert min(box.x0, box.y0) >= -1.0, text
            assert box.x1 <= figure.bbox.width + 1.0, text
            assert box.y1 <= figure.bbox.height + 1.0, text
        large = [box for box, text in zip(boxes, texts, strict=True) if text.get_fontsize() != style_of(style).text]
        assert not any(one.padded(-3.0).overlaps(other) for one, other in itertools.combinations(large, 2))


def test_labels_are_moved_apart_and_stay_in_the_panel() -> None:
    assert spread([0.5, 0.5, 0.5, 0.99], [0.1] * 4) == pytest.approx([0.4, 0.5, 0.6, 0.95])
    assert spread([0.99, 0.99, 1.0], [0.1] * 3) == pytest.approx([0.75, 0.85, 0.95])
    assert spread([0.0, 0.0, 0.5, 0.61], [0.1] * 4) == pytest.approx([0.05, 0.15, 0.5, 0.61])


def test_trust_models_differ_in_dashes_and_markers() -> None:
    (axes,) = draw(chart("frontier", *mixed()), style_of("paper")).axes
    looks = {
        label: {str(line.get_linestyle()) + str(line.get_marker()) for line in axes.lines if line.get_label() == label}
        for label in ("private_ucb_vi, central, \u03b4 = 0", "private_ucb_vi, local, \u03b4 = 0")
    }
    assert {"Noneo", "-None"} <= looks["private_ucb_vi, central, \u03b4 = 0"]
    assert {"Nones", "--None"} <= looks["private_ucb_vi, local, \u03b4 = 0"]


@pytest.mark.parametrize("kind", FORMATS)
def test_equal_figures_have_equal_bytes(kind: str) -> None:
    found = chart("frontier", *mixed())
    first, second = (render(draw(found, style_of("paper")), kind) for _ in range(2))
    assert first == second


def test_text_stays_text() -> None:
    figure = draw(chart("frontier", *mixed()), style_of("page"))
    before = render(figure, "png")
    assert b"private_ucb_vi, no privacy</text>" in render(figure, "svg")
    assert render(figure, "png") == before  # with as many pixels as before the other formats
    assert b"/FontType 42" in render(figure, "pdf") or b"/Type0" in render(figure, "pdf")
    with pytest.raises(ValueError, match="kind must be one of pdf, svg, png, got 'gif'"):
        render(figure, "gif")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.001, "0.001"), (1.0, "1"), (30.0, "30"), (1e-6, "10\u207b\u2076"), (10_000, "10k"), (2_500_000, "2.5M")],
)
def test_ticks_are_plain_numbers(value: float, text: str) -> None:
    assert tick_text(value) == text


def test_markers_are_explained_unless_all_claims_hold() -> None:
    def explained(*cells: Cell) -> list[str]:
        figure = draw(chart("frontier", *cells), style_of("paper"))
        return [text.get_text() for legend in figure.legends for text in legend.get_texts()]

    printed = report_cell(of("private_ucb_vi", jdp(1.0, calibration="printed")))
    assert explained(*mixed()) == []
    assert explained(printed) == ["holds only for \u03b4 > 0", "claimed to certified \u03b5"]


@pytest.mark.parametrize("name", ["frontier", "curves"])
def test_a_figure_can_be_restyled(name: str) -> None:
    """Colours of algorithms, words of labels, and every artist by the label of its line."""
    found = chart(name, *mixed())
    figure = draw(found, style_of("paper"), {"bernstein_vi": "#123456"}, {"bernstein_vi": "Ours"})
    (axes,) = figure.axes
    assert any(text.get_text().startswith("Ours, local") for text in axes.texts)
    known = {*found.points["line"], "first policy"}
    assert {str(artist.get_label()) for artist in (*axes.lines, *axes.collections, *axes.patches, *axes.texts)} == known
    label = next(label for label in known if label.startswith("bernstein_vi, local"))
    assert {line.get_color() for line in axes.lines if line.get_label() == label} == {"#123456"}


def test_the_figures_of_the_docs_need_only_pandas_and_matplotlib(
    finished: Path, tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPRL_HOME", str(finished))
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (root / "docs" / "reports.md").read_text(), re.DOTALL)
    for block in (block for block in blocks if "regret_vs_epsilon" in block):
        exec(block.replace("regret_vs_epsilon", "small"), {})
    assert {file.name for file in tmp_path.iterdir()} == {"figure.pdf", "curves.pdf"}
