"""The page and its figures, from made-up runs."""

from __future__ import annotations

import dataclasses
import math
import re

import numpy as np
import pytest

from dprl.platform.reports.figures.charts import Chart
from dprl.platform.reproductions import figures as plots
from dprl.platform.reproductions.claims import Key, Side
from dprl.platform.reproductions.engine import PageData
from dprl.platform.reproductions.ma_ldp import (
    ILLUSTRATION,
    ILLUSTRATION_MAXMIN,
    ILLUSTRATIONS,
    LAPLACE,
    NO_NOISE,
    NON_PRIVATE_CEILING,
    PRINTED,
    WITHOUT_MAXMIN,
    Levels,
)
from dprl.platform.reproductions.ma_ldp_figures import FIGURES, weak_label
from dprl.platform.reproductions.ma_ldp_page import PAPER, at_random, summary
from dprl.platform.reproductions.ma_ldp_proofs import privacy_table
from dprl.platform.reproductions.tables import p_value, plain
from dprl.privacy.audits.findings import Claim, Finding, Measurement, NoiseProof, ProbeProof
from tests.platform.reproductions.ma_ldp.cases import every_key, found, private_groups, runs


@pytest.fixture(scope="module")
def material() -> PageData:
    return found()


@pytest.fixture(scope="module")
def text(material: PageData) -> str:
    return PAPER.page(material)


def tables(text: str) -> list[list[list[str]]]:
    """The rows of each table, headers first."""
    blocks = [block.splitlines() for block in text.split("\n\n") if block.startswith("|")]
    return [[[cell.strip() for cell in line.strip("|").split("|")] for line in block] for block in blocks]


def changed(material: PageData, key: Key, regret: np.ndarray) -> PageData:
    return dataclasses.replace(material, cells={**material.cells, key: runs(key, regret)})


def test_every_row_of_a_table_has_as_many_cells_as_its_header(text: str) -> None:
    for rows in tables(text):
        assert {len(row) for row in rows} == {len(rows[0])}, rows[0]


def test_every_section_is_there_and_every_figure_named(text: str) -> None:
    for section in ("Table 1", "Table 2", "Figure 1", "Noise at which the order shows: NOT PRIVATE", "Chosen after"):
        assert f"\n## {section}" in text
    assert all(f"]({name})" in text for name in FIGURES)


def test_attacks_are_reported_with_their_row_of_the_audit() -> None:
    claim = Claim(1.0, 0.0, "[TH23]")
    measured = Measurement("two worlds", "probe", claim, ProbeProof(math.inf, 0.5), 5.0, 0.0123, 0.99, 1000)
    wrong = Finding("M4", "", claim, NoiseProof(math.inf, "exact", math.inf, 0.5), measured)
    right = Finding("M1", "", claim, wrong.proof, dataclasses.replace(measured, epsilon_lb=0.5, delta_lb=0.0))
    attacks = {"gram_bounded_laplace": wrong, "gram_gaussian": right}
    rows = tables(privacy_table(attacks))[0][2:]
    told = {row[0]: row[6] for row in rows}
    assert told == {
        "Gaussian": "M1: not refuted",
        "Laplace": "too rare to sample",
        "uniform": "not run",
        "bounded Laplace": "M4: \u03b4 at least 0.0123 at \u03b5 = 1",
    }


def test_the_table_of_cells_has_each_cell_with_its_numbers(material: PageData) -> None:
    key = Key(PRINTED, "gram_laplace", 0.1)
    shown = PAPER.page(changed(material, key, np.r_[np.full(15, 1000.0), np.full(15, 3000.0)]))
    rows = next(rows for rows in tables(shown) if "Q cut" in rows[0])[2:]
    assert len(rows) == len(every_key())
    first = next(row for row in rows if row[:2] == ["as printed, V of joint actions", "Laplace \u03b5=0.1"])
    # The standard error is 1000 sqrt(30 / 29) / sqrt(30) = 186; a constant loss is the same in the last tenth.
    assert first[2:4] == ["30", "2000 \u00b1 186"]
    assert first[5] == "< 0.001"
    assert first[6] == "35.5 %"
    assert first[8:] == ["\u03b5 = \u221e", "**unbounded**"]


def test_what_an_audit_contradicts_proves_nothing_and_fails(material: PageData) -> None:
    key = next(key for key in material.cells if material.cells[key].certificate["verdict"] == "holds")
    cell = material.cells[key]
    refuted = {**cell.certificate, "audit": {"contradicts_proof": True, "verdict": "refuted"}}
    more = {**material.cells, key: dataclasses.replace(cell, certificate=refuted)}
    before, after = (
        next(rows for rows in tables(PAPER.page(one)) if "Q cut" in rows[0])
        for one in (material, dataclasses.replace(material, cells=more))
    )
    ((_, row),) = [pair for pair in zip(before, after, strict=True) if pair[0][8:] != pair[1][8:]]
    assert row[8].startswith("\u03b5 = \u221e")
    assert "fails" in row[9]


def test_what_is_not_private_is_called_so_wherever_it_stands(text: str) -> None:
    rows = next(rows for rows in tables(text) if "Q cut" in rows[0])[2:]
    called = [row for row in rows if row[0].startswith("NOT PRIVATE")]
    assert len(called) == sum(key.group in {*NON_PRIVATE_CEILING, *ILLUSTRATIONS} for key in every_key())
    orders = [row for rows in tables(text) if "ratio printed" in rows[0] for row in rows[2:]]
    assert sum(row[0].startswith("NOT PRIVATE") for row in orders) == 3 * len(ILLUSTRATIONS)
    assert "proves \u03b5=100" in text


def test_the_ceiling_has_both_readings_of_v(material: PageData) -> None:
    """Only the better reading says how much the algorithm can learn without noise."""
    key = Key(WITHOUT_MAXMIN, NO_NOISE, math.inf, 0.001)
    shown = PAPER.page(changed(material, key, np.linspace(70.0, 90.0, 30)))
    rows = next(rows for rows in tables(shown) if rows[0] == ["c", *rows[0][1:]] and "maxmin" in rows[0][2])
    assert [row[0] for row in rows[2:]] == ["1", "0.1", "0.01", "0.001", "0"]
    assert next(row for row in rows if row[0] == "0.001")[2].startswith("80 ")
    assert "**Without noise**, NOT PRIVATE: R_K = 80 \u00b1 1 at best, V of maxmin, c = 0.001." in shown


def test_cells_at_the_level_of_random_actions_are_not_distinguished(material: PageData) -> None:
    judged = at_random(material.cells)
    assert {key.group for key in judged} == set(private_groups())
    key = Key(PRINTED, "gram_laplace", 0.1)
    below = at_random(changed(material, key, np.linspace(4000.0, 4200.0, 30)).cells)
    assert below[key] < 1e-6
    constant = at_random(changed(material, key, np.full(30, Levels.of(8500).uniform)).cells)
    assert constant[key] == 1.0


def test_by_chance_all_three_orders_are_seen_at_most_as_often_as_two_of_them(text: str) -> None:
    (told,) = [line for line in text.splitlines() if line.startswith("**By chance.**")]
    shares = [(float(two), float(three)) for two, three in re.findall(r": ([\d.]+) % and ([\d.]+) %", told)]
    assert len(shares) == 4
    assert all(two >= three for two, three in shares)
    assert any(two > three for two, three in shares)


def test_the_answers_follow_the_runs(material: PageData) -> None:
    assert any("0 of 3 inequalities show" in line for line in summary(material.cells))
    lower = changed(material, Key(PRINTED, "gram_laplace", 0.2), np.linspace(900.0, 1100.0, 30))
    assert any("as printed: 2 of 3 inequalities show" in line for line in summary(lower.cells))


def test_two_runs_have_a_page_without_intervals() -> None:
    shown = PAPER.page(found(2))
    assert "2 runs of 8,500 users" in shown
    assert "nan" not in shown


def test_figures_are_pngs_that_differ_with_what_they_show(material: PageData) -> None:
    other = changed(material, Key(ILLUSTRATION, LAPLACE, 0.1), np.linspace(70.0, 90.0, 30))
    drawn, others = PAPER.figures(material), PAPER.figures(other)
    assert [*drawn] == [*FIGURES]
    for name, content in drawn.items():
        assert content[:8] == b"\x89PNG\r\n\x1a\n"
        assert content != others[name]


@pytest.mark.parametrize(("group", "value"), [(ILLUSTRATION, "joint actions"), (ILLUSTRATION_MAXMIN, "maxmin")])
def test_the_panel_of_an_illustration_has_its_title(
    material: PageData, monkeypatch: pytest.MonkeyPatch, group: str, value: str
) -> None:
    drawn: list[Chart] = []
    monkeypatch.setattr(plots, "draw_charts", lambda rows, *_: drawn.extend(rows[0]))
    more = {key: runs(key, np.full(3, 70.0)) for key in material.cells if key.group == group}
    PAPER.figures(dataclasses.replace(material, cells={**material.cells, **more}))
    (chart,) = [chart for chart in drawn if np.max(chart.lines[1].y) == pytest.approx(70.0)]
    assert chart.title.startswith(f"NOT PRIVATE, an illustration, V of {value}:")
    assert chart.caption == "NOT PRIVATE"


@pytest.mark.parametrize(("value", "text"), [(0.4644, "0.464"), (928.9, "929"), (float("inf"), "\u221e"), (0.0, "0")])
def test_numbers_have_three_digits(value: float, text: str) -> None:
    assert plain(value) == text


def test_small_p_values_are_bounds() -> None:
    assert (p_value(0.0001), p_value(0.05)) == ("< 0.001", "0.050")


@pytest.mark.parametrize(("proved", "text"), [(2000.0, "2000"), (math.inf, "\u221e")])
def test_what_proves_nothing_has_the_sign_of_infinity(proved: float, text: str) -> None:
    cell = runs(Key(ILLUSTRATION, LAPLACE, 2.0), np.ones(3))
    cell.certificate["proved"]["epsilon_at_claimed_delta"] = proved
    assert weak_label(Side("Laplace", Key("", LAPLACE, 2.0)), cell).endswith(f"proves \u03b5={text}")
