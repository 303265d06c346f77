"""Policies of finished runs, as plain callables and as RLModules of RLlib."""

from __future__ import annotations

from dprl.platform.policies.loading import load_policy
from dprl.platform.policies.networks import ActorCriticPolicy, ControlPolicy
from dprl.platform.policies.tabular import AgentPolicy, GamePolicy, TabularPolicy, TeamPolicy

# rl_module and multi_agent are not imported here: torch and RLlib take seconds, and a plain callable needs neither.
__all__ = [
    "ActorCriticPolicy",
    "AgentPolicy",
    "ControlPolicy",
    "GamePolicy",
    "TabularPolicy",
    "TeamPolicy",
    "load_policy",
]
