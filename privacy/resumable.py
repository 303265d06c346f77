"""The server's half of a privatizer, in a separate process: under `ldp` it continues after a kill at any moment."""

from __future__ import annotations

import io
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np

from dprl.atomic_files import append, open_regular, remove_leftovers, write_arrays
from dprl.privacy.base import LedgerError
from dprl.privacy.channel import CHARGED, RECEIVED, RELEASED, SENT, advance_sent
from dprl.privacy.checkpoints import check_sealed, sealed
from dprl.privacy.client import name_of_server
from dprl.privacy.journal import ChargeJournal
from dprl.privacy.messages import RangeSet, UserMessage
from dprl.privacy.privatizer import LOOP, Privatizer
from dprl.privacy.query import Query
from dprl.privacy.threat_models import SHUFFLE

Q = TypeVar("Q", bound=Query)
_MOST_LOGGED = 1000
"""Number of messages with local noise between two states."""


class _MessageLog:
    """Log of the messages after the last state: one line for each, with its position and a checksum."""

    def __init__(self, path: Path) -> None:
        self._file = io.FileIO(open_regular(path, os.O_RDWR | os.O_CREAT, 0o600), "r+")
        self._path, self._length, self.size = path, 0, 0

    def read(self) -> list[tuple[int, UserMessage]]:
        """Return all messages with their positions; an unfinished last line, never acknowledged, is left out."""
        self._file.seek(0)
        text, found = self._file.readall(), list[tuple[int, UserMessage]]()
        self._length = text.rfind(b"\n") + 1
        for line in text[: self._length].splitlines():
            checksum, position, content = (*line.split(b" ", 2), b"", b"")[:3]
            if checksum != f"{zlib.crc32(position + b' ' + content):08x}".encode():
                raise LedgerError(f"{self._path} is damaged in line {len(found) + 1}; restore it, or ask new users")
            found.append((int(position), UserMessage.from_json(content)))
        self.size = len(found)
        return found

    def append(self, position: int, message: UserMessage) -> None:
        """Add a message and wait for the disk. Raises LedgerError, with the log as before, if that fails."""
        text = f"{position} {message.to_json()}".encode()
        line = f"{zlib.crc32(text):08x} ".encode() + text + b"\n"
        try:
            append(self._file, self._length, line)
        except OSError as error:
            raise LedgerError(f"{self._path} cannot be written ({error.strerror}); nothing is counted") from error
        self._length, self.size = self._length + len(line), self.size + 1

    def clear(self) -> None:
        """Remove all messages."""
        self._file.truncate(0)
        os.fsync(self._file.fileno())
        self._length, self.size = 0, 0

    def close(self) -> None:
        self._file.close()


class ServerPrivatizer(Privatizer[Q]):
    """The half of a privatizer that receives, releases on schedule and certifies. For one thread.

    Messages come from `UserClient`s in any order and any number of times; each submission is counted once. They get
    positions 1, 2, ... as they arrive; ledger and counter count positions. Under `ldp` a message is written to the
    disk, then charged, then counted, so a kill loses only messages that were not acknowledged, and their clients send
    them again.

    >>> import tempfile
    >>> from dprl.privacy import CountFamilies, CountFamily, CountPrivacy, Streams, UserClient, UserRecord
    >>> visits = CountFamilies(1, (CountFamily("visits", 2),))
    >>> planned = CountPrivacy("ldp", 1e6, mechanism="laplace").build(visits, 2, Streams(0, "an example"))
    >>> with tempfile.TemporaryDirectory() as at_server, tempfile.TemporaryDirectory() as at_user:
    ...     server, user = ServerPrivatizer(planned, Path(at_server)), UserClient(planned, 1, Path(at_user))
    ...     message = user.submit(UserRecord(np.array([[1]]), np.ones((1, 1))))
    ...     server.receive_once(message), server.receive_once(message), server.release().values.round(3).tolist()
    (True, False, [0.0, 1.0])

    *Formal guarantee.* That of the query. `ldp`: messages have their noise, and all else is post-processing. `jdp`: the
    keys of the noise are lost with the process, so its run ends with it: the folder holds charges and no record, and a
    new server on it is refused. Users stay charged, and messages name the folder, so that no server in another folder
    counts one that this server may have counted.

    Args:
        planned: the run's privatizer, built from the config; only described here, never run.
        folder: an existing folder for charges, and under `ldp` messages and state; it outlives the process.
        apply: called with the content of each message in order (gradients). It may change `arrays` only: content that
            is not yet on the disk must not leave the process, nor may `arrays` after `receive_once` raised an error.
        arrays: under `ldp` the learner's arrays, saved before the first message and with each state; restored here in
            place.

    Raises LedgerError for queries that cannot be split in two halves, for a folder that another process uses or that
    lacks a part, and under `jdp` for one with charges; ValueError for a damaged state or another run's.
    """

    def __init__(
        self,
        planned: Privatizer[Q],
        folder: Path,
        apply: Callable[[Any], object] | None = None,
        arrays: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        query = planned.query
        split = query.name in ("counts", "gradients") and not getattr(query, "sampled", False)
        if planned.trust_model == SHUFFLE or not split:
            raise LedgerError(
                f"client and server in two processes send counts, or gradients in one pass, without a shuffler, got "
                f"{query.name} with model {planned.trust_model}; use model: ldp or jdp"
            )
        if planned.server_noise and planned.submissions > 1:
            raise LedgerError(
                f"submissions must be 1 where a server adds the noise, got {planned.submissions}; a user could be in a "
                "sum twice, as messages come in any order"
            )
        journal = ChargeJournal(folder / "charges")
        streams = planned.client_spec.streams
        super().__init__(planned.design, streams, journal)
        self._apply, self._arrays = apply, arrays or {}
        self._saved, self._counted, self._position = folder / "state.npz", RangeSet(), 0
        self._halfway = False
        self.ledger.begin()  # takes the lock of the folder
        self.run = name_of_server(planned, journal.identity)
        remove_leftovers(folder)
        self._file = journal
        self._log = None if self.server_noise else _MessageLog(folder / "messages")
        try:
            if self._log is not None:
                self._resume(self._log)
            elif self.charged:
                raise LedgerError(
                    f"{folder} must have no charges where a server adds the noise, got {self.charged}: the keys of the "
                    "noise ended with its process; begin in another folder with new users, or use model: ldp"
                )
            else:
                self._take(LOOP)
        except (LedgerError, ValueError):
            self.close()
            raise

    def receive_once(self, message: UserMessage) -> bool:
        """Count a message unless its submission was counted before; return whether it was new.

        Acknowledge it in both cases.

        Raises LedgerError for another run's message, ValueError for values that no client sends; nothing is counted.
        After any other error, such as a full disk, nothing more is accepted or released.
        """
        self.require_whole()
        if message.issuer != self.run:
            raise LedgerError(
                "a message must be of this run, got another's; build client and server from one config, and a message "
                "for a server whose run has ended stays lost"
            )
        if not 1 <= message.user <= self.capacity:
            raise ValueError(f"a submission must lie in 1..{self.capacity}, got {message.user}; see UserClient")
        if self._counted.first_common(message.user, message.user) is not None:
            return False
        self.query.check_message(self.channel, message.values)
        if self._log is not None:
            self._log.append(self._position + 1, message)
        self._count(message)
        return True

    def send(self, record: Any, user: int) -> NoReturn:  # noqa: ANN401, ARG002
        """Raise LedgerError, because a server has no records of users."""
        raise LedgerError("a server has no users' records; send with a UserClient where the user is")

    def release(self) -> Any:  # noqa: ANN401 - each query has its own
        """Return the release of all messages received so far. Raises LedgerError after an interrupted count."""
        self.require_whole()
        return super().release()

    def require_whole(self) -> None:
        """Raise LedgerError after an interrupted count: under `ldp`, a restart counts its message again.

        Call this before publishing `arrays`; `release` does.
        """
        if self._halfway:
            again = "begin in another folder with new users" if self.server_noise else "open a new server on the folder"
            raise LedgerError(f"a message must be counted and saved, got an error; {again}")

    def close(self) -> None:
        """Release the folder for another process."""
        self._file.close()
        if self._log is not None:
            self._log.close()

    def _count(self, message: UserMessage) -> None:
        self._halfway = True
        self._position += 1
        if self._position > self.charged:
            self.charge(self._position, self._position)
        self._counted.add(message.user, message.user)
        advance_sent(self.channel.cursor, self._position)
        found = self.query.receive_values(self.channel, message.values)
        if self._apply is not None and found is not None:
            self._apply(found)
        if self._log is not None and self._log.size >= _MOST_LOGGED:
            self._save(self._log)
        self._halfway = False

    def _save(self, log: _MessageLog) -> None:
        """Write the state in place of the messages before it."""
        write_arrays(self._saved, sealed(self.run, self._state()), private=True)
        log.clear()

    def _state(self) -> dict[str, np.ndarray]:
        return {"position": np.array([self._position]), "received": self._counted.to_array(), **self._kept()}

    def _kept(self) -> dict[str, np.ndarray]:
        """Return the arrays that a restarted server needs."""
        own = {f"own/{name}": array for name, array in self._arrays.items()}
        return own | self.query.changing(self.channel)

    def _resume(self, log: _MessageLog) -> None:
        """Continue from state and messages. Raises LedgerError if they do not match each other and the charges."""
        logged = log.read()
        if not (self.charged or logged or self._saved.exists()):
            # Otherwise the next server could start from arrays that this one changed before it failed.
            self._save(log)
        if self._saved.exists():
            state = _read_arrays(self._saved)
            check_sealed(state, sealed(self.run, self._state()), self.run)
            self._position, self._counted = int(state["position"][0]), RangeSet.from_array(state["received"])
            for name, array in self._kept().items():
                array[:] = state[name]
        messages = [(position, message) for position, message in logged if position > self._position]
        last = self._position + len(messages)
        in_order = [position for position, _ in messages] == list(range(self._position + 1, last + 1))
        if not (self._saved.exists() and in_order and last - 1 <= self.charged <= last):
            raise LedgerError(
                f"{self._saved.parent} must hold charges, messages and state of one moment, got {self.charged} charges "
                f"and messages up to {last}; restore all three, or begin in another folder with new users"
            )
        self._take(LOOP)
        for _, message in messages:
            self._count(message)

    def _skip(self, channel: Any) -> None:  # noqa: ANN401
        """Continue from the state."""
        channel.cursor[[SENT, RECEIVED, RELEASED]] = self._skipped = self._position
        channel.cursor[CHARGED] = self.charged
        self.query.restored(channel)


_DAMAGE = (
    *(OSError, ValueError, KeyError, EOFError, SyntaxError, RuntimeError),
    *(struct.error, zipfile.BadZipFile, zlib.error),
)
"""Errors of zipfile and NumPy for damaged content."""


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of a .npz file. Raises ValueError for a damaged one, OSError for one that cannot be read."""
    content = path.read_bytes()
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            return dict(file)
    except _DAMAGE as error:
        raise ValueError(f"{path} is damaged; restore the whole folder, or begin in another with new users") from error
