"""Algorithms given as one Python function of private counts, without compilation."""

from __future__ import annotations

import ast
import hashlib
import inspect
import keyword
import textwrap
from collections.abc import Callable
from dataclasses import field, make_dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from dprl.algorithms.base import Float64Array, Int64Array
from dprl.algorithms.tabular.learner import TabularMDPConfig
from dprl.algorithms.tabular.loop import learning_loop
from dprl.algorithms.tabular.simulator import play_stochastic, stochastic_regret
from dprl.envs import FiniteMDP
from dprl.privacy import CountPrivatizer, Streams
from dprl.privacy.queries.counts import Released

Planner = Callable[..., Int64Array | Float64Array]
_KINDS = (bool, int, float, str)
_GROWTH = 0.01


class PrivateCounts(NamedTuple):
    """Private counts as arrays, all that an algorithm sees of users; they may be negative or fractional.

    transitions float64[H, S, A, S']; visits float64[H, S, A]; rewards float64[H, S, A]: sums of rewards. users: number
    of counted episodes. error: bound on the errors of all counts of all releases, with probability 1 - beta at a
    precision_scale of 1. generator: for draws of the algorithm, with a stream of its own for every run and every
    number of users, so that a run with another seed draws anew and a resumed run draws the same numbers.
    """

    transitions: Float64Array
    visits: Float64Array
    rewards: Float64Array
    users: int
    error: float
    generator: np.random.Generator


class _Bonus(NamedTuple):
    """error: see `PrivateCounts`. settings: of the function. key: words that seed the run's generators."""

    error: float
    settings: dict[str, Any]
    key: tuple[int, ...] = ()


class _Tables(NamedTuple):
    """policy float64[H, S, A]; optimistic float64[S]: zeros, since nothing is known of the function's values."""

    policy: Float64Array
    optimistic: Float64Array


def algorithm_of(function: Planner) -> type[TabularMDPConfig]:
    """Return the settings of the algorithm that plans by `function(counts, **settings)`.

    counts: `PrivateCounts`. It returns the next policy: actions int64[H, S], or probabilities float64[H, S, A]. Its
    keyword arguments with a default (a number, text, or true or false) are keys of the config; its name is the
    algorithm's, and its docstring the description. It runs as plain Python, by default on the schedule of
    `replan_growth: 0.01`; users between two plans are then drawn at once.

    The digest of the function's code, and of all that it reads of its file, is the setting `source`: another version
    makes another cell. Comments, and code imported from other files, do not count. Raises ValueError for a function
    that does not fit.

    *Formal guarantee.* That of the counts: the function sees nothing else of users.
    """
    name, fields = function.__name__, _settings(function)
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError(f"an algorithm must be a named function, got {name!r}; write it with def")
    if getattr(function, "__closure__", None):
        raise ValueError(f"{name} must not read variables of an enclosing function; take them as keyword arguments")
    source, keys = _source(function), [key for key, _, _ in fields]

    def plan(counts: Released, bonus: _Bonus, tables: _Tables) -> tuple[bool, float]:
        policy = _checked(name, function(_private(counts, bonus, tables), **bonus.settings), tables.policy.shape)
        changed = not np.array_equal(policy, tables.policy)
        tables.policy[:] = policy
        return changed, 0.0

    def bonus(self: TabularMDPConfig, _: FiniteMDP, privatizer: CountPrivatizer, __: int) -> _Bonus:
        error = self.precision_scale * max(privatizer.precision(self.beta / 2.0).values())
        return _Bonus(error, {key: getattr(self, key) for key in keys})

    def bonus_of_run(self: Any, env: FiniteMDP, privatizer: CountPrivatizer, episodes: int, streams: Streams) -> _Bonus:  # noqa: ANN401
        key = tuple(int(word) for word in streams.key("exploration", "counts.generator"))
        return cast("_Bonus", self.bonus(env, privatizer, episodes)._replace(key=key))

    def tables(_: TabularMDPConfig, env: FiniteMDP, __: int) -> _Tables:
        return _Tables(np.full(env.rewards.shape, 1.0 / env.n_actions), np.zeros(env.n_states))

    def check(self: Any) -> None:  # noqa: ANN401
        TabularMDPConfig.__post_init__(self)
        if self.source != source:
            raise ValueError(f"source must be {source}, the digest of {name} now, got {self.source!r}; omit it")

    made = make_dataclass(
        name,
        [*fields, ("replan_growth", float, field(default=_GROWTH)), ("source", str, field(default=source))],
        bases=(TabularMDPConfig,),
        frozen=True,
        namespace={
            "__doc__": inspect.getdoc(function) or f"{name}, a Python function of private counts.",
            "__post_init__": check,
            "name": name,
            "plan": staticmethod(plan),
            "run": staticmethod(learning_loop(plan, play_stochastic, stochastic_regret)),
            "bonus": bonus,
            "bonus_of_run": bonus_of_run,
            "tables": tables,
        },
    )
    made.__module__ = function.__module__
    return cast("type[TabularMDPConfig]", made)


def _settings(function: Planner) -> list[tuple[str, type, Any]]:
    """Return the keys of a function's config: name, type and default. Raises ValueError."""
    known, found = inspect.signature(TabularMDPConfig).parameters, []
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters or parameters[0].default is not inspect.Parameter.empty:
        raise ValueError(f"{function.__name__} must take the private counts first; write def f(counts, *, width=1.0)")
    for each in parameters[1:]:
        if type(each.default) not in _KINDS or each.name in {*known, "source", "name", "label"}:
            rule = "must have a name of its own and a default that is a number, text, or true or false"
            raise ValueError(f"{each.name} of {function.__name__} {rule}; it is a key of the config")
        found.append((each.name, type(each.default), field(default=each.default)))
    return found


def _source(function: Planner) -> str:
    """Return 12 hex digits that change with the function's code and all that it reads of its file or notebook cell."""
    file = Path(inspect.getsourcefile(function) or "")
    try:
        text = file.read_text() if file.suffix == ".py" else textwrap.dedent(inspect.getsource(function))
        statements = ast.parse(text).body
    except (OSError, SyntaxError, ValueError):
        wrong = f"{function.__name__} must have a source that can be read"
        raise ValueError(f"{wrong}; write it in a file or a cell") from None
    code = "\n".join(map(ast.dump, _read_by(function.__name__, statements)))
    return hashlib.sha256(code.encode(errors="surrogatepass")).hexdigest()[:12]


_BY_NAME = {"globals", "locals", "vars", "exec", "eval", "setattr", "__import__", "importlib", "sys"}
"""With one of these, a file may set variables by names that are not in it."""


def _read_by(name: str, statements: list[ast.stmt]) -> list[ast.stmt]:
    """Return the statements of a module on which the value of `name` depends, as far as they can be told from it."""
    definitions = (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
    reads, binds = [], []
    for each in statements:
        parts = list(ast.walk(each))
        reads.append({part.id for part in parts if isinstance(part, ast.Name)})
        binds.append({part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)})
        binds[-1] |= {name for part in parts if isinstance(part, ast.Global) for name in part.names}
        binds[-1] |= {part.name for part in parts if isinstance(part, ast.FunctionDef | ast.ClassDef)}
        imported = [alias for part in parts if isinstance(part, ast.Import | ast.ImportFrom) for alias in part.names]
        binds[-1] |= {alias.asname or alias.name.partition(".")[0] for alias in imported}
    if any(_BY_NAME & names for names in [*reads, *binds]):
        return statements
    needed, changed_by_any, used = {name, "*"}, set[str](), set[int]()
    while new := {
        i for i in range(len(statements)) if i not in used and (needed & binds[i] or changed_by_any & reads[i])
    }:
        used |= new
        needed |= set().union(*(reads[i] for i in new))
        # A list or a table may also be changed by a statement that only mentions it.
        changed_by_any |= set().union(*(binds[i] for i in new if not isinstance(statements[i], definitions)))
    return [statements[i] for i in sorted(used)]


def _private(counts: Released, bonus: _Bonus, tables: _Tables) -> PrivateCounts:
    horizon, n_states, n_actions = tables.policy.shape
    values = counts.values.reshape((horizon, n_states + 2, n_states, n_actions)).copy()
    transitions = np.moveaxis(values[:, :n_states], 1, 3)
    users = int(counts.users)
    generator = np.random.default_rng([*bonus.key, users])
    return PrivateCounts(transitions, values[:, n_states], values[:, n_states + 1], users, bonus.error, generator)


def _checked(name: str, policy: object, shape: tuple[int, ...]) -> Float64Array:
    """Return a policy as probabilities float64[H, S, A]. Raises ValueError."""
    array = np.asarray(policy)
    if array.shape == shape[:2] and np.issubdtype(array.dtype, np.integer):
        if array.min() >= 0 and array.max() < shape[2]:
            return np.asarray(np.eye(shape[2])[array])
    elif array.shape == shape and np.issubdtype(array.dtype, np.floating):
        if bool((array >= 0.0).all()) and np.allclose(array.sum(axis=2), 1.0, atol=1e-9):
            return np.asarray(array / array.sum(axis=2, keepdims=True))
    else:
        rule = f"{name} must return actions, integers {shape[:2]}, or probabilities, floats {shape}"
        raise ValueError(f"{rule}, got {array.dtype} {array.shape}; return e.g. q.argmax(axis=2)")
    raise ValueError(f"{name} must return actions from 0 to {shape[2] - 1}, or probabilities that sum to 1; correct it")
