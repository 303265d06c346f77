"""Charts of made-up cells: panels, lines and their labels, intervals and captions."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dprl.algorithms import ALGORITHMS
from dprl.platform.configs.experiment import read_experiment
from dprl.platform.reports.charts import COLOURS, MOST_LINES, MOST_PANELS, NEUTRAL, Chart, colours_of, report_charts
from dprl.platform.results.cells import Cell
from dprl.platform.results.compare import groups_of
from tests.platform.reports.cases import LDP, NONE, cell, chart, jdp, labelled, mixed, of, report_cell


def lines(found: Chart) -> dict[str, pd.DataFrame]:
    """The points of each line of a chart with one panel."""
    assert found.points["panel"].nunique() == 1
    return {str(label): points for label, points in found.points.groupby("line", sort=False)}


def panels(found: Chart) -> list[str]:
    return list(dict.fromkeys(found.points["panel"]))


def test_algorithms_of_one_report_have_different_colours_and_the_same_in_all_figures() -> None:
    one = report_cell(of("bernstein_vi", jdp(1.0)))

    def named(*names: str) -> dict[str, str]:
        return colours_of([labelled(one, **{"algorithm.name": name}) for name in names])

    for pair in itertools.combinations(sorted(ALGORITHMS), 2):
        assert len({*named(*pair).values()}) == 2, pair
    assert named("b", "a", "pucb") == named("pucb", "a", "b")
    assert len({*named(*"abcdefgh").values()}) == 8
    assert [*named(*"abcdefghij").values()].count(NEUTRAL) == 2
    wanted = {"bernstein_vi": COLOURS[0], "private_ucb_vi": COLOURS[1]}
    assert all(found.colours == wanted for found in report_charts(mixed()))


def test_delta_is_in_the_label_where_deltas_are_mixed_and_in_the_caption_where_not() -> None:
    told = lines(chart("frontier", *mixed()))
    both = "bernstein_vi, central, \u03b4 = 10\u207b\u2076", "bernstein_vi, central, \u03b4 = 0"
    assert {*both, "private_ucb_vi, no privacy"} <= {*told}
    one = chart("frontier", report_cell(of("bernstein_vi", jdp(1.0, delta=1e-6))))
    assert "\u03b4 = 10\u207b\u2076." in one.caption
    assert [*lines(one)] == ["bernstein_vi"]
    # The delta of a cell that certifies nothing is not one of them.
    failing = report_cell(of("bernstein_vi", jdp(1.0)))
    failing = replace(failing, row={**failing.row, "proved_epsilon": math.inf, "verdict": "fails"})
    loose = report_cell(of("bernstein_vi", jdp(1.0, delta=1e-6)))
    assert [*lines(chart("frontier", loose, failing))] == ["bernstein_vi"]


def test_intervals_are_computed_on_logs_and_reach_neither_zero_nor_beyond_the_range() -> None:
    wild = report_cell(of("bernstein_vi", jdp(1.0)), factors=(0.001, 1.0, 200.0))
    (point,) = chart("frontier", wild).points.to_dict("records")
    rates = wild.finals / 1000
    assert point["y"] == pytest.approx(math.exp(np.log(rates).mean()))
    assert 0.0 < point["low"] < rates.min()
    assert point["high"] == 4.0  # the horizon
    curve = chart("curves", wild).points
    assert (curve["low"] > 0.0).all()
    assert (curve["high"] <= 4.0).all()
    one = report_cell(of("bernstein_vi", jdp(1.0)))
    assert chart("curves", one).points["y"].iloc[-1] == pytest.approx(chart("frontier", one).points["y"].iloc[0])


@pytest.mark.parametrize("given", [{}, {"cell_label": "mine"}, {"algorithm_label": "Ours"}])
def test_no_line_joins_certified_and_printed_noise(given: dict[str, str]) -> None:
    privacies = [jdp(1.0), jdp(2.0, calibration="printed"), jdp(4.0)]
    cells = [labelled(report_cell(of("private_ucb_vi", privacy)), **given) for privacy in privacies]
    found = {label.split(", ")[-1]: line for label, line in lines(chart("frontier", *cells)).items()}
    assert found["certified"]["x"].tolist() == [1.0, 4.0]
    assert found["printed"]["x"].tolist() == [cells[1].proved]
    assert [found[name]["variant"].iloc[0] for name in ("certified", "printed")] == [0, 1]


def test_the_fill_of_a_marker_says_what_became_of_the_claim() -> None:
    printed = report_cell(of("private_ucb_vi", jdp(1.0, calibration="printed")))
    (point,) = chart("frontier", printed).points.to_dict("records")
    assert point["fill"] == "left"
    assert point["x"] == printed.proved > 1.0
    failing = replace(printed, row={**printed.row, "verdict": "fails"})
    assert chart("frontier", failing).points["fill"].tolist() == ["none"]


def test_cells_without_a_certified_epsilon_are_named_in_the_caption() -> None:
    broken = report_cell(of("private_ucb_vi", jdp(2.0)))
    lost = replace(broken, row={**broken.row, "proved_epsilon": math.inf, "verdict": "fails"})
    told = "NO PRIVACY, so not drawn: private_ucb_vi, central, \u03b4 = 0, NO PRIVACY, \u03b5 = 2."
    assert told in chart("frontier", *mixed(), lost).caption
    # Where none is certified, all are drawn, as results without privacy.
    found = chart("curves", lost, report_cell(of("private_ucb_vi", NONE)))
    assert [*lines(found)] == ["private_ucb_vi, NO PRIVACY, \u03b5 = inf", "private_ucb_vi, no privacy"]


def test_figures_have_at_most_six_panels_and_panels_at_most_eight_lines() -> None:
    privacies = [NONE, jdp(1.0), jdp(1.0, delta=1e-6), LDP]
    names = ("bernstein_vi", "private_ucb_vi", "private_ucb_po")
    cells = [
        report_cell(of(name, privacy, horizon))
        for horizon in (3, 4, 5, 6, 7)
        for name in names
        for privacy in privacies
    ]
    found = report_charts(cells)
    assert {"frontier", "frontier_2", "curves", "curves_2", "horizon"} <= {one.name for one in found}
    for one in found:
        assert len(panels(one)) <= MOST_PANELS
        assert one.points.groupby("panel")["line"].nunique().max() <= MOST_LINES
    assert panels(chart("frontier", *cells))[:2] == ["Central (JDP), horizon=3", "Central (JDP), horizon=4"]
    assert panels(chart("curves_2", *cells))[0].startswith("Local (LDP), \u03b5 = 1, horizon=")


def test_of_many_lines_the_best_are_drawn_and_the_others_counted() -> None:
    worse = [1.0 + i for i in range(10)]
    cells = [
        report_cell(of("bernstein_vi", jdp(1.0), bonus_scale=scale), [factor] * 3)
        for scale, factor in zip(np.linspace(0.1, 1.0, 10), reversed(worse), strict=True)
    ]
    found = chart("frontier", *cells)
    assert "Lines of worse values that are left out: 2." in found.caption
    shown = sorted(found.points["y"])
    assert shown == pytest.approx([factor * shown[0] for factor in worse[:8]])


def on(env: dict[str, Any]) -> Cell:
    return report_cell(read_experiment(cell(NONE).as_mapping() | {"env": env, "privacy": jdp(1.0)}))


FROZEN: dict[str, Any] = {"name": "gymnasium", "env_id": "FrozenLake-v1", "horizon": 10}


@pytest.mark.parametrize(
    ("envs", "titles"),
    [
        (
            [{"name": "riverswim", "n_states": 3, "horizon": 4}, FROZEN],
            ["riverswim, horizon=4", "FrozenLake-v1, horizon=10"],
        ),
        (
            [FROZEN, {**FROZEN, "kwargs": "is_slippery=False"}, {**FROZEN, "env_id": "CliffWalking-v1"}],
            ["FrozenLake-v1", "FrozenLake-v1, is_slippery=False", "CliffWalking-v1"],
        ),
        ([FROZEN, {**FROZEN, "horizon": 5}], ["horizon=5", "horizon=10"]),
        (
            [FROZEN, *({"name": "riverswim", "n_states": n, "horizon": 10} for n in (3, 6))],
            ["FrozenLake-v1", "riverswim, n_states=3", "riverswim, n_states=6"],
        ),
    ],
)
def test_panels_are_titled_by_environment_and_settings_needed(envs: list[dict[str, Any]], titles: list[str]) -> None:
    cells = [on(env) for env in envs]
    assert panels(chart("frontier", *cells)) == titles
    # summary.csv has no empty settings.
    stored = [replace(one, row={key: value for key, value in one.row.items() if value != ""}) for one in cells]
    assert panels(chart("frontier", *stored)) == titles
    assert len({group.title for group in groups_of(stored)}) == len(envs)


def test_labels_are_the_settings_that_differ_and_epsilon() -> None:
    cells = [report_cell(of("bernstein_vi", jdp(e, families=f))) for f in ("one_hot", "separate") for e in (1.0, 10.0)]
    found = lines(chart("curves", *cells))
    kinds = [f"bernstein_vi, {family}" for family in ("one_hot", "separate")]
    assert [*found] == [f"{kind}, \u03b5 = {epsilon}" for kind in kinds for epsilon in (1, 10)]
    tints = {label: line["tint"].iloc[0] for label, line in found.items()}
    assert tints[f"{kinds[0]}, \u03b5 = 1"] > tints[f"{kinds[0]}, \u03b5 = 10"] == 0.0
    assert [line["variant"].iloc[0] for line in found.values()] == [0, 0, 1, 1]


def test_a_value_of_0_on_a_logarithmic_axis_is_explained() -> None:
    one, other = report_cell(of("bernstein_vi", jdp(1.0))), report_cell(of("bernstein_vi", jdp(3.0)), [0.0, 1.0, 1.0])
    for name in ("frontier", "curves"):
        assert "also 0, count as" in chart(name, one, other).caption
        assert "also 0, count as" not in chart(name, one).caption
    idle = chart("frontier", replace(one, curves=np.where(one.episodes > one.episodes[0], one.curves, 0.0)))
    assert idle.y.limits[0] > 0.5 * idle.points["low"].min()


# ---- labels of a config ----


def test_cells_that_share_a_label_are_told_apart_by_what_differs() -> None:
    privacies = [NONE, jdp(1.0), jdp(4.0), LDP]
    cells = [labelled(report_cell(of("bernstein_vi", privacy)), cell_label="mine") for privacy in privacies]
    assert sorted(lines(chart("frontier", *cells))) == ["mine, central", "mine, local", "mine, no privacy"]
    told = ["mine, central, \u03b5 = 1", "mine, central, \u03b5 = 4", "mine, local, \u03b5 = 1", "mine, no privacy"]
    assert sorted(lines(chart("curves", *cells))) == told


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        ({"algorithm_label": "Ours"}, ("Ours (bernstein_vi)", "Ours (pucb)")),
        ({"algorithm_label": "pucb"}, ("pucb (bernstein_vi)", "pucb (pucb)")),
        ({"cell_label": "mine", "algorithm_label": "Ours"}, ("mine (bernstein_vi)", "mine (pucb)")),
    ],
)
def test_algorithms_that_share_a_label_have_their_own_lines(labels: dict[str, str], names: tuple[str, str]) -> None:
    cells = [
        labelled(report_cell(of(name, privacy)), **labels)
        for name in ("bernstein_vi", "pucb")
        for privacy in (NONE, jdp(1.0), jdp(4.0))
    ]
    found = lines(chart("frontier", *cells))
    private = {label.replace(", central", ""): line for label, line in found.items() if "no privacy" not in label}
    assert len(found) == 4
    assert [*private] == [*names]
    assert [line["x"].tolist() for line in private.values()] == [[1.0, 4.0]] * 2
    assert [line["algorithm"].iloc[0] for line in private.values()] == ["bernstein_vi", "pucb"]
    assert len(lines(chart("curves", *cells))) == 6
