"""Trials from the records of a cell, and the cell of an experiment."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from dprl.platform.configs.config import load_cells
from dprl.platform.configs.experiment import read_experiment
from dprl.platform.reproductions.claims import Key, inside
from dprl.platform.reproductions.pgc_a3c import (
    BUFFERS,
    CONFIG,
    ELEMENTWISE,
    LAPLACE,
    PAPER,
    PROJECTED,
    RUNS,
    TABLES,
    read,
)
from dprl.platform.results.cell_folder import CellResults
from dprl.platform.sweeps.cell import block_ends
from tests.platform.reproductions.pgc_a3c.cases import every_cell, trials


def results(submissions: int, scores: np.ndarray, first: list[float]) -> CellResults:
    """The results of a cell with these scores float64[n, N]: means over blocks, as learners report them."""
    ends = block_ends(submissions)
    starts = np.r_[0, ends[:-1]]
    rows = []
    for seed, (each, success) in enumerate(zip(scores, first, strict=True)):
        for start, end in zip(starts, ends, strict=True):
            area = (submissions - success + 1) / submissions if math.isfinite(success) else 0.0
            seen = success if success <= end else math.inf
            rows.append(
                {
                    "seed": seed,
                    "episode": end,
                    "score": each[start:end].mean(),
                    "first_success": seen,
                    "area": area if seen < math.inf else 0.0,
                    "final_score": each[max(0, end - 5000) : end].mean(),
                }
            )
    # In another order, because columns identify the rows.
    return CellResults(pd.DataFrame(rows).sample(frac=1.0, random_state=0), {"verdict": "holds"}, 1.0, 0.0)


@pytest.mark.parametrize("submissions", [90_000, 12_345, 50])
def test_means_over_the_run_are_those_of_the_submissions(submissions: int) -> None:
    scores = np.random.default_rng(submissions).integers(8, 200, size=(3, submissions)).astype(float)
    scores += np.linspace(0.0, 50.0, submissions)
    found = read(results(submissions, scores, [20.0, math.inf, 40.0]))
    assert found.values["mean_score"] == pytest.approx(scores.mean(axis=1))
    assert found.values["final_score"] == pytest.approx(scores[:, -5000:].mean(axis=1))
    assert found.values["first_success"].tolist() == [20.0, math.inf, 40.0]
    assert found.values["success"].tolist() == [1.0, 0.0, 1.0]
    assert found.values["early_success"].tolist() == [1.0, 0.0, 1.0]
    assert found.values["area"] == pytest.approx(
        [(submissions - 19) / submissions, 0.0, (submissions - 39) / submissions]
    )
    assert (found.episodes, found.count) == (submissions, 3)


def test_the_area_is_that_under_the_success_ratio() -> None:
    first, submissions = [3.0, 7.0, math.inf], 10
    found = read(results(submissions, np.ones((3, submissions)), first))
    ratio = [np.mean(np.array(first) <= n) for n in range(1, submissions + 1)]
    assert found.values["area"].mean() == pytest.approx(np.mean(ratio))


def test_the_paper_has_20_trials() -> None:
    cells = every_cell(30)
    entry = TABLES[0].entries("R1", cells, RUNS)[0]
    assert entry.first == np.median(cells[entry.key].values["first_success"][:20])


def test_the_config_has_each_cell_of_the_page_once() -> None:
    cells = load_cells(CONFIG)
    keys = [PAPER.key_of(cell) for cell in cells]
    assert None not in keys
    assert len(set(keys)) == len(cells)
    assert set(keys) == set(every_cell(3))


def test_the_config_has_the_papers_settings() -> None:
    for cell in load_cells(CONFIG):
        flat, key = cell.parameters(), PAPER.key_of(cell)
        assert (flat["episodes"], flat["algorithm.learning_rate"], flat["algorithm.discount"]) == (90_000, 0.5, 0.99)
        assert key is not None
        if key.mechanism in BUFFERS:
            assert flat["privacy.clip"] == {LAPLACE: 0.01, PROJECTED: 1.0}[key.mechanism]


def test_an_experiment_of_other_settings_is_no_cell() -> None:
    cell = load_cells(CONFIG)[0]
    mapping = cell.as_mapping()
    mapping["algorithm"]["initial_scale"] = 0.5
    assert PAPER.key_of(cell) is not None
    assert PAPER.key_of(read_experiment(mapping)) is None


def test_the_page_has_the_numbers_of_the_trials_beside_those_that_are_published() -> None:
    cells = every_cell(30)
    key = Key("R1", LAPLACE, 2.0, 1)
    cells[key] = trials(np.r_[np.full(10, 5000.0), np.full(11, 6000.0), np.full(9, math.inf)], key)
    for one, published in zip(TABLES, (7, 10, 4), strict=True):
        assert inside(one.entries("R1", cells, RUNS))[1] == published
    text = PAPER.page(cells, ["Made by a test."])
    assert "| Table 1 | Laplace | 2 | 1 | 20238.5 | 6000 [" in text
    assert "| Table 2 | Laplace | 2 | 1 | 0.90 | 0.700 [" in text
    assert sum(line.startswith("| Table ") for line in text.splitlines()) == 7 + 10 + 4


def test_relative_areas_have_the_reference_of_their_reading_and_buffer() -> None:
    cells = every_cell(30)
    entries = {entry.key: entry for entry in TABLES[2].entries("R2", cells, RUNS)}
    key = Key("R2", PROJECTED, 5.0, 100)
    expected = cells[key].values["area"].mean() / cells[Key("R2", ELEMENTWISE, math.inf, 100)].values["area"].mean()
    assert entries[key].ours.value == pytest.approx(expected)
    for size in (1, 100):
        cells[Key("R1", ELEMENTWISE, math.inf, size)] = trials(np.full(30, math.inf))
    without = TABLES[2].entries("R1", cells, RUNS)
    assert all(math.isnan(entry.ours.value) and entry.inside is None for entry in without)
