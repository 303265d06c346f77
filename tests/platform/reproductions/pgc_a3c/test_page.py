"""The page and its figures, from made-up trials."""

from __future__ import annotations

import dataclasses
import math
import re

import numpy as np
import pytest

from dprl.platform.reproductions.claims import Key, inside
from dprl.platform.reproductions.engine import PageData
from dprl.platform.reproductions.pgc_a3c import ELEMENTWISE, LAPLACE, NOISE, PROJECTED, RUNS, TABLES
from dprl.platform.reproductions.pgc_a3c_page import PAPER
from tests.platform.reproductions.pgc_a3c.cases import every_cell, trials


def material(count: int = 30) -> PageData:
    return PageData(every_cell(count), ["Made by `dprl reproduce`."], {"best": {}})


@pytest.fixture(scope="module")
def text() -> str:
    return PAPER.page(material())


def tables(text: str) -> list[list[list[str]]]:
    """The rows of each table, headers first."""
    blocks = [block.splitlines() for block in text.split("\n\n") if block.startswith("|")]
    return [[[cell.strip() for cell in line.strip("|").split("|")] for line in block] for block in blocks]


def test_every_row_of_a_table_has_as_many_cells_as_its_header(text: str) -> None:
    for rows in tables(text):
        assert {len(row) for row in rows} == {len(rows[0])}, rows[0]


def test_table_1_shows_published_numbers_and_leaves_lost_ones_empty(text: str) -> None:
    rows = next(rows for rows in tables(text) if rows[0][3] == "published")
    published = {tuple(row[:3]): row[3] for row in rows[2:]}
    assert published["Laplace", "1", "1"] == ""
    assert published["Laplace", "2", "1"] == "20238.5"
    assert published["PRS", "10", "100"] == "11217.5"
    assert published["none, each coordinate clipped", "\u221e", "100"] == "1709.0"
    assert published["none, Laplace's L1 clip", "\u221e", "1"] == ""


def test_the_page_says_the_numbers_of_the_trials() -> None:
    cells = every_cell(30)
    key = Key("R1", LAPLACE, 2.0, 1)
    cells[key] = trials(np.r_[np.full(10, 5000.0), np.full(11, 6000.0), np.full(9, math.inf)], key)
    shown = PAPER.page(dataclasses.replace(material(), cells=cells))
    row = next(line for line in shown.splitlines() if line.startswith("| Laplace | 2 | 1 | 20238.5"))
    # The first 20 are 10 of each kind: half-way between.
    assert re.match(
        r"\| Laplace \| 2 \| 1 \| 20238\.5 \| 6000 \[\d+, .+?\] \| 5500 \| 5000 to \u221e \| yes \|", row
    ), row
    assert "| Laplace | 2 | 1 | 0.90 | 0.700 " in shown


def test_inside_counts_published_numbers_only() -> None:
    cells = every_cell(30)
    for one, published in zip(TABLES, (7, 10, 4), strict=True):
        assert inside(one.entries("R1", cells, RUNS))[1] == published


def test_relative_areas_have_the_reference_of_their_reading_and_buffer() -> None:
    cells = every_cell(30)
    entries = {entry.key: entry for entry in TABLES[2].entries("R2", cells, RUNS)}
    key = Key("R2", PROJECTED, 5.0, 100)
    expected = cells[key].values["area"].mean() / cells[Key("R2", ELEMENTWISE, math.inf, 100)].values["area"].mean()
    assert entries[key].ours.value == pytest.approx(expected)
    area = entries[key].absolute
    assert area is not None
    assert area.value == pytest.approx(cells[key].values["area"].mean())


def test_without_a_success_to_compare_with_there_is_no_relative_area() -> None:
    cells = every_cell(30)
    for size in (1, 100):
        cells[Key("R1", ELEMENTWISE, math.inf, size)] = trials(np.full(30, math.inf))
    entries = TABLES[2].entries("R1", cells, RUNS)
    assert all(math.isnan(entry.ours.value) and entry.inside is None for entry in entries)
    assert "| Laplace | 2 | 1 | 0.711 | \u2014 |" in PAPER.page(dataclasses.replace(material(), cells=cells))


def test_controls_stand_beside_the_real_runs(text: str) -> None:
    rows = next(rows for rows in tables(text) if "area, noise only" in rows[0])
    assert len(rows) == 2 + 2 * 8


def test_every_proof_is_shown(text: str) -> None:
    rows = next(rows for rows in tables(text) if rows[0][0] == "mechanism" and "cells" in rows[0])[2:]
    assert sum(int(row[-1]) for row in rows) == len(every_cell(3))
    assert {row[3] for row in rows if row[0] in {"Laplace", "PRS"}} == {"holds"}
    assert "Not covered: raw scores" in text


def test_our_own_settings_have_a_section_only_where_there_are_some(text: str) -> None:
    assert "at the same guarantee" not in text
    some = {
        key: trials(np.full(30, first), key)
        for key, first in (
            (Key("", "privunit", 5.0, control="learning_rate 0.1"), 1400.0),
            (Key("", "projected_random_sign", 5.0, control="learning_rate 0.2"), 2400.0),
        )
    }
    shown = PAPER.page(dataclasses.replace(material(), extra={**material().extra, "best": some}))
    assert "| 5 | 5 | privunit | learning_rate 0.1 | **1400 [1400, 1400]** |" in shown
    assert "| 5 | 5 | projected_random_sign | learning_rate 0.2 | 2400 [2400, 2400] |" in shown


def test_figures_are_pngs_that_differ_with_what_they_show() -> None:
    cells = every_cell(10)
    drawn = PAPER.figures(PageData(cells))
    key = Key("R2", LAPLACE, 1.0, 1)
    others, controls = (
        PAPER.figures(PageData({**cells, one: trials(np.full(10, 5000.0), one)}))
        for one in (key, key._replace(control=NOISE))
    )
    for name, content in drawn.items():
        assert content[:8] == b"\x89PNG\r\n\x1a\n"
        assert content != others[name]
    assert drawn["pgc_a3c_figure_3.png"] != controls["pgc_a3c_figure_3.png"]
