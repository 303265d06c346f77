"""Discrete Laplace and Gaussian noise: tables have the exact law, ties are settled, and every draw has its own bits."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from dprl.privacy.accounting.closed_forms import ZCDP, ChosenCurve
from dprl.privacy.base import Sensitivity
from dprl.privacy.mechanisms import discrete_laplace
from dprl.privacy.mechanisms.discrete_gaussian import DiscreteGaussian, discrete_gaussian_table
from dprl.privacy.mechanisms.discrete_laplace import DiscreteLaplace, discrete_laplace_table, fill_discrete_laplace
from dprl.privacy.mechanisms.sampling import Noise, fill_noise
from dprl.privacy.randomness import exact
from dprl.privacy.randomness.bits import CHACHA20, SPLITMIX64, fill_bits
from dprl.privacy.randomness.exact import RESERVED, bernoulli
from dprl.privacy.randomness.streams import Streams
from tests.privacy.keys import key_of

# Discrete Laplace noise: its table has the exact law, samples follow it, and every draw has bits of its own.

N_DRAWS = 200_000
HEADER, BLOCK, COIN_BITS = 4, discrete_laplace._BLOCK, 15


def key(seed: int) -> np.ndarray:
    return Streams(seed, "discrete_laplace").key("user_noise")


def sample(seed: int, scale: float, n: int = N_DRAWS) -> np.ndarray:
    out = np.empty(n)
    fill_noise(out, DiscreteLaplace(scale).noise(key(seed)), np.uint64(0))
    return out


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
    monkeypatch.setattr(exact, "bernoulli", toss)
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


# Discrete Gaussian noise: its table has the exact law, samples follow it, ties are resolved, zCDP bounds it.

GAUSSIAN_HEADER, LIMBS = 2, 3


def gaussian_key(seed: int) -> np.ndarray:
    return Streams(seed, "discrete_gaussian").key("user_noise")


def gaussian_pmf(z: np.ndarray, scale: float) -> np.ndarray:
    support = np.arange(-math.ceil(12 * scale + 12), math.ceil(12 * scale + 12) + 1)
    return np.asarray(np.exp(-0.5 * (z / scale) ** 2) / np.sum(np.exp(-0.5 * (support / scale) ** 2)))


def parts(table: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return views of a table: guide, leading 63 bits, further limbs [n, 3]."""
    count, end = int(table[0]), GAUSSIAN_HEADER + (1 << 63 - int(table[1]))
    return table[GAUSSIAN_HEADER:end], table[end : end + count], table[end + count :].reshape(count, LIMBS)


def boundaries(scale: float) -> list[int]:
    _, leads, limbs = parts(discrete_gaussian_table(scale))
    rows = np.column_stack([leads, limbs]).astype(">u8")
    return [int.from_bytes(row.tobytes(), "big") for row in rows]


@pytest.mark.parametrize("scale", [0.0625, 0.4, 3.0, 42.25])
def test_the_law_of_the_table_is_discrete_gaussian(scale: float) -> None:
    ours = boundaries(scale)
    with localcontext() as context:
        context.prec = 150
        rate = -1 / (2 * Decimal(scale) ** 2)
        weights = [(rate * j * j).exp() * (1 if j == 0 else 2) for j in range(math.ceil(20 * scale) + 12)]
        total, partial = sum(weights), Decimal(0)
        for j, boundary in enumerate(ours[:-1]):
            partial += weights[j]
            # The whole that the table divides by lacks the tail; otherwise one unit of 2^-255.
            assert abs(Decimal(boundary) - partial / total * 2**255) < Decimal(2) ** (255 - 207)
        assert 1 - partial / total < weights[len(ours) - 1] / total + Decimal(2) ** -207
    assert ours[-1] == 2**255
    assert ours == sorted(set(ours))


@pytest.mark.parametrize("scale", [0.4, 1000.0, 2.0**15])
def test_the_recurrence_keeps_its_precision(scale: float) -> None:
    # P(|Z| = j) / P(Z = 0) = 2 exp(-j^2 / (2 scale^2)) far out, where rounding has added up.
    ours = boundaries(scale)
    with localcontext() as context:
        context.prec = 150
        for j in (1, len(ours) // 4, len(ours) // 2):
            ratio = Decimal(ours[j] - ours[j - 1]) / Decimal(ours[0])
            expected = 2 * (-(Decimal(j) ** 2) / (2 * Decimal(scale) ** 2)).exp()
            assert abs(ratio - expected) < Decimal(scale + 1) * Decimal(2) ** -252


@pytest.mark.parametrize("scale", [0.4, 42.25, 2.0**15])
def test_the_guide_starts_at_or_below_the_right_place(scale: float) -> None:
    table = discrete_gaussian_table(scale)
    guide, leads, _ = parts(table)
    starts = np.arange(guide.shape[0], dtype=np.uint64) << table[1]
    assert np.array_equal(guide, [np.sum(leads < s) for s in starts] if scale < 100 else np.searchsorted(leads, starts))
    # The scan takes one step; it rarely has to be settled by bisection.
    assert np.mean(np.diff(guide.astype(np.int64)) > 1) < 0.02


@pytest.mark.parametrize("scale", [0.0625, 0.4, 1.0, 3.99, 4.0, 9.0])
def test_variance_is_that_of_the_law(scale: float) -> None:
    z = np.arange(-300.0, 301.0)
    assert DiscreteGaussian(scale).variance == pytest.approx(float(np.sum(z**2 * gaussian_pmf(z, scale))), rel=1e-12)


def uniform(number: int, key: np.ndarray) -> list[int]:
    """Return the 63 bits and the three further words of a draw's uniform number, and its sign."""
    word, further = np.empty(1, dtype=np.uint64), np.empty(LIMBS, dtype=np.uint64)
    fill_bits(word, key, np.uint64(number))
    fill_bits(further, key, RESERVED + np.uint64(LIMBS * number))
    return [int(word[0]) >> 1, *further.tolist(), int(word[0]) & 1]


@pytest.mark.parametrize("scale", [0.4, 42.25])
@pytest.mark.parametrize("generator", [SPLITMIX64, CHACHA20])
def test_a_draw_counts_the_boundaries_that_it_has_reached(scale: float, generator: int) -> None:
    stream, out = key_of(generator, *gaussian_key(3)[1:]), np.empty(2000)
    fill_noise(out, DiscreteGaussian(scale).noise(stream), np.uint64(0))
    _, leads, limbs = parts(discrete_gaussian_table(scale))
    rows = [[int(lead), *row.tolist()] for lead, row in zip(leads, limbs, strict=True)]
    for number in range(0, 2000, 10):
        *u, sign = uniform(number, stream)
        magnitude = sum(row <= u for row in rows)
        assert out[number] == (-magnitude if sign else magnitude)


def test_draws_are_settled_by_bisection_where_the_guide_does_not_tell_boundaries_apart() -> None:
    table, out, words = discrete_gaussian_table(42.25), np.empty(2000), np.empty(2000, np.uint64)
    _, leads, limbs = parts(table)
    # One bucket, which starts at the first of all boundaries; an exact tie has a chance of 2^-40.
    header_and_guide = np.array([leads.shape[0], 63, 0], dtype=np.uint64)
    coarse = np.concatenate([header_and_guide, leads, limbs.ravel()])
    fill_noise(out, DiscreteGaussian(42.25).noise(gaussian_key(9))._replace(table=coarse), np.uint64(0))
    fill_bits(words, gaussian_key(9), np.uint64(0))
    assert np.array_equal(np.abs(out), np.searchsorted(leads, words >> np.uint64(1), side="right"))


def tied(number: int, seed: int, agreed: int, step: int) -> tuple[np.ndarray, int]:
    """Return a table of 5 boundaries, the 2nd and 3rd equal to draw `number` in `agreed` words, then `step` above."""
    *u, _ = uniform(number, gaussian_key(seed))
    rows = np.array([u] * 5, dtype=np.uint64)
    rows[0, 0], rows[3, 0], rows[4, 0] = u[0] // 2, (u[0] + 2**63) // 2, 2**63
    if agreed < 4:
        rows[1:3, agreed] = u[agreed] + step
    shift = 63 - 8
    starts = np.arange(256, dtype=np.uint64) << np.uint64(shift)
    guide = np.searchsorted(rows[:, 0], starts).astype(np.uint64)
    header = np.array([5, shift], dtype=np.uint64)
    return np.concatenate([header, guide, rows[:, 0], rows[:, 1:].ravel()]), 1 if step > 0 else 3


@pytest.mark.parametrize("agreed", [1, 2, 3, 4])
@pytest.mark.parametrize("step", [-1, 1])
def test_ties_are_settled_by_further_bits_of_discrete_gaussian_noise(agreed: int, step: int) -> None:
    # Two boundaries that tie: the number has reached both or none. All 255 bits equal: both.
    number, seed = 29, 4
    table, expected = tied(number, seed, agreed, step)
    out = np.empty(1)
    fill_noise(out, DiscreteGaussian(3.0).noise(gaussian_key(seed))._replace(table=table), np.uint64(number))
    assert abs(out[0]) == (3 if agreed == 4 else expected)


def test_the_curve_is_at_most_the_zcdp_bound() -> None:
    # (1, 1e-6) needs sigma / l2 = 4.5309 (rho = 0.02436) by zCDP, and 4.2247 by the Gaussian curve.
    curve = DiscreteGaussian(42.247).curve(Sensitivity(20.0, 10.0, 8.0, 5))
    assert isinstance(curve, ChosenCurve)
    assert curve.curves[0].epsilon(1e-6) == pytest.approx(ZCDP(10.0**2 / 2.0 / 42.247**2).epsilon(1e-6))
    assert curve.epsilon(1e-6) == pytest.approx(1.0, abs=1e-3)
    assert curve.pure_epsilon == math.inf
