"""The privacy curve of Laplace noise on a vector with coordinates that change by known amounts.

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
from dataclasses import dataclass
from functools import lru_cache

from dprl.privacy.accounting.bounded_support import concentrated
from dprl.privacy.accounting.pld import LAPLACE, Kind, SummedLosses, fewer, laplace_losses, laplace_step
from dprl.privacy.accounting.root_finding import ROUNDING, smallest

# Relative error of the variance of a sum on a grid, the most steps in its deviation, and the least step for a loss.
_GRID_ERROR, _MOST_STEPS = 3e-4, 20_000
_FINEST = 2.0**-19


@dataclass(frozen=True)
class LaplaceLoss:
    """Numbers that change by known multiples of the Laplace scale, also in adaptive releases.

    *Formal guarantee.* delta is that of n_i independent Laplace losses a_i each, with a relative excess below 1e-3, and
    zero from `pure` on. More than 100 kinds are merged, cheapest first, by rounding losses up.

    >>> two = LaplaceLoss(((2, 0.5),), 1.0)
    >>> two.epsilon(0.0), round(two.delta(0.5), 4)
    (1.0, 0.1238)

    Args:
        parts: (n_i, a_i), different a_i > 0.
        pure: the largest total loss, rounded up by the caller.

    Papers: Dwork, McSherry, Nissim, Smith 2006; Zhu, Dong, Wang 2022 (adaptive composition).
    """

    parts: tuple[tuple[int, float], ...]
    pure: float

    def __post_init__(self) -> None:
        if not self.parts or not all(n >= 1 and 0.0 < a < math.inf for n, a in self.parts):
            raise ValueError(f"parts must be numbers of losses above 0, at least one, got {self.parts}")

    @property
    def pure_epsilon(self) -> float:
        """The total loss."""
        return self.pure

    def epsilon(self, delta: float) -> float:
        """Return the epsilon at `delta`, rounded up; the total loss for 0."""
        return self.pure if delta <= 0.0 else min(self.pure, _epsilon(self.parts, delta))

    def delta(self, epsilon: float) -> float:
        """Return the delta of the losses."""
        return 0.0 if epsilon >= self.pure else _delta(epsilon, self.parts)

    @property
    def method(self) -> str:
        """Method of computation."""
        losses = " and ".join(f"{n} of {a:.6g}" for n, a in self.parts)
        return f"privacy loss distribution of Laplace losses, {losses}"


def laplace_parts(l1: float, linf: float, cells: int, scale: float) -> tuple[tuple[int, float], ...]:
    """Return the losses of the worst vector for Laplace noise of this scale and a change with these norms."""
    whole, rest = concentrated(l1, linf, cells)
    parts = ((whole, min(l1, linf) / scale), (1, rest / scale))
    return parts if rest > 0.0 else parts[:1]


def dominating_scale(scale: float, copies: int) -> float:
    """Return the scale of the Laplace noise that dominates discrete Laplace noise for whole changes.

    copies: number of copies of each number, with known differences of their noises; changes count `copies` times.
    """
    step = copies / scale
    # ln cosh(x) = x + ln((1 + e^(-2x)) / 2): a large step overflows cosh. Rounded up.
    doubled = step + 2.0 * (step / 2.0 + math.log1p(math.exp(-step)) - math.log(2.0))
    return copies / (max(doubled, step) * (1.0 + ROUNDING))


def _delta(epsilon: float, parts: tuple[tuple[int, float], ...]) -> float:
    total = sum(n for n, _ in parts)
    if total == 1:
        return -math.expm1(min(0.0, epsilon - parts[0][1]) / 2.0) * (1.0 + ROUNDING)
    return _summed(parts).delta(epsilon)


@lru_cache(maxsize=16)
def _summed(parts: tuple[tuple[int, float], ...]) -> SummedLosses:
    kinds = fewer([Kind(LAPLACE, a, n) for n, a in parts])
    listed = [(laplace_losses(kind.scale), kind.n) for kind in kinds]
    variances = [n * float(one.mass @ (one.losses - one.mass @ one.losses) ** 2) for one, n in listed]
    # The grid of the kind with the largest variance: its losses lie on it. Each loss of another kind is split between
    # the points around it, which adds at most the product of its distances from them to the variance. The step is
    # halved until this is little of the whole, or the FFT becomes too long.
    largest = max(zip(variances, kinds, strict=True))[1]
    step, variance = laplace_step(largest.scale), sum(variances)
    others = [kind for kind in kinds if kind is not largest]
    # Huge losses have next to no variance; without a least step, the grid has billions of points.
    least = _FINEST * max(kind.scale for kind in kinds)
    step, finest = max(step, least), max(math.sqrt(variance) / _MOST_STEPS, least)
    while step > finest and sum(kind.n * min(kind.scale * step, step * step / 4.0) for kind in others) > (
        _GRID_ERROR * variance
    ):
        step /= 2.0
    return SummedLosses(listed, step)


@lru_cache(maxsize=4096)
def _epsilon(parts: tuple[tuple[int, float], ...], delta: float) -> float:
    delta *= 1.0 - 2.0 * ROUNDING
    if _delta(0.0, parts) <= delta:
        return 0.0
    return smallest(lambda epsilon: _delta(epsilon, parts), delta, 0.5 * sum(n * a for n, a in parts))
