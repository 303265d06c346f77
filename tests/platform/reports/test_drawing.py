"""Figures of made-up cells: labels that can be read, sizes, formats, and restyling."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from dprl.platform.configs.experiment import read_experiment
from dprl.platform.errors import UserError
from dprl.platform.reports.charts import report_charts
from dprl.platform.reports.drawing import FORMATS, draw, render, style_of
from dprl.platform.results.cells import Cell
from tests.platform.reports.cases import LDP, NONE, chart, jdp, mixed, of, report_cell

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


@pytest.mark.parametrize("names", ["colours", "labels"])
def test_unknown_names_are_refused(names: str) -> None:
    with pytest.raises(UserError, match=f"{names}: must .* got 'typo'"):
        draw(chart("frontier", *mixed()), style_of("paper"), **dict[str, Any]({names: {"typo": "red"}}))


def test_the_figures_of_the_docs_need_only_pandas_and_matplotlib(
    finished: Path, tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPRL_HOME", str(finished))
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (root / "docs" / "reports.md").read_text(), re.DOTALL)
    for block in (block for block in blocks if "regret_vs_epsilon" in block):
        exec(block.replace("regret_vs_epsilon", "small"), {})
    assert {file.name for file in tmp_path.iterdir()} == {"figure.pdf", "curves.pdf"}
