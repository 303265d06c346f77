"""The user's half of a privatizer, in a separate process: it charges, encodes, randomizes and stores a message."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, NoReturn, TypeVar

from dprl.atomic_files import remove_leftovers, write_bytes
from dprl.privacy.base import LedgerError
from dprl.privacy.channel import CHARGED, SENT
from dprl.privacy.journal import ChargeJournal
from dprl.privacy.ledger import Ledger
from dprl.privacy.messages import UserMessage
from dprl.privacy.privatizer import Privatizer
from dprl.privacy.query import Query

Q = TypeVar("Q", bound=Query)
_OF_ONE_SERVER = "."


def run_name(planned: Privatizer[Any]) -> str:
    """Return a digest of the ledger's terms, the record and the noise, equal for both halves of a run."""
    words = f"{planned.design.terms}|{planned.query.identity}"
    return hashlib.blake2b(words.encode(), digest_size=16).hexdigest()


def name_of_server(planned: Privatizer[Any], folder: str) -> str:
    """Return the name of a server's run: with noise of its own also that of its `folder`, as no other has its noise."""
    return run_name(planned) + (f"{_OF_ONE_SERVER}{folder}" if planned.server_noise else "")


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

    Raises ValueError for another number, and LedgerError for a folder that another process uses, or if its journal is
    damaged or belongs to another run.
    """

    def __init__(self, planned: Privatizer[Q], user: int, folder: Path) -> None:
        if not 1 <= user <= planned.n_users:
            raise ValueError(f"user must lie in 1..{planned.n_users}, got {user}; give each user a number of their own")
        self.user, self.run = user, run_name(planned)
        self._spec, self._n_users = planned.client_spec, planned.n_users
        self._journal, self._outbox = ChargeJournal(folder / "charges"), folder / "message"
        self._ledger = Ledger(replace(planned.design, n_users=1, query=None), self._journal)
        self._ledger.begin()  # takes the lock of the folder
        if self._outbox.exists() and not self._ledger.charged:
            self.close()
            raise LedgerError(
                f"{folder} must hold the charge of its message, got a message without one; restore the file 'charges', "
                "or count the user as used up"
            )
        remove_leftovers(folder)

    @property
    def ledger(self) -> Ledger:
        """The user's own ledger, which proves the user's epsilon without trusting a server's count of submissions."""
        return self._ledger

    @property
    def left(self) -> int:
        """Number of submissions that the user may still make."""
        return self._ledger.design.submissions - self._ledger.charged

    @property
    def waiting(self) -> UserMessage | None:
        """The message that is not yet acknowledged, with its original bytes; None if there is none.

        Raises ValueError if its file is damaged.
        """
        return UserMessage.from_json(self._outbox.read_bytes()) if self._outbox.exists() else None

    @cached_property
    def _channel(self) -> Any:  # noqa: ANN401 - each query has its own
        return self._spec.query.client_side.open(self._spec.streams)

    def takes_part_in(self, server: str) -> bool:
        """Whether a server's run, `ServerPrivatizer.run`, is of this client's config."""
        name, of_one, _ = server.partition(_OF_ONE_SERVER)
        # A server that adds the noise names its folder, as the messages have none.
        return name == self.run and bool(of_one) == self._spec.query.noisy_sides[1]

    def submit(self, record: Any, server: str = "") -> UserMessage:  # noqa: ANN401 - each query has its own
        """Charge the user's next submission on the disk, then make the message of `record` and store it.

        record: a `UserRecord` for counts, float64[d] for gradients.
        server: the name of the run of the server that counts the message; under `ldp` it can be left out.

        Raises:
            LedgerError: if the server is of another run, the user has no submission left, a message waits, or the
                journal cannot be written.
            ValueError: for a record of another shape; nothing is charged.
        """
        self._spec.query.check_record(record)
        if not self.takes_part_in(server or self.run):
            raise LedgerError(
                f"server must be the name of the server's run, of the same config, got {server!r}; ask the server"
            )
        if self.waiting is not None:
            raise LedgerError("a message waits for its acknowledgement; send it again, the server counts it once")
        if self.left < 1:
            raise LedgerError(
                f"user {self.user} has made all {self._ledger.charged} submissions; a lost one stays lost"
            )
        turn, channel = self._ledger.charged + 1, self._channel
        self._ledger.charge(turn, turn)
        number = (turn - 1) * self._n_users + self.user
        channel.cursor[[CHARGED, SENT]] = number, number - 1
        self._spec.query.client_side.send(channel, record, number)
        message = UserMessage(number, channel.message, server or self.run)
        write_bytes(self._outbox, message.to_json().encode(), private=True)
        return message

    def acknowledge(self, message: UserMessage) -> None:
        """Delete a message that the server has stored. Raises LedgerError if another one is waiting."""
        waiting = self.waiting
        if waiting is not None and waiting.user != message.user:
            raise LedgerError(
                f"message {waiting.user} waits, got an acknowledgement of {message.user}; keep both apart"
            )
        self._outbox.unlink(missing_ok=True)

    def close(self) -> None:
        """Release the folder for another process."""
        self._journal.close()

    def __reduce__(self) -> NoReturn:
        # A copy would submit the same number again.
        raise LedgerError("a client cannot be copied or pickled; make one from the config where the user is")
