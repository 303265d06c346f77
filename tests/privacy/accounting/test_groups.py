"""Group privacy, against exact laws and composition."""

from __future__ import annotations

import math

import pytest

from dprl.privacy.accounting.amplification import SampledGaussianLoss
from dprl.privacy.accounting.closed_forms import ZCDP, GaussianDP, RandomizedResponses
from dprl.privacy.accounting.composition import group_epsilon, repeat


@pytest.mark.parametrize("size", [2, 5, 10])
def test_group_privacy(size: int) -> None:
    assert group_epsilon(RandomizedResponses(1, 0.3), size, 0.0) == pytest.approx(0.3 * size)
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
    for curve in (RandomizedResponses(1, 1.0), GaussianDP(1.0), RandomizedResponses(20, 0.1)):
        assert group_epsilon(curve, 1, 1e-5) == pytest.approx(curve.epsilon(1e-5), rel=1e-6)
    with pytest.raises(ValueError, match="size must be at least 1"):
        group_epsilon(RandomizedResponses(1, 1.0), 0, 1e-5)
