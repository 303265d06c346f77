"""Markov games: valid arrays, exact values by hand, enumeration and linear programs, and the compiled duality gap."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray
from scipy.optimize import linprog

from dprl.envs import Garnet, RandomMDP, RiverSwim
from dprl.envs.games import MarkovGame, Soccer
from dprl.envs.games.dynamics import GapTables, duality_gap

# A MarkovGame is valid and immutable, and its exact values are right by hand, enumeration and linear programs.

Floats = NDArray[np.float64]

PENNIES = np.array([[1.0, 0.0], [0.0, 1.0]])


def one_shot(payoff: Floats) -> MarkovGame:
    """Return the game of one step and one state."""
    return MarkovGame("one_shot", np.ones((1, 1, *payoff.shape, 1)), payoff[None, None], np.ones(1))


def random_game(seed: int, horizon: int = 3, n_states: int = 3, n_max: int = 3, n_min: int = 2) -> MarkovGame:
    """Dense: no probability and no reward is 0, so that nothing drops out of a comparison."""
    rng = np.random.default_rng(seed)
    shape = (horizon, n_states, n_max, n_min)
    transitions = rng.dirichlet(np.ones(n_states), size=shape)
    return MarkovGame("dense", transitions, rng.random(shape), rng.dirichlet(np.ones(n_states)))


def random_policy(rng: np.random.Generator, game: MarkovGame, n_actions: int) -> Floats:
    return rng.dirichlet(np.ones(n_actions), size=(game.horizon, game.n_states))


def product(max_player: Floats, min_player: Floats) -> Floats:
    return np.asarray(max_player[..., :, None] * min_player[..., None, :])


def pure_policies(game: MarkovGame, n_actions: int) -> list[Floats]:
    shape = (game.horizon, game.n_states)
    choices = itertools.product(range(n_actions), repeat=game.horizon * game.n_states)
    return [np.eye(n_actions)[np.array(choice).reshape(shape)] for choice in choices]


def matrix_value(payoff: Floats) -> float:
    """Return the value of a matrix game by linear programming: max v with mu @ payoff >= v."""
    n_max, n_min = payoff.shape
    solution = linprog(
        np.r_[np.zeros(n_max), -1.0],
        A_ub=np.c_[-payoff.T, np.ones(n_min)],
        b_ub=np.zeros(n_min),
        A_eq=np.r_[np.ones(n_max), 0.0][None],
        b_eq=[1.0],
        bounds=[(0.0, None)] * n_max + [(None, None)],
    )
    return float(-solution.fun)


def nash_by_programming(game: MarkovGame) -> Floats:
    values = np.zeros((game.horizon + 1, game.n_states))
    for h in reversed(range(game.horizon)):
        payoffs = game.rewards[h] + game.transitions[h] @ values[h + 1]
        values[h] = [matrix_value(payoff) for payoff in payoffs]
    return values


def test_ties_go_to_the_lowest_action() -> None:
    game = one_shot(np.full((3, 4), 0.5))
    assert game.best_response_to_min(np.eye(4)[:1][None])[1][0, 0] == 0
    assert game.best_response_to_max(np.eye(3)[:1][None])[1][0, 0] == 0


@pytest.mark.parametrize("seed", range(30))
def test_nash_values_are_those_of_linear_programs(seed: int) -> None:
    game = random_game(seed, n_max=2 + seed % 3, n_min=2 + seed // 3 % 3)
    values, max_player, min_player = game.nash()
    np.testing.assert_allclose(values, nash_by_programming(game), atol=1e-9)
    np.testing.assert_allclose(game.value(product(max_player, min_player)), values, atol=1e-9)
    assert abs(game.exploitability(max_player, min_player)) < 1e-9


@pytest.mark.parametrize("mdp", [RiverSwim().build(), RandomMDP(seed=4).build(), Garnet(seed=5).build()])
def test_one_action_of_the_min_player_is_an_mdp_bit_for_bit(mdp: Any) -> None:
    game = MarkovGame.from_mdp(mdp)
    assert (game.name, game.n_max_actions, game.n_min_actions) == (mdp.name, mdp.n_actions, 1)
    optimum, actions = mdp.optimum()
    nobody = np.ones((mdp.horizon, mdp.n_states, 1))
    response, taken = game.best_response_to_min(nobody)
    np.testing.assert_array_equal(response, optimum)
    np.testing.assert_array_equal(taken, actions)
    np.testing.assert_array_equal(game.nash()[0], optimum)
    policy = random_policy(np.random.default_rng(0), game, mdp.n_actions)
    np.testing.assert_allclose(game.best_response_to_max(policy)[0], mdp.value(policy), atol=1e-12)
    np.testing.assert_array_equal(game.value(policy[..., None]), mdp.value(policy))
    expected = float(mdp.start @ (optimum[0] - mdp.value(policy)[0]))
    assert game.exploitability(policy, nobody) == pytest.approx(expected, abs=1e-12)


def test_a_correlated_policy_has_its_own_value_and_its_marginals_have_another() -> None:
    game = one_shot(PENNIES)
    together = np.array([[0.5, 0.0], [0.0, 0.5]])[None, None]
    max_player, min_player = game.marginals(together)
    np.testing.assert_array_equal(max_player, [[[0.5, 0.5]]])
    np.testing.assert_array_equal(min_player, [[[0.5, 0.5]]])
    assert game.value(together)[0, 0] == 1.0
    assert game.value(product(max_player, min_player))[0, 0] == 0.5
    assert game.exploitability(max_player, min_player) == 0.0


@pytest.mark.parametrize("seed", range(3))
def test_best_responses_are_the_best_of_all_pure_policies(seed: int) -> None:
    game, rng = random_game(seed, horizon=2, n_states=2, n_max=3, n_min=2), np.random.default_rng(seed)
    max_player, min_player = random_policy(rng, game, 3), random_policy(rng, game, 2)
    upper = np.max([game.value(product(pure, min_player)) for pure in pure_policies(game, 3)], axis=0)
    lower = np.min([game.value(product(max_player, pure)) for pure in pure_policies(game, 2)], axis=0)
    np.testing.assert_allclose(game.best_response_to_min(min_player)[0], upper, atol=1e-12)
    np.testing.assert_allclose(game.best_response_to_max(max_player)[0], lower, atol=1e-12)


def test_the_joint_mdp_numbers_pairs_row_by_row() -> None:
    game = random_game(2)
    assert game.joint.n_actions == 6
    for a, b in itertools.product(range(3), range(2)):
        np.testing.assert_array_equal(game.joint.rewards[:, :, 2 * a + b], game.rewards[:, :, a, b])
        np.testing.assert_array_equal(game.joint.transitions[:, :, 2 * a + b], game.transitions[:, :, a, b])
    assert np.shares_memory(game.joint.transitions, game.transitions)


def parts() -> dict[str, Any]:
    game = random_game(0)
    return {"name": "test"} | {key: getattr(game, key).copy() for key in ("transitions", "rewards", "start")}


def changed(key: str, value: float) -> dict[str, Any]:
    arguments = parts()
    arguments[key].flat[0] = value
    return arguments


BAD_GAMES = [
    (parts() | {"rewards": np.zeros((3, 3, 3))}, "rewards must be a non-empty array of 4 dimensions"),
    (parts() | {"rewards": np.zeros((3, 3, 0, 2))}, "rewards must be a non-empty array of 4 dimensions"),
    (parts() | {"rewards": "many"}, "rewards must be an array of numbers, got str"),
    (parts() | {"rewards": np.zeros((3, 3, 2, 3))}, "transitions must have shape [H, S, A, B, S] = (3, 3, 2, 3, 3)"),
    (parts() | {"transitions": np.ones((3, 3, 3, 2))}, "transitions must be a non-empty array of 5 dimensions"),
    (parts() | {"start": np.array([0.5, 0.5])}, "start must have shape [S] = (3,)"),
    (changed("rewards", 1.5), "rewards must lie in [0, 1], got 1.5"),
    (changed("rewards", np.nan), "rewards must be finite"),
    (changed("transitions", -0.5), "transitions must hold probabilities >= 0, got -0.5"),
    (changed("transitions", 1.0), "transitions must sum to 1 over the last axis"),
    (changed("start", 2.0), "start must sum to 1 over the last axis"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD_GAMES, ids=[message for _, message in BAD_GAMES])
def test_bad_arrays_are_refused_in_one_line(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the whole line is checked below
        MarkovGame(**arguments)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)
    assert "; " in str(error.value), "the remedy is missing"


UNIFORM = np.full((3, 3, 3, 2), 1 / 6)
BAD_POLICIES = [
    ("value", (np.full((3, 3, 6), 1 / 6),), "policy must be a non-empty array of 4 dimensions"),
    ("value", (UNIFORM.swapaxes(2, 3),), "policy must have shape (3, 3, 3, 2), got (3, 3, 2, 3)"),
    ("value", (UNIFORM / 2,), "policy must sum to 1 over the last axis, got a sum of 0.5"),
    ("marginals", (-UNIFORM,), "policy must hold probabilities >= 0"),
    ("best_response_to_min", (np.full((3, 3, 3), 1 / 3),), "min_player must have shape (3, 3, 2), got (3, 3, 3)"),
    ("best_response_to_max", (np.full((3, 3, 2), 0.5),), "max_player must have shape (3, 3, 3), got (3, 3, 2)"),
    ("best_response_to_max", (np.full((3, 3, 3), np.inf),), "max_player must be finite"),
    ("exploitability", (np.full((3, 3, 3), 1 / 3), np.ones((3, 3, 2))), "min_player must sum to 1 over the last axis"),
]


@pytest.mark.parametrize(("method", "arguments", "message"), BAD_POLICIES)
def test_bad_policies_are_refused_in_one_line(method: str, arguments: tuple[Floats, ...], message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011
        getattr(random_game(0), method)(*arguments)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)
    assert "; " in str(error.value), "the remedy is missing"


def test_steps_that_are_alike_are_stored_once() -> None:
    once = Soccer(n_rows=2, n_columns=3, horizon=4).build()
    each = MarkovGame("each", once.transitions.copy(), once.rewards, once.start)
    assert (once.joint.layers, each.joint.layers) == (1, 4)
    assert once.gap_tables().transitions.shape[0] == pickle.loads(pickle.dumps(once)).joint.layers == 1
    players = once.nash()[1:]
    for found, expected in zip(once.nash(), each.nash(), strict=True):
        np.testing.assert_array_equal(found, expected)
    responses = (game.best_response_to_min(players[1]) for game in (once, each))
    assert len({tuple(np.concatenate([part.ravel() for part in found])) for found in responses}) == 1
    assert once.exploitability(*players) == each.exploitability(*players)
    policy, gaps, few = np.random.default_rng(0).dirichlet(np.ones(25), size=(4, once.n_states)), [], once.gap_tables()
    assert few.transitions.shape == few.after.shape == (1, 3, 25 * once.n_states)
    every = np.moveaxis(once.transitions[:1], -1, 1).reshape(1, once.n_states, -1)
    for tables in (few, each.gap_tables(), few._replace(transitions=every.copy(), after=few.after[:0])):
        duality_gap(tables, policy)
        gaps.append((tables.upper.tolist(), tables.lower.tolist()))
    assert gaps[0] == gaps[1] == gaps[2]


# The compiled duality gap is that of MarkovGame, bit for bit, from Python, from compiled code, or uncompiled.

SIZES = [(1, 1, 1, 1), (1, 4, 2, 3), (2, 1, 3, 2), (3, 2, 2, 2), (5, 5, 3, 3), (4, 6, 4, 3), (3, 3, 1, 4), (3, 7, 9, 8)]


def random_pairs(seed: int, game: MarkovGame) -> Floats:
    """Return a policy [H, S, A*B]."""
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(game.joint.n_actions), size=game.joint.rewards.shape[:2])


def responses(game: MarkovGame, policy: Floats) -> tuple[Floats, Floats]:
    max_player, min_player = game.marginals(policy.reshape(game.rewards.shape))
    return game.best_response_to_min(min_player)[0][0], game.best_response_to_max(max_player)[0][0]


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_both_values_are_those_of_the_best_responses(size: tuple[int, int, int, int]) -> None:
    game = random_game(sum(size), *size)
    tables = game.gap_tables()
    for seed in range(3):  # the same working memory: nothing may be left over
        policy = random_pairs(seed, game)
        duality_gap(tables, policy)
        upper, lower = responses(game, policy)
        np.testing.assert_allclose(tables.upper, upper, rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(tables.lower, lower, rtol=1e-13, atol=1e-13)
        max_player, min_player = game.marginals(policy.reshape(game.rewards.shape))
        gap = game.start @ (tables.upper - tables.lower)
        assert game.exploitability(max_player, min_player) == pytest.approx(gap, abs=1e-12)


def test_an_mdp_has_its_optimum_above_and_the_policy_below() -> None:
    mdp = RandomMDP(seed=3).build()
    game = MarkovGame.from_mdp(mdp)
    policy, tables = np.eye(mdp.n_actions)[mdp.optimum()[1]], game.gap_tables()
    duality_gap(tables, policy)
    np.testing.assert_array_equal(tables.upper, mdp.optimum()[0][0])
    np.testing.assert_array_equal(tables.lower, mdp.optimum()[0][0])  # so the regret of the optimum is exactly 0


@pytest.mark.parametrize("options", [{}, {"_nrt": False}], ids=["counting", "no_alloc_kernel"])
def test_it_compiles_into_other_kernels(options: dict[str, Any]) -> None:
    @njit(error_model="numpy", **options)
    def total_regret(tables: GapTables, policies: Floats) -> float:
        total = 0.0
        for k in range(policies.shape[0]):
            duality_gap(tables, policies[k])
            total += tables.upper[0] - tables.lower[0]
        return total

    game = random_game(1, 3, 4, 3, 2)
    policies = np.array([random_pairs(seed, game) for seed in range(4)])
    expected = 0.0
    for policy in policies:
        upper, lower = responses(game, policy)
        expected += float(upper[0] - lower[0])
    assert total_regret(game.gap_tables(), policies) == pytest.approx(expected, rel=1e-12)
