"""Workers and drivers die in the middle of a sweep: the same records bit for bit, every MLflow run once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.platform.failures.cases import LONG, MANY, all_is_well
from tests.platform.processes import (
    checkpoints,
    dprl,
    holders,
    kill,
    mlflow_runs,
    records,
    start,
    wait_for,
    write_config,
)

pytestmark = [pytest.mark.slow, pytest.mark.cluster]


def test_a_worker_is_killed(expected: Mapping[str, bytes], tmp_path: Path) -> None:
    """The sweep itself goes on, in another process."""
    home = tmp_path / "home"
    driver = start(home, "sweep", write_config(tmp_path, **LONG))
    wait_for(lambda: holders(home), driver)
    kill(holders(home)[0])
    said, _ = driver.communicate(timeout=400)
    assert driver.returncode == 0, said
    assert "it goes on in another process, from its checkpoint" in said
    all_is_well(home, expected)


@pytest.mark.parametrize("command", ["run", "sweep"])
def test_the_driver_is_killed(expected: Mapping[str, bytes], tmp_path: Path, command: str) -> None:
    """Only the driver, so that Ray's workers outlive it for as long as they can."""
    home, config = tmp_path / "home", write_config(tmp_path, **LONG)
    victim = start(home, command, config)
    wait_for(lambda: checkpoints(home), victim)
    kill(victim.pid)
    victim.communicate()
    assert len(records(home)) < 2
    assert "RUNNING" in {run.info.status for run in mlflow_runs(home)}
    dprl(home, command, config)
    all_is_well(home, expected)


def test_a_cell_whose_process_always_dies_fails_and_json_stays_json(tmp_path: Path) -> None:
    home = tmp_path / "home"
    privacy = {"model": "jdp", "epsilon": 1.0}
    config = write_config(tmp_path, privacy=privacy, episodes=10**8)
    words = [sys.executable, "-P", "-m", "dprl.platform.command_line", "sweep", str(config), "--json"]
    environment = os.environ | {"DPRL_HOME": str(home)}
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as driver:
        over = threading.Event()

        def kill_all() -> None:
            while not over.wait(0.2):
                for holder in holders(home):
                    kill(holder)

        killer = threading.Thread(target=kill_all)
        killer.start()
        told, complaints = driver.communicate(timeout=400)
        over.set()
        killer.join()
    assert driver.returncode == 1, complaints
    (failure,) = json.loads(told)["failed"]
    assert "its process died" in failure
    assert "Traceback" not in complaints
    assert {run.info.status for run in mlflow_runs(home)} == {"FAILED"}


@pytest.mark.parametrize("command", ["run", "sweep"])
def test_ctrl_c_ends_the_sweep_and_says_how_to_go_on(
    expected: Mapping[str, bytes], tmp_path: Path, command: str
) -> None:
    home, config = tmp_path / "home", write_config(tmp_path, **LONG)
    driver = start(home, command, config)
    wait_for(lambda: checkpoints(home), driver)
    os.killpg(driver.pid, signal.SIGINT)  # to the driver and its children, as a terminal does
    said, _ = driver.communicate(timeout=100)
    assert driver.returncode == 130, said
    assert "interrupted: stopping, then writing what is done" in said
    assert "interrupted; what is done is kept, resume with: dprl" in said
    assert "Traceback" not in said
    assert "SIGTERM" not in said
    assert "RUNNING" not in {run.info.status for run in mlflow_runs(home)}
    dprl(home, command, config)
    all_is_well(home, expected)


def test_the_driver_is_killed_again_and_again(tmp_path: Path) -> None:
    """At random moments, seed 0; the table is the same to the last byte."""
    calm, home = tmp_path / "calm", tmp_path / "home"
    config, moments = write_config(tmp_path, **MANY), random.Random(0)
    dprl(calm, "run", config)
    for _ in range(4):
        driver = start(home, "sweep", config)
        known = len(records(home))
        wait_for(lambda known=known: len(records(home)) > known or checkpoints(home), driver)  # type: ignore[misc]
        try:
            driver.wait(timeout=moments.uniform(0.0, 3.0))
        except subprocess.TimeoutExpired:
            kill(driver.pid)
        driver.communicate()
    dprl(home, "sweep", config)
    assert (home / "sweeps/grid/summary.csv").read_bytes() == (calm / "sweeps/grid/summary.csv").read_bytes()
    all_is_well(home, records(calm))
