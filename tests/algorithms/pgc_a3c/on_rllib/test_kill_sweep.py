"""Killed trials and killed sweeps: Tune continues, and no trial asks an agent twice."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import ray
from ray import tune

from dprl.algorithms.pgc.journaled_privatizer import JOURNAL
from tests.algorithms.pgc_a3c.on_rllib.kills import WatchedPGC, lines, record, repeats, started, wait_for
from tests.on_ray import start_ray

pytestmark = [pytest.mark.slow, pytest.mark.cluster]


def test_trials_that_die_in_a_sweep_that_is_killed(tmp_path: Path) -> None:
    places = [tmp_path / name for name in ("one", "two")]
    with started("sweep", tmp_path) as driver:
        # Each trial has died once, in the episode of its 70th agent, and was started again.
        wait_for(lambda: driver.poll() is not None or all(len(lines(place / "applied")) > 200 for place in places))
        assert driver.poll() is None, (tmp_path / "output").read_text()
        os.kill(driver.pid, signal.SIGKILL)
    assert all((place / "died").exists() for place in places)
    start_ray()
    try:
        results = tune.Tuner.restore(str(tmp_path / "storage" / "sweep"), WatchedPGC, resume_errored=True).fit()
    finally:
        ray.shutdown()
    assert not results.errors
    assert [result.metrics["pgc"]["submissions"] for result in results] == [480, 480]
    for result in results:
        found = record(Path(result.config["env_config"]["folder"]), Path(result.path) / JOURNAL)
        found.check()
        # At first, after its own death, and after the sweep's.
        assert len(found.processes) == 3
        assert repeats(found.values) == 0
        assert found.charged.sum() > 480
        assert result.metrics["pgc"]["agents_charged"] == found.charged.sum()
