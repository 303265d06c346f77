"""The release of one prefix: one compiled step for every counter, with one draw per cell and step on average.

Only noise is stored; the sums of the counts stay exact. Every draw comes from `fill_noise`; node number m of a counter
with n cells draws the numbers m*n ... m*n + n - 1 of the counter's stream, so that no two nodes share a draw.

Prefixes may be left out. Noise is a function of the key, so a release can draw the missing part of its prefix's noise;
`held` names the rest. The noise is the same bit for bit, whichever prefixes were released before.
"""

from __future__ import annotations

import numpy as np

from dprl.compiled import kernel, no_alloc_kernel
from dprl.privacy.base import Float64Array
from dprl.privacy.counters.base import BUFFERED, EXACT, ROWS, TREE, CounterState
from dprl.privacy.mechanisms.sampling import extend_noise, fill_noise
from dprl.privacy.randomness.bits import require_generator

# Seven rows of so many numbers stay in the nearest cache.
_NEAR_BLOCK = 512
_Three = tuple[Float64Array, Float64Array, Float64Array]


@no_alloc_kernel
def release_prefix(released: Float64Array, totals: Float64Array, state: CounterState, item: int) -> None:
    """Write totals + noise of prefix `item` to `released`, float64[cells]; items increase, and some may be left out.

    Raises like `require_generator`, even if the noise of this prefix was drawn before.

    *Formal guarantee.* That of the counter that opened `state`, if `totals` is the sum of the first `item` rows: a part
    of the prefixes is a function of all of them.
    """
    if state.kind != EXACT:
        require_generator(state.node.key)
    if state.kind == TREE:
        _release_tree(released, totals, state, item)
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


@kernel
def last_step(prefix: int, base: int) -> tuple[int, int, int]:
    """Return (parent, level, digit) of a prefix >= 1: its lowest non-zero digit, one step towards zero."""
    power, level, rest = 1, 0, prefix
    if base == 2:
        while rest & 1 == 0:
            rest >>= 1
            level += 1
        return prefix & (prefix - 1), level, 1
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
    """Return the row for the noise of a prefix: one for all positive digits of a level, and one per negative digit.

    A positive digit's row can be overwritten by the next, because prefixes below the former do not come again. Negative
    digits (not in base 2) come most negative first in a level, and each builds on the next, so all of them are stored.
    """
    if prefix == 0:
        return 0
    _, level, digit = last_step(prefix, base)
    return 1 + level * (base // 2 + base % 2) + max(0, -digit)


@no_alloc_kernel
def _release_tree(released: Float64Array, totals: Float64Array, state: CounterState, item: int) -> None:
    """Noise of a prefix = noise of its parent +- one fresh node; ancestors that are not stored are drawn first."""
    base, held, rows = state.base, state.held, state.rows
    missing, ancestor = 0, item
    while held[_row_of(ancestor, base)] != ancestor:
        ancestor = last_step(ancestor, base)[0]
        missing += 1
    for steps in range(missing - 1, -1, -1):
        prefix = item
        for _ in range(steps):
            prefix = last_step(prefix, base)[0]
        parent = last_step(prefix, base)[0]
        row = _row_of(prefix, base)
        node = prefix if parent < prefix else -prefix
        extend_noise(released, totals, rows[_row_of(parent, base)], rows[row], state.node, node)
        held[row] = prefix
    if missing == 0:
        noise = rows[_row_of(item, base)]
        for i in range(released.shape[0]):
            released[i] = totals[i] + noise[i]


@no_alloc_kernel
def _release_buffered(released: Float64Array, totals: Float64Array, state: CounterState, item: int) -> None:
    """V = w - sum_i omega_i s_i; s_i = theta_i s_i + v; prefix noise grows by g v, for each item since the last.

    Row 0 is the prefix noise, then the s_i; held[0] is their last item. Coefficients: omega, theta, g of every item.
    """
    rows = state.rows
    n_buffers = rows.shape[0] - 1
    omega, theta = state.coefficients[:n_buffers], state.coefficients[n_buffers : 2 * n_buffers]
    growth = state.coefficients[2 * n_buffers :]
    for start in range(0, released.shape[0], _NEAR_BLOCK):
        stop = start + _NEAR_BLOCK
        out, total, prefix = released[start:stop], totals[start:stop], rows[0][start:stop]
        for further in range(state.held[0] + 1, item + 1):
            fill_noise(out, state.node, np.uint64(further) * np.uint64(released.shape[0]) + np.uint64(start))
            for b in range(0, n_buffers, 3):
                three = rows[1 + b][start:stop], rows[2 + b][start:stop], rows[3 + b][start:stop]
                _subtract(out, three, omega[b : b + 3])
            for b in range(0, n_buffers, 3):
                three = rows[1 + b][start:stop], rows[2 + b][start:stop], rows[3 + b][start:stop]
                _carry_on(three, out, theta[b : b + 3])
            grown = growth[further - 1]
            for i in range(out.shape[0]):
                prefix[i] += grown * out[i]
        for i in range(out.shape[0]):
            out[i] = total[i] + prefix[i]
    state.held[0] = item


@no_alloc_kernel
def _subtract(v: Float64Array, buffers: _Three, weights: Float64Array) -> None:
    """Subtract three weighted buffers from v, as many as the compiler can prove not to overlap."""
    first, second, third = buffers
    a, b, c = weights[0], weights[1], weights[2]
    for i in range(v.shape[0]):
        v[i] = v[i] - a * first[i] - b * second[i] - c * third[i]


@no_alloc_kernel
def _carry_on(buffers: _Three, v: Float64Array, decays: Float64Array) -> None:
    """Let three buffers decay, and add v to each."""
    first, second, third = buffers
    a, b, c = decays[0], decays[1], decays[2]
    for i in range(v.shape[0]):
        first[i] = a * first[i] + v[i]
        second[i] = b * second[i] + v[i]
        third[i] = c * third[i] + v[i]
