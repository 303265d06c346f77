"""Privacy loss distributions on a grid: composition of unequal releases without a closed form.

A loss l between two grid points is split between them so that its mass and its e^-l stay the same ("connect the
dots"). Under max(0, 1 - e^(epsilon - l)), convex in e^-l, the split loss is larger, so every delta is an upper bound,
with an error of the order of the step squared. Sums are convolved directly and not by FFT, so that small deltas lose no
digits. Many releases with one law are summed by FFT after a change of measure, as precisely: see `SummedLosses`.

Papers: Kairouz, Oh, Viswanath 2015 (randomized response dominates); Zhu, Dong, Wang 2022 (adaptive composition of
dominating pairs); Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022 (connect the dots).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import scipy

from dprl.privacy.accounting.closed_forms import zcdp_deltas
from dprl.privacy.accounting.root_finding import ROUNDING
from dprl.privacy.base import Float64Array

# Steps in one standard deviation of the loss: 1e-6 of relative error in epsilon for each kind of loss.
_STEPS, _COARSE_STEPS, _MOST_STEPS, _STEPS_OF_SMALLEST = 300, 100, 1000, 10
_MOST_POINTS, _FEWER_POINTS = 1 << 15, 1 << 13
MOST_KINDS = 100
"""Kinds of losses that are summed one by one; more of them are merged."""
# Up to this number, possible sums are listed one by one.
_FEW = 4000
# Largest mass of a tail that is cut off.
_TAIL, _RARE = 1e-30, 1e-20
# Range in standard deviations, and number of points, that represent a Gaussian.
_REACH, _POINTS = 12.0, 6000
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(4)
# For sums by FFT: steps in one loss's deviation, points of one loss, deviations of the sum in the window, how many of
# these are kept, and the error of one release, relative to Chernoff's bound. Of changes of measure: how far that bound
# may be from the least one, their relative precision, the steepest one, and the precision of their logarithms.
_FINE_STEPS, _FINE_POINTS, _WINDOW, _MOST_WINDOWS, _FFT_ERROR = 50, 1 << 16, 20.0, 8, 1e-15
_LOOSE, _SMALLEST, _STEEPEST, _PRECISION = 4.0, 1e-9, 1e9, 1e-15
# Pieces of Laplace's density: an error below 1e-5 in the variance of a loss, and in every delta of one.
_WIDTH, _WIDTH_OF_SMALL, _FEWEST_HALF_PIECES, _MOST_HALF_PIECES = 0.01, 0.008, 4, 1 << 13
# Of a distribution from a privacy curve: deltas up to whose epsilons the points lie, and the number of points for each.
# e^709 overflows.
_SMALLEST_DELTAS, _POINTS_OF_CURVE, _LARGEST_GAP = (1e-30, 1e-15, 1e-7, 1e-2), 150, 700.0

RESPONSES, DISCRETE_GAUSSIAN, LAPLACE = range(3)


class Kind(NamedTuple):
    """n losses of one kind.

    law: RESPONSES: randomized responses with epsilon_0 = scale, each with the probability `informative`, otherwise
    without loss; DISCRETE_GAUSSIAN: integers that change by 1, sigma = scale; LAPLACE: numbers that change by scale
    times the scale of Laplace noise.
    """

    law: int
    scale: float
    n: int
    informative: float = 1.0

    @property
    def rho(self) -> float:
        """A zero-concentrated loss of all n together."""
        if self.law == DISCRETE_GAUSSIAN:
            return self.n / (2.0 * self.scale * self.scale)
        return self.n * self.scale * self.scale / 2.0


@dataclass(frozen=True, eq=False)
class Losses:
    """A distribution of the privacy loss.

    losses float64[n]; mass float64[n]: probability of each; lost: probability of an infinite loss.
    """

    losses: Float64Array
    mass: Float64Array
    lost: float = 0.0

    def delta(self, epsilon: float, rho: float = 0.0) -> float:
        """Return the delta at `epsilon`, rounded up, of these losses and, adaptively, one that is rho-zCDP."""
        gap = epsilon - self.losses
        rest = zcdp_deltas(gap, rho) if rho > 0.0 else -np.expm1(np.minimum(gap, 0.0))
        return min(1.0, (float(self.mass @ rest) + self.lost) * (1.0 + ROUNDING))


@dataclass(frozen=True, eq=False)
class _LossGrid:
    """A distribution of the privacy loss on a grid: the first loss is first * step, the next (first + 1) * step."""

    step: float
    first: int
    mass: Float64Array
    lost: float

    @property
    def listed(self) -> Losses:
        """Every loss and its probability."""
        return Losses((self.first + np.arange(self.mass.size, dtype=np.float64)) * self.step, self.mass, self.lost)

    def plus(self, other: _LossGrid) -> _LossGrid:
        """Return the distribution of the sum of two independent losses."""
        mass = np.convolve(self.mass, other.mass)
        return _LossGrid(self.step, self.first + other.first, mass, self.lost + other.lost).trimmed()

    def trimmed(self, tail: float = _TAIL) -> _LossGrid:
        """Return it without its tails: the upper one counts as lost, the lower one is moved up."""
        low = int(np.searchsorted(np.cumsum(self.mass), tail))
        high = self.mass.size - int(np.searchsorted(np.cumsum(self.mass[::-1]), tail))
        kept = self.mass[low:high].copy()
        kept[0] += float(np.sum(self.mass[:low]))
        return _LossGrid(self.step, self.first + low, kept, self.lost + float(np.sum(self.mass[high:])))


def _on_grid(part: Losses, step: float) -> _LossGrid:
    """Return losses as a grid, split between the points around them."""
    index = np.floor(part.losses / step)
    rest = np.clip(part.losses - index * step, 0.0, step)
    upper = np.expm1(-rest) / math.expm1(-step)
    first = int(index.min())
    at = (index - first).astype(np.int64)
    size = int(at.max()) + 2
    grid = np.bincount(at, part.mass * (1.0 - upper), size) + np.bincount(at + 1, part.mass * upper, size)
    return _LossGrid(step, first, grid.astype(np.float64), part.lost).trimmed()


def _binomial(n: int, p: float, log_odds: float) -> tuple[int, Float64Array]:
    """Return (first, probabilities) of a binomial variable around its mean; log_odds = log((1 - p) / p)."""
    reach = 20.0 * math.sqrt(n)  # the mass beyond is below exp(-800)
    first = max(0, math.floor(n * p - reach))
    i = np.arange(first, min(n, math.ceil(n * p + reach)) + 1)
    log_binomial = scipy.special.gammaln(n + 1) - scipy.special.gammaln(i + 1) - scipy.special.gammaln(n - i + 1)
    mass = np.exp(log_binomial - n * math.log1p(math.exp(-log_odds)) - i * log_odds)
    return first, mass * (1.0 + 4e-16 * float(scipy.special.gammaln(n + 1)))


def _of_kind(kind: Kind) -> Losses:
    """Return the total loss of all n releases of a kind."""
    law, scale, n, informative = kind
    if law == DISCRETE_GAUSSIAN:
        return _of_discrete_gaussians(n, scale)
    if law == LAPLACE:
        return repeated(laplace_losses(scale), n)
    wrong = float(scipy.special.expit(-scale))
    if informative < 1.0:
        chances = np.array([wrong * informative, 1.0 - informative, (1.0 - wrong) * informative])
        return _power(_LossGrid(scale, -1, chances, 0.0), n).listed
    first, mass = _binomial(n, wrong, scale)
    return Losses((n - 2 * (first + np.arange(mass.size, dtype=np.float64))) * scale, mass)


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


def _of_discrete_gaussians(n: int, sigma: float) -> Losses:
    """Return the loss of n changes by 1, whose noise has a sum of the same law, see discrete_gaussians."""
    reach = math.ceil(_REACH * math.sqrt(n) * sigma)
    z = np.arange(-reach, reach + 1)
    mass = np.exp(-0.5 * z * z / (n * sigma * sigma))
    return Losses(
        (n - 2 * z) / (2.0 * sigma * sigma), mass / np.sum(mass), 2.0 * math.exp(float(scipy.special.log_ndtr(-_REACH)))
    )


def _of_gaussian(mu: float) -> Losses:
    """Return the loss of a Gaussian release, N(mu^2 / 2, mu^2), in narrow pieces."""
    width = 2.0 * _REACH / _POINTS
    left = -_REACH + width * np.arange(_POINTS)
    inside = width * 0.5 * (_NODES + 1.0)
    z = left[:, None] + inside
    weight = 0.5 * width * _WEIGHTS * np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    upper = weight @ (np.expm1(-mu * inside) / math.expm1(-mu * width))
    mass = np.zeros(_POINTS + 1)
    mass[:-1] += weight.sum(axis=1) - upper
    mass[1:] += upper
    tail = math.exp(float(scipy.special.log_ndtr(-_REACH)))
    mass[0] += tail
    ends = mu * mu / 2.0 + mu * np.append(left, _REACH)
    return Losses(ends, mass, tail)


def fewer(kinds: Sequence[Kind]) -> list[Kind]:
    """Return at most MOST_KINDS kinds, none of discrete Gaussians: pairs are merged by rounding up, cheapest first.

    A larger loss dominates a smaller one of the same law, responses dominate every law, and those with a larger
    informative share dominate the others.
    """
    merged = sorted(kinds, key=lambda kind: (kind.scale, kind.law))
    while len(merged) > MOST_KINDS:
        costs = [less.n * (more.scale**2 - less.scale**2) for less, more in pairwise(merged)]
        at = costs.index(min(costs))
        less, more = merged[at : at + 2]
        law = more.law if less.law == more.law else RESPONSES
        merged[at : at + 2] = [Kind(law, more.scale, less.n + more.n, max(less.informative, more.informative))]
    return merged


def of_curve(delta_at: Callable[[float], float], epsilon_at: Callable[[float], float]) -> Losses:
    """Return a loss with deltas of at least those of any privacy curve, and nearly equal to them.

    *Formal guarantee.* Let f(x) be the least delta at epsilon = ln x of a release, in either direction. It is convex,
    and f(x) = 1 - x + x f(1 / x) for x < 1. Any convex function with that symmetry above f belongs to a pair of laws
    that dominates the release, also in adaptive composition. Here it is the lower convex hull of points on the curve
    and their images: f is below each point, so by convexity below every chord between two of them. It is linear between
    points, so its loss has the values +-epsilon_j of the points, where mass p_j = e^epsilon_j (s_(j-1) - s_j) for the
    slopes -s of the chords, e^-epsilon_j p_j at -epsilon_j, the last delta at infinity, and the rest at 0.

    Args:
        delta_at, epsilon_at: of a curve that holds for neighbours in both orders.

    Papers: Zhu, Dong, Wang 2022, Propositions 8 and 9, Theorem 10; Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022.
    """
    # The body of the loss and its tail have different sizes, so the points are denser near 0.
    ends = [end for end in map(epsilon_at, _SMALLEST_DELTAS) if 0.0 < end < math.inf]
    points = np.unique(np.concatenate([np.zeros(1), *(np.linspace(0.0, end, _POINTS_OF_CURVE) for end in ends)]))
    # A delta at a smaller epsilon also holds at a larger one.
    deltas = np.minimum.accumulate([min(1.0, delta_at(float(epsilon))) for epsilon in points])
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
    return Losses(
        np.concatenate([-x[:0:-1], x]), np.concatenate([mirrored[::-1], [rest], mass]), float(deltas[hull[-1]])
    )


def _all_sums(parts: list[Losses]) -> Losses:
    """Return every sum of one loss of each part."""
    total = parts[0]
    for part in parts[1:]:
        losses = np.add.outer(total.losses, part.losses).ravel()
        total = Losses(losses, np.multiply.outer(total.mass, part.mass).ravel(), total.lost + part.lost)
    return total


def repeated(part: Losses, n: int) -> Losses:
    """Return an upper bound on the loss of n >= 1 adaptive releases with the loss `part` each."""
    mean = float(part.mass @ part.losses)
    deviation = math.sqrt(n * float(part.mass @ (part.losses - mean) ** 2))
    steps = max(_STEPS, min(_MOST_STEPS, 20.0 * math.sqrt(n)))  # a few in the deviation of one loss, too
    step = max(deviation / steps, float(np.ptp(part.losses)) / _FEWER_POINTS)
    return _power(_on_grid(part, step).trimmed(_RARE), n).listed


def _power(power: _LossGrid, n: int) -> _LossGrid:
    """Return the distribution of the sum of n >= 1 independent losses."""
    total: _LossGrid | None = None
    while True:
        if n & 1:
            total = power if total is None else total.plus(power)
        n >>= 1
        if n == 0 and total is not None:
            return total
        power = power.plus(power)


@dataclass(frozen=True, eq=False)
class _Tilt:
    """The sum after a change of measure: every probability p of a loss l becomes p e^(steepness l) / e^log_moment."""

    steepness: float
    log_moment: float
    mean: float
    deviation: float


class SummedLosses:
    """Upper bound on the sum of adaptive releases, n_i of them with law i, by FFT.

    A direct sum of thousands of losses takes minutes. An FFT has an error of 1e-16 of the largest probability, too much
    for a small delta. So masses p are first multiplied by e^(lambda l) / M, M = sum p e^(lambda l). The delta is then a
    sum of probabilities there, times Chernoff's bound M^n e^(-lambda epsilon), so its error is relative to that bound.
    A lambda that moves the mean of the sum to just below epsilon will do, so one FFT serves many epsilons. For sums
    beyond the window of the FFT, Chernoff's bound is used, too.

    Args:
        parts: (loss of one release, number of releases, at least 1) for every law.
        step: of the grid; 0 to choose one for a single law.
    """

    def __init__(self, parts: Sequence[tuple[Losses, int]], step: float = 0.0) -> None:
        if not step:
            ((part, _),) = parts
            mean = float(part.mass @ part.losses)
            deviation = math.sqrt(float(part.mass @ (part.losses - mean) ** 2))
            step = max(deviation / _FINE_STEPS, float(np.ptp(part.losses)) / _FINE_POINTS)
        grids = [(_on_grid(part, step), n) for part, n in parts]
        self._step, self._count = step, sum(n for _, n in grids)
        self._first = sum(n * grid.first for grid, n in grids)
        self._listed = [(grid.listed, n) for grid, n in grids]
        most = sum(n * float(one.losses[-1]) for one, n in self._listed)
        self._most = most + ROUNDING * abs(most)
        self._lost = min(1.0, sum(n * one.lost for one, n in self._listed) * (1.0 + ROUNDING))
        self._reach = sum(n * float(np.abs(one.losses).max()) for one, n in self._listed)
        self._tilts = dict[float, _Tilt]()
        self._windows = dict[float, tuple[int, Float64Array, float]]()
        self._lock = threading.Lock()

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

    def _tilt(self, steepness: float) -> _Tilt:
        if steepness not in self._tilts:
            self._tilts[steepness] = self._computed_tilt(steepness)
        return self._tilts[steepness]

    def _computed_tilt(self, steepness: float) -> _Tilt:
        log_moment = mean = variance = 0.0
        for one, n in self._listed:
            weights, log_of_sum = _tilted(one, steepness)
            average = float(weights @ one.losses)
            mean += n * average
            variance += n * float(weights @ (one.losses - average) ** 2)
            log_moment += n * log_of_sum
        return _Tilt(steepness, log_moment, mean, math.sqrt(variance))

    def _window(self, tilt: _Tilt) -> tuple[int, Float64Array, float]:
        """Return (first, mass, beyond): the tilted sum from point `first` on, and a bound on losses above its end."""
        with self._lock:
            if tilt.steepness not in self._windows:
                while len(self._windows) >= _MOST_WINDOWS:
                    del self._windows[next(iter(self._windows))]
                self._windows[tilt.steepness] = self._computed_window(tilt)
            return self._windows[tilt.steepness]

    def _computed_window(self, tilt: _Tilt) -> tuple[int, Float64Array, float]:
        weighted = [(_tilted(one, tilt.steepness)[0], n) for one, n in self._listed]
        longest = max(weights.size for weights, _ in weighted)
        size = 1 << math.ceil(math.log2(max(longest, _WINDOW * tilt.deviation / self._step, 2.0)))
        # All of a sum that fits; sums below the window come out above it, where they count for more.
        last = self._first + sum(n * (one.losses.size - 1) for one, n in self._listed)
        lowest = max(self._first, min(round(tilt.mean / self._step) - size // 2, last - size + 1))
        spectrum = math.prod(np.fft.rfft(weights, size) ** n for weights, n in weighted)
        mass = np.maximum(np.roll(np.fft.irfft(spectrum, size), (self._first - lowest) % size), 0.0)
        if lowest + size > last:
            return lowest, mass, 0.0
        end = (lowest + size) * self._step
        bounds = (self._log_chernoff(one, end) for one in (tilt, self._below(end)))
        return lowest, mass, math.exp(min(0.0, *bounds))

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


def losses_of(kinds: Sequence[Kind], mu: float, rho: float, others: Sequence[Losses] = ()) -> Losses:
    """Return the loss of adaptive releases; exact if few values are possible, else an upper bound.

    Args:
        kinds: of losses with finitely or countably many values.
        mu: of a Gaussian release; 0 for none.
        rho: the one that `delta` will get; above 0 there are fewer points, because that sum is expensive.
        others: further losses, see `of_curve`.
    """
    noisy = [kind for kind in kinds if kind.law == DISCRETE_GAUSSIAN]
    parts = [_of_kind(kind) for kind in [*fewer([kind for kind in kinds if kind not in noisy]), *noisy]]
    parts += others
    if not parts and mu == 0.0:
        return Losses(np.zeros(1), np.ones(1))
    if mu == 0.0 and math.prod(part.mass.size for part in parts) <= _FEW:
        return _all_sums(parts)
    if mu > 0.0:
        parts.append(_of_gaussian(mu))
    means = [float(part.mass @ part.losses) / float(part.mass.sum()) for part in parts]
    variances = [float(part.mass @ (part.losses - mean) ** 2) for part, mean in zip(parts, means, strict=True)]
    fine = math.sqrt(sum(variances) + 2.0 * rho) / (_COARSE_STEPS if rho > 0.0 else _STEPS)
    # A loss with few values has a large deviation, and small ones beside it count at its largest value.
    fine = min(fine, math.sqrt(min(variances)) / _STEPS_OF_SMALLEST)
    step = max(fine, sum(float(np.ptp(part.losses)) for part in parts) / _MOST_POINTS)
    grids = sorted((_on_grid(part, step) for part in parts), key=lambda grid: grid.mass.size)
    total = grids[0]
    for grid in grids[1:]:
        total = total.plus(grid)
    return total.listed
