"""The closed forms of accounting, against published numbers, dp-accounting and brute force."""

from __future__ import annotations

import itertools
import math

import mpmath
import pytest

from dprl.privacy.accounting.closed_forms import (
    GaussianDP,
    composed_delta,
    composed_epsilon,
    gaussian_delta,
    gaussian_mu,
    largest_loss,
)


def brute_force_delta(epsilon: float, n: int, epsilon_0: float) -> float:
    q = math.exp(epsilon_0) / (1 + math.exp(epsilon_0))
    total = 0.0
    for bits in itertools.product((0, 1), repeat=n):
        ones = sum(bits)
        p_here = q ** (n - ones) * (1 - q) ** ones
        p_there = q**ones * (1 - q) ** (n - ones)
        total += max(0.0, p_here - math.exp(epsilon) * p_there)
    return total


@pytest.mark.parametrize(("epsilon", "n", "epsilon_0"), [(0.0, 1, 0.7), (0.5, 4, 0.3), (1.0, 9, 0.25), (2.0, 6, 1.0)])
def test_composition_equals_brute_force(epsilon: float, n: int, epsilon_0: float) -> None:
    assert composed_delta(epsilon, n, epsilon_0) == pytest.approx(brute_force_delta(epsilon, n, epsilon_0), abs=1e-13)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 0.0), (1.0, 0.0), (1.0, 1e-6), (3.0, 1e-5), (0.3, 1e-9)])
@pytest.mark.parametrize("n", [1, 30, 600, 4000])
def test_loss_is_sufficient_and_largest(epsilon: float, delta: float, n: int) -> None:
    loss = largest_loss(epsilon, delta, n)
    if delta == 0:
        assert loss == pytest.approx(epsilon / n, rel=1e-15)
        return
    assert composed_delta(epsilon, n, loss) <= delta
    assert loss >= math.nextafter(epsilon / n, 0.0)
    if loss > epsilon / n:
        assert composed_delta(epsilon, n, 1.001 * loss) > delta


def precise_delta(epsilon: float, n: int, epsilon_0: float) -> float:
    """The same sum in 60 digits."""
    with mpmath.workdps(60):
        q = 1 / (1 + mpmath.e ** -mpmath.mpf(epsilon_0))
        terms = (
            mpmath.binomial(n, i)
            * (q ** (n - i) * (1 - q) ** i - mpmath.e ** mpmath.mpf(epsilon) * q**i * (1 - q) ** (n - i))
            for i in range(n + 1)
        )
        return float(sum(term for term in terms if term > 0))


@pytest.mark.parametrize(
    ("epsilon", "n", "epsilon_0"),
    [(1e-9, 6, 1e-9), (1e-12, 600, 1e-13), (1.0, 600, 1e-3), (1.0, 4800, 0.02), (30.0, 6, 9.0), (5e-6, 30, 1e-6)],
)
def test_composition_keeps_its_digits_at_the_extremes(epsilon: float, n: int, epsilon_0: float) -> None:
    assert composed_delta(epsilon, n, epsilon_0) == pytest.approx(precise_delta(epsilon, n, epsilon_0), rel=1e-9)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-6, 1e-3, 1.0, 30.0, 1e4, 1e9])
@pytest.mark.parametrize("delta", [1e-15, 1e-12, 1e-6, 0.1, 0.999])
@pytest.mark.parametrize("n", [6, 600, 24_000])
def test_every_accepted_request_has_a_loss_that_meets_it(epsilon: float, delta: float, n: int) -> None:
    loss = largest_loss(epsilon, delta, n)
    assert math.nextafter(epsilon / n, 0.0) <= loss < math.inf
    assert composed_delta(epsilon, n, loss) <= delta
    assert composed_epsilon(delta, n, loss) <= epsilon * (1 + 1e-6) or composed_delta(epsilon, n, loss) == 0


def test_vectors_of_the_gaussian() -> None:
    for epsilon, delta, mu in [(1, 1e-6, 0.23670), (1, 1e-5, 0.26805), (2, 1e-6, 0.44833), (0.5, 1e-6, 0.12411)]:
        assert gaussian_mu(epsilon, delta) == pytest.approx(mu, abs=1e-5)
        assert gaussian_delta(epsilon, gaussian_mu(epsilon, delta)) == pytest.approx(delta, rel=1e-6)
        assert GaussianDP(mu).epsilon(delta) == pytest.approx(epsilon, rel=1e-3)


def test_ten_million_losses_take_milliseconds_and_keep_their_digits() -> None:
    # The sum of so many small losses is nearly Gaussian.
    assert composed_epsilon(1e-6, 10**7, 1e-4) == pytest.approx(
        GaussianDP(1e-4 * math.sqrt(10**7)).epsilon(1e-6), rel=1e-4
    )
