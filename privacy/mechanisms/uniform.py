"""Uniform noise: its bound proves little."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dprl.compiled import kernel
from dprl.privacy.accounting.closed_forms import PrivacyCurve, bounded_support_curve, worst_outside
from dprl.privacy.base import Float64Array
from dprl.privacy.mechanisms.base import IDEALISED, Mechanism, Sensitivity, require_positive
from dprl.privacy.mechanisms.sampling import sampler
from dprl.privacy.randomness.bits import fill_uniform

_HALF_STEP = 2.0**-53


@dataclass(frozen=True)
class Uniform(Mechanism):
    """Additive uniform noise on [-bound, bound].

    *Formal guarantee.* For neighbours that differ by v, delta(epsilon) = 1 - prod_j (1 - |v_j| / (2 bound))_+
    for every epsilon >= 0, exactly, in real arithmetic: an output that both neighbours can produce reveals nothing, any
    other one reveals everything. No epsilon is finite below that delta. The worst v with |v|_1 <= l1 and |v_j| <= linf
    is the most concentrated one (accounting.bounded_support).

    Args:
        bound: a > 0, in units of the number.

    Paper: [TH23] sec. 6.1.
    """

    bound: float
    name: ClassVar[str] = "uniform"
    law: ClassVar[int] = 5
    norm: ClassVar[str] = "l1"
    arithmetic: ClassVar[str] = IDEALISED

    def __post_init__(self) -> None:
        require_positive("bound", self.bound, "ask for a larger delta")

    @classmethod
    def calibrated(cls, epsilon: float, delta: float, sensitivity: Sensitivity) -> Uniform:  # noqa: ARG003
        """Return uniform noise that is (0, delta)-DP at `sensitivity`, for any epsilon: bound l1 / (2 delta).

        It is not usable: at delta = 1e-5 the noise is 50,000 times the sensitivity. The bound grows with 1/delta, not
        with sqrt(log 1/delta), and is at most a factor 1 + delta above the least one for delta <= 1/2. Raises
        ValueError for delta = 0.
        """
        if delta <= 0.0:
            raise ValueError(f"delta must be above 0 for uniform noise, got {delta}; use laplace for delta = 0")
        # D10
        return cls(sensitivity.l1 / (2.0 * delta))

    @property
    def scale(self) -> float:
        """The bound: uniform noise has no other scale."""
        return self.bound

    @property
    def variance(self) -> float:
        """bound^2 / 3."""
        return self.bound**2 / 3.0

    def curve(self, sensitivity: Sensitivity) -> PrivacyCurve:
        """Return the curve of the bound; an upper bound if the worst shift exceeds the L2 norm of `sensitivity`."""
        s, width = sensitivity, 2.0 * self.bound
        log_common = lambda v: math.log1p(-v / width) if v < width else -math.inf  # noqa: E731
        return bounded_support_curve(worst_outside(s.l1, s.linf, s.cells, log_common), 0.0)

    def explain(self, sensitivity: Sensitivity) -> str:
        """Return the line that explains the scale."""
        l1, outside = sensitivity.l1, sensitivity.l1 / (2.0 * self.bound)
        return (
            f"a = l1 / (2 delta) = {l1:.6g} / (2 * {outside:.6g}) = {self.bound:.6g}, delta the mass that only one "
            f"of two neighbours can produce: {sensitivity.changes}"
        )

    def log_ratios(self, y: Float64Array, ones: Float64Array, zeros: Float64Array) -> Float64Array:
        """Return ln P(y | ones) / P(y | zeros) of noisy numbers y: 0, or +-inf if only one of the two can give y."""
        return np.where(
            np.abs(y - zeros) > self.bound, math.inf, np.where(np.abs(y - ones) > self.bound, -math.inf, 0.0)
        )


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
