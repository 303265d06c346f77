"""Post-processing of released counts: eqs. (8) and (9) of [QW24] in closed form, and expectations under the result.

For every (s, a, b) eq. (8) asks for x >= 0 with |sum x - N| <= E/4 that minimises max_s' |x(s') - n(s')|. Many x do.
The one taken here is x(s') = max(0, n(s') + shift): shift = 0 where sum x then lies in the band, else the shift that
puts it on the band's nearer end. It is the Euclidean projection of n, and minimises sum phi(x(s') - n(s')) for every
convex even phi at once, hence the maximum, too. It is continuous in the counts and treats all s' alike.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dprl.algorithms.base import Float64Array
from dprl.privacy.compiled import inlined

_SMALLEST = 1e-300


class Postprocessed(NamedTuple):
    """The post-processed counts of one step, and what making them works on; X = S*A*B cells (s, a, b).

    counts: x, float64[S', X]. totals: their sums over s', float64[X].
    Scratch, all float64[X]: top, the largest count of a cell where counts are shifted, else 0; level, what it becomes;
    mass and size, sum (relative to top) and number of the counts that stay positive; bound, a size that must be beaten.
    """

    counts: Float64Array
    totals: Float64Array
    top: Float64Array
    level: Float64Array
    mass: Float64Array
    size: Float64Array
    bound: Float64Array


class Expectations(NamedTuple):
    """What planning needs of one step, float64[X] each: P~ V_up, P~ V_lo, Var_P~((V_up + V_lo)/2), and N~."""

    upper: Float64Array
    lower: Float64Array
    variance: Float64Array
    visits: Float64Array


def postprocessed(n_states: int, cells: int) -> Postprocessed:
    """Return zeros."""
    return Postprocessed(np.zeros((n_states, cells)), *(np.zeros(cells) for _ in range(6)))


def expectations(cells: int) -> Expectations:
    """Return zeros."""
    return Expectations(*(np.zeros(cells) for _ in range(4)))


@inlined
def postprocess(step: Float64Array, slack: float, found: Postprocessed) -> int:
    """Fill `found` from the released counts of one step, and return how many cells have no solution.

    step float64[S'+1, X]: transitions to s' along (s, a, b), then visits N; it is not written. slack: E/4. Where
    N < -E/4 nothing is feasible, and x = 0, which is the limit of the solutions as N rises to -E/4. Counts that are
    consistent already (exact ones, for instance) come back bit for bit.

    Newton's method on the convex function sum_s' max(0, n(s') - top + level) of the level, all cells at once: from its
    first step on the set of positive counts only shrinks, so a cell is done when the set does not, within S+1 passes.
    Differences from the largest count keep the error at rounding of the total, however large the shift is.

    Paper: [QW24] eq. (8).
    """
    counts, totals, top, level = found.counts, found.totals, found.top, found.level
    infeasible, moving = _start(step, slack, found)
    while moving > 0:
        moving = _newton(step, found)
    for t in range(counts.shape[0]):
        noisy, row = step[t], counts[t]
        for j in range(totals.shape[0]):
            x = noisy[j] - top[j] + level[j]
            row[j] = x if x > 0.0 else 0.0
    return infeasible


@inlined
def _start(step: Float64Array, slack: float, found: Postprocessed) -> tuple[int, int]:
    """Set totals, and first levels as if the positive counts stayed so; return (infeasible cells, cells to shift)."""
    _, totals, top, level, mass, size, bound = found
    n_states = step.shape[0] - 1
    visits = step[n_states]
    mass[:] = 0.0
    size[:] = 0.0
    top[:] = -np.inf
    for t in range(n_states):
        noisy = step[t]
        for j in range(totals.shape[0]):
            mass[j] += noisy[j] if noisy[j] > 0.0 else 0.0
            size[j] += 1.0 if noisy[j] > 0.0 else 0.0
            top[j] = max(top[j], noisy[j])
    infeasible, moving = 0, 0
    for j in range(totals.shape[0]):
        high = visits[j] + slack
        infeasible += high < 0.0
        total = min(max(mass[j], visits[j] - slack), max(high, 0.0))
        shifted = total != mass[j]
        to_shift = shifted and total > 0.0
        moving += to_shift
        guess = min(total, top[j] + (total - mass[j]) / max(size[j], 1.0)) if size[j] > 0.0 else total
        totals[j] = total
        top[j] = top[j] if to_shift else 0.0
        level[j] = guess if to_shift else (-np.inf if shifted else 0.0)
        bound[j] = n_states + 1.0 if to_shift else -1.0
    return infeasible, moving


@inlined
def _newton(step: Float64Array, found: Postprocessed) -> int:
    """Make one step in all cells whose set of positive counts has shrunk; return how many that were."""
    _, totals, top, level, mass, size, bound = found
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
        shrunk = size[j] < bound[j]
        moving += shrunk
        level[j] = (totals[j] - mass[j]) / max(size[j], 1.0) if shrunk else level[j]
        bound[j] = size[j] if shrunk else bound[j]
    return moving


@inlined
def private_expectations(
    found: Postprocessed, precision: float, upper: Float64Array, lower: Float64Array, out: Expectations
) -> None:
    """Fill `out` with expectations under P~(s') = (x(s') + E/(2S)) / N~, N~ = sum x + E/2; zeros where N~ = 0.

    precision: E. upper, lower float64[S]: values V_up and V_lo of the next step. The variance is taken about the middle
    of the range of (V_up + V_lo)/2, so its rounding error is relative to the square of that range.

    Paper: [QW24] eq. (9), and Algorithm 1, lines 9-12.
    """
    n_states = upper.shape[0]
    smoothing = precision / (2 * n_states)
    smallest, largest = upper[0] + lower[0], upper[0] + lower[0]
    for t in range(1, n_states):
        smallest = min(smallest, upper[t] + lower[t])
        largest = max(largest, upper[t] + lower[t])
    middle = 0.25 * (smallest + largest)
    out.upper[:] = 0.0
    out.lower[:] = 0.0
    out.variance[:] = 0.0
    for t in range(n_states):
        row, up, lo = found.counts[t], upper[t], lower[t]
        square = (0.5 * (up + lo) - middle) ** 2
        for j in range(row.shape[0]):
            n = row[j] + smoothing
            out.upper[j] += n * up
            out.lower[j] += n * lo
            out.variance[j] += n * square
    for j in range(found.totals.shape[0]):
        visits = found.totals[j] + 0.5 * precision
        over_n = 1.0 / max(visits, _SMALLEST)
        up, lo = out.upper[j] * over_n, out.lower[j] * over_n
        mean = 0.5 * (up + lo) - middle
        out.visits[j] = visits
        out.upper[j] = up
        out.lower[j] = lo
        out.variance[j] = max(0.0, out.variance[j] * over_n - mean * mean)
