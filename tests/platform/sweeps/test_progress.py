"""Progress of a sweep: lines with the time left, quiet mode, and a log that names cell and seed."""

from __future__ import annotations

import io
import re
import time
from pathlib import Path

import pytest

from dprl.platform.sweeps.progress import ProgressDisplay


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The displays' clock in seconds, set by tests."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def go(display: ProgressDisplay, clock: list[float]) -> None:
    """Two cells: one is done after 60 s, the other is then halfway."""
    display.say("starting")
    display.begin(2)
    display.advanced("jdp", 0.1, "1 of 5")
    clock[0] += 60
    display.advanced("none", 0.5, "3 of 5")
    display.ended("jdp", "done in 60.0 s")
    clock[0] += 20
    display.advanced("none", 0.75, "4 of 5")
    display.warn("MLflow: away")
    display.ended("none", "FAILED: ValueError: no")


def test_the_log_has_everything_with_its_time(tmp_path: Path, clock: list[float]) -> None:
    file = tmp_path / "logs" / "sweep.log"
    go(ProgressDisplay(quiet=True, stream=io.StringIO(), log=file), clock)
    lines = [line.split(" ", 1) for line in file.read_text().splitlines()]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4}", stamp) for stamp, _ in lines)
    assert [text.partition(", about")[0] for _, text in lines] == [
        "starting",
        "[1/2] jdp: done in 60.0 s",
        "none: 75% (seed 4 of 5)",
        "MLflow: away",
        "[2/2] none: FAILED: ValueError: no",
    ]


def test_a_log_that_cannot_be_written_is_reported_once_and_ends(tmp_path: Path, clock: list[float]) -> None:
    (tmp_path / "logs").write_text("a file where the folder should be")
    stream = io.StringIO()
    go(ProgressDisplay(quiet=True, stream=stream, log=tmp_path / "logs" / "sweep.log"), clock)
    told = stream.getvalue().splitlines()
    assert told[0].endswith("the log ends here")
    assert told[1:] == ["MLflow: away"]
