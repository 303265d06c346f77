"""Policies with tables of MDPs, games and agents: loading, draws, the environment, and errors with remedies."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dprl.envs import MDPS, RandomGame, RiverSwim
from dprl.platform.errors import UserError
from dprl.platform.policies import GamePolicy, TabularPolicy, TeamPolicy, load_policy
from dprl.platform.results.cell_folder import CellFolder
from tests.platform.policies.cases import TEAM_ENV, mixed_table, ran, written

ENV = RiverSwim(n_states=4, horizon=6)


def load(path: Path, seed: int | None = None, generator: np.random.Generator | None = None) -> TabularPolicy:
    policy = load_policy(path, seed, generator)
    assert isinstance(policy, TabularPolicy)
    return policy


def stochastic_table() -> NDArray[np.float64]:
    return np.random.default_rng(0).dirichlet((1.0, 1.0), size=(6, 4))


def test_a_real_run_is_loaded_seed_by_seed(tmp_path: Path) -> None:
    ran(tmp_path, ENV)
    with np.load(tmp_path / "policy.npz") as arrays:
        tables = arrays["policy"]
    first, second = tables
    for path, seed, table in ((tmp_path, None, first), (tmp_path, 6, second), (tmp_path / "policy.npz", 5, first)):
        policy = load(path, seed)
        assert np.array_equal(policy.table, table)
        assert [[policy((h, s)) for s in range(4)] for h in range(6)] == table.tolist()
        assert policy.start_value == ENV.build().start_value(table)


@pytest.mark.parametrize("name", MDPS)
def test_the_policy_acts_in_the_environment_of_its_run(tmp_path: Path, name: str) -> None:
    env = MDPS[name]()
    mdp = env.build()
    best = mdp.optimum()[1]
    policy = load(written(tmp_path, best[None], env))
    episodes = policy.make_env()
    (observation, _), total, expected = episodes.reset(seed=0), 0.0, 0.0
    for step in range(mdp.horizon):
        action = policy(observation)
        assert action == best[tuple(observation)]
        expected += mdp.rewards[(*observation, action)]
        observation, reward, terminated, _, _ = episodes.step(action)
        total += float(reward)
        assert terminated == (step == mdp.horizon - 1)
    assert total == expected
    assert policy.start_value == mdp.optimal_start_value()


def test_a_deterministic_policy_is_certain() -> None:
    policy = TabularPolicy(np.ones((6, 4), dtype=np.int64), ENV)
    assert policy.deterministic
    assert policy.probabilities(np.array([2, 3])).tolist() == [0.0, 1.0]


def test_a_stochastic_policy_draws_with_its_probabilities(tmp_path: Path) -> None:
    table = stochastic_table()
    written(tmp_path, table[None], ENV)
    draws = 4000
    policy = load(tmp_path, generator=np.random.default_rng(1))
    for place in ((0, 0), (3, 2), (5, 3)):
        assert policy.probabilities(place).tolist() == table[place].tolist()
        share = np.mean([policy(place) for _ in range(draws)])
        # Five standard errors at three places: a false alarm in 600,000 seeds.
        assert abs(share - table[place][1]) < 5 * np.sqrt(table[place].prod() / draws)


def test_a_seed_that_did_not_run_is_refused(tmp_path: Path) -> None:
    written(tmp_path, np.ones((2, 6, 4), dtype=np.int64), ENV)
    with pytest.raises(UserError, match=r"^seed: must be one of 5, 6, got 0"):
        load_policy(tmp_path, seed=0)


def test_a_folder_without_a_policy_is_refused(tmp_path: Path) -> None:
    written(tmp_path / "cell", np.ones((1, 6, 4), dtype=np.int64), ENV)
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(UserError, match="must be the folder of a finished cell"):
            load_policy(path)


def test_a_broken_or_lonely_file_is_refused(tmp_path: Path) -> None:
    written(tmp_path, np.ones((1, 6, 4), dtype=np.int64), ENV)
    file = CellFolder(tmp_path).policy_file
    for content in (b"", b"no arrays", file.read_bytes()[:100]):
        file.write_bytes(content)
        with pytest.raises(UserError, match="must hold the policies that a run wrote, one per seed"):
            load_policy(tmp_path)
    np.savez(file, policy=np.ones((1, 6, 4)))
    with pytest.raises(UserError, match="must hold the policies that a run wrote, one per seed"):
        load_policy(tmp_path)
    written(tmp_path, np.ones((1, 6, 4), dtype=np.int64), ENV)
    CellFolder(tmp_path).experiment_file.unlink()
    with pytest.raises(UserError, match=r"must be the folder of a finished cell, got 'no experiment\.yaml'"):
        load_policy(tmp_path)


def test_callables_need_neither_torch_nor_ray() -> None:
    code = "import sys; import dprl.platform.policies; print('torch' in sys.modules, 'ray' in sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


# Policies with tables of MDPs, games and agents: loading, draws, and refusals.


GAME = RandomGame(n_states=2, n_max_actions=2, n_min_actions=3, horizon=3)
CHANCES = np.random.default_rng(0)
KINDS: dict[str, tuple[Any, Any, np.ndarray]] = {
    "MDP": (TabularPolicy, ENV, CHANCES.dirichlet((1.0, 1.0), size=(6, 4))),
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
def test_the_same_generator_draws_the_same_actions(kind: str, tmp_path: Path) -> None:
    of, env, table = KINDS[kind]
    written(tmp_path, table[None], env)
    policies = [load_policy(tmp_path, generator=np.random.default_rng(seed)) for seed in (3, 3, 4)]
    assert {type(policy) for policy in policies} == {of}
    assert len(repr(policies[0])) < 500
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
