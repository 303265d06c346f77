"""One randomised bit from every user, for learners that need no more: its privatizer, kernels and trust models."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, NoReturn, Protocol

import numpy as np
import numpy.typing as npt

from dprl.compiled import no_alloc_kernel
from dprl.privacy.base import Float64Array, Guarantee, Int64Array, TrustModel
from dprl.privacy.certificate import ENTROPY, PrivacyRequest
from dprl.privacy.checks import check_budget
from dprl.privacy.ledgers.ledger import Release
from dprl.privacy.mechanisms.base import Sensitivity
from dprl.privacy.mechanisms.randomized_response import LARGEST_EPSILON, RandomizedResponse, fill_responses
from dprl.privacy.randomness.streams import Streams, noise_identity
from dprl.privacy.scopes import of_bits
from dprl.privacy.submitting import SENT, SubmittingUsers, Terms, take_message, take_turn

_ONE_BIT = Sensitivity.of_cells(1)


class BitChannel(NamedTuple):
    """A bit privatizer's state as the kernels see it; learners only hand it on.

    key uint64[5], table uint64[4]: of the coins, the table empty where bits are sent as they are; bit float64[1]: the
    room; message float64[1]: the bit under way; turns int64[4]: who has sent.
    """

    key: npt.NDArray[np.uint64]
    table: npt.NDArray[np.uint64]
    bit: Float64Array
    message: Float64Array
    turns: Int64Array

    def __repr__(self) -> str:
        return f"BitChannel({self.turns[SENT]} users sent)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("noise cannot be copied or pickled: its key must not be written down or used twice")


@no_alloc_kernel
def send_bit(channel: BitChannel, bit: int, user: int) -> None:
    """User side: send the bit of `user` (from 1 on), which is all that leaves the user's side here; 1 or else 0.

    Raises LedgerError unless the user is charged and is the next one who has not sent yet.

    *Formal guarantee.* (epsilon, 0)-LDP, exactly: see RandomizedResponse.
    """
    take_turn(channel.turns, user)
    channel.bit[0] = 1.0 if bit == 1 else 0.0
    if channel.table.shape[0] == 0:
        channel.message[0] = channel.bit[0]
    else:
        fill_responses(channel.message, channel.bit, channel.key, np.uint64(user), channel.table)


@no_alloc_kernel
def receive_bit(channel: BitChannel) -> int:
    """Server side: return the bit under way, 0 or 1. Raises LedgerError unless there is one. Post-processing."""
    take_message(channel.turns)
    return int(channel.message[0])


class BitPrivatizer(SubmittingUsers):
    """Turns users' bits into randomised bits that a server may use, and accounts for them.

    *Formal guarantee.* With a response every user's bit is (epsilon, 0)-LDP, for any two trajectories.

    Args:
        request: what was asked for and what is claimed; only the certificate compares with it.
        response: of every bit; None sends them as they are, under trust model none.
        n_users: K. streams: named random streams.

    Raises ValueError for less than one user.
    """

    def __init__(
        self, request: PrivacyRequest, response: RandomizedResponse | None, n_users: int, streams: Streams
    ) -> None:
        self.response = response
        model: TrustModel = "none" if response is None else "ldp"
        terms = Terms(model, _releases(response, ENTROPY[streams.noise.entropy]), of_bits(model), n_users)
        self._channel = _open_channel(response, streams.key("user_coins", f"bits|{noise_identity(response)}"))
        super().__init__(request, terms, streams)

    @property
    def truth(self) -> float:
        """The chance that a bit is told as it is."""
        return 1.0 if self.response is None else self.response.truth

    @property
    def gain(self) -> float:
        """tanh(epsilon / 2), which is 2 truth - 1: how much more often a bit is told than flipped."""
        return 1.0 if self.response is None else math.tanh(self.response.epsilon / 2.0)

    @property
    def channel(self) -> BitChannel:
        """What compiled loops hand to `send_bit` and `receive_bit`."""
        return self._channel

    @property
    def _turns(self) -> Int64Array:
        return self._channel.turns

    def _running(self) -> str:
        return _digest_of(self._channel)

    def _charged_for(self) -> str:
        if _releases(self.response, ENTROPY[self._streams.noise.entropy]) != self._ledger.releases:
            return ""
        return _digest_of(_open_channel(self.response, self._channel.key))


def _releases(response: RandomizedResponse | None, entropy: str) -> tuple[Release, ...]:
    sensitivity = None if response is None else _ONE_BIT
    return (Release("bit", response, sensitivity, sensitivity, True, 1, 1, entropy),)


def _open_channel(response: RandomizedResponse | None, key: npt.NDArray[np.uint64]) -> BitChannel:
    table = np.zeros(0, dtype=np.uint64) if response is None else response.table()
    return BitChannel(key, table, np.zeros(1), np.zeros(1), np.zeros(4, dtype=np.int64))


def _digest_of(channel: BitChannel) -> str:
    return hashlib.blake2b(channel.key.tobytes() + b"|" + channel.table.tobytes()).hexdigest()


class BitPrivacyConfig(Protocol):
    """What every trust model's config offers."""

    model: ClassVar[TrustModel]

    def build(self, n_users: int, streams: Streams) -> BitPrivatizer:
        """Return the privatizer of users 1..n_users."""


@dataclass(frozen=True)
class NoBitPrivacy:
    """Bits as they are: the non-private algorithm, and an infinite epsilon on the certificate."""

    model: ClassVar[TrustModel] = "none"

    def build(self, n_users: int, streams: Streams) -> BitPrivatizer:
        """Return the privatizer that passes bits on."""
        return BitPrivatizer(PrivacyRequest(None, None, "none", "nothing is claimed"), None, n_users, streams)


@dataclass(frozen=True)
class LocalBitPrivacy:
    """Local differential privacy: every user's bit is told with probability e^epsilon / (1 + e^epsilon), else flipped.

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
        return BitPrivatizer(request, RandomizedResponse(min(LARGEST_EPSILON, float(self.epsilon))), n_users, streams)


BIT_TRUST_MODELS: dict[str, type[NoBitPrivacy] | type[LocalBitPrivacy]] = {
    NoBitPrivacy.model: NoBitPrivacy,
    LocalBitPrivacy.model: LocalBitPrivacy,
}
