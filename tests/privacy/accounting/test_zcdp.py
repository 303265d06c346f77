"""Zero-concentrated privacy against published numbers, a grid of orders, and its own inverses."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting.rdp import rdp_privacy_accountant

from dprl.privacy.accounting.closed_forms import ZCDP, gaussian_delta, zcdp_delta, zcdp_rho
from dprl.privacy.base import Sensitivity
from dprl.privacy.mechanisms.discrete_gaussian import DiscreteGaussian

EPSILONS = [1e-9, 1e-6, 1e-3, 1.0, 30.0, 1e3, 1e6, 1e9]
DELTAS = [1e-15, 1e-9, 1e-6, 0.1, 0.999]


@pytest.mark.parametrize(
    ("epsilon", "delta", "sigma"), [(1, 1e-6, 4.5309), (1, 1e-5, 4.0451), (2, 1e-6, 2.3816), (0.5, 1e-6, 8.6766)]
)
def test_vectors_of_the_conversion(epsilon: float, delta: float, sigma: float) -> None:
    rho = zcdp_rho(epsilon, delta)
    assert 1 / math.sqrt(2 * rho) == pytest.approx(sigma, abs=6e-5)
    if (epsilon, delta) == (1, 1e-6):
        assert rho == pytest.approx(0.02436, abs=5e-6)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_every_request_has_a_rho_that_meets_it_and_no_larger_one(epsilon: float, delta: float) -> None:
    rho = zcdp_rho(epsilon, delta)
    assert rho > 0
    assert zcdp_delta(epsilon, rho) <= delta
    assert zcdp_delta(epsilon, rho * (1 + 1e-6)) > delta
    assert zcdp_delta(ZCDP(rho).epsilon(delta), rho) <= delta


@pytest.mark.parametrize(("epsilon", "rho"), [(1.0, 0.02), (0.0, 0.5), (3.0, 1.0), (1e-6, 1e-13), (200.0, 60.0)])
def test_the_best_order_is_found(epsilon: float, rho: float) -> None:
    t = np.exp(np.linspace(-40, 40, 400_001))
    log_delta = t * ((t + 1) * rho - epsilon) - t * np.log1p(1 / t) - np.log1p(t)
    best = math.exp(float(log_delta.min()))
    assert zcdp_delta(epsilon, rho) == pytest.approx(best, rel=1e-6)
    assert zcdp_delta(epsilon, rho) <= best * (1 + 2e-9)


@pytest.mark.parametrize(("rho", "delta"), [(0.02, 1e-6), (0.5, 1e-5), (1e-3, 1e-9)])
def test_agrees_with_renyi_accounting(rho: float, delta: float) -> None:
    orders = 1 + np.exp(np.linspace(-3, 9, 3000))
    peer, _ = rdp_privacy_accountant.compute_epsilon(orders, rho * orders, delta)
    # dp-accounting minimises over a grid of orders only.
    assert ZCDP(rho).epsilon(delta) <= peer * (1 + 2e-9)
    assert ZCDP(rho).epsilon(delta) == pytest.approx(peer, rel=1e-5)


def test_ends() -> None:
    assert zcdp_delta(1.0, 0.0) == zcdp_delta(math.inf, 1.0) == ZCDP(0.0).epsilon(1e-6) == ZCDP(3.0).epsilon(1.0) == 0
    assert zcdp_delta(1.0, math.inf) == 1
    assert ZCDP(1.0).epsilon(0.0) == math.inf
    for delta in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError, match=r"^delta must be above 0 and below 1"):
            zcdp_rho(1.0, delta)
    with pytest.raises(ValueError, match=r"^epsilon must be at least 0 and finite"):
        zcdp_rho(math.inf, 1e-6)


@pytest.mark.parametrize("gap", [700.0, 709.0, 715.0, 730.0, 744.0, 745.5, 800.0])
@pytest.mark.parametrize("epsilon", [0.0, 10.0, 50.0, 1000.0])
def test_no_order_is_too_small_for_a_bound(epsilon: float, gap: float) -> None:
    """Gaussian noise is rho-zCDP: its delta is the least that is possible."""
    rho = epsilon + gap
    assert zcdp_delta(epsilon, rho) >= gaussian_delta(epsilon, math.sqrt(2.0 * rho)) * (1.0 - 1e-9)


def test_weak_requests_do_not_get_noise_of_too_small_an_order() -> None:
    row = Sensitivity.of_cells(9999)
    curve = DiscreteGaussian.calibrated(50.0, 1e-15, row).curve(row)
    assert curve.epsilon(1e-15) <= 50.0
