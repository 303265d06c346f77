"""Unary encodings: exact by enumeration of all outputs, unbiased, with the stated variances and curves."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dprl.privacy.base import Sensitivity
from dprl.privacy.mechanisms.reports import (
    OneHotEncoding,
    OptimizedUnaryEncoding,
    UnaryEncoder,
    choose_step,
)
from dprl.privacy.mechanisms.sampling import Noise, fill_noise
from dprl.privacy.randomness.bits import fill_bits
from dprl.privacy.randomness.streams import Streams

CELLS, USERS = 8, 40_000
EPSILON = 1.0


def noise_of(encoding: OneHotEncoding, seed: int, hot: int) -> Noise:
    """The encoding of a hot cell, as kernels have it."""
    return encoding.noise(Streams(seed, "test").key("user_noise"))._replace(bound=float(hot))


def reports(encoding: OneHotEncoding, seed: int, hot: int = 3, users: int = USERS) -> np.ndarray:
    """One report a row."""
    noise, out = noise_of(encoding, seed, hot), np.empty((users, CELLS))
    for user in range(users):
        fill_noise(out[user], noise, np.uint64(user * CELLS))
    return out


def probabilities(encoding: OneHotEncoding) -> tuple[Fraction, Fraction]:
    """P(1) of the hot and of a cold bit, as the coins have it."""
    table = encoding.table().astype(">u8").tobytes()
    p, q = (Fraction(int.from_bytes(part, "big"), 1 << 256) for part in (table[:32], table[32:]))
    return p, q


def law(encoding: OneHotEncoding, n: int, hot: int) -> dict[tuple[int, ...], Fraction]:
    """The exact probability of every report of n bits."""
    p, q = probabilities(encoding)
    chances = [p if i == hot else q for i in range(n)]
    return {
        bits: math.prod((c if bit else 1 - c for bit, c in zip(bits, chances, strict=True)), start=Fraction(1))
        for bits in itertools.product((0, 1), repeat=n)
    }


@settings(max_examples=25, deadline=None)
@given(epsilon=st.floats(1e-6, 30.0))
def test_no_report_of_any_two_inputs_loses_more_than_epsilon(epsilon: float) -> None:
    laws = [law(OptimizedUnaryEncoding(epsilon), 4, hot) for hot in range(4)]
    assert all(sum(one.values()) == 1 for one in laws)
    largest = max(a[bits] / b[bits] for a, b in itertools.permutations(laws, 2) for bits in a)
    with localcontext() as context:
        context.prec = 140
        ratio = Decimal(largest.numerator) / Decimal(largest.denominator)
        bound = Decimal(epsilon).exp()
        assert ratio <= bound
        assert ratio >= bound * (1 - Decimal(10) ** -60)


def test_bits_have_their_probabilities_and_no_others() -> None:
    # Chi-square over all 2^8 reports at a fixed seed; false-alarm rate of the acceptance 1e-3.
    codes = reports(OptimizedUnaryEncoding(EPSILON), 1) @ 2.0 ** np.arange(CELLS - 1, -1, -1)
    seen = np.bincount(codes.astype(int), minlength=2**CELLS)

    def pvalue(epsilon: float) -> float:
        expected = np.array([float(p) for p in law(OptimizedUnaryEncoding(epsilon), CELLS, 3).values()]) * USERS
        return float(stats.chisquare(seen, expected).pvalue)

    assert pvalue(EPSILON) > 1e-3
    for factor in (2 / 3, 3 / 2):
        assert pvalue(EPSILON * factor) < 1e-50


def test_probabilities_agree_with_the_coins() -> None:
    for epsilon in (1e-3, 1.0, 30.0):
        encoding, (p, q) = OptimizedUnaryEncoding(epsilon), probabilities(OptimizedUnaryEncoding(epsilon))
        assert encoding.hot_probability == pytest.approx(float(p), rel=1e-14)
        assert encoding.cold_probability == pytest.approx(float(q), rel=1e-14)
        assert encoding.gap == pytest.approx(float(p - q), rel=1e-14)


def test_variances_are_those_of_the_specification() -> None:
    # Sec. 3.3 at H = 5, epsilon = 1.
    cold = OptimizedUnaryEncoding(EPSILON).variance(steps=5, hot=False)
    hot = OptimizedUnaryEncoding(EPSILON).variance(steps=5, hot=True)
    assert cold == pytest.approx(5 * 4 * math.e / math.expm1(1) ** 2)
    assert hot == pytest.approx(5 * ((math.e + 1) / (math.e - 1)) ** 2 + 4)
    assert cold == pytest.approx(18.4, abs=0.05)
    assert hot == pytest.approx(27.4, abs=0.05)
    assert UnaryEncoder(OptimizedUnaryEncoding(EPSILON), 5, 4).mean_variance(1) == (hot + 3 * cold) / 4


def test_step_is_the_high_word_of_a_product() -> None:
    key, words = Streams(6, "test").key("user_noise"), np.empty(500, dtype=np.uint64)
    fill_bits(words, key, np.uint64(0))
    for steps in (3, 2**31 + 7, 2**32 - 1):
        expected = [int(word) * steps >> 64 for word in words]
        assert [choose_step(key, np.uint64(i), steps) for i in range(500)] == expected


def test_bits_depend_on_their_number_and_input_only() -> None:
    whole, part = np.empty(1000), np.empty(300)
    fill_noise(whole, noise_of(OptimizedUnaryEncoding(EPSILON), 7, 450), np.uint64(50))
    fill_noise(part, noise_of(OptimizedUnaryEncoding(EPSILON), 7, 50), np.uint64(450))
    assert np.array_equal(whole[400:700], part)


@pytest.mark.parametrize(("given", "meant"), [(-1, 0), (-(2**40), 0), (CELLS, CELLS - 1), (2**40, CELLS - 1)])
def test_a_hot_cell_outside_is_moved_to_the_edge(given: int, meant: int) -> None:
    encoding = OptimizedUnaryEncoding(3.0)
    assert np.array_equal(reports(encoding, 8, given, 200), reports(encoding, 8, meant, 200))


@pytest.mark.parametrize("cell", [3, 5])
def test_a_tie_reads_further_bits(cell: int) -> None:
    # Thresholds whose first word is the one that will be drawn, for a cold bit and for the hot one.
    noise, words = noise_of(OptimizedUnaryEncoding(1.0), 9, 3), np.empty(CELLS, dtype=np.uint64)
    fill_bits(words, noise.key, np.uint64(0))
    plain = np.empty(CELLS)
    for rest, expected in ((0, 0.0), (np.iinfo(np.uint64).max, 1.0)):
        table, out = noise.table.copy(), np.empty(CELLS)
        fill_noise(plain, noise, np.uint64(0))
        start = 0 if cell == 3 else 4
        table[start] = words[cell]
        table[start + 1 : start + 4] = rest
        fill_noise(out, noise._replace(table=table), np.uint64(0))
        assert out[cell] == expected
        if cell == 3:
            assert np.array_equal(np.delete(out, cell), np.delete(plain, cell))


def test_composed_curve_is_the_enumerated_one() -> None:
    # Three independent encodings of two cells each, which all change: the product of three laws.
    encoding = OptimizedUnaryEncoding(0.7)
    one, other = ([float(p) for p in law(encoding, 2, hot).values()] for hot in (0, 1))
    outputs = itertools.product(range(4), repeat=3)
    pairs = [(math.prod(one[i] for i in output), math.prod(other[i] for i in output)) for output in outputs]
    curve = encoding.curve(Sensitivity.of_cells(6))
    for epsilon in (0.0, 0.5, 1.0, 1.9):
        enumerated = sum(max(0.0, a - math.exp(epsilon) * b) for a, b in pairs)
        assert curve.delta(epsilon) == pytest.approx(enumerated, rel=2e-9)
    assert curve.delta(2.1) == 0.0


@pytest.mark.parametrize("delta", [0.0, 1e-6, 0.4])
def test_calibration_meets_the_request_with_nothing_to_spare(delta: float) -> None:
    row = Sensitivity.of_cells(2)
    encoding = OptimizedUnaryEncoding.calibrated(2.0, delta, CELLS)
    assert encoding.curve(row).delta(2.0 * (1 + 1e-12)) <= delta
    assert encoding.epsilon >= 2.0 * (1 - 1e-12)
    if encoding.epsilon < 99:
        assert OptimizedUnaryEncoding(encoding.epsilon * 1.001).curve(row).delta(2.0) > delta
