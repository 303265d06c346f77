"""Poisson-sampled Gaussian rounds: an upper bound in both directions, close to independent accountants."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as peer
from scipy import stats

from dprl.privacy.accounting.amplification import LEAST_MULTIPLIER, SampledGaussianLoss, _sampled, sampled_multiplier
from dprl.privacy.accounting.closed_forms import GaussianDP, RandomizedResponses
from dprl.privacy.accounting.composition import compose, repeat
from dprl.privacy.accounting.losses import Losses, SummedLosses


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
    fast = _sampled(1.2, 0.1, 40, added)
    ((one, _),) = fast._listed
    mass = np.ones(1)
    for _ in range(40):
        mass = np.convolve(mass, one.mass)
    losses = (fast._first + np.arange(mass.size)) * fast._step
    for epsilon in (0.0, 0.5, 2.0, 4.0, 6.0):
        expected = float(mass @ -np.expm1(np.minimum(epsilon - losses, 0.0))) + 40 * one.lost
        assert expected * (1.0 - 1e-12) <= fast.delta(epsilon) <= expected * (1.0 + 1e-6)


def test_a_loss_of_few_values_is_exact() -> None:
    """Ten randomized responses with epsilon_0 = 1: delta is a finite sum, and splits keep it away from a kink."""
    p = 1.0 / (1.0 + math.exp(-1.0))
    part = Losses(np.array([-1.0, 1.0]), np.array([1.0 - p, p]))
    found = SummedLosses([(part, 10)])
    for epsilon in (0.5, 3.5, 9.5):
        exact = sum(
            math.comb(10, k) * p**k * (1.0 - p) ** (10 - k) * -math.expm1(epsilon - (2 * k - 10))
            for k in range(11)
            if 2 * k - 10 > epsilon
        )
        assert exact <= found.delta(epsilon) <= exact * (1.0 + 1e-6)
    assert found.delta(11.0) == 0.0


@pytest.mark.slow
def test_noise_is_calibrated_to_the_request_and_not_above() -> None:
    for epsilon, rate, rounds in ((1.0, 0.02, 500), (8.0, 0.02, 50), (0.1, 0.001, 1000), (1.0, 1.0, 1)):
        z = sampled_multiplier(epsilon, 1e-6, rate, rounds)
        assert SampledGaussianLoss(z, rate, rounds).delta(epsilon) <= 1e-6
        assert SampledGaussianLoss(z * 0.999, rate, rounds).delta(epsilon) > 1e-6
    assert sampled_multiplier(1e9, 1e-6, 0.5, 1) == LEAST_MULTIPLIER


def test_a_second_run_is_composed_round_by_round() -> None:
    once = SampledGaussianLoss(1.0, 0.01, 500)
    assert repeat(once, 2) == SampledGaussianLoss(1.0, 0.01, 1000)
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
