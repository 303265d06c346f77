"""Trade-off of errors, Renyi divergences and group privacy, against exact laws and dp_accounting."""

from __future__ import annotations

import math

import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
from dp_accounting.rdp import RdpAccountant
from scipy.stats import norm

from dprl.privacy.accounting.composition import repeat
from dprl.privacy.accounting.conversions import FALSE_POSITIVE_RATES, ORDERS, false_negative_rate, renyi
from dprl.privacy.accounting.curves import (
    ZCDP,
    ApproximateLoss,
    GaussianDP,
    MaximumCurve,
    MinimumCurve,
    OneHotResponses,
    PrivacyCurve,
    PureDP,
    RandomizedResponses,
    Unbounded,
)
from dprl.privacy.accounting.groups import group_epsilon
from dprl.privacy.accounting.poisson_sampling import SampledGaussianLoss
from dprl.privacy.accounting.shuffling import ShuffledLoss


@pytest.mark.parametrize("mu", [0.1, 0.5, 1.0, 3.0])
def test_trade_off_of_gaussian_noise(mu: float) -> None:
    for alpha in FALSE_POSITIVE_RATES:
        exact = norm.cdf(norm.isf(alpha) - mu)
        found = false_negative_rate(GaussianDP(mu), alpha)
        assert exact - 2e-3 <= found <= exact


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_trade_off_of_randomized_response(epsilon: float) -> None:
    for alpha in FALSE_POSITIVE_RATES:
        exact = max(0.0, 1.0 - math.exp(epsilon) * alpha, math.exp(-epsilon) * (1.0 - alpha))
        assert false_negative_rate(PureDP(epsilon), alpha) == pytest.approx(exact, abs=1e-9)
        assert false_negative_rate(PureDP(epsilon), alpha) <= exact


def test_trade_off_without_noise_and_with_a_total_loss() -> None:
    assert false_negative_rate(Unbounded(), 0.05) == 0.0
    assert false_negative_rate(ApproximateLoss(0.0, 0.3), 0.05) == pytest.approx(0.65)
    with pytest.raises(ValueError, match="false_positive_rate must lie"):
        false_negative_rate(PureDP(1.0), 1.5)


def moments(masses: list[tuple[float, float]], order: int) -> float:
    """Return the larger Renyi divergence of (P, Q) and (Q, P)."""
    both = (
        math.log(sum(p**order * q ** (1 - order) for p, q in pairs)) / (order - 1)
        for pairs in (masses, [(q, p) for p, q in masses])
    )
    return max(both)


@pytest.mark.parametrize("order", ORDERS[:4])
def test_renyi_divergences_of_finite_laws(order: int) -> None:
    p = 1.0 / (1.0 + math.exp(-0.7))
    response = [(p, 1 - p), (1 - p, p)]
    assert renyi(PureDP(0.7))[0][order] == pytest.approx(moments(response, order))
    unary = [(x / 2, y / 2) for x, y in response] + [(0.5, 0.5)]
    found = renyi(OneHotResponses(3, 0.7))[0][order]
    assert found == pytest.approx(3 * moments(unary, order))
    capped = renyi(RandomizedResponses(10, 0.7, 1.0))[0][order]
    assert capped == pytest.approx(renyi(PureDP(1.0))[0][order])


LARGE = (PureDP(40.0), RandomizedResponses(10, 40.0), OneHotResponses(3, 40.0))


@pytest.mark.parametrize("curve", LARGE, ids=repr)
def test_renyi_divergences_of_large_losses_reach_the_pure_loss(curve: PrivacyCurve) -> None:
    found, _ = renyi(curve)
    assert [found[order] for order in ORDERS[3:]] == pytest.approx([curve.pure_epsilon] * 3, rel=2e-3)


@pytest.mark.parametrize(
    "curve",
    [
        *LARGE,
        PureDP(0.7),
        RandomizedResponses(10, 0.7),
        OneHotResponses(3, 0.7),
        GaussianDP(0.5),
        ZCDP(0.1),
        MinimumCurve((PureDP(1.0), ZCDP(0.1))),
        SampledGaussianLoss(1.1, 0.02, 50),
    ],
    ids=repr,
)
def test_renyi_divergences_never_fall_as_the_order_rises(curve: PrivacyCurve) -> None:
    found = [renyi(curve)[0][order] for order in ORDERS]
    assert found == sorted(found)
    assert found[-1] <= curve.pure_epsilon * (1.0 + 1e-9)


def test_renyi_divergences_of_other_noise() -> None:
    assert renyi(GaussianDP(0.5))[0][8] == pytest.approx(1.0)
    assert renyi(ZCDP(0.1))[0][4] == pytest.approx(0.4)
    assert renyi(MinimumCurve((PureDP(1.0), ZCDP(0.1))))[0][2] == pytest.approx(0.2)
    assert renyi(MaximumCurve((ZCDP(0.1), GaussianDP(0.5))))[0][8] == pytest.approx(1.0)
    lost, shuffled = (
        "the proof leaves out a part of probability ",
        "no bound is proved here for reports that are shuffled",
    )
    for curve, why in (
        (Unbounded(), f"{lost}1,"),
        (ApproximateLoss(1.0, 1e-5), f"{lost}1e-05,"),
        (ShuffledLoss(1.0, 1000), shuffled),
        (MaximumCurve((GaussianDP(0.5), ShuffledLoss(1.0, 1000))), shuffled),
    ):
        found, absent = renyi(curve)
        assert not found
        assert absent.startswith(why)


@pytest.mark.parametrize("rate", [0.02, 1.0])
def test_renyi_divergences_of_sampled_rounds(rate: float) -> None:
    accountant = RdpAccountant(list(ORDERS))
    accountant.compose(PoissonSampledDpEvent(rate, GaussianDpEvent(1.1)), 50)
    found, _ = renyi(SampledGaussianLoss(1.1, rate, 50))
    assert list(found.values()) == pytest.approx(accountant._rdp.tolist(), rel=1e-6)


@pytest.mark.parametrize("size", [2, 5, 10])
def test_group_privacy(size: int) -> None:
    assert group_epsilon(PureDP(0.3), size, 0.0) == pytest.approx(0.3 * size)
    assert group_epsilon(GaussianDP(0.2), size, 1e-6) == pytest.approx(GaussianDP(0.2 * size).epsilon(1e-6), rel=1e-6)
    # Gaussian noise has this zCDP, and its group loses exactly this much.
    gaussian = GaussianDP(size * math.sqrt(2.0 * 0.01)).epsilon(1e-6)
    assert gaussian <= group_epsilon(ZCDP(0.01), size, 1e-6) <= ZCDP(0.01 * size**2).epsilon(1e-6) * (1.0 + 1e-6)
    # A group of sampled users loses at least as much as one user.
    sampled = SampledGaussianLoss(2.0, 0.01, 20)
    epsilon = group_epsilon(sampled, size, 1e-5)
    assert sampled.epsilon(1e-5) < epsilon < math.inf
    # Composition has fresh noise for every record, so it loses at most as much as a group.
    responses = RandomizedResponses(100, 0.02)
    assert repeat(responses, size).epsilon(1e-6) <= group_epsilon(responses, size, 1e-6) * (1.0 + 1e-9)


def test_a_group_of_one_is_the_curve() -> None:
    for curve in (PureDP(1.0), GaussianDP(1.0), RandomizedResponses(20, 0.1)):
        assert group_epsilon(curve, 1, 1e-5) == pytest.approx(curve.epsilon(1e-5), rel=1e-6)
    with pytest.raises(ValueError, match="size must be at least 1"):
        group_epsilon(PureDP(1.0), 0, 1e-5)
