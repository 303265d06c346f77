"""The ledger of a run: on disk before anyone is asked; a checkpoint without it can only evaluate."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dprl.algorithms.pgc.journaled_privatizer import JOURNAL, JournaledPrivatizer, journal_folder
from dprl.privacy import GradientPrivacy, LedgerError, Streams
from dprl.privacy.queries.gradients import GradientLayout
from dprl.privacy.randomness.streams import NoiseConfig


@pytest.fixture
def books() -> Iterator[Any]:
    """Return a function that makes journaled privatizers of 100 submissions; they are closed afterwards."""
    made: list[JournaledPrivatizer] = []

    def make(folder: Path, n: int = 100, entropy: Any = "seed") -> JournaledPrivatizer:
        streams = Streams(0, "book", NoiseConfig(entropy=entropy))

        def build() -> Any:
            return GradientPrivacy("ldp", 1.0).build(GradientLayout(4), n, streams)

        made.append(JournaledPrivatizer(build, folder))
        return made[-1]

    yield make
    for book in made:
        book.close()


def test_nothing_is_made_before_the_first_lease(tmp_path: Path, books: Any) -> None:
    book = books(tmp_path / "deep" / "run")
    assert not (tmp_path / "deep").exists()
    book.lease(3)
    assert (tmp_path / "deep" / "run" / JOURNAL).stat().st_size > 0


def test_a_lease_is_on_disk_before_it_is_had(tmp_path: Path, books: Any) -> None:
    book = books(tmp_path)
    for k in (1, 5, 2):
        lease = book.lease(k)
        assert books(tmp_path).privatizer.charged == lease.last


@pytest.mark.parametrize("entropy", ["seed", "os"])
def test_a_resumed_run_goes_on_after_all_that_were_asked(tmp_path: Path, books: Any, entropy: str) -> None:
    book = books(tmp_path / "old", entropy=entropy)
    book.lease(10)
    entry = book.reference()
    book.lease(7)
    book.close()
    again = books(tmp_path / "new", entropy=entropy)
    again.resume(entry)
    assert again.lease(2).submissions.tolist() == [18, 19]
    assert not (tmp_path / "new").exists()


def test_a_folder_that_was_moved_is_found_where_the_trial_is_now(tmp_path: Path, books: Any) -> None:
    book = books(tmp_path / "old")
    book.lease(10)
    entry = book.reference()
    book.close()
    (tmp_path / "old").rename(tmp_path / "moved")
    again = books(tmp_path / "moved")
    again.resume(entry)
    assert again.lease(1).first == 11


def test_a_checkpoint_leads_to_its_own_journal_whatever_is_in_the_folder(tmp_path: Path, books: Any) -> None:
    first, second = books(tmp_path / "A"), books(tmp_path / "B")
    first.lease(10)
    entry = first.reference()
    first.lease(30)
    second.lease(12)
    first.close()
    second.resume(entry)
    assert second.lease(2).first == 41
    second.close()
    (tmp_path / "A" / JOURNAL).unlink()
    third = books(tmp_path / "B")
    third.resume(entry)
    with pytest.raises(LedgerError, match="must hold the 10 submissions of the checkpoint, got 0"):
        third.lease(1)
    books(tmp_path / "A").lease(20)
    fourth = books(tmp_path / "B")
    fourth.resume(entry)
    with pytest.raises(LedgerError, match="must be the one that this run began, got another one"):
        fourth.lease(1)
    # A checkpoint of a run that cannot train cannot train either.
    fifth = books(tmp_path / "C")
    fifth.resume(fourth.reference())
    with pytest.raises(LedgerError, match="must be the one that this run began, got another one"):
        fifth.lease(1)


def test_a_checkpoint_from_before_the_first_lease_goes_on_in_what_came_later(tmp_path: Path, books: Any) -> None:
    book = books(tmp_path / "old")
    entry = book.reference()
    book.lease(4)
    book.close()
    again = books(tmp_path / "new")
    again.resume(entry)
    assert again.lease(1).first == 5
    again.close()
    (tmp_path / "old").rename(tmp_path / "moved")
    moved = books(tmp_path / "moved")
    moved.resume(entry)
    assert moved.lease(1).first == 6


def test_without_its_journal_a_run_asks_nobody(tmp_path: Path, books: Any) -> None:
    book = books(tmp_path)
    book.lease(10)
    entry = book.reference()
    book.close()
    (tmp_path / JOURNAL).unlink()
    again = books(tmp_path / "new")
    again.resume(entry)
    with pytest.raises(LedgerError, match=r"must hold the 10 submissions of the checkpoint, got 0: .*; restore it"):
        again.lease(1)
    assert not (tmp_path / JOURNAL).exists()


def trial(kind: str, path: str = "/storage/sweep/trial_7") -> Any:
    system = SimpleNamespace(type_name=kind)
    return SimpleNamespace(storage_filesystem=system, trial_fs_path=path, trial_dir_name="trial_7")


def test_where_ledgers_belong(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DPRL_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    assert journal_folder("/kept", None) == Path("/kept")
    assert journal_folder("/kept", trial("local")) == Path("/kept/trial_7")
    assert journal_folder(None, trial("local")) == Path("/storage/sweep/trial_7")
    first, second = journal_folder(None, None), journal_folder(None, None)
    assert first != second
    assert first.parent == tmp_path / "dprl_runs" / "ledgers"
    monkeypatch.setenv("DPRL_HOME", "/home/of/runs")
    assert journal_folder(None, None).parent == Path("/home/of/runs/ledgers")


@pytest.mark.parametrize(
    ("folder", "storage", "message"),
    [
        ("runs/ledger", None, "^folder must be an absolute path, got 'runs/ledger'"),
        (
            None,
            "s3",
            r"^ledger must be on a file system that supports appending, got storage of type s3; call ledger\(folder",
        ),
    ],
)
def test_where_ledgers_cannot_be(folder: str | None, storage: str | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        journal_folder(folder, None if storage is None else trial(storage))
