"""Bonuses of the algorithms with greedy tables against the errors that they bound, one kind of error at a time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from dprl.algorithms import ALGORITHMS, ldp_obi, private_ucb_vi, pucb
from dprl.envs import FiniteMDP
from dprl.privacy import CountPrivacy
from tests.algorithms.cases import Learner, counts_at_their_bounds, greedy_plan, optimal_q, true_counts


class Case(NamedTuple):
    """An algorithm's kernel, the numbers of its bonus for noise and for sampling, and the visits that it needs."""

    plan: Any
    noise: tuple[str, ...]
    sampling: tuple[str, ...]
    visits: int


CASES = {
    "ldp_obi": Case(ldp_obi.plan, ("reward_count", "transition_count"), ("reward_root", "transition_root"), 3_000_000),
    "private_ucb_vi": Case(private_ucb_vi.plan, ("per_count",), ("per_root",), 10_000),
    "pucb": Case(pucb.plan, ("per_count", "per_square"), ("per_root",), 10_000),
}
GREEDY = pytest.mark.parametrize("name", CASES)


def without(bonus: Any, numbers: tuple[str, ...]) -> Any:
    return bonus._replace(**dict.fromkeys(numbers, 0.0))


@GREEDY
def test_optimism_survives_the_worst_errors_of_counts(name: str, learner: Learner, random_mdp: FiniteMDP) -> None:
    """The privacy bonus alone covers expected counts that are off by their full error bounds."""
    case, config = CASES[name], ALGORITHMS[name]
    privatizer = learner(random_mdp, 1000, CountPrivacy("jdp", 1.0), name=name).privatizer
    private = without(config().bonus(random_mdp, privatizer, 1000), case.sampling)  # type: ignore[attr-defined]
    best, below = optimal_q(random_mdp), 0
    for values in counts_at_their_bounds(random_mdp, 30_000_000, privatizer.precision(0.1)):
        _, q, _ = greedy_plan(case.plan, values, private, random_mdp)
        assert np.all(q >= best)
        assert np.all(q < random_mdp.horizon)
        below += int(np.any(greedy_plan(case.plan, values, without(private, case.noise), random_mdp)[1] < best))
    assert below >= 4


@GREEDY
def test_optimism_survives_sampling(name: str, learner: Learner, random_mdp: FiniteMDP) -> None:
    # A draw fails with probability at most beta = 0.1, so that more than 12 of 40 do with probability < 1e-3.
    case, config = CASES[name], ALGORITHMS[name]
    privatizer = learner(random_mdp, 1000, name=name).privatizer
    bonus = config().bonus(random_mdp, privatizer, 1000)  # type: ignore[attr-defined]
    generator, best, failures, below = np.random.default_rng(0), optimal_q(random_mdp), 0, 0
    for _ in range(40):
        values = true_counts(random_mdp, case.visits, generator)
        _, q, _ = greedy_plan(case.plan, values, bonus, random_mdp, users=999)
        assert np.all(q < random_mdp.horizon)
        failures += int(np.any(q < best))
        below += int(np.any(greedy_plan(case.plan, values, without(bonus, case.sampling), random_mdp)[1] < best))
    assert failures <= 12
    assert below > 12  # without its bonus the algorithm does not pass
