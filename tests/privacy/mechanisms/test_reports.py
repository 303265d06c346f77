"""Reports of bits: randomized response, unary and direct encoding, exact by their coins and by enumeration."""

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
from dprl.privacy.mechanisms.reports import (
    DirectEncoding,
    OneHotEncoding,
    OptimizedUnaryEncoding,
    RandomizedResponse,
    UnaryEncoder,
    choose_step,
    fill_responses,
    scaled,
)
from dprl.privacy.mechanisms.sampling import Noise, fill_noise
from dprl.privacy.randomness.bits import fill_bits
from dprl.privacy.randomness.streams import Streams
from tests.privacy.sending import typed

# Randomized response: the exact coin.

N_DRAWS = 200_000


def respond(bits: np.ndarray, epsilon: float, seed: int, first: int = 0) -> np.ndarray:
    out = np.empty(bits.shape[0])
    key = Streams(seed, "test").key("user_noise")
    fill_responses(out, bits, key, np.uint64(first), RandomizedResponse(epsilon).table())
    return out


def truth_of(table: np.ndarray) -> Fraction:
    return Fraction(int.from_bytes(table.astype(">u8").tobytes(), "big"), 1 << 256)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 8.0, 100.0])
def test_the_coin_never_loses_more_than_epsilon_and_hardly_less(epsilon: float) -> None:
    truth = truth_of(RandomizedResponse(epsilon).table())
    with localcontext() as context:
        context.prec = 140
        # truth / (1 - truth) against e^epsilon, with rationals and 140 digits.
        ratio = Decimal(truth.numerator) / Decimal(truth.denominator - truth.numerator)
        bound = Decimal(epsilon).exp()
        assert ratio <= bound
        assert 1 - ratio / bound < (1 + bound) * Decimal(2) ** -254


@pytest.mark.parametrize("bit", [0.0, 1.0])
def test_the_truth_is_reported_with_its_probability(bit: float) -> None:
    # Binomial counts at 5 standard deviations: false-alarm rate below 1e-6. Two thirds and three halves are far off.
    epsilon = 1.0
    told = float(np.sum(respond(np.full(N_DRAWS, bit), epsilon, 1) == bit))

    def far(of: float) -> bool:
        p = 1.0 / (1.0 + math.exp(-of))
        return abs(told - N_DRAWS * p) > 5 * math.sqrt(N_DRAWS * p * (1 - p))

    assert not far(epsilon)
    assert far(epsilon * 2 / 3)
    assert far(epsilon * 3 / 2)


def test_a_response_depends_on_its_number_only() -> None:
    bits = (np.arange(900) % 2).astype(float)
    assert np.array_equal(respond(bits, 1.0, 3)[400:700], respond(bits[400:700], 1.0, 3, first=400))


def test_a_tie_reads_further_bits() -> None:
    # A threshold whose first word is the one that will be drawn: the next words decide, one way or the other.
    key, word = Streams(4, "test").key("user_noise"), np.empty(1, dtype=np.uint64)
    fill_bits(word, key, np.uint64(0))
    top = np.iinfo(np.uint64).max
    told = []
    for rest in (0, top):
        table, out = np.array([word[0], rest, rest, rest], dtype=np.uint64), np.empty(1)
        fill_responses(out, np.ones(1), key, np.uint64(0), table)
        told.append(out[0])
    assert told == [0.0, 1.0]


def test_what_is_no_bit_counts_as_one_of_them() -> None:
    strange = np.array([np.nan, -np.inf, np.inf, 0.5, 7.0] * 400)
    assert np.array_equal(respond(strange, 1.0, 5), respond((strange > 0.5).astype(float), 1.0, 5))


# Unary encodings: exact by enumeration of all outputs, unbiased, with the stated variances and curves.

CELLS, USERS = 8, 40_000
EPSILON = 1.0


def noise_of(encoding: OneHotEncoding, seed: int, hot: int) -> Noise:
    """The encoding of a hot cell, as kernels have it."""
    return encoding.noise(Streams(seed, "test").key("user_noise"))._replace(bound=float(hot))


def reports(encoding: OneHotEncoding, seed: int, hot: int = 3, users: int = USERS) -> np.ndarray:
    """One report a row."""
    width = getattr(encoding, "width", CELLS)
    noise, out = noise_of(encoding, seed, hot), np.full((users, width), np.nan)
    fill = typed(fill_noise, out[0], noise, np.uint64(0))
    for user in range(users):
        fill(out[user], noise, np.uint64(user * width))
    return out


def check_largest_ratio(largest: Fraction, epsilon: float) -> None:
    """Of the probabilities of one report: at most e^epsilon, and hardly less, with rationals and 140 digits."""
    with localcontext() as context:
        context.prec = 140
        ratio, bound = Decimal(largest.numerator) / Decimal(largest.denominator), Decimal(epsilon).exp()
        assert bound * (1 - Decimal(10) ** -60) <= ratio <= bound


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
    check_largest_ratio(max(a[bits] / b[bits] for a, b in itertools.permutations(laws, 2) for bits in a), epsilon)


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


@pytest.mark.parametrize("hot", [-1, -(2**40), CELLS, 2**40])
@pytest.mark.parametrize("encoding", [OptimizedUnaryEncoding(3.0), DirectEncoding(3.0, CELLS)], ids=lambda e: e.name)
def test_a_hot_cell_outside_is_moved_to_the_edge(encoding: OneHotEncoding, hot: int) -> None:
    inside = 0 if hot < 0 else CELLS - 1
    assert np.array_equal(reports(encoding, 8, hot, 200), reports(encoding, 8, inside, 200))


@pytest.mark.parametrize("cell", [3, 5])
def test_a_tie_of_a_unary_bit_reads_further_bits(cell: int) -> None:
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


# Direct encoding: exact by its coins and words, unbiased, with the stated variances, alone and in blocks of users.


def truth(encoding: DirectEncoding) -> Fraction:
    """The probability of a truthful report, as the coin has it."""
    return truth_of(encoding.table())


def chances(width: int) -> list[Fraction]:
    """The probability of every cell in a uniform choice, by the number of its words."""
    ends = [-(-(cell << 64) // width) for cell in range(width + 1)]
    return [Fraction(after - before, 1 << 64) for before, after in itertools.pairwise(ends)]


@settings(max_examples=50, deadline=None)
@given(epsilon=st.floats(1e-6, 30.0), width=st.integers(2, 400))
def test_no_direct_report_loses_more_than_epsilon(epsilon: float, width: int) -> None:
    told, uniform = truth(DirectEncoding(epsilon, width)), chances(width)
    assert sum(uniform) == 1
    check_largest_ratio(max((told + (1 - told) * chance) / ((1 - told) * chance) for chance in uniform), epsilon)


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


def test_a_row_of_one_cell_or_none_needs_no_draw() -> None:
    assert reports(DirectEncoding(1.0, 1), 0, hot=0, users=3).tolist() == [[1.0]] * 3
    fill_noise(np.empty(0), noise_of(DirectEncoding(1.0, 1), 0, 0), np.uint64(0))


def test_a_tie_of_a_direct_report_reads_further_bits() -> None:
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
def test_direct_encodings_meet_the_request_with_nothing_to_spare(delta: float, epsilon: float) -> None:
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
