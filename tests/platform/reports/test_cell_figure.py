"""The figure of a cell says what is proved, names what is drawn, and shows the gaps of an algorithm that has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from dprl.platform.configs.experiment import Experiment
from dprl.platform.reports.cell_figure import cell_figure
from dprl.platform.reports.records import SATURATION_NOTE
from tests.platform.reports.cases import NONE, cell, is_png, jdp, records


def draw_cell(one: Experiment, saturated: float = 0.3) -> bytes:
    return cell_figure(records(one.seeds, saturated), one, one.certificate().to_dict())


@pytest.mark.parametrize(
    ("privacy", "title"),
    [
        (NONE, "no privacy (\u03b5 = \u221e)"),
        (jdp(1.5), "jdp, proved \u03b5 = 1.5"),
        (jdp(1, calibration="printed"), "jdp, proved \u03b5 = 2.895 (the claim of 1 fails)"),
        ({"model": "ldp", "epsilon": 1, "calibration": "printed"}, "ldp, proved \u03b5 = 2 (the claim of 1 fails)"),
        (jdp(1, delta=1e-6), "jdp, proved \u03b5 = 1 at \u03b4 = 1e-06"),
    ],
)
def test_the_title_of_a_cell_names_what_is_proved(privacy: dict[str, Any], title: str, drawn: list[Figure]) -> None:
    png = draw_cell(cell(privacy))
    setting, told = drawn[0].get_suptitle().split("\n")
    assert setting == "private_ucb_vi on riverswim (n_states=3, horizon=4, version=osband)"
    assert told == title
    assert is_png(png)


@pytest.mark.parametrize(("seeds", "told"), [(1, "1 seed"), (2, "2 seeds")])
def test_a_cell_with_few_seeds_is_drawn_without_a_band(seeds: int, told: str, drawn: list[Figure]) -> None:
    draw_cell(cell(jdp(1), seeds=seeds))
    assert all(not axes.collections for axes in drawn[0].axes)
    legend = drawn[0].axes[1].get_legend()
    assert legend is not None
    assert legend.get_title().get_text() == f"{told}, no band"


def test_axes_have_names_and_units(drawn: list[Figure]) -> None:
    draw_cell(cell(jdp(1)))
    assert [axes.get_ylabel() for axes in drawn[0].axes] == [
        "regret per episode,\nmean over the block (reward)",
        "cumulative regret (reward)",
    ]
    assert [axes.get_xlabel() for axes in drawn[0].axes] == ["episode", "episode"]
    assert [axes.get_xscale() for axes in drawn[0].axes] == ["log", "linear"]


def test_a_saturated_bonus_is_written_into_the_figure(drawn: list[Figure]) -> None:
    draw_cell(cell(jdp(1)), saturated=1.0)
    draw_cell(cell(jdp(1)), saturated=0.5)
    told = [[text.get_text() for axes in figure.axes for text in axes.texts] for figure in drawn]
    assert told == [[SATURATION_NOTE], []]
