"""From a user's device to the released counts: the kernels on either side of a report, and the state they share.

`exchange` is what compiled learning loops call; `encode` and `absorb` are its two sides, one user at a time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dprl.privacy.base import Float64Array, Int64Array
from dprl.privacy.compiled import inlined, kernel
from dprl.privacy.counters.binary_tree import release_prefix
from dprl.privacy.ledger import LedgerError
from dprl.privacy.mechanisms.laplace import fill_laplace

ABSORBED, ENCODED, CHARGED = range(3)


class Channel(NamedTuple):
    """A privatizer's state as the kernels see it. A learner reads `released` and nothing else.

    offsets, widths int64[F]: where each family starts in a step, and its size; block: cells of a step;
    report_scale, node_scale: Laplace scales of the user's and of the server's noise, 0 for none; user_key, server_key:
    stream keys; users int64[3]: how many are absorbed, encoded and charged; report float64[cells]: the message under
    way; totals float64[cells]: sums of messages; noise float64[rows, cells]: tree noise; released float64[cells].
    """

    offsets: Int64Array
    widths: Int64Array
    block: int
    report_scale: float
    node_scale: float
    user_key: np.uint64
    server_key: np.uint64
    users: Int64Array
    report: Float64Array
    totals: Float64Array
    noise: Float64Array
    released: Float64Array

    def __repr__(self) -> str:
        # The generated one would print unreleased sums into a log.
        return f"Channel({self.released.shape[0]} cells, {self.users[ABSORBED]} users absorbed)"


@inlined
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


@inlined
def add_contribution(channel: Channel, sums: Float64Array, index: Int64Array, value: Float64Array) -> None:
    """Add one bounded value per step and family to `sums` float64[cells]."""
    steps = min(index.shape[0], value.shape[0], sums.shape[0] // channel.block)
    families = min(index.shape[1], value.shape[1], channel.widths.shape[0])
    for step in range(steps):
        for family in range(families):
            cell = bounded_cell(channel, step, family, index[step, family])
            sums[cell] += bounded_value(value[step, family])


@inlined
def submit(channel: Channel, user: int) -> None:
    """User side: let user `user` send a message, if it is the next one and is charged. Raises LedgerError."""
    if user != channel.users[ENCODED] + 1 or user > channel.users[CHARGED]:
        raise LedgerError("users send one message each, in order, and after the ledger has charged them")
    channel.users[ENCODED] = user


@inlined
def admit(channel: Channel, user: int) -> None:
    """Server side: let user `user` be absorbed, if it is the next one and has sent its message. Raises LedgerError."""
    if user != channel.users[ABSORBED] + 1 or user > channel.users[ENCODED]:
        raise LedgerError("users are absorbed once, in order, and after they have sent their message")
    channel.users[ABSORBED] = user


@inlined
def encode(channel: Channel, index: Int64Array, value: Float64Array, user: int) -> None:
    """User side: write user `user`'s (1-based) message into channel.report. Raises LedgerError.

    *Formal guarantee.* With report_scale = b > 0 the message is (2 H F / b, 0)-LDP for any two contributions of H
    steps and F families, exactly, in real arithmetic; without noise it is the raw record, for a trusted server only.
    Draws are keyed by `user`: two messages of one user with different contents would share their noise, which is why
    every user sends one.

    Paper: [CZ22] sec. 5.2.
    """
    submit(channel, user)
    if channel.report_scale > 0.0:
        first = np.uint64(user) * np.uint64(channel.report.shape[0])
        fill_laplace(channel.report, channel.user_key, first, channel.report_scale)
    else:
        channel.report[:] = 0.0
    add_contribution(channel, channel.report, index, value)


@inlined
def release(channel: Channel, user: int) -> None:
    """Server side: write the released sums of users 1..user, with tree noise if there is any."""
    if channel.node_scale > 0.0:
        release_prefix(channel.released, channel.totals, channel.noise, user, channel.node_scale, channel.server_key)


@inlined
def absorb(channel: Channel, user: int) -> None:
    """Server side: add the message of user `user` and release the sums of users 1..user. Raises LedgerError.

    Paper: [CZ22] sec. 5.2.
    """
    admit(channel, user)
    for i in range(channel.totals.shape[0]):
        channel.totals[i] += channel.report[i]
    release(channel, user)


@inlined
def exchange(channel: Channel, index: Int64Array, value: Float64Array, user: int) -> None:
    """Encode and absorb in one call, bit for bit; a noiseless message is added where it is not zero."""
    if channel.report_scale > 0.0:
        encode(channel, index, value, user)
        absorb(channel, user)
        return
    submit(channel, user)
    admit(channel, user)
    add_contribution(channel, channel.totals, index, value)
    release(channel, user)
