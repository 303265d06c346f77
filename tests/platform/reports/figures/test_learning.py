"""The figure of a cell states the certified epsilon, names its curves, and shows gaps if the algorithm has them."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from dprl.platform.configs.experiment import Experiment
from dprl.platform.reports.figures.learning import cell_figure
from dprl.platform.reports.records import SATURATION_NOTE
from tests.platform.reports.cases import NONE, cell, game_cell, is_png, jdp, records

GAPS = "gap, smallest gap and exploitability"


def draw_cell(one: Experiment, saturated: float = 0.3) -> bytes:
    return cell_figure(records(one, saturated), one, one.certificate().to_dict())


@pytest.mark.parametrize(
    ("privacy", "title"),
    [
        (NONE, "no privacy (\u03b5 = \u221e)"),
        (jdp(1.5), "jdp, certified \u03b5 = 1.5"),
        (jdp(1, calibration="printed"), "jdp, certified \u03b5 = 2.895 (the claim of 1 fails)"),
        ({"model": "ldp", "epsilon": 1, "calibration": "printed"}, "ldp, certified \u03b5 = 2 (the claim of 1 fails)"),
        (jdp(1, delta=1e-6), "jdp, certified \u03b5 = 1 at \u03b4 = 1e-06"),
    ],
)
def test_the_title_of_a_cell_names_what_is_proved(privacy: dict[str, Any], title: str, drawn: list[Figure]) -> None:
    png = draw_cell(cell(privacy))
    setting, told = drawn[0].get_suptitle().split("\n")
    assert setting == "private_ucb_vi on riverswim (n_states=3, horizon=4, version=osband)"
    assert told == title
    assert is_png(png)


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        ({"algorithm_label": "Ours"}, "Ours"),
        ({"label": "first"}, "first: private_ucb_vi"),
        ({"label": "first", "algorithm_label": "Ours"}, "first: Ours"),
    ],
)
def test_the_title_of_a_cell_has_the_labels_of_its_config(
    labels: dict[str, Any], name: str, drawn: list[Figure]
) -> None:
    draw_cell(replace(cell(jdp(1)), **labels))
    assert drawn[0].get_suptitle().startswith(f"{name} on riverswim (n_states=3, ")


@pytest.mark.parametrize(("seeds", "told"), [(1, "1 seed"), (2, "2 seeds")])
def test_a_cell_with_few_seeds_is_drawn_without_a_band(seeds: int, told: str, drawn: list[Figure]) -> None:
    draw_cell(cell(jdp(1), seeds=seeds))
    assert all(not axes.collections for axes in drawn[0].axes)
    legend = drawn[0].axes[1].get_legend()
    assert legend is not None
    assert legend.get_title().get_text() == f"{told}, no band"


@pytest.mark.parametrize(("spread", "cut"), [(0.3, False), (3.0, True)])
def test_bands_have_room_or_the_legend_says_that_they_are_cut_off(
    spread: float, cut: bool, drawn: list[Figure]
) -> None:
    one = cell(jdp(1))
    rows = records(one)
    rows.loc[(rows["episode"] == 10) & (rows["seed"] == 2), "regret_per_episode"] *= 1.0 + spread
    cell_figure(rows, one, one.certificate().to_dict())
    axes = drawn[0].axes[0]
    (band,) = axes.collections
    top = max(float(np.asarray(path.vertices)[:, 1].max()) for path in band.get_paths())
    assert (top > axes.get_ylim()[1]) == cut
    legend = axes.get_legend()
    assert legend is not None
    told = ", cut off at the end of the axis" if cut else ""
    assert legend.get_title().get_text() == f"3 seeds, 95% t band over seeds{told}"


def test_axes_have_names_and_units(drawn: list[Figure]) -> None:
    draw_cell(cell(jdp(1)))
    assert [" ".join(axes.get_ylabel().split()) for axes in drawn[0].axes] == [
        "regret per episode, mean over the block (reward)",
        "cumulative regret (reward)",
    ]
    assert [axes.get_xlabel() for axes in drawn[0].axes] == ["episode", "episode"]
    assert [axes.get_xscale() for axes in drawn[0].axes] == ["log", "linear"]


def test_a_saturated_bonus_is_written_into_the_figure(drawn: list[Figure]) -> None:
    draw_cell(cell(jdp(1)), saturated=1.0)
    draw_cell(cell(jdp(1)), saturated=0.5)
    told = [[text.get_text() for axes in figure.axes for text in axes.texts] for figure in drawn]
    assert told == [[SATURATION_NOTE], []]


def test_an_algorithm_with_gaps_has_a_panel_of_them(drawn: list[Figure]) -> None:
    one = game_cell(jdp(1))
    assert is_png(draw_cell(one))
    regret, total, gaps = drawn[0].axes
    assert [axes.get_xscale() for axes in (regret, total, gaps)] == ["log", "linear", "log"]
    assert " ".join(gaps.get_ylabel().split()) == f"{GAPS} after the episode (reward, log)"
    names = ["gap of the policy deployed last", "smallest gap of the output policy"]
    legend = gaps.get_legend()
    assert legend is not None
    lines: dict[str, Any] = dict(zip([text.get_text() for text in legend.get_texts()], gaps.get_lines(), strict=True))
    assert list(lines) == [*names, "exploitability of the output policy"]
    assert legend.get_title().get_text() == "3 seeds, 95% t band over seeds"
    last = records(one).query("episode == 1000")
    for line, name in zip(lines.values(), ("gap", "smallest_gap", "exploitability"), strict=True):
        assert np.asarray(line.get_ydata())[-1] == pytest.approx(last[name].mean())
    assert len({str(line._unscaled_dash_pattern) for line in lines.values()}) == 3
    assert len(gaps.collections) == 3  # the bands


def test_the_legend_of_the_gaps_covers_no_data_and_nothing_is_cut_off(drawn: list[Figure]) -> None:
    draw_cell(game_cell(jdp(1, calibration="printed")))
    (figure,) = drawn
    gaps = figure.axes[2]
    legend = gaps.get_legend()
    assert legend is not None
    box = legend.get_window_extent()
    assert box.y1 < gaps.get_window_extent().y0
    # Texts are measured at the screen's resolution, up to 4 pixels larger than in the file.
    assert min(box.x0, box.y0) >= -4
    assert box.x1 <= figure.bbox.x1
    for axes in figure.axes:
        extent = axes.get_tightbbox()
        assert extent is not None
        assert extent.x0 >= 0
        assert extent.x1 <= figure.bbox.x1
    boxes = [axes.get_window_extent() for axes in figure.axes]
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))


@pytest.mark.parametrize(("blocks", "last"), [(200, "200k"), (12_500, "12.5M")])
def test_the_last_number_of_episodes_is_inside_the_figure(blocks: int, last: str, drawn: list[Figure]) -> None:
    one = cell(jdp(1))
    rows = records(one)
    rows["episode"] *= blocks
    cell_figure(rows, one, one.certificate().to_dict())
    (figure,) = drawn
    tick = figure.axes[1].get_xticklabels()[-1]
    assert tick.get_text() == last
    assert tick.get_window_extent().x1 < figure.bbox.x1


@pytest.mark.parametrize("seeds", [1, 2])
def test_gaps_of_few_seeds_have_no_band(seeds: int, drawn: list[Figure]) -> None:
    draw_cell(game_cell(jdp(1), seeds=seeds))
    assert not drawn[0].axes[2].collections


def test_roundings_of_an_exploitability_of_zero_do_not_stretch_the_axis(drawn: list[Figure]) -> None:
    one = game_cell(NONE)
    some = records(one)
    some.loc[some["episode"] > 500, "exploitability"] = 1e-16
    cell_figure(some, one, one.certificate().to_dict())
    low, high = drawn[0].axes[2].get_ylim()
    assert 1e6 <= high / low < 1e7
