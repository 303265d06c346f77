"""Logged episodes of users from a file, without a simulator."""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from dprl.envs.base import Env
from dprl.envs.checks import require_flag, require_integers, require_size

__all__ = ["Logged", "LoggedEpisodes", "log_episodes"]

_ARRAYS = {"states": "iu", "actions": "iu", "rewards": "f"}
_DTYPES = {"iu": "integers", "f": "floats"}


@dataclass(frozen=True, eq=False)
class LoggedEpisodes:
    """Episodes of N users, one per row. Their environment is unknown: there is no exact value or regret.

    name: the registry name of the spec that built it. states: int64 [N, H + 1], all rows from the state `start`;
    actions: int64 [N, H]; rewards: float64 [N, H] in [0, 1]. stationary: whether the environment is known to be the
    same at every step.
    """

    kind: ClassVar[str] = "file of logged episodes"

    name: str
    n_states: int
    n_actions: int
    stationary: bool
    start: int
    states: NDArray[np.int64] = field(repr=False)
    actions: NDArray[np.int64] = field(repr=False)
    rewards: NDArray[np.float64] = field(repr=False)

    @property
    def horizon(self) -> int:
        """H, the number of steps of an episode."""
        return int(self.actions.shape[1])

    @property
    def n_users(self) -> int:
        """N, the number of logged users."""
        return int(self.actions.shape[0])


@dataclass(frozen=True)
class Logged:
    """Logged episodes of real users, from a file.

    The file is an .npz with `states` (integers [N, H + 1]), `actions` (integers [N, H]) and `rewards` (floats [N, H]
    in [0, 1]), one row per user. Shorter episodes are padded with an absorbing state of reward 0.

    Args:
        file: path of the file. n_states, n_actions: S and A; they are public and not computed from the records.
            horizon: H. stationary: the environment is known to be the same at every step. start: first state of every
            episode; it is public.
    """

    name: ClassVar[str] = "logged"
    builds: ClassVar[type[Env]] = LoggedEpisodes

    file: str = "episodes.npz"
    n_states: int = 6
    n_actions: int = 2
    horizon: int = 20
    stationary: bool = False
    start: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.file, str) or not self.file:
            raise ValueError(f"file must be a path, got {self.file!r}; write e.g. file: episodes.npz")
        require_integers(self, n_states=1, n_actions=1, horizon=1, start=0)
        require_flag("stationary", self.stationary)
        if self.start >= self.n_states:
            raise ValueError(f"start must be below n_states = {self.n_states}, got {self.start}; states count from 0")
        require_size(self.name, self.sizes, "horizon, n_states or n_actions")

    @property
    def sizes(self) -> tuple[int, int, int]:
        """H, S, and the number of actions."""
        return self.horizon, self.n_states, self.n_actions

    def build(self) -> LoggedEpisodes:
        """Read the file. Raises ValueError if it is invalid; the message contains no value of a user's record."""
        return self.checked(self._arrays())

    def checked(self, found: Mapping[str, NDArray[Any]]) -> LoggedEpisodes:
        """Return the arrays of a file as episodes. Raises ValueError as `build` does."""
        steps = {"states": self.horizon + 1, "actions": self.horizon, "rewards": self.horizon}
        n_users = len(found["states"]) if found["states"].ndim else 0
        for key, array in found.items():
            if array.dtype.kind not in _ARRAYS[key]:
                raise self._wrong(key, f"must hold {_DTYPES[_ARRAYS[key]]}, got {array.dtype}", "convert it")
            if array.shape != (n_users, steps[key]) or n_users == 0:
                rule = f"must have shape [N, {steps[key]}] with the N >= 1 rows of states, got {list(array.shape)}"
                raise self._wrong(key, rule, "pad short episodes with an absorbing state, or set horizon")
        states, actions, rewards = found["states"], found["actions"], found["rewards"]
        self._check("states", (states >= 0) & (states < self.n_states), f"must be in 0..{self.n_states - 1}")
        self._check("actions", (actions >= 0) & (actions < self.n_actions), f"must be in 0..{self.n_actions - 1}")
        self._check("rewards", (rewards >= 0.0) & (rewards <= 1.0), "must be a number in [0, 1]")
        self._check("states", states[:, :1] == self.start, f"must be the first state {self.start}")
        arrays = (
            np.array(states, dtype=np.int64, order="C"),
            np.array(actions, dtype=np.int64, order="C"),
            np.array(rewards, dtype=np.float64, order="C"),
        )
        for array in arrays:
            array.setflags(write=False)
        return LoggedEpisodes(self.name, self.n_states, self.n_actions, self.stationary, self.start, *arrays)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of the file; raise ValueError if they cannot be read."""
        path = Path(self.file)
        if not path.is_file():
            raise ValueError(f"file must be an .npz of episodes, got no file {self.file!r}; give its absolute path")
        try:
            loaded = np.load(path, allow_pickle=False)
            if not isinstance(loaded, np.lib.npyio.NpzFile):
                raise TypeError
            with loaded:
                missing = [key for key in _ARRAYS if key not in loaded.files]
                if not missing:
                    return {key: np.asarray(loaded[key]) for key in _ARRAYS}
        except (OSError, ValueError, EOFError, TypeError, MemoryError, zipfile.BadZipFile, zlib.error):
            raise ValueError(
                f"file must be an undamaged .npz of numbers, no Python objects, got {self.file!r}; convert its arrays "
                "with astype, and write them with numpy.savez"
            ) from None
        others = ", ".join(key for key in _ARRAYS if key != missing[0])
        raise self._wrong(missing[0], f"must be there beside {others}", "add it")

    def _check(self, key: str, fits: NDArray[np.bool_], rule: str) -> None:
        if not fits.all():
            at = [int(number) for number in np.argwhere(~fits)[0]]
            remedy = "correct it"
            if key == "rewards":
                remedy += ", or map rewards with the reward_range of log_episodes"
            raise self._wrong(f"{key}{at}", f"{rule}, got another value (not shown: it is a user's)", remedy)

    def _wrong(self, key: str, rule: str, remedy: str) -> ValueError:
        return ValueError(f"file {self.file!r}: {key} {rule}; {remedy}")


class _RecordedEpisode(Protocol):
    """One user's episode of n steps, as Minari and other collectors have it.

    observations: integers [n] or [n + 1]; actions: integers [n]; rewards: numbers [n].
    """

    observations: Any
    actions: Any
    rewards: Any


def log_episodes(
    episodes: Iterable[_RecordedEpisode | Mapping[str, Any]],
    file: str | Path,
    *,
    reward_range: tuple[float, float] = (0.0, 1.0),
    start: int | None = None,
    **settings: Any,  # noqa: ANN401
) -> Logged:
    """Write episodes of real users to a file, one per user, and return the `env` of an experiment with `logged_vi`.

    An episode has integers `observations` and `actions` and numbers `rewards`, as attributes or as keys.

    Episodes that end before `horizon` go on in a state n_states with a reward of 0; longer ones are cut. Rewards are
    mapped from `reward_range`, which is public, to [0, 1].

    Args:
        start: first state of all users, which is public; None: they differ, and a first step leads from a state
            n_states + 1 to them.
        settings: n_states and n_actions of the observations and actions, which count from 0; horizon; stationary.

    Raises ValueError for invalid input, before anything is written; the message contains no value of a user's record.
    """
    made, low, high = _checked_log(Path(file), reward_range, settings)
    file = Path(file)
    n_states, horizon, first = made.n_states, made.horizon, 0 if start is not None else 1
    if start is not None and not 0 <= start < n_states:
        raise ValueError(f"start must be in 0..{n_states - 1}, got {start}; leave it out if first states differ")
    users = list(episodes)
    states = np.full((len(users), horizon + first + 1), n_states, dtype=np.int64)
    actions = np.zeros((len(users), horizon + first), dtype=np.int64)
    rewards = np.zeros((len(users), horizon + first))
    if first:
        states[:, 0] = n_states + 1
    for user, episode in enumerate(users):
        observed, taken, paid = _arrays_of(episode, n_states)
        length = min(len(taken), horizon)
        states[user, first : first + length] = observed[:length]
        if length == horizon and len(observed) > horizon:
            states[user, -1] = observed[horizon]
        actions[user, first : first + length] = taken[:length]
        rewards[user, first : first + length] = paid[:length]
    rewards[:, first:] = (rewards[:, first:] - low) / (high - low)
    begin = n_states + 1 if start is None else start
    made = replace(made, n_states=n_states + 1 + first, horizon=horizon + first, start=begin)
    arrays = {"states": states, "actions": actions, "rewards": rewards}
    made.checked(arrays)
    with TemporaryDirectory(dir=file.parent) as folder:  # a full disk must not destroy an existing file
        written = Path(folder, file.name)
        np.savez(written, **arrays)  # type: ignore[arg-type]
        written.chmod(0o600)
        written.replace(file)
    return made


def _checked_log(
    file: Path, reward_range: tuple[float, float], settings: Mapping[str, Any]
) -> tuple[Logged, float, float]:
    """Return the settings of a log and the ends of its rewards. Raises ValueError."""
    low, high = reward_range
    if not math.isfinite(high - low):
        raise ValueError(f"reward_range must be finite, got {reward_range}; give the least and the largest reward")
    if not low <= 0.0 <= high or low == high:
        raise ValueError(f"reward_range must hold 0, the reward after the end, got {reward_range}; widen it")
    if file.suffix != ".npz":
        raise ValueError(f"file must end in .npz, got {str(file)!r}; write e.g. episodes.npz")
    if not file.parent.is_dir():
        raise ValueError(f"file must lie in a folder that exists, got {str(file)!r}; make the folder")
    keys = ("n_states", "n_actions", "horizon", "stationary")
    wrong = [*(key for key in settings if key not in keys), *(key for key in keys[:3] if key not in settings)]
    if wrong:
        raise ValueError(f"settings must be n_states, n_actions, horizon, and stationary or not; check {wrong[0]!r}")
    made = Logged(str(file), **settings)
    return made, low, high


def _arrays_of(
    episode: _RecordedEpisode | Mapping[str, Any], n_states: int
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return observations, actions and rewards of an episode. Raises ValueError if they are invalid."""
    names = "actions", "observations", "rewards"
    try:
        raw = [episode[name] if isinstance(episode, Mapping) else getattr(episode, name) for name in names]
    except (KeyError, AttributeError):
        raise ValueError(f"episodes must have {', '.join(names)}, as attributes or as keys; name them so") from None
    try:
        taken, observed, paid = (np.asarray(each) for each in raw)
    except ValueError:
        taken = observed = paid = np.zeros(0, dtype=object)
    if taken.dtype.kind not in "iu" or observed.dtype.kind not in "iu" or taken.ndim != 1 or observed.ndim != 1:
        raise ValueError(
            "observations and actions must be one integer a step, got others; number the states of a small "
            "discrete space"
        )
    if paid.dtype.kind not in "iuf" or paid.ndim != 1:
        raise ValueError("rewards must be one number a step, got others; convert them")
    if len(observed) not in (len(taken), len(taken) + 1) or len(paid) != len(taken):
        raise ValueError("episodes must have an observation and a reward for each action, got others; check them")
    if observed.size and not 0 <= observed.min() <= observed.max() < n_states:
        raise ValueError(f"observations must be in 0..{n_states - 1}, got another value; raise n_states")
    return observed, taken, paid
