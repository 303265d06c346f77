"""Environments as arrays: rolled out by compiled code, solved exactly, registered with Gymnasium and PettingZoo."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from typing import Any, TypeVar

import gymnasium
import pettingzoo  # type: ignore[import-untyped]

from dprl.envs.base import Env, EnvConfig, FiniteMDP
from dprl.envs.cartpole import CartPoleGravity, CartPoleGravityEnv
from dprl.envs.checks import require_choice
from dprl.envs.control import Control, ControlTask, Episodes
from dprl.envs.control_log import ControlLog, LoggedControl, log_trajectories
from dprl.envs.deep_sea import DeepSea
from dprl.envs.episodes import FiniteMDPEnv, LinearMixtureEnv, MarkovGameEnv
from dprl.envs.games import MarkovGame, RandomGame, RockPaperScissors, Soccer
from dprl.envs.garnet import Garnet
from dprl.envs.gridworld import GridWorld
from dprl.envs.gymnasium_tables import GymnasiumTable
from dprl.envs.linear_mixture import (
    LinearMixture,
    LinearMixtureMDP,
    MixtureFile,
    MixtureRiverSwim,
    RandomMixture,
    from_arrays,
    mixture_of,
)
from dprl.envs.logged import Logged, LoggedEpisodes, log_episodes
from dprl.envs.network_mdp import NetworkMDP, SignMixture
from dprl.envs.random_mdp import RandomMDP
from dprl.envs.riverswim import RiverSwim

__all__ = [
    "CONTROLS",
    "CONTROL_LOGS",
    "ENVIRONMENTS",
    "GAMES",
    "LOGS",
    "MDPS",
    "MIXTURES",
    "TASKS",
    "CartPoleGravity",
    "CartPoleGravityEnv",
    "Control",
    "ControlLog",
    "ControlTask",
    "DeepSea",
    "Env",
    "EnvConfig",
    "Episodes",
    "FiniteMDP",
    "FiniteMDPEnv",
    "Garnet",
    "GridWorld",
    "GymnasiumTable",
    "LinearMixture",
    "LinearMixtureEnv",
    "LinearMixtureMDP",
    "Logged",
    "LoggedControl",
    "LoggedEpisodes",
    "MarkovGame",
    "MarkovGameEnv",
    "MixtureFile",
    "MixtureRiverSwim",
    "NetworkMDP",
    "RandomGame",
    "RandomMDP",
    "RandomMixture",
    "RiverSwim",
    "RockPaperScissors",
    "SignMixture",
    "Soccer",
    "enter",
    "fits",
    "from_arrays",
    "log_episodes",
    "log_trajectories",
    "make_game",
    "make_mixture",
    "mixture_of",
    "played",
]

E = TypeVar("E", bound=Env)

MDPS: dict[str, type[EnvConfig[FiniteMDP]]] = {
    spec.name: spec for spec in (RiverSwim, RandomMDP, Garnet, GridWorld, DeepSea, GymnasiumTable)
}
GAMES: dict[str, type[EnvConfig[MarkovGame]]] = {spec.name: spec for spec in (RandomGame, RockPaperScissors, Soccer)}
MIXTURES: dict[str, type[EnvConfig[LinearMixtureMDP]]] = {
    spec.name: spec for spec in (NetworkMDP, RandomMixture, MixtureRiverSwim, MixtureFile)
}
TASKS: dict[str, type[EnvConfig[CartPoleGravity]]] = {CartPoleGravity.name: CartPoleGravity}
CONTROLS: dict[str, type[EnvConfig[ControlTask]]] = {Control.name: Control}
LOGS: dict[str, type[EnvConfig[LoggedEpisodes]]] = {Logged.name: Logged}
CONTROL_LOGS: dict[str, type[EnvConfig[LoggedControl]]] = {ControlLog.name: ControlLog}
_REGISTRIES: dict[type[Env], dict[str, type[EnvConfig[Any]]]] = {
    FiniteMDP: MDPS,
    MarkovGame: GAMES,
    LinearMixtureMDP: MIXTURES,
    CartPoleGravity: TASKS,
    ControlTask: CONTROLS,
    LoggedEpisodes: LOGS,
    LoggedControl: CONTROL_LOGS,
}
"""Registry of each class of environments."""
ENVIRONMENTS: dict[str, type[EnvConfig[Env]]] = {
    name: spec for registry in _REGISTRIES.values() for name, spec in registry.items()
}

_MAKERS = {
    FiniteMDP.kind: "make_episodes or gymnasium.make",
    MarkovGame.kind: "make_game or pettingzoo.make",
    LinearMixtureMDP.kind: "make_mixture or pettingzoo.make",
    CartPoleGravity.kind: "gymnasium.make",
    ControlTask.kind: "gymnasium.make",
    LoggedEpisodes.kind: "algorithm logged_vi",
    LoggedControl.kind: "algorithm dp_bc",
}
"""Functions that make an environment, by kind."""


def fits(builds: type[Env], plays: type[Env]) -> bool:
    """Whether an algorithm that plays one class of environments can play another: see `played`."""
    return issubclass(builds, plays) or (plays is FiniteMDP and issubclass(builds, LinearMixtureMDP))


def played(env: Env, plays: type[Env]) -> Any:  # noqa: ANN401 - of the class `plays`
    """Return an environment as an algorithm plays it: a linear mixture MDP is also a finite MDP of joint actions."""
    return env.joint() if plays is FiniteMDP and isinstance(env, LinearMixtureMDP) else env


def make_episodes(environment: str, render_mode: None = None, **fields: float | str) -> FiniteMDPEnv:
    """Make the Gymnasium environment of a registry name; `fields` are those of its spec.

    Raises ValueError on another name, and as the spec does.

    >>> env = make_episodes("riverswim", n_states=4, horizon=5)
    >>> observation, info = env.reset(seed=0)
    >>> info
    {'state': 0, 'step': 0}
    """
    return FiniteMDPEnv(_described(MDPS, "environment", environment, fields).build(), render_mode)


def make_game(game: str, render_mode: None = None, **fields: float | str) -> MarkovGameEnv:
    """Make the PettingZoo environment of a registry name; `fields` are those of its spec.

    Raises ValueError on another name, and as the spec does.

    >>> env = make_game("rock_paper_scissors", horizon=3)
    >>> observations, infos = env.reset(seed=0)
    >>> observations, rewards, *_ = env.step({"max_player": 1, "min_player": 0})  # paper beats rock
    >>> rewards
    {'max_player': 1.0, 'min_player': -1.0}
    """
    return MarkovGameEnv(_described(GAMES, "game", game, fields).build(), render_mode)


def make_mixture(mixture: str, render_mode: None = None, **fields: float | str) -> LinearMixtureEnv:
    """Make the PettingZoo environment of a registry name; `fields` are those of its spec.

    Raises ValueError on another name, and as the spec does.
    """
    return LinearMixtureEnv(_described(MIXTURES, "mixture", mixture, fields).build(), render_mode)


def _described(
    registry: Mapping[str, type[EnvConfig[E]]], key: str, name: str, fields: Mapping[str, float | str]
) -> EnvConfig[E]:
    """Return the spec for a name and fields; raise ValueError if they are unknown."""
    if name in ENVIRONMENTS and name not in registry:
        kind = ENVIRONMENTS[name].builds.kind
        rule = f"{key} must be one of {', '.join(registry)}"
        raise ValueError(f"{rule}, got {name!r}, a {kind}; use {_MAKERS[kind]} for it")
    require_choice(key, name, registry)
    valid = [field.name for field in dataclasses.fields(registry[name])]  # type: ignore[arg-type]
    for field in fields:
        if field not in valid:
            near = difflib.get_close_matches(field, valid, 1)
            remedy = f"did you mean {near[0]!r}?" if near else "choose one of them"
            raise ValueError(f"{field} must be one of {', '.join(valid)}, the fields of {name}; {remedy}")
    return registry[name](**fields)


def enter(spec: type[EnvConfig[Any]]) -> None:
    """Register an environment under its name: in the registry of its kind, and with Gymnasium or PettingZoo.

    Raises ValueError for a kind that no algorithm plays.
    """
    registry = next((registry for kind, registry in _REGISTRIES.items() if issubclass(spec.builds, kind)), None)
    if registry is None:
        kinds = ", ".join(kind.__name__ for kind in _REGISTRIES)
        raise ValueError(f"builds must be one of {kinds}, got {spec.builds.__name__}; no algorithm plays anything else")
    if not callable(getattr(spec, "build", None)):
        raise ValueError(f"build must be a method of {spec.__name__}, got none; write one that returns the environment")
    registry[spec.name] = ENVIRONMENTS[spec.name] = spec
    _enter_elsewhere(spec)


def _enter_elsewhere(spec: type[EnvConfig[Env]]) -> None:
    """Register an environment with Gymnasium or PettingZoo under the name of its class."""
    name = f"dprl/{spec.__name__}-v0"
    if spec.name in MDPS:
        gymnasium.register(id=name, entry_point="dprl.envs:make_episodes", kwargs={"environment": spec.name})
    elif spec.name in GAMES:
        pettingzoo.register("parallel", name, entry_point="dprl.envs:make_game", kwargs={"game": spec.name})
    elif spec.name in MIXTURES:
        pettingzoo.register("parallel", name, entry_point="dprl.envs:make_mixture", kwargs={"mixture": spec.name})


for _spec in ENVIRONMENTS.values():
    _enter_elsewhere(_spec)

gymnasium.register(id="dprl/CartPoleGravity-v0", entry_point="dprl.envs:CartPoleGravityEnv")
