"""Charts of made-up cells: lines, intervals, captions, and everything drawn."""

from __future__ import annotations

import dataclasses
import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.markers import CARETDOWN

from dprl.algorithms import ALGORITHMS
from dprl.platform.configs.experiment import read_experiment
from dprl.platform.reports import charts
from dprl.platform.reports.charts import (
    COLOURS,
    MOST_CHARTS,
    MOST_LINES,
    MOST_PANELS,
    NEUTRAL,
    colours_of,
    report_charts,
)
from dprl.platform.reports.drawing import FORMATS, draw, render, style_of, tick_text
from dprl.platform.results.cells import Cell
from dprl.platform.results.compare import groups_of
from tests.platform.reports.cases import NONE, cell, jdp
from tests.platform.reports.chart_cases import LDP, chart, labelled, mixed, of, report_cell


def labels(found: charts.Chart) -> list[str]:
    return [line.label for line in found.lines]


def test_an_algorithm_has_one_colour_in_all_figures_whatever_stands_beside_it() -> None:
    six = [report_cell(of("bernstein_vi", jdp(1.0), horizon=6)), report_cell(of("pucb", jdp(1.0), horizon=6))]
    wanted = {"bernstein_vi": COLOURS[0], "private_ucb_vi": COLOURS[1]}
    for found in report_charts([*mixed(), *six]):
        assert found.colours.items() >= wanted.items(), found.name
    assert colours_of(mixed()[:1])["private_ucb_vi"] == COLOURS[1]


def test_algorithms_of_one_report_have_different_colours() -> None:
    one = report_cell(of("bernstein_vi", jdp(1.0)))

    def named(*names: str) -> dict[str, str]:
        return colours_of([labelled(one, **{"algorithm.name": name}) for name in names])

    for pair in itertools.combinations(sorted(ALGORITHMS), 2):
        assert len({*named(*pair).values()}) == 2, pair
    assert named("b", "a", "pucb") == named("pucb", "a", "b")
    assert len({*named(*"abcdefgh").values()}) == 8
    assert [*named(*"abcdefghij").values()].count(NEUTRAL) == 2


def test_trust_models_differ_in_dashes_and_markers() -> None:
    (axes,) = draw(chart("frontier", *mixed()), style_of("paper")).axes
    looks = {str(line.get_label()): str(line.get_linestyle()) for line in axes.get_lines()}
    assert looks["private_ucb_vi, central"] != looks["private_ucb_vi, local"]
    assert {"o", "s"} <= {str(line.get_marker()) for line in axes.get_lines()}


def test_delta_is_in_the_label_where_deltas_are_mixed_and_in_the_caption_where_not() -> None:
    told = labels(chart("frontier", *mixed()))
    assert "bernstein_vi, central, \u03b4 = 10\u207b\u2076" in told
    assert "bernstein_vi, central, \u03b4 = 0" in told
    assert "private_ucb_vi, no privacy" in told
    one = chart("frontier", report_cell(of("bernstein_vi", jdp(1.0, delta=1e-6))))
    assert "\u03b4 = 10\u207b\u2076." in one.caption
    assert labels(one) == ["central"]


def test_deltas_of_what_certifies_nothing_are_not_mixed_in() -> None:
    row = {"proved_epsilon": math.inf, "verdict": "fails"}
    pure, approximate = (report_cell(of("bernstein_vi", jdp(1.0, delta=delta))) for delta in (0.0, 1e-6))
    found = chart("frontier", approximate, dataclasses.replace(pure, row={**pure.row, **row}))
    assert labels(found) == ["central"]


def test_intervals_are_computed_on_logs_and_reach_neither_zero_nor_beyond_the_range() -> None:
    wild = report_cell(of("bernstein_vi", jdp(1.0)), factors=(0.001, 1.0, 200.0))
    (line,) = chart("frontier", wild).lines
    rates = wild.finals / 1000
    assert line.y[0] == pytest.approx(math.exp(np.log(rates).mean()))
    assert 0.0 < line.low[0] < rates.min()
    assert line.high[0] == 4.0  # the horizon
    (curve,) = chart("curves", wild).lines
    assert (curve.low > 0.0).all()
    assert (curve.high <= 4.0).all()


def test_intervals_that_are_cut_off_are_marked_and_in_the_caption() -> None:
    cells = [
        report_cell(of("bernstein_vi", jdp(e)), f) for e, f in ((1.0, (0.001, 1.0, 200.0)), (2.0, (1.0, 1.1, 1.2)))
    ]
    found = chart("frontier", *cells)
    (line,), (low, high) = found.lines, found.y.limits
    assert line.low[0] < low < line.low[1] < line.high[1] < line.high[0] < high
    assert "Intervals that reach the ends of the vertical axis go further." in found.caption
    (axes,) = draw(found, style_of("paper")).axes
    (caret,) = (each for each in axes.get_lines() if each.get_marker() == CARETDOWN)
    assert np.asarray(caret.get_data()).T.tolist() == [[1.0, low]]
    assert "Bands that reach the ends of the vertical axis go further." in chart("curves", *cells).caption


def test_a_curve_ends_at_the_value_of_the_frontier() -> None:
    one = report_cell(of("bernstein_vi", jdp(1.0)))
    (curve,), (point,) = chart("curves", one).lines, chart("frontier", one).lines
    assert curve.y[-1] == pytest.approx(point.y[0])


def test_two_seeds_have_no_interval_and_the_caption_says_so() -> None:
    found = chart("frontier", report_cell(of("bernstein_vi", jdp(1.0)), factors=(1.0, 2.0)))
    assert np.isnan(found.lines[0].low).all()
    assert "no intervals below 3 seeds" in found.caption
    both = [report_cell(of("bernstein_vi", jdp(e)), [1.0, 1.1, 1.2][:n]) for e, n in ((1.0, 2), (4.0, 3))]
    seeds = "Geometric mean over 2 to 3 seeds with 95% intervals, none below 3 seeds, computed on logs."
    assert seeds in chart("frontier", *both).caption


@pytest.mark.parametrize("given", [{}, {"cell_label": "mine"}, {"algorithm_label": "Ours"}])
def test_no_line_joins_certified_and_printed_noise(given: dict[str, str]) -> None:
    privacies = [jdp(1.0), jdp(2.0, calibration="printed"), jdp(4.0)]
    cells = [labelled(report_cell(of("private_ucb_vi", privacy)), **given) for privacy in privacies]
    lines = {line.label.split(", ")[-1]: line for line in chart("frontier", *cells).lines}
    assert lines["certified"].x.tolist() == [1.0, 4.0]
    assert lines["printed"].x.tolist() == [cells[1].proved]
    assert (lines["certified"].noise, lines["printed"].noise) == (0, 1)


def test_the_fill_of_a_marker_says_what_became_of_the_claim() -> None:
    printed = report_cell(of("private_ucb_vi", jdp(1.0, calibration="printed")))
    (line,) = chart("frontier", printed).lines
    assert line.fills == ("left",)
    assert line.claimed == (1.0,)
    assert line.x[0] == printed.proved > 1.0
    rounded = dataclasses.replace(printed, row={**printed.row, "proved_epsilon": 1.0 + 1e-9})
    assert math.isnan(chart("frontier", rounded).lines[0].claimed[0])
    failing = dataclasses.replace(printed, row={**printed.row, "verdict": "fails"})
    assert chart("frontier", failing).lines[0].fills == ("none",)


def test_cells_without_a_certified_epsilon_are_named_in_the_caption() -> None:
    broken = report_cell(of("private_ucb_vi", jdp(2.0)))
    lost = dataclasses.replace(broken, row={**broken.row, "proved_epsilon": math.inf, "verdict": "fails"})
    told = "NO PRIVACY, so not drawn: private_ucb_vi, central (claimed \u03b5 = 2)."
    assert told in chart("frontier", *mixed(), lost).caption
    # Where none is certified, all are drawn, as results without privacy.
    found = chart("curves", lost, report_cell(of("private_ucb_vi", NONE)))
    assert labels(found) == ["\u03b5 = \u221e, NO PRIVACY", "no privacy"]
    # Of the figures of one epsilon each, the first says it.
    ten = [of("bernstein_vi", jdp(epsilon), bonus_scale=i / 5) for epsilon in (1.0, 2.0) for i in range(1, 6)]
    curves = [one for one in report_charts([*map(report_cell, ten), lost]) if one.name.startswith("curves")]
    assert [told in one.caption for one in curves] == [True, False]


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
        assert len(one.panels) <= MOST_PANELS
        assert all(len(panel.lines) <= MOST_LINES for panel in one.panels)


def test_a_report_of_many_epsilons_has_a_dozen_figures() -> None:
    """The leading epsilon, and others from the smallest to the largest; `dprl plot` has all of them."""
    bases = [report_cell(of(name, jdp(1.0))) for name in ("private_ucb_vi", "bernstein_vi")]
    epsilons = [round(0.1 * 1.05**i, 3) for i in range(60)]

    def at(base: Cell, epsilon: float) -> Cell:
        proved = {**base.certificate["proved"], "epsilon_at_claimed_delta": epsilon}
        row = {**base.row, "proved_epsilon": epsilon, "privacy.epsilon": epsilon}
        return dataclasses.replace(base, certificate={**base.certificate, "proved": proved}, row=row)

    cells = [at(base, epsilon) for epsilon in epsilons for base in bases]
    found = report_charts(cells, MOST_CHARTS)
    names = [one.name for one in found]
    assert len(names) == len(set(names)) == MOST_CHARTS
    assert {"frontier", "curves", "curves_epsilon_0.1", f"curves_epsilon_{epsilons[-1]:.3g}"} <= set(names)
    assert f"Curves at {60 - (MOST_CHARTS - 1)} other certified" in found[names.index("curves")].caption
    assert len(report_charts(cells)) == 61


def test_lines_that_are_left_out_are_counted() -> None:
    cells = [report_cell(of("bernstein_vi", jdp(1.0), bonus_scale=scale)) for scale in np.linspace(0.1, 1.0, 10)]
    assert "2 lines of worse values left out" in chart("frontier", *cells).caption
    worse = [1.0 + i for i in range(10)]
    cells = [
        report_cell(of("bernstein_vi", jdp(1.0), bonus_scale=scale), [factor] * 3)
        for scale, factor in zip(np.linspace(0.1, 1.0, 10), reversed(worse), strict=True)
    ]
    shown = sorted(float(line.y[0]) for line in chart("frontier", *cells).lines)
    assert shown == pytest.approx([factor * shown[0] for factor in worse[:8]])


def on(env: dict[str, Any]) -> Cell:
    return report_cell(read_experiment(cell(NONE).as_mapping() | {"env": env, "privacy": jdp(1.0)}))


FROZEN: dict[str, Any] = {"name": "gymnasium", "env_id": "FrozenLake-v1", "horizon": 10}


@pytest.mark.parametrize(
    ("envs", "titles"),
    [
        (
            [{"name": "riverswim", "n_states": 3, "horizon": 4}, FROZEN],
            ["riverswim, S = 3, H = 4", "FrozenLake-v1, H = 10"],
        ),
        ([FROZEN, {"name": "riverswim", "n_states": 3, "horizon": 10}], ["FrozenLake-v1", "riverswim, S = 3"]),
        (
            [FROZEN, {**FROZEN, "kwargs": "is_slippery=False"}, {**FROZEN, "env_id": "CliffWalking-v1"}],
            ["FrozenLake-v1", "FrozenLake-v1, is_slippery=False", "CliffWalking-v1"],
        ),
        ([FROZEN, {**FROZEN, "horizon": 5}], ["H = 5", "H = 10"]),
        (
            [FROZEN, *({"name": "riverswim", "n_states": n, "horizon": 10} for n in (3, 6))],
            ["FrozenLake-v1", "riverswim, S = 3", "riverswim, S = 6"],
        ),
    ],
)
def test_panels_are_titled_by_environment_and_the_settings_needed(
    envs: list[dict[str, Any]], titles: list[str]
) -> None:
    cells = [on(env) for env in envs]
    assert [panel.title for panel in chart("frontier", *cells).panels] == titles
    # summary.csv has no empty settings.
    stored = [replace(one, row={key: value for key, value in one.row.items() if value != ""}) for one in cells]
    assert [panel.title for panel in chart("frontier", *stored).panels] == titles
    assert len({group.title for group in groups_of(stored)}) == len(envs)


def test_names_are_short_the_settings_that_differ_and_epsilon() -> None:
    cells = [report_cell(of("bernstein_vi", jdp(e, families=f))) for e in (1.0, 10.0) for f in ("one_hot", "separate")]
    found = chart("curves", *cells)
    assert sorted(labels(found)) == [
        "one_hot, \u03b5 = 1",
        "one_hot, \u03b5 = 10",
        "separate, \u03b5 = 1",
        "separate, \u03b5 = 10",
    ]
    tints = {line.label: line.tint for line in found.lines}
    assert tints["one_hot, \u03b5 = 1"] > tints["one_hot, \u03b5 = 10"] == 0.0


def test_titles_of_panels_do_not_name_the_setting_of_the_x_axis() -> None:
    cells = [report_cell(of("bernstein_vi", jdp(1.0), horizon)) for horizon in (3, 4, 5)]
    (panel,) = chart("horizon", *cells).panels
    assert panel.title == ""


def test_the_best_noise_has_heavy_lines_and_the_printed_one_thin_lines() -> None:
    privacies = [jdp(epsilon, counter=name) for name in ("binary_tree", "kary_tree") for epsilon in (1.0, 4.0)]
    for name in ("frontier", "curves"):
        found = chart(name, *(report_cell(of("bernstein_vi", privacy)) for privacy in privacies))
        assert "Noise, central: kary_tree (heavy lines); binary_tree (thin lines, other markers)." in found.caption
        assert {line.label.split(", ")[0]: line.noise for line in found.lines} == {"kary_tree": 0, "binary_tree": 1}


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
    [
        (0.001, "0.001"),
        (1.0, "1"),
        (30.0, "30"),
        (1e-6, "10\u207b\u2076"),
        (-1500.0, "-1.5k"),
        (10_000, "10k"),
        (2_500_000, "2.5M"),
        (10**12, "1T"),
    ],
)
def test_ticks_are_plain_numbers(value: float, text: str) -> None:
    assert tick_text(value) == text


@pytest.mark.parametrize(
    ("fill", "told"), [("full", ""), ("left", "holds only for \u03b4 > 0"), ("none", "claim fails")]
)
def test_markers_are_explained_unless_all_claims_hold(fill: Any, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charts, "_fill_of", lambda _: fill)
    figure = draw(chart("frontier", *mixed()), style_of("paper"))
    entries = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    assert entries == ([told, "claimed \u03b5 to certified \u03b5"] if told else [])


def test_a_figure_can_be_restyled() -> None:
    """Colours of algorithms, words of labels, and every line by its label."""
    found = chart("frontier", *mixed())
    figure = draw(found, style_of("paper"), {"bernstein_vi": "#123456"}, {"bernstein_vi": "Ours"})
    (axes,) = figure.axes
    assert {"Ours, local", "private_ucb_vi, local"} <= {text.get_text().replace("\n", " ") for text in axes.texts}
    (line,) = (each for each in axes.get_lines() if each.get_label() == "bernstein_vi, local")
    assert line.get_color() == "#123456"
