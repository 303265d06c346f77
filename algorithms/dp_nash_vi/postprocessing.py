"""Post-processing of private counts in DP-Nash-VI: eqs. (8) and (9) of [QW24] in closed form.

For every (s, a, b), eq. (8) asks for an x >= 0 with |sum x - N| <= E/4 that minimises max_s' |x(s') - n(s')|; it is not
unique. D14: this file takes x(s') = max(0, n(s') + shift), with shift = 0 if sum x then lies in the band, else the
shift that moves it to the nearer end of the band. It is the Euclidean projection of n, and minimises sum phi(x(s') -
n(s')) for every convex even phi, hence also the maximum. It is continuous in the counts and treats all s' alike.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dprl.algorithms.base import Float64Array, Int64Array
from dprl.compiled import no_alloc_kernel

_SMALLEST = 1e-300


class Estimates(NamedTuple):
    """Estimates from the counts of one step, and scratch to find them; X = S*A*B cells (s, a, b).

    counts: the solution x of eq. (8), float64[S', X], or float64[R, X] for the R possible next states only. sums: their
    sums over s', float64[X]. upper, lower, variance, visits float64[X]: P~ V_up, P~ V_lo, Var_P~((V_up + V_lo)/2), and
    N~. Scratch, float64[X] each: top, the largest noisy count of a cell to be shifted, else 0; level, its value after
    the shift; mass and size, sum (less top each) and number of the counts that stay positive.
    """

    counts: Float64Array
    sums: Float64Array
    upper: Float64Array
    lower: Float64Array
    variance: Float64Array
    visits: Float64Array
    top: Float64Array
    level: Float64Array
    mass: Float64Array
    size: Float64Array

    @classmethod
    def zeros(cls, n_states: int, cells: int) -> Estimates:
        """Return memory for the estimates of a step with that many next states and cells."""
        return cls(np.zeros((n_states, cells)), *(np.zeros(cells) for _ in range(9)))


@no_alloc_kernel
def postprocess(step: Float64Array, slack: float, found: Estimates) -> int:
    """Fill `found` from the released counts of one step, and return the number of cells without a feasible solution.

    step float64[S'+1, X]: transitions to s' along (s, a, b), then visits N; read only. slack: E/4. If N < -E/4, nothing
    is feasible, and x = 0, the limit of the solutions as N rises to -E/4. Counts >= 0 with a sum in the band (exact
    counts, for instance) are returned bit for bit.

    The equation sum_s' max(0, n(s') - top + level) = total is solved by Newton's method from above, for all cells at
    once. Levels only fall, so sets of positive counts only shrink, and a cell is done once its set stays the same: at
    most S+2 passes. Differences from the largest count keep the error to a few roundings of the total, however large
    the shift is.

    Paper: [QW24] eq. (8).
    """
    counts, totals, top, level = found.counts, found.sums, found.top, found.level
    infeasible, moving = _start(step, slack, found)
    while moving > 0:
        moving = _lower_levels(step, found)
    for t in range(counts.shape[0]):
        noisy, row = step[t], counts[t]
        for j in range(totals.shape[0]):
            x = noisy[j] - top[j] + level[j]
            row[j] = x if x > 0.0 else 0.0
    return infeasible


@no_alloc_kernel
def _start(step: Float64Array, slack: float, found: Estimates) -> tuple[int, int]:
    """Set the totals, and levels above the solutions; return (cells without a solution, cells to be shifted)."""
    totals, top, level, mass = found.sums, found.top, found.level, found.mass
    n_states = step.shape[0] - 1
    visits = step[n_states]
    mass[:] = 0.0
    top[:] = -np.inf
    for t in range(n_states):
        noisy = step[t]
        for j in range(totals.shape[0]):
            mass[j] += noisy[j] if noisy[j] > 0.0 else 0.0
            top[j] = max(top[j], noisy[j])
    infeasible, moving = 0, 0
    for j in range(totals.shape[0]):
        most = visits[j] + slack
        total = min(max(mass[j], visits[j] - slack), max(most, 0.0))
        shifted = total != mass[j]
        high = min(total, top[j]) if total < mass[j] else total
        infeasible += most < 0.0
        moving += shifted
        totals[j] = total
        level[j] = high if shifted else 0.0
        top[j] = top[j] if shifted else 0.0
    return infeasible, moving


@no_alloc_kernel
def _lower_levels(step: Float64Array, found: Estimates) -> int:
    """Take one step of Newton's method in every cell; return the number of levels that fell."""
    totals, top, level, mass, size = found.sums, found.top, found.level, found.mass, found.size
    mass[:] = 0.0
    size[:] = 0.0
    for t in range(step.shape[0] - 1):
        noisy = step[t]
        for j in range(totals.shape[0]):
            below = noisy[j] - top[j]
            positive = below > -level[j]
            mass[j] += below if positive else 0.0
            size[j] += 1.0 if positive else 0.0
    moving = 0
    for j in range(totals.shape[0]):
        lower = (totals[j] - mass[j]) / max(size[j], 1.0)
        moving += lower < level[j]
        level[j] = min(level[j], lower)
    return moving


@no_alloc_kernel
def private_expectations(found: Estimates, precision: float, upper: Float64Array, lower: Float64Array) -> None:
    """Fill in expectations under P~(s') = (x(s') + E/(2S)) / N~, N~ = sum x + E/2; zeros where N~ = 0.

    precision: E. upper, lower float64[S]: V_up and V_lo of the next step. The variance is computed around the middle of
    the range of (V_up + V_lo)/2, so its error is a few roundings of the squared range, and it is never negative.

    Paper: [QW24] eq. (9), and Algorithm 1, lines 7-11.
    """
    n_states = upper.shape[0]
    smoothing = precision / (2 * n_states)
    middle = _middle(upper, lower)
    found.upper[:] = 0.0
    found.lower[:] = 0.0
    found.variance[:] = 0.0
    for t in range(n_states):
        row, up, lo = found.counts[t], upper[t], lower[t]
        deviation = 0.5 * (up + lo) - middle
        square = deviation * deviation
        for j in range(row.shape[0]):
            n = row[j] + smoothing
            found.upper[j] += n * up
            found.lower[j] += n * lo
            found.variance[j] += n * square
    _normalise(found, precision, middle)


@no_alloc_kernel
def _normalise(found: Estimates, precision: float, middle: float) -> None:
    """Divide the sums of expectations by N~ = sums + E/2; `middle` is that of `private_expectations`."""
    for j in range(found.sums.shape[0]):
        visits = found.sums[j] + 0.5 * precision
        over_n = 1.0 / max(visits, _SMALLEST)
        up, lo = found.upper[j] * over_n, found.lower[j] * over_n
        mean = 0.5 * (up + lo) - middle
        found.visits[j] = visits
        found.upper[j] = up
        found.lower[j] = lo
        found.variance[j] = max(0.0, found.variance[j] * over_n - mean * mean)


@no_alloc_kernel
def leave_out(step: Float64Array, after: Int64Array, kept: Float64Array) -> None:
    """Copy counts of a step float64[R+1, X] to `kept`, with -inf, which gives x = 0, for ranks without a next state."""
    width = after.shape[0]
    for j in range(after.shape[1]):
        kept[width, j] = step[width, j]
    for r in range(width):
        for j in range(after.shape[1]):
            kept[r, j] = step[r, j] if after[r, j] >= 0 else -np.inf


@no_alloc_kernel
def possible_expectations(
    found: Estimates, precision: float, after: Int64Array, upper: Float64Array, lower: Float64Array
) -> None:
    """Fill in expectations as `private_expectations` does, with E/(2n) for the n possible next states alone.

    after int64[R, X]: these, -1 after the last.
    """
    middle, number = _middle(upper, lower), found.size
    number[:] = 0.0
    found.upper[:] = 0.0
    found.lower[:] = 0.0
    found.variance[:] = 0.0
    for r in range(after.shape[0]):
        for j in range(after.shape[1]):
            number[j] += 1.0 if after[r, j] >= 0 else 0.0
    for r in range(after.shape[0]):
        row, states = found.counts[r], after[r]
        for j in range(after.shape[1]):
            n = row[j] + precision / (2.0 * number[j]) if states[j] >= 0 else 0.0
            up, lo = upper[states[j]], lower[states[j]]  # index -1, without a next state, reads the last one
            deviation = 0.5 * (up + lo) - middle
            found.upper[j] += n * up
            found.lower[j] += n * lo
            found.variance[j] += n * (deviation * deviation)
    _normalise(found, precision, middle)


@no_alloc_kernel
def _middle(upper: Float64Array, lower: Float64Array) -> float:
    """Return the middle of the range of (upper + lower)/2."""
    least, most = np.inf, -np.inf
    for t in range(upper.shape[0]):
        least = min(least, upper[t] + lower[t])
        most = max(most, upper[t] + lower[t])
    return 0.25 * (least + most)
