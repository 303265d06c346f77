"""A privatizer's bounds on weighted sums of its noise hold in all kinds of runs; and its refusals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from dprl.privacy import CountFamilies, CountPrivacy, CountPrivatizer, Streams, UserRecord
from tests.privacy.sending import sent

Families = Callable[..., CountFamilies]
STATES, PAIRS = 3, 6
SUMS = ("transitions", STATES, 4 * 4 * PAIRS, 21)
BETA = 0.2


def test_without_noise_nothing_is_off(tabular_families: Families) -> None:
    privatizer = CountPrivacy("none").build(tabular_families(4), 21, Streams(0, "none"))
    assert privatizer.query.weighted_precision(*SUMS, 0.1) == 0.0
    assert privatizer.query.weighted_precision("rewards", 1, 4 * PAIRS, 21, 0.1) == 0.0


@pytest.mark.parametrize("model", ["jdp", "ldp"])
def test_printed_precision_says_nothing_of_weighted_sums(model: str, tabular_families: Families) -> None:
    settings = CountPrivacy(model, 1.0, calibration="printed", precision="printed")
    privatizer = settings.build(tabular_families(4), 21, Streams(0, "printed"))
    with pytest.raises(ValueError, match=r"^precision must be exact here, got printed") as caught:
        privatizer.query.weighted_precision(*SUMS, 0.1)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["ldp"])
@pytest.mark.parametrize("beta", [0.0, 1.0, -0.1, 1.5, float("nan")])
def test_a_failure_probability_outside_0_1_is_refused(beta: float, privatizer: CountPrivatizer) -> None:
    with pytest.raises(ValueError, match=r"^beta must"):
        privatizer.query.weighted_precision(*SUMS, beta)


def worst_error(privatizer: CountPrivatizer, users: list[UserRecord], weights: np.ndarray) -> float:
    """The largest weighted sum of the noise of transitions over all users of a run, weights [sums, S]."""
    true, worst = np.zeros((privatizer.query.families.n_steps, STATES, PAIRS)), 0.0
    for user, contribution in enumerate(users, start=1):
        counts = sent(privatizer, contribution, user)
        for h, cell in enumerate(contribution.index[:, 0]):
            true[h].reshape(-1)[cell] += 1.0
        noise = privatizer.query.family(counts, "transitions").reshape(true.shape) - true
        worst = max(worst, float(np.abs(np.einsum("wt,htj->whj", weights, noise)).max()))
    return worst


def test_weighted_sums_of_the_noise_that_runs_stay_within_their_bound(
    kind: str,
    privatizer_of: Callable[..., CountPrivatizer],
    users_of: Callable[[CountPrivatizer, int], list[UserRecord]],
) -> None:
    # If failures had probability BETA, more than this would have one of 1e-4 at most. And the bound is not idle: at 0.4
    # of it more than half of all runs fail.
    n_runs, u = 60, np.array([0.0, 0.35, 1.0])
    weights = np.array([u, u * u, (1 - u) ** 2, np.ones(3)])
    users = users_of(privatizer_of(kind), 21)
    bound = privatizer_of(kind).query.weighted_precision(*SUMS, BETA)
    worst = np.array([worst_error(privatizer_of(kind, seed), users, weights) for seed in range(n_runs)])
    assert np.sum(worst > bound + 1e-9) <= stats.binom.isf(1e-4, n_runs, BETA)
    if kind != "none":
        assert np.sum(worst > 0.4 * bound) > n_runs / 2


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [50.0, 100.0, 200.0, 1e3, 1e5])
def test_bits_that_are_almost_never_wrong_have_a_bound_too(epsilon: float, tabular_families: Families) -> None:
    # The exact bound's grid would need gigabytes here.
    settings = CountPrivacy("ldp", epsilon, families="one_hot", mechanism="sampled_optimized_unary_encoding")
    bounds = settings.build(tabular_families(4), 300, Streams(0, "rare")).precision(0.1)
    assert all(0.0 < bound < 300.0 for bound in bounds.values())
