"""Random kills of runners and drivers: every user is charged once and before being asked; the certificate holds."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from dprl.algorithms.pgc.journaled_privatizer import JOURNAL
from tests.algorithms.pgc_a3c.on_rllib.kills import DPPG_USERS, latest, lines, processes_of, record, started, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.cluster]
KILLS = {"driver": 3, "runner": 7}


def test_ten_random_kills_of_drivers_and_runners(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    victims = [name for name, n in KILLS.items() for _ in range(n)]
    rng.shuffle(victims)
    rounds: list[list[str]] = [[]]
    for victim in victims:  # each round has a new driver
        rounds[-1].append(victim)
        if victim == "driver":
            rounds.append([])
    killed = 0
    for number, plan in enumerate(rounds):
        with started("dppg", tmp_path) as driver:
            for victim in plan:
                before, more = len(lines(tmp_path / "applied")), int(rng.integers(5, 200))
                wait_for(
                    lambda n=before + more: driver.poll() is not None or len(lines(tmp_path / "applied")) >= n  # type: ignore[misc]
                )
                assert driver.poll() is None, (tmp_path / "output").read_text()
                process = driver.pid if victim == "driver" else processes_of(tmp_path, int(rng.integers(1, 3)))[-1]
                with suppress(ProcessLookupError):  # a runner may be restarting
                    os.kill(process, signal.SIGKILL)
                    killed += 1
            if number == len(rounds) - 1:
                wait_for(lambda: driver.poll() is not None)
                assert (tmp_path / "done").exists(), (tmp_path / "output").read_text()
            else:
                driver.wait()
    assert killed >= 8
    found = record(tmp_path, tmp_path / "ledger" / JOURNAL)
    found.check()
    assert len(found.applied) >= DPPG_USERS
    last = latest(tmp_path)
    assert last is not None
    certificate = json.loads((last / "certificate.json").read_text())
    assert (certificate["users"], certificate["verdict"]) == (int(found.charged.sum()), "holds")
    assert certificate["proved"]["epsilon_at_claimed_delta"] <= 1.0
    assert certificate["users"] > DPPG_USERS  # lost users are charged, too
