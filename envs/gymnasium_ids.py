"""Gymnasium ids: registry entry, arguments and environment, or a one-line reason why there is none."""

from __future__ import annotations

import ast
import importlib
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec

__all__ = ["FAILURES", "arguments_of", "keep_digest", "made", "spec_of"]

FAILURES = (
    *(ValueError, ArithmeticError, LookupError, OSError, RuntimeError, MemoryError),
    *(TypeError, AttributeError, NameError, AssertionError, ImportError, SyntaxError, gymnasium.error.Error),
)
"""Errors that a mistake in an environment of others raises."""


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
        raise ValueError(
            f"kwargs must be arguments with plain values, got {kwargs!r}; write e.g. map_name='8x8', is_slippery=False"
        ) from None


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


def keep_digest(spec: Any, key: str, found: str) -> None:  # noqa: ANN401 - a frozen dataclass with env_id
    """Set a spec's digest `key` of its environment, unless it has another one. Raises ValueError."""
    asked = getattr(spec, key)
    if asked not in ("", found):
        raise ValueError(
            f"{key} must be {found}, the digest of {spec.env_id} as it is now, got {asked!r}; omit it, or go back to "
            "the environment with that digest"
        )
    object.__setattr__(spec, key, found)
