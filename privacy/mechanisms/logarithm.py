"""A logarithm that the compiler can vectorise, for samplers that invert a distribution function.

It has two halves, `reduced` and `log_of_reduced`: two short loops over a block, one for each half, are faster than one
loop with a long chain of dependent operations.
"""

from __future__ import annotations

import numpy as np

from dprl.compiled import kernel

# log(m) = s (2 + z (C1 + z (C2 + ...))), s = (m-1)/(m+1), z = s^2: fdlibm's coefficients, without its last correction.
_C1, _C2, _C3 = 6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01
_C4, _C5, _C6 = 2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01
_C7 = 1.479819860511658591e-01
_LN2 = 0.6931471805599453
_SQRT_HALF_BITS = np.int64(0x3FE6A09E667F3BCD)
_ONE_BITS = np.int64(0x3FF0000000000000)


@kernel
def one_to_two(bits: np.uint64) -> float:
    """Return 1 + m / 2^52 for the number m of the upper 52 bits, without a conversion."""
    return np.int64(np.int64(bits >> np.uint64(12)) | _ONE_BITS).view(np.float64)


@kernel
def open_unit(bits: np.uint64) -> float:
    """Return (m + 1/2) / 2^52 for the number m of the upper 52 bits: uniform on points of (0, 1), symmetric."""
    return one_to_two(bits) - (1.0 - 2.0**-53)


@kernel
def signed(x: float, sign: np.uint64) -> float:
    """Return x, with its sign reversed if the lowest bit of `sign` is set; without branches."""
    return np.int64(np.float64(x).view(np.int64) ^ np.int64(sign << np.uint64(63))).view(np.float64)


@kernel
def reduced(u: float) -> tuple[float, float]:
    """Return (s, e) with u = 2^e (1+s)/(1-s), e whole and |s| < 0.172, for u in (0, 1]; without branches."""
    bits = np.float64(u).view(np.int64)
    exponent = (bits - _SQRT_HALF_BITS) >> np.int64(52)
    mantissa = np.int64(bits - (exponent << np.int64(52))).view(np.float64)
    return (mantissa - 1.0) / (mantissa + 1.0), np.float64(exponent)


@kernel
def log_of_reduced(s: float, e: float) -> float:
    """Return log(2^e (1+s)/(1-s)), within 2.5 ulp; odd in (s, e)."""
    z = s * s
    p = 2.0 + z * (_C1 + z * (_C2 + z * (_C3 + z * (_C4 + z * (_C5 + z * (_C6 + z * _C7))))))
    return e * _LN2 + s * p
