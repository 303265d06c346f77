"""Environments as arrays: rolled out by compiled code, solved exactly, registered with Gymnasium."""

from __future__ import annotations

import gymnasium

from dprl.envs.base import EnvConfig, FiniteMDP
from dprl.envs.deep_sea import DeepSea
from dprl.envs.episodes import FiniteMDPEnv
from dprl.envs.garnet import Garnet
from dprl.envs.gridworld import GridWorld
from dprl.envs.random_mdp import RandomMDP
from dprl.envs.riverswim import RiverSwim

__all__ = [
    "ENVIRONMENTS",
    "DeepSea",
    "EnvConfig",
    "FiniteMDP",
    "FiniteMDPEnv",
    "Garnet",
    "GridWorld",
    "RandomMDP",
    "RiverSwim",
]

ENVIRONMENTS: dict[str, type[EnvConfig]] = {
    spec.name: spec for spec in (RiverSwim, RandomMDP, Garnet, GridWorld, DeepSea)
}


def make_episodes(environment: str, render_mode: None = None, **fields: float | str) -> FiniteMDPEnv:
    """Make the Gymnasium environment of a registry name; `fields` are those of its spec."""
    return FiniteMDPEnv(ENVIRONMENTS[environment](**fields).build(), render_mode)


for _name, _spec in ENVIRONMENTS.items():
    gymnasium.register(
        id=f"dprl/{_spec.__name__}-v0",
        entry_point="dprl.envs:make_episodes",
        kwargs={"environment": _name},
    )
