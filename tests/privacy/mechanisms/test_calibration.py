"""Calibrated laws report no more than was asked for; logarithms are those of exact arithmetic."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dprl.privacy.accounting.closed_forms import largest_loss
from dprl.privacy.base import Sensitivity
from dprl.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from dprl.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.mechanisms.logarithm import log_of_reduced, one_to_two, open_unit, reduced, signed

Calibrated = type[Laplace | DiscreteLaplace | Gaussian | DiscreteGaussian]
LAPLACES: list[Calibrated] = [Laplace, DiscreteLaplace]
GAUSSIANS: list[Calibrated] = [Gaussian, DiscreteGaussian]
SENSITIVITIES = [
    Sensitivity.of_cells(1),
    Sensitivity.of_cells(6),
    Sensitivity.of_cells(20),
    Sensitivity(5.3, 2.9, 1.7, 12),
    Sensitivity.of_cells(601),
]
EPSILONS = [10.0**e for e in range(-9, 10)] + [float(x) for x in 10 ** np.random.default_rng(5).uniform(-9, 9, 12)]
DELTAS = [1e-15, 3.7e-12, 1e-9, 1e-6, 2.3e-4, 0.1]


@pytest.mark.parametrize("mechanism", [*LAPLACES, *GAUSSIANS])
def test_the_curve_of_what_is_calibrated_reports_no_more_than_was_asked_for(mechanism: Calibrated) -> None:
    met = 0
    deltas = DELTAS if mechanism in GAUSSIANS else [0.0, *DELTAS]
    # Curves of composed Laplace noise take a tenth of a second each.
    rng, each = np.random.default_rng(8), 2 if mechanism in LAPLACES else len(EPSILONS) // 3
    pairs = itertools.product(deltas, SENSITIVITIES)
    chosen = [(float(e), *pair) for pair in pairs for e in rng.choice(EPSILONS, each, replace=False)]
    for epsilon, delta, sensitivity in chosen:
        try:
            curve = mechanism.calibrated(epsilon, delta, sensitivity).curve(sensitivity)
        except ValueError as error:
            # Integer noise of this size does not exist.
            if not str(error).startswith("scale must"):
                raise
            continue
        assert curve.epsilon(delta) <= epsilon, (epsilon, delta, sensitivity)
        assert curve.delta(epsilon) <= delta, (epsilon, delta, sensitivity)
        met += 1
    assert met > len(chosen) / len(SENSITIVITIES)


@pytest.mark.parametrize("mechanism", [Laplace, DiscreteLaplace])
def test_pure_losses_add_up_to_at_most_epsilon_as_rational_numbers(mechanism: type[Laplace | DiscreteLaplace]) -> None:
    for exponent, cells in itertools.product(np.random.default_rng(6).uniform(-3, 2, 150), (3, 6, 7, 20, 49)):
        epsilon, sensitivity = float(10**exponent), Sensitivity.of_cells(cells)
        found = mechanism.calibrated(epsilon, 0.0, sensitivity)
        # The next smaller scale has a larger loss: rounding up costs one digit of the last place and no more.
        loss, beyond = (Fraction(cells) / Fraction(b) for b in (found.scale, math.nextafter(found.scale, 0.0)))
        assert loss <= Fraction(epsilon) < beyond


def test_the_requests_that_were_missed_by_a_last_digit() -> None:
    epsilon = 0.12678893505721306
    assert 6 * Fraction(largest_loss(epsilon, 0.0, 6)) <= epsilon
    cells = Sensitivity.of_cells(20)
    assert Laplace.calibrated(1e6, 1e-15, cells).curve(cells).delta(1e6) <= 1e-15
    norm_only = Sensitivity(6.0, 3.0, 3.0, 9)
    assert DiscreteGaussian.calibrated(1.0, 1e-6, norm_only).curve(norm_only).epsilon(1e-6) <= 1.0


# The logarithm's two halves together, and the conversion of bits to numbers.


def test_log_is_within_two_and_a_half_ulp() -> None:
    rng = np.random.default_rng(0)
    u = np.concatenate([rng.random(20_000), 10.0 ** -rng.uniform(0, 16, 20_000), 1 - 10 ** -rng.uniform(1, 15, 20_000)])
    ours = np.array([log_of_reduced(*reduced(float(v))) for v in u])
    reference = np.log(u)
    assert np.max(np.abs(ours - reference) / np.spacing(np.abs(reference))) <= 2.5
    assert log_of_reduced(*reduced(1.0)) == 0.0


def test_reduced_form_is_small_and_says_the_same_number() -> None:
    for u in (1.0, 0.75, 0.5, 0.1, 2.0**-53, 1.0 - 2.0**-53):
        s, e = reduced(u)
        assert abs(s) < 0.172
        assert e == int(e)
        assert abs(2.0**e * (1.0 + s) / (1.0 - s) - u) <= 4e-16 * u


def test_bits_become_numbers_of_the_open_interval() -> None:
    last = np.uint64(2**64 - 1)
    assert open_unit(np.uint64(0)) == 2.0**-53
    assert open_unit(last) == 1.0 - 2.0**-53
    assert open_unit(np.uint64(2**63)) == 0.5 + 2.0**-53
    assert one_to_two(np.uint64(0)) == 1.0
    assert one_to_two(last) == 2.0 - 2.0**-52


def test_only_the_lowest_bit_is_the_sign() -> None:
    assert signed(1.5, np.uint64(6)) == 1.5
    assert signed(1.5, np.uint64(7)) == -1.5
    assert signed(-1.5, np.uint64(7)) == 1.5
    assert np.signbit(signed(0.0, np.uint64(1)))
