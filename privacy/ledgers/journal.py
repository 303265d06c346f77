"""A journal of charges in a file of its own, outside of any checkpoint: what was charged once stays charged.

One line of text for each range of consecutive agents that are charged for the same number of theirs, with a checksum
that continues the checksum of the line before. What `write` has returned from is with the operating system: it survives
a kill. With `durable` it is on the disk: it survives a loss of power.
"""

from __future__ import annotations

import fcntl
import io
import os
import secrets
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Lock
from typing import NoReturn

from dprl.privacy.base import LedgerError
from dprl.privacy.ledgers.ranges import RangeSet

_KIND = "dprl charges 3"
_EARLIER_KIND = b"dprl submissions "


class SubmissionJournal:
    """Implements `submissions.Journal`. Only one process writes at a time; others are refused, or read.

    A last line that was not finished is ignored: what it was to say has not been released. Anything else that is not
    as it was written is refused, and nothing is written to a file that is no longer at its path. A copy of the file, or
    an older one that was put back, cannot be told from it.

    Args:
        path: of the file; made by the first charge, in a folder that exists.
        durable: whether every charge waits for the disk.
        identity: of the file, if it is known; None for any. A file of another one is refused.
    """

    def __init__(self, path: str | Path, *, durable: bool = False, identity: str | None = None) -> None:
        self.path = Path(path)
        self._durable = durable
        self._identity, self._identified = identity or secrets.token_hex(16), identity is not None
        self._file: io.FileIO | None = None
        self._owner = 0
        self._length = 0
        self._checksum = 0
        self._n_agents = 0
        self._lock = Lock()

    @property
    def identity(self) -> str:
        """A random name of the file, written in its first line; before there is a file, the one it will have."""
        return self._identity

    def recorded(self, terms: str, n_agents: int) -> RangeSet:
        """Return the submissions that are written; none if there is no file.

        Raises LedgerError if it was written for other terms, is another file, or is not as it was written.
        """
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return RangeSet()
        except OSError as error:
            raise self._refusal("read", error) from error
        return self._read(text, terms, n_agents)[0]

    def begin(self, terms: str, n_agents: int) -> RangeSet:
        """Take the file for writing and return what is recorded.

        Raises LedgerError if another run writes it, or it cannot be written.
        """
        with self._lock:
            if self._file is not None:
                raise LedgerError(f"journal {self.path} is written by a ledger of this run already; give each its own")
            file = self._taken()
            try:
                charged, length, checksum = self._read(file.readall(), terms, n_agents)
                if length == 0:
                    header = _line(f"{_KIND} {terms} {n_agents} {self._identity}", 0)
                    file.truncate(0)
                    file.seek(0)
                    _write(file, header)
                    length, checksum = len(header), zlib.crc32(header)
                    self._flush_new(file)
                file.truncate(length)
                file.seek(length)
            except OSError as error:
                file.close()
                raise self._refusal("written", error) from error
            except LedgerError:
                file.close()
                raise
            self._file, self._owner, self._length, self._checksum = file, os.getpid(), length, checksum
            self._n_agents = n_agents
            return charged

    def write(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Write that submissions first..last of each range are charged, and flush.

        Raises LedgerError, with the file as it was before, if not all of it is written.
        """
        with self._lock:
            file = self._open_file()
            self._require_in_place(file)
            text, checksum = _lines(ranges, self._n_agents, self._checksum)
            try:
                _write(file, text)
                if self._durable:
                    os.fsync(file.fileno())
            except OSError as error:
                self._undo(file)
                raise self._refusal("written", error) from error
            self._length += len(text)
            self._checksum = checksum

    def sync(self) -> None:
        """Wait until all that was written is on the disk."""
        with self._lock:
            if self._file is not None:
                try:
                    os.fsync(self._file.fileno())
                except OSError as error:
                    raise self._refusal("written", error) from error

    def close(self) -> None:
        """Let others write; this one must begin anew."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None

    def __reduce__(self) -> NoReturn:
        # Two writers would charge the same numbers.
        raise LedgerError("a journal cannot be copied or pickled; open it where the ledger is")

    def _open_file(self) -> io.FileIO:
        if self._file is None:
            raise LedgerError(f"journal {self.path} is not open for writing; let the ledger begin")
        if self._owner != os.getpid():
            raise LedgerError(f"journal {self.path} belongs to process {self._owner}; charge there")
        return self._file

    def _taken(self) -> io.FileIO:
        """Return the file, open and locked."""
        try:
            file = io.FileIO(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+")
        except OSError as error:
            raise self._refusal("written", error) from error
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.close()
            raise LedgerError(
                f"journal {self.path} is in use by another run; wait until it ends, or give this one its own journal"
            ) from error
        except OSError as error:
            file.close()
            raise self._refusal("locked", error) from error
        try:
            self._require_in_place(file)
        except LedgerError:
            file.close()
            raise
        return file

    def _require_in_place(self, file: io.FileIO) -> None:
        """Raise LedgerError unless `file` is what others find at the path; the lock would not keep them off it."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            found = None
        except OSError as error:
            raise self._refusal("found", error) from error
        ours = os.fstat(file.fileno())
        if found is None or (found.st_dev, found.st_ino) != (ours.st_dev, ours.st_ino):
            raise LedgerError(
                f"journal {self.path} was moved, deleted or replaced while it was in use; nothing is charged: "
                "put it back and go on, or start a run with new agents"
            )

    def _undo(self, file: io.FileIO) -> None:
        """Take back what a failed write has left; where that fails, too, nothing more is written."""
        try:
            file.truncate(self._length)
            file.seek(self._length)
        except OSError:
            file.close()
            self._file = None

    def _flush_new(self, file: io.FileIO) -> None:
        """Wait until the new file, and its name, are on the disk."""
        os.fsync(file.fileno())
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _read(self, text: bytes, terms: str, n_agents: int) -> tuple[RangeSet, int, int]:
        """Return what is recorded, how many bytes of it are whole lines, and the checksum of the last one."""
        charged = RangeSet()
        length = text.rfind(b"\n") + 1
        if length == 0:
            if not f"{_KIND} ".encode().startswith(text[: len(_KIND) + 1]):
                raise self._foreign(text)
            return charged, 0, 0
        lines = text[:length].splitlines(keepends=True)
        self._check_header(lines[0], terms, n_agents)
        checksum = zlib.crc32(lines[0])
        for number, line in enumerate(lines[1:], start=2):
            run = _parsed(line, checksum, n_agents)
            if run is None:
                raise LedgerError(
                    f"journal {self.path} is damaged in line {number}; restore it, or count its agents as used up"
                )
            first, last, turn = run
            # An agent's earlier submissions were charged before this one.
            for r in reversed(range(turn)):
                if charged.covers(r * n_agents + first, r * n_agents + last):
                    break
                charged.add(r * n_agents + first, r * n_agents + last)
            checksum = zlib.crc32(line)
        return charged, length, checksum

    def _check_header(self, line: bytes, terms: str, n_agents: int) -> None:
        """Check the first line, and take the file's identity from it."""
        if not line.startswith(f"{_KIND} ".encode()):
            raise self._foreign(line)
        identity = line.split(b" ")[-2].decode("ascii", errors="replace")
        if line != _line(f"{_KIND} {terms} {n_agents} {identity}", 0):
            raise LedgerError(
                f"journal {self.path} must be of the same releases, neighbours, cap and agents as this run; "
                "go on with the same settings, or start a new journal for new agents"
            )
        if self._identified and identity != self._identity:
            raise LedgerError(
                f"journal {self.path} must be the one that this run began, got another one: nobody knows who was "
                "asked; bring it back, or start a run with new agents"
            )
        self._identity, self._identified = identity, True

    def _foreign(self, text: bytes) -> LedgerError:
        """Return the error for a file that is no journal of this version."""
        if text.startswith(_EARLIER_KIND):
            return LedgerError(
                f"journal {self.path} was written by an earlier version, which names releases in another way; finish "
                "that run with that version, or start a new journal for new agents"
            )
        return LedgerError(f"journal {self.path} must be a journal of charges; name another file")

    def _refusal(self, done: str, error: OSError) -> LedgerError:
        return LedgerError(
            f"journal {self.path} cannot be {done} ({error.strerror}); nothing is charged: mend that and go on"
        )


def _write(file: io.FileIO, text: bytes) -> None:
    """Write all of `text`, which the system may take in parts."""
    rest = memoryview(text)
    while rest:
        written = file.write(rest)
        if not written:
            raise OSError(0, "nothing was taken")
        rest = rest[written:]


def _line(content: str, checksum: int) -> bytes:
    """Return a line, whose checksum goes on from the one before."""
    text = content.encode()
    return text + f" {zlib.crc32(text, checksum):08x}\n".encode()


def _lines(ranges: Iterable[tuple[int, int]], n_agents: int, checksum: int) -> tuple[bytes, int]:
    """Return the lines of a charge and the last checksum."""
    found = []
    for first, last in ranges:
        for start, stop, number in _rounds(first, last, n_agents):
            found.append(_line(f"{start} {stop} {number}", checksum))
            checksum = zlib.crc32(found[-1])
    return b"".join(found), checksum


def _rounds(first: int, last: int, n_agents: int) -> Iterator[tuple[int, int, int]]:
    """Yield (first agent, last agent, number) of submissions first..last: an agent is there once in each."""
    while first <= last:
        number, agent = divmod(first - 1, n_agents)
        stop = min(last, (number + 1) * n_agents)
        yield agent + 1, stop - number * n_agents, number + 1
        first = stop + 1


def _parsed(line: bytes, checksum: int, n_agents: int) -> tuple[int, int, int] | None:
    """Return (first agent, last agent, number) of a line, None if it is not as it was written."""
    content, _, _ = line.rpartition(b" ")
    try:
        text = content.decode("ascii")
        first, last, number = (int(part) for part in text.split(" "))
    except ValueError:
        return None
    if line != _line(text, checksum) or not 1 <= first <= last <= n_agents or number < 1:
        return None
    return first, last, number
