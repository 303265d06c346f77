"""Final scores of policy gradients: levels of untrained policies, and runs without privacy that clip alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dprl.algorithms.dppg.algorithm import SCORE
from dprl.platform.reports.charts import curve_of, report_charts
from dprl.platform.results.cell_folder import CellFolder
from dprl.platform.results.cells import Cell
from dprl.platform.results.compare import best_cells, groups_of
from dprl.privacy import GradientLayout, GradientPrivacy, NoiseConfig
from dprl.privacy.certificate import request_in_json
from tests.platform.results.cases import certificate

NONE, FIRST = math.inf, -500.0
"""FIRST: score of the untrained policy, as on Acrobot."""


def cell(folder: Path, epsilon: float, users: int, finals: Sequence[float], **settings: Any) -> Cell:
    """A finished cell of dppg: each seed's scores rise linearly from FIRST to its entry of `finals`."""
    episodes = np.unique(np.linspace(1, users, 100).astype(int))
    values = np.array([FIRST + (final - FIRST) * (episodes - 1) / (users - 1) for final in finals])
    frames = [pd.DataFrame({"seed": i, "episode": episodes, "evaluation": one}) for i, one in enumerate(values)]
    place = folder / f"{epsilon}_{users}"
    place.mkdir(exist_ok=True)
    pd.concat(frames).to_parquet(place / "records.parquet")
    free = math.isinf(epsilon)
    proof = certificate("none" if free else "jdp", None if free else epsilon, epsilon)
    row = {"cell": place.name, "algorithm.name": "dppg", "env.name": "control", "env.horizon": 500, "seed": 0}
    row |= {"privacy.model": proof["trust_model"], "episodes": users, "seeds": len(finals), "proved_epsilon": epsilon}
    row |= {"verdict": proof["verdict"], "evaluation": float(np.mean(finals)), "score": 0.0, "score_first": 0.0}
    row |= {} if free else {"privacy.epsilon": epsilon, "claimed_epsilon": epsilon, "claimed_delta": 0.0}
    return Cell(row | settings, proof, SCORE, episodes, values, CellFolder(place))


@pytest.mark.parametrize(
    ("norm", "clip", "alike"), [("l2", 2.0, True), ("none", 2.0, True), ("l1", 2.0, False), ("l2", 1.0, False)]
)
def test_a_run_without_privacy_is_the_reference_if_it_clips_alike(
    norm: Any, clip: float, alike: bool, tmp_path: Path
) -> None:
    private, free = cell(tmp_path, 1.0, 1000, [-100.0] * 3), cell(tmp_path, NONE, 1000, [-200.0] * 3)
    asked = GradientPrivacy("jdp", 1.0, 1e-6, clip=2.0), GradientPrivacy("none", clip_norm=norm, clip=clip)
    cells = []
    for one, settings in zip((private, free), asked, strict=True):
        request = request_in_json(settings.design(GradientLayout(3, paper=False), 1000, NoiseConfig()))
        cells.append(replace(one, certificate={**one.certificate, "request": request}))
    (group,) = groups_of(cells)
    assert (best_cells(group)[0].cost is not None) == alike


def test_final_scores_have_the_level_of_the_first_policy(tmp_path: Path) -> None:
    cells = [cell(tmp_path, e, users, [-100.0] * 3) for e in (NONE, 1.0) for users in (100, 1000)]
    charts = {chart.name: chart for chart in report_charts(cells)}
    assert list(charts)[:2] == ["final", "frontier"]
    assert charts["final"].points["panel"].nunique() == 2
    assert (charts["final"].points["first_policy"] == FIRST).all()
    assert (charts["final"].points["y"] == -100.0).all()
    assert charts["curves"].x.title == "Users"


def test_longer_blocks_keep_the_mean_of_a_run(tmp_path: Path) -> None:
    one = cell(tmp_path, 1.0, 1000, [-100.0, -50.0])
    values = np.random.default_rng(0).normal(size=one.curves.shape)
    ends, means = curve_of(replace(one, curves=values), SCORE)
    assert (len(ends) <= 25, ends[-1]) == (True, 1000)
    whole = np.average(values, axis=1, weights=np.diff(one.episodes, prepend=0))
    assert np.average(means, axis=1, weights=np.diff(ends, prepend=0)) == pytest.approx(whole)
