"""A store that goes away and comes back: everything is written once, and waiting ends."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from dprl.platform.errors import UserError
from dprl.platform.tracking.retrying import RetryingTracker
from dprl.platform.tracking.store import TrackingError, TrackingStore
from dprl.platform.tracking.tracker import Tracker
from tests.platform.tracking.cases import cells_in, client_of, opened, runs


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
    """A tracker that records calls, unless it is unavailable or refuses them."""

    def __init__(self) -> None:
        self.away = False
        self.attempts = 0
        self.told: list[tuple[Any, ...]] = []
        self.refused: set[str] = set()

    def _note(self, *what: object) -> None:
        self.attempts += 1
        if self.away:
            raise TrackingError("connection refused")
        if self.refused & set(what):
            raise TrackingError("a value that is no number")
        self.told.append(what)

    def begin(self, cell: FakeCell) -> None:
        self._note("begin", cell.digest)

    def record(self, cell: FakeCell, results: str) -> None:
        self._note("record", cell.digest, results)

    def fail(self, cell: FakeCell, cause: str) -> None:
        self._note("fail", cell.digest, cause)

    def ask(self) -> None:
        self.attempts += 1
        if self.away:
            raise TrackingError("connection refused")

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
    return World(tracker, RetryingTracker(tracker, warned.append), warned, wait)  # type: ignore[arg-type]


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
    # One attempt for the first cell, and one that shows that the store fails for others, too.
    assert world.tracker.attempts == 2


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


def test_what_is_refused_for_good_keeps_nothing_else_from_the_store(world: World) -> None:
    world.tracker.refused = {"a"}
    for cell in (A, B, C):
        world.patient.record(cell, "results")
    assert world.tracker.told == [("record", "b", "results"), ("record", "c", "results")]
    attempts = world.tracker.attempts
    world.patient.begin(B)
    assert world.tracker.attempts == attempts + 1
    assert world.patient.close([], {}, "FINISHED", patient=True) == "a value that is no number"
    assert world.tracker.told[-1] == ("close", "FINISHED")
    assert time.monotonic() == 0
    assert world.warned == ["MLflow: a value that is no number; it is tried again at the end"]


def test_what_was_refused_is_tried_again_at_the_end_unless_a_later_call_includes_it(world: World) -> None:
    world.tracker.refused = {"a", "begin"}
    world.patient.record(A, "results")
    world.patient.begin(B)
    world.tracker.refused = set()
    world.patient.record(B, "results")
    assert world.patient.close([], {}, "FINISHED", patient=True) is None
    again = ("record", "a", "results of a, read again")
    assert world.tracker.told == [("record", "b", "results"), ("refresh",), again, ("close", "FINISHED")]


def test_refusals_that_take_long_do_not_add_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server answers, but its file store is unavailable, so every file takes the whole timeout."""
    world.tracker.away = True
    cells = [FakeCell(f"cell {i}") for i in range(200)]
    for cell in cells:
        world.patient.record(cell, "results")
    world.tracker.away = False
    record = world.tracker.record

    def slow(cell: FakeCell, results: str) -> None:
        world.wait(40)
        world.tracker.refused = {cell.digest}
        record(cell, results)

    monkeypatch.setattr(world.tracker, "record", slow)
    assert world.patient.close([], {}, "FINISHED", patient=True) == "a value that is no number"
    assert world.tracker.told[-1] == ("close", "FINISHED")
    assert time.monotonic() < 300


@pytest.mark.parametrize("call", ["begin", "record", "fail"])
def test_an_error_of_our_own_is_no_refusal(world: World, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a mistake in the code")

    monkeypatch.setattr(world.tracker, call, broken)
    with pytest.raises(RuntimeError, match="a mistake in the code"):
        getattr(world.patient, call)(A, *([] if call == "begin" else ["results"]))
    assert not world.warned


def test_a_run_that_is_refused_is_reported_and_the_sweep_is_ended(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With MLflow itself, and an error class of its file store's library."""
    cells, tracker, warned = cells_in(home), opened(home), list[str]()
    patient = RetryingTracker(tracker, warned.append)
    upload = tracker.client.log_artifact

    boto3 = ModuleType("boto3.exceptions")
    boto3.Boto3Error = type("Boto3Error", (Exception,), {})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "boto3.exceptions", boto3)

    def refused(run: str, file: str, *where: str | None) -> None:
        if cells[0].digest in file:
            raise boto3.Boto3Error("no such bucket")
        upload(run, file, *where)

    monkeypatch.setattr(tracker.client, "log_artifact", refused)
    for cell in cells:
        patient.begin(cell)
        patient.record(cell, cell.folder.results())
    assert patient.close([home / "config.yaml"], {}, "FINISHED", patient=True) == "Boto3Error: no such bucket"
    assert warned == ["MLflow: Boto3Error: no such bucket; it is tried again at the end"]
    parent, children = runs(home)
    assert {run.info.status for run in (parent, *children)} == {"FINISHED"}
    assert ["recorded" in child.data.tags for child in children] == [False, True]
    assert "config.yaml" in {file.path for file in client_of(home).list_artifacts(parent.info.run_id)}


def test_a_store_that_cannot_keep_files_is_bad_input(home: Path) -> None:
    (home / "file").write_text("")
    tracker = Tracker(TrackingStore(TrackingStore.choose(home, None).uri, home / "file" / "artifacts"), "tracked", "")
    with pytest.raises(UserError, match=r"^tracking-uri: must be usable by MLflow") as caught:
        tracker.open(cells_in(home), fresh=False)
    assert "\n" not in str(caught.value)
    tracker.close([], {}, "KILLED")
    assert runs(home)[0].info.status == "KILLED"
