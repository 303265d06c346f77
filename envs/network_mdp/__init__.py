"""Linear mixture MDPs of agents with sign features, with closed forms; the network of nodes of [TH23]."""

from __future__ import annotations

from dprl.envs.network_mdp.network import NetworkMDP
from dprl.envs.network_mdp.sparse import SignMixture

__all__ = ["NetworkMDP", "SignMixture"]
