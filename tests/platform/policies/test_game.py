"""Policies of games: probabilities of pairs and players, exact values, the environment, errors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dprl.envs import GAMES, MarkovGame, MarkovGameEnv, RandomGame, make_game
from dprl.platform.policies import GamePolicy, load_policy
from tests.platform.policies.cases import ran, written

ENV = RandomGame(n_states=2, n_max_actions=2, n_min_actions=3, horizon=3)
GAME = ENV.build()


def correlated(game: MarkovGame = GAME) -> NDArray[np.float64]:
    """Return a joint policy that is not the product of its marginals; all pairs have positive probability."""
    shape = game.rewards.shape
    n_pairs = shape[2] * shape[3]
    table = np.random.default_rng(0).dirichlet(np.full(n_pairs, 0.5), size=shape[:2])
    mixed: NDArray[np.float64] = 0.5 * table + 0.5 / n_pairs
    return mixed.reshape(shape)


def load(path: Path, seed: int | None = None, generator: np.random.Generator | None = None) -> GamePolicy:
    policy = load_policy(path, seed, generator)
    assert isinstance(policy, GamePolicy)
    return policy


def test_a_real_run_is_loaded_seed_by_seed(fixed_draws: None, tmp_path: Path) -> None:
    ran(tmp_path, ENV)
    with np.load(tmp_path / "policy.npz") as arrays:
        saved = {key: arrays[key] for key in arrays.files}
    for path, seed, row in ((tmp_path, None, 0), (tmp_path, 6, 1), (tmp_path / "policy.npz", 5, 0)):
        policy = load(path, seed)
        np.testing.assert_array_equal(policy.table, saved["policy"][row])
        np.testing.assert_array_equal(policy.max_player.table, saved["max_player"][row])
        np.testing.assert_array_equal(policy.min_player.table, saved["min_player"][row])
        assert policy.env == ENV
        assert policy.exploitability == GAME.exploitability(saved["max_player"][row], saved["min_player"][row])
    assert not np.array_equal(*saved["policy"])


def test_pairs_and_players_are_drawn_with_their_probabilities() -> None:
    """5 standard errors for 6 + 2 + 3 shares at three places: a false alarm in about 50,000 seeds."""
    policy, draws = GamePolicy(correlated(), ENV, np.random.default_rng(1)), 4000
    max_player, min_player = GAME.marginals(policy.table)
    farthest = 0.0
    for place in ((0, 0), (1, 1), (2, 0)):
        pairs = np.zeros((2, 3))
        alone = np.zeros(2), np.zeros(3)
        for _ in range(draws):
            pairs[policy(place)] += 1 / draws
            alone[0][policy.max_player(place)] += 1 / draws
            alone[1][policy.min_player(place)] += 1 / draws
        chances = (policy.table[place], max_player[place], min_player[place])
        for found, expected in zip((pairs, *alone), chances, strict=True):
            assert np.all(np.abs(found - expected) < 5 * np.sqrt(expected * (1 - expected) / draws))
        product = np.outer(max_player[place], min_player[place])
        farthest = max(farthest, np.abs(pairs - product).max())
        np.testing.assert_array_equal(policy.max_player.probabilities(place), max_player[place])
    # No standard error is above 0.008; players drawn independently would show.
    assert farthest > 0.08


def test_values_are_the_games_own() -> None:
    values, max_player, min_player = GAME.nash()
    nash = GamePolicy(max_player[..., :, None] * min_player[..., None, :], ENV)
    assert nash.start_value == pytest.approx(GAME.start @ values[0], abs=1e-12)
    assert nash.exploitability == pytest.approx(0.0, abs=1e-12)
    policy = GamePolicy(correlated(), ENV)
    assert policy.start_value == GAME.joint.start_value(policy.table.reshape(GAME.joint.rewards.shape))
    assert policy.exploitability > 0.1


@pytest.mark.parametrize("name", GAMES)
def test_the_policy_plays_in_the_environment_of_its_run(tmp_path: Path, name: str) -> None:
    fields: dict[str, Any] = {"n_rows": 2, "n_columns": 3} if name == "soccer" else {}
    env = GAMES[name](**fields)
    policy = load(written(tmp_path, correlated(env.build())[None], env))
    episodes = policy.make_env()
    assert isinstance(episodes, MarkovGameEnv)
    again = make_game(**policy.env_config).game
    np.testing.assert_array_equal(again.transitions, episodes.game.transitions)
    np.testing.assert_array_equal(again.rewards, episodes.game.rewards)
    observations, _ = episodes.reset(seed=0)
    while episodes.agents:
        actions = dict(zip(episodes.agents, policy(observations["max_player"]), strict=True))
        observations, *_ = episodes.step(actions)
    assert observations["max_player"][0] == policy.game.horizon


def test_the_guides_lines_of_plain_numpy_play_a_game(root: Path, tmp_path: Path) -> None:
    env = GAMES["rock_paper_scissors"]()
    folder = ran(tmp_path, env)
    (block,) = re.findall(
        r"## With NumPy alone\n.*?```python\n(.*?)```", (root / "docs" / "policies.md").read_text(), re.DOTALL
    )
    assert "dprl." not in block
    found = re.sub(r'"dprl_runs/[^"]*"', repr(str(folder / "policy.npz")), block)
    names: dict[str, Any] = {"played": []}
    exec(found + "    played.append((step, state, a, b, total))\n", names)  # code from the project's own page
    # In this game every transition is certain.
    game, state, total = env.build(), 0, 0.0
    for step, after, a, b, so_far in names["played"]:
        total += game.rewards[step, state, a, b]
        state = int(game.transitions[step, state, a, b].argmax())
        assert (after, so_far) == (state, total)
    assert len(names["played"]) == game.horizon
