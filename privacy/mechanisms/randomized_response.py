"""Randomized response: a bit is reported truthfully with probability exactly e^epsilon / (1 + e^epsilon)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dprl.compiled import kernel
from dprl.privacy.base import Float64Array
from dprl.privacy.randomness.exact import LIMB_BITS, LIMBS, exp_minus, fill_bernoulli, leading_bits, to_limbs

COIN_BITS = LIMB_BITS * LIMBS
# For larger epsilon, a flip is rarer than the coins' resolution of 2^-256.
LARGEST_EPSILON = 100.0


def require_epsilon(epsilon: float) -> None:
    """Raise ValueError unless the coins' resolution suffices for `epsilon`."""
    if not 0.0 < epsilon <= LARGEST_EPSILON:
        raise ValueError(f"epsilon must be above 0 and at most {LARGEST_EPSILON:g}, got {epsilon}; ask for less")


def truth_bits(epsilon: Fraction) -> int:
    """Return floor(2^256 e^epsilon / (1 + e^epsilon)); rounding down rounds the privacy loss down."""

    def truth(bits: int) -> int:
        # Rounded to the nearest: an error of 1/2, and 1/16 for the error of the exponential.
        one = 1 << (bits + 4)
        total = one + exp_minus(epsilon, bits + 4)
        return ((one << (bits + 1)) + total) // (2 * total)

    return leading_bits(truth, COIN_BITS)


@dataclass(frozen=True)
class RandomizedResponse:
    """One bit, reported truthfully with probability e^epsilon / (1 + e^epsilon) and flipped otherwise.

    *Formal guarantee.* (epsilon, 0)-DP for any two values of the bit.
    The coins are exact: the probability is the stated one rounded down to 256 bits, so the loss is at most epsilon in
    computer arithmetic too, if the generator's words are uniform.

    Args:
        epsilon: of one bit, above 0 and at most 100.

    Paper: Warner 1965; Kairouz, Oh, Viswanath 2015, sec. 3.
    """

    epsilon: float
    name: ClassVar[str] = "randomized_response"

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)

    def table(self) -> npt.NDArray[np.uint64]:
        """Return the probability of the truth as uint64[4], for `fill_responses`."""
        return to_limbs(truth_bits(Fraction(self.epsilon)), LIMBS)


@kernel
def fill_responses(out: Float64Array, bits: Float64Array, key: np.ndarray, first: np.uint64, table: np.ndarray) -> None:
    """Fill `out` float64[n] with the responses to `bits` float64[n]; response i takes coin number first + i of `key`.

    A bit counts as 1 above 1/2 and as 0 otherwise, including NaN, so the guarantee holds for any data on a device.
    `out` must not be `bits`.

    *Formal guarantee.* (epsilon, 0)-DP for every bit, with `table` that of RandomizedResponse(epsilon).
    """
    fill_bernoulli(out, table, key, first)
    for i in range(out.shape[0]):
        bit = 1.0 if bits[i] > 0.5 else 0.0
        out[i] = 1.0 - abs(out[i] - bit)
