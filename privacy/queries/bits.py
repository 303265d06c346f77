"""One randomised bit from every user: the query, its kernels and its trust models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from dprl.compiled import no_alloc_kernel
from dprl.privacy.base import Float64Array, Guarantee, Int64Array, TrustModel
from dprl.privacy.certificate import PrivacyRequest
from dprl.privacy.channel import SENT, advance_received, advance_sent, new_cursor
from dprl.privacy.ledger import ReleaseEvent
from dprl.privacy.mechanisms.base import Noise, Sensitivity
from dprl.privacy.mechanisms.randomized_response import LARGEST_EPSILON, RandomizedResponse, fill_responses
from dprl.privacy.mechanisms.sampling import SILENT
from dprl.privacy.privatizer import Privatizer
from dprl.privacy.query import Query
from dprl.privacy.randomness.streams import Streams, noise_identity
from dprl.privacy.threat_models import THREAT_MODELS, ThreatModel
from dprl.privacy.validation import check_budget

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

    def threat_model(self, submissions: int) -> ThreatModel:
        """Return whom the guarantee protects."""
        del submissions
        return THREAT_MODELS["bits", self.trust_model]

    def open(self, streams: Streams) -> BitChannel:
        """Return the channel before the first user."""
        table = SILENT.table if self.law is None else self.law.table()
        noise = SILENT._replace(key=streams.key("user_coins", self.identity), table=table)
        return BitChannel(new_cursor(), noise, np.zeros(1), np.zeros(1))


BitPrivatizer = Privatizer[BitQuery]


class BitPrivacyConfig(Protocol):
    """Settings of a trust model for bits."""

    model: ClassVar[TrustModel]

    def build(self, n_users: int, streams: Streams) -> BitPrivatizer:
        """Return the privatizer of users 1..n_users."""


@dataclass(frozen=True)
class NoBitPrivacy:
    """Bits without noise: the non-private algorithm, and an infinite epsilon on the certificate."""

    model: ClassVar[TrustModel] = "none"

    def build(self, n_users: int, streams: Streams) -> BitPrivatizer:
        """Return the privatizer that passes bits on."""
        return Privatizer(BitQuery(), PrivacyRequest(None, None, "none", "nothing is claimed"), n_users, streams)


@dataclass(frozen=True)
class LocalBitPrivacy:
    """Local differential privacy: every user's bit is flipped with probability 1 / (1 + e^epsilon).

    *Formal guarantee.* (epsilon, 0)-LDP of all that one user sends, exactly; above 100 that of 100, as lies are then
    rarer than the coins' resolution.

    Args:
        epsilon: in [1e-9, 1e9].
    """

    epsilon: float
    model: ClassVar[TrustModel] = "ldp"

    def __post_init__(self) -> None:
        check_budget(self.epsilon, 0.0)

    def build(self, n_users: int, streams: Streams) -> BitPrivatizer:
        """Return the privatizer of users 1..n_users."""
        guarantee = Guarantee(self.model, self.epsilon)
        source = "the requested guarantee, met by the certified coins"
        request = PrivacyRequest(guarantee, guarantee, "certified", source)
        law = RandomizedResponse(min(LARGEST_EPSILON, float(self.epsilon)))
        return Privatizer(BitQuery(law), request, n_users, streams)


BIT_TRUST_MODELS: dict[str, type[NoBitPrivacy] | type[LocalBitPrivacy]] = {
    NoBitPrivacy.model: NoBitPrivacy,
    LocalBitPrivacy.model: LocalBitPrivacy,
}
