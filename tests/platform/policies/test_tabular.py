"""Policies as plain callables: actions, the environment, and errors with remedies."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from dprl.envs import MDPS, EnvConfig, FiniteMDP, RiverSwim
from dprl.platform.configs.experiment import Experiment, read_experiment
from dprl.platform.errors import UserError
from dprl.platform.policies import TabularPolicy, load_policy
from dprl.platform.results.cell_folder import CellFolder
from dprl.platform.sweeps.cell import CellRun

ENV = RiverSwim(n_states=4, horizon=6)


def experiment(env: EnvConfig[FiniteMDP] = ENV, seeds: int = 2) -> Experiment:
    plain = {
        "name": "small",
        "algorithm": {"name": "private_ucb_vi", "bonus_scale": 0.1},
        "env": {"name": "riverswim", "n_states": 4, "horizon": 6},
        "privacy": {"model": "jdp", "epsilon": 1.0},
        "episodes": 200,
        "seeds": seeds,
        "seed": 5,
    }
    return dataclasses.replace(read_experiment(plain), env=env)


def write_cell(folder: Path, tables: NDArray[np.generic], env: EnvConfig[FiniteMDP] = ENV) -> Path:
    """Write the policy files of a finished cell, one table per seed."""
    folder.mkdir(parents=True, exist_ok=True)
    written = CellFolder(folder)
    written.experiment_file.write_text(experiment(env, len(tables)).to_yaml())
    np.savez(written.policy_file, seed=np.arange(len(tables)) + 5, policy=tables)
    return folder


def load(path: Path, seed: int | None = None, generator: np.random.Generator | None = None) -> TabularPolicy:
    policy = load_policy(path, seed, generator)
    assert isinstance(policy, TabularPolicy)
    return policy


def stochastic_table() -> NDArray[np.float64]:
    return np.random.default_rng(0).dirichlet((1.0, 1.0), size=(6, 4))


def test_a_real_run_is_loaded_seed_by_seed(tmp_path: Path) -> None:
    run = CellRun(experiment(), CellFolder(tmp_path))
    while not run.advance(1.0).finished:
        pass
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
    policy = load(write_cell(tmp_path, best[None], env))
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
    write_cell(tmp_path, table[None])
    draws = 4000
    policy = load(tmp_path, generator=np.random.default_rng(1))
    for place in ((0, 0), (3, 2), (5, 3)):
        assert policy.probabilities(place).tolist() == table[place].tolist()
        share = np.mean([policy(place) for _ in range(draws)])
        # Five standard errors at three places: a false alarm in 600,000 seeds.
        assert abs(share - table[place][1]) < 5 * np.sqrt(table[place].prod() / draws)


def test_the_same_generator_draws_the_same_actions(tmp_path: Path) -> None:
    write_cell(tmp_path, stochastic_table()[None])
    policies = [load(tmp_path, generator=np.random.default_rng(seed)) for seed in (3, 3, 4)]
    first, second, other = ([policy((2, 1)) for _ in range(50)] for policy in policies)
    assert first == second != other


@pytest.mark.parametrize("observation", [(6, 0), (-1, 0), (0, 4), (0,), (0.0, 1.0), 3, (0, 1, 0)])
def test_what_is_no_place_to_act_is_refused(observation: object) -> None:
    policy = TabularPolicy(np.ones((6, 4), dtype=np.int64), ENV)
    with pytest.raises(ValueError, match=r"^observation must be"):
        policy(observation)  # type: ignore[arg-type]


def test_the_table_cannot_be_changed() -> None:
    table = np.ones((6, 4), dtype=np.int64)
    policy = TabularPolicy(table, ENV)
    table[:] = 0
    assert policy((0, 0)) == 1
    with pytest.raises(ValueError, match="read-only"):
        policy.table[0, 0] = 0


@pytest.mark.parametrize(
    "table", [np.full((6, 4), 2), np.ones((5, 4), dtype=np.int64), np.ones((6, 4)), np.full((6, 4, 2), 0.6)]
)
def test_a_table_of_another_environment_is_refused(tmp_path: Path, table: NDArray[np.generic]) -> None:
    with pytest.raises(ValueError, match=r"^policy"):
        TabularPolicy(table, ENV)
    with pytest.raises(UserError, match=r"policy\.npz: policy"):
        load_policy(write_cell(tmp_path, table[None]))


def test_a_seed_that_did_not_run_is_refused(tmp_path: Path) -> None:
    write_cell(tmp_path, np.ones((2, 6, 4), dtype=np.int64))
    with pytest.raises(UserError, match=r"^seed: must be one of 5, 6, got 0"):
        load_policy(tmp_path, seed=0)


def test_a_folder_without_a_policy_is_refused(tmp_path: Path) -> None:
    write_cell(tmp_path / "cell", np.ones((1, 6, 4), dtype=np.int64))
    for path in (tmp_path, tmp_path / "missing", tmp_path / "cell" / "experiment.yaml"):
        with pytest.raises(UserError, match="must be the folder of a finished cell"):
            load_policy(path)


def test_a_broken_or_lonely_file_is_refused(tmp_path: Path) -> None:
    write_cell(tmp_path, np.ones((1, 6, 4), dtype=np.int64))
    file = CellFolder(tmp_path).policy_file
    for content in (b"", b"no arrays", file.read_bytes()[:100]):
        file.write_bytes(content)
        with pytest.raises(UserError, match="must hold the policies that a run wrote, one per seed"):
            load_policy(tmp_path)
    np.savez(file, policy=np.ones((1, 6, 4)))
    with pytest.raises(UserError, match="must hold the policies that a run wrote, one per seed"):
        load_policy(tmp_path)
    write_cell(tmp_path, np.ones((1, 6, 4), dtype=np.int64))
    CellFolder(tmp_path).experiment_file.unlink()
    with pytest.raises(UserError, match=r"must lie beside policy\.npz"):
        load_policy(tmp_path)


@pytest.mark.slow
def test_commands_and_callables_start_without_torch_and_rllib() -> None:
    program = (
        "import sys, dprl.platform.policies, dprl.platform.command_line, dprl.platform.commands\n"
        "import dprl.platform.sweeps.sweep, dprl.platform.sweeps.cluster, dprl.platform.tracking.tracker\n"
        "print(sorted({'torch', 'ray.rllib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")
