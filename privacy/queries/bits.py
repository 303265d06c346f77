"""One randomised bit from every user: the query, its kernels and its trust models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from dprl.compiled import no_alloc_kernel
from dprl.privacy.base import Float64Array, Int64Array, TrustModel
from dprl.privacy.channel import SENT, advance_received, advance_sent, new_cursor
from dprl.privacy.ledger import ReleaseEvent
from dprl.privacy.mechanisms.base import Noise, Sensitivity
from dprl.privacy.mechanisms.randomized_response import RandomizedResponse, fill_responses
from dprl.privacy.mechanisms.sampling import SILENT
from dprl.privacy.query import Query
from dprl.privacy.randomness.streams import Streams, noise_identity
from dprl.privacy.threat_models import THREAT_MODELS, ThreatModel

_ONE_BIT = Sensitivity.of_cells(1)


class BitChannel(NamedTuple):
    """The channel of bits.

    cursor int64[5]; noise: key and table of the coins, the table empty for bits that are sent without noise; bit
    float64[1]: workspace; message float64[1]: the bit under way.
    """

    cursor: Int64Array
    noise: Noise
    bit: Float64Array
    message: Float64Array

    def __repr__(self) -> str:
        # The generated one would print a user's bit into a log.
        return f"BitChannel({self.cursor[SENT]} users sent)"


@no_alloc_kernel
def send_bit(channel: BitChannel, bit: int, user: int) -> None:
    """Client side: send the bit of `user` (from 1 on), 1 for 1 and 0 for anything else.

    Raises LedgerError unless the user is charged and is the next one who has not sent yet.

    *Formal guarantee.* (epsilon, 0)-LDP, exactly: see RandomizedResponse. Nothing else leaves the user's side here.
    """
    advance_sent(channel.cursor, user)
    channel.bit[0] = 1.0 if bit == 1 else 0.0
    if channel.noise.table.shape[0] == 0:
        channel.message[0] = channel.bit[0]
    else:
        fill_responses(channel.message, channel.bit, channel.noise.key, np.uint64(user), channel.noise.table)


@no_alloc_kernel
def receive_bit(channel: BitChannel) -> int:
    """Server side: return the bit under way, 0 or 1. Raises LedgerError unless there is one. Post-processing."""
    advance_received(channel.cursor)
    return int(channel.message[0])


@dataclass(frozen=True)
class BitQuery(Query):
    """One bit of every user.

    *Formal guarantee.* With a law every user's bit is (epsilon, 0)-LDP, for any two trajectories.

    Args:
        law: randomises the bit; None sends it without noise, under trust model none.
    """

    law: RandomizedResponse | None = None
    name: ClassVar[str] = "bits"

    @property
    def truth(self) -> float:
        """The probability that a bit is sent as it is."""
        return 1.0 if self.law is None else self.law.truth

    @property
    def gain(self) -> float:
        """tanh(epsilon / 2) = 2 truth - 1: how much more often a bit is sent as it is than flipped."""
        return 1.0 if self.law is None else self.law.gain

    @property
    def noisy_sides(self) -> tuple[bool, bool]:
        """Whether there is noise on (the client's side, the server's side)."""
        return self.law is not None, False

    @property
    def identity(self) -> str:
        """Text that identifies the law."""
        return f"bits|{noise_identity(self.law)}"

    def events(self, entropy: str) -> tuple[ReleaseEvent, ...]:
        """Return the release of the bit."""
        if self.law is None:
            return (ReleaseEvent.without_noise("bit", 1, entropy),)
        return (ReleaseEvent("bit", self.law, _ONE_BIT, _ONE_BIT, True, 1, 1, entropy),)

    def threat_model(self, model: TrustModel, submissions: int) -> ThreatModel:
        """Return the threat model."""
        del submissions
        return THREAT_MODELS["bits", model]

    def open(self, streams: Streams) -> BitChannel:
        """Return the channel before the first user."""
        table = SILENT.table if self.law is None else self.law.table()
        noise = SILENT._replace(key=streams.key("user_coins", self.identity), table=table)
        return BitChannel(new_cursor(), noise, np.zeros(1), np.zeros(1))
