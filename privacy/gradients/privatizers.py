"""The privatizer of gradients: agents submit randomised gradients, each up to a cap, and a ledger accounts for it.

In one process, compiled loops hand `channel` to `submit` and `receive`. Agents elsewhere get a lease on submissions and
a GradientSender each, made from `sender_spec`; what they send back is PrivateMessages.
"""

from __future__ import annotations

import math
import operator
import secrets
from collections.abc import Mapping
from typing import NoReturn

import numpy as np

from dprl.privacy.base import Float64Array, LedgerError, TrustModel
from dprl.privacy.certificate import ENTROPY, Certificate, PrivacyRequest, certify
from dprl.privacy.gradients.channels import (
    CHARGED,
    MESSAGES,
    RECEIVED,
    SENT,
    GradientChannel,
    described,
    estimate_all,
    fixed_part,
)
from dprl.privacy.gradients.leases import Lease, PrivateMessages, issue_lease
from dprl.privacy.gradients.parts import GradientParts, releases
from dprl.privacy.gradients.senders import SenderSpec
from dprl.privacy.ledgers.ranges import RangeSet
from dprl.privacy.ledgers.submissions import Journal, SubmissionLedger
from dprl.privacy.mechanisms.vectors import RawVector
from dprl.privacy.randomness.streams import Streams
from dprl.privacy.states import check_sealed, counts_in, require_seeded, sealed

_NOBODY, _LOOP, _SENDERS = range(3)


class GradientPrivatizer:
    """Turns agents' gradients into estimates that a server may use, and accounts for it. For one thread.

    Submission n = 1, 2, ... is that of agent (n - 1) % n_agents + 1. Submissions are charged in order, and come from
    the compiled loop (`charge`) or from senders (`lease`), not from both.

    Args:
        request: what was asked for and what is claimed; only the certificate compares with it.
        trust_model: for ledger and certificate; must be what the noise makes it.
        parts: what is sent, by whom, how often. streams: named random streams.
        journal: where charges survive a crash; None for simulations.

    Raises:
        LedgerError: if the noise is not where the trust model needs it.
    """

    def __init__(
        self,
        request: PrivacyRequest,
        trust_model: TrustModel,
        parts: GradientParts,
        streams: Streams,
        journal: Journal | None = None,
    ) -> None:
        raw = isinstance(parts.randomisers.mechanism, RawVector)
        if trust_model not in ("none", "ldp") or raw != (trust_model == "none"):
            raise LedgerError(f"{trust_model} needs its noise on the user's side; this has {parts.randomisers}")
        if raw and parts.randomisers.response is not None:
            raise LedgerError("a bit on the score needs a gradient with noise; without one nothing is private")
        self.trust_model: TrustModel = trust_model
        self.request = request
        self.parts = parts
        self._streams = streams
        self._issuer = secrets.token_hex(8)
        self._ledger, self._journaled = self._new_ledger(journal), journal is not None
        noise, score = parts.randomisers.noise(streams)
        self._channel = GradientChannel(
            noise, score, np.zeros(4, dtype=np.int64), np.zeros(parts.randomisers.message_length)
        )
        self._source = _NOBODY
        self._received = RangeSet()
        self._lost = 0
        self._charged = 0
        self._skip_to(self._in_ledger())
        self._fixed = fixed_part(self._channel)

    @property
    def dimension(self) -> int:
        """d, of the gradients."""
        return self.parts.randomisers.mechanism.dimension

    @property
    def n_agents(self) -> int:
        """How many agents there are."""
        return self.parts.n_agents

    @property
    def submissions(self) -> int:
        """T, how often one agent submits at most."""
        return self.parts.submissions

    @property
    def capacity(self) -> int:
        """How many submissions there can be in all."""
        return self.n_agents * self.submissions

    @property
    def noise_norm(self) -> float:
        """A bound on the root mean squared norm of the error of one estimate; 0 without noise."""
        return self.parts.randomisers.mechanism.noise_norm

    @property
    def score_truth(self) -> float | None:
        """The chance that a score bit is told as it is; None if none are sent."""
        response = self.parts.randomisers.response
        return None if response is None else response.truth

    @property
    def score_gain(self) -> float | None:
        """tanh(epsilon / 2) of a score bit, 2 * score_truth - 1: how much more often it is told than flipped."""
        response = self.parts.randomisers.response
        return None if response is None else math.tanh(response.epsilon / 2.0)

    @property
    def charged(self) -> int:
        """How many submissions are charged; the next one has the number after that."""
        return self._charged

    @property
    def ledger(self) -> SubmissionLedger:
        """What was charged so far."""
        return self._ledger

    @property
    def channel(self) -> GradientChannel:
        """What compiled loops hand to `submit` and `receive`."""
        return self._channel

    @property
    def sender_spec(self) -> SenderSpec:
        """What a GradientSender in another process is made from."""
        return SenderSpec(self.parts.randomisers, self._streams, self._issuer)

    def charge(self, first: int, last: int) -> None:
        """Charge submissions first..last (inclusive) before the compiled loop sends them through `channel`.

        Raises:
            LedgerError: if one of them was charged before, some are left out, there are no more, or there are senders.
        """
        first, last = operator.index(first), operator.index(last)
        self._take(_LOOP)
        if first != self.charged + 1 or last < first:
            raise LedgerError(f"submission {first} cannot be charged: those up to {self.charged} are charged already")
        self._charge(first, last)
        self._channel.state[CHARGED] = last

    def lease(self, k: int) -> Lease:
        """Charge the next k submissions and return the lease on them, for senders.

        Raises:
            LedgerError: if there are not so many left, or the compiled loop submits. ValueError: for k below 1.
        """
        k = operator.index(k)
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}; ask for the messages of an update")
        self._take(_SENDERS)
        first = self.charged + 1
        self._charge(first, first + k - 1)
        return issue_lease(self._issuer, first, first + k - 1, self.n_agents)

    def estimates(self, messages: PrivateMessages) -> Float64Array:
        """Return the estimates float64[k, d] of gradients; every submission's message is accepted once.

        Raises:
            LedgerError: if a message was accepted before, its submission is not charged, or it is another privatizer's.
        """
        self._require_ours(messages)
        if not self._source == _SENDERS or messages.first < 1 or messages.last > self.charged:
            raise LedgerError("a message is of a submission that is leased; lease it first")
        again = self._received.first_common(messages.first, messages.last)
        if again is not None:
            raise LedgerError(f"submission {again} was received already; send each once")
        self._received.add(messages.first, messages.last)
        out = np.empty((len(messages), self.dimension))
        estimate_all(out, np.ascontiguousarray(messages.values), self._channel.noise)
        return out

    def score_bits(self, messages: PrivateMessages) -> Float64Array | None:
        """Return the randomised bits float64[k] in {0, 1} on the scores; None if none are sent. Post-processing."""
        self._require_ours(messages)
        if self.parts.randomisers.response is None:
            return None
        return messages.values[:, -1].copy()

    def planned_ledger(self) -> SubmissionLedger:
        """Return the ledger of a run that uses all submissions, nothing released."""
        ledger = self._new_ledger(None)
        ledger.charge_range(1, self.capacity)
        return ledger

    def planned_certificate(self, algorithm: str) -> Certificate:
        """Return the certificate of a run that uses all submissions, computed from the same noise objects."""
        return certify(self.planned_ledger(), self.request, algorithm)

    def certificate(self, algorithm: str) -> Certificate:
        """Return the certificate of what was charged so far.

        Raises:
            LedgerError: if what the kernels read is no longer what the ledger charged.
        """
        charged, sent, messages, received = (int(count) for count in self._channel.state)
        in_loop = received <= sent <= charged and messages == sent - self._lost
        if self._source == _LOOP:
            accounted = in_loop and charged == self.charged and self._received.size == 0
        else:
            accounted = in_loop and messages == 0 and self._received.last <= self.charged
        if not (accounted and fixed_part(self._channel) == self._fixed and self._is_drawn() and self._in_order()):
            raise LedgerError("the noise that ran is not the noise that was charged; nothing can be certified")
        return certify(self._ledger, self.request, algorithm)

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return all that changes in a run; draws are keyed by submission, so there is no generator state.

        Raises:
            LedgerError: if the noise comes from the operating system: it is not written down, so nothing can continue.
        """
        require_seeded(self._streams.noise.entropy)
        if self._channel.state[RECEIVED] != self._channel.state[SENT]:
            raise LedgerError("a message is under way, and a state would lose it; receive it first")
        source = np.array([self._source, self._lost], dtype=np.int64)
        state = {
            "submitted": self._ledger.submitted,
            "state": np.concatenate([self._channel.state, source]),
            "received": self._received_mask(),
        }
        return sealed(self._sealing, state)

    @staticmethod
    def charged_in(state: Mapping[str, np.ndarray]) -> int:
        """Return how many submissions a state of `state_dict` has charged; checks nothing."""
        return int(counts_in(state, "submitted").sum())

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        """Continue a run from `state_dict`, in a privatizer that has charged nothing yet.

        With a journal all charged submissions are passed over: the interrupted run may have sent them. Without one
        those that it had not sent by then are sent under the same noise: the same release if their data are the same,
        as in a simulation from the same seed and code; with other data the difference would be exact.

        Raises:
            LedgerError: if this privatizer has charged submissions, or its noise comes from the operating system.
            ValueError: if the state is not of this privatizer.
        """
        if self._source != _NOBODY:
            raise LedgerError(f"submissions up to {self.charged} are charged here already; load into a new privatizer")
        ours = self.state_dict()
        check_sealed(state, ours, self._sealing)
        self._ledger.load_state_dict({"submitted": state["submitted"], "terms": self._ledger.state_dict()["terms"]})
        *counts, source, lost = (int(count) for count in state["state"])
        self._source, self._lost = source, lost
        self._channel.state[:] = counts
        self._received = RangeSet()
        for number in np.flatnonzero(state["received"]).tolist():
            self._received.add(number, number)
        self._charged = self._in_ledger()
        if self._journaled:
            self._skip_to(self._charged)

    def __reduce__(self) -> NoReturn:
        # A copy would send other agents' data under the same noise.
        raise LedgerError("a privatizer cannot be copied or pickled; continue from state_dict")

    def _take(self, source: int) -> None:
        if self._source not in (_NOBODY, source):
            raise LedgerError("submissions come from the compiled loop or from senders; build another privatizer")
        if self._source == source:
            return
        self._ledger.begin()
        self._source = source
        if self._in_ledger() > self._charged:
            self._skip_to(self._in_ledger())

    def _skip_to(self, last: int) -> None:
        """Count submissions up to `last`, which others charged, as lost."""
        state = self._channel.state
        state[CHARGED] = state[SENT] = state[RECEIVED] = self._charged = last
        self._lost = last - int(state[MESSAGES])

    def _charge(self, first: int, last: int) -> None:
        if last > self.capacity:
            raise LedgerError(
                f"submission {last} cannot be charged: {self.n_agents} agents submit {self.submissions} times at most; "
                "build for more submissions"
            )
        self._ledger.charge_range(first, last)
        self._charged = last

    def _in_ledger(self) -> int:
        return self._ledger.charged

    def _in_order(self) -> bool:
        """Whether the agents that are charged are those of the submissions that were charged here."""
        return self._ledger.ranges == ([(1, self.charged)] if self.charged else [])

    def _received_mask(self) -> np.ndarray:
        mask = np.zeros(1 + self.capacity, dtype=np.bool_)
        for first, last in self._received.ranges:
            mask[first : last + 1] = True
        return mask

    def _require_ours(self, messages: PrivateMessages) -> None:
        if messages.seal.issuer != self._issuer:
            raise LedgerError("messages are accepted by the privatizer that leased them; this one's noise is unknown")
        if messages.values.shape[1:] != (self.parts.randomisers.message_length,):
            raise LedgerError("messages are as long as this privatizer's randomisers say; these are others")

    def _is_drawn(self) -> bool:
        """Whether what the kernels draw is what the ledger's objects say."""
        noise, score = self._channel.noise, self._channel.score
        randomisers = self.parts.randomisers
        said = randomisers.mechanism.vector_noise(noise.noise.key)
        table = np.zeros(0, dtype=np.uint64) if randomisers.response is None else randomisers.response.table()
        same_score = np.array_equal(table, score.table) and score.target == randomisers.target_score
        return same_score and described(said) == described(noise)

    @property
    def _sealing(self) -> str:
        """What must not change in a run."""
        return self._fixed + self._ledger.terms

    def _new_ledger(self, journal: Journal | None) -> SubmissionLedger:
        parts = self.parts
        released = releases(parts.randomisers, ENTROPY[self._streams.noise.entropy])
        return SubmissionLedger(self.trust_model, released, parts.scope, parts.n_agents, parts.submissions, journal)
