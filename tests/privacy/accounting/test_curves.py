"""Every curve: safe roundings, ends, and both of its directions."""

from __future__ import annotations

import itertools
import math
from functools import partial

import mpmath
import numpy as np
import pytest

from dprl.privacy.accounting.closed_forms import (
    ZCDP,
    GaussianDP,
    PrivacyCurve,
    RandomizedResponses,
    Unbounded,
    gaussian_delta,
    gaussian_mu,
)
from dprl.privacy.accounting.composition import compose
from dprl.privacy.accounting.discrete_gaussians import DiscreteGaussianLoss

CURVES: list[PrivacyCurve] = [
    RandomizedResponses(1, 1e-9),
    RandomizedResponses(1, 1.0),
    RandomizedResponses(1, 1e9),
    RandomizedResponses(1, 0.5, lost=1e-7),
    RandomizedResponses(20, 0.1),
    *(RandomizedResponses(n, 0.3, informative=0.5) for n in (1, 12, 500)),
    RandomizedResponses(600, 1e-11),
    RandomizedResponses(30, 0.5, cap=2.0),
    GaussianDP(1e-10),
    GaussianDP(0.2367),
    GaussianDP(60.0),
    ZCDP(1e-18),
    ZCDP(0.0244),
    ZCDP(1e6),
    DiscreteGaussianLoss(100, 42.25),
    compose([RandomizedResponses(20, 0.1), RandomizedResponses(1, 0.5), GaussianDP(0.1)]),
    compose([RandomizedResponses(20, 0.1), ZCDP(0.01), RandomizedResponses(1, 0.1, lost=1e-9)]),
]
DELTAS = [1e-15, 1e-12, 1e-9, 1e-6, 1e-3, 0.3, 0.999]


@pytest.mark.parametrize("curve", CURVES, ids=str)
def test_an_epsilon_holds_at_its_delta_and_falls_with_it(curve: PrivacyCurve) -> None:
    epsilons = [curve.epsilon(delta) for delta in DELTAS]
    for delta, epsilon in zip(DELTAS, epsilons, strict=True):
        assert 0 <= epsilon <= curve.pure_epsilon
        if math.isfinite(epsilon):
            assert curve.delta(epsilon) <= delta
    assert all(more >= less for more, less in itertools.pairwise(epsilons))
    assert curve.epsilon(0.0) == curve.pure_epsilon


@pytest.mark.parametrize("curve", CURVES, ids=str)
def test_deltas_are_probabilities_and_fall(curve: PrivacyCurve) -> None:
    most = curve.epsilon(1e-6)
    deltas = [curve.delta(epsilon) for epsilon in np.linspace(0.0, 1.2 * most, 25)]
    assert all(0 <= delta <= 1 for delta in deltas)
    assert np.all(np.diff(deltas) <= 1e-12 * np.array(deltas[:-1]))
    assert curve.delta(math.inf) <= 1e-7
    if math.isfinite(curve.pure_epsilon):
        assert curve.delta(curve.pure_epsilon) == 0


@pytest.mark.parametrize("curve", CURVES, ids=str)
def test_epsilons_are_not_rounded_up_by_much(curve: PrivacyCurve) -> None:
    for delta in (1e-12, 1e-6, 1e-3):
        epsilon = curve.epsilon(delta)
        if math.isfinite(epsilon) and 0 < epsilon < curve.pure_epsilon * (1 - 1e-6):
            assert curve.delta(epsilon * (1 - 1e-6)) > delta


def precise_gaussian(epsilon: float, mu: float) -> float:
    with mpmath.workdps(60):
        e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
        return float(mpmath.ncdf(-e / m + m / 2) - mpmath.exp(e) * mpmath.ncdf(-e / m - m / 2))


@pytest.mark.parametrize("mu", [1e-10, 1e-6, 1e-3, 0.05, 0.3, 0.99, 1.0, 1.5, 4.0, 20.0, 60.0])
@pytest.mark.parametrize("epsilon", [0.0, 1e-9, 1e-4, 0.1, 1.0, 10.0, 300.0])
def test_gaussian_keeps_its_digits(epsilon: float, mu: float) -> None:
    assert gaussian_delta(epsilon, mu) == pytest.approx(precise_gaussian(epsilon, mu), rel=1e-12, abs=1e-300)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-6, 1e-3, 1.0, 30.0, 1e3, 1e6, 1e9])
@pytest.mark.parametrize("delta", [1e-15, 1e-9, 1e-6, 0.1, 0.999])
def test_gaussian_meets_every_request(epsilon: float, delta: float) -> None:
    mu = gaussian_mu(epsilon, delta)
    assert gaussian_delta(epsilon, mu) <= delta
    assert gaussian_delta(epsilon, mu * (1 + 1e-6)) > delta
    assert gaussian_delta(GaussianDP(mu).epsilon(delta), mu) <= delta


def test_what_is_raw_is_unbounded() -> None:
    assert Unbounded().epsilon(0.9) == Unbounded().pure_epsilon == math.inf
    assert Unbounded().delta(1e9) == 1


def test_a_point_holds_at_its_delta() -> None:
    curve = RandomizedResponses(1, 1.0, lost=1e-6)
    assert curve.pure_epsilon == curve.epsilon(0.9e-6) == math.inf
    assert curve.epsilon(1e-6) == 1.0
    assert curve.epsilon(1e-3) < 1.0
    assert curve.delta(1.0) == curve.delta(50.0) == 1e-6
    assert RandomizedResponses(1, 1.0, lost=0.0).pure_epsilon == 1.0


def test_a_cap_is_kept() -> None:
    curve = RandomizedResponses(30, 0.5, cap=2.0)
    assert curve.pure_epsilon == 2.0
    assert curve.epsilon(1e-6) <= 2.0
    assert curve.delta(2.0) == 0


def test_nothing_costs_nothing() -> None:
    for curve in (RandomizedResponses(1, 0.0), GaussianDP(0.0), ZCDP(0.0), RandomizedResponses(3, 0.0)):
        assert curve.pure_epsilon == curve.epsilon(1e-6) == curve.delta(0.0) == 0


@pytest.mark.parametrize("value", [-1.0, math.inf, math.nan])
def test_no_curve_of_nonsense(value: float) -> None:
    for name, kind in (("epsilon_0", partial(RandomizedResponses, 1)), ("mu", GaussianDP), ("rho", ZCDP)):
        with pytest.raises(ValueError, match=f"^{name} must be at least 0 and finite, got"):
            kind(value)
    with pytest.raises(ValueError, match=r"^lost must be at least 0 and below 1, got"):
        RandomizedResponses(1, 1.0, lost=value)
    with pytest.raises(ValueError, match=r"^n must be at least 1, got 0"):
        RandomizedResponses(0, 1.0)
