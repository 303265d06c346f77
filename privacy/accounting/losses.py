"""Distributions of the privacy loss: sums of many, and Laplace noise on coordinates that change by known amounts.

A loss l between two grid points is split between them so that its mass and its e^-l stay the same ("connect the
dots"). Under max(0, 1 - e^(epsilon - l)), convex in e^-l, the split loss is larger, so every delta is an upper bound,
with an error of the order of the step squared. Sums are computed by FFT after a change of measure, see `SummedLosses`.

Papers: Zhu, Dong, Wang 2022 (adaptive composition of dominating pairs); Doroshenko, Ghazi, Kamath, Kumar, Manurangsi
2022 (connect the dots).

Laplace noise
-------------
*One coordinate.* Laplace(b) noise on a number that changes by v has with a = v / b the loss a with probability 1/2, -a
with probability e^-a / 2, and the density e^(-(a - l) / 2) / 4 between them.

*The worst vector.* Let f be a symmetric, log-concave density of one coordinate's noise, and v the change. Then
1 - delta(epsilon; v) is the integral over x of min(f(x), e^epsilon f(x - v)), a marginal of a log-concave function of
(x, v), hence log-concave in v (Prekopa). It does not change if coordinates of v are permuted or change their signs. So
delta rises with every |v_j|, and is Schur-convex: among all v with |v|_1 <= l1 and |v_j| <= linf it is largest, at
every epsilon at once, if as many coordinates as fit change by linf and one by the rest.

*Partly revealed noise.* If differences of h noises w_i of a number are public before it is chosen, as in a tree that
subtracts, the density of the remainder, a shift t of all, is proportional to exp(-sum_i |t - c_i| / b). Any log-concave
density with a slope of at most h / b of its logarithm is dominated by Laplace(b / h), for every shift:
tests of a shift are thresholds, a threshold's level p moves by dp/dv = J(p), the density at that quantile, and
J(p) <= (h / b) min(p, 1 - p), which is Laplace's.

*Whole numbers.* For discrete Laplace noise the same holds with one step instead of dp/dv: a level p moves by a step of
1 to R(p) = min(e^s p, 1 - e^-s (1 - p)) at most, s = h / b, a randomised response. Laplace noise of scale 1 / s',
s' = s + 2 ln cosh(s / 2), moves every level by at least as much. So it dominates for every whole change.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
import scipy

from dprl.privacy.accounting.closed_forms import PrivacyCurve, RandomizedResponses, response_losses
from dprl.privacy.accounting.root_finding import ROUNDING, least_epsilon
from dprl.privacy.base import Float64Array

# Steps in one loss's deviation, and points of one loss. For unequal Laplace losses: share of the variance that splits
# may add, most steps in the sum's deviation, and least step for a loss.
_FINE_STEPS, _FINE_POINTS = 50, 1 << 16
_GRID_ERROR, _MOST_STEPS, _FINEST = 3e-4, 20_000, 2.0**-19
# Largest mass of a tail that is cut off.
_TAIL = 1e-30
# Deviations of the sum in the window of an FFT, how many windows are kept, and the error of one release, relative to
# Chernoff's bound. Of changes of measure: how far that bound may be from the least one, their relative precision, the
# steepest one, and the precision of their logarithms.
_WINDOW, _MOST_WINDOWS, _FFT_ERROR = 20.0, 8, 1e-15
_LOOSE, _SMALLEST, _STEEPEST, _PRECISION = 4.0, 1e-9, 1e9, 1e-15
# Pieces of Laplace's density: an error below 1e-5 in the variance of a loss, and in every delta of one.
_WIDTH, _WIDTH_OF_SMALL, _FEWEST_HALF_PIECES, _MOST_HALF_PIECES = 0.01, 0.008, 4, 1 << 13
# From a privacy curve: deltas up to whose epsilons the points lie, and the number of points for each. e^709 overflows.
_SMALLEST_DELTAS, _POINTS_OF_CURVE, _LARGEST_GAP = (1e-30, 1e-15, 1e-7, 1e-2), 200, 700.0


@dataclass(frozen=True, eq=False)
class Losses:
    """A distribution of the privacy loss.

    losses float64[n]; mass float64[n]: probability of each; lost: probability of an infinite loss.
    """

    losses: Float64Array
    mass: Float64Array
    lost: float = 0.0

    @property
    def variance(self) -> float:
        """The variance of the finite losses."""
        return float(self.mass @ (self.losses - self.mass @ self.losses) ** 2)

    def on_grid(self, step: float) -> tuple[int, Losses]:
        """Return losses split between multiples of `step`, with the first multiple.

        Tails are cut off: the upper one counts as lost, the lower one is moved up.
        """
        index = np.floor(self.losses / step)
        upper = np.expm1(-np.clip(self.losses - index * step, 0.0, step)) / math.expm1(-step)
        first = int(index.min())
        at = (index - first).astype(np.int64)
        size = int(at.max()) + 2
        grid = np.bincount(at, self.mass * (1.0 - upper), size) + np.bincount(at + 1, self.mass * upper, size)
        low = int(np.searchsorted(np.cumsum(grid), _TAIL))
        high = size - int(np.searchsorted(np.cumsum(grid[::-1]), _TAIL))
        mass = grid[low:high].astype(np.float64)
        mass[0] += float(np.sum(grid[:low]))
        losses = (first + low + np.arange(mass.size, dtype=np.float64)) * step
        return first + low, Losses(losses, mass, self.lost + float(np.sum(grid[high:])))


def laplace_losses(a: float) -> Losses:
    """Return the loss of one number that changes by a times the scale, in pieces with exact mass and mean e^-loss."""
    width = laplace_step(a)
    ends = a * np.linspace(-1.0, 1.0, round(2.0 * a / width) + 1)
    # A piece [x, y] has mass (e^(-(a-y)/2) - e^(-(a-x)/2)) / 2, and mean e^(-(y-x)/2) of e^(x - loss).
    mass = 0.5 * np.exp((ends[1:] - a) / 2.0) * -math.expm1(-width / 2.0)
    upper = mass * (math.expm1(-width / 2.0) / math.expm1(-width))
    found = np.append(mass - upper, 0.5)
    found[1:] += upper
    found[0] += 0.5 * math.exp(-a)
    return Losses(ends, found)


def laplace_step(a: float) -> float:
    """Return the width of the pieces of `laplace_losses`."""
    # With an even number, the largest loss is a multiple of their width, so its sums stay on the grid.
    half = math.ceil(a / min(_WIDTH, _WIDTH_OF_SMALL * math.sqrt(a)))
    return a / min(_MOST_HALF_PIECES, max(_FEWEST_HALF_PIECES, half))


def losses_of(curve: PrivacyCurve) -> Losses:
    """Return a loss with deltas of at least those of any privacy curve, and nearly equal to them.

    The losses of responses are listed. For any other curve the loss is rebuilt from its deltas.

    *Formal guarantee.* Let f(x) be the least delta at epsilon = ln x of a release, in either direction. It is convex,
    and f(x) = 1 - x + x f(1 / x) for x < 1. Any convex function with that symmetry above f belongs to a pair of laws
    that dominates the release, also in adaptive composition. Here it is the lower convex hull of points on the curve
    and their images: f is below each point, so by convexity below every chord between two of them. It is linear between
    points, so its loss has the values +-epsilon_j of the points, where mass p_j = e^epsilon_j (s_(j-1) - s_j) for the
    slopes -s of the chords, e^-epsilon_j p_j at -epsilon_j, the last delta at infinity, and the rest at 0.

    curve: one that holds for neighbours in both orders.
    Papers: Zhu, Dong, Wang 2022, Propositions 8 and 9, Theorem 10; Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022.
    """
    if isinstance(curve, RandomizedResponses):
        n, epsilon_0, cap = curve.n, curve.epsilon_0, curve.cap
        # n losses or, if its mean divergence is smaller, one loss of their total.
        capped = cap * math.tanh(cap / 2.0) < n * epsilon_0 * math.tanh(epsilon_0 / 2.0) and curve.informative == 1.0
        losses, mass = response_losses(1, cap) if capped else response_losses(n, epsilon_0, curve.informative)
        return Losses(losses, mass, curve.lost)
    # The body of the loss and its tail have different sizes, so the points are denser near 0.
    ends = [end for end in map(curve.epsilon, _SMALLEST_DELTAS) if 0.0 < end < math.inf]
    points = np.unique(np.concatenate([np.zeros(1), *(np.linspace(0.0, end, _POINTS_OF_CURVE) for end in ends)]))
    # A delta at a smaller epsilon also holds at a larger one.
    deltas = np.minimum.accumulate([min(1.0, curve.delta(float(epsilon))) for epsilon in points])
    # The hull at 0, where only the chord from a point to its image counts.
    deltas[0] = min(deltas[0], float(np.min(np.tanh(points / 2.0) + 2.0 * deltas * scipy.special.expit(-points))))
    hull = [0]
    for at in range(1, points.size):
        while len(hull) > 1:
            first, middle = hull[-2:]
            # Both slopes times e^points[middle].
            before = (deltas[first] - deltas[middle]) / -math.expm1(points[first] - points[middle])
            after = (deltas[middle] - deltas[at]) / math.expm1(min(points[at] - points[middle], _LARGEST_GAP))
            if before > after:
                break
            hull.pop()
        hull.append(at)
    x, falls = points[hull], -np.diff(deltas[hull])
    # e^x_j s_(j-1) and e^x_j s_j.
    gaps = np.diff(x)
    above, below = falls / -np.expm1(-gaps), np.append(falls[1:] / np.expm1(np.minimum(gaps[1:], _LARGEST_GAP)), 0.0)
    # The rounding of these differences is far below ROUNDING times the deltas.
    mass = np.maximum(above - below, 0.0) * (1.0 + ROUNDING)
    mirrored = np.exp(-x[1:]) * mass
    rest = max(0.0, 1.0 - deltas[hull[-1]] - float(np.sum(mass + mirrored)))
    mass = np.concatenate([mirrored[::-1], [rest], mass])
    return Losses(np.concatenate([-x[:0:-1], x]), mass, float(deltas[hull[-1]]))


class _Tilt(NamedTuple):
    """The sum after a change of measure: every probability p of a loss l becomes p e^(steepness l) / e^log_moment."""

    steepness: float
    log_moment: float
    mean: float
    deviation: float


class SummedLosses:
    """Upper bound on the sum of adaptive releases, n_i of them with law i, by FFT.

    An FFT errs by 1e-16 of the largest probability, too much for a small delta. So masses p are first multiplied by
    e^(lambda l) / M, M = sum p e^(lambda l). The delta is then a sum of probabilities there, times Chernoff's bound
    M^n e^(-lambda epsilon), so its error is relative to that bound. A lambda that moves the mean of the sum to just
    below epsilon will do, so one FFT serves many epsilons. For sums beyond its window, Chernoff's bound is used, too.

    parts: (loss of one release, number of releases, at least 1) for every law.
    step: of the grid; 0 to choose one for a single law.
    """

    def __init__(self, parts: Sequence[tuple[Losses, int]], step: float = 0.0) -> None:
        if not step:
            ((part, _),) = parts
            step = max(math.sqrt(part.variance) / _FINE_STEPS, float(np.ptp(part.losses)) / _FINE_POINTS)
        grids = [(*part.on_grid(step), n) for part, n in parts]
        self._step, self._count = step, sum(n for _, n in parts)
        self._first = sum(n * first for first, _, n in grids)
        self._listed = [(grid, n) for _, grid, n in grids]
        most = sum(n * float(one.losses[-1]) for one, n in self._listed)
        self._most = most + ROUNDING * abs(most)
        self._lost = min(1.0, sum(n * one.lost for one, n in self._listed) * (1.0 + ROUNDING))
        self._reach = sum(n * float(np.abs(one.losses).max()) for one, n in self._listed)
        self._tilt = cache(self._tilted_sum)
        self._window = lru_cache(_MOST_WINDOWS)(self._fft)

    def delta(self, epsilon: float) -> float:
        """Return the delta at `epsilon` >= 0, rounded up."""
        if epsilon >= self._most:
            return self._lost
        tilt = self._below(epsilon)
        lowest, mass, beyond = self._window(tilt)
        start = min(max(math.floor(epsilon / self._step) - lowest, 0), mass.size)
        # The first point is at epsilon or just below.
        gap = np.maximum((lowest + np.arange(start, mass.size, dtype=np.float64)) * self._step - epsilon, 0.0)
        chernoff = math.exp(self._log_chernoff(tilt, epsilon))
        error = _FFT_ERROR * (self._count + 1000.0)
        found = chernoff * (float(mass[start:] @ (np.exp(-tilt.steepness * gap) * -np.expm1(-gap))) + error)
        return min(1.0, (found + beyond + self._lost) * (1.0 + ROUNDING))

    def _below(self, loss: float) -> _Tilt:
        """Return a change of measure with a mean of at most `loss`, and Chernoff's bound near the least one.

        Within e^_LOOSE: the logarithm of the bound moves by loss - mean per steepness. Without a change if the mean is
        above the loss. Every search halves the same intervals, so losses near each other get the same result.
        """
        found, above = self._tilt(0.0), _STEEPEST
        further = min(1.0 / max(found.deviation, 1.0 / above), above / 2.0)
        while (above - found.steepness) * (loss - found.mean) > _LOOSE and above - found.steepness > _SMALLEST * above:
            # Doubled until the mean is above the loss.
            doubled = max(2.0 * found.steepness, further)
            middle = doubled if doubled < above else (found.steepness + above) / 2.0
            tilt = self._tilt(middle)
            if tilt.mean <= loss:
                found = tilt
            else:
                above = middle
        return found

    def _tilted_sum(self, steepness: float) -> _Tilt:
        log_moment = mean = variance = 0.0
        for one, n in self._listed:
            weights, log_of_sum = _tilted(one, steepness)
            average = float(weights @ one.losses)
            mean += n * average
            variance += n * float(weights @ (one.losses - average) ** 2)
            log_moment += n * log_of_sum
        return _Tilt(steepness, log_moment, mean, math.sqrt(variance))

    def _fft(self, tilt: _Tilt) -> tuple[int, Float64Array, float]:
        """Return (first, mass, beyond): the tilted sum from point `first` on, and a bound on losses above its end."""
        weighted = [(_tilted(one, tilt.steepness)[0], n) for one, n in self._listed]
        longest = max(weights.size for weights, _ in weighted)
        size = 1 << math.ceil(math.log2(max(longest, _WINDOW * tilt.deviation / self._step, 2.0)))
        # All of a sum that fits; sums below the window come out above it, where they count for more.
        last = self._first + sum(n * (one.losses.size - 1) for one, n in self._listed)
        lowest = max(self._first, min(round(tilt.mean / self._step) - size // 2, last - size + 1))
        spectrum = math.prod(np.fft.rfft(weights, size) ** n for weights, n in weighted)
        mass = np.maximum(np.roll(np.fft.irfft(spectrum, size), (self._first - lowest) % size), 0.0)
        beyond, end = 0.0, (lowest + size) * self._step
        if lowest + size <= last:
            beyond = math.exp(min(0.0, *(self._log_chernoff(one, end) for one in (tilt, self._below(end)))))
        return lowest, mass, beyond

    def _log_chernoff(self, tilt: _Tilt, loss: float) -> float:
        """Return the logarithm of Chernoff's bound on sums of at least `loss`, with the rounding of large terms."""
        rounding = _PRECISION * (tilt.steepness * (self._reach + abs(loss)) + self._count)
        return tilt.log_moment - tilt.steepness * loss + rounding


def _tilted(listed: Losses, steepness: float) -> tuple[Float64Array, float]:
    """Return the masses times e^(steepness l), with the sum 1, and the logarithm of their sum before."""
    exponents = steepness * listed.losses
    top = float(exponents.max())
    weights = listed.mass * np.exp(exponents - top)
    total = float(weights.sum())
    return weights / total, math.log(total) + top


@dataclass(frozen=True)
class LaplaceLoss(PrivacyCurve):
    """Numbers that change by known multiples of the Laplace scale, also in adaptive releases.

    *Formal guarantee.* delta is that of n_i independent Laplace losses a_i each, with a relative excess below 1e-3, and
    zero from `pure_epsilon` on.

    >>> two = LaplaceLoss(((2, 0.5),), 1.0)
    >>> two.epsilon(0.0), round(two.delta(0.5), 4)
    (1.0, 0.1238)

    parts: (n_i, a_i), different a_i > 0. pure_epsilon: the largest total loss, rounded up by the caller.
    Papers: Dwork, McSherry, Nissim, Smith 2006; Zhu, Dong, Wang 2022 (adaptive composition).
    """

    parts: tuple[tuple[int, float], ...]
    pure_epsilon: float

    def __post_init__(self) -> None:
        if not self.parts or not all(n >= 1 and 0.0 < a < math.inf for n, a in self.parts):
            raise ValueError(f"parts must be numbers of losses above 0, at least one, got {self.parts}")

    def epsilon(self, delta: float) -> float:
        return _epsilon(self, delta)

    def delta(self, epsilon: float) -> float:
        if epsilon >= self.pure_epsilon:
            return 0.0
        (n, a), *others = self.parts
        if n == 1 and not others:
            return -math.expm1(min(0.0, epsilon - a) / 2.0) * (1.0 + ROUNDING)
        return _summed(self.parts).delta(epsilon)

    @property
    def method(self) -> str:
        losses = " and ".join(f"{n} of {a:.6g}" for n, a in self.parts)
        return f"privacy loss distribution of Laplace losses, {losses}"


def dominating_scale(scale: float, copies: int) -> float:
    """Return the scale of the Laplace noise that dominates discrete Laplace noise for whole changes.

    copies: number of copies of each number, with known differences of their noises; changes count `copies` times.
    """
    step = copies / scale
    # ln cosh(x) = x + ln((1 + e^(-2x)) / 2): a large step overflows cosh. Rounded up.
    doubled = step + 2.0 * (step / 2.0 + math.log1p(math.exp(-step)) - math.log(2.0))
    return copies / (max(doubled, step) * (1.0 + ROUNDING))


@lru_cache(maxsize=16)
def _summed(parts: tuple[tuple[int, float], ...]) -> SummedLosses:
    listed = [(laplace_losses(a), n) for n, a in parts]
    variances = [n * part.variance for part, n in listed]
    # The grid of the kind with the largest variance: its losses lie on it. Each loss of another kind is split between
    # the points around it, which adds at most the product of its distances from them to the variance. The step is
    # halved until this is little of the whole, or the FFT becomes too long.
    largest = variances.index(max(variances))
    others = [part for i, part in enumerate(parts) if i != largest]
    # Huge losses have next to no variance; without a least step, the grid has billions of points.
    least = _FINEST * max(a for _, a in parts)
    step, finest = max(laplace_step(parts[largest][1]), least), max(math.sqrt(sum(variances)) / _MOST_STEPS, least)
    allowed = _GRID_ERROR * sum(variances)
    while step > finest and sum(n * min(a * step, step * step / 4.0) for n, a in others) > allowed:
        step /= 2.0
    return SummedLosses(listed, step)


@lru_cache(maxsize=4096)
def _epsilon(curve: LaplaceLoss, delta: float) -> float:
    start = 0.5 * sum(n * a for n, a in curve.parts)
    return least_epsilon(curve.delta, delta * (1.0 - 2.0 * ROUNDING), start, curve.pure_epsilon)
