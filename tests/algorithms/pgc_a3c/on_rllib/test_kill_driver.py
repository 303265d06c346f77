"""The driver is killed: another process continues with the same ledger, or not at all."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import ray
import torch

from dprl.algorithms.pgc.journaled_privatizer import JOURNAL
from dprl.algorithms.pgc_a3c.on_rllib.algorithm import PGC
from dprl.privacy import LedgerError
from tests.algorithms.pgc_a3c.on_rllib.kills import Record, adds_up, latest, lines, record, repeats, started, wait_for
from tests.on_ray import start_ray

pytestmark = [pytest.mark.slow, pytest.mark.cluster]


class Killed:
    """A run whose driver was killed in the middle of an iteration after its last checkpoint."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.journal = folder, folder / "ledger" / JOURNAL
        with started("train", folder) as driver:
            wait_for(lambda: driver.poll() is not None or len(lines(folder / "latest")) >= 2)
            saved = self.applied()
            wait_for(lambda: driver.poll() is not None or self.applied() > saved + 20)
            assert driver.poll() is None, (folder / "output").read_text()
            os.kill(driver.pid, signal.SIGKILL)
        checkpoint = latest(folder)
        assert checkpoint is not None
        self.checkpoint = checkpoint

    def applied(self) -> int:
        return len(lines(self.folder / "applied"))

    def record(self) -> Record:
        return record(self.folder, self.journal)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killed]:
    """The run, and a cluster for the processes that continue it. The tests use it in their order."""
    run = Killed(tmp_path_factory.mktemp("killed"))
    start_ray()
    yield run
    ray.shutdown()


def test_another_process_goes_on(killed: Killed) -> None:
    before = killed.record()
    algorithm = PGC.from_checkpoint(killed.checkpoint)
    at_checkpoint = algorithm.submissions
    assert algorithm._journaled.privatizer.charged == before.charged.sum()
    for _ in range(2):
        algorithm.train()
    assert algorithm.submissions == at_checkpoint + 120
    charged = algorithm._journaled.privatizer.charged
    certificate = algorithm.certificate()
    algorithm.stop()
    found = killed.record()
    found.check()
    assert found.charged.sum() == charged == certificate.to_dict()["users"]
    # Agents asked since the checkpoint are not asked again; new agents replace them.
    assert found.applied[len(before.applied)] == before.charged.sum() + 1
    assert len(found.applied) == len(before.applied) + 120
    assert len(found.processes) == 2
    assert repeats(found.values) == 0


def test_what_is_lost_with_a_driver_is_counted(killed: Killed) -> None:
    algorithm = PGC.from_checkpoint(killed.checkpoint)
    told = algorithm.train()["pgc"]
    try:
        assert adds_up(algorithm, killed.journal)
        assert told["lost"] == algorithm.lost > 0
        assert told["agents_charged"] == told["submissions"] + told["lost"]
    finally:
        algorithm.stop()


def test_of_two_on_one_ledger_the_second_does_not_train(killed: Killed) -> None:
    first, second = (PGC.from_checkpoint(killed.checkpoint) for _ in range(2))
    first.train()
    asked = killed.record().asked
    with pytest.raises(LedgerError, match="in use by another run"):
        second.train()
    assert killed.record().asked == asked
    first.stop()
    # The second one reads what the first one has charged meanwhile.
    second.train()
    second.stop()
    killed.record().check()


def test_without_its_journal_a_checkpoint_does_not_train_but_infers(killed: Killed) -> None:
    asked = killed.record().asked
    shutil.move(killed.journal, killed.folder / "elsewhere")
    algorithm = PGC.from_checkpoint(killed.checkpoint)
    try:
        with pytest.raises(LedgerError, match=r"^journal .* must hold the \d+ submissions of the checkpoint, got 0"):
            algorithm.train()
        output = algorithm.get_module().forward_inference({"obs": torch.ones(1, 2)})["action_dist_inputs"]
        assert np.isfinite(output.numpy()).all()
        assert algorithm.evaluate()["env_runners"]["num_episodes"] == 10
        assert len(algorithm.parameters) == 80
    finally:
        algorithm.stop()
        shutil.move(killed.folder / "elsewhere", killed.journal)
    assert killed.record().asked == asked
