"""The Privatizer: a user-side randomiser and a server-side counter, joined by a message.

Trust models are combinations, not classes: none = (as it is, exact), jdp = (as it is, a noisy counter),
ldp = (randomised, exact). Compiled learning loops use `channel` with the kernels of `exchange`; `encode` and `absorb`
run the same kernels one user at a time.
"""

from __future__ import annotations

import operator
import secrets
from collections.abc import Mapping
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from dprl.privacy.base import (
    Contribution,
    CountFamilies,
    Float64Array,
    Int64Array,
    LedgerError,
    Precision,
    PrivateCounts,
    Report,
    TrustModel,
    issue_private_counts,
    issue_report,
)
from dprl.privacy.certificate import ENTROPY, Certificate, PrivacyRequest, certify
from dprl.privacy.counters import COUNTERS, ExactCounter
from dprl.privacy.counters.base import EXACT, ROWS
from dprl.privacy.counts.channels import (
    NoiseParts,
    belongs_together,
    fixed_part,
    is_drawn,
    open_channel,
    releases,
)
from dprl.privacy.counts.details import details_of
from dprl.privacy.counts.exchange import ABSORBED, CHARGED, ENCODED, RELEASED, SENT, Channel, absorb, encode, release
from dprl.privacy.counts.layouts import Layout, collect
from dprl.privacy.counts.precision import WeightedSums, error_bounds, weighted_bound
from dprl.privacy.ledgers.ledger import Ledger
from dprl.privacy.mechanisms.unary_report import UnaryReport
from dprl.privacy.randomness.streams import Streams
from dprl.privacy.scopes import of_counts
from dprl.privacy.states import check_sealed, counts_in, require_seeded, sealed


class Privatizer:
    """Turns users' contributions into private counts, and accounts for it. For one thread: a message has one buffer.

    Args:
        request: what was asked for and what is claimed; only the certificate compares with it.
        trust_model: for ledger and certificate; must be what the noise makes it.
        layout: what is counted, and which of it is released.
        noise: where there is how much, as a trust model decides.
        streams: named random streams.

    Raises:
        LedgerError: if the noise is not where the trust model needs it.
    """

    def __init__(
        self,
        request: PrivacyRequest,
        trust_model: TrustModel,
        layout: Layout,
        noise: NoiseParts,
        streams: Streams,
    ) -> None:
        if type(noise.counter) not in (ExactCounter, *COUNTERS.values()):
            raise LedgerError(
                f"the kernels cannot run a counter of type {type(noise.counter).__name__}; add its release"
            )
        noisy = {"none": (False, False), "jdp": (False, True), "ldp": (True, False)}
        if (noise.report is not None, noise.counter.node is not None) != noisy[trust_model]:
            raise LedgerError(f"{trust_model} needs its noise on {_SIDES[trust_model]}; these parts have it elsewhere")
        if isinstance(noise.report, UnaryReport) and not noise.report.fits(layout.released):
            raise LedgerError(
                f"{noise.report.name} encodes one row of {noise.report.width} cells a step; this layout has others"
            )
        self.trust_model: TrustModel = trust_model
        self.layout = layout
        self.request = request
        self._noise = noise
        self._streams = streams
        self._issuer = secrets.token_hex(8)
        self._ledger = self._new_ledger()

    @property
    def families(self) -> CountFamilies:
        """What a learner gets."""
        return self.layout.needed

    @cached_property
    def _channel(self) -> Channel:
        """What the kernels read: opened by the first who runs, as a counter may draw all its noise at the start."""
        return self._opened[0]

    @cached_property
    def _fixed(self) -> str:
        """The digest of what must not change from the opening on."""
        return self._opened[1]

    @cached_property
    def _opened(self) -> tuple[Channel, str]:
        channel = open_channel(self.layout, self._noise, self._streams)
        return channel, fixed_part(channel)

    @property
    def channel(self) -> Channel:
        """What compiled loops hand to the kernels of `exchange`."""
        return self._channel

    @property
    def ledger(self) -> Ledger:
        """What was charged so far."""
        return self._ledger

    @property
    def n_users(self) -> int:
        """How many users' reports will be absorbed at most."""
        return self._noise.counter.n_items

    @property
    def noise(self) -> NoiseParts:
        """Where there is how much noise."""
        return self._noise

    def encode(self, contribution: Contribution, user: int) -> Report:
        """User side: charge the ledger for user `user` (1-based), then make the message.

        Raises:
            LedgerError: if this user has submitted already, or one before has not.
            ValueError: if the contribution does not have one cell per step and family.
        """
        index, value = self._checked(contribution)
        self.charge(user, user)
        encode(self._channel, index, value, user)
        return issue_report(self._issuer, user, self._channel.sender.message)

    def absorb(self, report: Report) -> PrivateCounts:
        """Server side: add the next user's report and release the counts of all users so far.

        Raises:
            LedgerError: if it is not the next user's, was absorbed before (a second release of the same sums under the
                same noise would give the difference away), or was encoded by another privatizer.
        """
        if report.seal.issuer != self._issuer:
            raise LedgerError("a report is absorbed by the privatizer that encoded it; this one's noise is unknown")
        users = self._channel.users
        if report.user != users[ABSORBED] + 1 or report.user > users[ENCODED]:
            raise LedgerError("users are absorbed once, in order, and after they have sent their message")
        self._channel.sender.message[:] = report.values
        absorb(self._channel, report.user)
        return self.private_counts()

    def private_counts(self) -> PrivateCounts:
        """Return the released counts of all users absorbed so far (all zero before the first).

        Raises:
            LedgerError: if the noise of the last release is not there any more.
        """
        self._catch_up()
        absorbed = int(self._channel.users[ABSORBED])
        return issue_private_counts(self._issuer, self.families, self._channel.released, absorbed)

    def charge(self, first_user: int, last_user: int) -> None:
        """Charge the ledger for users first..last before the compiled loop lets them submit.

        Raises:
            LedgerError: if one of them was charged before. ValueError: beyond the users it was built for.
        """
        first_user, last_user = operator.index(first_user), operator.index(last_user)
        if last_user > self.n_users:
            raise ValueError(f"at most {self.n_users} users may submit, got user {last_user}; build for more episodes")
        self._ledger.charge(first_user, last_user)
        self._channel.users[CHARGED] = self._ledger.users_charged

    def precision(self, beta: float) -> Precision:
        """Return the error bounds E that hold with probability 1 - beta for every cell and episode.

        Raises ValueError unless 0 < beta < 1.

        Paper: [CZ22] Assumption 1.
        """
        _check_beta(beta)
        return Precision(beta, error_bounds(self.layout, self._noise, beta))

    def weighted_precision(self, sums: WeightedSums, beta: float) -> float:
        """Return E: with probability 1 - beta none of the weighted sums of noise is above E in absolute value.

        Raises ValueError unless 0 < beta < 1, and with `precision: printed`.
        """
        _check_beta(beta)
        return weighted_bound(self.layout, self._noise, sums, beta)

    def planned_ledger(self) -> Ledger:
        """Return the ledger of a whole run, computed from the same noise objects, nothing released."""
        ledger = self._new_ledger()
        ledger.charge(1, self.n_users)
        return ledger

    def planned_certificate(self, algorithm: str) -> Certificate:
        """Return the certificate of a whole run, computed from the same noise objects, nothing released."""
        return certify(self.planned_ledger(), self.request, algorithm, self._details)

    def certificate(self, algorithm: str) -> Certificate:
        """Return the certificate of what was charged so far.

        Raises:
            LedgerError: if what the kernels read is no longer what the ledger charged.
        """
        absorbed, encoded, sent, _, charged = (int(count) for count in self._channel.users)
        accounted = absorbed <= encoded == sent and encoded <= charged == self._ledger.users_charged
        unchanged = fixed_part(self._channel) == self._fixed and is_drawn(self._noise, self._channel)
        if not (accounted and unchanged and belongs_together(self._channel)):
            raise LedgerError("the noise that ran is not the noise that was charged; nothing can be certified")
        return certify(self._ledger, self.request, algorithm, self._details)

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return all that changes in a run; draws are keyed by user, so there is no generator state.

        With a trusted server it holds exact sums: it must stay where the server is.

        Raises:
            LedgerError: if the noise comes from the operating system: it is not written down, so nothing can continue.
        """
        require_seeded(self._streams.noise.entropy)
        if self._channel.users[ABSORBED] != self._channel.users[ENCODED]:
            raise LedgerError("a message is under way, and a state would lose it; absorb it first")
        self._catch_up()
        return sealed(self._fixed, self._changing())

    @staticmethod
    def charged_in(state: Mapping[str, np.ndarray]) -> int:
        """Return how many users a state of `state_dict` has charged; -1 for what is none. Checks nothing else."""
        return int(counts_in(state, "users")[-1])

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        """Continue a run from `state_dict`, in a privatizer that has released nothing yet.

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
        check_sealed(state, ours, self._fixed)
        users = [int(count) for count in state["users"]]
        settled, charged = users[ABSORBED], users[CHARGED]
        if {users[ENCODED], users[SENT], users[RELEASED]} != {settled} or not 0 <= settled <= charged <= self.n_users:
            raise ValueError(f"the state has {users} users of {self.n_users}; start anew")
        for key, array in self._changing().items():
            array[:] = state[key]
        if not belongs_together(self._channel):
            for key, array in self._changing().items():
                array[:] = ours[key]
            raise ValueError("the state's noise and released counts do not belong together; start anew")
        if self.layout.summed:
            collect(self._channel.released, self._channel.receiver.noisy, self._channel.slots, self._channel.n_steps)
        if charged:
            self.charge(1, charged)

    def __reduce__(self) -> NoReturn:
        # A copy would send other users' data under the same noise.
        raise LedgerError("a privatizer cannot be copied or pickled; continue from state_dict")

    def _catch_up(self) -> None:
        """Release the counts of users who were absorbed without a release; their releases are charged already."""
        if self._channel.users[RELEASED] == self._channel.users[ABSORBED]:
            return
        if not belongs_together(self._channel):
            raise LedgerError("the noise of the last release is not what was drawn; nothing more can be released")
        release(self._channel)

    def _checked(self, contribution: Contribution) -> tuple[Int64Array, Float64Array]:
        """Return a contribution's arrays; raise ValueError, without telling what is in them, if they are none."""
        expected = (self.families.n_steps, len(self.families.families))
        index, value = np.asarray(contribution.index), np.asarray(contribution.value)
        numbers = index.dtype.kind in "iu" and value.dtype.kind in "iuf"
        if index.shape != expected or value.shape != expected or not numbers:
            raise ValueError(
                f"a contribution has one cell per step and family, integers and values of shape {expected}, "
                f"got {index.shape} and {value.shape}; fill every slot"
            )
        return index.astype(np.int64), value.astype(np.float64)

    @cached_property
    def _details(self) -> dict[str, Any]:
        arithmetic = self._streams.noise.arithmetic
        return details_of(self.request.requested, self.layout, self._noise, self._ledger.releases, arithmetic)

    def _changing(self) -> dict[str, np.ndarray]:
        """Return what changes in a run, but for what follows from it."""
        receiver, counter = self._channel.receiver, self._channel.receiver.counter
        found = {"totals": receiver.totals, "users": self._channel.users}
        if counter.kind != EXACT:
            found["noisy"] = receiver.noisy
        if counter.kind not in (EXACT, ROWS):
            found |= {"rows": counter.rows, "held": counter.held}
        return found

    def _new_ledger(self) -> Ledger:
        released = releases(self.layout, self._noise, ENTROPY[self._streams.noise.entropy])
        return Ledger(self.trust_model, released, of_counts(self.trust_model, self.layout.needed.players))


_SIDES: dict[TrustModel, str] = {"none": "neither side", "jdp": "the server's side", "ldp": "the user's side"}


def _check_beta(beta: float) -> None:
    if not 0 < beta < 1:
        raise ValueError(f"beta must lie in (0, 1), got {beta}; it is a probability")
