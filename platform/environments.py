"""Environments of Gymnasium and of users, as the `env` of an experiment."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import gymnasium

from dprl.envs import GymnasiumTable
from dprl.envs.gymnasium_ids import spec_of
from dprl.envs.gymnasium_tables import limit_of, table_of
from dprl.platform.errors import UserError, broken_rule

_NO_DIFFERENCE = 1e-12  # difference of values per step that counts as none


def from_gymnasium(env: str | gymnasium.Env[Any, Any], *, horizon: int | None = None, **kwargs: Any) -> GymnasiumTable:  # noqa: ANN401
    """Return an environment of Gymnasium that has a table of transitions, as the `env` of an experiment.

    Rewards outside [0, 1] are mapped to it; the range of their means is printed to standard error. `build()` returns
    the arrays, the exact optimum and the exact value of any policy.

    env: an id, or a registered environment. horizon: steps per episode, by default the environment's time limit.
    kwargs: further arguments of gymnasium.make, max_episode_steps among them.

    Examples:
        >>> from_gymnasium("FrozenLake-v1", horizon=10, is_slippery=False)
        GymnasiumTable(env_id='FrozenLake-v1', horizon=10, kwargs='is_slippery=False')

    Raises UserError for an environment without a table, and for one that is too large.
    """
    try:
        spec = spec_of(env) if isinstance(env, str) else getattr(env, "spec", None)
    except ValueError as error:
        raise UserError(f"env: {error}") from None
    if spec is None:
        got = f"the class {env.__name__}" if isinstance(env, type) else f"an object of {type(env).__name__}"
        rule = "env: must be an id or an environment registered with Gymnasium"
        raise UserError(f"{rule}, got {got}; call gymnasium.register for its class, and pass the id")
    arguments: dict[str, Any] = {} if isinstance(env, str) else dict(spec.kwargs)
    try:
        if not isinstance(env, str):
            object_table, object_limit = table_of(env, spec.id)[1:]
            if object_limit is not None and object_limit != limit_of(spec.id, _written(arguments)):
                arguments["max_episode_steps"] = object_limit
        written = _written({**arguments, **kwargs})
        env_id = env if isinstance(env, str) else spec.id
        length = limit_of(env_id, written) if horizon is None else horizon
        if length is None:
            raise broken_rule("horizon", "is required, as the environment has none", None, "write e.g. horizon=20")
        found = GymnasiumTable(env_id, length.item() if hasattr(length, "item") else length, written)
        if not isinstance(env, str) and not kwargs and object_table != found.table:
            rule = "must have the table that gymnasium.make gives its id again"
            raise broken_rule("env", rule, repr(env), "register an environment with your table")
    except ValueError as error:
        raise UserError(f"env: {error}") from None
    low, high = found.reward_range
    if (low, high) != (0.0, 1.0):
        told = f"{spec.id}: mean rewards from {low:g} to {high:g} are mapped to 0 to 1; regret is in these units"
        print(told, file=sys.stderr)  # noqa: T201
    worst, best = found.value_range
    if best - worst < _NO_DIFFERENCE * found.horizon:
        print(f"{spec.id}: every policy earns the same in {found.horizon} steps; raise horizon", file=sys.stderr)  # noqa: T201
    return found


def _written(arguments: dict[str, Any]) -> str:
    """Return keyword arguments as in a call, with plain numbers and lists in place of those of NumPy."""
    plain = {key: value.tolist() if hasattr(value, "tolist") else value for key, value in arguments.items()}
    return ", ".join(f"{key}={value!r}" for key, value in plain.items())


def register_env(
    name: str, creator: Callable[..., gymnasium.Env[Any, Any]], *, max_episode_steps: int | None = None
) -> str:
    """Register an environment of your own for `env: {name: control, env_id: NAME}`, and return its name.

    It is like `gymnasium.register`, may be called again after a change, and also holds for Ray's workers.

    name: letters, digits and underscores, optionally with a version, e.g. MyShop-v0. creator: a class of environments,
    or a function that makes one; `kwargs` of the config are its arguments. max_episode_steps: limit of an episode.

    Examples:
        >>> import gymnasium
        >>> register_env("MyPole-v0", lambda: gymnasium.make("CartPole-v1"), max_episode_steps=50)
        'MyPole-v0'

    Raises UserError for another name.
    """
    gymnasium.registry.pop(name, None)
    try:
        gymnasium.register(name, creator, max_episode_steps=max_episode_steps)
    except (gymnasium.error.Error, TypeError) as error:
        why = " ".join(str(error).split())
        raise broken_rule("name", f"must be an id of Gymnasium ({why})", repr(name), "write e.g. MyShop-v0") from None
    return name
