"""Policies read from the folder of a finished cell."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dprl.atomic_files import read_arrays
from dprl.envs import CartPoleGravity, Control, ControlLog, Env, FiniteMDP, LinearMixtureMDP, MarkovGame
from dprl.platform.errors import UserError, broken_rule
from dprl.platform.policies.networks import ActorCriticPolicy, ControlPolicy
from dprl.platform.policies.tabular import GamePolicy, TabularPolicy, TeamPolicy
from dprl.platform.results.cell_folder import CellFolder

Policy = TabularPolicy | GamePolicy | TeamPolicy | ActorCriticPolicy | ControlPolicy
POLICIES: dict[type[Env], Callable[..., Policy]] = {
    FiniteMDP: TabularPolicy,
    MarkovGame: GamePolicy,
    LinearMixtureMDP: TeamPolicy,
    CartPoleGravity: ActorCriticPolicy,
}
"""Policy class for the table 'policy' of a run, by the class of its environment."""


def load_policy(path: str | Path, seed: int | None = None, generator: np.random.Generator | None = None) -> Policy:
    """Return the policy of one seed of a finished cell.

    The class depends on the environment: TabularPolicy (finite MDP), GamePolicy (Markov game), TeamPolicy (linear
    mixture MDP), ActorCriticPolicy (CartPole with gravity) or ControlPolicy (any Gymnasium environment).

    path: the cell's folder, or the policy.npz in it; experiment.yaml beside it names the environment. seed: of the run,
    by default its first. generator: draws actions, by default a new one. Raises UserError.
    """
    folder = CellFolder(Path(path).parent if Path(path).is_file() else Path(path))
    for file in (folder.policy_file, folder.experiment_file):
        if not file.is_file():
            remedy = "finish the run, or name a folder in <sweep>/cells, with all its files"
            raise broken_rule(str(path), "must be the folder of a finished cell", f"no {file.name}", remedy)
    try:
        arrays = read_arrays(folder.policy_file)
        policies = dict(zip(arrays["seed"].tolist(), arrays["policy"], strict=True))
    except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile) as error:
        rule = "must hold the policies that a run wrote, one per seed"
        raise broken_rule(str(folder.policy_file), rule, error, "run the experiment beside it again") from None
    chosen = next(iter(policies), None) if seed is None else seed
    if chosen not in policies:
        rule = f"seed: must be one of {', '.join(map(str, policies))}"
        raise UserError(f"{rule}, got {chosen}; those are in {folder.policy_file}")
    table, experiment = np.asarray(policies[chosen]), folder.experiment()
    env, drawn = experiment.env, generator or np.random.default_rng()
    try:
        if isinstance(env, Control | ControlLog):
            algorithm: Any = experiment.algorithm
            task = env.task if isinstance(env, ControlLog) else env.build()
            return ControlPolicy(table, env, drawn, algorithm.network(task))
        plays = experiment.algorithm.plays
        if plays in POLICIES:
            return POLICIES[plays](table, env, drawn)
    except ValueError as error:
        raise UserError(f"{folder.policy_file}: {error}") from None
    rule = f"{folder.policy_file}: must be a cell with a simulated environment"
    raise UserError(f"{rule}, got {env.name}, a {env.builds.kind}; read the table 'policy' with numpy.load")
