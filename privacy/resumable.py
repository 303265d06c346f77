"""The two halves of a privatizer in separate processes, a user's and the server's; each continues after a kill.

The user's half charges, encodes, randomizes and stores a message. The server's half receives, releases and certifies;
with noise of its own, its run ends with its process.
"""

from __future__ import annotations

import hashlib
import io
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic, NoReturn

import numpy as np

from dprl.atomic_files import append, open_regular, read_arrays, remove_leftovers, write_arrays, write_bytes
from dprl.privacy.base import LedgerError
from dprl.privacy.journal import ChargeJournal
from dprl.privacy.ledger import Ledger
from dprl.privacy.messages import Client, PrivateMessages, RangeSet, SubmissionRange
from dprl.privacy.privatizer import LOOP, Privatizer, check_sealed, sealed
from dprl.privacy.queries.base import CHARGED, RECEIVED, RELEASED, SENT, Q, advance_sent
from dprl.privacy.threat_models import SHUFFLE

_OF_ONE_SERVER = "."
_DAMAGE = (
    *(OSError, ValueError, KeyError, EOFError, SyntaxError, RuntimeError),
    *(struct.error, zipfile.BadZipFile, zlib.error),
)
"""Errors of zipfile and NumPy for damaged content."""
_MOST_LOGGED = 1000  # number of messages with local noise between two states


def run_name(planned: Privatizer[Any]) -> str:
    """Return a digest of the ledger's terms, the record and the noise, equal for both halves of a run."""
    words = f"{planned.design.terms}|{planned.query.identity}"
    return hashlib.blake2b(words.encode(), digest_size=16).hexdigest()


class UserClient(Generic[Q]):
    """The half of a privatizer on one user's device. For one thread; it shares only messages with a server.

    >>> import tempfile
    >>> from dprl.privacy import CountFamilies, CountFamily, CountPrivacy, Streams
    >>> visits = CountFamilies(1, (CountFamily("visits", 2),))
    >>> planned = CountPrivacy("ldp", 1.0).build(visits, 2, Streams(0, "an example"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     UserClient(planned, user=2, folder=Path(folder)).left
    1

    Submission k of user u has the number (k - 1) * n_users + u. It is charged in the user's own journal before its
    message exists, and the message is on the disk before it can be sent. If the process is killed before it is there,
    the submission is lost for good; later, the same bytes are sent again until the server acknowledges them.

    *Formal guarantee.* `ldp`: that of the query's law, for all submissions in this folder together, against the server
    and everyone else, who see only `submit`'s messages. `jdp`: none by itself. The message holds the raw record; the
    trusted server, the channel to it and this folder see it, so the channel must be encrypted and the server
    authenticated. Everyone else sees the server's releases, with their guarantee. The folder holds the message until
    the acknowledgement or, if a kill interrupted its writing, until the next client opens the folder. It names one
    server's process, and no other counts it: a server with fresh noise could otherwise release the record again.

    Args:
        planned: the run's privatizer, built from the config; only described here, never run.
        user: the user's number, 1..n_users, from a public list of participants; no two users have the same.
        folder: an existing folder for this user's journal and message; it outlives the process.

    `ledger`, the user's own, proves the user's epsilon without trusting a server's count of submissions.
    Raises ValueError for another number, LedgerError for a folder in use or with a damaged or another run's journal.
    """

    def __init__(self, planned: Privatizer[Q], user: int, folder: Path) -> None:
        if not 1 <= user <= planned.n_users:
            raise ValueError(f"user must lie in 1..{planned.n_users}, got {user}; give each user a number of their own")
        if planned.query.sampled:
            raise LedgerError("users of sampled rounds have no clients of their own, who would learn of the draw")
        self.user, self.run = user, run_name(planned)
        self._query, self._streams, self._n_users = planned.query, planned.streams, planned.n_users
        self._journal, self._outbox = ChargeJournal(folder / "charges"), folder / "message"
        self.ledger = Ledger(replace(planned.design, n_users=1, query=None), self._journal)
        self.ledger.begin()  # takes the lock of the folder
        if self._outbox.exists() and not self.ledger.charged:
            self.close()
            wrong = f"{folder} must hold the charge of its message, got a message without one"
            raise LedgerError(f"{wrong}; restore the file 'charges', or count the user as used up")
        remove_leftovers(folder)

    @property
    def left(self) -> int:
        """Number of submissions that the user may still make."""
        return self.ledger.design.submissions - self.ledger.charged

    @property
    def waiting(self) -> PrivateMessages | None:
        """The message that is not yet acknowledged, with its original bytes; None if there is none.

        Raises ValueError if its file is damaged.
        """
        return PrivateMessages.from_json(self._outbox.read_bytes()) if self._outbox.exists() else None

    def takes_part_in(self, server: str) -> bool:
        """Whether a server's run, `ServerPrivatizer.run`, is of this client's config."""
        name, of_one, _ = server.partition(_OF_ONE_SERVER)
        return name == self.run and bool(of_one) == self._query.noisy_sides[1]

    def submit(self, record: Any, server: str = "") -> PrivateMessages:  # noqa: ANN401 - each query has its own
        """Charge the user's next submission on the disk, then make the message of `record` and store it.

        record: a `UserRecord` for counts, float64[d] for gradients.
        server: the name of the run of the server that counts the message; under `ldp` it can be left out.
        Raises LedgerError if the server is of another run, the user has no submission left, a message waits, or the
        journal cannot be written; ValueError for a record of another shape, and nothing is charged.
        """
        self._query.check_record(record)
        if not self.takes_part_in(server or self.run):
            rule = "server must be the name of the server's run, of the same config"
            raise LedgerError(f"{rule}, got {server!r}; ask the server")
        if self.waiting is not None:
            raise LedgerError("a message waits for its acknowledgement; send it again, the server counts it once")
        if self.left < 1:
            raise LedgerError(f"user {self.user} has made all {self.ledger.charged} submissions; a lost one stays lost")
        turn, client = self.ledger.charged + 1, Client(self._query, self._streams, server or self.run)
        self.ledger.charge(turn, turn)
        number = (turn - 1) * self._n_users + self.user
        message = client.send(SubmissionRange(number, number, self._n_users, client.issuer), [record])
        write_bytes(self._outbox, message.to_json().encode(), private=True)
        return message

    def acknowledge(self, message: PrivateMessages) -> None:
        """Delete a message that the server has stored. Raises LedgerError if another one is waiting."""
        waiting = self.waiting
        if waiting is not None and waiting.first != message.first:
            rule = f"message {waiting.first} waits"
            raise LedgerError(f"{rule}, got an acknowledgement of {message.first}; keep both apart")
        self._outbox.unlink(missing_ok=True)

    def close(self) -> None:
        """Release the folder for another process."""
        self._journal.close()

    def __reduce__(self) -> NoReturn:
        # A copy would submit the same number again.
        raise LedgerError("a client cannot be copied or pickled; make one from the config where the user is")


# ---- the server ----


class _MessageLog:
    """Log of the messages after the last state: one line for each, with its position and a checksum."""

    def __init__(self, path: Path) -> None:
        self._file = io.FileIO(open_regular(path, os.O_RDWR | os.O_CREAT, 0o600), "r+")
        self._path, self._length, self.size = path, 0, 0

    def read(self) -> list[tuple[int, PrivateMessages]]:
        """Return all messages with their positions; an unfinished last line, never acknowledged, is left out."""
        self._file.seek(0)
        text, found = self._file.readall(), list[tuple[int, PrivateMessages]]()
        self._length = text.rfind(b"\n") + 1
        for line in text[: self._length].splitlines():
            checksum, position, content = (*line.split(b" ", 2), b"", b"")[:3]
            if checksum != f"{zlib.crc32(position + b' ' + content):08x}".encode():
                raise LedgerError(f"{self._path} is damaged in line {len(found) + 1}; restore it, or ask new users")
            found.append((int(position), PrivateMessages.from_json(content)))
        self.size = len(found)
        return found

    def append(self, position: int, message: PrivateMessages) -> None:
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
    disk, then charged, then counted, so a kill loses only unacknowledged messages, and their clients send them again.

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
        arrays: under `ldp` the learner's, saved before the first message and with each state; restored here in place.

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
            rule = "client and server in two processes send counts, or gradients in one pass, without a shuffler"
            raise LedgerError(f"{rule}, got {query.name} with model {planned.trust_model}; use model: ldp or jdp")
        if planned.server_noise and planned.submissions > 1:
            wrong = f"submissions must be 1 where a server adds the noise, got {planned.submissions}"
            raise LedgerError(f"{wrong}; a user could be in a sum twice, as messages come in any order")
        journal = ChargeJournal(folder / "charges")
        super().__init__(planned.design, planned.streams, journal)
        self._apply, self._arrays = apply, arrays or {}
        self._saved, self._counted, self._position = folder / "state.npz", RangeSet(), 0
        self._halfway = False
        self.ledger.begin()  # takes the lock of the folder
        # A server with noise of its own is named with its folder, as no other has its noise.
        self.run = run_name(planned) + (f"{_OF_ONE_SERVER}{journal.identity}" if self.server_noise else "")
        remove_leftovers(folder)
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

    def receive_once(self, message: PrivateMessages) -> bool:
        """Count a message unless its submission was counted before; return whether it was new.

        Acknowledge it in both cases.
        Raises LedgerError for another run's message, ValueError for values that no client sends; nothing is counted.
        After any other error, such as a full disk, nothing more is accepted or released.
        """
        self.require_whole()
        if message.issuer != self.run:
            wrong = "a message must be of this run, got another's; build client and server from one config"
            raise LedgerError(f"{wrong}, and a message for a server whose run has ended stays lost")
        if len(message) != 1 or not 1 <= message.first <= self.capacity:
            rule = f"a submission must lie in 1..{self.capacity}"
            raise ValueError(f"{rule}, got {len(message)} from {message.first}; see UserClient")
        if self._counted.first_common(message.first, message.last) is not None:
            return False
        self.query.check_message(self.channel, message.values[0])
        if self._log is not None:
            self._log.append(self._position + 1, message)
        self._count(message)
        return True

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
        if self._journal is not None:
            self._journal.close()
        if self._log is not None:
            self._log.close()

    def _count(self, message: PrivateMessages) -> None:
        self._halfway = True
        self._position += 1
        if self._position > self.charged:
            self.charge(self._position, self._position)
        self._counted.add(message.first, message.last)
        advance_sent(self.channel.cursor, self._position)
        found = self.query.receive_values(self.channel, message.values[0])
        if self._apply is not None and found is not None:
            self._apply(found)
        if self._log is not None and self._log.size >= _MOST_LOGGED:
            self._save(self._log)
        self._halfway = False

    def _save(self, log: _MessageLog) -> None:
        write_arrays(self._saved, sealed(self.run, self._state()), private=True)
        log.clear()

    def _state(self) -> dict[str, np.ndarray]:
        return {"position": np.array([self._position]), "received": self._counted.to_array(), **self._kept()}

    def _kept(self) -> dict[str, np.ndarray]:
        own = {f"own/{name}": array for name, array in self._arrays.items()}
        return own | self.query.changing(self.channel)

    def _resume(self, log: _MessageLog) -> None:
        """Continue from state and messages. Raises LedgerError if they do not match each other and the charges."""
        logged = log.read()
        if not (self.charged or logged or self._saved.exists()):
            # Otherwise the next server could start from arrays that this one changed before it failed.
            self._save(log)
        if self._saved.exists():
            try:
                state = read_arrays(self._saved)
            except _DAMAGE as error:
                wrong = f"{self._saved} is damaged"
                raise ValueError(f"{wrong}; restore the whole folder, or begin in another with new users") from error
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
        channel.cursor[[SENT, RECEIVED, RELEASED]] = self._skipped = self._position
        channel.cursor[CHARGED] = self.charged
        self.query.restored(channel)
