"""Journal of charges: a file outside of any checkpoint that survives the end of a process.

The first line names the releases. Then there is one line for each attempt and one for each charged range of
submissions, each with a checksum that continues the checksum of the line before. When `write` returns, a charge is on
the disk, and survives a kill and a loss of power.
"""

from __future__ import annotations

import fcntl
import io
import os
import secrets
import zlib
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import NamedTuple, NoReturn

from dprl.atomic_files import append, flush_folder, open_regular, read_regular
from dprl.privacy.base import LedgerError

_KIND = "dprl charges 3"
_EARLIER_KIND = b"dprl submissions "
_ATTEMPT = "attempt"


class _Content(NamedTuple):
    """Content of a journal: charges by attempt, the length of its complete lines, and the last checksum."""

    attempts: list[int]
    length: int
    checksum: int


def charging_attempts(path: Path) -> int:
    """Return the number of attempts with charges in a journal, whatever its terms; 0 without a file.

    Raises LedgerError if it cannot be read.
    """
    try:
        text = read_regular(path)
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise LedgerError(f"journal {path} must be one that can be read, got '{error.strerror}'; free it") from error
    begins = [line.startswith(_ATTEMPT.encode()) for line in text[: text.rfind(b"\n") + 1].splitlines()]
    return sum(begun and not begins_again for begun, begins_again in pairwise(begins))


class ChargeJournal:
    """Charges in a file that survives a crash. One process writes at a time; others may only read.

    An unfinished last line is ignored, because its submissions were not released. Any other damage is refused, and
    nothing is written to a file that is no longer at its path. A copy or a restored older version cannot be detected.

    Args:
        path: of the file; made by the first charge, in an existing folder.
        identity: of the file, a random name in its first line; a file with another one is refused. None for any, or, if
            there is no file, for a new name.
        continues: whether a run continues the last attempt and asks no user again. Otherwise it begins a new attempt
            with fresh noise, which may ask the users of earlier attempts again.
    """

    def __init__(self, path: str | Path, *, identity: str | None = None, continues: bool = True) -> None:
        self.path = Path(path)
        self._continues = continues
        self.identity, self._identified = identity or secrets.token_hex(16), identity is not None
        self._file: io.FileIO | None = None
        self._owner = 0
        self._length = 0
        self._checksum = 0
        self._lock = Lock()

    def recorded(self, terms: str, users: int) -> list[int]:
        """Return the number of submissions that each attempt has charged, the current one last; [0] without a file.

        Raises LedgerError if it was written for other terms, is another file, or is damaged.
        """
        try:
            text = read_regular(self.path)
        except FileNotFoundError:
            return [0]
        except OSError as error:
            raise self._refusal("read", error) from error
        return self._charged(self._read(text, terms, users).attempts)

    def begin(self, terms: str, users: int) -> list[int]:
        """Open the file for writing and return the charges like `recorded`, because others may have written.

        Raises LedgerError if another run writes it, or it cannot be written.
        """
        with self._lock, ExitStack() as on_failure:
            if self._file is not None:
                raise LedgerError(f"journal {self.path} is written by a ledger of this run already; give each its own")
            try:
                file = io.FileIO(open_regular(self.path, os.O_RDWR | os.O_CREAT, 0o600), "r+")
            except OSError as error:
                raise self._refusal("written", error) from error
            on_failure.callback(file.close)
            try:
                fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                wrong = f"journal {self.path} is in use by another run"
                raise LedgerError(f"{wrong}; wait until it ends, or give this one another") from error
            except OSError as error:
                raise self._refusal("locked", error) from error
            self._require_in_place(file)
            try:
                found = self._read(file.readall(), terms, users)
                new = not found.attempts or not self._continues
                lines = [f"{_KIND} {terms} {users} {self.identity}"] if found.length == 0 else []
                lines += [f"{_ATTEMPT} {len(found.attempts) + 1}"] if new else []
                text, checksum = _chained(lines, found.checksum)
                append(file, found.length, text)
                if new:
                    flush_folder(self.path.parent)
            except OSError as error:
                raise self._refusal("written", error) from error
            on_failure.pop_all()
            self._file, self._owner, self._length = file, os.getpid(), found.length + len(text)
            self._checksum = checksum
            return self._charged(found.attempts)

    def write(self, first: int, last: int) -> None:
        """Write that submissions first..last are charged, and wait for the disk.

        If not all of it can be written, restores the file and raises LedgerError.
        """
        with self._lock:
            file = self._owned()
            text, checksum = _chained([f"{first} {last}"], self._checksum)
            try:
                append(file, self._length, text)
            except OSError as error:
                raise self._refusal("written", error) from error
            self._length += len(text)
            self._checksum = checksum

    def require_owned(self) -> None:
        """Raise LedgerError unless this process may write here; what was charged ahead is not given away otherwise."""
        with self._lock:
            self._owned()

    def _owned(self) -> io.FileIO:
        if self._file is None:
            raise LedgerError(f"journal {self.path} is not open for writing; let the ledger begin")
        if self._owner != os.getpid():
            raise LedgerError(f"journal {self.path} belongs to process {self._owner}; charge there")
        self._require_in_place(self._file)
        return self._file

    def close(self) -> None:
        """Let others write; this journal must `begin` again before it can."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None

    def __reduce__(self) -> NoReturn:
        # Two writers would charge the same numbers.
        raise LedgerError("a journal cannot be copied or pickled; open it where the ledger is")

    def _require_in_place(self, file: io.FileIO) -> None:
        """Raise LedgerError unless the path still leads to `file`; otherwise the lock would not exclude others."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            found = None
        except OSError as error:
            raise self._refusal("found", error) from error
        ours = os.fstat(file.fileno())
        if found is None or (found.st_dev, found.st_ino) != (ours.st_dev, ours.st_ino):
            wrong = f"journal {self.path} was moved, deleted or replaced while it was in use"
            raise LedgerError(f"{wrong}; nothing is charged: put it back and go on, or start a run with new agents")

    def _charged(self, attempts: list[int]) -> list[int]:
        """Return the charges of earlier attempts, and of the one that this journal continues or begins."""
        return attempts if self._continues and attempts else [*attempts, 0]

    def _read(self, text: bytes, terms: str, users: int) -> _Content:
        """Return a file's content, and take its identity; raise LedgerError if it is another file's, or damaged."""
        length = text.rfind(b"\n") + 1
        if length == 0:
            if not f"{_KIND} ".encode().startswith(text[: len(_KIND) + 1]):
                raise self._foreign(text)
            return _Content([], 0, 0)
        lines = text[:length].splitlines(keepends=True)
        if not lines[0].startswith(f"{_KIND} ".encode()):
            raise self._foreign(lines[0])
        identity = lines[0].split(b" ")[-2].decode("ascii", errors="replace")
        if lines[0] != _line(f"{_KIND} {terms} {users} {identity}", 0):
            wrong = f"journal {self.path} must be of the same releases, neighbours, cap and users as this run"
            raise LedgerError(f"{wrong}; go on with the same settings, or start a new journal for new agents")
        if self._identified and identity != self.identity:
            wrong = f"journal {self.path} must be the one that this run began, got another one, without its agents"
            raise LedgerError(f"{wrong}; restore it, or start a run with new agents")
        self.identity, self._identified = identity, True
        attempts: list[int] = []
        checksum = zlib.crc32(lines[0])
        # A complete line without its final newline has lost it, because unfinished lines are shorter.
        rest = text[length:-1] + b"\n" if length < len(text) else b""
        for number, line in enumerate([*lines[1:], rest], start=2):
            content = _content(line, checksum)
            if (line is not rest and not _is_next(content, attempts)) or (line is rest and content is not None):
                wrong = f"journal {self.path} is damaged in line {number}"
                raise LedgerError(f"{wrong}; restore it, or count its users as used up")
            if line is not rest:
                checksum = zlib.crc32(line)
        return _Content(attempts, length, checksum)

    def _foreign(self, text: bytes) -> LedgerError:
        """Return the error for a file that is no journal of this version."""
        if text.startswith(_EARLIER_KIND):
            return LedgerError(
                f"journal {self.path} was written by an earlier version, in another format; finish that "
                "run with that version, or start a new journal for new agents"
            )
        return LedgerError(f"journal {self.path} must be a journal of charges; name another file")

    def _refusal(self, done: str, error: OSError) -> LedgerError:
        return LedgerError(f"journal {self.path} cannot be {done} ({error.strerror}); nothing is charged: fix it")


def _line(content: str, checksum: int) -> bytes:
    """Return a line with a checksum that continues the one before."""
    text = content.encode()
    return text + f" {zlib.crc32(text, checksum):08x}\n".encode()


def _chained(contents: list[str], checksum: int) -> tuple[bytes, int]:
    """Return lines of these contents and the last checksum."""
    found = []
    for content in contents:
        found.append(_line(content, checksum))
        checksum = zlib.crc32(found[-1])
    return b"".join(found), checksum


def _content(line: bytes, checksum: int) -> list[str] | None:
    """Return the words of a line without its checksum, None if it is damaged."""
    text, _, _ = line.rpartition(b" ")
    try:
        content = text.decode("ascii")
    except ValueError:
        return None
    return content.split(" ") if content and line == _line(content, checksum) else None


def _is_next(words: list[str] | None, attempts: list[int]) -> bool:
    """Whether a line of these words may follow; adds its charges to `attempts`, the charges by attempt."""
    if words is None or len(words) != 2:
        return False
    if words == [_ATTEMPT, str(len(attempts) + 1)]:
        attempts.append(0)
        return True
    if not (attempts and words[0].isdecimal() and words[1].isdecimal()):
        return False
    first, last = int(words[0]), int(words[1])
    if first != attempts[-1] + 1 or last < first:
        return False
    attempts[-1] = last
    return True
