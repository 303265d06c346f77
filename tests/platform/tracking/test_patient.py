"""A store that goes away and comes back: everything is written once, and waiting ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from dprl.platform.tracking.patient import PatientTracker
from dprl.platform.tracking.store import TrackingError


class FakeFolder(NamedTuple):
    name: str

    def results(self) -> str:
        return f"results of {self.name}, read again"


class FakeCell(NamedTuple):
    digest: str

    @property
    def folder(self) -> FakeFolder:
        return FakeFolder(self.digest)


class FakeTracker:
    """Notes what it is told, unless it is away."""

    def __init__(self) -> None:
        self.away = False
        self.attempts = 0
        self.told: list[tuple[Any, ...]] = []

    def _note(self, *what: object) -> None:
        self.attempts += 1
        if self.away:
            raise TrackingError("connection refused")
        self.told.append(what)

    def begin(self, cell: FakeCell) -> None:
        self._note("begin", cell.digest)

    def record(self, cell: FakeCell, results: str) -> None:
        self._note("record", cell.digest, results)

    def fail(self, cell: FakeCell, cause: str) -> None:
        self._note("fail", cell.digest, cause)

    def refresh(self) -> None:
        self._note("refresh")

    def close(self, files: Sequence[Path], counts: dict[str, int], status: str) -> None:
        self._note("close", status)


class World(NamedTuple):
    tracker: FakeTracker
    patient: Any
    warned: list[str]
    wait: Callable[[float], None]


A, B, C = FakeCell("a"), FakeCell("b"), FakeCell("c")


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    now = [0.0]

    def wait(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", wait)
    tracker, warned = FakeTracker(), list[str]()
    return World(tracker, PatientTracker(tracker, warned.append), warned, wait)  # type: ignore[arg-type]


def test_what_was_missed_is_written_when_the_store_is_back(world: World) -> None:
    world.patient.begin(A)
    world.tracker.away = True
    world.patient.begin(B)
    world.patient.record(A, "results of a")
    world.patient.record(B, "results of b")
    world.tracker.away = False
    world.wait(60)
    world.patient.fail(C, "why")
    assert world.tracker.told == [
        ("begin", "a"),
        ("refresh",),
        ("record", "a", "results of a, read again"),
        ("record", "b", "results of b, read again"),
        ("fail", "c", "why"),
    ]
    assert world.warned == ["MLflow: connection refused; it is written later"]


def test_a_store_that_is_away_is_not_asked_for_every_cell(world: World) -> None:
    world.tracker.away = True
    for cell in (A, B, C):
        world.patient.begin(cell)
    assert world.tracker.attempts == 1


def test_the_end_waits_for_the_store(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.tracker.away = True
    world.patient.record(A, "results")

    def back_after_a_minute(seconds: float) -> None:
        world.wait(seconds)
        if time.monotonic() > 60:
            world.tracker.away = False

    monkeypatch.setattr(time, "sleep", back_after_a_minute)
    assert world.patient.close([], {}, "FINISHED", patient=True) is None
    assert world.tracker.told[-2:] == [("record", "a", "results of a, read again"), ("close", "FINISHED")]


def test_waiting_ends(world: World) -> None:
    world.tracker.away = True
    assert world.patient.close([], {}, "FINISHED", patient=True) == "connection refused"
    assert 100 < time.monotonic() < 200


def test_who_interrupts_does_not_wait(world: World) -> None:
    world.tracker.away = True
    assert world.patient.close([], {}, "KILLED", patient=False) == "connection refused"
    assert time.monotonic() == 0
