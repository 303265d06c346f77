"""Flags of sweeps work as stated: passed on by `submit`, refused where they would have no effect."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dprl.platform.command_line import app, main
from dprl.platform.commands.base import SweepFlags
from dprl.platform.environment_variables import tracking_uri

CLUSTER = ["--address", "http://localhost:1"]
FLAGS = ["--fresh", "--quiet", "--max-restarts", "-1", "--cpus", "2"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPRL_HOME", str(tmp_path))


def flags(*words: str) -> SweepFlags:
    found: SweepFlags = app().parse_args(words, exit_on_error=False)[1].kwargs["flags"]
    return found


def test_submit_hands_on_what_says_how_to_sweep() -> None:
    words = flags("submit", "smoke", *CLUSTER, *FLAGS).words
    assert words == FLAGS
    # The flags passed on are the flags given.
    assert flags("sweep", "smoke", *words).words == FLAGS
    assert SweepFlags().words == []


@pytest.mark.parametrize("words", [["sweep"], ["sweep", "--dry-run"], ["submit", *CLUSTER]])
@pytest.mark.parametrize("number", ["-2", "many", "1.5"])
@pytest.mark.parametrize("flag", ["--max-restarts", "--cpus"])
def test_numbers_are_whole(words: list[str], flag: str, number: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "smoke", f"{flag}={number}"]) == 2
    assert capsys.readouterr().err.startswith("dprl: Invalid value ")


@pytest.mark.parametrize("words", [["sweep", "--dry-run"], ["submit", *CLUSTER]])
def test_memory_is_that_of_the_config(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    cells = flags(*words, "smoke", "--memory", "2.5", "--name", "mine").cells("smoke")
    assert {(cell.memory, cell.name) for cell in cells} == {(2.5, "mine")}
    assert main([*words, "smoke", "--memory", "much"]) == 2
    assert capsys.readouterr().err.startswith("dprl: memory: must be a number")


def test_mlflows_own_variable_says_where_its_store_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/theirs.db")
    small = ["--set", "episodes=2", "--set", "seeds=1", "--set", "privacy={model: none}", "--json"]
    assert main(["run", "smoke", *small]) == 0
    assert json.loads(capsys.readouterr().out)["tracking_uri"] == f"sqlite:///{tmp_path}/theirs.db"
    assert (tmp_path / "theirs.db").is_file()
    assert not (tmp_path / "mlflow.db").exists()
    # Files of runs are not written to the current folder.
    assert any((tmp_path / "artifacts").rglob("records.parquet"))
    # A typed flag takes precedence.
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nonsense")
    assert main(["run", "smoke", *small]) == 2
    assert capsys.readouterr().err.startswith("dprl: tracking-uri: must be a database or a server, got 'nonsense'; ")
    assert tracking_uri("sqlite:////mine.db") == "sqlite:////mine.db"
