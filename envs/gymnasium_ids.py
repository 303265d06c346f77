"""Gymnasium ids: registry entry, arguments and environment, or a one-line reason why there is none."""

from __future__ import annotations

import ast
import importlib
import warnings
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

FAILURES = (
    *(ValueError, ArithmeticError, LookupError, OSError, RuntimeError, MemoryError),
    *(TypeError, AttributeError, NameError, AssertionError, ImportError, SyntaxError, gymnasium.error.Error),
)
"""Errors that a mistake in an environment of others raises."""
_STEPPED = "(observation, reward, terminated, truncated, info)"


def spec_of(env_id: str) -> EnvSpec:
    """Return the entry of an environment in Gymnasium's registry. Raises ValueError.

    >>> spec_of("FrozenLake-v1").max_episode_steps
    100
    """
    if not isinstance(env_id, str):
        raise ValueError(f"env_id must be text, got {env_id!r}; write e.g. FrozenLake-v1")
    remedy = "correct it; for an environment of your own write module:Id-v0, or name its module in DPRL_PLUGINS"
    module, colon, name = env_id.rpartition(":")
    try:
        if colon:
            importlib.import_module(module)
        return gymnasium.spec(name)
    except gymnasium.error.Error as error:
        why = " ".join(str(error).split())
        raise ValueError(f"env_id must be an environment of Gymnasium, got {env_id!r} ({why}); {remedy}") from None
    except FAILURES as error:
        why = " ".join(f"{type(error).__name__}: {error}".split())
        remedy = "put its folder on PYTHONPATH, or correct it"
        raise ValueError(f"env_id must name a module that can be imported, got {env_id!r} ({why}); {remedy}") from None


def arguments_of(kwargs: str) -> dict[str, Any]:
    """Parse the keyword arguments of a call from text. Raises ValueError."""
    try:
        call: Any = ast.parse(f"f({kwargs})", mode="eval").body
        if call.args or any(each.arg is None for each in call.keywords):
            raise ValueError
        return {each.arg: ast.literal_eval(each.value) for each in call.keywords}
    except (SyntaxError, ValueError, AttributeError):
        rule = "kwargs must be arguments with plain values"
        raise ValueError(f"{rule}, got {kwargs!r}; write e.g. map_name='8x8', is_slippery=False") from None


def made(env_id: str, arguments: dict[str, Any]) -> gymnasium.Env[Any, Any]:
    """Return the environment. Raises ValueError."""
    try:
        return gymnasium.make(env_id, **arguments)
    except gymnasium.error.DependencyNotInstalled as error:
        why = " ".join(str(error).split())
        raise ValueError(f"env_id must have its packages installed, got {env_id!r} ({why}); install them") from None
    except FAILURES as error:
        why = " ".join(f"{type(error).__name__}: {error}".split())
        if not arguments:
            raise ValueError(f"env_id must be an environment that starts, got {env_id!r} ({why}); mend it") from None
        raise ValueError(f"kwargs must be those of {env_id}, got {arguments} ({why}); correct them") from None


def check_step(env: gymnasium.Env[Any, Any], name: str, key: str = "env_id") -> None:
    """Raise ValueError unless the first reset and step return the values of Gymnasium's interface; no user is asked."""

    def wrong(rule: str, got: object, remedy: str) -> ValueError:
        return ValueError(f"{key} must be an environment {rule}, got {name} with {got}; {remedy}")

    def check_observation(method: str, seen: Any) -> None:  # noqa: ANN401 - whatever an environment returns
        space = env.observation_space
        if isinstance(space, spaces.Box | spaces.Discrete) and np.shape(seen) != space.shape:
            rule = f"with observations of shape {space.shape} from {method}, as its observation_space says"
            raise wrong(rule, f"shape {np.shape(seen)}", "correct one of them")

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Gymnasium's, on what is refused here
            begun = env.reset(seed=0)
            if not isinstance(begun, tuple) or len(begun) != 2:
                raise wrong("with a reset that returns (observation, info)", "another value", "return both")
            check_observation("reset", begun[0])
            env.action_space.seed(0)
            stepped: Any = env.step(env.action_space.sample())
            if not isinstance(stepped, tuple) or len(stepped) != 5:
                raise wrong("with the step of Gymnasium", "another one", f"step returns {_STEPPED}")
            check_observation("step", stepped[0])
            reward = stepped[1]
            if np.ndim(reward) != 0 or np.asarray(reward).dtype.kind not in "biuf":
                got = f"an array of shape {np.shape(reward)}" if np.ndim(reward) else type(reward).__name__
                raise wrong("with a number as the reward of a step", got, "return float(reward)")
    except FAILURES as error:
        if isinstance(error, ValueError) and str(error).startswith(f"{key} must be an environment"):
            raise
        why = " ".join(f"{type(error).__name__}: {error}".split())
        remedy = f"reset returns (observation, info), and step {_STEPPED}"
        raise wrong("that can be reset and take a step", why, remedy) from None


def keep_digest(spec: Any, key: str, of: str, found: str) -> None:  # noqa: ANN401 - a frozen dataclass
    """Set a spec's digest `key` of `of`, its environment or file, unless it has another one. Raises ValueError."""
    asked = getattr(spec, key)
    if asked not in ("", found):
        rule = f"{key} must be {found}, the digest of {of} as it is now"
        raise ValueError(f"{rule}, got {asked!r}; omit it, or go back to the one with that digest")
    object.__setattr__(spec, key, found)
