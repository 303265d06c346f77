"""Cells of cooperating agents made by hand, and what the guide says of them."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.typing import NDArray

from dprl.envs import NetworkMDP
from dprl.platform.policies import loading
from dprl.platform.sweeps.cell_folder import CellFolder

TEAM_ENV = NetworkMDP(dimension=3, signs="random", horizon=4)


def mixed_table(env: NetworkMDP = TEAM_ENV) -> NDArray[np.float64]:
    """Return a policy [H, S, n, A] in which every agent has another one, and every action a chance."""
    mdp = env.build()
    shape = (mdp.horizon, mdp.n_states, mdp.n_agents)
    return np.random.default_rng(0).dirichlet(np.full(mdp.n_actions, 0.5), size=shape)


def team_cell(
    folder: Path, tables: NDArray[np.generic], monkeypatch: pytest.MonkeyPatch, env: NetworkMDP = TEAM_ENV
) -> Path:
    """Write what a finished cell leaves for its policies, one table a seed; its config is read as one on `env`."""
    # The class needs no algorithm: a cell is what its file and its environment are.
    monkeypatch.setattr(loading, "_experiment", lambda _: SimpleNamespace(env=env))
    np.savez(CellFolder(folder).policy_file, seed=np.arange(len(tables)) + 5, policy=tables)
    return folder


def team_blocks(root: Path, folder: Path) -> list[str]:
    """Return the guide's examples on agents, with `folder` in place of the one that they name."""
    text = (root / "docs" / "policies.md").read_text().partition("# Policies of cooperating agents")[2]
    blocks = re.findall(r"```python\n(.*?)```", text.partition("# Policies of control tasks")[0], re.DOTALL)
    return [re.sub(r'"dprl_runs/[^"]*"', repr(str(folder)), block) for block in blocks]
