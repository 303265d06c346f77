"""Cells of cooperating agents, run or with tables made by hand, and the examples of docs/policies.md."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dprl.envs import NetworkMDP
from dprl.platform.configs.experiment import Experiment, read_experiment
from dprl.platform.results.cell_folder import CellFolder
from dprl.platform.sweeps.cell import CellRun

TEAM_ENV = NetworkMDP(dimension=3, signs="random", horizon=4)


def mixed_table(env: NetworkMDP = TEAM_ENV) -> NDArray[np.float64]:
    """Return a policy [H, S, n, A] that differs between agents and gives every action a positive probability."""
    mdp = env.build()
    shape = (mdp.horizon, mdp.n_states, mdp.n_agents)
    return np.random.default_rng(0).dirichlet(np.full(mdp.n_actions, 0.5), size=shape)


def team_experiment(env: NetworkMDP = TEAM_ENV, seeds: int = 2) -> Experiment:
    """Return a cell of few episodes; its seeds are 5, 6, ..."""
    plain = {
        "name": "team",
        "algorithm": {"name": "ma_ldp"},
        "env": {"name": "network_mdp"},
        "privacy": {"model": "ldp", "epsilon": 10.0},
        "episodes": 12,
        "seeds": seeds,
        "seed": 5,
    }
    return dataclasses.replace(read_experiment(plain), env=env)


def run_team_cell(folder: Path) -> Path:
    """Run a cell of agents."""
    folder.mkdir(parents=True, exist_ok=True)
    run = CellRun(team_experiment(), CellFolder(folder))
    while not run.advance(1.0).finished:
        pass
    return folder


def team_cell(folder: Path, tables: NDArray[np.generic], env: NetworkMDP = TEAM_ENV) -> Path:
    """Write the policy files of a finished cell, one table per seed."""
    written = CellFolder(folder)
    written.experiment_file.write_text(team_experiment(env, len(tables)).to_yaml())
    np.savez(written.policy_file, seed=np.arange(len(tables)) + 5, policy=tables)
    return folder


def team_blocks(root: Path, folder: Path) -> list[str]:
    """Return the page's examples on agents, with `folder` in place of their folder."""
    text = (root / "docs" / "policies.md").read_text().partition("# Policies of cooperating agents")[2]
    blocks = re.findall(r"```python\n(.*?)```", text.partition("# Policies of control tasks")[0], re.DOTALL)
    return [re.sub(r'"dprl_runs/[^"]*"', repr(str(folder)), block) for block in blocks]
