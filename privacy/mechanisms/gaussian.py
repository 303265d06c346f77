"""Gaussian noise: its guarantee, calibration by the exact curve, tails and sampler."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy

from dprl.compiled import kernel
from dprl.privacy.accounting.closed_forms import GaussianDP, gaussian_mu
from dprl.privacy.base import Float64Array, Sensitivity, check_positive
from dprl.privacy.mechanisms.base import IDEALISED, NODE, ROW, Mechanism
from dprl.privacy.mechanisms.logarithm import log_of_reduced, one_to_two, open_unit, reduced, signed
from dprl.privacy.mechanisms.sampling import sampler
from dprl.privacy.mechanisms.tails import Lattice
from dprl.privacy.randomness.bits import fill_bits

# sin x = x + x^3 (S1 + ...), cos x = 1 - x^2/2 + x^4 (K1 + ...), |x| <= pi/4: fdlibm's coefficients.
_S1, _S2, _S3 = -1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04
_S4, _S5, _S6 = 2.75573137070700676789e-06, -2.50507602534068634195e-08, 1.58969099521155010221e-10
_K1, _K2, _K3 = 4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05
_K4, _K5, _K6 = -2.75573143513906633035e-07, 2.08757232129817482790e-09, -1.13596475577881948265e-11
_HALF_PI = math.pi / 2
# The mass beyond this many standard deviations is below 1e-55.
REACH = 16.0


@dataclass(frozen=True)
class Gaussian(Mechanism):
    """Additive Gaussian noise of standard deviation sigma = `scale`.

    *Formal guarantee.* For a vector with an L2 distance of at most `l2` between any two neighbours, adding independent
    N(0, scale^2) noise to every coordinate is (epsilon, delta)-DP for every epsilon >= 0 with delta = Phi(mu/2 -
    epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu), mu = l2 / scale, and for no smaller delta, in real arithmetic;
    delta is never 0. The sampler works in float64, so the certificate says 'float64-idealised'.
    Paper: Balle, Wang 2018, Theorem 8.
    """

    scale: float
    name: ClassVar[str] = "gaussian"
    law: ClassVar[int] = 2
    norm: ClassVar[str] = "l2"
    arithmetic: ClassVar[str] = IDEALISED
    bound: ClassVar[float] = 0.0
    places: ClassVar[frozenset[str]] = frozenset({NODE, ROW})
    draws_sums: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_positive("scale", self.scale, "ask for another epsilon or delta")

    @classmethod
    def calibrated(cls, epsilon: float, delta: float, sensitivity: Sensitivity) -> Gaussian:
        """Return the least Gaussian noise that is (epsilon, delta)-DP at `sensitivity`, rounded up.

        Raises ValueError for delta = 0.

        >>> ten_numbers = Sensitivity.of_cells(10)
        >>> noise = Gaussian.calibrated(epsilon=1.0, delta=1e-6, sensitivity=ten_numbers)
        >>> round(noise.scale, 3), round(noise.curve(ten_numbers).epsilon(1e-6), 3)
        (13.36, 1.0)
        """
        if delta <= 0.0:
            raise ValueError(f"delta must be above 0 for Gaussian noise, got {delta}; give a delta, or choose laplace")
        return cls(sensitivity.l2 / gaussian_mu(epsilon, delta))

    @property
    def variance(self) -> float:
        return self.scale**2

    def curve(self, sensitivity: Sensitivity) -> GaussianDP:
        """Return the exact curve, which neighbours that differ by l2 attain."""
        return GaussianDP(sensitivity.l2 / self.scale)

    @property
    def envelope(self) -> Gaussian:
        return self

    def rounded(self, step: float, summands: int) -> Lattice:
        per_step = step / (self.scale * math.sqrt(summands))
        edges = (np.arange(math.ceil(REACH / per_step) + 2) - 0.5) * per_step
        # Gauss-Legendre quadrature in every bin, because differences of a distribution function lose the tail.
        nodes, weights = np.polynomial.legendre.leggauss(5)
        x = edges[:, None] + (nodes + 1.0) * (per_step / 2.0)
        return Lattice(np.exp(-0.5 * x * x) @ weights * (per_step / (2.0 * math.sqrt(2.0 * math.pi))), 0.0)

    def sum_of_draws(self, number: int, size: int, generator: np.random.Generator) -> Float64Array:
        return np.asarray(math.sqrt(number) * self.scale * generator.standard_normal(size))

    def sum_bound(self, n_items: int, failure: float) -> float:
        return self.scale * math.sqrt(n_items) * -float(scipy.special.ndtri(failure / 4.0))


@kernel
def circle_point(bits: np.uint64) -> tuple[float, float]:
    """Return sqrt(2) (cos, sin) of an angle uniform on the circle; errors below 5e-16.

    With x uniform on (-pi/4, pi/4), cos x - sin x = sqrt(2) cos(x + pi/4), and likewise for sin: the first quadrant.
    Two further bits are the signs, so no branch and no exchange is needed.
    """
    x = (one_to_two(bits) - (1.5 - 2.0**-53)) * _HALF_PI
    z = x * x
    sine = x + x * z * (_S1 + z * (_S2 + z * (_S3 + z * (_S4 + z * (_S5 + z * _S6)))))
    cosine = 1.0 - 0.5 * z + z * z * (_K1 + z * (_K2 + z * (_K3 + z * (_K4 + z * (_K5 + z * _K6)))))
    return signed(cosine - sine, bits), signed(cosine + sine, bits >> np.uint64(1))


@kernel
def _turn_into_pairs(out: Float64Array, scale: float) -> None:
    """Replace the bits in `out` float64[2m] by draws: of a pair, the first word gives the radius, the second the angle.

    Paper: Box, Muller 1958.
    """
    bits = out.view(np.uint64)
    for j in range(out.shape[0] // 2):
        # u is uniform on (0, 1), so that sqrt(-log u) is at least 1e-8 and at most 6.1.
        s, e = reduced(open_unit(bits[2 * j]))
        radius = scale * math.sqrt(-log_of_reduced(s, e))
        x, y = circle_point(bits[2 * j + 1])
        out[2 * j] = radius * x
        out[2 * j + 1] = radius * y


@sampler(Gaussian.law)
def fill_gaussian(
    out: Float64Array, scale: float, bound: float, key: np.ndarray, table: np.ndarray, first: np.uint64
) -> None:
    """Fill `out` float64[n], contiguous, with draws number first, first+1, ... of N(0, scale^2).

    Draws 2j and 2j+1 are the two coordinates of one random point, hence independent, and use only the bits number 2j
    and 2j+1. |draw| is at most 8.6 scale; a true Gaussian exceeds this with probability below 1e-17.

    *Formal guarantee.* None by itself; see Gaussian.
    """
    skipped = np.int64(first & np.uint64(1))
    if skipped == 0 and out.shape[0] % 2 == 0:
        fill_bits(out.view(np.uint64), key, first)
        _turn_into_pairs(out, scale)
    else:
        n_pairs = (skipped + out.shape[0] + 1) // 2
        pairs = np.empty(2 * n_pairs)
        fill_bits(pairs.view(np.uint64), key, first - np.uint64(skipped))
        _turn_into_pairs(pairs, scale)
        # A slice assignment would take a second longer to compile, because of its error about shapes.
        for i in range(out.shape[0]):
            out[i] = pairs[skipped + i]
