"""The Laplace mechanism: one sampler for every place that adds Laplace noise, and what its scale proves."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dprl.privacy.compiled import kernel
from dprl.privacy.streams import random_bits

# log(m) = s (2 + z (C1 + z (C2 + ...))), s = (m-1)/(m+1), z = s^2: fdlibm's coefficients, without its last correction.
_C1, _C2, _C3 = 6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01
_C4, _C5, _C6 = 2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01
_C7 = 1.479819860511658591e-01
_LN2 = 0.6931471805599453
_SQRT_HALF_BITS = np.int64(0x3FE6A09E667F3BCD)
_ONE_BITS = np.int64(0x3FF0000000000000)
_JUST_BELOW_ONE = 1.0 - 2.0**-53


@dataclass(frozen=True)
class Laplace:
    """Additive Laplace noise, density exp(-|x|/scale) / (2 scale).

    *Formal guarantee.* For a vector whose L1 distance between any two neighbours is at most `l1`, adding independent
    Laplace(scale) noise to every coordinate is (l1/scale, 0)-DP, exactly, in real arithmetic. The sampler here works
    in float64: the certificate says 'float64-idealised' (Mironov 2012 shows what that leaves open).

    Args:
        scale: b > 0, in units of the count.

    Paper: Dwork, McSherry, Nissim, Smith 2006, Proposition 1.
    """

    scale: float
    name: ClassVar[str] = "laplace"
    arithmetic: ClassVar[str] = "float64-idealised"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.scale) and self.scale > 0):
            raise ValueError(
                f"the Laplace scale must be finite and above 0, got {self.scale}; ask for a larger epsilon"
            )

    def pure_epsilon(self, l1: float) -> float:
        """Return the exact pure epsilon at L1 sensitivity `l1`."""
        return l1 / self.scale

    @staticmethod
    def scale_for(epsilon: float, l1: float) -> float:
        """Return the smallest scale that is (epsilon, 0)-DP at L1 sensitivity `l1`."""
        return l1 / epsilon


@kernel
def _log(u: float) -> float:
    """Natural log of u in (0, 1], within 2.5 ulp, without branches, so that LLVM vectorises the loop around it."""
    bits = np.float64(u).view(np.int64)
    exponent = (bits - _SQRT_HALF_BITS) >> np.int64(52)
    mantissa = np.int64(bits - (exponent << np.int64(52))).view(np.float64)
    s = (mantissa - 1.0) / (mantissa + 1.0)
    z = s * s
    p = 2.0 + z * (_C1 + z * (_C2 + z * (_C3 + z * (_C4 + z * (_C5 + z * (_C6 + z * _C7))))))
    return np.float64(exponent) * _LN2 + s * p


@kernel
def laplace_draw(key: np.uint64, counter: np.uint64, scale: float) -> float:
    """Return draw number `counter` of the stream `key`, Laplace(scale): 52 bits of magnitude, one of sign.

    *Formal guarantee.* None by itself; see Laplace.
    """
    bits = random_bits(key, counter)
    magnitude = np.int64(np.int64(bits >> np.uint64(12)) | _ONE_BITS)
    u = magnitude.view(np.float64) - _JUST_BELOW_ONE
    x = np.float64(-scale * _log(u))
    sign = np.int64(bits << np.uint64(63))
    return np.int64(x.view(np.int64) ^ sign).view(np.float64)
