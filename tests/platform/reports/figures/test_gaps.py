"""The figure of gaps names its curves at their ends, and never places a claim at what is not proved."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dprl.platform.configs.experiment import Experiment
from dprl.platform.reports.figures.gaps import gaps_figure, with_gaps
from dprl.platform.reports.records import curve
from tests.platform.reports.cases import NONE, cell, game_cell, is_png, jdp, legend_of, records, summary

PRINTED = {"calibration": "printed"}


def curves(cells: Sequence[Experiment]) -> dict[str, pd.DataFrame]:
    return {one.digest: curve(records(one), "smallest_gap") for one in cells}


def draw(cells: Sequence[Experiment]) -> bytes:
    return gaps_figure(summary(cells), curves(cells))


def names(axes: Axes) -> list[str]:
    """What stands beside the ends of the curves, from below."""
    return [text.get_text() for text in sorted(axes.texts, key=lambda text: text.get_position()[1])]


def test_only_cells_with_a_gap_are_drawn(drawn: list[Figure]) -> None:
    plain, games = [cell(NONE), cell(jdp(1))], [game_cell(NONE), game_cell(jdp(1))]
    assert with_gaps(summary(plain)).empty
    rows = with_gaps(summary([*plain, *games]))
    assert is_png(gaps_figure(rows, curves(games)))
    assert [len(figure.axes) for figure in drawn] == [2]
    assert drawn[0].axes[0].get_title() == "random_game"


def test_each_cell_has_a_curve_that_is_named_by_what_is_proved(drawn: list[Figure]) -> None:
    cells = [game_cell(p) for p in (NONE, jdp(1), jdp(4), jdp(1, **PRINTED))]
    draw(cells)
    left = drawn[0].axes[0]
    proved = summary(cells)["proved_epsilon"].iloc[-1]
    assert proved > 1
    assert set(names(left)) == {
        "none",
        "jdp certified \u03b5=1",
        "jdp certified \u03b5=4",
        f"jdp printed \u03b5={proved:.4g}, fails",
    }
    episodes = curve(records(cells[0]), "smallest_gap")
    drawn_curves = [line for line in left.get_lines() if np.size(line.get_xdata()) == len(episodes)]
    assert len(drawn_curves) == 4
    for line in drawn_curves:
        np.testing.assert_allclose(np.asarray(line.get_ydata()), episodes["mean"])
    assert left.get_xscale() == "log"
    assert left.get_ylabel() == "smallest gap of the output policy (reward)"
    assert left.get_xlabel() == "episode"  # without bands, as there are more than three curves


def test_names_are_short_where_the_trust_model_tells_the_line(drawn: list[Figure]) -> None:
    draw([game_cell(p) for p in (NONE, jdp(1), {"model": "ldp", "epsilon": 2, "families": "one_hot"})])
    assert set(names(drawn[0].axes[0])) == {"none", "jdp \u03b5=1", "ldp \u03b5=2"}
    assert "ldp one_hot: smallest gap" in legend_of(drawn[0])


def test_a_failed_claim_stands_at_what_is_proved_and_is_hollow(drawn: list[Figure]) -> None:
    printed = game_cell(jdp(1, **PRINTED))
    rows = summary([printed, game_cell(jdp(4))])
    draw([printed, game_cell(jdp(4))])
    left, right = drawn[0].axes
    assert sorted(right.get_xticks()) == sorted(rows["proved_epsilon"])
    assert 1.0 not in right.get_xticks()
    told = " ".join(drawn[0].get_suptitle().split())
    assert "claim fails" in told
    for axes in (left, right):
        faces = {str(line.get_markerfacecolor()) for line in axes.get_lines() if str(line.get_linestyle()) == "None"}
        assert "white" in faces


def lines_over_epsilon(axes: Axes) -> dict[str, Line2D]:
    handles, labels = axes.get_legend_handles_labels()
    found = [handle if isinstance(handle, Line2D) else handle.lines[0] for handle in handles]  # type: ignore[attr-defined]
    return dict(zip(labels, found, strict=True))


def test_gap_and_exploitability_stand_over_epsilon_and_differ_in_marker_and_width(drawn: list[Figure]) -> None:
    cells = [game_cell(p) for p in (NONE, jdp(1), jdp(4))]
    draw(cells)
    right = drawn[0].axes[1]
    rows = summary(cells).iloc[1:]
    found = lines_over_epsilon(right)
    gap, exploited = found["jdp: smallest gap"], found["jdp: exploitability"]
    for line, column in ((gap, "smallest_gap"), (exploited, "exploitability")):
        np.testing.assert_allclose(np.asarray(line.get_xdata()), rows["proved_epsilon"])
        np.testing.assert_allclose(np.asarray(line.get_ydata()), rows[column])
    assert gap.get_marker() != exploited.get_marker()
    assert gap.get_linewidth() > exploited.get_linewidth()
    assert gap.get_color() == exploited.get_color()
    free = summary(cells).iloc[0]
    references = [
        f"none: smallest gap {free['smallest_gap']:.2g}",
        f"none: exploitability {free['exploitability']:.2g}",
    ]
    assert legend_of(drawn[0]) == [*references, "jdp: smallest gap", "jdp: exploitability"]
    assert {str(found[name].get_marker()) for name in references} == {"None"}
    # Bands: of 2 lines and 2 references.
    assert len([c for c in right.collections if type(c).__name__ == "FillBetweenPolyCollection"]) == 2
    assert len(right.patches) == 2
    assert "95% t band over seeds" in drawn[0].get_suptitle()
    assert drawn[0].axes[0].get_xlabel() == "episode; 95% bands of whole curves over seeds"


def test_names_do_not_lie_on_each_other_where_curves_end_at_one_place(drawn: list[Figure]) -> None:
    cells = [game_cell(jdp(1 + i / 10)) for i in range(14)]
    draw(cells)
    (figure,) = drawn
    left, right = figure.axes
    boxes = sorted((text.get_window_extent() for text in left.texts), key=lambda box: box.y0)
    assert len(boxes) == 14
    assert all(low.y1 <= high.y0 + 1 for low, high in itertools.pairwise(boxes))
    assert boxes[0].y0 >= 0
    assert boxes[-1].y1 <= figure.bbox.y1
    # Nor on the axes of the other panel and their names.
    second = right.get_tightbbox()
    assert second is not None
    assert all(left.get_window_extent().x1 < box.x0 for box in boxes)
    assert max(box.x1 for box in boxes) <= second.x0 + 1


@pytest.mark.parametrize(
    ("cells", "panels"),
    [
        ([game_cell(NONE)], 1),
        ([game_cell(jdp(1), seeds=1)], 1),
        ([game_cell(NONE, seeds=2), game_cell(jdp(1), seeds=2)], 1),
        ([game_cell(p, h) for p in (NONE, jdp(1), jdp(4, delta=1e-6)) for h in (2, 3)], 2),
    ],
    ids=["none only", "one seed", "two seeds", "two games"],
)
def test_it_comes_out_for_every_shape_of_sweep(cells: list[Experiment], panels: int, drawn: list[Figure]) -> None:
    assert is_png(draw(cells))
    (figure,) = drawn
    assert len(figure.axes) == 2 * panels
    artists = [figure._suptitle, figure.legends[0], *figure.axes]  # type: ignore[attr-defined]
    for artist in artists:
        box = artist.get_tightbbox() if isinstance(artist, Axes) else artist.get_window_extent()
        assert box is not None
        assert min(box.x0, box.y0) >= 0
        assert box.x1 <= figure.bbox.x1
        assert box.y1 <= figure.bbox.y1


def test_the_two_names_of_a_line_stand_below_each_other_in_the_legend(drawn: list[Figure]) -> None:
    privacies = [NONE, jdp(1), jdp(1, **PRINTED), jdp(1, delta=1e-6), {"model": "ldp", "epsilon": 1}]
    draw([game_cell(p) for p in privacies])
    texts = [text for text in drawn[0].legends[0].get_texts() if text.get_text()]
    assert len(texts) == 10
    for gap, exploited in zip(texts[::2], texts[1::2], strict=True):
        above, below = gap.get_window_extent(), exploited.get_window_extent()
        assert above.x0 == pytest.approx(below.x0, abs=1)
        assert below.y1 <= above.y0 + 1
