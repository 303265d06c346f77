"""`dprl ui` finds the runs that a sweep's last line refers to."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import ClassVar

import pytest
import yaml

from dprl.platform.command_line import main
from dprl.platform.configs.config import load_cells
from dprl.platform.sweeps.sweep import SweepOptions, run_sweep
from tests.platform.processes import CONFIG


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DPRL_HOME", raising=False)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    path = tmp_path / "grid.yaml"
    path.write_text(yaml.safe_dump(CONFIG | {"episodes": 100, "privacy": {"model": "none"}}))
    return path


class Server:
    """A fake server of MLflow, which runs until Ctrl-C."""

    pid = 10**9
    found: ClassVar[list[str]] = []
    ends = False

    def __init__(self, words: list[str], **_: object) -> None:
        self.found.append(words[words.index("--backend-store-uri") + 1])

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def wait(self) -> None:
        if not self.ends:
            raise KeyboardInterrupt


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The databases requested of a fake server."""
    monkeypatch.setattr(Server, "found", [])
    monkeypatch.setattr("dprl.platform.commands.ui.subprocess.Popen", Server)
    return Server.found


def test_a_server_that_ends_is_a_failure(
    config: Path, served: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    last_line(config, config.parent / "dprl_runs", capsys)
    monkeypatch.setattr(Server, "ends", True)
    assert main(["ui", "--port", "5793"]) == 1
    assert capsys.readouterr().err.count("dprl: MLflow's server has ended") == 1


def last_line(config: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the last line of a sweep, which names the place of its runs."""
    how = SweepOptions("grid", home, "process", None, None, fresh=False, command="dprl run grid.yaml")
    run_sweep(load_cells(config), how)
    return capsys.readouterr().err.splitlines()[-1].removeprefix("MLflow    ").rpartition(": experiment")[0]


@pytest.mark.parametrize("place", ["dprl_runs", "else where"])
def test_the_command_of_a_sweep_s_last_line_shows_its_runs(
    config: Path, served: list[str], capsys: pytest.CaptureFixture[str], place: str
) -> None:
    home = config.parent / place
    program, *words = shlex.split(last_line(config, home, capsys))
    assert program == "dprl"
    assert words == (["ui"] if place == "dprl_runs" else ["ui", "--storage", str(home)])
    assert main([*words, "--port", "5793"]) == 130
    assert served == [f"sqlite:///{home}/mlflow.db"]
