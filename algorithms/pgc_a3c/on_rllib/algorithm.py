"""PGC-A3C as an algorithm of RLlib, and its config."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, ClassVar, Literal, Self, TypedDict, Unpack

from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule

from dprl.algorithms.base import Float64Array
from dprl.algorithms.pgc.aggregator import AggregatorConfig
from dprl.algorithms.pgc.base import LocalAgents
from dprl.algorithms.pgc.on_rllib.algorithm import GradientCollection
from dprl.algorithms.pgc.on_rllib.config import GradientCollectionConfig, unknown
from dprl.algorithms.pgc.on_rllib.env_runner import RolloutContext, check_playable
from dprl.algorithms.pgc.schedule import CallPlan, Schedule, call_plan
from dprl.algorithms.pgc.scores import ScoreTracker
from dprl.algorithms.pgc_a3c.agent_batch import agent_batch
from dprl.algorithms.pgc_a3c.algorithm import PGCA3CConfig
from dprl.algorithms.pgc_a3c.on_rllib.agents import CompiledAgents, Rollout, TorchAgents
from dprl.algorithms.pgc_a3c.on_rllib.episodes import OBSERVED, dry_run, greedy_return
from dprl.algorithms.pgc_a3c.on_rllib.module import ActorCriticModule
from dprl.envs import CartPoleGravity
from dprl.privacy import GradientClient, GradientPrivatizer
from dprl.privacy.validation import check_choice

_CART_POLE = "dprl/CartPoleGravity-v0"
_LANES = ("auto", "compiled", "torch")
# Episodes played together; more do not fit into the processor's registers.
_AT_ONCE = 16


class _TrainingSettings(TypedDict, total=False):
    """Arguments of `training`: the settings of `PGCA3CConfig`, and the length of a run."""

    learning_rate: float
    buffer_size: int
    halving: float
    staleness: int | None
    discount: float
    value_weight: float
    entropy_weight: float
    exploration: float
    fading: float
    exploration_floor: float
    acting: Literal["greedy", "sampled"]
    reward: Literal["terminal", "literal"]
    bootstrap: Literal["discounted", "printed", "none"]
    differentiate: bool
    initial: Literal["normal", "glorot"]
    initial_scale: float
    target: float
    reports: Literal["gradient", "noise"]
    padded: bool
    n_submissions: int
    submissions_per_iteration: int


class PGCConfig(GradientCollectionConfig):
    """Settings of PGC-A3C on RLlib; `env_runners` also takes `lane`.

    lane: 'compiled' for CartPole with gravity and the default module, 'torch' for all others, 'auto' to choose.
    agents_per_call is by default 24 with one runner, 12 with two, else 9, or fewer if a given staleness requires it.
    """

    _learning: ClassVar[Any] = PGCA3CConfig
    _models: ClassVar[tuple[str, ...]] = ("none", "ldp")
    _for_runners: ClassVar[tuple[str, ...]] = ("agents_per_call", "lane")

    @classmethod
    def _algorithm_class(cls) -> type:
        return PGC

    def _set_defaults(self) -> None:
        self.reward: str | None = None
        self.staleness: int | None = None
        self.n_submissions, self.submissions_per_iteration = 90_000, 1000
        self.lane = "auto"
        self.env = _CART_POLE

    def training(self, **settings: Unpack[_TrainingSettings]) -> Self:
        """Set the learning settings and the length of the run; see `PGCA3CConfig`.

        reward: by default 'terminal' on CartPole with gravity, and elsewhere 'literal', the environment's reward.
        staleness: by default it keeps all runners busy, see `call_plan` of `dprl.algorithms.pgc.schedule`; with a fixed
        number, results do not depend on the number of runners. n_submissions: messages to be applied in all.
        submissions_per_iteration: messages per call of `train`.
        """
        return self._set("training", settings, _TrainingSettings.__annotations__)

    def _validate_learning(self) -> None:
        check_choice("lane", self.lane, _LANES)
        Schedule(self.staleness or 0, self.buffer_size).checked()
        self.learning_config()
        if self.compiled:
            self.cart_pole()

    def _validate_runners(self) -> None:
        super()._validate_runners()
        if self.lane == "compiled" and not self.on_cart_pole:
            raise ValueError(
                "lane must be torch or auto for another environment or module, got 'compiled'; choose auto"
            )
        if self.padded and not self.compiled:
            raise ValueError(f"padded must be False in the torch lane, got {self.padded}; set round_seconds instead")

    def learning_config(self) -> PGCA3CConfig:
        """Return the settings of the algorithm. Raises ValueError."""
        settings = {name: getattr(self, name) for name in self.learning_names()}
        settings["staleness"] = self.call_plan.staleness
        settings["reward"] = self.reward or ("terminal" if self.env == _CART_POLE else "literal")
        return PGCA3CConfig(**settings)

    @property
    def call_plan(self) -> CallPlan:
        """The number of agents per call and the staleness, a function of the settings; raises ValueError."""
        calls = self.max_requests_in_flight_per_env_runner
        return call_plan(self.num_env_runners or 0, calls, self.buffer_size, self.agents_per_call, self.staleness)

    @property
    def on_cart_pole(self) -> bool:
        """Whether the compiled lane supports environment and module."""
        return self.env == _CART_POLE and self._rl_module_spec is None and not self._model_config

    @property
    def compiled(self) -> bool:
        """Whether agents play in the compiled lane."""
        return self.lane != "torch" and self.on_cart_pole

    def cart_pole(self) -> CartPoleGravity:
        """Return the environment of the compiled lane; raises ValueError."""
        known = {entry.name for entry in fields(CartPoleGravity)}
        for key in self.env_config:
            if key not in known:
                raise ValueError(unknown(f"setting of {_CART_POLE}", key, known))
        return CartPoleGravity(**self.env_config)

    def rules(self, privatizer: GradientPrivatizer) -> AggregatorConfig:  # noqa: ARG002 - as every algorithm
        """Return the rules of the aggregator. Raises ValueError."""
        learning = self.learning_config()
        return AggregatorConfig(learning.schedule, learning.step)

    def agents(self, context: RolloutContext, client: GradientClient) -> LocalAgents:
        """Return the agents' side, for a runner. Raises ValueError."""
        learning, streams = self.learning_config(), self.streams()
        if self.compiled:
            lanes, sampled = min(_AT_ONCE, self.call_plan.agents_per_call), learning.acting == "sampled"
            agents = agent_batch(lanes, self.cart_pole().build(), streams, sampled=sampled, padded=learning.padded)
            return CompiledAgents(learning, agents, client, shows_scores=self.shows_scores)
        key = tuple(int(word) for word in streams.key("exploration", "episodes"))
        rollout = Rollout(context.env, context.module, key, streams.key("env", "gravity"))
        return TorchAgents(learning, rollout, client, shows_scores=self.shows_scores)

    def dry_run(self, context: RolloutContext) -> None:
        """Raise errors of environment and module before there are agents; later errors would reveal data."""
        check_playable(context.env, context.module, *OBSERVED)
        dry_run(context.env, context.module)

    def greedy_returns(self, context: RolloutContext, seeds: Sequence[int]) -> list[float]:
        """Return the sum of rewards of an episode of the most probable actions for each seed, without agents."""
        return [greedy_return(context.env, context.module, seed) for seed in seeds]

    def score_tracker(self) -> ScoreTracker:
        """Return the tracker of the scores of a simulation."""
        return ScoreTracker.empty(self.target)

    def score_metrics(self, tracker: ScoreTracker) -> dict[str, float]:
        """Return the metrics of [OT20]."""
        return tracker.metrics(self.n_submissions)

    def initial_parameters(self, module: TorchRLModule, spaces: Any) -> Float64Array:  # noqa: ANN401 - RLlib's
        """Return the initial parameters float64[d]; those of the default module are drawn by `PGCA3CConfig`."""
        if self.on_cart_pole and type(module) is ActorCriticModule:
            return self.learning_config().initial_parameters(self.streams())
        return super().initial_parameters(module, spaces)

    def get_default_rl_module_spec(self) -> RLModuleSpec:
        """Return the spec of `ActorCriticModule`."""
        return RLModuleSpec(module_class=ActorCriticModule)


class PGC(GradientCollection):
    """Private gradient collection with an actor-critic on RLlib: `PGCConfig().privacy(...).build_algo().train()`.

    Paper: [OT20] Algorithm 1.
    """

    config_class = PGCConfig
    results_key = "pgc"
