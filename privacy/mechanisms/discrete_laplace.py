"""The discrete Laplace mechanism: integer noise, sampled exactly and in lockstep, digit by digit.

Z = B s (1 + G): B ~ Bernoulli(2q / (1+q)) says whether Z is not 0, s is a fair sign, and G is geometric with ratio
q = exp(-1/b). G's low binary digits are independent, P(digit i = 1) = 1 / (1 + exp(2^i / b)), and independent of
G div 2^k, geometric with ratio exp(-2^k / b). So one draw is a fixed number of coins, most of them decided by 15 random
bits each, four coins per word. Ties of coins, and rare values from 2^k on, are resolved one by one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np

from dprl.compiled import kernel
from dprl.privacy.accounting.closed_forms import ChosenCurve, PrivacyCurve, RandomizedResponses
from dprl.privacy.accounting.losses import LaplaceLoss, dominating_scale
from dprl.privacy.base import Float64Array, Sensitivity, quotient_up
from dprl.privacy.mechanisms.base import INTEGER, NODE, Mechanism
from dprl.privacy.mechanisms.laplace import Laplace, calibrated_scale
from dprl.privacy.mechanisms.sampling import sampler
from dprl.privacy.mechanisms.tails import Complex128Array, Lattice, few_enough, lattice_sum_bound
from dprl.privacy.randomness import exact
from dprl.privacy.randomness.bits import fill_bits
from dprl.privacy.randomness.exact import LIMB_BITS, RESERVED, Approximation, UInt64Array

SMALLEST_SCALE, LARGEST_SCALE = 1e-3, 2.0**40
# Relative precision in bits of every probability and every cut-off.
_PRECISION = 256
# G div 2^k is above 0 with probability exp(-7) or less, so deciding it coin by coin costs nothing.
_RARE_EXPONENT = 7.0
# A lane has 15 bits for its coin and one to compare with; lane 0 uses that one as the sign.
_LANES, _LANE_BITS, _COIN_BITS = 4, 16, 15
_COIN_MASK = np.uint64(0x7FFF)
_TOP_OF_LANES = np.uint64(0x8000800080008000)
_ONE_IN_LANES = np.uint64(0x0001000100010001)
# Bits of a draw during its assembly: coins from bit 0 on (not zero, G >= 2^k, digits), then these.
_NONZERO, _OVERFLOW, _FIXED_COINS = np.uint64(1), np.uint64(2), 2
_TIE, _COINS = np.uint64(1 << 63), np.uint64((1 << 62) - 1)
# The table: words per draw, coins, limbs per coin, largest G div 2^k; thresholds of a block; limbs of every coin after
# its first 15 bits; limbs of the coin G >= 2^k from its first bit on.
_HEADER, _BLOCK = 4, 256


@dataclass(frozen=True)
class DiscreteLaplace(Mechanism):
    """Additive discrete Laplace noise, P(z) proportional to exp(-|z| / scale) on the integers.

    *Formal guarantee.* For a vector of integers with an L1 distance of at most `l1` between any two neighbours, adding
    independent noise to every coordinate is (l1/scale, 0)-DP. If n coordinates change by 1 each, the whole
    (epsilon, delta) curve is exactly that of n randomized responses with epsilon_0 = 1/scale. The scale is the exact
    rational value of the float64. Given uniform random bits, the draw's law on integers was computed without rounding
    errors of float64: its log ratios are those above within 2^-200, and the mass beyond its end is below 2^-255. With
    these errors, noise on m coordinates is (l1/scale + m 2^-200, m 2^-250)-DP.

    Args:
        scale: b in [1e-3, 2^40], in units of the count; values stay below 2^53.

    Paper: Ghosh, Roughgarden, Sundararajan 2012; Canonne, Kamath, Steinke 2020, sec. 5.
    """

    scale: float
    name: ClassVar[str] = "discrete_laplace"
    law: ClassVar[int] = 3
    norm: ClassVar[str] = "l1"
    arithmetic: ClassVar[str] = INTEGER
    bound: ClassVar[float] = 0.0
    places: ClassVar[frozenset[str]] = frozenset({NODE})
    pure: ClassVar[bool] = True
    draws_sums: ClassVar[bool] = True
    replaces: ClassVar[str] = Laplace.name

    def __post_init__(self) -> None:
        if not SMALLEST_SCALE <= self.scale <= LARGEST_SCALE:
            rule = f"scale must lie in [{SMALLEST_SCALE:g}, 2^40] for discrete Laplace noise"
            raise ValueError(f"{rule}, got {self.scale}; ask for another epsilon")

    @classmethod
    def calibrated(cls, epsilon: float, delta: float, sensitivity: Sensitivity) -> DiscreteLaplace:
        return cls(calibrated_scale(lambda b: _curve(b, sensitivity), epsilon, delta, sensitivity.l1))

    @property
    def variance(self) -> float:
        """2q / (1-q)^2 with q = exp(-1/scale)."""
        return 2.0 * math.exp(-1.0 / self.scale) / math.expm1(-1.0 / self.scale) ** 2

    def curve(self, sensitivity: Sensitivity) -> PrivacyCurve:
        """Return its curve: exact for integers that change by 1 each, else an upper bound with exact pure epsilon."""
        return _curve(self.scale, sensitivity)

    def sampler_table(self) -> UInt64Array:
        return discrete_laplace_table(self.scale).copy()

    @property
    def envelope(self) -> Laplace:
        """Laplace noise of the same scale: a draw is the difference of two exponentials, each rounded down."""
        return Laplace(self.scale)

    def rounding(self, draws: int) -> float:
        """Return `draws`: the difference of two exponentials rounded down is less than 1 away from the unrounded."""
        return float(draws)

    def sum_of_draws(self, number: int, size: int, generator: np.random.Generator) -> Float64Array:
        draws = generator.negative_binomial(number, -math.expm1(-1.0 / self.scale), (2, size))
        return np.asarray(draws[0] - draws[1], dtype=np.float64)

    def lattice(self, summands: int) -> Lattice | None:
        if not few_enough(self.scale, summands):
            return None
        ratio = math.exp(-1.0 / self.scale)
        return Lattice((1.0 - ratio) / (1.0 + ratio) * np.array([1.0, ratio]), ratio).summed(summands)

    def log_transform(self, s: Complex128Array) -> Complex128Array:
        """Return ln E e^(s Z), |Re s| < 1 / scale."""
        ratio = math.exp(-1.0 / self.scale)
        both_sides = np.log1p(-ratio * np.exp(s)) + np.log1p(-ratio * np.exp(-s))
        return np.asarray(2.0 * math.log(-math.expm1(-1.0 / self.scale)) - both_sides)

    def sum_bound(self, n_items: int, failure: float) -> float:
        return lattice_sum_bound(n_items, failure, self.variance, self.log_transform, self.scale, self.moment_limit)

    @property
    def moment_limit(self) -> float:
        return 1.0 / self.scale

    def log_moment(self, argument: float) -> float:
        """Return the exact ln E e^(argument Z); for w Z it is convex in w^2."""
        limit = self.moment_limit
        sides = math.log(-math.expm1(argument - limit)) + math.log(-math.expm1(-argument - limit))
        return 2.0 * math.log(-math.expm1(-limit)) - sides


def _curve(scale: float, sensitivity: Sensitivity) -> PrivacyCurve:
    pure = quotient_up(sensitivity.l1, scale)
    responses = RandomizedResponses(sensitivity.cells, sensitivity.linf / scale, pure)
    if sensitivity.of_one_copy.integer:
        return responses
    dominating = dominating_scale(scale, sensitivity.copies)
    parts = tuple((number, change / dominating) for number, change in sensitivity.worst_shift)
    return ChosenCurve((responses, LaplaceLoss(parts, pure)))


@lru_cache(maxsize=64)
def discrete_laplace_table(scale: float) -> UInt64Array:
    """Return the table of `fill_discrete_laplace` for `scale`, uint64[n]; layout above."""
    inverse, digits = 1 / Fraction(scale), 0
    while float(inverse * 2**digits) < _RARE_EXPONENT:
        digits += 1

    def odds(exponent: Fraction, factor: int) -> Approximation:
        # factor e / (1 + e) with e = exp(-exponent): an error of e is multiplied by at most `factor`.
        def approximation(bits: int) -> int:
            e = exact.exp_minus(exponent, bits + 8)
            return exact.round_shift((factor * e << (bits + 8)) // ((1 << (bits + 8)) + e), 8)

        return approximation

    overflow = lambda bits: exact.exp_minus(inverse * 2**digits, bits)  # noqa: E731
    # The probabilities of the coins: not zero, G >= 2^k, and the digits 0..k-1 of G.
    coins = [odds(inverse, 2), overflow] + [odds(inverse * 2**i, 1) for i in range(digits)]
    rarest_bits = math.ceil(max(2.0**digits, 1.0) / scale / math.log(2.0)) + 2
    n_limbs = -(-(_PRECISION + rarest_bits) // LIMB_BITS)
    total_bits = _COIN_BITS + LIMB_BITS * n_limbs
    values = [exact.leading_bits(p, total_bits) for p in coins]
    largest = math.ceil(_PRECISION * math.log(2.0) * scale / 2.0**digits)
    words = -(-len(coins) // _LANES)
    thresholds = [0] * words
    for coin, value in enumerate(values):
        lead = value >> (LIMB_BITS * n_limbs)
        thresholds[coin // _LANES] |= lead << (_LANE_BITS * (coin % _LANES))
    rests = [exact.to_limbs(value & ((1 << LIMB_BITS * n_limbs) - 1), n_limbs) for value in values]
    header = np.array([words, len(coins), n_limbs, largest], dtype=np.uint64)
    block = np.tile(np.array(thresholds, dtype=np.uint64), _BLOCK)
    again = exact.to_limbs(exact.leading_bits(coins[1], LIMB_BITS * n_limbs), n_limbs)
    return np.concatenate([header, block, *rests, again])


@kernel
def _flip(words: np.ndarray, thresholds: np.ndarray) -> None:
    """Replace each word by its four coins (bits 0..3), the sign of lane 0 (bit 62), and whether one tied (_TIE)."""
    for i in range(words.shape[0]):
        # No lane borrows from the next, because the first operand's top bits are set and the other's are not.
        gap = (words[i] | _TOP_OF_LANES) - thresholds[i]
        less = (~gap & _TOP_OF_LANES) >> np.uint64(15)
        equal = gap & ~(gap - _ONE_IN_LANES) & _TOP_OF_LANES
        coins = (less | (less >> np.uint64(15)) | (less >> np.uint64(30)) | (less >> np.uint64(45))) & np.uint64(15)
        tie = _TIE if equal != np.uint64(0) else np.uint64(0)
        words[i] = coins | tie | ((words[i] & np.uint64(0x8000)) << np.uint64(47))


@kernel
def _value(draw: np.uint64) -> float:
    """Return the number given by a draw's coins and sign, without its part from 2^k on."""
    magnitude = (((draw & _COINS) >> np.uint64(_FIXED_COINS)) + np.uint64(1)) * (draw & _NONZERO)
    negative = np.int64(draw >> np.uint64(62)) & 1
    return np.float64((np.int64(magnitude) ^ -negative) + negative)


@kernel
def _settled(key: np.ndarray, number: np.uint64, table: np.ndarray) -> float:
    """Return draw `number` coin by coin, with as many bits as each coin needs."""
    n_words, n_coins, n_limbs, largest = np.int64(table[0]), np.int64(table[1]), np.int64(table[2]), np.int64(table[3])
    limbs = table[_HEADER + _BLOCK * n_words :]
    spare = RESERVED + number * np.uint64(n_limbs * (n_coins + largest))
    words = np.empty(n_words, dtype=np.uint64)
    fill_bits(words, key, number * np.uint64(n_words))
    draw = (words[0] & np.uint64(0x8000)) << np.uint64(47)
    for coin in range(n_coins):
        lane = np.uint64(_LANE_BITS * (coin % _LANES))
        random = (words[coin // _LANES] >> lane) & _COIN_MASK
        threshold = (table[_HEADER + coin // _LANES] >> lane) & _COIN_MASK
        one = random < threshold
        if random == threshold:
            rest = limbs[coin * n_limbs : (coin + 1) * n_limbs]
            one = exact.bernoulli(rest, key, spare + np.uint64(coin * n_limbs))
        if one:
            draw |= np.uint64(1) << np.uint64(coin)
    high = np.int64(0)
    if draw & _OVERFLOW:
        # G div 2^k is geometric again: it counts equal coins up to the first 0.
        again = limbs[n_coins * n_limbs :]
        high = np.int64(1)
        while high < largest and exact.bernoulli(again, key, spare + np.uint64((n_coins + high) * n_limbs)):
            high += 1
    draw &= ~_OVERFLOW
    return _value(draw + (np.uint64(high) << np.uint64(n_coins)))


@sampler(DiscreteLaplace.law)
def fill_discrete_laplace(
    out: Float64Array, scale: float, bound: float, key: np.ndarray, table: np.ndarray, first: np.uint64
) -> None:
    """Fill `out` float64[n] with draws number first, first+1, ... (below 2^53) of the law of `table`.

    *Formal guarantee.* See DiscreteLaplace. Draw i uses words W i .. W i + W - 1 of the key, W = table[0], and words
    from RESERVED on that no other draw uses to resolve ties.
    """
    n_words = np.int64(table[0])
    words = np.empty(min(_BLOCK, out.shape[0]) * n_words, dtype=np.uint64)
    draws = np.empty(_BLOCK, dtype=np.uint64)
    for start in range(0, out.shape[0], _BLOCK):
        part = out[start : start + _BLOCK]
        n = part.shape[0]
        number = first + np.uint64(start)
        drawn = words[: n * n_words]
        fill_bits(drawn, key, number * np.uint64(n_words))
        _flip(drawn, table[_HEADER : _HEADER + n * n_words])
        for i in range(n):
            draws[i] = drawn[i * n_words]
        for w in range(1, n_words):
            for i in range(n):
                word = drawn[i * n_words + w]
                draws[i] |= ((word & np.uint64(15)) << np.uint64(_LANES * w)) | (word & _TIE)
        unsettled = np.uint64(0)
        for i in range(n):
            unsettled |= draws[i] & (_TIE | _OVERFLOW)
            part[i] = _value(draws[i])
        if unsettled:
            for i in range(n):
                if draws[i] & (_TIE | _OVERFLOW):
                    part[i] = _settled(key, number + np.uint64(i), table)
