"""Trials from the records of a cell, and which cell an experiment is."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest

from dprl.platform.configs.config import load_cells
from dprl.platform.configs.experiment import Scalar, read_experiment
from dprl.platform.reproductions.pgc_a3c.best import BestCell
from dprl.platform.reproductions.pgc_a3c.published import BUFFERS, LAPLACE, PROJECTED
from dprl.platform.reproductions.pgc_a3c.reproduction import CONFIG
from dprl.platform.reproductions.pgc_a3c.trials import BINS, Key, Trials, as_in_the_paper
from dprl.platform.results.cell_folder import CellResults
from dprl.platform.sweeps.cell import block_ends
from tests.platform.reproductions.pgc_a3c.cases import every_cell, trials


def results(submissions: int, scores: np.ndarray, first: list[float]) -> CellResults:
    """What a cell leaves whose trials have these scores float64[n, N]: the mean over each block, as learners report."""
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
    # In another order: what belongs together is told by the columns.
    return CellResults(pd.DataFrame(rows).sample(frac=1.0, random_state=0), {"verdict": "holds"}, 1.0, 0.0)


@pytest.mark.parametrize("submissions", [90_000, 12_345, 50])
def test_means_over_the_run_are_those_of_the_submissions(submissions: int) -> None:
    scores = np.random.default_rng(submissions).integers(8, 200, size=(3, submissions)).astype(float)
    scores += np.linspace(0.0, 50.0, submissions)
    found = Trials.of(results(submissions, scores, [20.0, math.inf, 40.0]))
    assert found.mean_score == pytest.approx(scores.mean(axis=1))
    assert found.final_score == pytest.approx(scores[:, -5000:].mean(axis=1))
    assert found.first_success.tolist() == [20.0, math.inf, 40.0]
    assert found.succeeded.tolist() == [1.0, 0.0, 1.0]
    assert found.succeeded_by(20.0).tolist() == [1.0, 0.0, 0.0]
    assert found.area == pytest.approx([(submissions - 19) / submissions, 0.0, (submissions - 39) / submissions])
    assert (found.submissions, found.count) == (submissions, 3)


def test_curves_are_means_over_even_stretches() -> None:
    submissions = 9_000
    scores = np.random.default_rng(0).uniform(0.0, 200.0, size=(2, submissions))
    found = Trials.of(results(submissions, scores, [1.0, 1.0]))
    assert len(found.ends) == BINS
    assert np.diff(found.ends, prepend=0).tolist() == [90] * BINS
    assert found.scores == pytest.approx(scores.reshape(2, BINS, 90).mean(axis=2))


def test_the_area_is_that_under_the_success_ratio() -> None:
    first, submissions = [3.0, 7.0, math.inf], 10
    found = Trials.of(results(submissions, np.ones((3, submissions)), first))
    ratio = [np.mean(np.array(first) <= n) for n in range(1, submissions + 1)]
    assert found.area.mean() == pytest.approx(np.mean(ratio))


def test_the_paper_has_20_trials() -> None:
    assert as_in_the_paper(np.arange(100.0)).tolist() == list(range(20))
    assert as_in_the_paper(np.arange(3.0)).tolist() == [0, 1, 2]


def test_the_config_has_each_cell_of_the_page_once() -> None:
    cells = load_cells(CONFIG)
    keys = [Key.of(cell) for cell in cells]
    assert None not in keys
    assert len(set(keys)) == len(cells)
    assert set(keys) == set(every_cell(3))


def test_the_config_has_the_papers_settings() -> None:
    for cell in load_cells(CONFIG):
        flat, key = cell.parameters(), Key.of(cell)
        assert (flat["episodes"], flat["algorithm.learning_rate"], flat["algorithm.discount"]) == (90_000, 0.5, 0.99)
        assert key is not None
        if key.mechanism in BUFFERS:
            assert flat["privacy.clip"] == {LAPLACE: 0.01, PROJECTED: 1.0}[key.mechanism]


def test_an_experiment_of_other_settings_is_no_cell() -> None:
    cell = load_cells(CONFIG)[0]
    mapping = cell.as_mapping()
    mapping["algorithm"]["initial_scale"] = 0.5
    assert Key.of(cell) is not None
    assert Key.of(read_experiment(mapping)) is None


def test_a_best_cell_that_proves_nothing_has_the_sign_of_infinity() -> None:
    flat: dict[str, Scalar] = {"privacy.epsilon": 2.0, "privacy.delta": 1e-5, "privacy.mechanism": "privunit"}
    for epsilon, text in ((1.5, "1.5"), (math.inf, "\u221e")):
        certificate = {"verdict": "fails", "proved": {"epsilon_at_claimed_delta": epsilon}}
        found = dataclasses.replace(trials(np.array([10.0])), certificate=certificate)
        assert BestCell.of(flat, [], found).proved == f"{text}, \u03b4=1e-05"
