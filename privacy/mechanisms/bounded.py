"""Noise of bounded support, which proves little: uniform noise, and Laplace noise conditioned on an interval."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy

from dprl.compiled import kernel
from dprl.privacy.accounting.closed_forms import PrivacyCurve, bounded_support_curve, worst_outside
from dprl.privacy.base import Float64Array, Sensitivity, check_positive
from dprl.privacy.mechanisms.base import IDEALISED, Mechanism
from dprl.privacy.mechanisms.logarithm import log_of_reduced, reduced
from dprl.privacy.mechanisms.sampling import sampler
from dprl.privacy.randomness.bits import fill_uniform

_HALF_STEP = 2.0**-53


@dataclass(frozen=True)
class Uniform(Mechanism):
    """Additive uniform noise on [-bound, bound].

    *Formal guarantee.* For neighbours that differ by v, delta(epsilon) = 1 - prod_j (1 - |v_j| / (2 bound))_+
    for every epsilon >= 0, exactly, in real arithmetic: an output that both neighbours can produce reveals nothing, any
    other one reveals everything. No epsilon is finite below that delta. The worst v with |v|_1 <= l1 and |v_j| <= linf
    is the most concentrated one (Lemma E).
    Paper: [TH23] sec. 6.1.
    """

    bound: float
    name: ClassVar[str] = "uniform"
    law: ClassVar[int] = 5
    norm: ClassVar[str] = "l1"
    arithmetic: ClassVar[str] = IDEALISED

    def __post_init__(self) -> None:
        check_positive("bound", self.bound, "ask for a larger delta")

    @property
    def scale(self) -> float:
        return self.bound

    @property
    def variance(self) -> float:
        return self.bound**2 / 3.0

    def curve(self, sensitivity: Sensitivity) -> PrivacyCurve:
        width = 2.0 * self.bound
        log_common = lambda v: math.log1p(-v / width) if v < width else -math.inf  # noqa: E731
        return bounded_support_curve(worst_outside(sensitivity, log_common), 0.0)

    def explain(self, sensitivity: Sensitivity) -> str:
        l1, outside = sensitivity.l1, sensitivity.l1 / (2.0 * self.bound)
        return (
            f"a = l1 / (2 delta) = {l1:.6g} / (2 * {outside:.6g}) = {self.bound:.6g}, delta the mass that only one "
            f"of two neighbours can produce: {sensitivity.changes}"
        )

    def log_ratios(self, y: Float64Array, ones: Float64Array, zeros: Float64Array) -> Float64Array:
        possible = np.where(np.abs(y - ones) > self.bound, -math.inf, 0.0)
        return np.where(np.abs(y - zeros) > self.bound, math.inf, possible)


@kernel
def fill_signed_uniform(out: Float64Array, key: np.ndarray, first: np.uint64) -> None:
    """Fill `out` float64[n] with draws number first, first+1, ... of `key`: the odd multiples of 2^-53 in (-1, 1)."""
    fill_uniform(out, key, first)
    for i in range(out.shape[0]):
        # Exact: half a step moves the grid to where it is symmetric and has no 0.
        out[i] = (2.0 * out[i] - 1.0) + _HALF_STEP


@sampler(Uniform.law)
def fill_uniform_noise(
    out: Float64Array, scale: float, bound: float, key: np.ndarray, table: np.ndarray, first: np.uint64
) -> None:
    """Fill `out` float64[n] with draws number first, first+1, ..., uniform on [-bound, bound].

    *Formal guarantee.* None by itself; see Uniform.
    """
    fill_signed_uniform(out, key, first)
    for i in range(out.shape[0]):
        out[i] *= bound


@dataclass(frozen=True)
class BoundedLaplace(Mechanism):
    """Additive noise of density exp(-|x|/scale) / (2 scale (1 - exp(-bound/scale))) on [-bound, bound].

    *Formal guarantee.* No finite bound gives a pure epsilon: outputs near the end of one neighbour's interval cannot
    come from the other. For neighbours that differ by v it is (|v|_1 / scale, delta)-DP with delta = 1 -
    prod_j (1 - delta_j), delta_j = (exp(|v_j|/scale) - 1) / (2 (exp(bound/scale) - 1)) for |v_j| <= bound, exactly, in
    real arithmetic. The worst v is the most concentrated one (Lemma E), so scale = |v|_1 / epsilon and bound =
    scale ln(1 + (e^epsilon - 1) / (2 delta)) are (epsilon, delta)-DP (D11: printed with a free bound, at delta = 0). A
    bounded *output* needs none of this: clip the output of Laplace noise to a data-independent range, which keeps its
    guarantee.
    Paper: [TH23] sec. 6.2; Geng, Ding, Guo, Kumar 2020, Theorem 1.
    """

    scale: float
    bound: float
    name: ClassVar[str] = "bounded_laplace"
    law: ClassVar[int] = 6
    norm: ClassVar[str] = "l1"
    arithmetic: ClassVar[str] = IDEALISED

    def __post_init__(self) -> None:
        check_positive("scale", self.scale, "ask for a larger epsilon")
        check_positive("bound", self.bound, "use laplace for unbounded noise")

    @property
    def variance(self) -> float:
        """2 b^2 P(3, B/b) / (1 - e^(-B/b)), P the regularised incomplete gamma function: exact for any B/b.

        Paper: [TH23] sec. 6.2.
        """
        r = self.bound / self.scale
        return 2.0 * self.scale**2 * float(scipy.special.gammainc(3.0, r)) / -math.expm1(-r)

    def curve(self, sensitivity: Sensitivity) -> PrivacyCurve:
        """Return the curve of scale and bound; an upper bound below l1 / scale, or if the worst shift exceeds l2."""
        s, outside = sensitivity, worst_outside(sensitivity, self._log_common)
        return bounded_support_curve(outside, min(s.l1, s.cells * s.linf) / self.scale)

    def _log_common(self, shift: float) -> float:
        """Return ln of the mass of the noise on the common support with itself shifted by `shift`."""
        b, bound = self.scale, self.bound
        if shift <= bound:
            # (e^(v/b) - 1) / (2 (e^(B/b) - 1)), in terms that do not overflow.
            tail = math.exp((shift - bound) / b) * math.expm1(-shift / b) / (2.0 * math.expm1(-bound / b))
            return math.log1p(-tail)
        if shift >= 2.0 * bound:
            return -math.inf
        log_gap = (bound - shift) / b + math.log(-math.expm1((shift - 2.0 * bound) / b))
        return log_gap - math.log(-2.0 * math.expm1(-bound / b))

    def explain(self, sensitivity: Sensitivity) -> str:
        l1, b, delta = sensitivity.l1, self.scale, self.curve(sensitivity).delta(math.inf)
        return (
            f"b = l1 / epsilon_0 = {l1:.6g} / {l1 / b:.6g} = {b:.6g} on [-B, B], B = {self.bound:.6g}; the mass that "
            f"only one of two neighbours can produce is delta = {delta:.6g}: {sensitivity.changes}"
        )

    def log_ratios(self, y: Float64Array, ones: Float64Array, zeros: Float64Array) -> Float64Array:
        possible = np.where(np.abs(y - ones) > self.bound, -math.inf, super().log_ratios(y, ones, zeros))
        return np.where(np.abs(y - zeros) > self.bound, math.inf, possible)


@sampler(BoundedLaplace.law)
def fill_bounded_laplace(
    out: Float64Array, scale: float, bound: float, key: np.ndarray, table: np.ndarray, first: np.uint64
) -> None:
    """Fill `out` float64[n] with draws number first, first+1, ... of Laplace(scale) given |x| <= bound, of `noise`.

    x = -scale sgn(w) log1p(-2 |w| (1 - e^(-bound/scale))) with w uniform on (-1/2, 1/2). Equation (78) of [TH23]
    inverts a distribution function that is wrong for x < 0 (D12), see papers/refuted_formulas.py.

    *Formal guarantee.* None by itself; see BoundedLaplace.
    """
    fill_signed_uniform(out, key, first)
    mass = -math.expm1(-bound / scale)
    for i in range(out.shape[0]):
        t = abs(out[i]) * mass
        y = 1.0 - t
        # The exact rounding error of the subtraction: ln(1 - t) = ln(y) + lost / y to the last digits for any t.
        lost = (1.0 - y) - t
        s, e = reduced(y)
        size = -scale * (log_of_reduced(s, e) + lost / y)
        out[i] = math.copysign(min(size, bound), out[i])
