"""Progress of a sweep: lines with the time left, quiet mode, and a log that names cell and seed."""

from __future__ import annotations

import io
import re
import time
from pathlib import Path

import pytest
from rich.console import Console

from dprl.platform.sweeps.progress import (
    ProgressDisplay,
    _PlainProgress,
    _TerminalProgress,
    duration,
    progress_display,
)


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
    display.close()


def test_plain_lines_tell_how_long_it_will_take(clock: list[float]) -> None:
    stream = io.StringIO()
    go(_PlainProgress(stream), clock)
    assert stream.getvalue().splitlines() == [
        "starting",
        "[1/2] jdp: done in 60.0 s, about 21 s left",
        "      none: 75% (seed 4 of 5), about 12 s left",
        "MLflow: away",
        "[2/2] none: FAILED: ValueError: no",
    ]


def test_compilation_counts_for_no_time_left(clock: list[float]) -> None:
    """The first block has one episode, and ends after the loop was compiled or loaded."""
    stream = io.StringIO()
    display = _PlainProgress(stream)
    display.begin(1)
    clock[0] += 60
    for fraction in (0.001, 0.05, 0.10, 0.15, 0.2):
        display.advanced("jdp", fraction, "1 of 5")
        clock[0] += 6
    assert stream.getvalue().splitlines() == [
        "      jdp: 10% (seed 1 of 5), about 2 min left",
        "      jdp: 20% (seed 1 of 5), about 2 min left",
    ]


def test_quiet_means_only_what_goes_wrong(clock: list[float]) -> None:
    stream = io.StringIO()
    display = progress_display(quiet=True, stream=stream)
    go(display, clock)
    assert stream.getvalue() == "MLflow: away\n"


def test_a_terminal_keeps_the_lines_of_ended_cells() -> None:
    stream = io.StringIO()
    go(_TerminalProgress(Console(file=stream, force_terminal=True, width=120)), [0.0])
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())
    assert "[1/2] jdp: done in 60.0 s" in shown
    assert "[2/2] none: FAILED: ValueError: no" in shown


def test_a_terminal_has_no_bar_of_a_cell_that_ended() -> None:
    stream = io.StringIO()
    display = _TerminalProgress(Console(file=stream, force_terminal=True, width=120))
    display.begin(2)
    display.advanced("jdp", 0.5, "1 of 5")
    display.ended("jdp", "done in 60.0 s")
    display.advanced("none", 0.5, "1 of 5")
    display.close()
    _, after = stream.getvalue().split("jdp: done in 60.0 s")
    assert "none (seed 1 of 5)" in after
    assert "jdp (seed" not in after


def test_a_narrow_terminal_cuts_the_name_and_keeps_the_times() -> None:
    stream = io.StringIO()
    display = _TerminalProgress(Console(file=stream, force_terminal=True, width=80))
    display.begin(2)
    display.advanced("learning_rate=0.5 discount=0.99 gradient epsilon=5 projected_random_sign", 0.5, "1 of 60")
    display.close()
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())
    assert "0:00:00" in shown
    assert max(map(len, re.split(r"[\r\n]+", shown))) <= 80


def test_the_log_has_everything_with_its_time(tmp_path: Path, clock: list[float]) -> None:
    file = tmp_path / "logs" / "sweep.log"
    go(_PlainProgress(io.StringIO(), quiet=True, log=file), clock)
    lines = [line.split(" ", 1) for line in file.read_text().splitlines()]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4}", stamp) for stamp, _ in lines)
    assert [text for _, text in lines] == [
        "starting",
        "jdp: seed 1 of 5, 10.0%",
        "none: seed 3 of 5, 50.0%",
        "jdp: done in 60.0 s",
        "MLflow: away",
        "none: FAILED: ValueError: no",
    ]


def test_a_log_that_cannot_be_written_is_reported_once_and_ends(tmp_path: Path, clock: list[float]) -> None:
    (tmp_path / "logs").write_text("a file where the folder should be")
    stream = io.StringIO()
    go(_PlainProgress(stream, quiet=True, log=tmp_path / "logs" / "sweep.log"), clock)
    told = stream.getvalue().splitlines()
    assert told[0].endswith("the log ends here")
    assert told[1:] == ["MLflow: away"]


@pytest.mark.parametrize(
    ("seconds", "told"), [(0.2, "1 s"), (89, "89 s"), (91, "2 min"), (5000, "83 min"), (9000, "2.5 h")]
)
def test_times_are_rough(seconds: float, told: str) -> None:
    assert duration(seconds) == told
