"""Logged trajectories of users of a control task from a file, with or without a simulator."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from numpy.typing import NDArray

from dprl.envs.base import Env
from dprl.envs.checks import require_integers, require_number
from dprl.envs.control import Control, ControlTask, Episodes, Space, from_space

_LARGEST = 1e30  # numbers below it stay finite as float32, and rewards in sums
_ARRAYS = {"observations": "f", "actions": "iuf", "rewards": "f", "lengths": "iu"}


@dataclass(frozen=True, eq=False)
class LoggedControl:
    """Trajectories of N users, one each. The log is private; its number of users is public.

    name: the registry name of the spec that built it. task: the simulator, or spaces alone, without an entry point.
    observations float32[sum T, o], actions int64[sum T] or float32[sum T, k], rewards float64[sum T]: the steps of all
    users, one user after another, with actions as a policy chooses them. ends int64[N]: the step after a user's last
    one. returns: the least and the largest sum of rewards, public bounds.
    """

    kind: ClassVar[str] = "log of a control task"
    holds_records: ClassVar[bool] = True

    name: str
    task: ControlTask
    observations: NDArray[np.float32] = field(repr=False)
    actions: NDArray[Any] = field(repr=False)
    rewards: NDArray[np.float64] = field(repr=False)
    ends: NDArray[np.int64] = field(repr=False)
    returns: tuple[float, float] = (0.0, 0.0)

    @property
    def horizon(self) -> int:
        """The number of steps of the longest possible trajectory."""
        return self.task.horizon

    @property
    def n_users(self) -> int:
        """N, the number of logged users."""
        return int(self.ends.size)

    def episodes(self, users: NDArray[np.int64]) -> Episodes:
        """Return the trajectories of users (int64[m], from 1 on), padded; `ended` is false."""
        lengths = np.diff(self.ends, prepend=0)[users - 1]
        rows = [np.arange(self.ends[user - 1] - n, self.ends[user - 1]) for user, n in zip(users, lengths, strict=True)]

        def padded(steps: NDArray[Any]) -> NDArray[Any]:
            found = np.zeros((users.size, self.horizon, *steps.shape[1:]), dtype=steps.dtype)
            for i, row in enumerate(rows):  # a user's row holds nothing of others, not even times 0
                found[i, : row.size] = steps[row]
            return found

        ended = np.zeros(users.size, dtype=np.bool_)
        return Episodes(padded(self.observations), padded(self.actions), padded(self.rewards), lengths, ended)


@dataclass(frozen=True)
class ControlLog:
    """Logged trajectories of users of a control task, from a file that `dprl.log_trajectories` writes.

    Args:
        file: .npz. env_id, kwargs: the simulator, as in `control`; its spaces are those of the log, and policies are
            evaluated in it. horizon: steps of the longest trajectory, a public fact.
        observation_size, n_actions, action_size: instead of a simulator, the size of observations, and the number of
            discrete actions or the size of continuous ones; public facts, not computed from the records.
        lowest_return, highest_return: public bounds of the sum of rewards, for `sharpness` of `dp_bc`.
    """

    name: ClassVar[str] = "control_log"
    builds: ClassVar[type[Env]] = LoggedControl

    file: str = "trajectories.npz"
    env_id: str = ""
    horizon: int = 200
    kwargs: str = ""
    observation_size: int = 0
    n_actions: int = 0
    action_size: int = 0
    lowest_return: float = 0.0
    highest_return: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.file, str) or not self.file:
            raise ValueError(f"file must be a path, got {self.file!r}; write e.g. file: trajectories.npz")
        require_integers(self, horizon=1, observation_size=0, n_actions=0, action_size=0)
        for key in ("lowest_return", "highest_return"):
            require_number(key, getattr(self, key), -1e300)
        sizes = self.observation_size, self.n_actions, self.action_size
        if any(sizes) and self.env_id:
            raise ValueError(f"env_id must be left out with sizes, got {self.env_id!r}; sizes are for logs without it")
        if not self.env_id and (not self.observation_size or bool(self.n_actions) == bool(self.action_size)):
            rule = "env_id must be set, or observation_size and either n_actions or action_size"
            raise ValueError(f"{rule}, got {sizes}; name the simulator or the sizes")
        self.task  # noqa: B018 - refuses an unknown simulator

    @property
    def task(self) -> ControlTask:
        """The task, of a simulator or of stated spaces alone."""
        if self.env_id:
            return Control(self.env_id, self.horizon, self.kwargs).build()
        observed = spaces.Box(-np.inf, np.inf, (self.observation_size,))
        taken: Space = spaces.Box(-np.inf, np.inf, (self.action_size,))
        if self.n_actions:
            taken = spaces.Discrete(self.n_actions)
        return ControlTask(self.name, EnvSpec("log-v0"), {}, self.horizon, observed, taken)

    def build(self) -> LoggedControl:
        """Read the file. Raises ValueError if it is invalid; the message contains no value of a user's record."""
        task = self.task
        if not Path(self.file).is_file():
            raise ValueError(f"file must be an .npz of trajectories, got no file {self.file!r}; give its absolute path")
        try:
            with np.load(self.file, allow_pickle=False) as loaded:
                found = {key: np.asarray(loaded[key]) for key in _ARRAYS}
        except (OSError, ValueError, KeyError, EOFError, TypeError, MemoryError, zipfile.BadZipFile, zlib.error):
            rule = "file must be an undamaged .npz of log_trajectories"
            raise ValueError(f"{rule}, got {self.file!r}; write it again") from None
        observations, actions, rewards, lengths = found.values()
        total = int(lengths.sum()) if lengths.dtype.kind in "iu" and lengths.ndim == 1 else -1
        shapes = {
            "observations": (total, task.observation_size),
            "actions": (total,) if task.n_actions else (total, task.action_size),
            "rewards": (total,),
        }
        for key, shape in shapes.items():
            if found[key].shape != shape or found[key].dtype.kind not in _ARRAYS[key]:
                rule = f"must be numbers, {' x '.join(map(str, ('steps', *shape[1:])))}, got others"
                raise self._wrong(key, rule, "write the file with log_trajectories and the same sizes")
        if lengths.size == 0 or lengths.min() < 1 or lengths.max() > task.horizon:
            raise self._wrong("lengths", f"must be in 1..{task.horizon}, got another", "raise horizon")
        whole = not task.n_actions or actions.dtype.kind in "iu"
        with np.errstate(all="ignore"):  # a warning would tell of a value
            chosen = actions.astype(np.int64) if task.n_actions else from_space(task.taken, actions)
            steps = observations.astype(np.float32), chosen, rewards.astype(np.float64)
        whole = whole and (not task.n_actions or bool(chosen.min() >= 0 and chosen.max() < task.n_actions))
        if not (whole and all((np.abs(each) < _LARGEST).all() for each in steps)):
            rule = "must be finite numbers, and actions in 0..n_actions - 1, got another"
            raise self._wrong("steps", rule, "correct it")
        returns = float(self.lowest_return), float(self.highest_return)
        return LoggedControl(self.name, task, *steps, np.cumsum(lengths, dtype=np.int64), returns)

    def _wrong(self, key: str, rule: str, remedy: str) -> ValueError:
        return ValueError(f"file {self.file!r}: {key} {rule} (values are not shown); {remedy}")


def log_trajectories(episodes: Iterable[Any], file: str | Path, **settings: Any) -> ControlLog:  # noqa: ANN401
    """Write trajectories of real users to a file, one each, and return the `env` of an experiment with `dp_bc`.

    A trajectory of n steps has `observations` [n, ...] or [n + 1, ...], `actions` [n] or [n, ...] and `rewards` [n], as
    attributes (an episode of Minari) or as keys. Steps after `horizon`, which is required, are left out.

    file: .npz. settings: the others of `control_log`.

    Raises ValueError for invalid input, before anything is written; the message contains no value of a user's record.
    """
    file = Path(file)
    if file.suffix != ".npz" or not file.parent.is_dir():
        raise ValueError(f"file must be an .npz in a folder that exists, got {str(file)!r}; write e.g. users.npz")
    if "horizon" not in settings:
        rule = "horizon must be given"
        raise ValueError(f"{rule}, got none; longer trajectories are cut: name the largest number of steps")
    spec = ControlLog(str(file), **settings)
    task = spec.task
    first = getattr(task.taken, "start", 0)
    rows: list[list[NDArray[Any]]] = []
    for each in episodes:
        row = []
        for key in ("observations", "actions", "rewards"):
            given = each.get(key) if isinstance(each, Mapping) else getattr(each, key, None)
            try:
                with np.errstate(all="ignore"):
                    array = np.asarray(given)
                    row.append(task.flat(array) if key == "observations" else array)
            except (TypeError, ValueError, IndexError):
                row.append(np.zeros(0))
        seen, taken, paid = row
        n, size, k = len(paid) if paid.ndim else 0, task.observation_size, task.action_size
        for key, fits, rule in (
            ("rewards", paid.shape == (n,) and n > 0 and paid.dtype.kind in "iuf", "one number a step, at least one"),
            ("actions", taken.size == n * max(k, 1) and taken.dtype.kind in "iuf", f"{max(k, 1)} numbers a step"),
            ("observations", seen.ndim == 2 and len(seen) in (n, n + 1) and seen.shape[1] == size,
             f"{size} numbers a step, at most one step more than rewards"),
        ):  # fmt: skip
            if not fits:
                raise ValueError(f"{key} of each episode must be {rule}, got others; name and convert them so")
        n = min(n, task.horizon)
        with np.errstate(all="ignore"):
            taken = taken.reshape(-1)[:n] - first if task.n_actions else taken.reshape(-1, k)[:n].astype(np.float32)
        rows.append([seen[:n], taken, paid[:n].astype(np.float64)])
    if not rows:
        raise ValueError("episodes must hold at least one, got none; log them first")
    arrays = dict(zip(_ARRAYS, map(np.concatenate, zip(*rows, strict=True)), strict=False))
    arrays["lengths"] = np.array([len(row[2]) for row in rows], dtype=np.int64)
    with TemporaryDirectory(dir=file.parent) as folder:  # a full disk must not destroy an existing file
        written = Path(folder, file.name)
        np.savez(written, **arrays)  # type: ignore[arg-type]
        ControlLog(str(written), **settings).build()
        written.chmod(0o600)
        written.replace(file)
    return spec
