"""Windows of gradients: the sums that a trusted server releases when they are full."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dprl.compiled import no_alloc_kernel, shows_numbers
from dprl.privacy.base import Float64Array, Int64Array
from dprl.privacy.channel import RECEIVED, RELEASED
from dprl.privacy.counters.base import CounterState
from dprl.privacy.counters.release import release_prefix
from dprl.privacy.mechanisms.sampling import fill_noise
from dprl.privacy.mechanisms.vectors import VectorNoise, fill_shrunk


@shows_numbers
class Window(NamedTuple):
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


@no_alloc_kernel
def add_to_window(
    window: Window, noise: VectorNoise, message: Float64Array, cursor: Int64Array, out: Float64Array
) -> None:
    """Server side: add the current message to its window; release the sum if it is full, else write zeros."""
    _add(window.counter, window, noise, message, cursor, out)


@no_alloc_kernel
def _add(
    counter: CounterState | None,
    window: Window,
    noise: VectorNoise,
    message: Float64Array,
    cursor: Int64Array,
    out: Float64Array,
) -> None:
    """`add_to_window`. `counter` is an argument so that without one no counter is compiled."""
    if counter is not None:
        _add_counted(counter, window, noise, message, cursor, out)
        return
    total, received = window.total, cursor[RECEIVED]
    out[:] = 0.0
    for i in range(total.shape[0]):
        total[i] += message[i]
    if received % window.size == 0:
        release_total(total, noise, received, out)
        cursor[RELEASED] = received


@no_alloc_kernel
def release_total(total: Float64Array, noise: VectorNoise, last: int, out: Float64Array) -> None:
    """Write a full window's total with noise into `out` float64[d], and clear it.

    last: its last submission, which is in no other window, so no noise is drawn twice, even after a crash.
    """
    fill_noise(out, noise.noise, np.uint64(last) * np.uint64(noise.draws))
    unit = noise.grid if noise.grid > 0.0 else 1.0
    for i in range(total.shape[0]):
        out[i] = unit * out[i] + total[i]
        total[i] = 0.0


@no_alloc_kernel
def release_sum(
    total: Float64Array, message: Float64Array, noise: VectorNoise, values: Float64Array, last: int, out: Float64Array
) -> None:
    """Server side: write the noisy sum of whole messages float64[m, d] into `out` float64[d].

    They are clipped again, because a faulty client could send anything. total, message float64[d]: workspace, `total`
    with zeros. last: number of the noise, used only once.

    *Formal guarantee.* Replacing a message changes the sum by at most the diameter of the clip, and leaving one out by
    at most its radius; the noise is that of the law, drawn once.
    """
    for i in range(values.shape[0]):
        fill_shrunk(message, values[i], noise)
        for j in range(total.shape[0]):
            total[j] += message[j]
    release_total(total, noise, last, out)


@no_alloc_kernel
def _add_counted(
    counter: CounterState,
    window: Window,
    noise: VectorNoise,
    message: Float64Array,
    cursor: Int64Array,
    out: Float64Array,
) -> None:
    """Add the current message to its window; release the window as the counter's next item if it is full."""
    total, received = window.total, cursor[RECEIVED]
    unit = noise.grid if noise.grid > 0.0 else 1.0
    out[:] = 0.0
    for i in range(total.shape[0]):
        total[i] += message[i] / unit
    if received % window.size == 0:
        _release_item(counter, window, unit, cursor[RELEASED] // window.size, received // window.size, out)
        cursor[RELEASED] = received


@no_alloc_kernel
def _release_item(
    counter: CounterState, window: Window, unit: float, previous: int, item: int, out: Float64Array
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


@no_alloc_kernel
def release_counted_sum(
    counter: CounterState,
    window: Window,
    message: Float64Array,
    noise: VectorNoise,
    values: Float64Array,
    previous: int,
    item: int,
    out: Float64Array,
) -> None:
    """Server side: write the sum of whole messages float64[m, d] as one item of the counter into `out` float64[d].

    They are clipped again, because a faulty client could send anything. message float64[d]: workspace.

    *Formal guarantee.* See `_release_item`; `previous` < `item`, the last released item or that of the last charge
    before a crash.
    """
    unit = noise.grid if noise.grid > 0.0 else 1.0
    for i in range(values.shape[0]):
        fill_shrunk(message, values[i], noise)
        for j in range(message.shape[0]):
            window.total[j] += message[j] / unit
    _release_item(counter, window, unit, previous, item, out)
