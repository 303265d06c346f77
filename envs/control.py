"""Any Gymnasium environment as a control task: episodes of many users at once, one per user."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec, load_env_creator
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from dprl.envs.base import Env
from dprl.envs.checks import require_integers
from dprl.envs.environment_source import environment_source
from dprl.envs.gymnasium_ids import FAILURES, arguments_of, check_step, keep_digest, made, spec_of

Space = spaces.Box | spaces.Discrete[Any]
"""Of observations or actions."""
_Numbers, _Flags = NDArray[np.float64], NDArray[np.bool_]
FAILED = "dprl/failed"
"""Key of the copies whose environment raised, in the info of a step."""
Act = Callable[[NDArray[np.float32]], NDArray[Any]]
"""Actions [n] or [n, k] for observations float32[n, o]."""


def to_space(space: Space, actions: NDArray[Any]) -> NDArray[Any]:
    """Return a policy's actions [n] or [n, k] as those of a space, in a Box moved inside.

    The policy counts from 0, and -1 and 1 are the edges of a bounded Box.
    """
    if isinstance(space, spaces.Discrete):
        return actions + int(space.start)
    middle, half = _scale(space)
    scaled = actions.reshape(-1, *space.shape) * half + middle
    return np.asarray(np.clip(scaled, space.low, space.high), dtype=space.dtype)


def from_space(space: Space, actions: NDArray[Any]) -> NDArray[Any]:
    """Return a policy's actions [n] or [n, k] for those of a space, the inverse of `to_space`."""
    if isinstance(space, spaces.Discrete):
        return actions - int(space.start)
    middle, half = _scale(space)
    return np.asarray((actions.reshape(-1, *space.shape) - middle) / half, dtype=np.float32).reshape(len(actions), -1)


def _scale(space: spaces.Box) -> tuple[Any, Any]:
    if not space.is_bounded():
        return 0.0, 1.0
    half = space.high / 2.0 - space.low / 2.0
    return space.low + half, np.where(half > 0.0, half, 1.0)


class Episodes(NamedTuple):
    """Episodes of n users, padded to T steps, the longest possible. They are private: only clipped updates may leave.

    observations float32[n, T, o]; actions int64[n, T] or float32[n, T, k], the policy's; rewards float64[n, T];
    lengths int64[n], 0 if the environment failed; ended bool[n]: in a terminal state, not by a time limit.
    """

    observations: NDArray[np.float32]
    actions: NDArray[Any]
    rewards: NDArray[np.float64]
    lengths: NDArray[np.int64]
    ended: NDArray[np.bool_]

    def __repr__(self) -> str:
        return f"Episodes({self.lengths.shape[0]} users)"

    @property
    def scores(self) -> NDArray[np.float64]:
        """The sum of rewards of each episode, float64[n]."""
        total: NDArray[np.float64] = self.rewards.sum(axis=1)
        return total


@dataclass(frozen=True, eq=False)
class ControlTask:
    """Episodes of at most `horizon` steps in a Gymnasium environment; no value is exact.

    name: the registry name of the spec that built it. entry: of Gymnasium's registry. arguments: of gymnasium.make.
    observed, taken: the spaces of observations and actions.
    """

    kind: ClassVar[str] = "task of Gymnasium"

    name: str
    entry: EnvSpec
    arguments: dict[str, Any]
    horizon: int
    observed: Space
    taken: Space

    @property
    def observation_size(self) -> int:
        """o, the size of flattened observations."""
        return spaces.flatdim(self.observed)

    @property
    def n_actions(self) -> int:
        """Number of discrete actions, 0 if they are continuous."""
        return int(self.taken.n) if isinstance(self.taken, spaces.Discrete) else 0

    @property
    def action_size(self) -> int:
        """k, the size of continuous actions, 0 if they are discrete."""
        return spaces.flatdim(self.taken) if isinstance(self.taken, spaces.Box) else 0

    def __repr__(self) -> str:
        return f"ControlTask({self.entry.id}, {self.arguments}, {self.horizon} steps)"

    def vector(
        self, n: int, *, padded: bool = False, barrier: Callable[[], AbstractContextManager[None]] | None = None
    ) -> VectorEnv[Any, Any, Any]:
        """Return n copies of the environment that are stepped together.

        padded: whether copies take steps, without a user, after their episode. barrier: drops errors of a block; then
        the episode of a copy that raises is over, and has length 0. A vectorised environment has none.
        """
        if self.entry.vector_entry_point:
            mode = "vector_entry_point"
            return gymnasium.make_vec(self.entry, num_envs=n, vectorization_mode=mode, **self.arguments)
        copies = [gymnasium.make(self.entry, disable_env_checker=True, **self.arguments) for _ in range(n)]
        return _OneByOne(copies, self.observed, padded=padded, barrier=barrier)

    def flat(self, seen: NDArray[Any]) -> NDArray[np.float32]:
        """Return observations [n, ...] as rows float32[n, o]: discrete ones one-hot, arrays flattened."""
        if isinstance(self.observed, spaces.Discrete):
            places: NDArray[np.float32] = np.eye(int(self.observed.n), dtype=np.float32)
            return np.asarray(places[np.asarray(seen) - int(self.observed.start)])
        rows: NDArray[np.float32] = np.array(seen, dtype=np.float32).reshape(len(seen), -1)
        return rows

    def play(
        self,
        vector: VectorEnv[Any, Any, Any],
        act: Act,
        seed: int,
        *,
        padded: bool = False,
        checked: bool = False,
        options: dict[str, Any] | None = None,
    ) -> Episodes:
        """Return an episode of each copy; `seed` determines all draws of the environments.

        padded: whether to step as long as the longest possible episode. options: of `vector.reset`. checked: whether to
        raise ValueError for non-finite numbers. In episodes of users these count as 0: an error would reveal data.
        """
        n = vector.num_envs
        seen, _ = vector.reset(seed=seed, options=options)
        # Of the longest possible length: the shape must not depend on any user's episode, not even by rounding.
        rows = np.zeros((n, self.horizon, self.observation_size), dtype=np.float32)
        shape = (n, self.horizon) if self.n_actions else (n, self.horizon, self.action_size)
        chosen = np.zeros(shape, dtype=np.int64 if self.n_actions else np.float32)
        paid = np.zeros((n, self.horizon))
        alive, lengths, ended = np.ones(n, dtype=bool), np.zeros(n, dtype=np.int64), np.zeros(n, dtype=bool)
        for t in range(self.horizon):
            rows[:, t] = self._finite("observations", self.flat(seen), checked=checked)
            chosen[:, t] = act(rows[:, t])
            seen, rewards, terminated, truncated, info = vector.step(to_space(self.taken, chosen[:, t]))
            paid[:, t] = self._finite("rewards", np.where(alive, rewards, 0.0), checked=checked)
            lengths += alive
            ended |= alive & terminated
            alive &= ~(np.asarray(terminated) | np.asarray(truncated))
            if not (padded or alive.any()):  # copies with an ended episode continue without a user
                break
        failed = info.get(FAILED, np.zeros(n, dtype=bool))
        paid[failed], lengths[failed] = 0.0, 0
        return Episodes(rows, chosen, paid, lengths, ended)

    def _finite(self, what: str, values: NDArray[Any], *, checked: bool) -> NDArray[Any]:
        if checked and not np.isfinite(values).all():
            raise ValueError(f"{self.entry.id} must have finite {what}, got nan or inf; correct the environment")
        return np.where(np.isfinite(values), values, 0.0)


class _OneByOne(VectorEnv[Any, Any, Any]):
    """Copies of an environment, stepped one after another, and only until their episode ends.

    `reset(options={"agents": numbers})` resets copy i with its user's number: `options={"agent": numbers[i]}`.

    copies: of the environment. observed: their space of observations. padded: whether those with an ended episode begin
    another one, without a user. barrier: drops errors; the copies that raised are those of info[FAILED], bool[n].
    """

    def __init__(
        self,
        copies: Sequence[gymnasium.Env[Any, Any]],
        observed: Space,
        *,
        padded: bool = False,
        barrier: Callable[[], AbstractContextManager[None]] | None = None,
    ) -> None:
        self._copies, self._padded, self.num_envs = copies, padded, len(copies)
        self._barrier = barrier or nullcontext
        self._observed, self._blank = observed, np.asarray(np.zeros_like(observed.sample()))
        self._seen: list[Any] = []
        self._alive: list[bool] = []
        self._failed = np.zeros(len(copies), dtype=bool)

    def close_extras(self, **_: object) -> None:
        for copy in self._copies:
            copy.close()  # type: ignore[no-untyped-call]

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Begin an episode of each copy, of copy i with seed + i."""
        first = seed if isinstance(seed, int) else 0
        agents = (options or {}).get("agents", ())
        told = [{"agent": int(number)} for number in agents] + [{}] * (self.num_envs - len(agents))
        self._seen, self._failed[:] = [self._blank] * self.num_envs, True
        for i, copy in enumerate(self._copies):
            with self._barrier():
                begun, _ = copy.reset(seed=first + i, options=None if options is None else told[i])
                self._seen[i] = self._checked(begun)
                self._failed[i] = False
        self._alive = list(~self._failed)
        return np.array(self._seen), {}

    def step(
        self, actions: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        n = self.num_envs
        paid, terminated, truncated = np.zeros(n), self._failed.copy(), np.zeros(n, dtype=bool)
        for i, copy in enumerate(self._copies):
            if not (self._alive[i] or self._padded):
                continue
            action, done, whole = actions[i] if actions.ndim > 1 else actions[i].item(), False, False
            with self._barrier():
                seen, paid[i], terminated[i], truncated[i], _ = copy.step(action)
                done = bool(terminated[i] or truncated[i])
                if done and self._padded:
                    seen, _ = copy.reset()
                self._seen[i], whole = self._checked(seen), True
            if not whole:  # an episode that ended before is complete
                self._failed[i] |= self._alive[i]
                self._seen[i], terminated[i] = self._blank, True
            self._alive[i] = self._alive[i] and whole and not done
        return np.array(self._seen), paid, terminated, truncated, {FAILED: self._failed}

    def _checked(self, seen: Any) -> NDArray[Any]:  # noqa: ANN401 - an environment may return anything
        """Return an observation of the space's shape, type and numbers; raise ValueError or TypeError for another."""
        found = np.broadcast_to(np.asarray(seen, dtype=self._blank.dtype), self._blank.shape)
        if isinstance(self._observed, spaces.Discrete) and not self._observed.contains(found[()]):
            raise ValueError
        return found


@dataclass(frozen=True)
class Control:
    """Any Gymnasium environment with arrays or numbers as observations, and discrete or continuous actions.

    A user has one episode. A score is the sum of its rewards.

    Args:
        env_id: as in gymnasium.make; `module:Id-v0` imports the module first. horizon: steps of the longest episode, at
            most those of the registry. kwargs: more arguments of gymnasium.make, as in a call. source: digest of the
            file of the environment's class, by default as it is now: another version is another environment. Without a
            file, as in a notebook, it is the digest of the code and of all values it reads; they must be picklable.

    Raises ValueError for an environment that does not start or has other spaces.

    >>> Control("CartPole-v1", horizon=200).build()
    ControlTask(CartPole-v1, {}, 200 steps)
    """

    name: ClassVar[str] = "control"
    builds: ClassVar[type[Env]] = ControlTask

    env_id: str = "CartPole-v1"
    horizon: int = 200
    kwargs: str = ""
    source: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        require_integers(self, horizon=1)
        entry = spec_of(self.env_id)
        try:
            creator: Any = entry.entry_point
            creator = load_env_creator(creator) if isinstance(creator, str) else creator
        except FAILURES:
            creator = None  # gymnasium.make says why
        probe = _probed if isinstance(creator, Hashable) else _probed.__wrapped__
        found, classes = probe(self.env_id, self.kwargs, repr(entry), creator)
        limit = entry.max_episode_steps
        if limit is not None and self.horizon > limit:
            raise ValueError(f"horizon must be at most {limit} with {self.env_id}, got {self.horizon}; lower it")
        keep_digest(self, "source", self.env_id, environment_source(classes, creator, entry))
        # Sent along to other processes, because they may not have registered the environment.
        object.__setattr__(self, "_entry", entry)
        object.__setattr__(self, "_spaces", found)

    def build(self) -> ControlTask:
        """Return the task."""
        entry, found = self._entry, self._spaces  # type: ignore[attr-defined]
        return ControlTask(self.name, entry, arguments_of(self.kwargs), self.horizon, *found)


@lru_cache(maxsize=32)
def _probed(env_id: str, kwargs: str, *_: Hashable) -> tuple[tuple[Space, Space], list[type]]:
    """Return the spaces of observations and actions, and the classes of the environment and of its wrappers."""
    env = made(env_id, arguments_of(kwargs))
    seen, taken = env.observation_space, env.action_space
    if not isinstance(seen, spaces.Box | spaces.Discrete):
        flat = "wrap it: dprl.register_env('Flat-v0', lambda: FlattenObservation(gymnasium.make(...)))"
        raise ValueError(f"env_id must observe an array or a number, got {seen}; {flat}")
    if not isinstance(taken, spaces.Box | spaces.Discrete):
        raise ValueError(f"env_id must have actions in Discrete or Box, got {taken}; wrap the environment")
    check_step(env, env_id)
    env.close()  # type: ignore[no-untyped-call]
    classes, layer = [type(env.unwrapped)], env
    while isinstance(layer, gymnasium.Wrapper):
        classes.append(type(layer))
        layer = layer.env
    return (seen, taken), classes
