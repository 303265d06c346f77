"""Linear mixture MDPs of cooperating agents as sparse lists, solved exactly; the network of nodes of [TH23]."""

from __future__ import annotations

from dprl.envs.network_mdp.base import LinearMixtureMDP
from dprl.envs.network_mdp.network import NetworkMDP

__all__ = ["LinearMixtureMDP", "NetworkMDP"]
