"""Counts of possible transitions only: the same plans, all users counted, and an environment of 501 states."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from dprl.algorithms import BernsteinVIConfig, DPNashVIConfig, DPUCBVIConfig, PrivateUCBPOConfig, PrivateUCBVIConfig
from dprl.algorithms.base import Float64Array, Int64Array
from dprl.algorithms.bernstein_vi import plan
from dprl.algorithms.dp_nash_vi.algorithm import _NashBonus, _NashPlanner, _NashTables
from dprl.algorithms.tabular import Released
from dprl.algorithms.tabular.learner import Simulation
from dprl.algorithms.tabular.loop import draw_visits
from dprl.algorithms.tabular.simulator import ALL_STATES, possible_successors, write_ranks
from dprl.envs import DeepSea, FiniteMDP, GymnasiumTable, RandomGame, RiverSwim
from dprl.envs.base import stationary
from dprl.envs.games import MarkovGame, Soccer
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
    configs = [
        BernsteinVIConfig(preset="proved", stationary=stationary, known_transitions=known) for known in (False, True)
    ]
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


@pytest.mark.parametrize("counts", ["rewards", "costs"])
@pytest.mark.parametrize("config", [PrivateUCBVIConfig, PrivateUCBPOConfig])
def test_plans_of_cz22_are_those_of_all_counts(config: Any, counts: str) -> None:
    """With 0 elsewhere; noise in ranks without a state changes nothing, and bounds are of R next states, not of S."""
    mdp, privacy = RiverSwim(n_states=6, horizon=4).build(), CountPrivacy("jdp", 1.0)
    settings = {"counts": counts, "bonus_scale": 0.01, "precision_scale": 0.1}
    chosen, printed = config(known_transitions=True, **settings), config(**settings)
    private, whole = (each.privatizer(mdp, privacy, 900, Streams(0, "known")) for each in (chosen, printed))
    assert private.query.families.block == (3 + 2) * 12
    assert private.query.families.row() == whole.query.families.row()
    assert private.certificate(chosen.name).verdict == "holds"
    assert chosen.covered_by is None
    bonus = chosen.bonus(mdp, private, 900)
    nested = isinstance(chosen, PrivateUCBPOConfig)
    ours = bonus.q if nested else bonus
    e1, e2 = chosen.precision_bounds(private)
    assert ours.per_count == pytest.approx(0.01 * (3.0 * e1 + 4 * (3 * e2 + 2.0 * e1)))
    ranked = np.random.default_rng(0).normal(30.0, 20.0, size=(4, 3 + 2, 12))
    full, other = of_all_states(ranked.ravel(), ours.successors, 6), ranked.copy()
    other[:, :3][ours.successors < 0] = 1e6
    every = ours._replace(successors=ALL_STATES)
    given = ((ranked, bonus), (other, bonus), (full, bonus._replace(q=every) if nested else every))
    found = []
    for values, numbers in given:
        tables = chosen.tables(mdp, 900)
        chosen.plan(Released(values.ravel(), 899, 1), numbers, tables)
        found.append(tables)
    for tables in found[1:]:
        np.testing.assert_allclose(tables.policy, found[0].policy, atol=1e-12)
        np.testing.assert_allclose(tables.optimistic, found[0].optimistic, atol=1e-12)


@pytest.mark.parametrize("spec", [RiverSwim(n_states=4, horizon=6), DeepSea(size=5, deterministic=False)])
def test_without_noise_known_transitions_change_no_episode(spec: RiverSwim | DeepSea) -> None:
    """E = 0 gives the same bonus and therefore the same run. In DeepSea, each step has other successors."""
    mdp, episodes, found = spec.build(), 400, []
    for known in (False, True):
        config = PrivateUCBVIConfig(bonus_scale=0.1, known_transitions=known)
        learner = config.build(
            mdp, config.privatizer(mdp, CountPrivacy("none"), episodes, Streams(1, "x")), episodes, Streams(1, "x")
        )
        found.append([learner.learn(100).metrics["regret"] for _ in range(4)])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)


def _planned(game: MarkovGame, values: np.ndarray, e: float, successors: np.ndarray) -> _NashTables:
    tables, bonus = _NashTables.first(game), _NashBonus(e, 0.01, 0.1, 0.3)
    DPNashVIConfig.plan(Released(values.ravel(), 1, 1), _NashPlanner.of(game, bonus, successors), tables)
    return tables


def _same(one: _NashTables, other: _NashTables) -> None:
    for name in ("policy", "optimistic", "pessimistic", "infeasible"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=1e-12)


def test_plans_of_games_are_those_of_all_counts() -> None:
    """If all states may follow, with noise and E; otherwise for integer counts and E = 0, without smoothing."""
    generator, game = np.random.default_rng(0), RandomGame(4, 2, 3, horizon=3).build()
    counts = generator.normal(30.0, 40.0, size=(3, 4 + 1, 24))
    counts[:, -1] = counts[:, :-1].sum(axis=1) + generator.normal(0.0, 30.0, size=(3, 24))
    _same(_planned(game, counts, 80.0, game.joint.successors()), _planned(game, counts, 80.0, ALL_STATES))
    game = Soccer(n_rows=2, n_columns=2, horizon=2).build()
    successors = game.joint.successors()
    width, pairs = successors.shape[1:]
    visited = generator.poisson(5.0, size=(2, width, pairs)) * (successors >= 0)
    counts = np.concatenate([visited, visited.sum(axis=1, keepdims=True)], axis=1).astype(np.float64)
    each = np.repeat(successors, 2, axis=0)
    _same(
        _planned(game, counts, 0.0, successors),
        _planned(game, of_all_states(counts, each, game.n_states), 0.0, ALL_STATES),
    )
    noisy = counts + generator.normal(0.0, 3.0, size=counts.shape)
    other = noisy.copy()
    other[:, :width][each < 0] = 1e6
    _same(_planned(game, noisy, 20.0, successors), _planned(game, other, 20.0, successors))


@pytest.mark.parametrize("simulation", ["users", "blocks"])
def test_a_game_counts_possible_transitions_alone(simulation: Simulation) -> None:
    game = Soccer(n_rows=2, n_columns=2, horizon=3).build()
    config = DPNashVIConfig(known_transitions=True, replan_growth=0.1, simulation=simulation)
    assert config.covered_by is None
    private = config.privatizer(game, CountPrivacy("jdp", 1.0, 1e-6), 300, Streams(2, "game"))
    certificate = private.certificate(config.name)
    assert certificate.verdict == "holds"
    assert "the possible next states are public" in str(certificate.to_dict()["assumption"])
    assert config.build(game, private, 300, Streams(2, "game")).theorem is None
    exact = config.privatizer(game, CountPrivacy("none"), 300, Streams(2, "game"))
    config.build(game, exact, 300, Streams(2, "game")).learn(300)
    ranks = exact.release()
    successors = np.repeat(game.joint.successors(), 3, axis=0)
    counts = ranks.values.reshape(3, successors.shape[1] + 1, -1)
    assert (counts[:, :-1][successors < 0] == 0.0).all()
    assert counts[:, :-1].sum(axis=1).tolist() == counts[:, -1].tolist()
    assert counts[:, -1].sum(axis=1).tolist() == [ranks.users] * 3


def test_constants_are_not_proved_for_possible_transitions() -> None:
    with pytest.raises(ValueError, match="constants must be given with known_transitions: true, got 'proved'; "):
        DPUCBVIConfig(known_transitions=True, constants="proved")


def test_all_transitions_of_taxi_are_too_many() -> None:
    few = GymnasiumTable("Taxi-v3", horizon=2).build()
    message = r"env must have at most 1,000,000 counts a step with bernstein_vi, got 1,512,018 of 501 states; take "
    with pytest.raises(ValueError, match=message):
        BernsteinVIConfig(stationary=True).privatizer(few, CountPrivacy("none"), 100, Streams(0, "taxi"))


@pytest.mark.slow
def test_taxi_is_learned_privately() -> None:
    mdp, privacy = (
        GymnasiumTable("Taxi-v3", horizon=20).build(),
        CountPrivacy("jdp", 10.0, 1e-6, families="one_hot", counter="auto"),
    )
    config, episodes = BernsteinVIConfig(preset="tuned", stationary=True, known_transitions=True), 200_000
    privatizer = config.privatizer(mdp, privacy, episodes, Streams(0, "taxi"))
    certificate = privatizer.certificate(config.name)
    assert certificate.verdict == "holds"
    assert "the possible next states are public" in str(certificate.to_dict()["assumption"])
    learner = config.build(mdp, privatizer, episodes, Streams(0, "taxi"))
    first, *_, last = (learner.learn(episodes // 10).metrics["regret"] for _ in range(10))
    assert last < 0.3 * first


def test_blocks_leave_no_user_in_a_rank_without_a_state() -> None:
    """If rounding makes a row's sum differ from 1, NumPy assigns the remainder to the last category."""
    rows = np.array(
        [
            [0.0, 1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0],
            [0.0, 0.7, 0.1, 0.2],
            [0.0, 1.0, 0.0, 0.0],
            [0.0, 0.3, 0.7 - 9e-10, 0.0],
        ]
    )
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
