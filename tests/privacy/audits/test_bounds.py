"""Clopper-Pearson's coverage by enumeration, and the bounds on epsilon and delta against cases solved by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from dprl.privacy.audits.distinguishing_attack import (
    clopper_pearson_lower,
    clopper_pearson_upper,
    delta_lower_bound,
    epsilon_lower_bound,
    largest_epsilon_bound,
)


@pytest.mark.parametrize("runs", [1, 7, 40])
@pytest.mark.parametrize("alpha", [0.2, 0.01])
def test_clopper_pearson_covers_exactly(runs: int, alpha: float) -> None:
    lower = np.array([clopper_pearson_lower(k, runs, alpha) for k in range(runs + 1)])
    upper = np.array([clopper_pearson_upper(k, runs, alpha) for k in range(runs + 1)])
    worst = 0.0
    for p in np.linspace(0.001, 0.999, 999):
        mass = binom.pmf(np.arange(runs + 1), runs, p)
        too_high, too_low = mass[lower > p].sum(), mass[upper < p].sum()
        assert max(too_high, too_low) <= alpha + 1e-12
        worst = max(worst, too_high)
    # At the bound for k successes, k or more happen with probability alpha: the bound is tight.
    assert worst > 0.8 * alpha


def test_clopper_pearson_is_the_root_of_its_tail() -> None:
    assert binom.sf(6, 20, clopper_pearson_lower(7, 20, 0.03)) == pytest.approx(0.03, rel=1e-9)
    assert binom.cdf(7, 20, clopper_pearson_upper(7, 20, 0.03)) == pytest.approx(0.03, rel=1e-9)
    assert clopper_pearson_lower(0, 20, 0.03) == 0.0
    assert clopper_pearson_upper(20, 20, 0.03) == 1.0
    assert clopper_pearson_upper(0, 20, 0.03) == pytest.approx(1 - 0.03 ** (1 / 20))


def test_epsilon_and_delta_bounds() -> None:
    assert epsilon_lower_bound(0.5, 0.1, 0.0) == pytest.approx(math.log(5))
    assert epsilon_lower_bound(0.5, 0.1, 0.2) == pytest.approx(math.log(3))
    assert epsilon_lower_bound(0.1, 0.5, 0.0) == 0.0
    assert epsilon_lower_bound(0.1, 0.5, 0.2) == 0.0
    assert delta_lower_bound(0.5, 0.1, math.log(2)) == pytest.approx(0.3)
    assert delta_lower_bound(0.5, 0.1, 5.0) == 0.0
    assert delta_lower_bound(0.5, 0.1, 5000.0) == 0.0


def test_the_largest_bound_is_that_of_worlds_without_a_common_output() -> None:
    # All of n runs on one data set, none on the other: (alpha^(1/n) - delta) / (1 - alpha^(1/n)).
    likely = 0.0125 ** (1 / 50_000)
    assert largest_epsilon_bound(50_000, 0.0125, 0.0) == pytest.approx(math.log(likely / (1 - likely)))
    assert largest_epsilon_bound(50_000, 0.0125, 0.0) == pytest.approx(math.log(50_000 / -math.log(0.0125)), abs=2e-4)
    assert largest_epsilon_bound(50_000, 0.0125, 0.5) == pytest.approx(math.log((likely - 0.5) / (1 - likely)))
    assert largest_epsilon_bound(1, 0.01, 0.0) == 0.0
