"""Amplification by shuffling and by Poisson sampling, against complete sums and independent accountants."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as peer
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import binom

from dprl.privacy.accounting.amplification import (
    LEAST_MULTIPLIER,
    SampledGaussianLoss,
    ShuffledLoss,
    _sampled,
    local_epsilon,
    sampled_multiplier,
)
from dprl.privacy.accounting.closed_forms import GaussianDP, RandomizedResponses
from dprl.privacy.accounting.composition import compose, repeat

# Shuffled reports: the numerical bound against complete sums, a closed form, and a randomizer's exact loss.


def summed_up(epsilon_0: float, users: int, epsilon: float, most_clones: int) -> float:
    """The divergence of the two laws of ShuffledLoss, as a sum over all pairs of numbers."""
    one, total = 1.0 / (1.0 + math.exp(-epsilon_0)), 0.0
    for clones in range(most_clones + 1):
        from_0 = binom.pmf(np.arange(-1, clones + 2), clones, 0.5)
        first = one * from_0[:-1] + (1.0 - one) * from_0[1:]
        second = (1.0 - one) * from_0[:-1] + one * from_0[1:]
        chance = binom.pmf(clones, users - 1, math.exp(-epsilon_0))
        total += float(chance * np.maximum(first - math.exp(epsilon) * second, 0.0).sum())
    return total


def of_responses(epsilon_0: float, users: int, epsilon: float, others_of_one: int) -> float:
    """The exact divergence of shuffled binary randomized responses, given the number of ones among the others."""
    truth = 1.0 / (1.0 + math.exp(-epsilon_0))
    law = np.array([1.0])
    for each in [truth] * others_of_one + [1.0 - truth] * (users - 1 - others_of_one):
        law = np.convolve(law, [1.0 - each, each])
    worlds = [np.convolve(law, [1.0 - p, p]) for p in (truth, 1.0 - truth)]
    return max(float(np.maximum(a - math.exp(epsilon) * b, 0.0).sum()) for a, b in (worlds, worlds[::-1]))


@pytest.mark.parametrize(
    ("epsilon_0", "users", "epsilon", "most_clones"),
    [(1.0, 5, 0.3, 4), (2.0, 50, 0.5, 49), (3.0, 300, 0.2, 80), (0.5, 200, 0.01, 199), (4.735, 10_000, 1.0, 200)],
)
def test_the_bound_is_the_sum_over_all_numbers_of_clones(
    epsilon_0: float, users: int, epsilon: float, most_clones: int
) -> None:
    exact = summed_up(epsilon_0, users, epsilon, most_clones)
    assert exact * (1.0 - 1e-9) <= ShuffledLoss(epsilon_0, users).delta(epsilon) <= exact * (1.0 + 1e-5)


@pytest.mark.parametrize("users", [1, 2, 30, 300])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("epsilon_0", [0.5, 2.0, 4.0])
def test_no_shuffled_response_loses_more(users: int, share: float, epsilon_0: float) -> None:
    for epsilon in (0.0, 0.1, 0.5, 1.0, 1.9):
        exact = of_responses(epsilon_0, users, epsilon, round(share * (users - 1)))
        assert exact <= ShuffledLoss(epsilon_0, users).delta(epsilon) + 1e-15


@pytest.mark.parametrize(("users", "delta"), [(1, 1e-6), (50, 1e-3), (1000, 1e-4)])
def test_two_thirds_of_the_noise_are_refuted(users: int, delta: float) -> None:
    """Responses with 3/2 of the largest epsilon_0 are no longer (1, delta)-DP in shuffles of so many users."""
    each = local_epsilon(1.0, delta, users)
    assert ShuffledLoss(each, users).delta(1.0) <= delta
    assert max(of_responses(1.5 * each, users, 1.0, n) for n in (0, (users - 1) // 2, users - 1)) > delta


@given(st.floats(0.1, 9.0), st.integers(1, 10**7), st.floats(0.0, 3.0))
def test_more_users_hide_better_and_no_shuffle_reveals_more_than_a_report(
    epsilon_0: float, users: int, epsilon: float
) -> None:
    one, more = (ShuffledLoss(epsilon_0, n).delta(epsilon) for n in (users, 3 * users))
    assert more <= one * (1.0 + 1e-6) + 1e-25
    assert one <= RandomizedResponses(1, epsilon_0).delta(epsilon)


@pytest.mark.parametrize("epsilon", [38.5, 90.0, 800.0, 1e9])
def test_huge_losses_have_no_clones(epsilon: float) -> None:
    each = local_epsilon(epsilon, 1e-6, 10**6)
    assert 0.999 * epsilon <= each <= 1.001 * epsilon
    assert ShuffledLoss(each, 10**6).epsilon(1e-6) <= epsilon
    assert ShuffledLoss(1.1 * epsilon, 10**6).delta(epsilon) > 0.9


def several(epsilon_0: float, users: int, n: int, epsilon: float) -> float:
    """The divergence of n shuffles, summed over all combinations of clones and draws."""
    one, other = 1.0 / (1.0 + math.exp(-epsilon_0)), 1.0 / (1.0 + math.exp(epsilon_0))
    worlds: list[list[np.ndarray]] = [[], []]
    for clones in range(users):
        chance = binom.pmf(clones, users - 1, math.exp(-epsilon_0))
        from_0 = binom.pmf(np.arange(-1, clones + 2), clones, 0.5)
        worlds[0].append(chance * (one * from_0[:-1] + other * from_0[1:]))
        worlds[1].append(chance * (other * from_0[:-1] + one * from_0[1:]))
    once = [np.concatenate(world) for world in worlds]
    first, second = once
    for _ in range(n - 1):
        first, second = (np.multiply.outer(a, b).ravel() for a, b in zip((first, second), once, strict=True))
    return float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum())


@pytest.mark.parametrize(
    ("epsilon_0", "users", "n"), [(1.0, 12, 2), (2.0, 30, 2), (0.7, 6, 4), (3.0, 8, 3), (1.0, 1, 5)]
)
def test_several_shuffles_of_one_user_add_up(epsilon_0: float, users: int, n: int) -> None:
    loss = repeat(ShuffledLoss(epsilon_0, users), n)
    assert loss == ShuffledLoss(epsilon_0, users, n)
    assert loss.pure_epsilon == n * epsilon_0
    for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0):
        exact = several(epsilon_0, users, n, epsilon)
        assert exact * (1.0 - 1e-9) - 1e-15 <= loss.delta(epsilon) <= exact * (1.0 + 1e-3) + 1e-12


# Poisson-sampled Gaussian rounds: an upper bound in both directions, close to independent accountants.


@pytest.mark.parametrize(("multiplier", "rate", "rounds"), [(1.0, 0.01, 1000), (0.7, 0.05, 60), (4.0, 0.2, 200)])
def test_bounds_lie_between_both_estimates_of_dp_accounting(multiplier: float, rate: float, rounds: int) -> None:
    """Its optimistic grid is a lower bound on the truth, and its pessimistic one is an upper bound."""
    ours = SampledGaussianLoss(multiplier, rate, rounds)
    for pessimistic in (True, False):
        theirs = peer.from_gaussian_mechanism(
            multiplier,
            pessimistic_estimate=pessimistic,
            value_discretization_interval=2e-4,
            sampling_prob=rate,
            use_connect_dots=pessimistic,
        ).self_compose(rounds)
        for delta in (1e-3, 1e-6, 1e-9):
            found, other = ours.epsilon(delta), theirs.get_epsilon_for_delta(delta)
            assert found <= other * (1.0 + 2e-4) if pessimistic else found >= other
            assert found == pytest.approx(other, rel=1e-3 if pessimistic else 0.1)


@pytest.mark.parametrize(("multiplier", "rounds"), [(1.0, 10), (5.0, 300), (0.4, 1), (30.0, 20_000)])
def test_everybody_in_every_round_is_the_gaussian_curve(multiplier: float, rounds: int) -> None:
    sampled, gaussian = SampledGaussianLoss(multiplier, 1.0, rounds), GaussianDP(math.sqrt(rounds) / multiplier)
    for delta in (0.1, 1e-6, 1e-14):
        exact = gaussian.epsilon(delta)
        assert exact * (1.0 - 1e-9) <= sampled.epsilon(delta) <= exact * (1.0 + 2e-4) + 1e-6
        assert gaussian.delta(exact) <= sampled.delta(exact) * (1.0 + 1e-9)


def test_one_round_is_the_mixture() -> None:
    """delta = sup over thresholds: q times the Gaussian's at 1 + (e^eps - 1) / q if one is removed."""
    z, q = 1.5, 0.1
    for epsilon in (0.01, 0.1, 0.5):
        removed = q * GaussianDP(1.0 / z).delta(math.log1p(math.expm1(epsilon) / q))
        assert removed <= SampledGaussianLoss(z, q).delta(epsilon) <= removed * (1.0 + 2e-3)


@pytest.mark.parametrize(("z", "q"), [(0.1, 0.1), (0.3, 0.001), (1.5, 0.1), (0.8, 1e-6)])
def test_each_direction_of_one_round_is_bounded(z: float, q: float) -> None:
    """Exactly, by the two tails beyond the point where the likelihood ratio is e^eps."""
    for epsilon in (1e-4, 1e-3, 0.01, 0.1, 20.0):
        for added in (False, True):
            sign = -1.0 if added else 1.0  # the mixture (1 - q) N(0, z^2) + q N(1, z^2) is e^(sign eps) times N(0, z^2)
            share = math.expm1(sign * epsilon) / q
            point = z * z * math.log1p(share) + 0.5 if share > -1.0 else -math.inf
            plain, moved = stats.norm.cdf(sign * point / -z), stats.norm.cdf(sign * (1.0 - point) / z)
            mixed = (1.0 - q) * plain + q * moved
            exact = plain - math.exp(epsilon) * mixed if added else mixed - math.exp(epsilon) * plain
            assert _sampled(z, q, 1, added).delta(epsilon) >= exact * (1.0 - 1e-9)


@pytest.mark.parametrize("added", [False, True])
def test_sums_by_fft_are_those_of_direct_convolution(added: bool) -> None:
    """This holds also at deltas far below the precision of an FFT without a change of measure."""
    fast = _sampled(1.2, 0.1, 20, added)
    ((one, _),) = fast._listed
    mass = np.ones(1)
    for _ in range(20):
        mass = np.convolve(mass, one.mass)
    losses = (fast._first + np.arange(mass.size)) * fast._step
    for epsilon in (0.0, 0.5, 2.0, 4.0, 6.0):
        expected = float(mass @ -np.expm1(np.minimum(epsilon - losses, 0.0))) + 20 * one.lost
        assert expected * (1.0 - 1e-12) <= fast.delta(epsilon) <= expected * (1.0 + 1e-6)


@pytest.mark.slow
def test_noise_is_calibrated_to_the_request_and_not_above() -> None:
    for epsilon, rate, rounds in ((1.0, 0.02, 500), (8.0, 0.02, 50), (0.1, 0.001, 1000), (1.0, 1.0, 1)):
        z = sampled_multiplier(epsilon, 1e-6, rate, rounds)
        assert SampledGaussianLoss(z, rate, rounds).delta(epsilon) <= 1e-6
        assert SampledGaussianLoss(z * 0.999, rate, rounds).delta(epsilon) > 1e-6
    assert sampled_multiplier(1e9, 1e-6, 0.5, 1) == LEAST_MULTIPLIER


def test_a_second_run_is_composed_round_by_round() -> None:
    once = SampledGaussianLoss(2.0, 0.1, 50)
    assert repeat(once, 2) == SampledGaussianLoss(2.0, 0.1, 100)
    assert compose([once]) is once
    assert math.isinf(once.pure_epsilon)
    assert math.isinf(once.epsilon(0.0))
    beside = compose([once, RandomizedResponses(1, 0.5)])
    assert beside.epsilon(1e-6) >= once.epsilon(1e-6)


@pytest.mark.parametrize("wrong", [(0.0, 0.1, 1), (1.0, 0.0, 1), (1.0, 1.1, 1), (1.0, 0.1, 0), (math.nan, 0.1, 1)])
def test_impossible_settings_are_refused(wrong: tuple[float, float, int]) -> None:
    with pytest.raises(ValueError, match="multiplier must"):
        SampledGaussianLoss(*wrong)
    with pytest.raises(ValueError, match="delta must"):
        sampled_multiplier(1.0, 0.0, 0.1, 10)
