"""The Privatizer: a user-side randomiser and a server-side counter, joined by a report.

Trust models are combinations, not classes: none = (identity, exact), jdp = (identity, binary tree),
ldp = (Laplace, exact). Compiled learning loops use `channel` with the kernels of `exchange`; `encode` and `absorb`
run the same kernels one user at a time.
"""

from __future__ import annotations

import operator
import secrets
from typing import NamedTuple

import numpy as np

from dprl.privacy.base import (
    Contribution,
    Counter,
    CountFamilies,
    CountFamily,
    Mechanism,
    Precision,
    PrivateCounts,
    Report,
    TrustModel,
    issue_private_counts,
    issue_report,
)
from dprl.privacy.certificate import Certificate, PrivacyRequest, certify
from dprl.privacy.counters.binary_tree import BinaryTree, ExactCounter
from dprl.privacy.exchange import ABSORBED, CHARGED, Channel, absorb, encode
from dprl.privacy.ledger import Ledger, LedgerError, Release
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.printed import PrintedLemma
from dprl.privacy.randomness.streams import Streams


class NoiseParts(NamedTuple):
    """What a trust model decides.

    report: the user's noise, None for exact messages. counter: the server's. printed: the lemma whose error bound is
    used in place of the exact one, or None.
    """

    report: Mechanism | None
    counter: Counter
    printed: PrintedLemma | None


class Privatizer:
    """Turns users' contributions into private counts, and accounts for it.

    Args:
        request: what was asked for and what is claimed; only the certificate compares with it.
        trust_model: for ledger and certificate; must be what the noise makes it.
        families: what is counted.
        noise: where there is how much, as a trust model decides.
        streams: named random streams.

    Raises:
        LedgerError: if the noise is not where the trust model needs it.
    """

    def __init__(
        self,
        request: PrivacyRequest,
        trust_model: TrustModel,
        families: CountFamilies,
        noise: NoiseParts,
        streams: Streams,
    ) -> None:
        if type(noise.counter) not in (ExactCounter, BinaryTree):
            raise LedgerError(f"the kernels cannot run a {noise.counter.name} counter; add it to exchange first")
        noisy = {"none": (False, False), "jdp": (False, True), "ldp": (True, False)}
        if (noise.report is not None, noise.counter.node is not None) != noisy[trust_model]:
            raise LedgerError(f"{trust_model} needs its noise on {_SIDES[trust_model]}; these parts have it elsewhere")
        self.trust_model: TrustModel = trust_model
        self.families = families
        self.request = request
        self._noise = noise
        self._streams = streams
        self._issuer = secrets.token_hex(8)
        self._channel = self._open_channel()
        self._ledger = Ledger(trust_model, self._releases())

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

    def encode(self, contribution: Contribution, user: int) -> Report:
        """User side: charge the ledger for user `user` (1-based), then make the message.

        Raises:
            LedgerError: if this user has submitted already, or one before has not.
            ValueError: if the contribution does not have one cell per step and family.
        """
        index, value = np.asarray(contribution.index), np.asarray(contribution.value, dtype=np.float64)
        expected = (self.families.n_steps, len(self.families.families))
        if index.shape != expected or value.shape != expected or index.dtype.kind not in "iu":
            raise ValueError(
                f"a contribution has one cell per step and family, integers and values of shape {expected}, "
                f"got {index.shape} and {value.shape}; fill every slot"
            )
        self.charge(user, user)
        encode(self._channel, index.astype(np.int64), value, user)
        return issue_report(self._issuer, user, self._channel.report)

    def absorb(self, report: Report) -> PrivateCounts:
        """Server side: add the next user's report and release the counts of all users so far.

        Raises:
            LedgerError: if it is not the next user's, was absorbed before (a second release of the same sums under the
                same noise would give the difference away), or was encoded by another privatizer.
        """
        if report.seal.issuer != self._issuer:
            raise LedgerError("a report is absorbed by the privatizer that encoded it; this one's noise is unknown")
        self._channel.report[:] = report.values
        absorb(self._channel, report.user)
        return self.private_counts()

    def private_counts(self) -> PrivateCounts:
        """Return the counts released last (all zero before the first report)."""
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
        if not 0 < beta < 1:
            raise ValueError(f"beta must lie in (0, 1), got {beta}; it is a probability")
        return Precision(beta, {family.name: self._error_bound(family, beta) for family in self.families.families})

    def planned_ledger(self) -> Ledger:
        """Return the ledger of a whole run, computed from the same noise objects, nothing released."""
        ledger = Ledger(self.trust_model, self._releases())
        ledger.charge(1, self.n_users)
        return ledger

    def certificate(self, algorithm: str) -> Certificate:
        """Return the certificate of what was charged so far.

        Raises:
            LedgerError: if the scales that the kernels read are no longer those that the ledger charged.
        """
        absorbed, encoded, charged = (int(count) for count in self._channel.users)
        accounted = absorbed <= encoded <= charged == self._ledger.users_charged
        if not accounted or self._ledger.releases != tuple(self._releases()):
            raise LedgerError("the noise that ran is not the noise that was charged; nothing can be certified")
        return certify(self._ledger, self.request, algorithm)

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return all that changes in a run; draws are keyed by user, so there is no generator state.

        With a trusted server it holds exact sums: it must stay where the server is.
        """
        channel = self._channel
        return {
            "totals": channel.totals.copy(),
            "noise": channel.noise.copy(),
            "released": channel.released.copy(),
            "users": channel.users.copy(),
        }

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        """Continue a run from `state_dict`, in a privatizer that has released nothing yet.

        Users that the interrupted run had charged since then submit again under the same noise. That is the same
        release if their data are the same, as in a simulation from the same seed and code; with other data the
        difference of the two would be exact.

        Raises:
            LedgerError: if this privatizer has charged users. ValueError: if the state is not of this privatizer.
        """
        ours = self.state_dict()
        for key, value in ours.items():
            if key not in state or state[key].shape != value.shape or state[key].dtype != value.dtype:
                raise ValueError(f"the state's {key!r} is missing or of another shape; resume with the same settings")
        absorbed, encoded, charged = (int(count) for count in state["users"])
        if not 0 <= absorbed <= encoded <= charged <= self.n_users:
            raise ValueError(f"the state has {[absorbed, encoded, charged]} users of {self.n_users}; start anew")
        exact = self._noise.counter.node is None
        if state["noise"][0].any() or (exact and not np.array_equal(state["totals"], state["released"])):
            raise ValueError("the state's noise and released counts do not belong together; start anew")
        if charged:
            self.charge(1, charged)
        for key in ours:
            getattr(self._channel, key)[:] = state[key]

    def _error_bound(self, family: CountFamily, beta: float) -> float:
        n_cells = self.families.n_steps * family.width
        report, counter, printed = self._noise
        if printed is not None:
            noise = report or counter.node
            return 0.0 if noise is None else printed.error(noise.scale, self.n_users, n_cells, beta)
        # The printed formula holds for each family at beta; the exact bounds share it.
        return counter.error_bound(n_cells, beta / len(self.families.families), report)

    def _open_channel(self) -> Channel:
        n_cells = self.families.n_cells
        report, counter = self._noise.report, self._noise.counter
        totals = np.zeros(n_cells)
        return Channel(
            offsets=self.families.offsets(),
            widths=np.array([family.width for family in self.families.families], dtype=np.int64),
            block=self.families.block,
            report_scale=0.0 if report is None else report.scale,
            node_scale=0.0 if counter.node is None else counter.node.scale,
            user_key=self._streams.key("user_noise"),
            server_key=self._streams.key("server_noise"),
            users=np.zeros(3, dtype=np.int64),
            report=np.zeros(n_cells),
            totals=totals,
            noise=np.zeros((counter.noise_rows(), 1 if counter.node is None else n_cells)),
            released=totals if counter.node is None else np.zeros(n_cells),
        )

    def _releases(self) -> list[Release]:
        """Describe each family's release by the very scales that the kernels read."""
        noise, nodes = None, 1
        if self._channel.report_scale > 0:
            noise = Laplace(self._channel.report_scale)
        elif self._channel.node_scale > 0:
            # A row of noise for every level that the kernel writes, and one of zeros.
            noise, nodes = Laplace(self._channel.node_scale), self._channel.noise.shape[0] - 1
        return [
            Release(
                channel=family.name,
                noise=noise,
                nodes_per_user=nodes,
                changed_cells=self.families.changed_cells(),
                changed_l1_public_start=self.families.changed_l1_public_start(family),
                cells=self.families.n_steps * family.width,
                entropy=self._streams.entropy,
            )
            for family in self.families.families
        ]


_SIDES: dict[TrustModel, str] = {"none": "neither side", "jdp": "the server's side", "ldp": "the user's side"}
