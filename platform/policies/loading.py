"""Policies read from the folder of a finished cell."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dprl.atomic_files import read_arrays
from dprl.envs import CartPoleGravity, Control, Env, FiniteMDP, LinearMixtureMDP, MarkovGame
from dprl.platform.configs.experiment import Experiment
from dprl.platform.errors import UserError
from dprl.platform.policies.actor_critic import ActorCriticPolicy
from dprl.platform.policies.control import ControlPolicy
from dprl.platform.policies.game import GamePolicy
from dprl.platform.policies.tabular import TabularPolicy
from dprl.platform.policies.team import TeamPolicy
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
    by default its first. generator: see TabularPolicy. Raises UserError.
    """
    folder = _cell_folder(Path(path))
    table = _table(folder.policy_file, seed)
    experiment = _experiment(folder)
    env, drawn = experiment.env, generator or np.random.default_rng()
    if isinstance(env, Control):
        algorithm: Any = experiment.algorithm
        return _checked(folder, lambda: ControlPolicy(table, env, drawn, algorithm.network(env.build())))
    if env.builds not in POLICIES:
        raise UserError(
            f"{folder.policy_file}: must be a cell with a simulated environment, got {env.name}, a "
            f"{env.builds.kind}; read the table 'policy' with numpy.load"
        )
    return _checked(folder, lambda: POLICIES[env.builds](table, env, drawn))


def _checked(folder: CellFolder, build: Callable[[], Policy]) -> Policy:
    """Return the result of `build`. Raises UserError for a table that does not fit."""
    try:
        return build()
    except ValueError as error:
        raise UserError(f"{folder.policy_file}: {error}") from None


def _cell_folder(path: Path) -> CellFolder:
    folder = CellFolder(path.parent if path.is_file() else path)
    file = path if path.is_file() else folder.policy_file
    if file.name != folder.policy_file.name or not file.is_file():
        raise UserError(
            f"{path}: must be the folder of a finished cell or the policy.npz in it, got no policy.npz; "
            "finish the run, or name a folder in <sweep>/cells"
        )
    return folder


def _table(file: Path, seed: int | None) -> NDArray[Any]:
    """Return the table of the run with this seed. Raises UserError."""
    try:
        arrays = read_arrays(file)
        seeds, tables = arrays["seed"].tolist(), arrays["policy"]
        policies = dict(zip(seeds, tables, strict=True))
    except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile) as error:
        raise UserError(
            f"{file}: must hold the policies that a run wrote, one per seed, got a file without them "
            f"({type(error).__name__}); run the experiment beside it again"
        ) from None
    chosen = seeds[0] if seed is None and seeds else seed
    if chosen not in policies:
        raise UserError(f"seed: must be one of {', '.join(map(str, seeds))}, got {chosen}; those are in {file}")
    table: NDArray[Any] = policies[chosen]
    return table


def _experiment(folder: CellFolder) -> Experiment:
    """Return the experiment of the cell. Raises UserError."""
    file = folder.experiment_file
    if not file.is_file():
        raise UserError(f"{file}: must lie beside policy.npz, got no such file; copy the whole folder of the cell")
    return folder.experiment()
