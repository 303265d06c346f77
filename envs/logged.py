"""Logged episodes of users from a file, without a simulator."""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprl.atomic_files import write_arrays
from dprl.envs.base import Env
from dprl.envs.checks import require_flag, require_integers, require_size

_ARRAYS = {"states": "iu", "actions": "iu", "rewards": "f", "next_states": "iu"}
_OPTIONAL = "next_states"
_FLAGS = "terminations", "truncations"
_OTHER_FLAGS = "terminated", "truncated", "terminals", "timeouts", "dones", "done"
"""Names of flags with another shape or meaning; to ignore them would take an episode that was cut for an ended one."""
_REWARD_ROUNDING = 1e-6  # distance from [0, 1] of a mapped reward that is rounding: ten times that of float32
_DTYPES = {"iu": "integers", "f": "floats"}


@dataclass(frozen=True, eq=False)
class LoggedEpisodes:
    """Episodes of N users, one per row. Their environment is unknown: there is no exact value or regret.

    name: the registry name of the spec that built it. states: int64 [N, H + 1], all rows from the state `start`;
    actions: int64 [N, H]; rewards: float64 [N, H] in [0, 1]; next_states: int64 [N, H]. stationary: whether the
    environment is known to be the same at every step.
    """

    kind: ClassVar[str] = "file of logged episodes"
    holds_records: ClassVar[bool] = True

    name: str
    n_states: int
    n_actions: int
    stationary: bool
    start: int
    states: NDArray[np.int64] = field(repr=False)
    actions: NDArray[np.int64] = field(repr=False)
    rewards: NDArray[np.float64] = field(repr=False)
    next_states: NDArray[np.int64] = field(repr=False)

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
    in [0, 1]), one row per user. Episodes that ended early go on in an absorbing state of reward 0. With `next_states`
    (integers [N, H]) a step need not lead to the state of the next one: `log_episodes` writes a step that was not
    observed as one more visit of the absorbing state.

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
        steps = {"states": self.horizon + 1} | dict.fromkeys(("actions", "rewards", "next_states"), self.horizon)
        n_users = len(found["states"]) if found["states"].ndim else 0
        for key, array in found.items():
            if array.dtype.kind not in _ARRAYS[key]:
                raise self._wrong(key, f"must hold {_DTYPES[_ARRAYS[key]]}, got {array.dtype}", "convert it")
            if array.shape != (n_users, steps[key]) or n_users == 0:
                rule = f"must have shape [N, {steps[key]}] with the N >= 1 rows of states, got {list(array.shape)}"
                raise self._wrong(key, rule, "pad short episodes with an absorbing state, or set horizon")
        states, actions, rewards = found["states"], found["actions"], found["rewards"]
        following = found.get("next_states", states[:, 1:])
        for key, array in (("states", states), ("next_states", following)):
            self._check(key, (array >= 0) & (array < self.n_states), f"must be in 0..{self.n_states - 1}")
        self._check("actions", (actions >= 0) & (actions < self.n_actions), f"must be in 0..{self.n_actions - 1}")
        self._check("rewards", (rewards >= 0.0) & (rewards <= 1.0), "must be a number in [0, 1]")
        self._check("states", states[:, :1] == self.start, f"must be the first state {self.start}")
        kinds = (states, np.int64), (actions, np.int64), (rewards, np.float64), (following, np.int64)
        arrays: list[Any] = [np.array(array, dtype=kind, order="C") for array, kind in kinds]
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
                missing = [key for key in _ARRAYS if key not in (*loaded.files, _OPTIONAL)]
                if not missing:
                    return {key: np.asarray(loaded[key]) for key in _ARRAYS if key in loaded.files}
        except (OSError, ValueError, EOFError, TypeError, MemoryError, zipfile.BadZipFile, zlib.error):
            wrong = f"file must be an undamaged .npz of numbers, no Python objects, got {self.file!r}"
            raise ValueError(f"{wrong}; convert its arrays with astype, and write them with numpy.savez") from None
        others = ", ".join(key for key in _ARRAYS if key not in (missing[0], _OPTIONAL))
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


class _Episode(NamedTuple):
    """Checked arrays of an episode, and whether it ended at its last step; None where the log does not say."""

    observations: NDArray[Any]
    actions: NDArray[Any]
    rewards: NDArray[Any]
    ended: bool | None


def log_episodes(
    episodes: Iterable[Any],
    file: str | Path,
    *,
    n_states: int,
    n_actions: int,
    horizon: int,
    stationary: bool = False,
    start: int | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
) -> Logged:
    """Write episodes of real users to a file, one per user, and return the `env` of an experiment with `logged_vi`.

    An episode of n steps has integers `observations` [n + 1] or [n] and `actions` [n], numbers `rewards` [n] and, if
    possible, flags `terminations` and `truncations` [n], as attributes or as keys. Steps after `horizon` are left out.

    An episode that terminated before `horizon` goes on in a state n_states with a reward of 0, and so does a shorter
    episode without flags. One that was cut before `horizon` (truncated, or not terminated) counts up to the cut; it
    needs the observation after its last step. A step that is not counted is written as a visit of the state n_states.
    With `stationary`, step `horizon` is not counted, because logs do not tell whether an episode ended there. Rewards
    are mapped from `reward_range`, a public fact, to [0, 1]; rounding at its edges is removed.

    Args:
        file: .npz. n_states, n_actions: of the observations and actions, from 0 on. horizon: H. stationary:
            the environment is known to be the same at every step. start: first state of all users, a public fact;
            None: they differ, and a first step leads from a state n_states + 1 to them.

    Raises ValueError for invalid input, before anything is written; the message contains no value of a user's record.
    """
    file, (low, high) = Path(file), reward_range
    if not math.isfinite(high - low):
        raise ValueError(f"reward_range must be finite, got {reward_range}; give the least and the largest reward")
    if not low <= 0.0 <= high or low == high:
        raise ValueError(f"reward_range must hold 0, the reward after the end, got {reward_range}; widen it")
    if file.suffix != ".npz":
        raise ValueError(f"file must end in .npz, got {str(file)!r}; write e.g. episodes.npz")
    if not file.parent.is_dir():
        raise ValueError(f"file must lie in a folder that exists, got {str(file)!r}; make the folder")
    made = Logged(str(file), n_states, n_actions, horizon, stationary)
    if start is not None and not 0 <= start < n_states:
        raise ValueError(f"start must be in 0..{n_states - 1}, got {start}; leave it out if first states differ")
    users = [_checked_episode(each, n_states, horizon) for each in episodes]
    unclear = any(each.ended is None and len(each.actions) < horizon for each in users)
    if unclear and any(each.ended is not None for each in users):
        rule = "episodes must all have terminations, or none of them"
        raise ValueError(f"{rule}, got some with; a shorter one without them may have ended or have been cut: add them")
    # A row is a function of one user's episode and of public settings, never of other users' episodes. Every step
    # begins as a visit of the state after the end, which stays there and earns a raw reward of 0.
    first, end = 0 if start is not None else 1, n_states
    states = np.full((len(users), first + horizon + 1), end, dtype=np.int64)
    following = np.full((len(users), first + horizon), end, dtype=np.int64)
    actions, rewards = np.zeros_like(following), np.zeros(following.shape)
    for user, (observed, taken, paid, ended) in enumerate(users):
        n = min(len(taken), horizon - 1 if stationary and horizon > 1 else horizon)
        states[user, first : first + n] = observed[:n]
        following[user, first : first + n - 1] = observed[1:n]
        stopped = n == len(taken) and ended is not False
        if n < len(observed) and not stopped:
            following[user, first + n - 1] = observed[n]
        actions[user, first : first + n] = taken[:n]
        rewards[user, first : first + n] = paid[:n]
    if first:
        states[:, 0], following[:, 0] = n_states + 1, states[:, 1]
    shares = (rewards[:, first:] - low) / (high - low)
    edges = np.clip(shares, 0.0, 1.0)
    rewards[:, first:] = np.where(np.abs(shares - edges) <= _REWARD_ROUNDING, edges, shares)
    begin = n_states + 1 if start is None else start
    made = replace(made, n_states=n_states + 1 + first, horizon=horizon + first, start=begin)
    arrays = {"states": states, "actions": actions, "rewards": rewards, "next_states": following}
    made.checked(arrays)
    write_arrays(file, arrays, private=True)
    return made


def _checked_episode(episode: Any, n_states: int, horizon: int) -> _Episode:  # noqa: ANN401 - attributes or keys
    """Return the arrays of an episode. Raises ValueError if they are invalid."""
    names = "actions", "observations", "rewards"
    found = {
        name: episode.get(name) if isinstance(episode, Mapping) else getattr(episode, name, None)
        for name in (*names, *_FLAGS, *_OTHER_FLAGS)
    }
    if any(found[name] is None for name in names):
        raise ValueError(f"episodes must have {', '.join(names)}, as attributes or as keys; name them so")
    unknown = [name for name in _OTHER_FLAGS if found[name] is not None]
    if unknown:
        rule = f"episodes must name their flags {' and '.join(_FLAGS)}, got {unknown[0]!r}"
        raise ValueError(f"{rule}; rename it, and do not call an episode that was cut terminated")
    try:
        taken, observed, paid = (np.asarray(found[name]) for name in names)
    except ValueError:
        taken = observed = paid = np.zeros(0, dtype=object)
    if taken.dtype.kind not in "iu" or observed.dtype.kind not in "iu" or taken.ndim != 1 or observed.ndim != 1:
        rule = "observations and actions must be one integer a step"
        raise ValueError(f"{rule}, got others; number the states of a small discrete space")
    if paid.dtype.kind not in "iuf" or paid.ndim != 1:
        raise ValueError("rewards must be one number a step, got others; convert them")
    n = len(taken)
    if len(observed) not in (n, n + 1) or len(paid) != n or n == 0:
        raise ValueError("episodes must have an observation and a reward for each action, got others; check them")
    if not 0 <= observed.min() <= observed.max() < n_states:
        raise ValueError(f"observations must be in 0..{n_states - 1}, got another value; raise n_states")
    flags = [np.asarray(found[name]) for name in _FLAGS if found[name] is not None]
    if any(flag.shape != (n,) or not np.isin(flag, (0, 1)).all() or flag[:-1].any() for flag in flags):
        rule = "terminations and truncations must be false or true for each action, and true at the last one only"
        raise ValueError(f"{rule}, got others; split the log where an episode ends, and keep one episode per user")
    last = None if not flags else bool(flags[0][-1])
    ended = not last if flags and found[_FLAGS[0]] is None else last
    if ended is False and n < horizon and len(observed) == n:
        rule = "episodes that were cut before horizon must have an observation after their last action"
        raise ValueError(f"{rule}, got none; add it, or lower horizon to the public time limit")
    return _Episode(observed, taken, paid, ended)
