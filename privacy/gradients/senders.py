"""The user's side of gradients that come from other processes: what a worker is told, and what it sends."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np

from dprl.privacy.base import Float64Array, LedgerError
from dprl.privacy.gradients.channels import ScoreNoise, send_all
from dprl.privacy.gradients.leases import Lease, PrivateMessages, issue_private_messages
from dprl.privacy.ledgers.ranges import RangeSet
from dprl.privacy.mechanisms.gradients import VectorMechanism
from dprl.privacy.mechanisms.randomized_response import RandomizedResponse
from dprl.privacy.mechanisms.vectors import RawVector, VectorNoise
from dprl.privacy.randomness.streams import Streams, noise_identity


@dataclass(frozen=True)
class Randomisers:
    """What an agent sends: the gradient through `mechanism` and, unless `response` is None, a bit on its score.

    Args:
        mechanism: of the gradient; RawVector sends it without noise. response: of the bit 1[score >= target_score].
    """

    mechanism: VectorMechanism | RawVector
    response: RandomizedResponse | None = None
    target_score: float = math.inf

    @property
    def message_length(self) -> int:
        """How many numbers an agent sends, whatever the data."""
        return self.mechanism.message_length + (self.response is not None)

    def noise(self, streams: Streams) -> tuple[VectorNoise, ScoreNoise]:
        """Return what the kernels need: with entropy `seed` the same every time, with `os` other keys every time."""
        # What else is drawn from the same streams, with another scale for instance, must not be from the same bits.
        purpose = f"gradients|{noise_identity(self.mechanism, self.response, self.target_score)}"
        table = np.zeros(0, dtype=np.uint64) if self.response is None else self.response.table()
        score = ScoreNoise(streams.key("user_coins", purpose), table, self.target_score, np.zeros(1))
        return self.mechanism.vector_noise(streams.key("user_noise", purpose)), score


@dataclass(frozen=True)
class SenderSpec:
    """What a worker needs to send messages; it can be pickled, as it holds no key from the operating system.

    Args:
        randomisers: what is sent. streams: with entropy `seed` they give every sender the same keys, and submissions
            are numbered; with `os` every sender takes keys of its own.
        issuer: the privatizer that accepts the messages.
    """

    randomisers: Randomisers
    streams: Streams
    issuer: str = field(repr=False)


class GradientSender:
    """The user's side of agents that live in this process: turns their gradients into messages. For one thread.

    *Formal guarantee.* Every message is that of `spec.randomisers` for its submission. A submission is sent once from
    here; hand every part of a lease to one sender. With entropy `seed` a second sender of the same submission draws the
    same noise; with `os` keys are taken here, and a process that is forked from this one does not have them.

    Args:
        spec: the privatizer's `sender_spec`.
    """

    def __init__(self, spec: SenderSpec) -> None:
        self.spec = spec
        self._noise, self._score = spec.randomisers.noise(spec.streams)
        self._sent = RangeSet()

    def send(self, lease: Lease, gradients: Float64Array, scores: Float64Array | None = None) -> PrivateMessages:
        """Return the messages of a lease's submissions for gradients float64[k, d] and, if a bit is sent, scores [k].

        Raises:
            LedgerError: if one of them was sent here before, the lease is another privatizer's, or this process was
                forked from the one that took the keys.
            ValueError: for arrays of another shape, which is no secret; what is in them is not told.
        """
        given, reached = self._checked(gradients, scores, len(lease))
        if lease.seal.issuer != self.spec.issuer:
            raise LedgerError("a lease is used by the senders of the privatizer that issued it")
        again = self._sent.first_common(lease.first, lease.last)
        if again is not None:
            raise LedgerError(f"submission {again} was sent already; a message that was lost takes a new number")
        self._sent.add(lease.first, lease.last)
        values = np.empty((len(lease), self.spec.randomisers.message_length))
        send_all(values, given, reached, self._noise, self._score, lease.first)
        return issue_private_messages(self.spec.issuer, lease.first, values)

    def __reduce__(self) -> NoReturn:
        # A copy would send other data under the same noise.
        raise LedgerError("a sender cannot be copied or pickled; make one from the spec in each process")

    def _checked(
        self, gradients: Float64Array, scores: Float64Array | None, n: int
    ) -> tuple[Float64Array, Float64Array]:
        expected = (n, self.spec.randomisers.mechanism.dimension)
        given = np.ascontiguousarray(gradients, dtype=np.float64)
        if given.shape != expected:
            raise ValueError(f"gradients must have shape {expected}, got {given.shape}; one row for each submission")
        if self.spec.randomisers.response is None:
            return given, np.zeros(n)
        if scores is None:
            raise ValueError(f"scores must have shape ({n},), got none; one for each submission")
        reached = np.ascontiguousarray(scores, dtype=np.float64)
        if reached.shape != (n,):
            raise ValueError(f"scores must have shape ({n},), got {reached.shape}; one for each submission")
        return given, reached
