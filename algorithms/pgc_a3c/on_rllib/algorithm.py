"""PGC-A3C as an algorithm of RLlib, and its config."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypedDict, Unpack

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import ValueFunctionAPI
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule

from dprl.algorithms.base import Float64Array
from dprl.algorithms.pgc.aggregator import AggregatorConfig
from dprl.algorithms.pgc.base import Batch, LocalAgents
from dprl.algorithms.pgc.on_rllib.algorithm import GradientCollection
from dprl.algorithms.pgc.on_rllib.config import GradientCollectionConfig, unknown
from dprl.algorithms.pgc.on_rllib.env_runner import RolloutContext, check_playable
from dprl.algorithms.pgc.on_rllib.parameters import n_parameters, write_parameters
from dprl.algorithms.pgc.schedule import CallPlan, Schedule, call_plan
from dprl.algorithms.pgc.scores import ScoreTracker
from dprl.algorithms.pgc.user_code import ErrorBarrier
from dprl.algorithms.pgc_a3c.agent_batch import AgentBatch, Assignments, agent_batch, run_agents
from dprl.algorithms.pgc_a3c.algorithm import PGCA3CConfig, exploration_rate, exploration_rates
from dprl.algorithms.pgc_a3c.gradient import Loss
from dprl.algorithms.pgc_a3c.network import DIMENSION
from dprl.algorithms.pgc_a3c.on_rllib.episodes import OBSERVED, Episode, as_batch, dry_run, greedy_return, play
from dprl.algorithms.pgc_a3c.on_rllib.module import ActorCriticModule
from dprl.envs import CartPoleGravity
from dprl.privacy import GradientClient, GradientPrivatizer
from dprl.privacy.randomness.bits import splitmix64
from dprl.privacy.validation import check_choice


class _CompiledAgents(LocalAgents):
    """Agents' side of PGC-A3C on CartPole; its episodes equal, bit for bit, those of the learner in one process.

    *Formal guarantee.* The client's.

    Args:
        config: settings of the algorithm. lanes: plays the episodes. client, shows_scores: see `LocalAgents`.

    Paper: [OT20] Algorithm 1.
    """

    def __init__(self, config: PGCA3CConfig, lanes: AgentBatch, client: GradientClient, *, shows_scores: bool) -> None:
        super().__init__(client, shows_scores=shows_scores)
        self._lanes, self._behaviour = lanes, config.behaviour(lanes.horizon, 1)

    def _gradients(self, batch: Batch) -> tuple[Float64Array, Float64Array]:
        lease, explorations = batch.lease, exploration_rates(self._behaviour, batch.slots)
        assignments = Assignments(batch.parameters, batch.version, lease.submissions, lease.agents, explorations)
        gradients, scores = np.zeros((len(batch.slots), DIMENSION)), np.zeros(len(batch.slots))
        run_agents(self._lanes, self._behaviour.loss, assignments, gradients, scores)
        if self._behaviour.reports == 0:
            gradients[:] = 0.0
        return gradients, scores


class _Rollout(NamedTuple):
    """Environment, network and random keys of agents.

    key: words that seed the episodes. agent_key uint64[5]: key from which environments' numbers of agents are computed.
    """

    env: gym.Env[Any, Any]
    module: TorchRLModule
    key: tuple[int, ...]
    agent_key: npt.NDArray[np.uint64]


class _TorchAgents(LocalAgents):
    """Agents' side of PGC-A3C: one episode per submission, one agent after the other.

    *Formal guarantee.* The client's. An error during an agent's episode would reveal data, so no error is raised and
    the agent reports a zero gradient.

    Args:
        config: settings of the algorithm; reward 'literal' is the environment's. rollout: their environment and
        network. client, shows_scores: see `LocalAgents`.

    Paper: [OT20] Algorithm 1 and eqs. (15), (16), (17) and (18).
    """

    def __init__(self, config: PGCA3CConfig, rollout: _Rollout, client: GradientClient, *, shows_scores: bool) -> None:
        super().__init__(client, shows_scores=shows_scores)
        if not isinstance(rollout.module, ValueFunctionAPI):
            found = type(rollout.module).__name__
            raise ValueError(f"rl_module must have the ValueFunctionAPI, got {found}; add compute_values to it")
        check_playable(rollout.env, rollout.module, *OBSERVED)
        self._config, self._rollout = config, rollout
        self._buffers = [buffer.clone() for buffer in rollout.module.buffers()]

    def _gradients(self, batch: Batch) -> tuple[Float64Array, Float64Array]:
        module, k = self._rollout.module, len(batch.slots)
        gradients, scores = np.zeros((k, n_parameters(module))), np.zeros(k)
        loaded = -1
        for j, version in enumerate(batch.version.tolist()):
            if version != loaded:
                write_parameters(module, batch.parameters[version])
                loaded = version
            agent, submission = int(batch.lease.agents[j]), int(batch.lease.submissions[j])
            with ErrorBarrier():
                scores[j] = self._update(gradients[j], agent, submission, int(batch.slots[j]))
        return gradients, scores

    def _update(self, out: Float64Array, agent: int, submission: int, slot: int) -> float:
        """Write the gradient of one agent's episode; return its score."""
        config, (env, module, key, agent_key) = self._config, self._rollout
        explore, sampled = exploration_rate(config.behaviour(1, 1), slot), config.acting == "sampled"
        rng = np.random.Generator(np.random.Philox(np.random.SeedSequence((*key, submission))))
        # On CartPole with gravity this gives the same gravity as in the compiled lane.
        agent_id = int(splitmix64(agent_key, np.uint64(agent)))
        # No data of one agent may reach the next one's message: neither layer statistics nor draws.
        for buffer, first in zip(module.buffers(), self._buffers, strict=True):
            buffer.copy_(first)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(np.random.SeedSequence((*key, submission, 1)).generate_state(1)[0]))
            episode = play(env, module, explore, sampled, rng, {"agent": agent_id})
            if config.reports == "gradient":
                out[:] = loss_gradient(module, episode, config.loss)
        return float(episode.rewards.sum())


def loss_gradient(module: TorchRLModule, episode: Episode, loss: Loss) -> Float64Array:
    """Return the gradient float64[d] of the loss over an episode, by one forward and one backward pass.

    Parameters without influence on the loss have zeros. Numbers that overflow come out as infinities or NaN.

    Paper: [OT20] eqs. (12) and (13), (15), (16), (17) and (18).
    """
    parameters = list(module.parameters())
    parts = torch.autograd.grad(
        episode_loss(module, episode, loss), parameters, allow_unused=True, materialize_grads=True
    )
    flat: Float64Array = torch.cat([part.reshape(-1).to("cpu", torch.float64) for part in parts]).numpy()
    return flat


def episode_loss(module: TorchRLModule, episode: Episode, loss: Loss) -> torch.Tensor:
    """Return L of eq. (15), summed over the steps of an episode; see `Loss` for its readings."""
    steps = len(episode.rewards)
    batch = as_batch(episode.observations, module)
    output = module.forward_train(batch)
    values = module.compute_values(batch, embeddings=output.get(Columns.EMBEDDINGS))
    distribution = module.get_train_action_dist_cls().from_logits(output[Columns.ACTION_DIST_INPUTS][:steps])
    by_advantage, by_target, returns = (
        torch.as_tensor(numbers).to(values.dtype) for numbers in _constants(episode, loss)
    )
    advantage = returns + by_advantage * values[steps] - values[:steps]
    target = returns + by_target * values[steps]
    if not loss.differentiate:
        advantage, target = advantage.detach(), target.detach()
    of_policy: torch.Tensor = (distribution.logp(torch.as_tensor(episode.actions)) * advantage).sum()
    of_value: torch.Tensor = ((target - values[:steps]) ** 2).sum()
    entropy: torch.Tensor = distribution.entropy().sum()
    return loss.value_weight * of_value - of_policy - loss.entropy_weight * entropy


def _constants(episode: Episode, loss: Loss) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Return the factors of V(s_T) in the advantage and in the target, and the returns, each float64[T]."""
    steps = len(episode.rewards)
    rewards = episode.rewards
    if loss.reward == "terminal":  # D18
        rewards = np.zeros(steps)
        rewards[-1] = -1.0 if episode.fallen else 1.0
    returns, later = np.zeros(steps), 0.0
    for t in reversed(range(steps)):
        later = rewards[t] + loss.discount * later
        returns[t] = later
    powers = loss.discount ** np.arange(steps, 0, -1.0)
    none = np.zeros(steps)
    by_advantage = none if loss.bootstrap == "none" else powers
    by_target = {"none": none, "discounted": powers, "printed": np.ones(steps)}[loss.bootstrap]  # D17
    return by_advantage, by_target, returns


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
            return _CompiledAgents(learning, agents, client, shows_scores=self.shows_scores)
        key = tuple(int(word) for word in streams.key("exploration", "episodes"))
        rollout = _Rollout(context.env, context.module, key, streams.key("env", "gravity"))
        return _TorchAgents(learning, rollout, client, shows_scores=self.shows_scores)

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
