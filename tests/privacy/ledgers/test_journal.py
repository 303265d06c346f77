"""The journal of charges: what was charged once stays charged, whatever happens to process, disk or file."""

from __future__ import annotations

import copy
import dataclasses
import fcntl
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dprl.privacy import LedgerError, Release, Scope, SubmissionJournal, SubmissionLedger
from dprl.privacy.mechanisms.base import Sensitivity
from dprl.privacy.mechanisms.laplace import Laplace

N_AGENTS, CAP = 7, 1000
SCOPE = Scope("an agent", "replace its messages", "the server", ("messages",), ("time",), "an agent")


def ledger_of(
    path: Path, cap: int = CAP, scale: float = 4.0, scope: Scope = SCOPE, **settings: Any
) -> SubmissionLedger:
    release = Release("x", Laplace(scale), Sensitivity.of_cells(4), None, True, 1, 8, "os")
    return SubmissionLedger("ldp", [release], scope, N_AGENTS, cap, SubmissionJournal(path, **settings))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "submissions.txt"


def test_charges_are_read_back(path: Path) -> None:
    rng, ledger = np.random.default_rng(0), ledger_of(path)
    assert not path.exists()
    for _ in range(40):
        ledger.charge_all(rng.integers(1, N_AGENTS + 1, size=rng.integers(1, 12)))
    assert ledger_of(path).submitted.tolist() == ledger.submitted.tolist()


def test_consecutive_agents_are_one_line(path: Path) -> None:
    ledger = ledger_of(path)
    ledger.charge_all([1, 2, 3, 4])
    ledger.charge_all([5, 6, 7, 1, 2])
    lines = path.read_text().splitlines()
    assert [line.rpartition(" ")[0] for line in lines[1:]] == ["1 4 1", "5 7 1", "1 2 2"]


def test_a_range_is_one_line_per_round_of_agents(path: Path) -> None:
    ledger = ledger_of(path)
    ledger.charge_range(1, 4)
    ledger.charge_range(5, 16)
    lines = path.read_text().splitlines()
    assert [line.rpartition(" ")[0] for line in lines[1:]] == ["1 4 1", "5 7 1", "1 7 2", "1 2 3"]
    assert ledger_of(path).ranges == [(1, 16)]


def test_reading_locks_and_makes_nothing(path: Path) -> None:
    writer = ledger_of(path)
    writer.charge(1)
    assert ledger_of(path).submitted[0] == 1
    assert list(path.parent.iterdir()) == [path]


def test_a_second_writer_is_refused_by_name_and_nothing_is_charged(path: Path) -> None:
    writer, other = ledger_of(path), ledger_of(path)
    writer.charge(1)
    with pytest.raises(LedgerError, match=f"journal {path} is in use by another run; wait until it ends"):
        other.charge(1)
    assert other.submitted.sum() == 0
    writer._journal.close()  # type: ignore[union-attr]  # as the end of the process does
    # What was written meanwhile is read before the first charge.
    assert other.charge(1) == 2


def test_one_journal_serves_one_ledger(path: Path) -> None:
    journal = SubmissionJournal(path)
    release = Release("x", Laplace(1.0), Sensitivity.of_cells(4), None, True, 1, 8, "os")
    first, second = (SubmissionLedger("ldp", [release], SCOPE, N_AGENTS, CAP, journal) for _ in range(2))
    first.charge(1)
    with pytest.raises(LedgerError, match="written by a ledger of this run already"):
        second.charge(1)


@pytest.mark.parametrize("other", [{"cap": CAP + 1}, {"scale": 3.0}])
def test_another_ledger_s_journal_is_refused(path: Path, other: dict[str, float]) -> None:
    ledger_of(path).charge(1)
    with pytest.raises(LedgerError, match="must be of the same releases, neighbours, cap and agents as this run"):
        ledger_of(path, **other)  # type: ignore[arg-type]


def test_other_words_for_the_same_do_not_part_a_run_from_its_journal(path: Path) -> None:
    ledger_of(path).charge(3)
    reworded = Scope("one agent", SCOPE.adjacency, "whoever", ("all",), ("timing", "order"), "somebody")
    assert ledger_of(path, scope=reworded).submitted.tolist() == [0, 0, 1, 0, 0, 0, 0]
    neighbours = Scope("an agent", "replace one message", *dataclasses.astuple(SCOPE)[2:])
    with pytest.raises(LedgerError, match="must be of the same releases, neighbours"):
        ledger_of(path, scope=neighbours)


def test_a_journal_has_an_identity_of_its_own(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    ledgers = [ledger_of(path) for path in (first, second)]
    for ledger in ledgers:
        ledger.charge(1)
        ledger._journal.close()  # type: ignore[union-attr]
    one, other = (ledger._journal.identity for ledger in ledgers)  # type: ignore[union-attr]
    assert one != other
    assert ledger_of(first)._journal.identity == one  # type: ignore[union-attr]
    assert ledger_of(first, identity=one).charge(1) == 2
    with pytest.raises(LedgerError, match="must be the one that this run began, got another one"):
        ledger_of(second, identity=one)
    # What was read once is the file for good.
    late = ledger_of(second)
    first.replace(second)
    with pytest.raises(LedgerError, match="must be the one that this run began, got another one"):
        late.charge(2)


@pytest.mark.parametrize("moved", ["away", "deleted", "replaced", "another's"])
def test_nothing_is_charged_in_a_file_that_others_do_not_find(path: Path, moved: str) -> None:
    ledger, away = ledger_of(path), path.with_suffix(".away")
    ledger.charge(1)
    path.rename(away)
    if moved == "deleted":
        away.unlink()
    elif moved == "replaced":
        path.write_bytes(away.read_bytes())
    elif moved == "another's":
        ledger_of(path).charge(4)
    for _ in range(2):
        with pytest.raises(
            LedgerError, match=r"was moved, deleted or replaced while it was in use; nothing is charged"
        ):
            ledger.charge(2)
    assert ledger.submitted.tolist() == [1, 0, 0, 0, 0, 0, 0]
    if moved != "deleted":
        away.replace(path)
        assert ledger.charge(2) == 1
        assert ledger_of(path).submitted.tolist() == [1, 1, 0, 0, 0, 0, 0]


def test_a_file_that_is_replaced_while_it_is_locked_is_not_taken(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = fcntl.flock

    def replaced(file: int, how: int) -> None:
        lock(file, how)
        path.rename(path.with_suffix(".away"))

    ledger = ledger_of(path)
    monkeypatch.setattr(fcntl, "flock", replaced)
    with pytest.raises(LedgerError, match="was moved, deleted or replaced"):
        ledger.charge(1)
    monkeypatch.undo()
    assert ledger.charge(1) == 1


@pytest.mark.parametrize("content", [b"my notes", b"my notes\n", b"\0" * 50])
def test_a_file_of_another_kind_is_left_as_it_is(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(LedgerError, match="must be a journal of charges; name another file"):
        ledger_of(path)
    with pytest.raises(LedgerError, match="must be a journal of charges; name another file"):
        SubmissionJournal(path).begin("x", 3)
    assert path.read_bytes() == content


def test_a_journal_of_an_earlier_version_is_refused_with_the_remedy(path: Path) -> None:
    path.write_bytes(b"dprl submissions 2 0123abcd 3 89ef 5f1a0b2c\n1 2 1 00c0ffee\n")
    with pytest.raises(LedgerError, match=r"written by an earlier version.*finish that run .* new agents"):
        ledger_of(path)


def written(path: Path) -> bytes:
    ledger = ledger_of(path)
    for agent in (1, 2, 1, 7):
        ledger.charge(agent)
    ledger._journal.close()  # type: ignore[union-attr]
    return path.read_bytes()


def test_a_torn_last_line_is_ignored_wherever_it_is_torn(path: Path) -> None:
    whole = written(path)
    lines = whole.splitlines(keepends=True)
    before = len(whole) - len(lines[-1])
    for length in range(before, len(whole)):
        path.write_bytes(whole[:length])
        ledger = ledger_of(path)
        assert ledger.submitted.tolist() == [2, 1, 0, 0, 0, 0, 0]
        assert ledger.charge(7) == 1
        ledger._journal.close()  # type: ignore[union-attr]
        assert path.read_bytes() == whole


def test_a_torn_first_line_is_written_again(path: Path) -> None:
    whole = written(path)
    header = whole.splitlines(keepends=True)[0]
    for length in range(len(header)):
        path.write_bytes(header[:length])
        ledger = ledger_of(path)
        assert ledger.charge(1) == 1
        ledger._journal.close()  # type: ignore[union-attr]
        assert path.read_bytes().split()[:5] == header.split()[:5]
        assert ledger_of(path).submitted.tolist() == [1, 0, 0, 0, 0, 0, 0]


def test_any_other_damage_is_refused(path: Path) -> None:
    whole = written(path)
    rng = np.random.default_rng(0)
    starts = np.cumsum([0] + [len(line) for line in whole.splitlines(keepends=True)])
    for position in range(int(starts[1]), len(whole) - 1):
        damaged = bytearray(whole)
        damaged[position] ^= int(rng.integers(1, 256))
        path.write_bytes(bytes(damaged))
        with pytest.raises(LedgerError, match="is damaged in line"):
            ledger_of(path)
    for line in range(1, 4):
        path.write_bytes(whole[: starts[line]] + whole[starts[line + 1] :])
        with pytest.raises(LedgerError, match="is damaged in line"):
            ledger_of(path)


def test_a_full_disk_charges_nothing_and_leaves_the_file_whole(path: Path) -> None:
    code = f"""
import resource, signal, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from test_journal import ledger_of
from dprl.privacy import LedgerError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
ledger = ledger_of(Path({str(path)!r}))
ledger.charge(1)
size = Path({str(path)!r}).stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 5, resource.RLIM_INFINITY))
try:
    ledger.charge_all([1, 2, 4])
except LedgerError as error:
    print(error)
print(ledger.submitted.tolist(), Path({str(path)!r}).stat().st_size == size)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(ledger.charge_all([1, 2, 4]).tolist())
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    assert shown[0].startswith(f"journal {path} cannot be written (File too large); nothing is charged")
    assert shown[1:] == ["[1, 0, 0, 0, 0, 0, 0] True", "[2, 1, 1]"]
    assert ledger_of(path).submitted.tolist() == [2, 1, 0, 1, 0, 0, 0]


def test_what_cannot_be_written_charges_nothing(tmp_path: Path) -> None:
    missing = ledger_of(tmp_path / "no folder" / "submissions.txt")
    with pytest.raises(LedgerError, match=r"cannot be written \(No such file or directory\)"):
        missing.charge(1)
    assert missing.submitted.sum() == 0
    with pytest.raises(LedgerError, match="cannot be read"):
        ledger_of(tmp_path)


def test_a_journal_stays_in_its_process(path: Path) -> None:
    ledger = ledger_of(path)
    ledger.charge(1)
    journal: Any = ledger._journal
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(LedgerError, match="journal cannot be copied or pickled"):
            attempt(journal)
    child = os.fork()
    if child == 0:
        try:
            journal.write([(2, 2)])
        except LedgerError as error:
            os._exit(0 if "belongs to process" in str(error) else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert ledger_of(path).submitted.tolist() == [1, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("durable", [False, True])
def test_what_a_killed_process_was_told_is_charged(path: Path, durable: bool) -> None:
    # The process prints a line after every charge, and is killed in the middle of its work.
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from test_journal import N_AGENTS, ledger_of
ledger = ledger_of(Path({str(path)!r}), cap=10**9, durable={durable})
while True:
    ledger.charge_all([1, 2, 3, 5, 1])
    print(int(ledger.submitted[0]), flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = [int(process.stdout.readline()) for _ in range(200)]
        process.send_signal(signal.SIGKILL)
        told += [int(line) for line in process.stdout.read().splitlines() if line]
    submitted = ledger_of(path, cap=10**9).submitted
    assert submitted[0] in (told[-1], told[-1] + 1, told[-1] + 2)
    assert submitted[0] >= told[-1]
    assert ledger_of(path, cap=10**9).charge(1) == submitted[0] + 1


def test_sync_waits_for_the_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    ledger, durable = ledger_of(path), ledger_of(path.with_suffix(".durable"), durable=True)
    ledger.charge(1)
    durable.charge(1)
    monkeypatch.setattr(os, "fsync", synced.append)
    ledger.charge(1)
    assert synced == []
    durable.charge(1)
    assert len(synced) == 1
    ledger._journal.sync()  # type: ignore[union-attr]
    assert len(synced) == 2
