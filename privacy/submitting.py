"""Users 1..K send one message each, in order: who may send when, and the ledger, certificate and state of such a run.

What is sent, and through which kernels, is the subclass's; its channel has the `Turns` that they check and advance.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from dprl.compiled import no_alloc_kernel
from dprl.privacy.base import Int64Array, LedgerError, Scope, TrustModel
from dprl.privacy.certificate import Certificate, PrivacyRequest, certify
from dprl.privacy.ledgers.ledger import Ledger, Release
from dprl.privacy.randomness.streams import Streams
from dprl.privacy.states import check_sealed, counts_in, require_seeded, sealed

CHARGED, SENT, MESSAGES, RECEIVED = range(4)
"""Of int64[4]: the last user charged, the last one who sent, how many messages were sent, the last one received."""


@no_alloc_kernel
def take_turn(turns: Int64Array, user: int) -> None:
    """User side: raise LedgerError unless `user` is charged and is the next one who has not sent yet."""
    if user != turns[SENT] + 1 or user > turns[CHARGED]:
        raise LedgerError("users send once, in order, and after the ledger has charged them")
    turns[SENT] = user
    turns[MESSAGES] += 1  # is more than was charged if somebody was sent back


@no_alloc_kernel
def take_message(turns: Int64Array) -> None:
    """Server side: raise LedgerError unless a message is under way."""
    if turns[RECEIVED] >= turns[SENT]:
        raise LedgerError("a message is received once, after it was sent")
    turns[RECEIVED] = turns[SENT]


@dataclass(frozen=True)
class Terms:
    """What a ledger needs to know of users who send one message each.

    Args:
        trust_model: what the releases make it. releases: every user takes part in each of them.
        scope: whom and what the guarantee speaks of. n_users: K, how many users there are at most.
    """

    trust_model: TrustModel
    releases: tuple[Release, ...]
    scope: Scope
    n_users: int

    def __post_init__(self) -> None:
        if self.n_users < 1:
            raise ValueError(f"n_users must be at least 1, got {self.n_users}; run at least one episode")

    def ledger(self) -> Ledger:
        """Return the ledger of these releases, nobody charged."""
        return Ledger(self.trust_model, self.releases, self.scope)


class SubmittingUsers(ABC):
    """What privatizers have in common whose users send one message each, in order. For one thread.

    A subclass opens its channel before it calls this.

    Args:
        request: what was asked for and what is claimed; only the certificate compares with it.
        terms: for ledger and certificate. streams: named random streams.
    """

    def __init__(self, request: PrivacyRequest, terms: Terms, streams: Streams) -> None:
        self.request = request
        self._terms = terms
        self._streams = streams
        self._ledger = terms.ledger()
        self._fixed = self._running()

    @property
    def trust_model(self) -> TrustModel:
        """Who is trusted."""
        return self._terms.trust_model

    @property
    def n_users(self) -> int:
        """How many users may send a message at most."""
        return self._terms.n_users

    @property
    def ledger(self) -> Ledger:
        """What was charged so far."""
        return self._ledger

    @property
    @abstractmethod
    def _turns(self) -> Int64Array:
        """The turns int64[4] in the channel."""

    @abstractmethod
    def _running(self) -> str:
        """Return a digest of all that must not change in a run: what the noise that the kernels draw depends on."""

    @abstractmethod
    def _charged_for(self) -> str:
        """Return the same digest of the noise that the ledger's objects describe, drawn with the channel's keys."""

    def charge(self, first_user: int, last_user: int) -> None:
        """Charge users first..last (inclusive) before the compiled loop lets them send.

        Raises:
            LedgerError: if one of them was charged before, or one before has not been.
            ValueError: beyond the users it was built for.
        """
        first_user, last_user = operator.index(first_user), operator.index(last_user)
        if last_user > self.n_users:
            raise ValueError(f"at most {self.n_users} users may submit, got user {last_user}; build for more episodes")
        self._ledger.charge(first_user, last_user)
        self._turns[CHARGED] = self._ledger.users_charged

    def planned_ledger(self) -> Ledger:
        """Return the ledger of a run of all users, nothing released."""
        ledger = self._terms.ledger()
        ledger.charge(1, self.n_users)
        return ledger

    def planned_certificate(self, algorithm: str) -> Certificate:
        """Return the certificate of a run of all users, computed from the same noise objects."""
        return certify(self.planned_ledger(), self.request, algorithm)

    def certificate(self, algorithm: str) -> Certificate:
        """Return the certificate of what was charged so far.

        Raises:
            LedgerError: if what the kernels read is no longer what the ledger charged.
        """
        charged, sent, messages, received = (int(count) for count in self._turns)
        accounted = 0 <= received <= sent == messages and sent <= charged == self._ledger.users_charged
        if not (accounted and self._running() == self._fixed == self._charged_for()):
            raise LedgerError("the noise that ran is not the noise that was charged; nothing can be certified")
        return certify(self._ledger, self.request, algorithm)

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return all that changes in a run; draws are keyed by user, so there is no generator state.

        Raises:
            LedgerError: if the noise comes from the operating system: it is not written down, so nothing can continue.
        """
        require_seeded(self._streams.noise.entropy)
        if self._turns[RECEIVED] != self._turns[SENT]:
            raise LedgerError("a message is under way, and a state would lose it; receive it first")
        return sealed(self._sealing, {"turns": self._turns})

    @staticmethod
    def charged_in(state: Mapping[str, np.ndarray]) -> int:
        """Return how many users a state of `state_dict` has charged; -1 for what is none. Checks nothing else."""
        return int(counts_in(state, "turns")[CHARGED])

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        """Continue a run from `state_dict`, in a privatizer that has charged nobody yet.

        Users that the interrupted run had charged since then submit again under the same noise. That is the same
        release if their data are the same, as in a simulation from the same seed and code; with other data the
        difference of the two would be exact.

        Raises:
            LedgerError: if this privatizer has charged users, or its noise comes from the operating system.
            ValueError: if the state is not of this privatizer.
        """
        if self._ledger.users_charged:
            raise LedgerError(f"users up to {self._ledger.users_charged} are charged here already; load into a new one")
        ours = self.state_dict()
        check_sealed(state, ours, self._sealing)
        turns = state["turns"]
        charged, sent, messages, received = (int(count) for count in turns)
        if not 0 <= received == sent == messages <= charged <= self.n_users:
            raise ValueError(f"the state has {charged} users of {self.n_users}; start anew")
        self._turns[:] = turns
        if charged:
            self.charge(1, charged)

    def __reduce__(self) -> NoReturn:
        # A copy would send other users' data under the same noise.
        raise LedgerError("a privatizer cannot be copied or pickled; continue from state_dict")

    @property
    def _sealing(self) -> str:
        """What must not change in a run."""
        return f"{self._fixed}|{self.n_users}"
