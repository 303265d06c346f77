"""Gradients of agents: each agent sends clipped gradients, up to a cap.

There is noise on every message, or a trusted server adds noise to the sum of a window of messages: independent noise,
or that of a counter, which releases running sums of windows. Then the update of a window is the difference of two
consecutive releases, so its noise is Z_t - Z_(t-1), where Z_t is the noise of the counter's release t (DP-FTRL). Errors
of updates cancel in their sum, and so in the parameters.

Compiled loops call `submit` and `receive`, one message at a time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self

import numpy as np

from dprl.compiled import no_alloc_kernel, shows_numbers
from dprl.privacy.base import Float64Array, Int64Array, LedgerError, TrustModel
from dprl.privacy.counters import COUNTERS, AnyCounter
from dprl.privacy.counters.base import CounterState
from dprl.privacy.counters.release import release_prefix
from dprl.privacy.mechanisms import vectors
from dprl.privacy.mechanisms.base import NODE
from dprl.privacy.mechanisms.sampling import fill_noise
from dprl.privacy.mechanisms.vectors import ClippedGaussian, ClippedLaplace, RawVector, VectorMechanism, VectorNoise
from dprl.privacy.noise_design import Release
from dprl.privacy.queries.base import RECEIVED, RELEASED, SENT, Query, advance_received, advance_sent, new_cursor
from dprl.privacy.randomness.streams import Streams, noise_identity
from dprl.privacy.threat_models import RAW_SCORES, ThreatModel, of_model

_LARGEST_SUM = 2**52


@shows_numbers
class _Window(NamedTuple):
    """Window of messages: a trusted server releases their sum with noise when it is full.

    size: submissions of a window; total float64[d]: sum of the current window; counter: None for independent noise.
    With a counter, for correlated noise, `total` is in units of the grid, before float64[d] is the noise of the
    counter's item held[0], held int64[1], and zeros float64[d].
    """

    size: int
    total: Float64Array
    held: Int64Array
    counter: CounterState | None
    before: Float64Array
    zeros: Float64Array


class GradientChannel(NamedTuple):
    """The channel of gradients.

    cursor int64[5]; noise: the randomizer; window: the server's side; message float64[m]: the current message.
    """

    cursor: Int64Array
    noise: VectorNoise
    window: _Window | None
    message: Float64Array

    def __repr__(self) -> str:
        return f"GradientChannel({self.noise.dimension} numbers, {self.cursor[SENT]} submissions sent)"


@no_alloc_kernel
def submit(channel: GradientChannel, gradient: Float64Array, submission: int) -> None:
    """Client side: send the message of submission `submission` (from 1 on) for `gradient` float64[d].

    Raises LedgerError unless the submission is charged and is the next one to send.

    *Formal guarantee.* That of the mechanism; only the message leaves the agent's side here. With a window of a trusted
    server it is the clipped gradient, for that server only: see `receive`.
    Paper: [OT20] Algorithms 2 and 3.
    """
    advance_sent(channel.cursor, submission)
    _write(channel.window, channel, gradient, submission)


@no_alloc_kernel
def _write(window: _Window | None, channel: GradientChannel, gradient: Float64Array, submission: int) -> None:
    """Write the message. `window` is an argument so that without one no code for windows is compiled."""
    if window is not None:
        vectors.fill_shrunk(channel.message, gradient, channel.noise)
    else:
        vectors.fill_message(channel.message, gradient, channel.noise, submission)


@no_alloc_kernel
def receive(channel: GradientChannel, out: Float64Array) -> None:
    """Server side: write the estimate of the gradient into `out` float64[d].

    With a window, `out` is the noisy sum of the window's gradients for its last message, and 0 for all others.
    Raises LedgerError unless a message was sent and not yet received.

    *Formal guarantee.* Post-processing of messages with noise. With a window of a trusted server the noise is that of
    the law, drawn once for each window: one submission is in one window and changes its sum by at most the diameter of
    the clip, which the law hides.
    """
    advance_received(channel.cursor)
    _read(channel.window, channel, out)


@no_alloc_kernel
def _read(window: _Window | None, channel: GradientChannel, out: Float64Array) -> None:
    """`receive`; `window` is an argument as in `_write`."""
    if window is not None:
        _add_to_window(window.counter, window, channel, out)
    else:
        vectors.fill_estimate(out, channel.message, channel.noise)


@no_alloc_kernel
def estimate_all(out: Float64Array, values: Float64Array, noise: VectorNoise) -> None:
    """Server side: write the estimates float64[k, d] of messages float64[k, m]; post-processing."""
    for i in range(out.shape[0]):
        vectors.fill_estimate(out[i], values[i], noise)


# ---- a trusted server's windows ----


@no_alloc_kernel
def _add_to_window(counter: CounterState | None, window: _Window, channel: GradientChannel, out: Float64Array) -> None:
    """Server side: add the current message to its window; release the sum if it is full, else write zeros.

    `counter` is an argument so that without one no counter is compiled.
    """
    total, noise, cursor = window.total, channel.noise, channel.cursor
    message, received = channel.message, cursor[RECEIVED]
    unit = noise.grid if counter is not None and noise.grid > 0.0 else 1.0
    out[:] = 0.0
    for i in range(total.shape[0]):
        total[i] += message[i] / unit
    if received % window.size == 0:
        if counter is not None:
            _release_item(counter, window, unit, cursor[RELEASED] // window.size, received // window.size, out)
        else:
            _release_total(total, noise, received, out)
        cursor[RELEASED] = received


@no_alloc_kernel
def _release_total(total: Float64Array, noise: VectorNoise, last: int, out: Float64Array) -> None:
    """Write a full window's total with noise into `out` float64[d], and clear it.

    last: its last submission; it is in no other window, so no noise is drawn twice, even after a crash.
    """
    fill_noise(out, noise.noise, np.uint64(last) * np.uint64(noise.draws))
    unit = noise.grid if noise.grid > 0.0 else 1.0
    for i in range(total.shape[0]):
        out[i] = unit * out[i] + total[i]
        total[i] = 0.0


@no_alloc_kernel
def _add_clipped(
    total: Float64Array, message: Float64Array, noise: VectorNoise, values: Float64Array, unit: float
) -> None:
    """Add whole messages float64[k, d] to `total` float64[d], in units of `unit`; message float64[d]: workspace.

    They are clipped again, because a faulty client could send anything.
    """
    for i in range(values.shape[0]):
        vectors.fill_shrunk(message, values[i], noise)
        for j in range(total.shape[0]):
            total[j] += message[j] / unit


@no_alloc_kernel
def release_sum(
    total: Float64Array, message: Float64Array, noise: VectorNoise, values: Float64Array, last: int, out: Float64Array
) -> None:
    """Server side: write the noisy sum of whole messages float64[k, d], clipped again, into `out` float64[d].

    total, message float64[d]: workspace, `total` with zeros. last: number of the noise, used only once.

    *Formal guarantee.* Replacing a message changes the sum by at most the diameter of the clip, and leaving one out by
    at most its radius; the noise is that of the law, drawn once.
    """
    _add_clipped(total, message, noise, values, 1.0)
    _release_total(total, noise, last, out)


@no_alloc_kernel
def _release_item(
    counter: CounterState, window: _Window, unit: float, previous: int, item: int, out: Float64Array
) -> None:
    """Write the window's total plus Z(item) - Z(previous), the noise of two prefixes of the counter; clear the total.

    *Formal guarantee.* That of the counter for the rows that windows are at their items, and zero at all others: one
    message is in one row and changes it by at most the diameter of the clip. `out` is the difference of the releases of
    the two prefixes if items increase, because no row is between them. After a crash items go on after the last charged
    submission, so no item has two different rows, also if the noise is that of the same seed.
    """
    total, before = window.total, window.before
    if window.held[0] != previous:
        release_prefix(before, window.zeros, counter, previous)
    release_prefix(out, window.zeros, counter, item)
    window.held[0] = item
    for i in range(total.shape[0]):
        change, before[i] = out[i] - before[i], out[i]
        out[i] = unit * (total[i] + change)
        total[i] = 0.0


# ---- the query ----


@dataclass(frozen=True)
class GradientLayout:
    """Sizes of gradients, and their use.

    >>> GradientLayout(dimension=130, window=50, paper=False).window
    50

    Args:
        dimension: d, of the gradients. window: B >= 1, number of gradients per update.
        left_open: other channels that the algorithm leaves open, in words for the certificate.
        draws: whether the algorithm lets a server draw the users of each round, see `SampledGradientQuery`.
        paper: whether settings that are left out are those of [OT20]; otherwise the least noise known.
    """

    dimension: int
    window: int = 1
    left_open: tuple[str, ...] = ()
    draws: bool = False
    paper: bool = True

    def __post_init__(self) -> None:
        if min(self.dimension, self.window) < 1:
            raise ValueError(f"dimension and window must be at least 1, got {self.dimension} and {self.window}")


@dataclass(frozen=True)
class GradientQuery(Query):
    """The gradient of an agent's episode.

    *Formal guarantee.* That of the law. With a counter, that of the counter for rows that change by the diameter C of
    the clip in the L2 norm: one user is in one row, and later rows depend on released sums only. With Gaussian nodes
    all releases together are mu-GDP, mu = C times the largest column norm of the counter's factor / sigma, and so are
    the parameters.

    Args:
        law: randomizes the gradient; RawVector sends it without noise.
        release_scores: 'simulator': raw scores are read; 'none': they are not.
        left_open: other channels that the algorithm leaves open, in words for the certificate.
        window: number of gradients that a trusted server sums before it adds the law's noise; 0 if agents add it.
        counter: releases running sums of windows, with the noise of `law` on its nodes, and an item for each full
            window; None for independent noise.

    Raises LedgerError for a trusted server's window without additive noise; for another value of `release_scores`; for
    a counter with another law than clipped_gaussian, other noise on the nodes, or sums too large for exact arithmetic.
    """

    law: VectorMechanism | RawVector
    release_scores: str = "simulator"
    left_open: tuple[str, ...] = ()
    window: int = 0
    counter: AnyCounter | None = None
    name: ClassVar[str] = "gradients"
    adds_up_messages: ClassVar[bool] = True  # noise of a window is numbered by its submissions

    def __post_init__(self) -> None:
        if self.release_scores not in ("simulator", "none"):
            raise LedgerError(f"release_scores must be simulator or none, got {self.release_scores!r}; correct it")
        if self.window < 0:
            raise LedgerError(f"window must be at least 0, got {self.window}; 0 is for messages with own noise")
        if self.window and not isinstance(self.law, ClippedGaussian | ClippedLaplace):
            raise LedgerError("a server releases sums of clipped gradients with additive noise; leave out the window")
        law, counter = self.law, self.counter
        if counter is None:
            return
        if not isinstance(law, ClippedGaussian) or not self.window:
            raise LedgerError(f"correlated noise is on sums of clipped_gaussian of a trusted server, got {law.name}")
        if type(counter) not in COUNTERS.values() or counter.node != law.additive:
            raise LedgerError(f"the counter must be one of COUNTERS with the noise of the law, got {counter}")
        if law.grid and counter.place != NODE:
            raise LedgerError(f"the counter must keep whole numbers with noise on a grid, got {counter.name}")
        if law.grid and counter.n_items * self.window * law.radius_units > _LARGEST_SUM:
            raise LedgerError(f"sums must be below {_LARGEST_SUM} units of the grid, got {self}; take fewer users")

    @property
    def dimension(self) -> int:
        """d, of the gradients."""
        return self.law.dimension

    @property
    def noisy_sides(self) -> tuple[bool, bool]:
        noisy, server = not isinstance(self.law, RawVector), bool(self.window)
        return noisy and not server, noisy and server

    @property
    def identity(self) -> str:
        window = f"|window {self.window}" if self.window else ""
        # The last two parts are constants: with others, a seed would draw other noise.
        counter = "" if self.counter is None else f"|{noise_identity(self.counter)}"
        return f"gradients|{noise_identity(self.law, None, math.inf)}{window}{counter}"

    @property
    def counted_users(self) -> int | None:
        """Number of users who fill less than one window more than the counter has items."""
        return None if self.counter is None else (self.counter.n_items + 1) * self.window - 1

    def check_run(self, n_users: int, submissions: int) -> None:
        """Raise unless every user is at most once in a window, because its noise hides one gradient per user."""
        super().check_run(n_users, submissions)
        if submissions > 1 and self.window > n_users:
            raise LedgerError(f"window must be at most n_users, {n_users}, got {self.window}; lower it, or submissions")

    @property
    def noise_norm(self) -> float:
        """Root mean squared norm of the noise of a release, an upper bound; with a counter, over all running sums."""
        return self.law.noise_norm * (1.0 if self.counter is None else self.counter.errors()[0])

    def events(self, entropy: str) -> tuple[Release, ...]:
        """Return the releases of one submission; with a counter, of all running sums together."""
        counter, clipped = self.counter, self.law
        if counter is not None and isinstance(clipped, ClippedGaussian):
            line = f"two clipped gradients differ by at most C = {clipped.clip:g} in L2, and a user is in one update"
            channel, row, d = "running sums of gradients", clipped.sensitivity, clipped.dimension
            return (Release(channel, counter.node, row, False, d, entropy, counter, row_line=line),)
        law = None if isinstance(self.law, RawVector) else self.law
        return (Release("gradient", law, None, True, self.law.message_length, entropy),)

    def threat_model(self, model: TrustModel, submissions: int) -> ThreatModel:
        found = of_model(self.name, model)
        if submissions > 1:
            found = replace(found, unit=f"one agent, who sends at most {submissions} messages")
        if model != "none":
            scores = (RAW_SCORES,) if self.release_scores == "simulator" else ()
            found = found.excluding(*scores, *self.left_open, first=True)
        if self.counter is None:
            return found
        n, name = self.counter.n_items, self.counter.name
        running = f"running sums of gradients after each of {n:,} updates, by the counter {name}"
        return replace(found, covered=(running, *found.covered))

    def open(self, streams: Streams) -> GradientChannel:
        """Return the channel before the first submission; with entropy `os` a counter's noise cannot be repeated."""
        window, counter, d = None, None, self.dimension
        if self.window:
            if self.counter is not None:
                counter = self.counter.open(d, streams.key("server_noise", self.identity))
            held, size = np.zeros(1, dtype=np.int64), 0 if counter is None else d
            window = _Window(self.window, np.zeros(d), held, counter, np.zeros(size), np.zeros(size))
        noise = self.law.vector_noise(streams.key("user_noise", self.identity))
        return GradientChannel(new_cursor(), noise, window, np.zeros(self.law.message_length))

    def changing(self, channel: GradientChannel) -> dict[str, np.ndarray]:
        """Return the sum of the current window and the counter's noise; both stay with the server."""
        window = channel.window
        if window is None:
            return {}
        if window.counter is None:
            return {"window": window.total}
        return {"window": window.total, "before": window.before, "item": window.held, **window.counter.changing}

    @property
    def client_side(self) -> Self:
        return replace(self, counter=None)

    def check_record(self, record: Float64Array) -> None:
        array = np.asarray(record)
        if array.shape != (self.dimension,) or array.dtype.kind not in "iuf":
            rule = f"a gradient must have shape ({self.dimension},)"
            raise ValueError(f"{rule}, got {array.shape} or no numbers; send one each time")

    def send(self, channel: GradientChannel, record: Float64Array, user: int) -> None:
        submit(channel, np.ascontiguousarray(record, dtype=np.float64), user)

    def receive_values(self, channel: GradientChannel, values: Float64Array) -> Float64Array:
        """Server side: return the content of a message from another process; a trusted server clips it again first."""
        out = np.zeros((1, self.dimension))
        if self.noisy_sides[1]:
            vectors.fill_shrunk(channel.message, values, channel.noise)
        else:
            channel.message[:] = values
        receive(channel, out[0])
        if not self.window:
            channel.cursor[RELEASED] = channel.cursor[RECEIVED]
        return out

    def check_read(self, channel: GradientChannel, messages: Float64Array, last: int) -> None:
        """Raise LedgerError for another length, for fewer messages than a window, and unless a counter's items rise.

        They rise also over those that were charged before a crash.
        """
        length = self.law.message_length
        if messages.shape[1:] != (length,):
            raise LedgerError(f"a message has {length} numbers, got {messages.shape[1:]}; send it again")
        if channel.window is not None and len(messages) != self.window:
            raise LedgerError(f"a sum is of {self.window} messages, got {len(messages)}; wait for all of them")
        if channel.window is not None and channel.window.counter is not None:
            item, previous = last // self.window, self._previous_item(channel, channel.window)
            if item <= previous:
                told = f"sums are released in the order of their users, got item {item} after {previous}"
                raise LedgerError(f"{told}; wait for the others")

    def _previous_item(self, channel: GradientChannel, window: _Window) -> int:
        return max(int(window.held[0]), int(channel.cursor[RELEASED]) // self.window)

    def read(self, channel: GradientChannel, messages: Float64Array, last: int) -> Float64Array:
        """Return the estimates float64[k, d] of messages float64[k, m] that `check_read` takes; post-processing.

        A trusted server takes a whole window: the last estimate is the noisy sum, the others are 0. With a counter the
        sum is item number `last` // window, with `last` the largest number of a submission.
        """
        gradients, values = np.zeros((len(messages), self.dimension)), np.ascontiguousarray(messages)
        window, noise = channel.window, channel.noise
        if window is None:
            estimate_all(gradients, values, noise)
        elif window.counter is None:
            release_sum(window.total, channel.message, noise, values, last, gradients[-1])
        else:
            item, unit = last // self.window, noise.grid or 1.0
            previous = self._previous_item(channel, window)
            _add_clipped(window.total, channel.message, noise, values, unit)
            _release_item(window.counter, window, unit, previous, item, gradients[-1])
        return gradients
