"""Kernels of counts: from a user's record to released counts, and the state of each side.

Compiled loops call `send_and_aggregate` and, before a plan, `release`. `encode` and `add_message` are the two sides
of a message, one user at a time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dprl.compiled import no_alloc_kernel, read_only
from dprl.privacy.base import Float64Array, Int64Array
from dprl.privacy.counters.base import EXACT, CounterState
from dprl.privacy.counters.release import release_prefix
from dprl.privacy.mechanisms.reports import choose_step
from dprl.privacy.mechanisms.sampling import NO_NOISE, Noise, fill_noise
from dprl.privacy.queries.base import RECEIVED, RELEASED, advance_received, advance_sent
from dprl.privacy.queries.count_layout import Slots, add_record, collect, one_hot_index
from dprl.privacy.randomness.bits import fill_uniform
from dprl.privacy.schedule import required_release

SUMS, ONE_STEP = range(2)
"""Kinds of messages: counts that are summed, or the bits of one step that was drawn."""


class CountChannel(NamedTuple):
    """The channel of counts.

    cursor int64[5]; slots: the encoding; n_steps: H; message float64[m]: the current message.

    Client's side: kind: of message, a code above; noise: added to sums, or the unary encoding; coins_key uint64[5]: of
    the coins that round values in [0, 1]; coins float64[n_steps * F]: those of one user.

    Server's side: shift, factor: a received bit counts as (bit - shift) * factor; totals float64[cells]: sums of
    messages; counter: its noise; noisy float64[cells]: the released sums of messages; needed float64[n_cells]: the
    families that the learner needs, read by `released_counts` only; times int64[n]: the schedule of releases, empty for
    one after every user.
    """

    cursor: Int64Array
    slots: Slots
    n_steps: int
    message: Float64Array
    kind: int
    noise: Noise
    coins_key: np.ndarray
    coins: Float64Array
    shift: float
    factor: float
    totals: Float64Array
    counter: CounterState
    noisy: Float64Array
    needed: Float64Array
    times: Int64Array

    def __repr__(self) -> str:
        return f"CountChannel({self.needed.shape[0]} cells, {self.cursor[RECEIVED]} users received)"


class Released(NamedTuple):
    """Private counts: all that a planner learns about users. Only `released_counts` makes it.

    values float64[n_cells]: the needed families, side by side in each step; they may be negative or fractional. users:
    number of counted episodes, k - 1 before episode k. new: number of those since the last plan.
    """

    values: Float64Array
    users: int
    new: int


@no_alloc_kernel
def released_counts(channel: CountChannel, new: int) -> Released:
    """Server side: return the counts of the last release; `new`: users since the last plan."""
    return Released(read_only(channel.needed), int(channel.cursor[RELEASED]), new)


@no_alloc_kernel
def _start(channel: CountChannel, index: Int64Array, value: Float64Array, user: int) -> None:
    """Client side: check a record and its turn, and draw the coins that round values in [0, 1] to bits, if any.

    Raises ValueError unless the record has one cell per step and family, LedgerError out of turn.
    """
    shape = (channel.n_steps, channel.slots.widths.shape[0])
    if index.shape != shape or value.shape != shape:
        raise ValueError("a record has one cell per step and family; fill every slot")
    advance_sent(channel.cursor, user)
    if channel.slots.tossed != 0:
        fill_uniform(channel.coins, channel.coins_key, np.uint64(user) * np.uint64(channel.coins.shape[0]))


@no_alloc_kernel
def encode(channel: CountChannel, index: Int64Array, value: Float64Array, user: int) -> None:
    """Client side: write user `user`'s (1-based) message into channel.message. Raises LedgerError.

    *Formal guarantee.* That of the client's law for any two records; without a law the message is the raw record, for a
    trusted server only. Draws are keyed by `user`: two messages of one user with different contents would share their
    noise, so every user sends one.

    Paper: [CZ22] sec. 5.2.
    """
    _start(channel, index, value, user)
    slots, message, noise = channel.slots, channel.message, channel.noise
    if channel.kind == SUMS:
        fill_noise(message, noise, np.uint64(user) * np.uint64(message.shape[0]))
        add_record(slots, message, index, value, channel.coins)
    else:
        step = choose_step(channel.coins_key, np.uint64(2**63) + np.uint64(user), channel.n_steps)
        message[0] = step
        hot = one_hot_index(slots, index, value, channel.coins, step)
        encoded = Noise(noise.law, noise.scale, float(hot), noise.key, noise.table, noise.draw)
        fill_noise(message[1:], encoded, np.uint64(user) * np.uint64(slots.block))


@no_alloc_kernel
def release(channel: CountChannel) -> None:
    """Server side: write the released sums of all users received so far, with the counter's noise if there is any.

    Raises LedgerError if the schedule has no release here, for which the counter has no noise.
    """
    received = channel.cursor[RECEIVED]
    number = required_release(channel.times, received)
    if (channel.counter.kind != EXACT or channel.times.shape[0] > 0) and received > 0:
        release_prefix(channel.noisy, channel.totals, channel.counter, number)
    if channel.slots.one_hot != 0:
        collect(channel.needed, channel.noisy, channel.slots)
    channel.cursor[RELEASED] = received


@no_alloc_kernel
def add_message(channel: CountChannel) -> None:
    """Server side: add the current message to the sums, which stay on the server. Raises LedgerError.

    Paper: [CZ22] sec. 5.2.
    """
    advance_received(channel.cursor)
    totals, message, slots = channel.totals, channel.message, channel.slots
    if channel.kind == SUMS:
        for i in range(totals.shape[0]):
            totals[i] += message[i]
    else:
        start = min(max(int(message[0]), 0), channel.n_steps - 1) * slots.stride
        for i in range(slots.block):
            totals[start + i] += (message[i + 1] - channel.shift) * channel.factor


@no_alloc_kernel
def send_and_aggregate(channel: CountChannel, index: Int64Array, value: Float64Array, user: int) -> None:
    """Encode and add a record in one call, with the same bits; of a noiseless message only non-zeros are added.

    Counts must not be read before the next `release`. Learners plan on a schedule, which may depend on earlier releases
    but on no other data of users. Without a schedule of releases, later ones are bit for bit those of a run that
    releases after every user.

    *Formal guarantee.* That of `encode` and `release`: every user is charged, because some prefixes are a function of
    all of them.
    """
    if channel.kind != SUMS or channel.noise.law != NO_NOISE:
        encode(channel, index, value, user)
        add_message(channel)
    else:
        _start(channel, index, value, user)
        advance_received(channel.cursor)
        add_record(channel.slots, channel.totals, index, value, channel.coins)
