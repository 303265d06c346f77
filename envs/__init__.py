"""Environments as arrays: rolled out by compiled code, solved exactly, registered with Gymnasium and PettingZoo."""

from __future__ import annotations

import gymnasium
import pettingzoo  # type: ignore[import-untyped]

from dprl.envs.base import Env, EnvConfig, FiniteMDP
from dprl.envs.checks import require_choice
from dprl.envs.deep_sea import DeepSea
from dprl.envs.episodes import FiniteMDPEnv
from dprl.envs.games import MarkovGame, Pursuit, RandomGame, RockPaperScissors, Soccer
from dprl.envs.games.parallel_env import MarkovGameEnv
from dprl.envs.garnet import Garnet
from dprl.envs.gridworld import GridWorld
from dprl.envs.random_mdp import RandomMDP
from dprl.envs.riverswim import RiverSwim

__all__ = [
    "ENVIRONMENTS",
    "GAMES",
    "MDPS",
    "DeepSea",
    "Env",
    "EnvConfig",
    "FiniteMDP",
    "FiniteMDPEnv",
    "Garnet",
    "GridWorld",
    "MarkovGame",
    "MarkovGameEnv",
    "Pursuit",
    "RandomGame",
    "RandomMDP",
    "RiverSwim",
    "RockPaperScissors",
    "Soccer",
    "make_game",
]

_MDPS: tuple[type[EnvConfig[FiniteMDP]], ...] = (RiverSwim, RandomMDP, Garnet, GridWorld, DeepSea)
_GAMES: tuple[type[EnvConfig[MarkovGame]], ...] = (RandomGame, RockPaperScissors, Soccer, Pursuit)

MDPS: dict[str, type[EnvConfig[FiniteMDP]]] = {spec.name: spec for spec in _MDPS}
GAMES: dict[str, type[EnvConfig[MarkovGame]]] = {spec.name: spec for spec in _GAMES}
ENVIRONMENTS: dict[str, type[EnvConfig[Env]]] = {**MDPS, **GAMES}


def make_episodes(environment: str, render_mode: None = None, **fields: float | str) -> FiniteMDPEnv:
    """Make the Gymnasium environment of a registry name; `fields` are those of its spec.

    Raises ValueError on another name, and as the spec does.
    """
    require_choice("environment", environment, MDPS)
    return FiniteMDPEnv(MDPS[environment](**fields).build(), render_mode)


def make_game(game: str, render_mode: None = None, **fields: float | str) -> MarkovGameEnv:
    """Make the PettingZoo environment of a registry name; `fields` are those of its spec.

    Raises ValueError on another name, and as the spec does.
    """
    require_choice("game", game, GAMES)
    return MarkovGameEnv(GAMES[game](**fields).build(), render_mode)


for _name, _spec in MDPS.items():
    gymnasium.register(
        id=f"dprl/{_spec.__name__}-v0",
        entry_point="dprl.envs:make_episodes",
        kwargs={"environment": _name},
    )

for _name, _game in GAMES.items():
    pettingzoo.register(
        "parallel", f"dprl/{_game.__name__}-v0", entry_point="dprl.envs:make_game", kwargs={"game": _name}
    )
