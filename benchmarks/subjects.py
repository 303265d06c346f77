"""Subjects of the tabular benchmark: two MDPs, three trust models, and the learners on them.

As a program it times one private episode in a fresh process and prints a line of JSON.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from benchmarks.naive_ucb_po import NaiveUCBPO
from benchmarks.naive_ucb_vi import NaiveUCBVI, Settings
from dprl.algorithms import PrivateUCBPOConfig, PrivateUCBVIConfig, TabularLearner, TabularMDPConfig
from dprl.envs import FiniteMDP, RandomMDP, RiverSwim
from dprl.privacy import CountPrivacy, CountPrivatizer, Streams

PLANNED_EPISODES = 1_000_000
Model = Literal["none", "jdp", "ldp"]
MODELS: tuple[Model, ...] = ("none", "jdp", "ldp")


@dataclass(frozen=True)
class Subject:
    """An algorithm: our settings of it, and the NumPy program."""

    settings: TabularMDPConfig
    naive: type[NaiveUCBVI]

    @property
    def name(self) -> str:
        return self.settings.name

    def privatizer(self, mdp: FiniteMDP, model: Model, episodes: int) -> CountPrivatizer:
        """Return the certified privatizer of a run of `episodes` episodes; the last user sends nothing."""
        return self.settings.privatizer(mdp, trust(model), episodes, Streams(0, "benchmark"))

    def ours(self, mdp: FiniteMDP, model: Model, episodes: int) -> TabularLearner:
        """Our learner, built for `episodes` episodes and compiled."""
        learner: TabularLearner = built(self.settings, mdp, trust(model), episodes)
        learner.learn(1)
        return learner

    def yardstick(self, mdp: FiniteMDP, model: Model, episodes: int) -> NaiveUCBVI:
        """A NumPy learner with the same noise scale, precisions and bonus."""
        settings = Settings.of(self.privatizer(mdp, model, episodes), self.settings)
        return self.naive(mdp, episodes, settings, np.random.default_rng(0))


# Small scales keep the optimistic values below their cap, so that the policy changes and its exact value is computed
# repeatedly, the more expensive case. At scale 1 and these K all cells are saturated and the policy never changes.
UCB_VI = Subject(PrivateUCBVIConfig(bonus_scale=0.01, precision_scale=0.01), NaiveUCBVI)
UCB_PO = Subject(PrivateUCBPOConfig(bonus_scale=0.01, precision_scale=0.01), NaiveUCBPO)
SUBJECTS = (UCB_VI, UCB_PO)


def riverswim() -> FiniteMDP:
    """RiverSwim with S = 6, A = 2, H = 20."""
    return RiverSwim(n_states=6, horizon=20).build()


def random_mdp() -> FiniteMDP:
    """Return a random MDP with S = 20, A = 4, H = 20; all steps are alike, because rlberry knows no other MDPs."""
    drawn = RandomMDP(n_states=20, n_actions=4, horizon=20).build()
    transitions = np.broadcast_to(drawn.transitions[:1], drawn.transitions.shape)
    rewards = np.broadcast_to(drawn.rewards[:1], drawn.rewards.shape)
    return FiniteMDP("random S20 A4 H20", transitions, rewards, drawn.start)


def built(config: Any, env: Any, privacy: Any, episodes: int, seed: int = 0) -> Any:  # noqa: ANN401 - any algorithm
    """Return the learner of a config with its certified privatizer."""
    streams = Streams(seed, "benchmark")
    return config.build(env, config.privatizer(env, privacy, episodes, streams), episodes, streams)


def trust(model: Model, epsilon: float = 1.0) -> CountPrivacy | CountPrivacy | CountPrivacy:
    """The paper's mechanism, certified: the straightforward programs have no other."""
    if model == "none":
        return CountPrivacy("none")
    if model == "jdp":
        return CountPrivacy("jdp", epsilon, counter="binary_tree", families="separate")
    return CountPrivacy("ldp", epsilon, families="separate", mechanism="laplace")


if __name__ == "__main__":
    imported = time.process_time()
    UCB_VI.ours(riverswim(), "jdp", episodes=1000)
    print(json.dumps({"import": imported, "first_episode": time.process_time() - imported}))
