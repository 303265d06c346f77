"""A store that goes away: everything is written once, at the end or by the next call."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from dprl.platform.errors import UserError
from dprl.platform.tracking.deferring import DeferringTracker
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


A, B, C = FakeCell("a"), FakeCell("b"), FakeCell("c")
FakeWorld = tuple[FakeTracker, Any, list[str]]


@pytest.fixture
def world() -> FakeWorld:
    tracker, warned = FakeTracker(), list[str]()
    return tracker, DeferringTracker(tracker, warned.append), warned  # type: ignore[arg-type]


def test_what_was_missed_is_written_at_the_end(world: FakeWorld) -> None:
    tracker, deferring, warned = world
    deferring.begin(A)
    tracker.away = True
    deferring.begin(B)
    attempts = tracker.attempts
    deferring.record(A, "results of a")
    deferring.record(B, "results of b")
    deferring.fail(C, "why")
    assert tracker.attempts == attempts  # it is not asked for every cell
    tracker.away = False
    assert deferring.close([], {}, "FINISHED") is None
    assert tracker.told == [
        ("begin", "a"),
        ("refresh",),
        ("record", "b", "results of b, read again"),
        ("record", "a", "results of a, read again"),
        ("fail", "c", "why"),
        ("close", "FINISHED"),
    ]
    assert warned == ["MLflow: connection refused; the rest is written at the end"]


def test_a_store_that_stays_away_is_asked_once_at_the_end(world: FakeWorld) -> None:
    tracker, deferring, warned = world
    tracker.away = True
    for cell in (A, B, C):
        deferring.record(cell, "results")
    attempts = tracker.attempts
    assert deferring.close([], {}, "FINISHED") == "connection refused"
    assert tracker.attempts == attempts + 2
    assert len(warned) == 1


def test_what_is_refused_for_good_keeps_nothing_else_from_the_store(world: FakeWorld) -> None:
    tracker, deferring, _ = world
    tracker.refused = {"a"}
    for cell in (A, B, C):
        deferring.record(cell, "results")
    assert deferring.close([], {}, "FINISHED") == "a value that is no number"
    written = [("record", name, f"results of {name}, read again") for name in ("b", "c")]
    assert tracker.told == [("refresh",), *written, ("close", "FINISHED")]


@pytest.mark.parametrize("call", ["begin", "record", "fail"])
def test_an_error_of_our_own_is_no_refusal(world: FakeWorld, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a mistake in the code")

    monkeypatch.setattr(world[0], call, broken)
    with pytest.raises(RuntimeError, match="a mistake in the code"):
        getattr(world[1], call)(A, *([] if call == "begin" else ["results"]))


def test_a_run_that_is_refused_is_reported_and_the_sweep_is_ended(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With MLflow itself, and an error class of its file store's library."""
    cells, tracker, warned = cells_in(home), opened(home), list[str]()
    deferring = DeferringTracker(tracker, warned.append)
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
        deferring.begin(cell)
        deferring.record(cell, cell.folder.results())
    assert deferring.close([home / "config.yaml"], {}, "FINISHED") == "Boto3Error: no such bucket"
    assert warned == ["MLflow: Boto3Error: no such bucket; the rest is written at the end"]
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
