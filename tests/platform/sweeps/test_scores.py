"""A sweep of an algorithm on gradients shows scores (higher is better) and medians over seeds."""

from __future__ import annotations

import io
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dprl.platform.policies import ActorCriticPolicy, load_policy
from dprl.platform.reports.tables import write_summary
from dprl.platform.results.cell_folder import CellFolder
from dprl.platform.sweeps.cell import CellRun
from dprl.platform.sweeps.sweep import SweepOptions, run_sweep
from dprl.platform.tracking.exporter import cell_metrics
from tests.platform.gradient_cases import LDP, METRICS, NONE, SIGNS, cell
from tests.platform.reports.cases import page_of, text_of

pytestmark = pytest.mark.usefixtures("walking")


def test_a_sweep_shows_its_headline_everywhere(tmp_path: Path) -> None:
    options = SweepOptions("walked", tmp_path, "process", None, None, False, "dprl run walked.yaml")
    result = run_sweep([cell(privacy, seeds=6) for privacy in (NONE, LDP, SIGNS)], options)
    assert result.failed == []
    summary = result.summary
    assert summary["score"].tolist() == [10.5] * 3
    assert summary["score_first"].tolist() == [1.0] * 3
    assert summary[["score_last", "score_last_lower", "score_upper"]].to_numpy().tolist() == [[20.0, 20.0, 10.5]] * 3
    # Seeds 0, 2 and 4 have no success.
    assert summary["first_success"].tolist() == [math.inf] * 3
    assert summary["first_success_lower"].tolist() == [10.0] * 3
    assert summary["success"].tolist() == [0.5] * 3
    assert not [key for key in map(str, summary) if "regret" in key or "halved" in key]
    assert {file.name for file in result.folder.glob("*.png")} == {"frontier.png", "curves.png", "final.png"}
    stream = io.StringIO()
    write_summary(stream, summary)
    header, first, *_ = stream.getvalue().splitlines()
    assert header.split()[:8] == ["cell", "score", "+-95%", "first->last", "final", "first", "success", "claim"]
    assert first.split()[1:7] == ["10.5", "0", "1->20", "20", ">20", "0.5"]
    assert ">20 [10, >20]" in text_of(page_of(tmp_path, "walked"))
    points = cell_metrics(METRICS, CellFolder(result.folder / "cells" / summary["cell"][1]).results())
    keys = [point.key for point in points]
    assert {"curve/score", "curve/drift", "interval/score_lower", "cell/score"} <= set(keys)
    assert keys.count("reached/first_success_lower") == 1
    assert "reached/first_success" not in keys  # infinite


def test_a_cut_run_of_gradients_is_the_same_run(tmp_path: Path) -> None:
    one = cell(LDP)
    whole, cut = CellFolder(tmp_path / "whole"), CellFolder(tmp_path / "cut")
    CellRun(one, whole).advance(60.0)
    while not CellRun(one, cut).advance(0.0).finished:
        pass
    for name in ("records.parquet", "certificate.json", "policy.npz"):
        assert (whole.path / name).read_bytes() == (cut.path / name).read_bytes()
    assert pd.read_parquet(whole.records_file)["first_success"].max() == math.inf
    policy = load_policy(whole.path, seed=1)
    assert isinstance(policy, ActorCriticPolicy)
    assert policy(np.zeros(4)) == 0
    with np.load(whole.policy_file) as tables:
        assert np.array_equal(policy.parameters, tables["policy"][1])
