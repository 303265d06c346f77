"""The frontier says what is proved, names what is drawn, and comes out for every shape of sweep."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dprl.platform.configs.experiment import Experiment
from dprl.platform.reports.figures.drawing import COLOURS
from dprl.platform.reports.figures.frontier import frontier_figure
from dprl.platform.reports.figures.panels import DASHES, MARKERS
from dprl.privacy import TRUST_MODELS
from tests.platform.reports.cases import NONE, cell, is_png, jdp, legend_of, summary


def legend_markers(figure: Figure) -> list[str]:
    drawn = figure.legends[0].findobj(Line2D)
    return [str(line.get_markerfacecolor()) for line in drawn if line.get_marker() in MARKERS]


def test_the_frontier_has_a_panel_per_horizon_and_a_line_per_trust_model(drawn: list[Figure]) -> None:
    privacies = [NONE, jdp(1), jdp(4), {"model": "ldp", "epsilon": 1}, {"model": "ldp", "epsilon": 4}]
    png = frontier_figure(summary([cell(p, h) for h in (4, 6) for p in privacies]))
    (figure,) = drawn
    assert [axes.get_title() for axes in figure.axes] == ["horizon=4", "horizon=6"]
    reference, *others = legend_of(figure)
    assert others == ["jdp", "ldp"]
    means = [summary([cell(NONE, h)])["mean_regret"][0] for h in (4, 6)]
    assert reference == f"none: mean regret {means[0]:.2g} and {means[1]:.2g}"
    assert list(figure.axes[0].get_xticks()) == [1.0, 4.0]
    assert figure.axes[0].get_xscale() == "log"
    assert is_png(png)


def test_trust_models_differ_in_dashes_too() -> None:
    assert set(DASHES) == set(TRUST_MODELS)
    assert len({str(dashes) for dashes in DASHES.values()}) == len(TRUST_MODELS)


def test_lines_of_several_algorithms_share_a_colour_and_differ_in_dashes(drawn: list[Figure]) -> None:
    privacies = [NONE, jdp(1), jdp(4), {"model": "ldp", "epsilon": 1}, {"model": "ldp", "epsilon": 4}]
    one = summary([cell(p) for p in privacies])
    rows = pd.concat([one, one.assign(**{"algorithm.name": "another"})], ignore_index=True)
    frontier_figure(rows)
    (figure,) = drawn
    names = [name.partition(":")[0] for name in legend_of(figure)]
    assert names == [f"{name} {model}" for name in ("private_ucb_vi", "another") for model in ("none", "jdp", "ldp")]
    found = [line for line in figure.axes[0].get_lines() if str(line.get_linestyle()) != "None"]
    styles = {(str(line.get_color()), str(line.get_marker()), str(line._unscaled_dash_pattern)) for line in found}  # type: ignore[attr-defined]
    markers = [(COLOURS[0], "o"), (COLOURS[1], "s")]
    assert {style[:2] for style in styles} == {*markers, *((colour, "None") for colour, _ in markers)}
    assert len(styles) == 6


def styles_by_name(axes: Axes) -> dict[str, tuple[str, str]]:
    """Colour and marker of each line by its name in the legend."""
    handles, names = axes.get_legend_handles_labels()
    lines = [handle if isinstance(handle, Line2D) else handle.lines[0] for handle in handles]  # type: ignore[attr-defined]
    return {
        name.partition(":")[0]: (str(line.get_color()), str(line.get_marker()))
        for name, line in zip(names, lines, strict=True)
    }


PRIVACIES = [NONE, jdp(1), jdp(4), {"model": "ldp", "epsilon": 1, "families": "one_hot"}, jdp(1, delta=1e-6)]


def test_with_one_algorithm_colour_and_marker_tell_the_trust_model(drawn: list[Figure]) -> None:
    frontier_figure(summary([cell(p) for p in PRIVACIES if p != PRIVACIES[1]]))
    found = styles_by_name(drawn[0].axes[0])
    assert [name.split()[0] for name in found] == ["none", "jdp", "ldp", "jdp"]
    assert found["none"][1] == "None"
    assert len({colour for colour, _ in found.values()}) == 4
    assert len({marker for _, marker in found.values()}) == 4


def test_with_several_algorithms_colour_tells_the_algorithm_whatever_else_varies(drawn: list[Figure]) -> None:
    one = summary([cell(p) for p in PRIVACIES])
    frontier_figure(pd.concat([one, one.assign(**{"algorithm.name": "another"})], ignore_index=True))
    found = styles_by_name(drawn[0].axes[0])
    assert len(found) == 8
    for name, (colour, _) in found.items():
        assert colour == COLOURS[0 if name.startswith("private_ucb_vi") else 1]
    jdp_markers = [marker for name, (_, marker) in found.items() if " jdp" in name]
    assert len(set(jdp_markers)) == 4


def filled(axes: Axes) -> list[tuple[float, float]]:
    """Lowest and highest regret of each filled band over epsilon."""
    polygons = [c for c in axes.collections if type(c).__name__ in {"FillBetweenPolyCollection", "PolyCollection"}]
    heights = [np.concatenate([np.asarray(path.vertices)[:, 1] for path in band.get_paths()]) for band in polygons]
    return [(float(y.min()), float(y.max())) for y in heights]


def test_each_of_few_lines_has_a_band_around_it(drawn: list[Figure]) -> None:
    rows = summary([cell(jdp(1)), cell(jdp(4)), cell(NONE)])
    frontier_figure(rows)
    (axes,) = drawn[0].axes
    private = rows[rows["privacy.model"] == "jdp"]
    ends = private["mean_regret_lower"].min(), private["mean_regret_upper"].max()
    assert filled(axes) == [pytest.approx(ends)]
    assert len(axes.patches) == 1  # the reference's
    assert "95% t band over seeds" in drawn[0].get_suptitle()


def test_from_four_lines_on_there_are_error_bars_only(drawn: list[Figure]) -> None:
    frontier_figure(summary([cell(p) for p in PRIVACIES if p != PRIVACIES[1]]))
    (axes,) = drawn[0].axes
    assert filled(axes) == []
    assert not axes.patches
    assert len([c for c in axes.collections if isinstance(c, LineCollection)]) == 3
    assert "95% t intervals over seeds" in drawn[0].get_suptitle()


def test_two_seeds_have_no_band(drawn: list[Figure]) -> None:
    frontier_figure(summary([cell(jdp(1), seeds=2), cell(jdp(4), seeds=2), cell(NONE, seeds=2)]))
    (axes,) = drawn[0].axes
    assert filled(axes) == []
    assert not axes.patches
    assert drawn[0].get_suptitle().startswith("Utility against proved privacy\n")


def test_no_interval_reaches_below_zero(drawn: list[Figure]) -> None:
    rows = summary([cell(jdp(1)), cell(jdp(4)), cell(NONE)])
    frontier_figure(rows.assign(mean_regret_lower=-1.0))
    (axes,) = drawn[0].axes
    ((low, _),) = filled(axes)
    assert low == 0.0
    assert axes.patches[0].get_extents().transformed(axes.transData.inverted()).y0 == pytest.approx(0.0)
    (bars,) = (c for c in axes.collections if isinstance(c, LineCollection))
    assert all(segment[:, 1].min() == 0.0 for segment in map(np.asarray, bars.get_segments()))


@pytest.mark.parametrize(
    ("means", "scale", "told"),
    [
        ((1.0, 0.5, 0.05), "linear", "(reward)"),
        ((1.0, 0.5, 0.01), "log", "(reward, log)"),
        ((1.0, 0.01, 0.0), "symlog", "(reward, linear below 0.01)"),
        ((1.0, 0.5, 0.0), "linear", "(reward)"),
        ((0.0, 0.0, 0.0), "linear", "(reward)"),
    ],
)
def test_means_far_apart_get_a_logarithmic_axis_on_which_all_are_seen(
    means: tuple[float, ...], scale: str, told: str, drawn: list[Figure]
) -> None:
    rows = summary([cell(jdp(1)), cell(jdp(4)), cell(NONE)])
    frontier_figure(rows.assign(mean_regret=means, mean_regret_lower=-0.1, mean_regret_upper=1.1))
    (axes,) = drawn[0].axes
    assert axes.get_yscale() == scale
    assert axes.get_ylabel().endswith(told)
    low, high = axes.get_ylim()
    assert low < min(means)
    assert max(means) < high


def test_references_of_one_colour_differ_in_dashes(drawn: list[Figure]) -> None:
    one = summary([cell(NONE), cell(jdp(1))])
    rows = pd.concat([one, one.assign(**{"noise.arithmetic": "exact"}), one.assign(**{"algorithm.name": "another"})])
    frontier_figure(rows.reset_index(drop=True))
    references = [line for line in drawn[0].axes[0].get_lines() if str(line.get_marker()) == "None"]
    dashes = [str(line._unscaled_dash_pattern) for line in references if np.size(line.get_xdata()) == 2]  # type: ignore[attr-defined]
    assert len(dashes) >= 3
    assert dashes[0] != dashes[1]


def test_the_frontier_places_a_failing_claim_at_what_is_proved(drawn: list[Figure]) -> None:
    printed = {"model": "ldp", "epsilon": 1, "calibration": "printed"}
    frontier_figure(summary([cell(printed), cell(jdp(1))]))
    (figure,) = drawn
    assert list(figure.axes[0].get_xticks()) == [1.0, 2.0]
    assert "hollow: the claim fails" in figure.get_suptitle()
    assert legend_of(figure) == ["ldp printed", "jdp certified"]
    assert legend_markers(figure) == ["white", COLOURS[1]]


def test_a_claim_that_holds_at_a_small_delta_is_hollow_and_named_as_the_pure_one(drawn: list[Figure]) -> None:
    frontier_figure(summary([cell(jdp(1, calibration="printed")), cell(jdp(1))]))
    told = " ".join(drawn[0].get_suptitle().split())
    assert "hollow: the pure claim fails" in told
    frontier_figure(summary([cell(jdp(1))]))
    assert "hollow" not in drawn[1].get_suptitle()


def test_a_line_with_a_delta_says_so(drawn: list[Figure]) -> None:
    frontier_figure(summary([cell(NONE), cell(jdp(1)), cell(jdp(1, delta=1e-6)), cell(jdp(2, delta=1e-6))]))
    assert legend_of(drawn[0])[1:] == ["jdp", "jdp \u03b4=1e-06"]
    frontier_figure(summary([cell(jdp(1, delta=1e-6))]))
    assert legend_of(drawn[1]) == ["jdp \u03b4=1e-06"]


def test_the_title_says_what_all_cells_share(drawn: list[Figure]) -> None:
    frontier_figure(summary([cell(jdp(1)), cell(jdp(2))]))
    assert drawn[0].get_suptitle().endswith("\nprivate_ucb_vi, K = 1,000, 3 seeds")
    frontier_figure(summary([cell(jdp(1)), cell(jdp(2))]).assign(**{"algorithm.bonus_scale": 0.1}))
    assert drawn[1].get_suptitle().endswith("\nprivate_ucb_vi, K = 1,000, bonus_scale=0.1, 3 seeds")
    frontier_figure(summary([cell(jdp(1), seeds=1), cell(jdp(2), seeds=2), replace(cell(jdp(3)), episodes=2000)]))
    assert drawn[2].get_suptitle().endswith("\nprivate_ucb_vi, 1 to 3 seeds")


@pytest.mark.parametrize("horizons", [(4,), (4, 5)])
def test_nothing_is_cut_off_where_one_panel_has_many_lines(horizons: tuple[int, ...], drawn: list[Figure]) -> None:
    privacies = [
        jdp(1),
        jdp(1, delta=1e-6, counter="auto", families="one_hot"),
        jdp(1, calibration="printed"),
        {"model": "ldp", "epsilon": 1},
        {"model": "ldp", "epsilon": 1, "mechanism": "auto", "families": "one_hot"},
        jdp(2, precision="printed", counter="kary_tree"),
    ]
    frontier_figure(summary([cell(p, h) for p in privacies for h in horizons]))
    (figure,) = drawn
    assert figure._suptitle is not None  # type: ignore[attr-defined]
    for artist in (figure._suptitle, figure.legends[0], *figure.axes):  # type: ignore[attr-defined]
        box = artist.get_tightbbox() if isinstance(artist, Axes) else artist.get_window_extent()
        assert box is not None
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= figure.bbox.x1
        assert box.y1 <= figure.bbox.y1
    assert len(legend_of(figure)) == len(privacies)
    assert min(axes.get_window_extent().height for axes in figure.axes) > 0.5 * figure.bbox.height


@pytest.mark.parametrize("epsilon", [1e-9, 1.0, 0.0])
def test_a_single_epsilon_is_drawn_without_a_warning(epsilon: float, drawn: list[Figure]) -> None:
    rows = summary([cell(jdp(1)), cell({"model": "ldp", "epsilon": 1})])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        frontier_figure(rows.assign(proved_epsilon=epsilon))
    axes = drawn[0].axes[0]
    assert list(axes.get_xticks()) == [epsilon]
    low, high = axes.get_xlim()
    assert low < epsilon < high


@pytest.mark.parametrize(
    "cells",
    [
        [cell(jdp(1))],
        [cell(jdp(1), seeds=1)],
        [cell(NONE)],
        [cell(NONE, seeds=1), cell(jdp(1), seeds=1)],
        [cell(jdp(1)), cell(jdp(1, delta=1e-6))],
        [cell(jdp(1 + i / 50)) for i in range(20)],
        [cell(jdp(1), horizon) for horizon in range(2, 9)],
    ],
    ids=["one cell", "one seed", "none only", "two with one seed", "deltas", "many epsilons", "many panels"],
)
def test_the_frontier_comes_out_for_every_shape_of_sweep(cells: list[Experiment], drawn: list[Figure]) -> None:
    png = frontier_figure(summary(cells))
    assert is_png(png)
    panels = [axes for axes in drawn[0].axes if axes.get_visible()]
    assert len(panels) == len({one.parameters()["env.horizon"] for one in cells})
