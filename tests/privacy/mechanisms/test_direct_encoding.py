"""Direct encoding: exact by its coins and words, unbiased, with the stated variances, alone and in blocks of users."""

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

from dprl.privacy.accounting.closed_forms import RandomizedResponses
from dprl.privacy.accounting.composition import compose, repeat
from dprl.privacy.base import Sensitivity
from dprl.privacy.mechanisms.reports import DirectEncoding, scaled
from dprl.privacy.mechanisms.sampling import Noise, fill_noise
from dprl.privacy.randomness.bits import fill_bits
from dprl.privacy.randomness.streams import Streams

CELLS, USERS = 8, 40_000


def noise_of(encoding: DirectEncoding, seed: int, hot: int) -> Noise:
    """The encoding of a hot cell, as kernels have it."""
    return encoding.noise(Streams(seed, "test").key("user_noise"))._replace(bound=float(hot))


def reports(encoding: DirectEncoding, seed: int, hot: int = 3, users: int = USERS) -> np.ndarray:
    """One report a row."""
    noise, out = noise_of(encoding, seed, hot), np.full((users, encoding.width), np.nan)
    for user in range(users):
        fill_noise(out[user], noise, np.uint64(user * encoding.width))
    return out


def truth(encoding: DirectEncoding) -> Fraction:
    """The probability of a truthful report, as the coin has it."""
    return Fraction(int.from_bytes(encoding.table().astype(">u8").tobytes(), "big"), 1 << 256)


def chances(width: int) -> list[Fraction]:
    """The probability of every cell in a uniform choice, by the number of its words."""
    ends = [-(-(cell << 64) // width) for cell in range(width + 1)]
    return [Fraction(after - before, 1 << 64) for before, after in itertools.pairwise(ends)]


@settings(max_examples=50, deadline=None)
@given(epsilon=st.floats(1e-6, 30.0), width=st.integers(2, 400))
def test_no_report_of_any_two_inputs_loses_more_than_epsilon(epsilon: float, width: int) -> None:
    told, uniform = truth(DirectEncoding(epsilon, width)), chances(width)
    assert sum(uniform) == 1
    largest = max((told + (1 - told) * chance) / ((1 - told) * chance) for chance in uniform)
    with localcontext() as context:
        context.prec = 140
        ratio, bound = Decimal(largest.numerator) / Decimal(largest.denominator), Decimal(epsilon).exp()
        assert ratio <= bound
        assert ratio >= bound * (1 - Decimal(10) ** -60)


@pytest.mark.parametrize("width", [2, 3, 7, 2**31 + 7])
def test_a_uniform_cell_is_the_high_word_of_a_product(width: int) -> None:
    words = np.empty(500, dtype=np.uint64)
    fill_bits(words, Streams(6, "test").key("user_noise"), np.uint64(0))
    assert [scaled(word, width) for word in words] == [int(word) * width >> 64 for word in words]


@pytest.mark.parametrize(("width", "seed"), [(2, 1), (CELLS, 2)])
def test_reports_have_one_bit_with_its_probability(width: int, seed: int) -> None:
    # Chi-square of the cell named, at a fixed seed; false-alarm rate of the acceptance 1e-3.
    bits = reports(DirectEncoding(1.0, width), seed, hot=1)
    assert np.array_equal(np.unique(bits), [0.0, 1.0])
    assert (bits.sum(axis=1) == 1.0).all()

    def pvalue(epsilon: float) -> float:
        encoding = DirectEncoding(epsilon, width)
        expected = np.full(width, encoding.cold_probability)
        expected[1] = encoding.hot_probability
        return float(stats.chisquare(bits.sum(axis=0), expected * USERS).pvalue)

    assert pvalue(1.0) > 1e-3
    for factor in (2 / 3, 3 / 2):
        assert pvalue(factor) < 1e-50


def test_the_truth_and_the_uniform_cell_are_independent() -> None:
    # 20,000 reports of each of two hot cells with equal draws: where one is untrue, so is the other, in the same cell.
    first, second = (reports(DirectEncoding(0.5, CELLS), 4, hot, 20_000).argmax(axis=1) for hot in (2, 6))
    told = (first == 2) & (second == 6)
    assert np.array_equal(first[~told], second[~told])
    # Chi-square, false-alarm rate 1e-3.
    assert stats.chisquare(np.bincount(first[~told], minlength=CELLS)).pvalue > 1e-3
    share = DirectEncoding(0.5, CELLS).gap
    assert abs(told.mean() - share) < 5 * math.sqrt(share * (1 - share) / 20_000)


@pytest.mark.parametrize("width", [1, 2, 150])
def test_probabilities_agree_with_the_coin(width: int) -> None:
    for epsilon in (1e-3, 1.0, 30.0, 100.0):
        encoding = DirectEncoding(epsilon, width)
        told = truth(encoding)
        assert encoding.gap == pytest.approx(float(told), rel=1e-14)
        assert encoding.cold_probability == pytest.approx(float((1 - told) / width), rel=1e-14)
        assert encoding.hot_probability == pytest.approx(float(told + (1 - told) / width), rel=1e-14)


@pytest.mark.parametrize("hot", [-1, CELLS, 2**40])
def test_a_hot_cell_outside_is_moved_to_the_edge(hot: int) -> None:
    encoding = DirectEncoding(3.0, CELLS)
    inside = 0 if hot < 0 else CELLS - 1
    assert np.array_equal(reports(encoding, 8, hot, 200), reports(encoding, 8, inside, 200))


def test_a_row_of_one_cell_or_none_needs_no_draw() -> None:
    assert reports(DirectEncoding(1.0, 1), 0, hot=0, users=3).tolist() == [[1.0]] * 3
    fill_noise(np.empty(0), noise_of(DirectEncoding(1.0, 1), 0, 0), np.uint64(0))


def test_a_tie_reads_further_bits() -> None:
    # A threshold with the first word that will be drawn: the further words decide.
    encoding, word = DirectEncoding(1.0, CELLS), np.empty(2, dtype=np.uint64)
    noise = noise_of(encoding, 9, 3)
    fill_bits(word, noise.key, np.uint64(0))
    other = int(word[1]) * CELLS >> 64
    assert other != 3
    for rest, named in ((0, other), (np.iinfo(np.uint64).max, 3)):
        table, out = noise.table.copy(), np.empty(CELLS)
        table[0], table[1:] = word[0], rest
        fill_noise(out, noise._replace(table=table), np.uint64(0))
        assert out.argmax() == named


@pytest.mark.parametrize("width", [2, 3, 50])
def test_the_curve_is_the_exact_one(width: int) -> None:
    encoding = DirectEncoding(1.5, width)
    p, q = encoding.hot_probability, encoding.cold_probability
    curve = encoding.curve(Sensitivity.of_cells(2))
    for epsilon in (0.0, 0.3, 1.1, 1.499, 1.6):
        assert curve.delta(epsilon) == pytest.approx(max(0.0, p - math.exp(epsilon) * q), rel=1e-8, abs=1e-14)
    # Three encodings that all change: every report is one of both cells or another one.
    one, other = [p, q, 1 - p - q], [q, p, 1 - p - q]
    three = encoding.curve(Sensitivity.of_cells(6))
    pairs = [[math.prod(law[i] for i in out) for law in (one, other)] for out in itertools.product(range(3), repeat=3)]
    for epsilon in (0.0, 1.0, 2.9, 4.4):
        exact = sum(max(0.0, a - math.exp(epsilon) * b) for a, b in pairs)
        assert three.delta(epsilon) == pytest.approx(exact, rel=1e-8, abs=1e-14)
    assert three.pure_epsilon == 4.5
    for many in (compose([curve] * 3), repeat(curve, 3)):
        assert many.delta(2.9) == pytest.approx(three.delta(2.9), rel=1e-9)
    together = compose([three, RandomizedResponses(1, 0.1)])
    assert together.pure_epsilon == pytest.approx(4.6)
    # With a pure loss of 0.1 beside it, delta is that at an epsilon less by at most this.
    assert three.delta(2.9) <= together.delta(2.9) <= three.delta(2.8) * (1 + 1e-9)


@pytest.mark.parametrize("delta", [0.0, 1e-6, 0.4])
@pytest.mark.parametrize("epsilon", [2.0, 20.0])
def test_calibration_meets_the_request_with_nothing_to_spare(delta: float, epsilon: float) -> None:
    row = Sensitivity.of_cells(2)
    encoding = DirectEncoding.calibrated(epsilon, delta, 30)
    assert encoding.width == 30
    assert encoding.curve(row).delta(epsilon * (1 + 1e-12)) <= delta
    assert DirectEncoding(encoding.epsilon * 1.001, 30).curve(row).delta(epsilon) > delta


def test_variances_of_sums_are_those_of_one_bit() -> None:
    encoding = DirectEncoding(1.0, 5)
    p, q, gap = encoding.hot_probability, encoding.cold_probability, encoding.gap
    for hot, chance in ((True, p + 2 * q), (False, 3 * q)):
        assert encoding.variance(hot=hot, cells=3) == pytest.approx(chance * (1 - chance) / gap**2)
    assert encoding.variance(hot=True, steps=4, cells=5) == pytest.approx(3.0)  # all cells: only the step is random


def test_sums_of_blocks_have_the_law_of_their_users() -> None:
    # Means and covariances of 20,000 blocks at 5 standard deviations: false-alarm rate below 1e-4.
    encoding, ones = DirectEncoding(1.0, 4), np.array([[3, 0, 5, 2], [0, 7, 0, 0]])
    users, generator = ones.sum(axis=1), np.random.default_rng(7)
    sums = np.array([encoding.sum_of_bits(ones, users, generator) for _ in range(20_000)])
    assert np.array_equal(sums.sum(axis=2), np.tile(users, (20_000, 1)))
    p, q = encoding.hot_probability, encoding.cold_probability
    chance = np.full((4, 4), q) + np.eye(4) * (p - q)
    for row in range(2):
        mean = ones[row] @ chance
        covariance = np.diag(mean) - (chance.T * ones[row]) @ chance
        errors = sums[:, row] - mean
        products = errors[:, :, None] * errors[:, None, :]
        assert (np.abs(errors.mean(axis=0)) < 5 * np.sqrt(np.diag(covariance) / 20_000)).all()
        assert (np.abs(products.mean(axis=0) - covariance) < 5 * products.std(axis=0) / math.sqrt(20_000)).all()
