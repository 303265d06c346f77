"""Cells of MDPs, games and cooperating agents, run or with tables made by hand, and examples of docs/policies.md."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dprl.envs import EnvConfig, FiniteMDP, LinearMixtureMDP, MarkovGame, NetworkMDP
from dprl.platform.configs.experiment import Experiment, read_experiment
from dprl.platform.results.cell_folder import CellFolder
from dprl.platform.sweeps.cell import CellRun

ALGORITHMS: dict[type, dict[str, Any]] = {
    FiniteMDP: {"name": "private_ucb_vi", "bonus_scale": 0.1},
    MarkovGame: {"name": "dp_nash_vi", "bonus_scale": 0.01},
    LinearMixtureMDP: {"name": "ma_ldp"},
}
TEAM_ENV = NetworkMDP(dimension=3, signs="random", horizon=4)


def mixed_table(env: NetworkMDP = TEAM_ENV) -> NDArray[np.float64]:
    """Return a policy [H, S, n, A] that differs between agents and gives every action a positive probability."""
    mdp = env.build()
    shape = (mdp.horizon, mdp.n_states, mdp.n_agents)
    return np.random.default_rng(0).dirichlet(np.full(mdp.n_actions, 0.5), size=shape)


def experiment(env: EnvConfig[Any], seeds: int = 2) -> Experiment:
    """Return a small cell of the environment; its seeds are 5, 6, ..."""
    plain = {
        "name": "small",
        "algorithm": next(chosen for kind, chosen in ALGORITHMS.items() if issubclass(env.builds, kind)),
        "env": {"name": env.name},
        "privacy": {"model": "none"},
        "episodes": 200,
        "seeds": seeds,
        "seed": 5,
    }
    return dataclasses.replace(read_experiment(plain), env=env)


def ran(folder: Path, env: EnvConfig[Any]) -> Path:
    """Run a cell to its end."""
    folder.mkdir(parents=True, exist_ok=True)
    run = CellRun(experiment(env), CellFolder(folder))
    while not run.advance(1.0).finished:
        pass
    return folder


def written(folder: Path, tables: NDArray[np.generic], env: EnvConfig[Any]) -> Path:
    """Write the policy files of a finished cell, one table per seed."""
    folder.mkdir(parents=True, exist_ok=True)
    cell = CellFolder(folder)
    cell.experiment_file.write_text(experiment(env, len(tables)).to_yaml())
    np.savez(cell.policy_file, seed=np.arange(len(tables)) + 5, policy=tables)
    return folder


def team_blocks(root: Path, folder: Path) -> list[str]:
    """Return the page's examples on agents, with `folder` in place of their folder."""
    text = (root / "docs" / "policies.md").read_text().partition("# Policies of cooperating agents")[2]
    blocks = re.findall(r"```python\n(.*?)```", text.partition("# Policies of control tasks")[0], re.DOTALL)
    return [re.sub(r'"dprl_runs/[^"]*"', repr(str(folder)), block) for block in blocks]
