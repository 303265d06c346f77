"""Kernels of a message of linear statistics: from a user's features and targets to the server's sums.

Compiled loops call `send_statistics` and then `add_statistics` or, for a user without a release after it,
`aggregate_statistics`, one user at a time.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dprl.compiled import no_alloc_kernel
from dprl.privacy.base import Float64Array, Int64Array
from dprl.privacy.counters.base import CounterState
from dprl.privacy.counters.release import release_prefix
from dprl.privacy.mechanisms.clipping import L2, MOST, fill_clipped
from dprl.privacy.mechanisms.gram import add_gram, clip_features, clip_value, finish_gram
from dprl.privacy.mechanisms.sampling import Noise, fill_noise
from dprl.privacy.mechanisms.vectors import VectorNoise, fill_noisy
from dprl.privacy.queries.base import RECEIVED, RELEASED, SENT, advance_received, advance_sent
from dprl.privacy.schedule import required_release

PUBLIC, NOISY, OPEN, CLIPPED = range(4)
"""Treatment of the rewards' corrections: not sent, sent with noise, sent as they are, sent clipped without noise."""


class StatisticsChannel(NamedTuple):
    """The channel of statistics.

    cursor int64[5]; message float64[m]: the current one, with the stages of each of the M in order, then the
    corrections; n_messages: M; length: D (D + 3) / 2; bounds float64[H]: m_h, 0 for stages that are not sent; rewards:
    treatment of the rewards' corrections, a code above.

    Client's side: clips: whether the device clips; feature float64[D]: workspace; noise: of scale 1, or none;
    factors float64[H, 2]: of the draws of a stage, on and off the diagonal; radius, norm: of the ball into which each
    correction is clipped; reward_noise: of all corrections as one vector; clipped float64[n H, p]: workspace.

    Side of a trusted server, arrays of length 0 without one: counter: its noise; units float64[m]: the counter's unit
    of each number of a message; totals, noisy float64[m]: sums in these units without and with noise;
    released float64[m]: the noisy sums of the last release; times int64[n]: the schedule of releases, empty for one
    after every user.
    """

    cursor: Int64Array
    message: Float64Array
    n_messages: int
    length: int
    bounds: Float64Array
    rewards: int
    clips: bool
    feature: Float64Array
    noise: Noise
    factors: Float64Array
    radius: float
    norm: int
    reward_noise: VectorNoise
    clipped: Float64Array
    counter: CounterState
    units: Float64Array
    totals: Float64Array
    noisy: Float64Array
    released: Float64Array
    times: Int64Array

    def __repr__(self) -> str:
        # Workspace and message hold users' data.
        return f"StatisticsChannel({self.message.shape[0]} numbers, {self.cursor[SENT]} users sent)"


@no_alloc_kernel
def send_statistics(
    channel: StatisticsChannel, features: Float64Array, targets: Float64Array, corrections: Float64Array, user: int
) -> None:
    """Client side: make the message of `user` (from 1 on), the only output of the user's side here.

    If the noise is on the server's side, the message is for a trusted server only.

    features: float64[M, H, D], phi of the visited state and action; targets: float64[M, H], V at the next state;
    corrections: float64[n, H, p], (r_i - <psi, w_i>) psi, read unless rewards are public. Numbers that are not finite
    count as 0. Stages of bound 0 are not sent.

    Raises LedgerError unless the user is charged and is the next one to send; ValueError for other shapes.

    *Formal guarantee.* That of the query's mechanisms, for any two inputs of the user; see their classes.

    Paper: [TH23] Algorithm 1.
    """
    _check_shapes(channel, features, targets, corrections)
    advance_sent(channel.cursor, user)
    length, n_stages = channel.length, channel.bounds.shape[0]
    wide = channel.message.shape[0] - _corrections_sent(channel)
    fill_noise(channel.message[:wide], channel.noise, np.uint64(user) * np.uint64(wide))
    place = 0
    for m in range(channel.n_messages):
        for h in range(n_stages):
            bound = channel.bounds[h]
            if bound > 0.0:
                clip_features(channel.feature, features[m, h], bound, channel.clips)
                target = clip_value(targets[m, h], bound, channel.clips)
                factors = channel.factors[h]
                finish_gram(channel.message[place : place + length], channel.feature, target, factors[0], factors[1])
                place += length
    _send_corrections(channel, channel.message[wide:], corrections, user)


@no_alloc_kernel
def add_statistics(
    channel: StatisticsChannel, matrices: Float64Array, vectors: Float64Array, corrections: Float64Array
) -> None:
    """Server side: add the current message to sums, and write its corrections.

    A trusted server adds it to its own totals and releases them with noise: the sums are overwritten, and the
    corrections are the difference from the last release.

    matrices: float64[M, H, D, D], only the upper triangle and the diagonal are changed; vectors: float64[M, H, D];
    corrections: float64[n, H, p], overwritten; unchanged if rewards are public. Stages of bound 0 are unchanged.

    Raises LedgerError without a message to receive, or if a schedule has no release here; ValueError for other shapes.

    *Formal guarantee.* Post-processing of messages with noise; else that of the counter, for all releases together.
    """
    aggregate_statistics(channel, matrices, vectors, corrections)
    if channel.totals.shape[0] == 0:
        return
    # The release takes the message's place: noisy sums of Gram matrices, and the growth of those of corrections.
    message, received = channel.message, channel.cursor[RECEIVED]
    release_prefix(channel.noisy, channel.totals, channel.counter, required_release(channel.times, received))
    wide = message.shape[0] - _corrections_sent(channel)
    for i in range(message.shape[0]):
        released = channel.noisy[i] * channel.units[i]
        message[i] = released if i < wide else released - channel.released[i]
        channel.released[i] = released
    channel.cursor[RELEASED] = received
    _read_message(channel, matrices, vectors, corrections, True)


@no_alloc_kernel
def aggregate_statistics(
    channel: StatisticsChannel, matrices: Float64Array, vectors: Float64Array, corrections: Float64Array
) -> None:
    """Server side: add the current message without a release; messages with their own noise are added to the sums.

    A trusted server leaves the sums of its last release unchanged, and writes zeros for the corrections: those of this
    user are in its next release.

    Raises LedgerError without a message to receive; ValueError for other shapes.

    *Formal guarantee.* That of `add_statistics`, and charged like it.
    """
    _check_shapes(channel, vectors, vectors[:, :, 0], corrections)
    if matrices.shape[:3] != vectors.shape or matrices.shape[3] != vectors.shape[2]:
        raise ValueError("matrices must be of the features' shape, and square")
    advance_received(channel.cursor)
    if channel.totals.shape[0] == 0:
        _read_message(channel, matrices, vectors, corrections, False)
        return
    totals, message, units = channel.totals, channel.message, channel.units
    for i in range(message.shape[0]):
        totals[i] += message[i] / units[i]
    if channel.rewards != PUBLIC:
        corrections[...] = 0.0


@no_alloc_kernel
def _read_message(
    channel: StatisticsChannel,
    matrices: Float64Array,
    vectors: Float64Array,
    corrections: Float64Array,
    anew: bool,
) -> None:
    """Add the Gram matrices in channel.message to the sums, which may be reset first, and write its corrections."""
    length, n_stages = channel.length, channel.bounds.shape[0]
    place = 0
    for m in range(channel.n_messages):
        for h in range(n_stages):
            if channel.bounds[h] > 0.0:
                if anew:
                    matrices[m, h] = 0.0
                    vectors[m, h] = 0.0
                add_gram(matrices[m, h], vectors[m, h], channel.message[place : place + length])
                place += length
    if channel.rewards != PUBLIC:
        flat = corrections.reshape(corrections.size)
        for i in range(flat.shape[0]):
            flat[i] = channel.message[place + i]


@no_alloc_kernel
def _check_shapes(
    channel: StatisticsChannel, features: Float64Array, targets: Float64Array, corrections: Float64Array
) -> None:
    """Raise ValueError for arrays of other shapes; shapes are public."""
    expected = (channel.n_messages, channel.bounds.shape[0], channel.feature.shape[0])
    if features.shape != expected or targets.shape != expected[:2]:
        raise ValueError("features and targets must be of the layout's shape; there is one for each message and stage")
    rows, p = channel.clipped.shape
    if channel.rewards != PUBLIC:
        n, n_stages, width = corrections.shape
        if n * n_stages != rows or width != p:
            raise ValueError("corrections must be of the layout's shape; there is one for each agent and stage")


@no_alloc_kernel
def _corrections_sent(channel: StatisticsChannel) -> int:
    """Return the number of the rewards' corrections in a message."""
    return 0 if channel.rewards == PUBLIC else channel.clipped.size


@no_alloc_kernel
def _send_corrections(channel: StatisticsChannel, message: Float64Array, corrections: Float64Array, user: int) -> None:
    """Write the corrections to their part of the message: clipped one by one, unchanged, or not at all."""
    if channel.rewards == PUBLIC:
        return
    flat = corrections.reshape(corrections.size)
    if channel.rewards == OPEN:
        # D6
        for i in range(flat.shape[0]):
            message[i] = flat[i]
        return
    # Every correction is shrunk into the ball of that radius; numbers that are not finite count as 0.
    radius, norm = channel.radius, channel.norm
    n_rows, p = channel.clipped.shape
    for row in range(n_rows):
        out, total = channel.clipped[row], 0.0
        for j in range(p):
            x = flat[row * p + j]
            out[j] = x if abs(x) < math.inf else 0.0
            total += out[j] * out[j] if norm == L2 else abs(out[j])
        size = math.sqrt(total) if norm == L2 else total
        if size > MOST:
            fill_clipped(out, flat[row * p : (row + 1) * p], radius, norm)
        elif size > radius:
            for j in range(p):
                out[j] *= radius / size
    clipped = channel.clipped.reshape(channel.clipped.size)
    if channel.rewards == CLIPPED:
        for i in range(clipped.shape[0]):
            message[i] = clipped[i]
    else:
        fill_noisy(message, clipped, channel.reward_noise, np.uint64(user) * np.uint64(channel.reward_noise.draws))
