"""Laplace noise: its guarantee, calibration, tails and sampler."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dprl.compiled import kernel
from dprl.privacy.accounting.closed_forms import PrivacyCurve
from dprl.privacy.accounting.losses import LaplaceLoss
from dprl.privacy.accounting.root_finding import inside, root_of_tail, smallest
from dprl.privacy.base import Float64Array, Sensitivity, check_positive, quotient_up
from dprl.privacy.mechanisms.base import IDEALISED, NODE, Mechanism
from dprl.privacy.mechanisms.logarithm import log_of_reduced, open_unit, reduced, signed
from dprl.privacy.mechanisms.sampling import sampler
from dprl.privacy.mechanisms.tails import NEGLIGIBLE, Lattice, laplace_sum_tail
from dprl.privacy.randomness.bits import fill_bits

# Number of draws with both halves kept at a time: a few kB, to stay in the nearest cache.
BLOCK = 256


def calibrated_scale(curve: Callable[[float], PrivacyCurve], epsilon: float, delta: float, l1: float) -> float:
    """Return the smallest scale at which (discrete) Laplace noise is (epsilon, delta)-DP, rounded up.

    *Formal guarantee.* For delta = 0, l1 / scale <= epsilon as rational numbers. For delta > 0, `curve` of the scale,
    as on a certificate, meets (epsilon, delta), unless the scale for delta = 0 is smaller.
    """
    pure = quotient_up(l1, epsilon)
    if delta <= 0.0:
        return pure
    epsilon, delta = inside(epsilon, delta)
    return min(pure, smallest(lambda b: curve(b).delta(epsilon) if b < pure else 0.0, delta, pure))


@dataclass(frozen=True)
class Laplace(Mechanism):
    """Additive Laplace noise, density exp(-|x|/scale) / (2 scale).

    *Formal guarantee.* For a vector with an L1 distance of at most `l1` between any two neighbours, adding independent
    Laplace(scale) noise to every coordinate is exactly (l1/scale, 0)-DP in real arithmetic. The sampler works in
    float64, so the certificate says 'float64-idealised' (Mironov 2012 shows the gap).
    Paper: Dwork, McSherry, Nissim, Smith 2006, Proposition 1.
    """

    scale: float
    name: ClassVar[str] = "laplace"
    law: ClassVar[int] = 1
    norm: ClassVar[str] = "l1"
    arithmetic: ClassVar[str] = IDEALISED
    bound: ClassVar[float] = 0.0
    places: ClassVar[frozenset[str]] = frozenset({NODE})
    pure: ClassVar[bool] = True
    draws_sums: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_positive("scale", self.scale, "ask for another epsilon")

    @classmethod
    def calibrated(cls, epsilon: float, delta: float, sensitivity: Sensitivity) -> Laplace:
        """Return the least noise that is (epsilon, delta)-DP at `sensitivity`: scale l1 / epsilon for delta = 0.

        >>> ten_numbers = Sensitivity.of_cells(10)
        >>> Laplace.calibrated(epsilon=0.5, delta=0.0, sensitivity=ten_numbers)
        Laplace(scale=20.0)
        """
        return cls(calibrated_scale(lambda b: cls(b).curve(sensitivity), epsilon, delta, sensitivity.l1))

    @property
    def variance(self) -> float:
        return 2.0 * self.scale**2

    def curve(self, sensitivity: Sensitivity) -> LaplaceLoss:
        """Return the losses of the worst vector: attained by numbers that change by 1 each, else an upper bound."""
        parts = tuple((number, change / self.scale) for number, change in sensitivity.worst_shift)
        return LaplaceLoss(parts, quotient_up(sensitivity.l1, self.scale))

    @property
    def envelope(self) -> Laplace:
        return self

    def rounded(self, step: float, summands: int) -> Lattice:
        """Return the law of a sum of draws, rounded to multiples of `step`; for one draw it is geometric."""
        step /= self.scale
        if summands == 1:
            ratio = math.exp(-step)
            return Lattice(np.array([-math.expm1(-step / 2.0), math.sinh(step / 2.0) * ratio]), ratio)
        end = 2.0 * math.sqrt(summands)
        while laplace_sum_tail(end, summands) > NEGLIGIBLE:
            end *= 1.2
        edges = step * (np.arange(math.ceil(end / step) + 2) - 0.5)
        beyond = 0.5 * np.array([laplace_sum_tail(float(x), summands) for x in edges[1:]])
        return Lattice(np.concatenate(([1.0 - 2.0 * beyond[0]], -np.diff(beyond))), 0.0)

    def sum_of_draws(self, number: int, size: int, generator: np.random.Generator) -> Float64Array:
        gamma = generator.standard_gamma(number, (2, size))
        return np.asarray(self.scale * (gamma[0] - gamma[1]))

    def sum_bound(self, n_items: int, failure: float) -> float:
        return self.scale * root_of_tail(lambda x: 2.0 * laplace_sum_tail(x, n_items), failure)


@kernel
def _halves(part: Float64Array, exponents: Float64Array) -> None:
    """Replace the bits in `part` by the first half of their draws, and write the second half to `exponents`.

    That is the reduced form of 52 bits of magnitude, both numbers with the sign that is the lowest bit.
    """
    # A view of the part, not a part of a view, so that the compiler sees that they are the same numbers.
    bits = part.view(np.uint64)
    for i in range(part.shape[0]):
        word = bits[i]
        s, e = reduced(open_unit(word))
        part[i], exponents[i] = signed(s, word), signed(e, word)


@sampler(Laplace.law)
def fill_laplace(
    out: Float64Array, scale: float, bound: float, key: np.ndarray, table: np.ndarray, first: np.uint64
) -> None:
    """Fill `out` float64[n], contiguous, with draws number first, first+1, ... of Laplace(scale).

    Draw number i is -scale * log(u), within 2.5 ulp, with a random sign; u and the sign are 53 of the bits number i.

    *Formal guarantee.* None by itself; see Laplace.
    """
    fill_bits(out.view(np.uint64), key, first)
    exponents = np.empty(BLOCK)
    for start in range(0, out.shape[0], BLOCK):
        part = out[start : start + BLOCK]
        _halves(part, exponents)
        for i in range(part.shape[0]):
            part[i] = -scale * log_of_reduced(part[i], exponents[i])
