"""Workers and drivers die during a sweep: records are equal bit for bit, and every MLflow run exists once."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from dprl.platform.program import resume_command
from tests.platform.failures.cases import LONG, MANY, all_is_well
from tests.platform.processes import (
    PATIENCE,
    checkpoints,
    dprl,
    holders,
    kill,
    last_holders,
    mlflow_runs,
    records,
    start,
    start_with_errors_apart,
    wait_for,
    write_config,
)

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.timeout(2400)]


def test_a_worker_is_killed(expected: Mapping[str, bytes], tmp_path: Path) -> None:
    """The sweep continues in another process."""
    home = tmp_path / "home"
    with start(home, "sweep", write_config(tmp_path, **LONG)) as driver:
        wait_for(lambda: holders(home), driver)
        kill(holders(home)[0])
        said, _ = driver.communicate(timeout=PATIENCE)
    assert driver.returncode == 0, said
    assert "it starts again in another process, from its checkpoint" in said
    all_is_well(home, expected)


@pytest.mark.parametrize("command", ["run", "sweep"])
def test_the_driver_is_killed(expected: Mapping[str, bytes], tmp_path: Path, command: str) -> None:
    """Kill only the driver, so that Ray's workers may survive it for a while."""
    home, config = tmp_path / "home", write_config(tmp_path, **LONG)
    with start(home, command, config) as victim:
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
    with start_with_errors_apart(home, "sweep", config, "--json") as driver, killing_all_holders(home):
        told, complaints = driver.communicate(timeout=PATIENCE)
    assert driver.returncode == 1, complaints
    (failure,) = json.loads(told)["failed"]
    assert "its process died" in failure
    assert "Traceback" not in complaints
    assert {run.info.status for run in mlflow_runs(home)} == {"FAILED"}


@pytest.mark.parametrize("server", ["raylet", "gcs_server"])
def test_a_server_of_ray_is_killed(expected: Mapping[str, bytes], tmp_path: Path, server: str) -> None:
    """The death is reported at once, finished results are written, and the named command resumes."""
    home, config = tmp_path / "home", write_config(tmp_path, **LONG)
    with start(home, "sweep", config) as driver:
        wait_for(lambda: checkpoints(home), driver)
        kill(descendant(driver.pid, server))
        said, _ = driver.communicate(timeout=PATIENCE)
    assert driver.returncode == 1, said
    assert re.search(rf"dprl: failed: Ray's {server} \(process \d+\) died with signal 9; what is done is kept, ", said)
    assert f"resume with: {resume_command(['sweep', str(config)])}" in said
    assert "Traceback" not in said
    assert (home / "sweeps/grid/status.json").is_file()
    assert "RUNNING" not in {run.info.status for run in mlflow_runs(home)}
    dprl(home, "sweep", config)
    all_is_well(home, expected)
    assert not (home / "tune/grid").exists()


def descendant(pid: int, name: str) -> int:
    """Return the process of that name among the descendants of process `pid`."""
    found = [pid]
    for parent in found:
        for file in Path(f"/proc/{parent}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += map(int, file.read_text().split())
    (one,) = [each for each in found if Path(f"/proc/{each}/comm").read_text().strip() == name]
    return one


@contextmanager
def killing_all_holders(home: Path) -> Iterator[None]:
    over = threading.Event()

    def kill_all() -> None:
        while not over.wait(0.2):
            for holder in holders(home):
                kill(holder)

    killer = threading.Thread(target=kill_all, daemon=True)
    killer.start()
    try:
        yield
    finally:
        over.set()
        killer.join()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("command", ["run", "sweep"])
def test_ctrl_c_ends_the_sweep_and_says_how_to_go_on(
    expected: Mapping[str, bytes], tmp_path: Path, command: str, number: signal.Signals
) -> None:
    home, config = tmp_path / "home", write_config(tmp_path, **LONG)
    with start(home, command, config) as driver:
        wait_for(lambda: checkpoints(home), driver)
        os.killpg(driver.pid, number)  # to the driver and its children, as a terminal and `timeout` do
        said, _ = driver.communicate(timeout=PATIENCE)
        assert driver.returncode == 130, said
        assert "interrupted: stopping, then writing what is done" in said
        assert "interrupted; what is done is kept, resume with: dprl" in said
        assert "Traceback" not in said
        assert "SIGTERM" not in said
        assert "RUNNING" not in {run.info.status for run in mlflow_runs(home)}
        dprl(home, command, config)
    all_is_well(home, expected)


def test_the_driver_is_killed_again_and_again(tmp_path: Path) -> None:
    """Kills come at random moments (seed 0) after a cell has started; the table is equal byte for byte."""
    calm, home = tmp_path / "calm", tmp_path / "home"
    config, moments = write_config(tmp_path, **MANY), random.Random(0)
    dprl(calm, "run", config)
    cut = 0
    with ExitStack() as started:
        for seconds in (0.0, *(moments.uniform(0.0, 3.0) for _ in range(2))):
            before = last_holders(home)
            driver = started.enter_context(start(home, "sweep", config, DPRL_NUM_CPUS="2"))
            if ends_within(seconds, driver, home, before):
                assert driver.returncode == 0, driver.communicate()
                break
            kill(driver.pid)
            driver.communicate()
            cut += len(records(home)) < len(records(calm))
        assert cut > 0
        dprl(home, "sweep", config)
    assert (home / "sweeps/grid/summary.csv").read_bytes() == (calm / "sweeps/grid/summary.csv").read_bytes()
    all_is_well(home, records(calm))


def ends_within(seconds: float, driver: subprocess.Popen[str], home: Path, before: set[int]) -> bool:
    """Return whether the driver ends within this time after a process not in `before` has started a cell.

    Files of an earlier driver are no sign of a start, and its workers may still write for a moment.
    """

    def begun() -> bool:
        return bool(last_holders(home) - before and (records(home) or checkpoints(home)))

    wait_for(lambda: driver.poll() is not None or begun(), driver)
    try:
        driver.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return False
    return True
