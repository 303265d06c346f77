"""The Privatizer: a user-side randomiser and a server-side counter, joined by a report.

Trust models are combinations, not classes: none = (identity, exact), jdp = (identity, binary tree),
ldp = (Laplace, exact). The compiled learning loop calls `exchange`; `Privatizer.encode` and `.absorb` run the same
kernels one user at a time.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dprl.privacy.base import (
    Contribution,
    CountFamilies,
    Float64Array,
    Guarantee,
    Int64Array,
    Precision,
    PrivateCounts,
    Report,
    TrustModel,
    issue_private_counts,
)
from dprl.privacy.certificate import Certificate, PrivacyRequest, certificate
from dprl.privacy.compiled import kernel
from dprl.privacy.counters import BinaryTree, ExactCounter, release_prefix
from dprl.privacy.laplace import Laplace, fill_laplace
from dprl.privacy.ledger import RAW, Ledger, Release
from dprl.privacy.streams import Streams

ErrorBounds = Callable[[float], dict[str, float]]


class Channel(NamedTuple):
    """The privatizer's state as the kernels see it.

    offsets int64[F]: where each family starts in a step; widths int64[F]; block: cells of a step;
    report_scale, node_scale: Laplace scales of the user's and of the server's noise, 0 for none; user_key, server_key:
    stream keys; report float64[cells]: the message under way; totals float64[cells]: sums of messages;
    noise float64[rows, cells]: tree noise; released float64[cells]: all that a learner may read.
    """

    offsets: Int64Array
    widths: Int64Array
    block: int
    report_scale: float
    node_scale: float
    user_key: np.uint64
    server_key: np.uint64
    report: Float64Array
    totals: Float64Array
    noise: Float64Array
    released: Float64Array


@kernel
def bounded_cell(channel: Channel, step: int, family: int, index: int) -> int:
    """Return the cell that (step, family, index) names; an index outside the family is moved to its edge."""
    last = int(channel.widths[family]) - 1
    return step * channel.block + int(channel.offsets[family]) + min(max(index, 0), last)


@kernel
def bounded_value(value: float) -> float:
    """Return `value` limited to [0, 1]; NaN counts as 0. The sensitivity holds for whatever a device sends."""
    if value >= 1.0:
        return 1.0
    return value if value > 0.0 else 0.0


@kernel
def encode(channel: Channel, index: Int64Array, value: Float64Array, user: int) -> None:
    """User side: write user `user`'s (1-based) message into channel.report.

    *Formal guarantee.* With report_scale = b > 0 the message is (2 H F / b, 0)-LDP for any two contributions of H
    steps and F families, exactly, in real arithmetic; without noise it is the raw record, for a trusted server only.
    """
    n_cells = channel.report.shape[0]
    if channel.report_scale > 0.0:
        fill_laplace(channel.report, channel.user_key, np.uint64(user) * np.uint64(n_cells), channel.report_scale)
    else:
        channel.report[:] = 0.0
    for step in range(index.shape[0]):
        for family in range(index.shape[1]):
            cell = bounded_cell(channel, step, family, index[step, family])
            channel.report[cell] += bounded_value(value[step, family])


@kernel
def absorb(channel: Channel, user: int) -> None:
    """Server side: add the message of user `user` and release the sums of users 1..user."""
    for i in range(channel.totals.shape[0]):
        channel.totals[i] += channel.report[i]
    release(channel, user)


@kernel
def release(channel: Channel, user: int) -> None:
    """Server side: write the released sums of users 1..user, with tree noise if there is any."""
    if channel.node_scale > 0.0:
        release_prefix(channel.released, channel.totals, channel.noise, user, channel.node_scale, channel.server_key)


@kernel
def exchange(channel: Channel, index: Int64Array, value: Float64Array, user: int) -> None:
    """Encode and absorb in one call, bit for bit; a noiseless message is added where it is not zero."""
    if channel.report_scale > 0.0:
        encode(channel, index, value, user)
        absorb(channel, user)
        return
    for step in range(index.shape[0]):
        for family in range(index.shape[1]):
            cell = bounded_cell(channel, step, family, index[step, family])
            channel.totals[cell] += bounded_value(value[step, family])
    release(channel, user)


class Privatizer:
    """Turns users' contributions into private counts, and accounts for it.

    Args:
        request: what was asked for and what is claimed; only the certificate compares with it.
        trust_model: for ledger and certificate.
        families: what is counted.
        noise: scales, counter and error bounds, as a trust model decides them.
        streams: named random streams.
    """

    def __init__(
        self,
        request: PrivacyRequest,
        trust_model: TrustModel,
        families: CountFamilies,
        noise: "NoiseParts",
        streams: Streams,
    ) -> None:
        self.trust_model: TrustModel = trust_model
        self.families = families
        self.request = request
        self._noise = noise
        self._streams = streams
        self.channel = self._open_channel()
        self.ledger = Ledger(trust_model, self._releases())

    @property
    def guarantee(self) -> Guarantee:
        """What the noise proves (pure), as a Guarantee."""
        return Guarantee(self.trust_model, self.ledger.pure_epsilon())

    @property
    def n_users(self) -> int:
        """How many users' reports will be absorbed at most."""
        return self._noise.counter.n_items

    def encode(self, contribution: Contribution, user: int) -> Report:
        """User side: charge the ledger for user `user` (1-based), then make the message.

        Raises:
            LedgerError: if this user has submitted already.
            ValueError: if the contribution does not have one cell per step and family.
        """
        expected = (self.families.n_steps, len(self.families.families))
        if contribution.index.shape != expected or contribution.value.shape != expected:
            raise ValueError(
                f"a contribution has one cell per step and family, shape {expected}, "
                f"got {contribution.index.shape} and {contribution.value.shape}; fill every slot"
            )
        self.charge(user, user)
        encode(self.channel, contribution.index, contribution.value, user)
        return Report(user, self.channel.report.copy())

    def absorb(self, report: Report) -> PrivateCounts:
        """Server side: add a report and release the counts of all users so far."""
        self.channel.report[:] = report.values
        absorb(self.channel, report.user)
        return self.private_counts()

    def private_counts(self) -> PrivateCounts:
        """Return the counts released last (all zero before the first report)."""
        return issue_private_counts(self.families, self.channel.released.copy(), self.ledger.users_charged)

    def charge(self, first_user: int, last_user: int) -> None:
        """Charge the ledger for users first..last before the compiled loop lets them submit."""
        if last_user > self.n_users:
            raise ValueError(f"at most {self.n_users} users may submit, got user {last_user}; build for more episodes")
        self.ledger.charge(first_user, last_user)

    def precision(self, beta: float) -> Precision:
        """Return the error bounds E that hold with probability 1 - beta for every cell and episode."""
        return Precision(beta, self._noise.error_bounds(beta))

    def planned_ledger(self) -> Ledger:
        """Return the ledger of a whole run, computed from the same noise objects, nothing released."""
        ledger = Ledger(self.trust_model, self._releases())
        ledger.charge(1, self.n_users)
        return ledger

    def certificate(self, algorithm: str) -> Certificate:
        """Return the certificate of what was charged so far."""
        return certificate(self.ledger, self.request, algorithm)

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return all that changes in a run; draws are keyed by user, so there is no generator state."""
        return {
            "totals": self.channel.totals.copy(),
            "noise": self.channel.noise.copy(),
            "released": self.channel.released.copy(),
            "users_charged": np.array(self.ledger.users_charged),
        }

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        """Restore `state_dict`; a replayed user draws the same noise, so its release is the same release."""
        self.channel.totals[:] = state["totals"]
        self.channel.noise[:] = state["noise"]
        self.channel.released[:] = state["released"]
        self.ledger.users_charged = int(state["users_charged"])

    def _open_channel(self) -> Channel:
        n_cells = self.families.n_cells
        counter = self._noise.counter
        totals = np.zeros(n_cells)
        return Channel(
            offsets=self.families.offsets(),
            widths=np.array([family.width for family in self.families.families], dtype=np.int64),
            block=self.families.block,
            report_scale=self._noise.report_scale,
            node_scale=counter.node_scale,
            user_key=self._streams.key("user_noise"),
            server_key=self._streams.key("server_noise"),
            report=np.zeros(n_cells),
            totals=totals,
            noise=np.zeros((counter.noise_rows(), n_cells if counter.node_scale > 0 else 1)),
            released=np.zeros(n_cells) if counter.node_scale > 0 else totals,
        )

    def _releases(self) -> list[Release]:
        """Describe each family's release by the very scales that the kernels read."""
        scale = self.channel.report_scale or self.channel.node_scale
        return [
            Release(
                channel=family.name,
                mechanism=Laplace.name if scale > 0 else RAW,
                scale=scale,
                nodes_per_user=1 if self.channel.report_scale > 0 else self._noise.counter.nodes_per_item,
                changed_cells=self.families.changed_cells(),
                changed_l1_public_start=self.families.changed_l1_public_start(family),
                cells=self.families.n_steps * family.width,
                arithmetic=Laplace.arithmetic,
                entropy=self._streams.entropy,
            )
            for family in self.families.families
        ]


class NoiseParts(NamedTuple):
    """What a trust model decides: the user's Laplace scale (0: none), the server's counter, the error bounds."""

    report_scale: float
    counter: ExactCounter | BinaryTree
    error_bounds: ErrorBounds
