"""Counts of possible transitions only: the same plans, all users counted, and an environment of 501 states."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from dprl.algorithms import BernsteinVIConfig
from dprl.algorithms.base import Float64Array, Int64Array
from dprl.algorithms.bernstein_vi import plan
from dprl.algorithms.tabular import Released
from dprl.algorithms.tabular.learner import Simulation
from dprl.algorithms.tabular.loop import draw_visits
from dprl.algorithms.tabular.simulator import ALL_STATES, possible_successors, write_ranks
from dprl.envs import FiniteMDP, GymnasiumTable, RiverSwim
from dprl.envs.base import stationary
from dprl.privacy import CountPrivacy, Streams


def of_all_states(values: Float64Array, successors: Int64Array, n_states: int) -> Float64Array:
    """Counts float64[L * (R + F) * S*A] with the transitions of all next states, 0 where there are none."""
    layers, width, pairs = successors.shape
    steps = values.reshape(layers, -1, pairs)
    found = np.zeros((layers, n_states + steps.shape[1] - width, pairs))
    found[:, n_states:] = steps[:, width:]
    layer, rank, pair = np.nonzero(successors >= 0)
    found[layer, successors[layer, rank, pair], pair] = steps[layer, rank, pair]
    return found.ravel()


@pytest.mark.parametrize("stationary", [False, True])
def test_known_transitions_count_the_possible_ones_alone(stationary: bool) -> None:
    """Plans are those of all counts with 0 elsewhere, and bounds are for sums over fewer cells."""
    mdp, privacy = RiverSwim(n_states=6, horizon=4).build(), CountPrivacy("jdp", 1.0, families="one_hot")
    configs = [BernsteinVIConfig(preset="proved", stationary=stationary, known_transitions=x) for x in (False, True)]
    privatizers = [config.privatizer(mdp, privacy, 900, Streams(0, "known")) for config in configs]
    every, known = (c.bonus(mdp, p, 900) for c, p in zip(configs, privatizers, strict=True))
    assert privatizers[0].query.families.block == 6 * 12 + 2 * 12
    assert privatizers[1].query.families.block == 3 * 12 + 2 * 12
    fewer = privatizers[1].query.weighted_precision("transitions", 3, 4 * 4 * 12, 900, 0.1 / 4)
    assert known.e.tolist() == [fewer]
    assert (every.e > known.e).all()
    generator, layers = np.random.default_rng(0), 1 if stationary else mdp.horizon
    counts = generator.normal(30.0, 20.0, size=(layers, 3 + 2, 12))
    full = of_all_states(counts.ravel(), known.successors, 6)
    possible = mdp.transitions[:layers].transpose(0, 3, 1, 2).reshape(layers, 6, 12) > 0.0
    assert (full.reshape(layers, 8, 12)[:, :6] != 0.0).tolist() == possible.tolist()
    own, each = (config.tables(mdp, 900) for config in reversed(configs))
    plan(Released(counts.ravel(), 899, 1), known, own)
    plan(Released(full, 899, 1), known._replace(successors=ALL_STATES), each)
    assert np.array_equal(own.policy, each.policy)
    np.testing.assert_allclose(own.optimistic, each.optimistic, atol=1e-12)


@pytest.mark.parametrize("simulation", ["users", "blocks"])
def test_known_transitions_lose_no_count(simulation: Simulation) -> None:
    """Users name transitions by rank, one by one and in blocks: without noise, all counts are those of all states."""
    mdp, episodes = GymnasiumTable("FrozenLake-v1", horizon=5).build(), 301
    settings: dict[str, Any] = {"replan_growth": 10.0, "simulation": simulation, "stationary": True}
    config = BernsteinVIConfig(known_transitions=True, **settings)
    privatizer = config.privatizer(mdp, CountPrivacy("none"), episodes, Streams(3, "ranks"))
    learner = config.build(mdp, privatizer, episodes, Streams(3, "ranks"))
    learner.learn(episodes)
    counts, successors = privatizer.release(), config.successors(mdp)
    full = of_all_states(counts.values, successors, mdp.n_states).reshape(mdp.n_states + 2, -1)
    arrivals = full[: mdp.n_states]
    assert arrivals.sum() == counts.users * mdp.horizon
    assert arrivals.sum(axis=0).tolist() == full[mdp.n_states].tolist()
    expected = full[mdp.n_states] * mdp.transitions[0].reshape(-1, mdp.n_states).T
    assert (arrivals[expected == 0.0] == 0.0).all()
    # Chi-squared of the next states of each pair, with a false alarm once in 10^6.
    seen = expected > 0.0
    statistic = ((arrivals[seen] - expected[seen]) ** 2 / expected[seen]).sum()
    free = seen.sum() - (full[mdp.n_states] > 0).sum()
    assert statistic < stats.chi2.isf(1e-6, free)


def test_all_transitions_of_taxi_are_too_many() -> None:
    few = GymnasiumTable("Taxi-v3", horizon=2).build()
    message = r"env must have at most 1,000,000 counts a step with bernstein_vi, got 1,512,018 of 501 states; take "
    with pytest.raises(ValueError, match=message):
        BernsteinVIConfig(stationary=True).privatizer(few, CountPrivacy("none"), 100, Streams(0, "taxi"))


def test_blocks_leave_no_user_in_a_rank_without_a_state() -> None:
    """If rounding makes a row's sum differ from 1, NumPy assigns the remainder to the last category."""
    rows = np.array([[0, 1 / 3, 1 / 3, 1 / 3], [0, 0.7, 0.1, 0.2], [0, 1, 0, 0], [0, 0.3, 0.7 - 9e-10, 0]])
    mdp = FiniteMDP("rounded", *stationary(4, rows[:, None], np.zeros((4, 1)), start=3))
    successors, policy = possible_successors(mdp, 1), np.zeros((4, 4), dtype=np.int64)
    law = mdp.transitions, mdp.start, policy
    for users in (10**15, np.full(4, 10**15)):
        found = draw_visits(*law, users, np.random.default_rng(0), successors).reshape(4, *successors[0].shape)
        assert (found[:, successors[0] < 0] == 0).all()
        assert (found.sum(axis=(1, 2)) == 10**15).all()


def test_ranks_part_noise_and_are_told() -> None:
    """Counts of ranks have other noise than counts of states of the same size, and the certificate states this."""
    everywhere, drawn = np.full((3, 3, 2, 3), 1 / 3), CountPrivacy("jdp", 1.0, families="one_hot")
    mdp = FiniteMDP("everywhere", everywhere, np.zeros((3, 3, 2)), np.array([1.0, 0.0, 0.0]))
    configs = [BernsteinVIConfig(known_transitions=known) for known in (False, True)]
    states, ranks = (config.privatizer(mdp, drawn, 90, Streams(0, "x")) for config in configs)
    assert states.query.families.n_cells == ranks.query.families.n_cells
    assert states.query.identity != ranks.query.identity
    with pytest.raises(ValueError, match="the privatizer must be built for this environment"):
        configs[1].build(mdp, states, 90, Streams(0, "x"))


def test_a_transition_that_is_not_possible_is_counted_as_the_last() -> None:
    successors = np.array([[[0, 1], [2, -1]]])
    cells = np.array([[0, 0], [0, 1], [0, 0]])
    write_ranks(np.array([0, 2, 0, 1]), successors, cells)
    assert cells[:, 0].tolist() == [2, 1 + 2, 2]
