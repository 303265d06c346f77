"""Policies as plain callables: actions, the environment, and errors with remedies."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from dprl.envs import MDPS, RiverSwim
from dprl.platform.errors import UserError
from dprl.platform.policies import TabularPolicy, load_policy
from dprl.platform.results.cell_folder import CellFolder
from tests.platform.policies.cases import ran, written

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
