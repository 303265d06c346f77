"""Policies of finished runs, as plain callables and as RLModules of RLlib."""

from __future__ import annotations

from dprl.platform.policies.actor_critic import ActorCriticPolicy
from dprl.platform.policies.control import ControlPolicy
from dprl.platform.policies.game import GamePolicy
from dprl.platform.policies.loading import load_policy
from dprl.platform.policies.tabular import AgentPolicy, TabularPolicy
from dprl.platform.policies.team import TeamPolicy

PlayerPolicy = AgentPolicy
"""Name of AgentPolicy for the two players of a Markov game."""

# rl_module and multi_agent are not imported here: torch and RLlib take seconds, and a plain callable needs neither.
__all__ = [
    "ActorCriticPolicy",
    "AgentPolicy",
    "ControlPolicy",
    "GamePolicy",
    "PlayerPolicy",
    "TabularPolicy",
    "TeamPolicy",
    "load_policy",
]
