"""The release of one prefix: one compiled step for every counter, one draw per cell and step on the average.

Noise only is kept: the sums of the counts stay exact. Every draw comes from `fill_noise`; node number m of a counter
with n cells draws the numbers m*n ... m*n + n - 1 of the counter's stream, so that no two nodes share a draw.
"""

from __future__ import annotations

import numpy as np

from dprl.privacy.base import Float64Array
from dprl.privacy.compiled import inlined, kernel
from dprl.privacy.counters.base import BUFFERED, EXACT, HONAKER, ROWS, TREE, CounterState
from dprl.privacy.mechanisms.base import Noise
from dprl.privacy.mechanisms.sampling import fill_noise

# Cells that are drawn and added at a time: few calls, and a few kB that stay in a near cache.
BLOCK = 2048


@inlined
def release_prefix(released: Float64Array, totals: Float64Array, state: CounterState, item: int) -> None:
    """Write totals + noise of prefix `item` into `released`, float64[cells]; items come as 1, 2, 3, ...

    *Formal guarantee.* That of the counter that opened `state`, provided each item is released once and `totals` is the
    sum of the first `item` rows.
    """
    if state.kind == TREE:
        if state.base == 2:
            _release_binary(released, totals, state.rows, state.node, item)
        else:
            _release_kary(released, totals, state, item)
    elif state.kind == HONAKER:
        _release_honaker(released, totals, state, item)
    elif state.kind == ROWS:
        noise = state.rows[item - 1]
        for i in range(released.shape[0]):
            released[i] = totals[i] + noise[i]
    elif state.kind == BUFFERED:
        _release_buffered(released, totals, state, item)
    elif state.kind == EXACT:
        for i in range(released.shape[0]):
            released[i] = totals[i]
    else:
        raise ValueError("kind must be one of the codes in dprl.privacy.counters.base; this one has no release")


def row_of_prefix(state: CounterState, item: int) -> int:
    """Return which row of `state.rows` holds the noise of the prefix released last, item >= 1."""
    if state.kind == TREE and state.base != 2:
        return int(_row_of(item, state.base))
    if state.kind == ROWS:
        return item - 1
    return 0 if state.kind == BUFFERED else 1 + int(trailing_zeros(item))


@kernel
def trailing_zeros(k: int) -> int:
    """Return how often 2 divides k >= 1."""
    zeros = 0
    while k & 1 == 0:
        k >>= 1
        zeros += 1
    return zeros


@kernel
def _release_binary(released: Float64Array, totals: Float64Array, rows: Float64Array, node: Noise, item: int) -> None:
    """Noise of prefix k = noise of prefix k - lowbit(k) + one fresh draw; row 0 is zero, row 1 + level the last."""
    parent = item & (item - 1)
    parent_row = 0 if parent == 0 else 1 + trailing_zeros(parent)
    _extend(released, totals, rows[parent_row], rows[1 + trailing_zeros(item)], node, item)


@inlined
def _extend(
    released: Float64Array,
    totals: Float64Array,
    parent: Float64Array,
    row: Float64Array,
    node: Noise,
    signed_number: int,
) -> None:
    """Set row = parent +- node |signed_number| and released = totals + row; `row` may be `parent`."""
    first = np.uint64(abs(signed_number)) * np.uint64(released.shape[0])
    in_place = row.ctypes.data == parent.ctypes.data
    sign = 1.0 if signed_number > 0 else -1.0
    for start in range(0, released.shape[0], BLOCK):
        out = released[start : start + BLOCK]
        kept, above, total = row[start : start + BLOCK], parent[start : start + BLOCK], totals[start : start + BLOCK]
        fill_noise(out, node, first + np.uint64(start))
        if in_place:  # one loop would find `kept` and `above` to overlap, and use no vector instructions
            for i in range(out.shape[0]):
                kept[i] += sign * out[i]
            for i in range(out.shape[0]):
                out[i] = kept[i] + total[i]
        else:
            for i in range(out.shape[0]):
                noise = above[i] + sign * out[i]
                kept[i] = noise
                out[i] = noise + total[i]


@kernel
def last_step(prefix: int, base: int) -> tuple[int, int, int]:
    """Return (parent, level, digit) of a prefix >= 1: its lowest non-zero balanced digit, one step towards zero."""
    power, level, rest = 1, 0, prefix
    while rest % base == 0:
        rest //= base
        power *= base
        level += 1
    digit = rest % base
    if digit > base // 2:
        return prefix + power, level, digit - base
    return prefix - power, level, digit


@kernel
def _row_of(prefix: int, base: int) -> int:
    """Return where the noise of a prefix is kept: a row for the positive digits of a level, one for each negative one.

    A positive digit's row can be overwritten by the next: prefixes below the former do not come again. The negative
    digits of a level come most negative first, and each builds on the next, so all of them are kept.
    """
    if prefix == 0:
        return 0
    _, level, digit = last_step(prefix, base)
    return 1 + level * (base // 2 + 1) + max(0, -digit)


@kernel
def _ancestor(prefix: int, base: int, steps: int) -> int:
    for _ in range(steps):
        prefix = last_step(prefix, base)[0]
    return prefix


@kernel
def _release_kary(released: Float64Array, totals: Float64Array, state: CounterState, item: int) -> None:
    """Noise of a prefix = noise of its parent +- one fresh node; parents may be ahead, they are drawn when needed."""
    base, held, rows = state.base, state.held, state.rows
    missing, ancestor = 0, item
    while held[_row_of(ancestor, base)] != ancestor:
        ancestor = last_step(ancestor, base)[0]
        missing += 1
    for steps in range(missing - 1, -1, -1):
        prefix = _ancestor(item, base, steps)
        parent = last_step(prefix, base)[0]
        row = _row_of(prefix, base)
        signed_number = prefix if parent < prefix else -prefix
        _extend(released, totals, rows[_row_of(parent, base)], rows[row], state.node, signed_number)
        held[row] = prefix
    if missing == 0:
        noise = rows[_row_of(item, base)]
        for i in range(released.shape[0]):
            released[i] = totals[i] + noise[i]


@kernel
def _release_honaker(released: Float64Array, totals: Float64Array, state: CounterState, item: int) -> None:
    """Estimate the block that ends at `item` from its own noise and its halves' estimates; add it to the prefix before.

    Rows: zeros, then the prefix of each level, then the estimate of the last left block of each level.
    """
    rows, shares = state.rows, state.coefficients
    levels = shares.shape[0]
    level = trailing_zeros(item)
    estimate = rows[1 + levels + level]
    parent = item & (item - 1)
    parent_row = 0 if parent == 0 else 1 + trailing_zeros(parent)
    for start in range(0, released.shape[0], BLOCK):
        stop = start + BLOCK
        out, kept, total = released[start:stop], estimate[start:stop], totals[start:stop]
        # The block of level i that ends at k has the number 2k - 2^i: the order of the nodes from left to right.
        fill_noise(kept, state.node, np.uint64(2 * item - 1) * np.uint64(released.shape[0]) + np.uint64(start))
        for i in range(level):
            left, share, number = rows[1 + levels + i][start:stop], shares[i + 1], 2 * item - (2 << i)
            fill_noise(out, state.node, np.uint64(number) * np.uint64(released.shape[0]) + np.uint64(start))
            for j in range(out.shape[0]):
                kept[j] = share * out[j] + (1.0 - share) * (left[j] + kept[j])
        above, below = rows[parent_row][start:stop], rows[1 + level][start:stop]
        for j in range(out.shape[0]):
            out[j] = above[j] + kept[j]
        for j in range(out.shape[0]):
            below[j] = out[j]
            out[j] += total[j]


@kernel
def _release_buffered(released: Float64Array, totals: Float64Array, state: CounterState, item: int) -> None:
    """V = w - sum_i omega_i s_i; s_i = theta_i s_i + v; prefix noise grows by g v. Row 0 is that noise, then the s_i.

    The coefficients are omega, theta, and g of every item.
    """
    rows = state.rows
    n_buffers = rows.shape[0] - 1
    omega, theta = state.coefficients[:n_buffers], state.coefficients[n_buffers : 2 * n_buffers]
    growth = state.coefficients[2 * n_buffers + item - 1]
    first = np.uint64(item) * np.uint64(released.shape[0])
    for start in range(0, released.shape[0], BLOCK):
        stop = start + BLOCK
        out, total, prefix = released[start:stop], totals[start:stop], rows[0][start:stop]
        fill_noise(out, state.node, first + np.uint64(start))
        for b in range(n_buffers):
            buffer, weight = rows[1 + b][start:stop], omega[b]
            for i in range(out.shape[0]):
                out[i] -= weight * buffer[i]
        for b in range(n_buffers):
            buffer, decay = rows[1 + b][start:stop], theta[b]
            for i in range(out.shape[0]):
                buffer[i] = decay * buffer[i] + out[i]
        for i in range(out.shape[0]):
            prefix[i] += growth * out[i]
            out[i] = total[i] + prefix[i]


@kernel
def fill_rows(rows: Float64Array, node: Noise) -> None:
    """Fill rows float64[items, cells] with the draws of nodes number 1, 2, ..., one a row."""
    for j in range(rows.shape[0]):
        first = np.uint64(j + 1) * np.uint64(rows.shape[1])
        for start in range(0, rows.shape[1], BLOCK):
            fill_noise(rows[j, start : start + BLOCK], node, first + np.uint64(start))
