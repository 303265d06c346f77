"""Base of all queries: one kind of record, the message that a device makes of it, and the channel to a learner.

A channel is a NamedTuple of arrays for compiled loops: its `cursor`, which every message advances, the client's side,
the current `message`, and the server's side. Each query has its own, with kernels for both sides. In a deployment, the
network lies between the kernel that writes `message` and the one that reads it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from dprl.compiled import no_alloc_kernel
from dprl.privacy.base import Float64Array, Int64Array, LedgerError, TrustModel
from dprl.privacy.noise_design import Release
from dprl.privacy.randomness.streams import Streams
from dprl.privacy.schedule import ReleaseSchedule
from dprl.privacy.threat_models import ThreatModel

_KERNELS_ONLY = "{} are sent, received and released by the kernels of their query only"
MOST_DRAWS = 2**53
"""Maximum of numbers drawn with one key."""


class Query(ABC):
    """Description of one user's record, its message, the noise on either side, and the release that a learner reads.

    Subclasses are frozen dataclasses in `queries/`. They describe the record, the mechanism that randomizes the message
    on the client's side, and the counter that releases sums on the server's side. A trust model sets the last two.
    """

    name: ClassVar[str]
    """The kind of data: 'counts', 'gradients' or 'statistics'."""
    adds_up_messages: ClassVar[bool] = False
    """Whether a trusted server draws fresh noise for each sum of messages, wherever they come from."""
    sampled: ClassVar[bool] = False
    """Whether a trusted server draws the users of each round at random and secretly."""
    schedule: ReleaseSchedule | None = None
    """Of a server's releases, if they are not after every user."""
    assumption: str | None = None
    """Assumption on the environment or the server, for the certificate."""
    counter: Any = None
    """Of a server that releases sums, or None."""
    longest_run: int = MOST_DRAWS
    """Maximum of submissions under one key."""

    @property
    @abstractmethod
    def noisy_sides(self) -> tuple[bool, bool]:
        """Whether there is noise on (the client's side, the server's side)."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """Text that identifies record and noise, see `noise_identity`."""

    def check_run(self, n_users: int, submissions: int) -> None:
        """Raise LedgerError unless the noise accounts for n_users users with `submissions` submissions each.

        With a server that counts, or shuffled blocks, a user submits once: rows of one user would share nodes or
        blocks, and `repeat` does not account for that. Raises ValueError for more users than the noise suffices for.
        """
        if n_users * submissions > self.longest_run:
            raise ValueError(f"n_users must be at most {self.longest_run}, got {n_users}; the noise is for no more")
        most_users = self.counted_users
        if most_users is None:
            return
        if submissions > 1:
            rule = "submissions must be 1 where a server counts or users are shuffled on a schedule"
            raise LedgerError(f"{rule}, got {submissions}; use model: ldp")
        if n_users > most_users:
            raise ValueError(f"n_users must be at most {most_users}, got {n_users}; build a counter for more")

    @property
    def counted_users(self) -> int | None:
        """Number of users that fit into a noisy counter of the server, or into shuffled blocks; None without either."""
        if self.schedule is not None:
            return self.schedule.users
        return None if self.counter is None or self.counter.node is None else int(self.counter.n_items)

    def check_continued(self, charged: int) -> None:  # noqa: B027
        """Raise LedgerError if a run cannot continue after `charged` submissions that only its journal records."""

    @abstractmethod
    def events(self, entropy: str) -> tuple[Release, ...]:
        """Return the releases that one submission takes part in, described by the objects that make the noise."""

    @abstractmethod
    def threat_model(self, model: TrustModel, submissions: int) -> ThreatModel:
        """Return the threat model under a trust model, for users with `submissions` submissions each."""

    @abstractmethod
    def open(self, streams: Streams) -> Any:  # noqa: ANN401 - each query has its own
        """Return the channel of a run before the first submission, with keys from `streams`."""

    def changing(self, channel: Any) -> dict[str, np.ndarray]:  # noqa: ANN401, ARG002 - its own channel
        """Return the arrays besides the cursor that change in a run, for checkpoints."""
        return {}

    def catch_up(self, channel: Any) -> None:  # noqa: ANN401, B027
        """Release the messages that were received but not yet released, before a checkpoint or a read."""

    def restored(self, channel: Any) -> None:  # noqa: ANN401, B027
        """Recompute the arrays that follow from those of `changing`."""

    def check_record(self, record: Any) -> None:  # noqa: ANN401, B027
        """Raise ValueError for a record of another shape, without disclosing its content."""

    def send(self, channel: Any, record: Any, user: int) -> None:  # noqa: ANN401, ARG002
        """Client side: send the record of `user`, outside of a compiled loop."""
        raise TypeError(_KERNELS_ONLY.format(self.name))

    @property
    def draws_blocks(self) -> bool:
        """Whether `add_block` can draw the messages of many users at once."""
        return False

    def add_block(self, channel: Any, first: int, users: int, draw: Any, values: Any = None) -> None:  # noqa: ANN401, ARG002
        """Add the messages of many simulated users at once, drawn from the law of their sum."""
        raise TypeError(f"{self.name} are sent user by user")

    def released(self, channel: Any) -> Any:  # noqa: ANN401, ARG002
        """Server side: return the release of all messages received so far."""
        raise TypeError(_KERNELS_ONLY.format(self.name))

    @property
    def client_side(self) -> Self:
        """The same query for a client in another process, which must not open the server's noise."""
        return self

    def check_message(self, channel: Any, values: Float64Array) -> None:  # noqa: ANN401
        """Raise ValueError unless a client could have sent these values, because they come from outside."""
        if values.shape != channel.message.shape or not np.isfinite(values).all():
            rule = f"a message has {channel.message.size} finite numbers"
            raise ValueError(f"{rule}, got {values.size}; build both alike")

    def receive_values(self, channel: Any, values: Float64Array) -> Any:  # noqa: ANN401, ARG002
        """Server side: add a message from another process; return its content, None for sums that are released."""
        raise LedgerError(f"client and server in two processes send counts or gradients, got {self.name}; simulate")

    def read(self, channel: Any, messages: Float64Array, last: int) -> Any:  # noqa: ANN401, ARG002
        """Server side: return the content of messages float64[k, m] from clients in other processes.

        last: the largest number of their submissions.
        """
        raise TypeError(_KERNELS_ONLY.format(self.name))

    def check_read(self, channel: Any, messages: Float64Array, last: int) -> None:  # noqa: ANN401, B027
        """Raise LedgerError for messages that `read` cannot take; nothing has changed then."""

    def precision(self, beta: float) -> dict[str, float]:  # noqa: ARG002
        """Return error bounds of released values by family that hold together with probability 1 - beta.

        Raises TypeError if no bound is known.
        """
        raise TypeError(f"precision is known for counts only, got {self.name}")


Q = TypeVar("Q", bound=Query)


# ---- the cursor of a channel ----

CHARGED, SENT, MESSAGES, RECEIVED, RELEASED = range(5)
"""Entries of a cursor int64[5]: the last submission charged, the last one sent, the number of messages sent, the last
submission received, and the last one released."""


def new_cursor() -> Int64Array:
    """Return the cursor of a run without charges."""
    return np.zeros(5, dtype=np.int64)


@no_alloc_kernel
def advance_sent(cursor: Int64Array, submission: int) -> None:
    """Client side: raise LedgerError unless `submission` is charged and is the next one to send."""
    if submission != cursor[SENT] + 1 or submission > cursor[CHARGED]:
        raise LedgerError("users send once, in order, and after the ledger has charged them")
    cursor[SENT] = submission
    cursor[MESSAGES] += 1


def count_block(cursor: Int64Array, first: int, users: int) -> None:
    """Count `users` users from `first` on as sent and received. Raises LedgerError like `advance_sent`."""
    last = first + users - 1
    if first != cursor[SENT] + 1 or cursor[RECEIVED] != cursor[SENT] or users < 1 or last > cursor[CHARGED]:
        raise LedgerError("users send once, in order, and after the ledger has charged them")
    cursor[[SENT, RECEIVED]] = last
    cursor[MESSAGES] += users


@no_alloc_kernel
def advance_received(cursor: Int64Array) -> None:
    """Server side: raise LedgerError unless a message was sent and not yet received."""
    if cursor[RECEIVED] >= cursor[SENT]:
        raise LedgerError("a message is received once, after it was sent")
    cursor[RECEIVED] = cursor[SENT]
