"""A learned table as a plain callable, read from the folder of a finished cell."""

from __future__ import annotations

import dataclasses
import zipfile
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprl.envs import EnvConfig, FiniteMDP
from dprl.platform.configs.config import load_cells
from dprl.platform.configs.experiment import Experiment
from dprl.platform.errors import UserError
from dprl.platform.sweeps.cell_folder import CellFolder


@dataclass(frozen=True, eq=False)
class TabularPolicy:
    """A policy as a function: `policy(observation)` is an action.

    table: integers [H, S], one action per step and state, or floats [H, S, A], whose rows are probabilities.
    env: the environment that it is for. generator: what actions of a stochastic table are drawn with; by
    default a new one with a seed from the operating system. Raises ValueError if `table` is no policy of `env`.
    """

    table: NDArray[Any]
    env: EnvConfig[FiniteMDP]
    generator: np.random.Generator = field(default_factory=np.random.default_rng)

    def __post_init__(self) -> None:
        table = np.array(self.table)
        self.mdp.value(table)  # says what is wrong with it
        table.setflags(write=False)
        object.__setattr__(self, "table", table)

    def __call__(self, observation: ArrayLike) -> int:
        """Return the action at (steps taken, state), int64 [2]. Raises ValueError for one without an action."""
        step, state = self._place(observation)
        if self.deterministic:
            return int(self.table[step, state])
        return int(self.generator.choice(self.mdp.n_actions, p=self.table[step, state]))

    def probabilities(self, observation: ArrayLike) -> NDArray[np.float64]:
        """Return the probability [A] of each action at (steps taken, state)."""
        step, state = self._place(observation)
        chances: NDArray[np.float64] = self.probability_table[step, state]
        return chances

    @property
    def deterministic(self) -> bool:
        """Whether the table names one action per step and state."""
        return self.table.ndim == 2

    @property
    def probability_table(self) -> NDArray[np.float64]:
        """The probability [H, S, A] of each action at every step and state."""
        if not self.deterministic:
            return self.table.astype(np.float64)
        chances: NDArray[np.float64] = np.eye(self.mdp.n_actions)[self.table]
        return chances

    @cached_property
    def mdp(self) -> FiniteMDP:
        """The environment as arrays."""
        return self.env.build()

    @property
    def start_value(self) -> float:
        """The exact expected return of an episode."""
        return self.mdp.start_value(self.table)

    @property
    def env_id(self) -> str:
        """What `gymnasium.make` knows the environment by; the part before the colon is imported first."""
        return f"dprl.envs:dprl/{type(self.env).__name__}-v0"

    @property
    def env_settings(self) -> dict[str, Any]:
        """The keywords that `gymnasium.make` needs besides."""
        return dataclasses.asdict(self.env)  # type: ignore[call-overload, no-any-return]

    def make_env(self) -> gymnasium.Env[Any, Any]:
        """Make the Gymnasium environment that the policy is for."""
        return gymnasium.make(self.env_id, **self.env_settings)

    def _place(self, observation: ArrayLike) -> tuple[int, int]:
        """Return (steps taken, state); after H steps no action is left to take."""
        place = np.asarray(observation)
        sizes = (self.mdp.horizon, self.mdp.n_states)
        whole = place.shape == (2,) and np.issubdtype(place.dtype, np.integer)
        if not whole or (place < 0).any() or (place >= sizes).any():
            raise ValueError(
                f"observation must be integers (steps taken, state) below {sizes}, got {observation!r}; "
                "pass what the environment returned, and reset it after the last step"
            )
        return int(place[0]), int(place[1])


def load_policy(
    path: str | Path, seed: int | None = None, generator: np.random.Generator | None = None
) -> TabularPolicy:
    """Return the last policy that a finished cell left for one of its seeds.

    path: the cell's folder, or the policy.npz in it; experiment.yaml beside it says what environment it is for.
    seed: of the run, by default its first. generator: see TabularPolicy. Raises UserError.
    """
    folder = _cell_folder(Path(path))
    table = _table(folder.policy_file, seed)
    experiment = _experiment(folder.experiment_file)
    try:
        return TabularPolicy(table, experiment.env, generator or np.random.default_rng())
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
        with np.load(file, allow_pickle=False) as arrays:
            seeds, tables = arrays["seed"].tolist(), arrays["policy"]
            policies = dict(zip(seeds, tables, strict=True))
    except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile) as error:
        raise UserError(
            f"{file}: must hold one policy per seed, got {error}; run the experiment beside it again"
        ) from None
    chosen = seeds[0] if seed is None and seeds else seed
    if chosen not in policies:
        raise UserError(f"seed: must be one of {', '.join(map(str, seeds))}, got {chosen}; those are in {file}")
    table: NDArray[Any] = policies[chosen]
    return table


def _experiment(file: Path) -> Experiment:
    """Return what the cell ran. Raises UserError."""
    if not file.is_file():
        raise UserError(f"{file}: must lie beside policy.npz, got no such file; copy the whole folder of the cell")
    cells = load_cells(file)
    if len(cells) != 1:
        raise UserError(f"{file}: must describe one cell, got {len(cells)}; take the file from the cell's folder")
    return cells[0]
