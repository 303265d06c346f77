"""Projected random sign: its law, what its bits prove, and what its estimate is worth."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dprl.privacy.mechanisms.projected_random_sign import ProjectedRandomSign, fill_projection
from dprl.privacy.mechanisms.randomized_response import RandomizedResponse
from dprl.privacy.randomness.streams import Streams

KEY = Streams(0, "projected random sign").key("user_noise")


def _projection(mechanism: ProjectedRandomSign, message: np.ndarray) -> np.ndarray:
    seed = np.uint64((int(message[-2]) << 32) | int(message[-1]))
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
        messages = [mechanism.randomize(rng.normal(size=20), KEY, number) for _ in range(3)]
        assert len({message[-2:].tobytes() for message in messages}) == 1
        seeds.add(messages[0][-2:].tobytes())
        assert set(messages[0][:-2]) <= {0.0, 1.0}
    assert len(seeds) == 100


@pytest.mark.parametrize(("epsilon", "clip"), [(1.0, 2.0), (5.0, 1.0), (10.0, 0.5)])
def test_bits_have_the_probability_of_equation_24_and_no_other(epsilon: float, clip: float) -> None:
    # The score sum (bit - P)(2P - 1) / sd is standard normal for the right P; 4.5 deviations (false-alarm rate 7e-6).
    # With 2/3 or 3/2 of epsilon it is beyond 10.
    mechanism = ProjectedRandomSign.calibrated(epsilon, 0.0, 15, clip)
    vector = np.random.default_rng(1).normal(size=15) * 0.4
    bits, u = [], []
    for number in range(40_000):
        message = mechanism.randomize(vector, KEY, number)
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
    truth = mechanism.bit.truth
    assert mechanism.projections * math.log(truth / (1 - truth)) == pytest.approx(5.0)
    vector, n = np.random.default_rng(2).normal(size=60), 4000
    for sign in (1.0, -1.0):
        told = 0
        for number in range(n):
            message = mechanism.randomize(sign * vector, KEY, number)
            told += int(np.sum((2 * message[:-2] - 1) * np.sign(_projection(mechanism, message) @ vector) == sign))
        assert abs(told - 2 * n * truth) < 5 * math.sqrt(2 * n * truth * (1 - truth))


def test_scalings_differ_by_the_stated_factor() -> None:
    paper, unbiased = (ProjectedRandomSign.calibrated(5.0, 0.0, 9, 0.7, scaling) for scaling in ("paper", "unbiased"))
    message = paper.randomize(np.ones(9), KEY, 0)
    by_hand = _projection(paper, message).T @ (0.7 * (2 * message[:-2] - 1))
    np.testing.assert_allclose(paper.estimate(message), by_hand, rtol=1e-13)
    np.testing.assert_allclose(unbiased.estimate(message), by_hand / (2 * math.tanh(1.25)), rtol=1e-13)
    assert unbiased.noise_norm * 2 * math.tanh(1.25) == pytest.approx(paper.noise_norm)


@pytest.mark.parametrize(("epsilon", "table"), [(1.0, 29.5), (2.0, 17.2), (5.0, 11.2), (10.0, 7.8)])
def test_noise_norm_of_the_direction_from_signs(epsilon: float, table: float) -> None:
    # `table` was simulated: 3 %. Our own simulation with a random direction: 20 000 messages, 3 % (more than 4
    # standard errors of the gain that it divides by).
    mechanism = ProjectedRandomSign.calibrated(epsilon, 0.0, 112, 1e-9, "unbiased")
    assert mechanism.direction_noise_norm == pytest.approx(table, rel=0.03)
    v = np.random.default_rng(3).normal(size=112)
    v /= np.linalg.norm(v)
    estimates = np.array([mechanism.estimate(mechanism.randomize(v, KEY, i)) for i in range(20_000)])
    errors = estimates / np.mean(estimates @ v) - v
    assert math.sqrt(np.mean(np.sum(errors**2, axis=1))) == pytest.approx(mechanism.direction_noise_norm, rel=0.03)


def test_what_cannot_be_is_refused() -> None:
    bit = RandomizedResponse(1.0)
    with pytest.raises(ValueError, match=r"projections must lie in 1\.\.dimension, got 4 for 3"):
        ProjectedRandomSign(3, 4, 1.0, bit)
    with pytest.raises(ValueError, match="clip must be finite and above 0"):
        ProjectedRandomSign(3, 1, math.nan, bit)
    with pytest.raises(ValueError, match="scaling must be one of paper, unbiased, got 'other'"):
        ProjectedRandomSign(3, 1, 1.0, bit, "other")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="epsilon must be finite and above 0"):
        ProjectedRandomSign.calibrated(0.0, 0.0, 3, 1.0)
