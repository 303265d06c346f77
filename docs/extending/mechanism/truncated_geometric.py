"""A mechanism of one's own: discrete Laplace noise that never exceeds a bound, in whole numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from dprl.platform.plugins import register_mechanism
from dprl.privacy.mechanisms.base import Sensitivity
from dprl.privacy.mechanisms.tabulated import WHOLE, TabulatedMechanism

# Factor between tries: the calibrated scale is the least one within this factor.
_STEP = 1.0 + 1e-6
_LARGEST = 10_000.0


@register_mechanism
@dataclass(frozen=True)
class TruncatedGeometric(TabulatedMechanism):
    """Truncated geometric noise: P(z) proportional to exp(-|z| / scale) for |z| <= most, whole numbers only.

    *Formal guarantee.* That of TabulatedMechanism: n cells that change by 1 cost n r at delta 1 - (1 - p)^n, with r
    about 1/scale and p = P(Z = most). Both are computed from the table that the sampler uses.

    scale: above 0, at most 10,000. most: the largest noise, at least 1.
    """

    name: ClassVar[str] = "truncated_geometric"
    scale: float
    most: int

    @classmethod
    def calibrated(cls, epsilon: float, delta: float, sensitivity: Sensitivity) -> TruncatedGeometric:
        """Return the least noise of this kind that is (epsilon, delta)-DP at `sensitivity`; delta must be above 0."""
        if delta <= 0.0:
            raise ValueError(
                f"delta must be above 0 for {cls.name}, got {delta}; add delta: 1e-6, or take discrete_laplace"
            )
        scale = sensitivity.l1 / epsilon
        if scale > _LARGEST:
            raise ValueError(f"epsilon must be at least {sensitivity.l1 / _LARGEST:g} for {cls.name}, got {epsilon}")
        while True:
            # P(Z = most) is at most delta / n; rounded to 63 bits it may be slightly more, and `curve` accounts for it.
            ratio, share = math.exp(-1.0 / scale), delta / sensitivity.cells
            most = max(1, math.ceil(scale * math.log((1.0 - ratio) / (1.0 + ratio) / share)))
            found = cls(scale, most)
            proved = found.curve(sensitivity)
            if proved.delta(epsilon) <= delta and proved.epsilon(delta) <= epsilon:
                return found
            scale *= _STEP

    def chances(self) -> list[int]:
        """Return P(|Z| = j) in units of 2^-63; P(0) includes the rounding error."""
        weights = [math.exp(-j / self.scale) * (1.0 if j == 0 else 2.0) for j in range(self.most + 1)]
        unit = WHOLE / math.fsum(weights)
        rest = [max(2, round(weight * unit)) for weight in weights[1:]]
        return [WHOLE - sum(rest), *rest]
