"""One randomized bit from every user: the query, its kernels and its trust models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from dprl.compiled import no_alloc_kernel
from dprl.privacy.base import Float64Array, Int64Array, LedgerError, TrustModel
from dprl.privacy.channel import RECEIVED, RELEASED, SENT, advance_received, advance_sent, new_cursor
from dprl.privacy.derivation import Step, code_of
from dprl.privacy.ledger import ReleaseEvent
from dprl.privacy.mechanisms.base import Noise, Sensitivity
from dprl.privacy.mechanisms.randomized_response import RandomizedResponse, fill_responses
from dprl.privacy.mechanisms.sampling import SILENT
from dprl.privacy.mechanisms.shuffled import ShuffledReports
from dprl.privacy.query import Query
from dprl.privacy.randomness.streams import Streams, noise_identity
from dprl.privacy.threat_models import THREAT_MODELS, ThreatModel, check_shuffled

_ONE_BIT = Sensitivity.of_cells(1)


class BitChannel(NamedTuple):
    """The channel of bits.

    cursor int64[5]; noise: key and table of the coins, an empty table for bits without noise; bit float64[1]:
    workspace; message float64[1]: the current bit; block: number of bits released together; held int64[2]: number of
    bits received since the last release, and of ones among them.
    """

    cursor: Int64Array
    noise: Noise
    bit: Float64Array
    message: Float64Array
    block: int
    held: Int64Array

    def __repr__(self) -> str:
        # The generated one would print a user's bit, or the sum of less than a block, into a log.
        return f"BitChannel({self.cursor[SENT]} users sent)"


@no_alloc_kernel
def send_bit(channel: BitChannel, bit: int, user: int) -> None:
    """Client side: send the bit of `user` (from 1 on), 1 for 1 and 0 for anything else.

    Raises LedgerError unless the user is charged and is the next one to send.

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
    """Server side: return the number of ones in the block that the current bit fills; -1 if it is not full.

    Without a shuffler a block is one bit. Raises LedgerError unless a bit was sent and not yet received.

    *Formal guarantee.* Post-processing. The number of ones in a full block does not depend on their order, and the
    server learns nothing else of them: see `ShuffledLoss`. A block is full after that many bits of its own.
    """
    advance_received(channel.cursor)
    held = channel.held
    held[0] += 1
    held[1] += int(channel.message[0])
    if held[0] < channel.block:
        return -1
    ones = int(held[1])
    held[0], held[1] = 0, 0
    channel.cursor[RELEASED] = channel.cursor[RECEIVED]
    return ones


@dataclass(frozen=True)
class BitQuery(Query):
    """One bit of every user.

    *Formal guarantee.* With a law every user's bit is (epsilon, 0)-LDP, for any two trajectories. The bits of a block
    are shuffled, and the server sees only their number of ones: see `ShuffledLoss`. An incomplete last block is never
    released.

    Args:
        law: randomizes the bit; None sends it without noise, under trust model none.
        block: number of bits that a shuffler passes on together; 0 without a shuffler.

    Raises:
        LedgerError: for a block of bits without noise.
    """

    law: RandomizedResponse | None = None
    block: int = 0
    name: ClassVar[str] = "bits"

    def __post_init__(self) -> None:
        if self.block < 0 or (self.block and self.law is None):
            raise LedgerError(f"shuffled bits must have a law and a block of at least 1, got {self}; give both")

    @property
    def truth(self) -> float:
        """The probability that a bit is sent unchanged."""
        return 1.0 if self.law is None else self.law.truth

    @property
    def noisy_sides(self) -> tuple[bool, bool]:
        """Whether there is noise on (the client's side, the server's side)."""
        return self.law is not None, False

    @property
    def identity(self) -> str:
        """Text that identifies the law."""
        block = f"|block {self.block}" if self.block else ""
        return f"bits|{noise_identity(self.law)}{block}"

    def events(self, entropy: str) -> tuple[ReleaseEvent, ...]:
        """Return the release of the bit."""
        if self.law is None:
            return (ReleaseEvent.without_noise("bit", 1, entropy),)
        law = ShuffledReports(self.law, self.block) if self.block else self.law
        return (ReleaseEvent("bit", law, _ONE_BIT, _ONE_BIT, not self.block, 1, 1, entropy),)

    def derivation(self) -> tuple[Step, ...]:
        """Return the step stating that one bit changes."""
        place, code = "docs/privacy_model.md#who-is-protected", code_of(BitQuery.events)
        return (Step("bits of one user that change", "1", {}, 1.0, "One user sends one bit", place, code),)

    def threat_model(self, model: TrustModel, submissions: int) -> ThreatModel:
        """Return the threat model. Raises LedgerError unless bits are shuffled in that trust model and no other."""
        del submissions
        check_shuffled(self.block > 0, model)
        return THREAT_MODELS["bits", model]

    def open(self, streams: Streams) -> BitChannel:
        """Return the channel before the first user."""
        table = SILENT.table if self.law is None else self.law.table()
        noise = SILENT._replace(key=streams.key("user_coins", self.identity), table=table)
        held = np.zeros(2, dtype=np.int64)
        return BitChannel(new_cursor(), noise, np.zeros(1), np.zeros(1), max(1, self.block), held)

    def changing(self, channel: BitChannel) -> dict[str, np.ndarray]:
        """Return the sum of the current block, which stays with the shuffler."""
        return {"held": channel.held} if self.block else {}
