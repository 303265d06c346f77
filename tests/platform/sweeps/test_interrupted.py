"""Ctrl-C at any moment, and readers of the output who go away: what is told, what is kept, what MLflow says then."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from dprl.platform.command_line import main
from dprl.platform.sweeps import adaptive
from dprl.platform.tracking.tracker import Tracker
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


def test_ctrl_c_while_a_cluster_is_joined_says_how_to_go_on(
    config: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("dprl.platform.sweeps.sweep.joined_cluster", interrupt)
    assert main(["run", str(config), "--fresh"]) == 130
    told = capfd.readouterr().err
    assert told.count(RESUME) == 1
    assert "--fresh" not in told


def test_ctrl_c_while_mlflow_is_opened_leaves_no_run_running(
    config: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Tracker, "_mark", interrupt)
    assert main(["run", str(config)]) == 130
    assert capfd.readouterr().err.count(RESUME) == 1
    assert [run.info.status for run in mlflow_runs(config.parent / "home")] == ["KILLED"]


def test_ctrl_c_between_stages_says_how_to_go_on(
    config: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(adaptive, "run_sweep", lambda *_: pytest.fail("is not reached"))
    monkeypatch.setattr(adaptive, "_done", interrupt)
    assert main(["sweep", str(config), "--adaptive", "--set", "seeds=3"]) == 130
    assert capfd.readouterr().err.count(RESUME.replace("run", "sweep")) == 1
