"""The curve of optimised unary encodings: a binomial number of randomized responses; the rest reveals nothing."""

from __future__ import annotations

import pytest
from scipy.stats import binom

from dprl.privacy.accounting.closed_forms import RandomizedResponses, composed_delta


@pytest.mark.parametrize("n", [1, 2, 5, 40, 200])
@pytest.mark.parametrize("epsilon_0", [0.05, 1.0, 30.0])
def test_it_is_a_binomial_mixture_of_randomized_responses(n: int, epsilon_0: float) -> None:
    curve = RandomizedResponses(n, epsilon_0, informative=0.5)
    for part in (0.0, 0.03, 0.4, 0.97):
        epsilon = part * n * epsilon_0
        mixture = sum(binom.pmf(k, n, 0.5) * composed_delta(epsilon, k, epsilon_0) for k in range(1, n + 1))
        assert curve.delta(epsilon) == pytest.approx(mixture, rel=1e-8, abs=1e-300)


@pytest.mark.parametrize("epsilon_0", [699.0, 701.0, 1e3, 1e9])
def test_an_encoding_that_never_lies_reveals_its_cell_half_of_the_time(epsilon_0: float) -> None:
    # e^epsilon_0 overflows from 709.8 on.
    assert RandomizedResponses(1, epsilon_0, informative=0.5).delta(1.0) == pytest.approx(0.5)
    assert RandomizedResponses(3, epsilon_0, informative=0.5).delta(epsilon_0 + 1.0) == pytest.approx(4 / 8)
