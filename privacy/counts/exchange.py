"""From a user's device to the released counts: the kernels on either side of a message, and the state of each side.

`exchange` is what compiled learning loops call, or `exchange_unreleased` for a user after whom nobody reads; `encode`
and `absorb` are the two sides, one user at a time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dprl.compiled import inlined, no_alloc_kernel
from dprl.privacy.base import Float64Array, Int64Array, LedgerError
from dprl.privacy.counters.base import EXACT, CounterState
from dprl.privacy.counters.release import release_prefix
from dprl.privacy.counts.layouts import Slots, add_contribution, collect, hot_cell
from dprl.privacy.mechanisms.base import NO_NOISE, Noise
from dprl.privacy.mechanisms.sampling import fill_noise
from dprl.privacy.mechanisms.unary_encoding import choose_step, fill_unary
from dprl.privacy.randomness.bits import fill_uniform

ABSORBED, ENCODED, SENT, RELEASED, CHARGED = range(5)
# What a message is.
SUMS, UNARY, SAMPLED_UNARY = range(3)


class Sender(NamedTuple):
    """The user's side.

    kind: one of the codes above; noise: added to sums, and whose key unary encodings use; table uint64[n]: of the
    unary coins; coins_key uint64[5]: of the coins that values in [0, 1] become; coins float64[n_steps * F]: those of
    one user; message float64[n]: the message under way.
    """

    kind: int
    noise: Noise
    table: np.ndarray
    coins_key: np.ndarray
    coins: Float64Array
    message: Float64Array

    def __repr__(self) -> str:
        # The generated one would print a message into a log.
        return f"Sender(kind={self.kind}, {self.message.shape[0]} numbers)"


class Receiver(NamedTuple):
    """The server's side.

    shift, factor: a received bit counts as (bit - shift) * factor; totals float64[cells]: sums of messages; settled
    float64[cells]: the same as of the last release, once further users are absorbed (empty without a counter's noise);
    counter: its noise; noisy float64[cells]: the released sums of what was sent.
    """

    shift: float
    factor: float
    totals: Float64Array
    settled: Float64Array
    counter: CounterState
    noisy: Float64Array

    def __repr__(self) -> str:
        return f"Receiver({self.totals.shape[0]} cells)"


class Channel(NamedTuple):
    """A privatizer's state as the kernels see it. A learner reads `released` and nothing else.

    slots: what is sent of a contribution; users int64[5]: how many are absorbed and encoded, how many messages were
    sent, how many users are in `released`, how many are charged; n_steps: H; summed: 1 if what the learner needs is
    summed up from what is released; sender, receiver: the two sides; released float64[n_cells]: the families that the
    learner needs.
    """

    slots: Slots
    users: Int64Array
    n_steps: int
    summed: int
    sender: Sender
    receiver: Receiver
    released: Float64Array

    def __repr__(self) -> str:
        return f"Channel({self.released.shape[0]} cells, {self.users[ABSORBED]} users absorbed)"


@inlined
def submit(channel: Channel, index: Int64Array, value: Float64Array, user: int) -> None:
    """User side: let user `user` send a message, if it is the next one and is charged.

    Raises LedgerError; ValueError if the contribution has fewer or more than one cell per step and family.
    """
    n_families = channel.slots.widths.shape[0]
    if index.shape != (channel.n_steps, n_families) or value.shape != (channel.n_steps, n_families):
        raise ValueError("a contribution has one cell per step and family; fill every slot")
    if user != channel.users[ENCODED] + 1 or user > channel.users[CHARGED]:
        raise LedgerError("users send one message each, in order, and after the ledger has charged them")
    channel.users[ENCODED] = user
    channel.users[SENT] += 1  # is more than ENCODED if somebody was sent back


@inlined
def admit(channel: Channel, user: int) -> None:
    """Server side: let user `user` be absorbed, if it is the next one and has sent its message. Raises LedgerError."""
    if user != channel.users[ABSORBED] + 1 or user > channel.users[ENCODED]:
        raise LedgerError("users are absorbed once, in order, and after they have sent their message")
    channel.users[ABSORBED] = user


@inlined
def toss_coins(channel: Channel, user: int) -> None:
    """User side: draw what turns values in [0, 1] into bits, if the layout does that."""
    if channel.slots.tossed != 0:
        coins = channel.sender.coins
        fill_uniform(coins, channel.sender.coins_key, np.uint64(user) * np.uint64(coins.shape[0]))


@no_alloc_kernel
def encode(channel: Channel, index: Int64Array, value: Float64Array, user: int) -> None:
    """User side: write user `user`'s (1-based) message into channel.sender.message. Raises LedgerError.

    *Formal guarantee.* That of the report's randomiser (see reports.py) for any two contributions; without one it is
    the raw record, for a trusted server only. Draws are keyed by `user`: two messages of one user with different
    contents would share their noise, which is why every user sends one.

    Paper: [CZ22] sec. 5.2.
    """
    submit(channel, index, value, user)
    toss_coins(channel, user)
    sender, slots = channel.sender, channel.slots
    message = sender.message
    if sender.kind == SUMS:
        fill_noise(message, sender.noise, np.uint64(user) * np.uint64(message.shape[0]))
        add_contribution(slots, message, index, value, sender.coins)
    elif sender.kind == UNARY:
        for step in range(channel.n_steps):
            part = message[step * slots.block : (step + 1) * slots.block]
            hot = hot_cell(slots, index, value, sender.coins, step)
            first = (np.uint64(user) * np.uint64(channel.n_steps) + np.uint64(step)) * np.uint64(slots.block)
            fill_unary(part, hot, sender.noise.key, first, sender.table)
    else:
        step = choose_step(sender.coins_key, np.uint64(2**63) + np.uint64(user), channel.n_steps)
        message[0] = step
        hot = hot_cell(slots, index, value, sender.coins, step)
        fill_unary(message[1:], hot, sender.noise.key, np.uint64(user) * np.uint64(slots.block), sender.table)


@no_alloc_kernel
def release(channel: Channel) -> None:
    """Server side: write the released sums of all users absorbed so far, with the counter's noise if there is any."""
    receiver, absorbed = channel.receiver, channel.users[ABSORBED]
    if receiver.counter.kind != EXACT and absorbed > 0:
        release_prefix(receiver.noisy, receiver.totals, receiver.counter, absorbed)
    if channel.summed != 0:
        collect(channel.released, receiver.noisy, channel.slots, channel.n_steps)
    channel.users[RELEASED] = absorbed


@no_alloc_kernel
def absorb(channel: Channel, user: int) -> None:
    """Server side: add the message of user `user` and release the sums of users 1..user. Raises LedgerError.

    Paper: [CZ22] sec. 5.2.
    """
    add_message(channel, user)
    release(channel)


@no_alloc_kernel
def add_message(channel: Channel, user: int) -> None:
    """Server side: add the message of user `user` to the sums, which stay on the server. Raises LedgerError."""
    admit(channel, user)
    receiver, message = channel.receiver, channel.sender.message
    totals = receiver.totals
    if channel.sender.kind == SUMS:
        for i in range(totals.shape[0]):
            totals[i] += message[i]
    elif channel.sender.kind == UNARY:
        for i in range(totals.shape[0]):
            totals[i] += (message[i] - receiver.shift) * receiver.factor
    else:
        block = channel.slots.block
        start = min(max(int(message[0]), 0), channel.n_steps - 1) * block
        for i in range(block):
            totals[start + i] += (message[i + 1] - receiver.shift) * receiver.factor


@no_alloc_kernel
def exchange(channel: Channel, index: Int64Array, value: Float64Array, user: int) -> None:
    """Encode and absorb in one call, bit for bit; a noiseless message is added where it is not zero."""
    _send_and_add(channel, index, value, user)
    release(channel)


@no_alloc_kernel
def exchange_unreleased(channel: Channel, index: Int64Array, value: Float64Array, user: int) -> None:
    """Do what `exchange` does but for the release: `channel.released` must not be read before the next `exchange`.

    For learners that plan by a schedule, which may depend on earlier releases but on nothing else of the users. What
    `exchange` releases later is bit for bit what it would have released had it been called every time.

    *Formal guarantee.* That of `exchange`, and charged like it: some prefixes are a function of all of them.
    """
    settled, users = channel.receiver.settled, channel.users
    if users[RELEASED] == users[ABSORBED]:
        totals = channel.receiver.totals
        for i in range(settled.shape[0]):
            settled[i] = totals[i]
    _send_and_add(channel, index, value, user)


@no_alloc_kernel
def _send_and_add(channel: Channel, index: Int64Array, value: Float64Array, user: int) -> None:
    """Do all of `exchange` but for the release: add the message of user `user` to the sums."""
    if channel.sender.kind != SUMS or channel.sender.noise.law != NO_NOISE:
        encode(channel, index, value, user)
        add_message(channel, user)
        return
    submit(channel, index, value, user)
    admit(channel, user)
    toss_coins(channel, user)
    add_contribution(channel.slots, channel.receiver.totals, index, value, channel.sender.coins)
