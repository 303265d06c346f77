"""An exponential function that the compiler can vectorise; the C library's is a call for every number."""

from __future__ import annotations

import numpy as np

from dprl.compiled import kernel

# exp(r) = 1 + r + r c/(2-c) for |r| <= ln(2)/2, c = r - z (C1 + z (C2 + ...)), z = r^2: fdlibm's coefficients.
_C1, _C2, _C3 = 1.66666666666666019037e-01, -2.77777777770155933842e-03, 6.61375632143793436117e-05
_C4, _C5 = -1.65339022054652515390e-06, 4.13813679705723846039e-08
_PER_LN2 = 1.44269504088896338700
# ln(2) in two parts; the first has so few digits that its products with whole numbers below 2^20 are exact.
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
# Adding 1.5 * 2^52 rounds to a whole number and leaves it in the lowest bits.
_ROUNDING = 6755399441055744.0
# Below it the result would be subnormal.
_LOWEST = -708.0


@kernel
def exponential(x: float) -> float:
    """Return exp(x) for x <= 0, within 1 ulp, without branches; 0 below -708."""
    bounded = max(x, _LOWEST)
    shifted = bounded * _PER_LN2 + _ROUNDING
    n = shifted - _ROUNDING
    high, low = bounded - n * _LN2_HIGH, n * _LN2_LOW
    r = high - low
    z = r * r
    c = r - z * (_C1 + z * (_C2 + z * (_C3 + z * (_C4 + z * _C5))))
    of_r = 1.0 - ((low - r * c / (2.0 - c)) - high)
    # Multiplies by 2^n: adds n to the exponent.
    bits = np.float64(of_r).view(np.int64) + np.int64(np.float64(shifted).view(np.int64) << np.int64(52))
    result = np.int64(bits).view(np.float64)
    return result if x >= _LOWEST else 0.0
