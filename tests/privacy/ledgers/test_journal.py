"""The journal of charges: charges survive failures of process, disk and file."""

from __future__ import annotations

import copy
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

from dprl.privacy import LedgerError, NoiseDesign
from dprl.privacy.base import Sensitivity
from dprl.privacy.journal import ChargeJournal
from dprl.privacy.ledger import Ledger
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.noise_design import Release
from dprl.privacy.threat_models import ThreatModel

N_AGENTS, CAP = 7, 1000
AGENTS = ThreatModel("an agent", "replace its messages", "the server", ("messages",), ("time",), "an agent")


def ledger_of(path: Path, cap: int = CAP, scale: float = 4.0, users: int = N_AGENTS, **settings: Any) -> Ledger:
    release = Release("x", Laplace(scale), Sensitivity.of_cells(4), True, 8, "os")
    return Ledger(NoiseDesign("ldp", (release,), AGENTS, users, cap), ChargeJournal(path, **settings))


def charge(ledger: Ledger, k: int = 1) -> int:
    """Charge the next k submissions and return the last."""
    ledger.charge(ledger.charged + 1, ledger.charged + k)
    return ledger.charged


def close(ledger: Ledger) -> None:
    journal: Any = ledger._journal
    journal.close()


def identity_of(ledger: Ledger) -> str:
    journal: Any = ledger._journal
    return str(journal.identity)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "charges.journal"


def contents(path: Path) -> list[str]:
    return [line.rpartition(" ")[0] for line in path.read_text().splitlines()[1:]]


def test_charges_are_read_back_and_a_range_is_one_line(path: Path) -> None:
    ledger = ledger_of(path)
    assert not path.exists()
    for k in (4, 12, 1):
        charge(ledger, k)
    assert ledger_of(path).charged == ledger.charged == 17
    assert contents(path) == ["attempt 1", "1 4", "5 16", "17 17"]


def test_an_attempt_that_does_not_continue_asks_users_again(path: Path) -> None:
    first = ledger_of(path, cap=1, continues=False)
    assert charge(first, 5) == 5
    close(first)
    second = ledger_of(path, cap=1, continues=False)
    assert (second.charged, second.attempts, second.users_asked_again) == (0, 1, 0)
    assert charge(second, 3) == 3
    assert (second.attempts, second.users_asked_again, second.users_charged) == (2, 3, 5)
    assert second.curve.pure_epsilon == pytest.approx(2.0 * first.curve.pure_epsilon)
    assert contents(path) == ["attempt 1", "1 5", "attempt 2", "1 3"]
    close(second)
    reread = ledger_of(path, cap=1)
    assert (reread.charged, reread.attempts) == (3, 2)


def test_reading_locks_and_makes_nothing(path: Path) -> None:
    assert ledger_of(path).charged == 0
    writer = ledger_of(path)
    charge(writer)
    assert ledger_of(path).charged == 1


def test_a_second_writer_is_refused_by_name_and_nothing_is_charged(path: Path) -> None:
    writer, other = ledger_of(path), ledger_of(path)
    charge(writer)
    with pytest.raises(LedgerError, match=f"journal {path} is in use by another run"):
        charge(other)
    assert other.charged == 0
    close(writer)
    other.begin()
    assert charge(other) == 2


def test_one_journal_serves_one_ledger(path: Path) -> None:
    first = ledger_of(path)
    charge(first)
    second = Ledger(first.design, first._journal)
    with pytest.raises(LedgerError, match="is written by a ledger of this run already"):
        charge(second)


@pytest.mark.parametrize("other", [{"cap": 999}, {"scale": 3.0}, {"users": 8}])
def test_another_ledger_s_journal_is_refused(path: Path, other: dict[str, Any]) -> None:
    charge(ledger_of(path))
    with pytest.raises(LedgerError, match="must be of the same releases, neighbours, cap and users"):
        ledger_of(path, **other)


def test_a_journal_has_an_identity_of_its_own(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for where in (first, second):
        ledger = ledger_of(where)
        charge(ledger)
        close(ledger)
    one, other = (identity_of(ledger_of(where)) for where in (first, second))
    assert one != other
    assert charge(ledger_of(first, identity=one)) == 2
    with pytest.raises(LedgerError, match="must be the one that this run began, got another one"):
        ledger_of(second, identity=one)
    # Once read, the file must not be replaced.
    late = ledger_of(second)
    first.replace(second)
    with pytest.raises(LedgerError, match="must be the one that this run began, got another one"):
        charge(late)


@pytest.mark.parametrize("moved", ["away", "deleted", "replaced", "another's"])
def test_nothing_is_charged_in_a_file_that_others_do_not_find(path: Path, moved: str) -> None:
    ledger, away = ledger_of(path), path.with_suffix(".away")
    charge(ledger)
    path.rename(away)
    if moved == "deleted":
        away.unlink()
    elif moved == "replaced":
        path.write_bytes(away.read_bytes())
    elif moved == "another's":
        charge(ledger_of(path), 4)
    for _ in range(2):
        with pytest.raises(
            LedgerError, match=r"was moved, deleted or replaced while it was in use; nothing is charged"
        ):
            charge(ledger)
    assert ledger.charged == 1
    if moved != "deleted":
        away.replace(path)
        assert charge(ledger) == 2
        assert ledger_of(path).charged == 2


def test_a_file_that_is_replaced_while_it_is_locked_is_not_taken(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = fcntl.flock

    def replaced(file: int, how: int) -> None:
        lock(file, how)
        path.rename(path.with_suffix(".away"))

    ledger = ledger_of(path)
    monkeypatch.setattr(fcntl, "flock", replaced)
    with pytest.raises(LedgerError, match="was moved, deleted or replaced"):
        charge(ledger)
    monkeypatch.undo()
    assert charge(ledger) == 1


@pytest.mark.parametrize("content", [b"my notes", b"my notes\n", b"\0" * 50])
def test_a_file_of_another_kind_is_left_as_it_is(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(LedgerError, match="must be a journal of charges; name another file"):
        ledger_of(path)
    with pytest.raises(LedgerError, match="must be a journal of charges; name another file"):
        ChargeJournal(path).begin("x", 3)
    assert path.read_bytes() == content


def test_a_journal_of_an_earlier_version_is_refused_with_the_remedy(path: Path) -> None:
    path.write_bytes(b"dprl submissions 2 0123abcd 3 89ef 5f1a0b2c\n1 2 1 00c0ffee\n")
    with pytest.raises(LedgerError, match=r"written by an earlier version.*finish that run .* new agents"):
        ledger_of(path)


def written(path: Path) -> bytes:
    ledger = ledger_of(path)
    for k in (2, 1, 4):
        charge(ledger, k)
    close(ledger)
    return path.read_bytes()


def test_a_torn_last_line_is_ignored_wherever_it_is_torn(path: Path) -> None:
    whole = written(path)
    lines = whole.splitlines(keepends=True)
    before = len(whole) - len(lines[-1])
    for length in range(before, len(whole)):
        path.write_bytes(whole[:length])
        ledger = ledger_of(path)
        assert ledger.charged == 3
        assert charge(ledger, 4) == 7
        close(ledger)
        assert path.read_bytes() == whole


def test_a_torn_first_line_is_written_again(path: Path) -> None:
    whole = written(path)
    header = whole.splitlines(keepends=True)[0]
    for length in range(len(header)):
        path.write_bytes(header[:length])
        ledger = ledger_of(path)
        assert charge(ledger) == 1
        close(ledger)
        assert path.read_bytes().split()[:5] == header.split()[:5]
        assert ledger_of(path).charged == 1


def test_any_other_damage_is_refused(path: Path) -> None:
    whole = written(path)
    rng = np.random.default_rng(0)
    starts = np.cumsum([0] + [len(line) for line in whole.splitlines(keepends=True)])
    for position in range(int(starts[1]), len(whole)):
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
from test_journal import charge, ledger_of
from dprl.privacy import LedgerError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
ledger = ledger_of(Path({str(path)!r}))
charge(ledger)
size = Path({str(path)!r}).stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 5, resource.RLIM_INFINITY))
try:
    charge(ledger, 30)
except LedgerError as error:
    print(error)
print(ledger.charged, Path({str(path)!r}).stat().st_size == size)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(charge(ledger, 30))
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    assert shown[0].startswith(f"journal {path} cannot be written (File too large); nothing is charged")
    assert shown[1:] == ["1 True", "31"]
    assert ledger_of(path).charged == 31


def test_what_cannot_be_written_charges_nothing(tmp_path: Path) -> None:
    missing = ledger_of(tmp_path / "no folder" / "submissions.txt")
    with pytest.raises(LedgerError, match=r"cannot be written \(No such file or directory\)"):
        charge(missing)
    assert missing.charged == 0
    with pytest.raises(LedgerError, match="cannot be read"):
        ledger_of(tmp_path)


def test_a_journal_stays_in_its_process(path: Path) -> None:
    ledger = ledger_of(path)
    charge(ledger)
    journal: Any = ledger._journal
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(LedgerError, match="journal cannot be copied or pickled"):
            attempt(journal)
    child = os.fork()
    if child == 0:
        try:
            journal.write(2, 2)
        except LedgerError as error:
            os._exit(0 if "belongs to process" in str(error) else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert ledger_of(path).charged == 1


def test_a_killed_process_has_charged_all_that_it_printed(path: Path) -> None:
    # The process prints a line after every charge, and is killed in the middle of its work.
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from test_journal import charge, ledger_of
ledger = ledger_of(Path({str(path)!r}), cap=10**9)
while True:
    print(charge(ledger, 5), flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = [int(process.stdout.readline()) for _ in range(200)]
        process.send_signal(signal.SIGKILL)
        told += [int(line) for line in process.stdout.read().splitlines() if line]
    charged = ledger_of(path, cap=10**9).charged
    assert charged in (told[-1], told[-1] + 5)
    assert charge(ledger_of(path, cap=10**9)) == charged + 1


def test_a_charge_waits_for_the_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    ledger = ledger_of(path)
    charge(ledger)
    monkeypatch.setattr(os, "fsync", synced.append)
    charge(ledger)
    assert len(synced) == 1
