"""Policies with tables of MDPs, games and agents: loading, draws, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dprl.envs import RandomGame, RiverSwim
from dprl.platform.errors import UserError
from dprl.platform.policies import GamePolicy, TabularPolicy, TeamPolicy, load_policy
from tests.platform.policies.cases import TEAM_ENV, mixed_table, written

RIVER = RiverSwim(n_states=4, horizon=6)
GAME = RandomGame(n_states=2, n_max_actions=2, n_min_actions=3, horizon=3)
CHANCES = np.random.default_rng(0)
KINDS: dict[str, tuple[Any, Any, np.ndarray]] = {
    "MDP": (TabularPolicy, RIVER, CHANCES.dirichlet((1.0, 1.0), size=(6, 4))),
    "game": (GamePolicy, GAME, CHANCES.dirichlet(np.ones(6), size=(3, 2)).reshape(3, 2, 2, 3)),
    "team": (TeamPolicy, TEAM_ENV, mixed_table()),
}
EACH = pytest.mark.parametrize("kind", KINDS)


def parts(policy: Any) -> list[Any]:
    """Return everything of a policy that acts."""
    match policy:
        case GamePolicy():
            return [policy, policy.max_player, policy.min_player]
        case TeamPolicy():
            return [policy, policy.agents[1]]
        case _:
            return [policy]


@EACH
def test_tables_are_loaded_seed_by_seed(kind: str, tmp_path: Path) -> None:
    of, env, table = KINDS[kind]
    tables = np.stack([table, np.flip(table, axis=0)])
    written(tmp_path, tables, env)
    for path, seed, row in ((tmp_path, None, 0), (tmp_path, 6, 1), (tmp_path / "policy.npz", 5, 0)):
        policy: Any = load_policy(path, seed)
        assert type(policy) is of
        np.testing.assert_array_equal(policy.table, tables[row])
        assert policy.env == env
        assert len(repr(policy)) < 500


@EACH
def test_the_same_generator_draws_the_same_actions(kind: str, tmp_path: Path) -> None:
    _, env, table = KINDS[kind]
    written(tmp_path, table[None], env)
    policies = [load_policy(tmp_path, generator=np.random.default_rng(seed)) for seed in (3, 3, 4)]
    first, second, other = ([np.array(policy((2, 1))).tolist() for _ in range(50)] for policy in policies)
    assert first == second != other


@EACH
@pytest.mark.parametrize("observation", [(6, 0), (-1, 0), (0, 9), (0,), (0.0, 1.0), 3, (0, 1, 0)])
def test_what_is_no_place_to_act_is_refused(kind: str, observation: Any) -> None:
    of, env, table = KINDS[kind]
    for act in parts(of(table, env)):
        with pytest.raises(ValueError, match=r"^observation must be"):
            act(observation)


@EACH
def test_the_table_cannot_be_changed(kind: str) -> None:
    of, env, table = KINDS[kind]
    given = table.copy()
    policy = of(given, env)
    given[:] = 0
    assert policy.table.tolist() == table.tolist()
    with pytest.raises(ValueError, match="read-only"):
        policy.table[0, 0] = 0


@EACH
def test_a_table_of_another_environment_is_refused(kind: str, tmp_path: Path) -> None:
    of, env, table = KINDS[kind]
    for wrong in (table[:2], table[..., 0], 0.5 * table, -table, np.full(table.shape[:-1], 9)):
        with pytest.raises(ValueError, match=r"^policy"):
            of(wrong, env)
        with pytest.raises(UserError, match=r"policy\.npz: policy") as caught:
            load_policy(written(tmp_path, wrong[None], env))
        assert "\n" not in str(caught.value)
