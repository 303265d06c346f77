"""Discrete Laplace noise: its table has the exact law, samples follow it, and every draw has bits of its own."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from dprl.privacy.accounting.closed_forms import composed_delta
from dprl.privacy.base import Sensitivity
from dprl.privacy.mechanisms import discrete_laplace
from dprl.privacy.mechanisms.discrete_laplace import (
    DiscreteLaplace,
    discrete_laplace_table,
    fill_discrete_laplace,
)
from dprl.privacy.mechanisms.sampling import Noise, fill_noise
from dprl.privacy.randomness.bits import fill_bits
from dprl.privacy.randomness.exact import RESERVED, bernoulli
from dprl.privacy.randomness.streams import Streams

N_DRAWS = 200_000
HEADER, BLOCK, COIN_BITS = 4, discrete_laplace._BLOCK, 15


def key(seed: int) -> np.ndarray:
    return Streams(seed, "discrete_laplace").key("user_noise")


def sample(seed: int, scale: float, n: int = N_DRAWS) -> np.ndarray:
    out = np.empty(n)
    fill_noise(out, DiscreteLaplace(scale).noise(key(seed)), np.uint64(0))
    return out


def pmf(z: np.ndarray, scale: float) -> np.ndarray:
    return np.asarray(math.tanh(0.5 / scale) * np.exp(-np.abs(z) / scale))


class TableLaw:
    """The law of a table: every coin's probability as a fraction."""

    def __init__(self, scale: float) -> None:
        table = discrete_laplace_table(scale)
        self.words, self.coins, self.n_limbs, self.largest = (int(x) for x in table[:HEADER])
        self.digits = self.coins - 2
        limbs = table[HEADER + BLOCK * self.words :].reshape(self.coins + 1, self.n_limbs)
        rests = [int.from_bytes(row.astype(">u8").tobytes(), "big") for row in limbs]
        leads = [int(table[HEADER + c // 4]) >> 16 * (c % 4) & 0x7FFF for c in range(self.coins)]
        unit = 1 << 64 * self.n_limbs
        self.p = [Fraction(lead * unit + rest, unit << COIN_BITS) for lead, rest in zip(leads, rests, strict=False)]
        self.again = Fraction(rests[-1], unit)

    def probability(self, z: int) -> Fraction:
        not_zero, overflow, *digits = self.p
        if z == 0:
            return 1 - not_zero
        g = abs(z) - 1
        high, low = divmod(g, 1 << self.digits)
        result = not_zero / 2
        for i, p in enumerate(digits):
            result *= p if low >> i & 1 else 1 - p
        if high == 0:
            return result * (1 - overflow)
        stop = 1 - self.again if high < self.largest else Fraction(1)
        return result * overflow * self.again ** (high - 1) * stop


def logarithm(x: Fraction) -> Decimal:
    return Decimal(x.numerator).ln() - Decimal(x.denominator).ln()


@pytest.mark.parametrize("scale", [1e-3, 0.3, 1.0, 7.5, 50.0, 2.0**40])
def test_the_law_of_the_table_is_discrete_laplace(scale: float) -> None:
    # The privacy proof rests on this: neighbouring values differ by a factor exp(1/scale), and the centre is right.
    law = TableLaw(scale)
    unit = 1 << law.digits
    probed = {0, 1, 2, 5, unit // 2, unit - 1, unit, unit + 1, 2 * unit, (law.largest - 1) * unit}
    with localcontext() as context:
        context.prec = 1000
        one = 1 / Decimal(scale)
        q = (-one).exp()
        centre = (1 - q) / (1 + q)
        assert abs(logarithm(law.probability(0)) - centre.ln()) < Decimal(2) ** -250
        for z in sorted(z for z in probed if z + 1 <= law.largest * unit):
            down = logarithm(law.probability(z)) - logarithm(law.probability(z + 1))
            assert abs(down - one) < Decimal(2) ** -240
            assert down <= one + Decimal("1e-60")
            assert law.probability(-z) == law.probability(z)


@pytest.mark.parametrize("scale", [1e-3, 0.3, 50.0, 2.0**40])
def test_what_is_cut_off_is_negligible(scale: float) -> None:
    law = TableLaw(scale)
    assert law.again**law.largest <= Fraction(1, 2**255)
    assert (law.largest + 1) << law.digits < 2**53


def reference_draw(number: int, table: np.ndarray, key: np.ndarray) -> float:
    """Return one draw, coin by coin with whole integers: U of 15 + 64 n bits against p of as many."""
    words, coins, n_limbs, largest = (int(x) for x in table[:HEADER])
    limbs = table[HEADER + BLOCK * words :].reshape(coins + 1, n_limbs)
    own = np.empty(words, dtype=np.uint64)
    fill_bits(own, key, np.uint64(number * words))
    more = np.empty(n_limbs * (coins + largest), dtype=np.uint64)
    fill_bits(more, key, RESERVED + np.uint64(number * more.shape[0]))
    tie_bits = more.reshape(coins + largest, n_limbs)

    def flip(coin: int) -> bool:
        u = int(own[coin // 4]) >> 16 * (coin % 4) & 0x7FFF
        p = int(table[HEADER + coin // 4]) >> 16 * (coin % 4) & 0x7FFF
        return [u, *tie_bits[coin].tolist()] < [p, *limbs[coin].tolist()]

    if not flip(0):
        return 0.0
    g = sum(flip(2 + i) << i for i in range(coins - 2))
    if flip(1):
        high = 1
        while high < largest and tie_bits[coins + high].tolist() < limbs[coins].tolist():
            high += 1
        g += high << (coins - 2)
    return float(-(1 + g) if int(own[0]) >> 15 & 1 else 1 + g)


def tying_table(scale: float, seed: int, number: int, coin: int) -> np.ndarray:
    """Return a table whose `coin` ties with the random bits of draw `number`."""
    table = discrete_laplace_table(scale).copy()
    words = int(table[0])
    own = np.empty(words, dtype=np.uint64)
    fill_bits(own, key(seed), np.uint64(number * words))
    mask = np.uint64(0x7FFF << 16 * (coin % 4))
    for w in range(HEADER + coin // 4, HEADER + BLOCK * words, words):
        table[w] = (table[w] & ~mask) | (own[coin // 4] & mask)
    return table


@pytest.mark.parametrize("coin", range(11))
def test_ties_are_settled_by_further_bits(coin: int) -> None:
    # Both outcomes of the tie: all further bits of p 1, or all 0; and p's own. Most draws have no tie and agree, too.
    # The draw is not 0, so that each of its coins has an effect.
    seed, seen = 4, set()
    number = 10 + int(np.flatnonzero(sample(seed, 50.0, 40)[10:])[0])
    for rest in (None, 0, 2**64 - 1):
        table = tying_table(50.0, seed, number, coin)
        words, n_limbs = int(table[0]), int(table[2])
        if rest is not None:
            begin = HEADER + BLOCK * words + coin * n_limbs
            table[begin : begin + n_limbs] = rest
        out = np.empty(100)
        fill_noise(out, DiscreteLaplace(3.0).noise(key(seed))._replace(table=table), np.uint64(0))
        assert out.tolist() == [reference_draw(i, table, key(seed)) for i in range(100)]
        seen.add(out[number])
    assert len(seen) == 2


def test_steps_beyond_the_digits_have_coins_of_their_own() -> None:
    # Nearly every draw is made to pass 2^k, and each further step is a fair coin: 0 to `largest` of them.
    table = discrete_laplace_table(50.0).copy()
    words, n_limbs, largest = int(table[0]), int(table[2]), int(table[3])
    table[HEADER : HEADER + BLOCK * words : words] |= np.uint64(0x7FFF << 16)
    table[-n_limbs:] = 0
    table[-n_limbs] = np.uint64(1 << 63)
    out = np.empty(300)
    fill_noise(out, DiscreteLaplace(3.0).noise(key(6))._replace(table=table), np.uint64(0))
    assert out.tolist() == [reference_draw(i, table, key(6)) for i in range(300)]
    high = np.abs(out[out != 0]) // 2**9
    assert set(high) >= {1, 2, 3, 4}
    assert high.max() <= largest


@pytest.mark.parametrize("scale", [0.3, 50.0, 2.0**40])
def test_no_two_draws_share_a_word(scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    # The stream numbers that a draw reads, for any outcome of its coins: recorded from the uncompiled kernel.
    asked: list[int] = []

    def record(out: np.ndarray, _key: np.ndarray, first: np.uint64) -> None:
        asked.extend((int(first) + i) % 2**64 for i in range(out.shape[0]))
        fill_bits(out, _key, first)

    settle = getattr(discrete_laplace._settled, "py_func", discrete_laplace._settled)

    def fill(out: np.ndarray, noise: Noise, first: np.uint64) -> None:
        fill_discrete_laplace(out, noise.scale, noise.bound, noise.key, noise.table, first)

    toss = getattr(bernoulli, "py_func", bernoulli)
    monkeypatch.setattr(discrete_laplace, "fill_bits", record)
    monkeypatch.setitem(toss.__globals__, "fill_bits", record)
    monkeypatch.setattr(discrete_laplace, "bernoulli", toss)
    table, n = discrete_laplace_table(scale), 40
    words = int(table[0])
    fill(np.empty(n), DiscreteLaplace(3.0).noise(key(6))._replace(table=table), np.uint64(3))
    ordinary = [number for number in asked if number < int(RESERVED)]
    assert ordinary[: n * words] == list(range(3 * words, (3 + n) * words))
    for last in (7, 2**53 - 2):
        used = []
        for number in (last, last + 1):
            asked.clear()
            for coin in range(int(table[1])):
                settle(key(6), np.uint64(number), tying_table(scale, 6, number, coin))
            used.append(set(asked))
        assert not used[0] & used[1]
        assert max(n for n in used[1] if n < int(RESERVED)) == (last + 2) * words - 1


def test_the_exact_curve_is_attained_by_the_law() -> None:
    # Two counts that both change by 1: delta(epsilon) summed over the joint law itself.
    scale, epsilon = 2.0, 0.4
    z = np.arange(-150, 151)
    there, shifted = pmf(z, scale), pmf(z - 1, scale)
    attained = np.sum(np.maximum(0.0, np.outer(there, there) - math.exp(epsilon) * np.outer(shifted, shifted)))
    curve = DiscreteLaplace(scale).curve(Sensitivity.of_cells(2))
    assert attained <= curve.delta(epsilon) <= attained * (1 + 1e-8)


def test_other_changes_are_bounded() -> None:
    # Three counts that together change by 4, each by 2 at most.
    curve = DiscreteLaplace(5.0).curve(Sensitivity(4.0, math.sqrt(8.0), 2.0, 3))
    assert curve.pure_epsilon == pytest.approx(0.8)
    assert curve.delta(0.5) <= composed_delta(0.5, 3, 0.4) * (1 + 1e-8)
