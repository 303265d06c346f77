"""Malformed configs from hypothesis: each is refused in one line or is a valid run; there is never a traceback."""

from __future__ import annotations

import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from dprl.platform.command_line import main
from tests.platform.configs.broken_configs import Case, cases

MOST_SECONDS, MOST_BYTES = 120, 6 * 1024**3
LONGEST_LINE = 2000
RUN_EVERY = 5


class TooSlowError(BaseException):
    """Not an Exception, so that no handler of the program mistakes it for a failed cell."""


@contextmanager
def guarded(seconds: int) -> Iterator[None]:
    """Stop a computation after `seconds` of CPU time, and refuse memory beyond a few GiB."""

    def stop(signal_number: int, frame: object) -> None:
        raise TooSlowError(f"took more than {seconds} s of computing")

    used = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    resource.setrlimit(resource.RLIMIT_AS, (mapped_bytes() + MOST_BYTES, used[1]))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        resource.setrlimit(resource.RLIMIT_AS, used)


def mapped_bytes() -> int:
    """Return the size of this process's address space."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def assert_answered(words: list[str], home: Path, capsys: pytest.CaptureFixture[str]) -> int:
    """Run a command: it succeeds, or refuses in one line with rule and remedy and writes nothing."""
    before = sorted(home.rglob("*"))
    with guarded(MOST_SECONDS):
        code = main(words)
    shown = capsys.readouterr()
    if code == 0:
        return code
    assert code == 2, shown.err
    assert shown.out == ""
    assert shown.err.endswith("\n")
    line = shown.err.removesuffix("\n")
    assert line.startswith("dprl: "), line
    assert line.isprintable(), repr(line)
    assert "; " in line, line
    assert ": " in line.removeprefix("dprl: "), line
    assert "<class" not in line, line
    assert " object at 0x" not in line, line
    assert len(line) < LONGEST_LINE, line
    assert sorted(home.rglob("*")) == before
    return code


def check(case: Case, folder: Path, capsys: pytest.CaptureFixture[str], *, running: bool = False) -> int:
    """Certify a case; if that succeeds, plan its sweep and, if `running`, run a tiny one."""
    file = folder / "try.yaml"
    file.write_bytes(case.content)
    words = [str(file), *(word for override in case.overrides for word in ("--set", override))]
    code = assert_answered(["certify", *words], folder, capsys)
    if code == 0:
        assert assert_answered(["sweep", *words, "--dry-run"], folder, capsys) == 0
    if code == 0 and running:
        assert_answered(["run", *words, "--set", "episodes=2", "--set", "seeds=1", "--name", "fuzz"], folder, capsys)
    return code


def fuzz(examples: int, folder: Path, capsys: pytest.CaptureFixture[str], *, running: bool) -> list[int]:
    """Check this number of cases, the same in every call, and return their exit codes."""
    codes: list[int] = []

    @settings(max_examples=examples, derandomize=True, database=None, suppress_health_check=[*HealthCheck])
    @given(cases())
    def one(case: Case) -> None:
        codes.append(check(case, folder, capsys, running=running and len(codes) % RUN_EVERY == 0))

    one()
    return codes


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder, with a results folder in it that does not exist yet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPRL_HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.mark.timeout(1800)  # a cold cache compiles what certificates need
def test_thirty_malformed_configs_are_refused_in_one_line_each(
    outside: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    codes = fuzz(30, outside, capsys, running=False)
    assert {2} <= set(codes) <= {0, 2}


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_six_hundred_malformed_configs_are_refused_in_one_line_each_or_run(
    outside: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    codes = fuzz(600, outside, capsys, running=True)
    assert codes.count(2) > 200
    assert codes.count(0) > 10


@pytest.mark.parametrize(
    "text",
    [
        "seed: !!timestamp x\n",
        "audit: !!bool x\n",
        "seed: !!int\n",
        "k" * 5000 + ": 1\n",
        "\u202e: 1\n",
        "\u202e: {grid_search: []}\n",
        '"\\e[31m": 1\n',
    ],
)
def test_what_was_found_stays_mended(text: str, outside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(Case(text.encode(), []), outside, capsys) == 2


def count_for_ever() -> None:
    """Compute in Python, because signals are not handled within a C loop."""
    while True:
        pass


def test_the_guard_ends_a_loop_and_refuses_memory() -> None:
    with pytest.raises(TooSlowError), guarded(1):
        count_for_ever()
    with pytest.raises(MemoryError), guarded(60):
        np.ones(2 * MOST_BYTES // 8)
    with guarded(60):
        np.ones(1000)


@pytest.mark.parametrize("said", ["", "dprl: a rule\n", "Traceback\ndprl: x: a; b\n", "dprl: x: <class 'int'>; b\n"])
def test_a_bad_answer_is_seen(
    said: str, outside: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(words: list[str]) -> int:
        print(said, end="", file=sys.stderr)
        return 2

    monkeypatch.setitem(globals(), "main", answer)
    with pytest.raises(AssertionError):
        assert_answered(["certify"], outside, capsys)
