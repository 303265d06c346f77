"""Gymnasium environments with a table of transitions, as finite-horizon MDPs."""

from __future__ import annotations

import hashlib
import math
import operator
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import gymnasium
import numpy as np
from gymnasium.envs.registration import load_env_creator
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit
from numpy.typing import NDArray

from dprl.envs.base import Env, FiniteMDP, stationary
from dprl.envs.checks import require_integers, require_size
from dprl.envs.gymnasium_ids import FAILURES, arguments_of, keep_digest, made, spec_of

Outcomes = dict[int, dict[int, list[tuple[float, int, float, bool]]]]
"""P of Gymnasium's toy environments: state -> action -> (probability, next state, reward, whether the episode ends)."""
_ROUNDING = 1e-6  # largest distance of rewards, and from 1 of a sum of probabilities: rounding, also that of float32
_SAME = 1e-9  # relative difference of rewards that is rounding of their means
_STEPS, _LONGEST = 2000, 50  # sampled steps of each kind, and steps of a sampled episode
_FALSE_ALARM = 1e-9  # probability that an environment that follows its table is refused for its frequencies
_PRIOR = 30.0  # weight of the table, in steps, in a prediction from earlier steps


class _Step(NamedTuple):
    """One step of an environment: transitions [S, A, S'], mean rewards [S, A] in [0, 1], start [S], raw range."""

    transitions: NDArray[np.float64]
    rewards: NDArray[np.float64]
    start: NDArray[np.float64]
    reward_range: tuple[float, float]


@dataclass(frozen=True)
class GymnasiumTable:
    """Gymnasium environment with a table of transitions, for a finite horizon.

    An environment has a table if `env.unwrapped` has `P` and `initial_state_distrib`, as FrozenLake, CliffWalking and
    Taxi have. Sampled steps are compared with the table: one with other steps is refused, and so are wrappers but the
    time limit. Rewards are means. Unless they lie in [0, 1], they are mapped to it from `reward_range`; a value v of H
    steps then stands for H low + (high - low) v. An episode that ends early stays in an absorbing state with raw reward
    0 until step H; the state is added if the table has none. Dynamics and rewards are the same at every step.

    Args:
        env_id: as in gymnasium.make; `module:Id-v0` imports the module first. horizon: H, at least 1 and at most the
            environment's time limit. kwargs: more arguments of gymnasium.make, as in a call: "map_name='8x8',
            is_slippery=False". table: digest of the table, by default that of the table as it is now: an environment
            with another table is another one.

    Raises ValueError for an environment without a table, with another one or other steps, or that is too large.

    >>> lake = GymnasiumTable("FrozenLake-v1", horizon=6, kwargs="is_slippery=False")
    >>> lake.build().optimal_start_value()
    1.0
    >>> GymnasiumTable("CliffWalking-v1", horizon=20).reward_range
    (-100.0, 0.0)
    """

    name: ClassVar[str] = "gymnasium"
    builds: ClassVar[type[Env]] = FiniteMDP
    stationary: ClassVar[bool] = True

    env_id: str = "FrozenLake-v1"
    horizon: int = 20
    kwargs: str = ""
    table: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        require_integers(self, horizon=1)
        step, table, limit = _table(self.env_id, self.kwargs)
        if limit is not None and self.horizon > limit:
            wrong = f"horizon must be at most {limit} with {self.env_id}, its time limit, got {self.horizon}"
            raise ValueError(f"{wrong}; lower it, or raise the limit by kwargs: max_episode_steps={self.horizon}")
        # Sent along to other processes, because they may not have registered the environment.
        object.__setattr__(self, "_step", step)
        keep_digest(self, "table", self.env_id, table)
        require_size(self.name, self.sizes, "horizon, or take a smaller environment")

    @property
    def sizes(self) -> tuple[int, int, int]:
        """H, S, and the number of actions."""
        return self.horizon, *self.step.rewards.shape

    @property
    def step(self) -> _Step:
        """The table as arrays."""
        found: _Step = self._step  # type: ignore[attr-defined]
        return found

    @property
    def reward_range(self) -> tuple[float, float]:
        """The raw rewards that 0 and 1 stand for."""
        return self.step.reward_range

    @property
    def n_successors(self) -> int:
        """The largest number of possible next states of a state and an action."""
        return int((self.step.transitions > 0.0).sum(axis=2).max())

    @property
    def value_range(self) -> tuple[float, float]:
        """The values of the worst and the best policy at the start, in mapped rewards."""
        transitions, rewards, start, _ = self.step
        worst, best = np.zeros((2, len(start)))
        for _ in range(self.horizon):
            worst, best = (rewards + transitions @ worst).min(axis=1), (rewards + transitions @ best).max(axis=1)
        return float(start @ worst), float(start @ best)

    def build(self) -> FiniteMDP:
        """Build the environment as arrays: transitions [H, S, A, S], rewards [H, S, A], start [S]."""
        transitions, rewards, start, _ = self.step
        return FiniteMDP(self.name, *stationary(self.horizon, transitions, rewards, start))


def limit_of(env_id: str, kwargs: str) -> int | None:
    """Return the time limit of an environment in steps, None if it has none. Raises ValueError as `GymnasiumTable`."""
    return _table(env_id, kwargs)[2]


def _table(env_id: str, kwargs: str) -> tuple[_Step, str, int | None]:
    """Return the table of an environment, its digest, 12 hex digits, and its time limit. Raises ValueError."""
    spec = spec_of(env_id)
    creator: Any = load_env_creator(spec.entry_point) if isinstance(spec.entry_point, str) else spec.entry_point
    return _table_by(env_id, kwargs, creator, repr((spec.kwargs, spec.max_episode_steps)))


@lru_cache(maxsize=8)
def _table_by(env_id: str, kwargs: str, _: Hashable, __: str) -> tuple[_Step, str, int | None]:
    """Return the same; if an id is registered again, its class or arguments differ."""
    env = made(env_id, arguments_of(kwargs))
    found = table_of(env, env_id)
    compare_steps(env.unwrapped, env_id)
    return found


def table_of(env: gymnasium.Env[Any, Any], env_id: str) -> tuple[_Step, str, int | None]:
    """Return the table of an environment, its digest, 12 hex digits, and its time limit. Raises ValueError."""
    limit, layer = None, env
    while isinstance(layer, gymnasium.Wrapper):
        if type(layer) not in (TimeLimit, OrderEnforcing, PassiveEnvChecker):
            raise ValueError(
                f"env_id must be an environment without wrappers that a table cannot have, got {env_id!r} in "
                f"{type(layer).__name__}; drop the wrapper, or register an environment with the changed table"
            )
        if isinstance(layer, TimeLimit) and layer.spec is not None:
            limits = [each for each in (limit, layer.spec.max_episode_steps) if each is not None]
            limit = min(limits, default=None)
        layer = layer.env
    outcomes, start = getattr(env.unwrapped, "P", None), getattr(env.unwrapped, "initial_state_distrib", None)
    if not isinstance(outcomes, dict) or start is None:
        raise ValueError(
            f"env_id must be an environment with a table of transitions, got {env_id!r} without P and "
            "initial_state_distrib; add them (30 lines: docs/extending/environment.md, or `dprl new env my_env`), or "
            "take env: {name: control} with dppg"
        )
    step = _step_of(outcomes, start)
    hashed = hashlib.sha256(repr((step.transitions.shape, step.reward_range)).encode())
    for array in step[:3]:
        hashed.update(array.tobytes())
    return step, hashed.hexdigest()[:12], limit


def _step_of(outcomes: Outcomes, start: Any) -> _Step:  # noqa: ANN401 - whatever an environment has
    """Return the arrays of a table; raise ValueError if it is invalid or rewards are constant. See `GymnasiumTable`."""
    first = _checked(outcomes, start)
    n_states, n_actions = len(outcomes), len(outcomes[0])
    ends = {following for row in outcomes.values() for each in row.values() for _, following, _, ended in each if ended}
    after_ends = [(state, outcome) for state in ends for each in outcomes[state].values() for outcome in each]
    resting = all(following == state and reward == 0.0 for state, (_, following, reward, _) in after_ends)
    size = n_states if resting else n_states + 1
    require_size("gymnasium", (1, size, n_actions), "the environment")
    transitions, rewards = np.zeros((size, n_actions, size)), np.zeros((size, n_actions))
    for state, row in outcomes.items():
        for action, each in row.items():
            for chance, following, reward, ended in each:
                transitions[state, action, n_states if ended and not resting else following] += chance
                rewards[state, action] += float(chance) * float(reward)
    transitions[n_states:, :, n_states:] = 1.0
    totals = transitions.sum(axis=2)
    transitions, rewards = transitions / totals[..., None], rewards / totals
    low, high = float(rewards.min()), float(rewards.max())
    if low >= -_SAME and high <= 1.0 + _SAME:
        low, high = 0.0, 1.0
    elif high - low <= _SAME * max(abs(low), abs(high)):
        rule = "env_id must be an environment with rewards that differ"
        raise ValueError(f"{rule}, got {low:g} everywhere; choose another one")
    scaled = np.clip((rewards - low) / (high - low), 0.0, 1.0)
    return _Step(transitions, scaled, np.append(first, np.zeros(size - n_states)), (low, high))


def _checked(outcomes: Outcomes, start: Any) -> NDArray[np.float64]:  # noqa: ANN401
    """Return the distribution of the first state as an array; raise ValueError unless all is as in `Outcomes`."""
    n_states, row = len(outcomes), outcomes.get(0)
    n_actions = len(row) if isinstance(row, dict) else 0
    _require(n_states > 0 and set(outcomes) == set(range(n_states)), "P", "must have the keys 0, 1, ..., S - 1")
    for state, row in outcomes.items():
        counted = isinstance(row, dict) and n_actions > 0 and set(row) == set(range(n_actions))
        _require(counted, f"P[{state}]", f"must have the keys 0, 1, ..., A - 1, with A = {n_actions} as in P[0]")
        for action, each in row.items():
            _check_outcomes(f"P[{state}][{action}]", each, n_states)
    try:
        first = np.asarray(start, dtype=np.float64)
    except (TypeError, ValueError):
        first = np.zeros(0)
    where = "initial_state_distrib"
    _require(first.shape == (n_states,), where, f"must be one probability for each of {n_states} states")
    _require_probabilities(where, first)
    normalized: NDArray[np.float64] = first / first.sum()
    return normalized


def _check_outcomes(where: str, outcomes: Any, n_states: int) -> None:  # noqa: ANN401
    """Raise ValueError unless these are outcomes of a state and an action."""
    try:
        chances, following, rewards, ends = np.array([tuple(each) for each in outcomes], dtype=np.float64).T
    except (TypeError, ValueError):
        rule = "must be a list of tuples (probability, next state, reward, whether the episode ends)"
        raise ValueError(f"{where} {rule}, got others; correct the environment") from None
    _require_probabilities(where, chances)
    known = np.isin(following, np.arange(n_states))
    _require(known.all(), where, f"must have next states in 0..{n_states - 1}", following[~known])
    finite = np.isfinite(rewards)
    _require(finite.all(), where, "must have finite rewards", rewards[~finite])
    flags = np.isin(ends, (0.0, 1.0))
    _require(flags.all(), where, "must say true or false of the end of an episode", ends[~flags])


def _require_probabilities(where: str, chances: NDArray[np.float64]) -> None:
    """Raise ValueError unless these are probabilities that sum to 1."""
    fits = (chances >= 0.0) & (chances <= 1.0 + _ROUNDING)
    _require(fits.all(), where, "must have probabilities in [0, 1]", chances[~fits])
    off = chances.sum() - 1.0
    if abs(off) > _ROUNDING:
        raise ValueError(f"{where} must sum to 1, got a sum that is off by {off:.2g}; correct the environment")


def _require(fits: bool | np.bool_, where: str, rule: str, wrong: NDArray[np.float64] | None = None) -> None:
    """Raise ValueError with the first invalid value, if there is one."""
    if not fits:
        got = "others" if wrong is None else f"{wrong[0]:g}"
        raise ValueError(f"{where} {rule}, got {got}; correct the environment")


def compare_steps(env: Any, env_id: str) -> None:  # noqa: ANN401 - Gymnasium names no type
    """Raise ValueError if sampled steps of an environment do not follow its table, `P` and `initial_state_distrib`.

    Half of the steps are those of random episodes; half begin in random states, if the environment keeps its state in
    `s`, as those of Gymnasium do. An environment without a `step` of its own is only a table. Draws are seeded.
    """
    if type(env).step is gymnasium.Env.step and "step" not in vars(env):
        return
    samples, draws = _Samples(env), np.random.default_rng(0)
    try:
        state, steps = samples.begin(seed=0), 0
        keeps_state = isinstance(getattr(env, "s", None), int | np.integer) and env.s == state
        for _ in range(_STEPS):
            state, ended = samples.take(state, int(draws.integers(len(env.P[state]))))
            steps += 1
            if ended or steps == _LONGEST:
                state, steps = samples.begin(), 0
        known = samples.possible_states()
        for _ in range(_STEPS if keeps_state else 0):
            samples.begin()
            env.s = state = known[draws.integers(len(known))]
            samples.take(state, int(draws.integers(len(env.P[state]))))
        if np.logaddexp.reduce(samples.wealth) - math.log(2.0) > -math.log(_FALSE_ALARM):
            raise _DifferenceError(f"{2 * _STEPS} steps have other frequencies")
    except FAILURES as error:
        told = isinstance(error, _DifferenceError)
        why = str(error) if told else "it raises " + " ".join(f"{type(error).__name__}: {error}".split())
        wrong = f"env_id must be an environment that takes the steps of its table P, got {env_id!r} ({why})"
        raise ValueError(f"{wrong}; make P and step agree, or choose arguments that make them agree") from None


class _DifferenceError(ValueError):
    """A step that the table does not have."""


class _Samples:
    """Sampled steps of an environment, and bets against its table.

    A bet predicts each outcome from those before, with the table as prior. Where the table is right, the product of
    (predicted probability / probability in the table) ever exceeds 1/alpha with probability at most alpha (Ville). One
    bettor learns each state and action, the other one all those with the same probabilities.
    """

    def __init__(self, env: Any) -> None:  # noqa: ANN401
        self._env = env
        self._counts: dict[Hashable, Counter[int]] = {}
        self.wealth = [0.0, 0.0]  # logarithms
        self._starts = [(state, chance) for state, chance in enumerate(env.initial_state_distrib) if chance > 0.0]

    def begin(self, **seeded: int) -> int:
        state = operator.index(self._env.reset(**seeded)[0])
        place = next((place for place, (known, _) in enumerate(self._starts) if known == state), None)
        if place is None:
            raise _DifferenceError(f"reset leads to state {state}")
        self._bet("start", place, [chance for _, chance in self._starts])
        return state

    def take(self, state: int, action: int) -> tuple[int, bool]:
        """Take an action; return the next state and whether the episode ended."""
        seen, reward, ended, cut, _ = self._env.step(action)
        following, ended = operator.index(seen), bool(ended)
        if cut:
            raise _DifferenceError("step truncates episodes: give the limit to gymnasium.register as max_episode_steps")
        outcomes = self._outcomes(state, action)
        for place, (known, paid, end) in enumerate(outcomes):
            same = math.isclose(paid, reward, rel_tol=_ROUNDING, abs_tol=_ROUNDING)
            if same and (known, end) == (following, ended):
                self._bet((state, action), place, list(outcomes.values()))
                return following, ended
        where = f"state {following}{' and the end' if ended else ''}"
        raise _DifferenceError(f"in state {state} action {action} leads to {where} with reward {reward:g}")

    def possible_states(self) -> list[int]:
        waiting = [state for state, _ in self._starts]
        known = dict.fromkeys(waiting)
        while waiting:
            state = waiting.pop()
            for action in self._env.P[state]:
                after = [following for following, _, ended in self._outcomes(state, action) if not ended]
                waiting += {*after} - known.keys()
                known.update(dict.fromkeys(after))
        return [*known]

    def _outcomes(self, state: int, action: int) -> dict[tuple[int, float, bool], float]:
        """Return the probabilities of the distinct outcomes of a state and an action."""
        merged: dict[tuple[int, float, bool], float] = {}
        for chance, following, reward, ended in self._env.P[state][action]:
            if chance > 0.0:
                key = int(following), float(reward), bool(ended)
                merged[key] = merged.get(key, 0.0) + float(chance)
        return merged

    def _bet(self, draw: Hashable, place: int, chances: list[float]) -> None:
        chance = chances[place] / sum(chances)
        for bettor, group in enumerate((draw, ("all", draw == "start", *chances))):
            counts = self._counts.setdefault(group, Counter())
            predicted = (counts[place] + _PRIOR * chance) / (counts.total() + _PRIOR)
            self.wealth[bettor] += math.log(predicted / chance)
            counts[place] += 1
