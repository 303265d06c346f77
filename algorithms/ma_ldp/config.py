"""Config of MA-LDP: the paper's settings, named options for its unstated choices, and the builder of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from dprl.algorithms.base import REGRET, SATURATED, Metric, Releases, check_choice, check_number
from dprl.algorithms.ma_ldp.graphs import FIXED_GRAPHS, GRAPHS, Complete, Gossip, Graph, RandomEdges
from dprl.algorithms.ma_ldp.learner import INDEFINITE, REWARD_ERROR, MALDPLearner
from dprl.algorithms.ma_ldp.rewards import RewardStep
from dprl.envs import Env, LinearMixtureMDP
from dprl.privacy import StatisticsLayout, StatisticsPrivacyConfig, StatisticsPrivatizer, Streams


@dataclass(frozen=True)
class MALDPConfig:
    """MA-LDP, decentralised agents who learn a linear mixture MDP from locally private statistics ([TH23] Algorithm 1).

    Args:
        bonus_scale: c >= 0, multiplies beta; 1 is the paper; it leaves the constants c_g, c_l, c_u and c_bl open.
        shift_scale: multiplies the shift that makes the noisy matrices positive definite; 1 is the proofs'.
        alpha: failure probability of the confidence bounds, in [1e-20, 1).
        value: reading of V in line 11, where others' actions are unknown: 'maxmin' over them, as in line 16, or
            the best 'joint' action, as in the Bellman equation of sec. 2.1.
        share: whether the n agents use one estimate, and send one message instead of n. They then have one value
            function, so it requires value: joint and privacy.rewards: public.
        reward_step, reward_decay: steps gamma_k = step * k^(-decay) for learning rewards, decay in (1/2, 1].
        graph: communication graph after each stage.
        edge_probability: of graph random_edges. gossip_over: the graph of gossip; one of its edges talks at a time.

    Paper: [TH23] Algorithm 1.
    """

    bonus_scale: float = 1.0
    shift_scale: float = 1.0
    alpha: float = 0.1
    value: Literal["maxmin", "joint"] = "maxmin"
    share: bool = False
    reward_step: float = RewardStep.step
    reward_decay: float = RewardStep.decay
    graph: str = Complete.name
    edge_probability: float = RandomEdges.edge_probability
    gossip_over: str = Gossip.over
    name: ClassVar[str] = "ma_ldp"
    plays: ClassVar[type[Env]] = LinearMixtureMDP
    releases: ClassVar[Releases] = "statistics"
    unit: ClassVar[Literal["episode", "submission"]] = "episode"
    metrics: ClassVar[tuple[Metric, ...]] = (REGRET, SATURATED, INDEFINITE, REWARD_ERROR)

    def __post_init__(self) -> None:
        check_number("bonus_scale", self.bonus_scale, 0.0)
        check_number("shift_scale", self.shift_scale, 0.0)
        check_number("alpha", self.alpha, 1e-20, 1.0)
        check_choice("value", self.value, ["maxmin", "joint"])
        if not isinstance(self.share, bool):
            raise ValueError(f"share must be true or false, got {self.share!r}; leave it out for false")
        if self.share and self.value != "joint":
            raise ValueError(
                f"value must be joint with share: true, got {self.value!r}; agents who take the worst of each other "
                "have value functions of their own: write value: joint and privacy.rewards: public"
            )
        self.steps.checked()
        check_choice("graph", self.graph, GRAPHS)
        check_choice("gossip_over", self.gossip_over, FIXED_GRAPHS)
        self.communication  # noqa: B018 - checks its own settings

    @property
    def covered_by(self) -> str | None:
        """None: the assumptions of the theorems on regret do not hold, see docs/ma_ldp.md."""
        return None

    @property
    def steps(self) -> RewardStep:
        """The step sizes for learning rewards."""
        return RewardStep(self.reward_step, self.reward_decay)

    @property
    def communication(self) -> Graph:
        """The communication graph. Raises ValueError for settings of another graph."""
        if self.graph != RandomEdges.name and self.edge_probability != RandomEdges.edge_probability:
            raise ValueError(
                f"edge_probability must be left out with graph {self.graph}, got {self.edge_probability!r}; "
                f"write graph: {RandomEdges.name}"
            )
        if self.graph != Gossip.name and self.gossip_over != Gossip.over:
            raise ValueError(
                f"gossip_over must be left out with graph {self.graph}, got {self.gossip_over!r}; write graph: gossip"
            )
        if self.graph == RandomEdges.name:
            return RandomEdges(self.edge_probability)
        return Gossip(self.gossip_over) if self.graph == Gossip.name else GRAPHS[self.graph]()

    def layout(self, env: LinearMixtureMDP) -> StatisticsLayout:
        """Return the layout of users' messages."""
        n = env.n_agents
        p = env.reward_features.shape[1]
        return StatisticsLayout(env.horizon, n * env.dimension, 1 if self.share else n, n, p)

    def privatizer(
        self, env: LinearMixtureMDP, privacy: StatisticsPrivacyConfig, episodes: int, streams: Streams
    ) -> StatisticsPrivatizer:
        """Return the privatizer of users 1..K-1; the last user's message could serve no later policy.

        Raises ValueError if the settings do not fit together.
        """
        found = privacy.build(self.layout(env), episodes - 1, streams)
        if self.share and found.query.rewards != "public":
            raise ValueError(
                f"share must be false with privacy.rewards: {found.query.rewards}, got True; agents who learn rewards "
                "believe different ones: write privacy.rewards: public"
            )
        return found

    def build(
        self, env: LinearMixtureMDP, privatizer: StatisticsPrivatizer, episodes: int, streams: Streams
    ) -> MALDPLearner:
        """Return a fresh learner."""
        return MALDPLearner(self, env, privatizer, episodes, streams)
