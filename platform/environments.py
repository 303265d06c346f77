"""Environments of Gymnasium and of users, as the `env` of an experiment."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pandas as pd

from dprl.envs import GymnasiumTable, Logged, log_episodes
from dprl.envs.gymnasium_ids import spec_of
from dprl.envs.gymnasium_tables import limit_of, table_of
from dprl.platform.errors import UserError, broken_rule

_NO_DIFFERENCE = 1e-12
"""Difference of values per step that counts as none."""


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
        raise UserError(
            f"env: must be an id or an environment registered with Gymnasium, got {got}; call gymnasium.register for "
            "its class, and pass the id"
        )
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
        found = GymnasiumTable(env_id, _plain(length), written)
        if not isinstance(env, str) and not kwargs and object_table != found.table:
            rule = "must have the table that gymnasium.make gives its id again"
            raise broken_rule("env", rule, repr(env), "register an environment with your table")
    except ValueError as error:
        raise UserError(f"env: {error}") from None
    low, high = found.reward_range
    if (low, high) != (0.0, 1.0):
        print(f"{spec.id}: mean rewards from {low:g} to {high:g} are mapped to 0 to 1", file=sys.stderr)  # noqa: T201
    worst, best = found.value_range
    if best - worst < _NO_DIFFERENCE * found.horizon:
        print(f"{spec.id}: every policy earns the same in {found.horizon} steps; raise horizon", file=sys.stderr)  # noqa: T201
    return found


def _plain(value: Any) -> Any:  # noqa: ANN401
    """Return a value with plain numbers, texts and lists in place of those of NumPy."""
    if isinstance(value, dict):
        return {_plain(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_plain, value))
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _written(arguments: dict[str, Any]) -> str:
    """Return keyword arguments as in a call."""
    return ", ".join(f"{key}={_plain(value)!r}" for key, value in arguments.items())


def log_csv(
    file: str | Path,
    *,
    user: str,
    state: str = "state",
    action: str = "action",
    reward: str = "reward",
    step: str | None = None,
    next_state: str | None = None,
    terminated: str | None = None,
    truncated: str | None = None,
    out: str | Path | None = None,
    **settings: Any,  # noqa: ANN401
) -> Logged:
    """Write the steps of real users in a CSV file as `log_episodes` does; return the `env` of an experiment.

    A row is one step of one user, and all rows of a user are one episode.

    Args:
        file: the CSV file, with a header. user, state, action, reward: its columns; states and actions are integers
            that count from 0. step: column to sort a user's rows by; None: they are in order. next_state: column of the
            state after the step. The last one of a user counts; it may be empty, and is needed only after an episode
            that was cut before `horizon`. terminated, truncated: columns of flags, true at the end of an episode or at
            a cut. out: file to write, by default that of the CSV file with the ending .npz. settings: n_states,
            n_actions, horizon, stationary, start and reward_range of `log_episodes`.

    docs/offline_vi.md has an example. Raises UserError for invalid input, before anything is written; the message
    contains no value of a user's record.
    """
    file, flags = Path(file), {"terminations": terminated, "truncations": truncated}
    columns = [name for name in (user, state, action, reward, step, next_state, *flags.values()) if name is not None]
    try:
        known = pd.read_csv(file, nrows=0).columns
        missing = [name for name in columns if name not in known]
        table = pd.DataFrame() if missing else pd.read_csv(file, usecols=columns)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or type(error).__name__
        raise UserError(f"file: must be a CSV file with a header, got {str(file)!r} ({why}); correct it") from None
    if missing:
        raise UserError(f"columns: must be among {', '.join(map(str, known))}, got {missing[0]!r}; name the right one")
    if table[user].isna().any():
        raise UserError(f"{user}: must be given in every row, got none in one; a step without a user is nobody's")
    if step is not None:
        if table.duplicated([user, step]).any():
            raise UserError(f"{step}: must be different in all rows of a user, got one twice; keep one row a step")
        table = table.sort_values(step, kind="stable")
    episodes = []
    for _, rows in table.groupby(user, sort=False):
        episode = {"observations": rows[state].to_numpy(), "actions": rows[action].to_numpy()}
        if next_state is not None:
            after = rows[next_state].to_numpy()
            if (after[:-1] != episode["observations"][1:]).any():
                raise UserError(f"{next_state}: must be {state} of the user's next row, got another one; add the steps")
            if not pd.isna(after[-1]):  # empty cells make a column of floats
                last = int(after[-1]) if after.dtype.kind == "f" and float(after[-1]).is_integer() else after[-1]
                episode["observations"] = np.append(episode["observations"], last)
        given = {flag: rows[column].to_numpy() for flag, column in flags.items() if column is not None}
        episodes.append({**episode, "rewards": rows[reward].to_numpy(), **given})
    try:
        return log_episodes(episodes, file.with_suffix(".npz") if out is None else out, **settings)
    except ValueError as error:
        raise UserError(f"log: {error}") from None


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
