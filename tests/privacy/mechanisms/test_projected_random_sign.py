"""Projected random sign: its law, the guarantee of its bits, and the accuracy of its estimate."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dprl.privacy.mechanisms.projected_random_sign import ProjectedRandomSign
from dprl.privacy.mechanisms.random_sign_kernels import fill_projection
from dprl.privacy.randomness.bits import CHACHA20, fill_bits
from dprl.privacy.randomness.exact import LIMBS, RESERVED
from dprl.privacy.randomness.streams import Streams
from tests.privacy.sending import estimated, randomized

KEY = Streams(0, "projected random sign").key("user_noise")


def _seed(message: np.ndarray) -> int:
    return (int(message[-2]) << 32) | int(message[-1])


def _projection(mechanism: ProjectedRandomSign, message: np.ndarray) -> np.ndarray:
    seed = np.uint64(_seed(message))
    rows = np.empty((mechanism.projections, mechanism.dimension))
    for i, row in enumerate(rows):
        fill_projection(row, seed, i)
    return rows


@pytest.mark.parametrize(
    ("epsilon", "dimension", "projections"),
    [(1.0, 112, 1), (2.5, 112, 1), (5.0, 112, 2), (10.0, 112, 4), (10.0, 3, 3), (0.1, 1, 1), (7.49, 112, 2)],
)
def test_projections_are_the_papers(epsilon: float, dimension: int, projections: int) -> None:
    assert ProjectedRandomSign.calibrated(epsilon, 0.0, dimension, 1.0).projections == projections


def test_bits_together_lose_at_most_epsilon_also_in_rational_arithmetic() -> None:
    for epsilon in np.linspace(0.05, 60.0, 400):
        mechanism = ProjectedRandomSign.calibrated(float(epsilon), 0.0, 112, 1.0)
        assert Fraction(mechanism.bit.epsilon) * mechanism.projections <= Fraction(float(epsilon)) * (
            1 + Fraction(1, 2**53)
        )
        assert mechanism.epsilon <= epsilon
        assert mechanism.curve().pure_epsilon == pytest.approx(epsilon, rel=1e-15)


def test_entries_of_the_projection_are_sparse_signs() -> None:
    # Chi-square on 400 000 entries at a fixed seed, false-alarm rate 1e-3; correlation of two rows at 5 deviations.
    rows = np.empty((4, 100_000))
    for i, row in enumerate(rows):
        fill_projection(row, np.uint64(987654321), i)
    values, counts = np.unique(rows, return_counts=True)
    np.testing.assert_allclose(values, [-math.sqrt(3), 0.0, math.sqrt(3)])
    assert stats.chisquare(counts, rows.size * np.array([1, 4, 1]) / 6).pvalue > 1e-3
    assert abs(np.mean(rows[0] * rows[1])) < 5 / math.sqrt(100_000)


def test_the_projection_does_not_depend_on_the_vector_and_is_fresh_for_every_number() -> None:
    mechanism, rng = ProjectedRandomSign.calibrated(5.0, 0.0, 20, 1.0), np.random.default_rng(0)
    seeds = set()
    for number in range(100):
        messages = [randomized(mechanism, rng.normal(size=20), KEY, number) for _ in range(3)]
        assert len({message[-2:].tobytes() for message in messages}) == 1
        seeds.add(messages[0][-2:].tobytes())
        assert set(messages[0][:-2]) <= {0.0, 1.0}
    assert len(seeds) == 100


def _words(key: np.ndarray, first: int, n: int) -> list[int]:
    words = np.empty(n, dtype=np.uint64)
    fill_bits(words, key, np.uint64(first))
    return [int(word) for word in words]


@pytest.mark.parametrize("key", [KEY, np.array([CHACHA20, 1, 2, 3, 4])])
def test_every_word_serves_one_purpose_of_one_submission(key: np.ndarray) -> None:
    # A message assembled in Python from the random words that it should use.
    mechanism, rng = ProjectedRandomSign.calibrated(10.0, 0.0, 20, 1.0), np.random.default_rng(5)
    n, noise = mechanism.projections, mechanism.vector_noise(key)
    truth = sum(int(limb) << (64 * (LIMBS - 1 - i)) for i, limb in enumerate(mechanism.bit.table()))
    used: dict[str, list[int]] = {"roundings": [], "coins": [], "spare": []}
    for number in (0, 1, 2, 3, noise.submissions - 1):
        vector = rng.normal(size=20) * 0.1
        message = randomized(mechanism, vector, key, number)
        assert [_seed(message)] == _words(noise.open_key, number, 1)
        first = number * noise.draws
        assert noise.draws == 2 * n
        mean = 0.5 + 0.5 * np.clip(_projection(mechanism, message) @ vector, -1.0, 1.0)
        rounded = np.array(_words(key, first, n)) / 2.0**64 < mean
        told = np.array([word < truth >> (64 * (LIMBS - 1)) for word in _words(key, first + n, n)])
        assert message[:n].tolist() == np.where(told, rounded, ~rounded).astype(float).tolist()
        used["roundings"] += range(first, first + n)
        used["coins"] += range(first + n, first + 2 * n)
        ties = ((first + n + i) * (LIMBS - 1) + j + int(RESERVED) for i in range(n) for j in range(LIMBS - 1))
        used["spare"] += ties
    numbers = [number for purpose in used.values() for number in purpose]
    assert len(set(numbers)) == len(numbers)
    assert max(used["coins"]) < int(RESERVED) <= max(used["spare"]) < 2**64
    assert noise.open_key[0] == key[0]
    assert not set(noise.open_key[1:].tolist()) & set(key[1:].tolist())


@pytest.mark.parametrize(("epsilon", "clip"), [(1.0, 2.0), (5.0, 1.0), (10.0, 0.5)])
def test_bits_have_the_probability_of_equation_24_and_no_other(epsilon: float, clip: float) -> None:
    # The score sum (bit - P)(2P - 1) / sd is standard normal for the right P; 4.5 deviations (false-alarm rate 7e-6).
    # With 2/3 or 3/2 of epsilon it is beyond 10.
    mechanism = ProjectedRandomSign.calibrated(epsilon, 0.0, 15, clip)
    vector = np.random.default_rng(1).normal(size=15) * 0.4
    bits, u = [], []
    for number in range(40_000):
        message = randomized(mechanism, vector, KEY, number)
        bits.append(message[:-2])
        u.append(np.clip(_projection(mechanism, message) @ vector, -clip, clip))

    def score(x: float) -> float:
        low = 1 / (math.exp(x) + 1)
        chance = low + (np.array(u) + clip) / (2 * clip) * (1 - 2 * low)
        weight = 2 * chance - 1
        return float(np.sum((np.array(bits) - chance) * weight) / np.sqrt(np.sum(chance * (1 - chance) * weight**2)))

    x = mechanism.bit.epsilon
    assert abs(score(x)) < 4.5
    assert abs(score(x * 2 / 3)) > 8
    assert abs(score(x * 3 / 2)) > 8


def test_worst_ratio_is_attained_by_opposite_saturated_vectors() -> None:
    # Given M, a bit is told with `truth` for u = C and flipped for u = -C; counts at 5 standard deviations.
    # A row of M without an entry, where both vectors project to 0, has probability (2/3)^60.
    mechanism = ProjectedRandomSign.calibrated(5.0, 0.0, 60, 1e-6)
    truth = 1.0 / (1.0 + math.exp(-mechanism.bit.epsilon))
    assert mechanism.projections * math.log(truth / (1 - truth)) == pytest.approx(5.0)
    vector, n = np.random.default_rng(2).normal(size=60), 4000
    for sign in (1.0, -1.0):
        told = 0
        for number in range(n):
            message = randomized(mechanism, sign * vector, KEY, number)
            told += int(np.sum((2 * message[:-2] - 1) * np.sign(_projection(mechanism, message) @ vector) == sign))
        assert abs(told - 2 * n * truth) < 5 * math.sqrt(2 * n * truth * (1 - truth))


def test_an_estimate_is_the_papers() -> None:
    paper = ProjectedRandomSign.calibrated(5.0, 0.0, 9, 0.7)
    message = randomized(paper, np.ones(9), KEY, 0)
    by_hand = _projection(paper, message).T @ (0.7 * (2 * message[:-2] - 1))
    np.testing.assert_allclose(estimated(paper, [message])[0], by_hand, rtol=1e-13, atol=1e-15)
