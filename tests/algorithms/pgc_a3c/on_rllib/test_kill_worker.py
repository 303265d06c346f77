"""Killed runners: no agent is asked twice or skipped, and noise is never reused."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray

from dprl.algorithms.pgc.aggregator import Batch, Reply
from dprl.algorithms.pgc.journaled_privatizer import JOURNAL
from dprl.algorithms.pgc.on_rllib import config as settings_of_rllib
from dprl.algorithms.pgc.on_rllib.env_runner import PrivateEnvRunner
from dprl.privacy import Client, LedgerError
from dprl.privacy.messages import PrivateMessages
from tests.algorithms.pgc_a3c.on_rllib.kills import Record, adds_up, config, processes_of, record, repeats, wait_for
from tests.on_ray import start_ray

pytestmark = [pytest.mark.slow, pytest.mark.cluster]


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    start_ray()
    yield
    ray.shutdown()


class Trap(PrivateEnvRunner):
    """A faulty runner with noise from the global generator, which RLlib seeds when a runner starts."""

    def report(self, batch: Batch, new_client: Callable[[], Client]) -> Reply:
        submissions = super().report(batch, new_client)[0].submissions
        values = np.random.laplace(size=(len(submissions), 80))
        return PrivateMessages(int(submissions[0]), values, batch.lease.issuer), None


class Replays(PrivateEnvRunner):
    """A faulty runner that repeats its first reply as its third one."""

    def report(self, batch: Batch, new_client: Callable[[], Client]) -> Reply:
        replies: list[Reply] = self.__dict__.setdefault("replies", [])
        replies.append(super().report(batch, new_client))
        return replies[0] if len(replies) == 3 else replies[-1]


class Run:
    """A run in a folder."""

    def __init__(self, folder: Path, runners: int, **options: Any) -> None:
        self.folder, self.journal = folder, folder / "ledger" / JOURNAL
        options["training"] = {"reports": "noise", **options.get("training", {})}
        self.config = config(folder, runners, **options).ledger(folder=str(folder / "ledger"))

    def record(self) -> Record:
        return record(self.folder, self.journal)

    def until_killed_and_back(self, runner: int) -> Record:
        """Kill a runner in the middle of an iteration, and continue until it plays again."""
        algorithm = self.config.build_algo()
        try:
            process = processes_of(self.folder, runner)[-1]
            wait_for(lambda: bool(algorithm.train()) and process in self.record().processes)
            kill_soon(0.02, process)
            wait_for(lambda: bool(algorithm.train()) and self._plays_again(runner, process))
            assert adds_up(algorithm, self.journal)
            assert algorithm.lost > 0
        finally:
            algorithm.stop()
        return self.record()

    def _plays_again(self, runner: int, process: int) -> bool:
        now = processes_of(self.folder, runner)[-1]
        return now != process and now in self.record().processes


def kill_soon(seconds: float, process: int) -> None:
    def kill() -> None:
        # It may have died by itself.
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)

    threading.Timer(seconds, kill).start()


def test_a_runner_that_is_killed_loses_its_agents_and_nothing_else(tmp_path: Path) -> None:
    found = Run(tmp_path, 2, env={"seconds": 0.005}).until_killed_and_back(1)
    found.check()
    assert len(found.processes) == 3
    assert repeats(found.values) == 0


def test_a_runner_whose_episode_does_not_end_is_started_again(tmp_path: Path) -> None:
    run = Run(tmp_path, 2, env={"seconds": 0.005, "endless": 8})
    run.config.env_runners(sample_timeout_s=6.0)
    algorithm = run.config.build_algo()
    try:
        before = {processes_of(tmp_path, runner)[-1] for runner in (1, 2)}
        wait_for(lambda: bool(algorithm.train()) and not run.record().processes <= before)
        assert (tmp_path / "hung").exists()
        assert adds_up(algorithm, run.journal)
        assert algorithm.lost > 0
    finally:
        algorithm.stop()
    run.record().check()


def test_an_agent_submits_three_times_and_never_more(tmp_path: Path) -> None:
    length = {"n_submissions": 300, "submissions_per_iteration": 50}
    run = Run(
        tmp_path,
        2,
        privacy={"entropy": "seed", "submissions": 3},
        training=length,
        env={"seconds": 0.01, "fatal": 13},
        reserve=120,
    )
    algorithm = run.config.build_algo()
    kill_soon(0.5, processes_of(tmp_path, 1)[-1])
    while not algorithm.train()["done"]:
        assert adds_up(algorithm, run.journal)
    lost = algorithm.lost
    assert algorithm.certificate().proved_epsilon <= 5.0 * (1.0 + 1e-12)
    algorithm.stop()
    found = run.record()
    found.check(submissions=3)
    assert (tmp_path / "died").exists()
    assert len(found.charged) == 140
    assert found.charged.max() == max(Counter(found.asked).values()) == 3
    assert 0 < lost == found.charged.sum() - 300
    assert repeats(found.values) == 0


def test_noise_of_a_global_generator_would_come_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings_of_rllib, "PrivateEnvRunner", Trap)
    run = Run(tmp_path, 1, env={"seconds": 0.01})
    assert repeats(run.until_killed_and_back(1).values) > 0


def test_a_reply_that_comes_again_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings_of_rllib, "PrivateEnvRunner", Replays)
    run = Run(tmp_path, 0)
    algorithm = run.config.build_algo()
    before = algorithm.parameters
    with pytest.raises(LedgerError, match="submission 1 was received already; send each once"):
        algorithm.train()
    assert algorithm.submissions == 10
    assert not np.array_equal(algorithm.parameters, before)
    # Its batch is lost, and the run continues.
    algorithm.train()
    assert algorithm.submissions == 70
    assert algorithm._journaled.privatizer.charged == 75
    algorithm.stop()
    run.record().check()
