"""Ctrl-C at any moment, and closed output pipes: messages, kept files, and statuses in MLflow."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from mlflow.tracking import MlflowClient

from dprl.platform.command_line import main
from dprl.platform.program import sigterm_as_ctrl_c
from dprl.platform.reports.report import SweepReport
from dprl.platform.sweeps.cell import LockedCell
from dprl.platform.sweeps.progress import ProgressDisplay
from tests.platform.processes import CONFIG, mlflow_runs

RESUME = "interrupted; what is done is kept, resume with: dprl run"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DPRL_HOME", str(tmp_path / "home"))
    path = tmp_path / "grid.yaml"
    path.write_text(yaml.safe_dump(CONFIG | {"episodes": 200}))
    return path


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_ctrl_c_at_the_start_says_how_to_go_on(
    config: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("dprl.platform.sweeps.sweep.require_name", interrupt)
    assert main(["run", str(config), "--fresh"]) == 130
    told = capfd.readouterr().err
    assert told.count(RESUME) == 1
    assert "--fresh" not in told


def test_ctrl_c_while_mlflow_is_opened_leaves_no_run_running(
    config: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(MlflowClient, "log_text", interrupt)
    assert main(["run", str(config)]) == 130
    assert capfd.readouterr().err.count(RESUME) == 1
    assert [run.info.status for run in mlflow_runs(config.parent / "home")] == ["KILLED"]


def terminate(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(1.0)
    pytest.fail("SIGTERM must end the command")


@pytest.mark.parametrize("place", [(LockedCell, "advance"), (SweepReport, "write"), (MlflowClient, "log_text")])
def test_sigterm_is_like_ctrl_c_at_any_moment(
    config: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], place: tuple[type, str]
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(*place, terminate)
    assert main(["run", str(config), "--set", "privacy={model: none}"]) == 130
    assert capfd.readouterr().err.count(RESUME) == 1
    finished = len(list(config.parent.glob("home/sweeps/grid/cells/*/finished.json")))
    assert finished == (1 if place[1] == "write" else 0), "finished cells are kept"
    assert "RUNNING" not in {run.info.status for run in mlflow_runs(config.parent / "home")}
    assert signal.getsignal(signal.SIGTERM) == before


def test_the_second_sigterm_of_timeout_changes_nothing() -> None:
    with sigterm_as_ctrl_c():
        with pytest.raises(KeyboardInterrupt):
            terminate()
        os.kill(os.getpid(), signal.SIGTERM)


def test_an_interrupt_that_a_finalizer_drops_comes_again() -> None:
    class Dropping:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.01)

    with sigterm_as_ctrl_c():
        Dropping()
        with pytest.raises(KeyboardInterrupt):
            time.sleep(5.0)


def pipe_without_reader() -> int:
    """Return a descriptor that nobody will read, as after `| head` has ended."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer


def test_the_log_goes_on_when_nobody_reads_the_display(tmp_path: Path) -> None:
    with contextlib.suppress(BrokenPipeError), os.fdopen(pipe_without_reader(), "w") as nobody:
        display = ProgressDisplay(stream=nobody, log=tmp_path / "sweep.log")
        display.say("starting")
        display.begin(1)
        display.warn("MLflow: away")
        display.ended("none", "done")
    logged = [line.partition(" ")[2] for line in (tmp_path / "sweep.log").read_text().splitlines()]
    assert [line for line in logged if "nobody sees" not in line] == ["starting", "MLflow: away", "[1/1] none: done"]
    assert len(logged) == 4


def test_ctrl_c_that_ends_the_reader_too_ends_the_sweep_orderly(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of `dprl sweep ... 2>&1 | tee log`: the terminal sends Ctrl-C to both."""
    home, stderr = config.parent / "home", sys.stderr
    broken = os.fdopen(pipe_without_reader(), "w")

    def interrupted(self: LockedCell) -> None:
        monkeypatch.setattr(sys, "stderr", stderr)
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "stderr", broken)
    monkeypatch.setattr(LockedCell, "advance", interrupted)
    assert main(["run", str(config)]) == 130
    with contextlib.suppress(BrokenPipeError):
        broken.close()
    assert (home / "sweeps/grid/status.json").is_file()
    assert {run.info.status for run in mlflow_runs(home)} == {"KILLED"}
    assert RESUME in (home / "sweeps/grid/logs/sweep.log").read_text()


def dprl_without_readers(words: Sequence[str | Path]) -> int:
    nobody = pipe_without_reader()
    command = [sys.executable, "-P", "-m", "dprl.platform.command_line", *map(str, words)]
    code = subprocess.run(command, stdout=nobody, stderr=nobody, timeout=200, check=False).returncode
    os.close(nobody)
    return code


@pytest.mark.slow
def test_without_readers_the_exit_code_and_the_results_are_the_same(config: Path) -> None:
    assert dprl_without_readers(["run", config]) == 0
    home = config.parent / "home"
    assert (home / "sweeps/grid/summary.csv").read_text().count("\n") == 4
    assert {run.info.status for run in mlflow_runs(home)} == {"FINISHED"}
    for broken in home.glob("sweeps/grid/cells/*"):
        (broken / "finished.json").unlink()
        (broken / "state.npz").mkdir()
    assert dprl_without_readers(["run", config]) == 1
    assert dprl_without_readers(["run", config, "--no-such-option"]) == 2
    assert dprl_without_readers(["list"]) == 0
