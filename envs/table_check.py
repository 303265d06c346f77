"""Sampled steps of a Gymnasium environment against its table of transitions."""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Hashable
from typing import Any

import gymnasium
import numpy as np

from dprl.envs.gymnasium_ids import FAILURES

__all__ = ["compare_steps"]

_STEPS, _LONGEST = 2000, 50
"""Sampled steps of each kind, and steps of a sampled episode."""
_ROUNDING = 1e-6
"""Difference of rewards that is rounding, also that of float32."""
_FALSE_ALARM = 1e-9
"""Probability that an environment that follows its table is refused for its frequencies."""
_PRIOR = 30.0
"""Weight of the table, in steps, in a prediction from earlier steps."""


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
        samples.require_frequencies()
    except FAILURES as error:
        told = isinstance(error, _DifferenceError)
        why = str(error) if told else "it raises " + " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(
            f"env_id must be an environment that takes the steps of its table P, got {env_id!r} ({why}); make P and "
            "step agree, or choose arguments that make them agree"
        ) from None


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
        self._wealth = [0.0, 0.0]
        self._starts = [(state, chance) for state, chance in enumerate(env.initial_state_distrib) if chance > 0.0]

    def begin(self, **seeded: int) -> int:
        """Reset the environment and return its state."""
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
        """Return all states that an episode can be in."""
        waiting = [state for state, _ in self._starts]
        known = dict.fromkeys(waiting)
        while waiting:
            state = waiting.pop()
            for action in self._env.P[state]:
                after = [following for following, _, ended in self._outcomes(state, action) if not ended]
                waiting += {*after} - known.keys()
                known.update(dict.fromkeys(after))
        return [*known]

    def require_frequencies(self) -> None:
        """Raise _DifferenceError if outcomes had other frequencies than the table's probabilities."""
        if np.logaddexp(self._wealth[0], self._wealth[1]) - math.log(2.0) > -math.log(_FALSE_ALARM):
            raise _DifferenceError(f"{2 * _STEPS} steps have other frequencies")

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
            self._wealth[bettor] += math.log(predicted / chance)
            counts[place] += 1
