"""Gradients with correlated noise (DP-FTRL): a trusted server releases running sums of windows by a counter.

The update of a window is the difference of two consecutive releases, so its noise is Z_t - Z_(t-1), where Z_t is the
noise of the counter's release t. Errors of updates cancel in their sum, and so in the parameters.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from dprl.privacy.base import Float64Array, LedgerError, TrustModel
from dprl.privacy.channel import RELEASED
from dprl.privacy.counters import COUNTERS, AnyCounter, BinaryTree
from dprl.privacy.counters.base import Tree
from dprl.privacy.mechanisms.gradients import ClippedGaussian
from dprl.privacy.noise_design import Release
from dprl.privacy.queries.gradient_windows import release_counted_sum
from dprl.privacy.queries.gradients import GradientChannel, GradientQuery
from dprl.privacy.randomness.streams import Streams, noise_identity
from dprl.privacy.threat_models import ThreatModel

_LARGEST_SUM = 2**52


@dataclass(frozen=True)
class CorrelatedGradientQuery(GradientQuery):
    """Gradients in windows, the rows of a counter; the server releases the counter's noisy running sums.

    *Formal guarantee.* That of the counter for rows that change by the diameter C of the clip in the L2 norm: one user
    is in one row, and later rows depend on released sums only. With Gaussian nodes all releases together are mu-GDP,
    mu = C times the largest column norm of the counter's factor / sigma, and so are the parameters.

    Args:
        counter: one with the noise of `law` on its nodes, and an item for each full window.

    Raises LedgerError for another law than clipped_gaussian, other noise on the nodes, or sums too large for exact
    arithmetic.

    Paper: Kairouz, McMahan, Song, Thakkar, Thakurta, Xu 2021 (DP-FTRL).
    """

    counter: AnyCounter = field(default_factory=lambda: BinaryTree(1))

    def __post_init__(self) -> None:
        super().__post_init__()
        law, counter = self.law, self.counter
        if not isinstance(law, ClippedGaussian) or not self.window:
            raise LedgerError(f"correlated noise is on sums of clipped_gaussian of a trusted server, got {law.name}")
        if type(counter) not in COUNTERS.values() or counter.node != law.additive:
            raise LedgerError(f"the counter must be one of COUNTERS with the noise of the law, got {counter}")
        if law.grid and not isinstance(counter, Tree):
            raise LedgerError(f"the counter must keep whole numbers with noise on a grid, got {counter.name}")
        if law.grid and counter.n_items * self.window * law.radius_units > _LARGEST_SUM:
            raise LedgerError(f"sums must be below {_LARGEST_SUM} units of the grid, got {self}; take fewer users")

    @property
    def identity(self) -> str:
        """Text that identifies record, noise and counter."""
        return f"{super().identity}|{noise_identity(self.counter)}"

    @property
    def noise_norm(self) -> float:
        """Root mean squared norm of the noise of a released running sum, over all releases."""
        return self.law.noise_norm * self.counter.errors()[0]

    @property
    def counted_users(self) -> int:
        """Number of users who fill less than one window more than the counter has items."""
        return (self.counter.n_items + 1) * self.window - 1

    def events(self, entropy: str) -> tuple[Release, ...]:
        """Return the release of all running sums together."""
        law, counter = self.law, self.counter
        if not isinstance(law, ClippedGaussian):  # __post_init__ refuses others
            raise LedgerError(f"law must be clipped_gaussian, got {law.name}")
        channel = "running sums of gradients"
        line = f"two clipped gradients differ by at most C = {law.clip:g} in L2, and a user is in one update"
        row = law.sensitivity
        return (Release(channel, counter.node, row, False, law.dimension, entropy, counter, row_line=line),)

    def threat_model(self, model: TrustModel, submissions: int) -> ThreatModel:
        """Return the threat model, with the counter among the covered channels."""
        found, n = super().threat_model(model, submissions), self.counter.n_items
        running = f"running sums of gradients after each of {n:,} updates, by the counter {self.counter.name}"
        return replace(found, covered=(running, *found.covered))

    def open(self, streams: Streams) -> GradientChannel:
        """Return the channel before the first submission; with entropy `os` its noise cannot be repeated."""
        channel = super().open(streams)
        counter = self.counter.open(self.dimension, streams.key("server_noise", self.identity))
        before, zeros = np.zeros(self.dimension), np.zeros(self.dimension)
        window = (
            None if channel.window is None else channel.window._replace(counter=counter, before=before, zeros=zeros)
        )
        return channel._replace(window=window)

    def changing(self, channel: GradientChannel) -> dict[str, np.ndarray]:
        """Return the sum of the current window and the counter's noise; both stay on the server."""
        window = channel.window
        if window is None:
            return {}
        kept = {} if window.counter is None else window.counter.changing
        return {"window": window.total, "before": window.before, "item": window.held, **kept}

    def _release(self, channel: GradientChannel, messages: Float64Array, last: int, out: Float64Array) -> None:
        """Server side: release the messages of a window as the counter's item number `last` // window.

        Raises LedgerError unless items increase, also over those that were charged before a crash.
        """
        window = channel.window
        if window is None or window.counter is None:
            raise LedgerError(
                "correlated noise needs the counter of its channel, got none; open the channel of this query"
            )
        previous = max(int(window.held[0]), int(channel.cursor[RELEASED]) // self.window)
        item = last // self.window
        if item <= previous:
            raise LedgerError(
                f"sums are released in the order of their users, got item {item} after {previous}; wait for the others"
            )
        release_counted_sum(window.counter, window, channel.message, channel.noise, messages, previous, item, out)
