"""PGC-A3C as an algorithm of RLlib, and its config."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import ValueFunctionAPI
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule

from dprl.algorithms.base import Float64Array
from dprl.algorithms.pgc.aggregator import Batch, CollectionRules, LocalUpdate
from dprl.algorithms.pgc.collector import call_plan
from dprl.algorithms.pgc.on_rllib.algorithm import GradientCollection
from dprl.algorithms.pgc.on_rllib.config import Create, GradientCollectionConfig, unknown
from dprl.algorithms.pgc.on_rllib.env_runner import check_playable
from dprl.algorithms.pgc.on_rllib.parameters import n_parameters, write_parameters
from dprl.algorithms.pgc.scores import ScoreTracker
from dprl.algorithms.pgc.user_code import error_barrier
from dprl.algorithms.pgc_a3c.agent_batch import AgentBatch, agent_batch, run_agents
from dprl.algorithms.pgc_a3c.algorithm import PGCA3CConfig, exploration_rate
from dprl.algorithms.pgc_a3c.gradient import loss_tables
from dprl.algorithms.pgc_a3c.network import DIMENSION
from dprl.algorithms.pgc_a3c.on_rllib.module import ActorCriticModule
from dprl.envs import CartPoleGravity
from dprl.envs.control import from_space, to_space
from dprl.privacy import GradientLayout, GradientPrivatizer
from dprl.privacy.base import check_choice
from dprl.privacy.randomness.bits import splitmix64

_LARGEST_SEED = 2**31
_DRY_RUN_STEPS = 20
OBSERVED = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
"""Supported spaces of observations."""


@dataclass(frozen=True, eq=False)
class _Episode:
    """Trajectory of an agent in T steps. It is private: only a client's messages may leave.

    observations: [T + 1, ...], with the final one. actions: [T, ...]. rewards: float64[T].
    fallen: whether it ended in a terminal state, not by a time limit.
    """

    observations: np.ndarray = field(repr=False)
    actions: np.ndarray = field(repr=False)
    rewards: Float64Array = field(repr=False)
    fallen: bool = field(repr=False)


def play(
    env: gym.Env[Any, Any],
    module: TorchRLModule,
    explore: float,
    sampled: bool,
    rng: np.random.Generator,
    options: Mapping[str, Any],
    most_steps: int | None = None,
) -> _Episode:
    """Play one episode, or its first steps; all random draws come from `rng`.

    The module gets one observation at a time, so its bits do not depend on other agents.

    explore: alpha, the probability of a uniform random action. sampled: whether other actions are drawn from the
    policy; else they are its most probable ones. options: passed to env.reset; {'agent': n} has the agent's number.
    """
    observation, _ = env.reset(seed=int(rng.integers(_LARGEST_SEED)), options=dict(options))
    action_space: Any = env.action_space
    action_space.seed(int(rng.integers(_LARGEST_SEED)))
    observations, actions, rewards = [np.asarray(observation)], [], []
    while True:
        if explore > 0.0 and rng.random() < explore:
            action = from_space(action_space, np.asarray(action_space.sample())[np.newaxis])[0]
        else:
            action = _own_action(module, observations[-1], rng if sampled else None)
        sent: Any = to_space(action_space, np.asarray(action)[np.newaxis])[0]
        observation, reward, terminated, truncated, _ = env.step(sent if sent.ndim else sent.item())
        observations.append(np.asarray(observation))
        actions.append(action)
        rewards.append(float(reward))
        if terminated or truncated or len(rewards) == most_steps:
            return _Episode(np.stack(observations), np.stack(actions), np.array(rewards), bool(terminated))


def as_batch(observations: np.ndarray, module: TorchRLModule) -> dict[str, torch.Tensor]:
    """Return the batch of a module for observations [k, ...], floats in the module's own precision."""
    precision = next(module.parameters()).dtype
    tensor = torch.as_tensor(observations)
    return {Columns.OBS: tensor.to(precision) if tensor.is_floating_point() else tensor}


def _own_action(module: TorchRLModule, observation: np.ndarray, rng: np.random.Generator | None) -> np.ndarray:
    """Return the module's action: drawn from its distribution with `rng`, or else the most probable one."""
    with torch.no_grad():
        inputs = module.forward_inference(as_batch(observation[np.newaxis], module))[Columns.ACTION_DIST_INPUTS]
        distribution = module.get_exploration_action_dist_cls().from_logits(inputs)
        if rng is None:
            action = distribution.to_deterministic().sample()
        else:
            # Torch draws from its global generator only; its state is restored.
            with torch.random.fork_rng(devices=[]):
                torch.default_generator.manual_seed(int(rng.integers(_LARGEST_SEED)))
                action = distribution.sample()
        return np.asarray(action[0].numpy())


def _explorations(config: PGCA3CConfig, batch: Batch) -> list[float]:
    rate = getattr(exploration_rate, "py_func", exploration_rate)
    return [rate(config.exploration, config.fading, config.exploration_floor, slot) for slot in batch.slots.tolist()]


def compiled_update(config: PGCA3CConfig, lanes: AgentBatch) -> LocalUpdate:
    """Return the agents' side on CartPole; its episodes equal, bit for bit, those of the learner in one process.

    Paper: [OT20] Algorithm 1.
    """
    loss = loss_tables(config, lanes.horizon)

    def update(batch: Batch) -> tuple[Float64Array, Float64Array]:
        gradients, scores = np.zeros((len(batch.slots), DIMENSION)), np.zeros(len(batch.slots))
        alphas = np.array(_explorations(config, batch))
        start = batch.parameters, batch.version, batch.lease.submissions, batch.agents
        run_agents(lanes, loss, *start, alphas, gradients, scores)
        if config.reports == "noise":
            gradients[:] = 0.0
        return gradients, np.stack([scores, scores], axis=1)  # each step has reward 1

    return update


def torch_update(
    config: PGCA3CConfig,
    env: gym.Env[Any, Any],
    module: TorchRLModule,
    key: tuple[int, ...],
    agent_key: npt.NDArray[np.uint64],
) -> LocalUpdate:
    """Return the agents' side in any environment: one episode per submission, one agent after the other.

    An error during an agent's episode would reveal data, so no error is raised and the agent reports a zero gradient.

    config: settings of the algorithm; reward 'literal' is the environment's. key: words that seed the episodes.
    agent_key uint64[5]: key from which environments' numbers of agents are computed.

    Paper: [OT20] Algorithm 1 and eqs. (15), (16), (17) and (18).
    """
    first_buffers = [buffer.clone() for buffer in module.buffers()]

    def write_episode(out: Float64Array, agent: int, submission: int, alpha: float) -> tuple[float, int]:
        """Write the gradient of one agent's episode; return its score and its number of steps."""
        rng = np.random.Generator(np.random.Philox(np.random.SeedSequence((*key, submission))))
        # On CartPole with gravity this gives the same gravity as in the compiled lane.
        agent_id = int(splitmix64(agent_key, np.uint64(agent)))
        # No data of one agent may reach the next one's message: neither layer statistics nor draws.
        for buffer, first in zip(module.buffers(), first_buffers, strict=True):
            buffer.copy_(first)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(np.random.SeedSequence((*key, submission, 1)).generate_state(1)[0]))
            episode = play(env, module, alpha, config.acting == "sampled", rng, {"agent": agent_id})
            if config.reports == "gradient":
                out[:] = loss_gradient(module, episode, config)
        return float(episode.rewards.sum()), len(episode.rewards)

    def update(batch: Batch) -> tuple[Float64Array, Float64Array]:
        k, alphas, loaded = len(batch.slots), _explorations(config, batch), -1
        gradients, scores = np.zeros((k, n_parameters(module))), np.zeros((k, 2))
        for j, version in enumerate(batch.version.tolist()):
            if version != loaded:
                write_parameters(module, batch.parameters[version])
                loaded = version
            agent, submission = int(batch.agents[j]), int(batch.lease.submissions[j])
            with error_barrier():
                scores[j] = write_episode(gradients[j], agent, submission, alphas[j])
        return gradients, scores

    return update


def loss_gradient(module: TorchRLModule, episode: _Episode, config: PGCA3CConfig) -> Float64Array:
    """Return the gradient float64[d] of the loss over an episode, by one forward and one backward pass.

    Parameters without influence on the loss have zeros. Numbers that overflow come out as infinities or NaN.

    Paper: [OT20] eqs. (12) and (13), (15), (16), (17) and (18).
    """
    parameters = list(module.parameters())
    parts = torch.autograd.grad(
        episode_loss(module, episode, config), parameters, allow_unused=True, materialize_grads=True
    )
    flat: Float64Array = torch.cat([part.reshape(-1).to("cpu", torch.float64) for part in parts]).numpy()
    return flat


def episode_loss(module: TorchRLModule, episode: _Episode, config: PGCA3CConfig) -> torch.Tensor:
    """Return L of eq. (15), summed over the steps of an episode; see `PGCA3CConfig` for its readings."""
    steps, rewards = len(episode.rewards), episode.rewards
    if config.reward == "terminal":  # D18
        rewards = np.append(np.zeros(steps - 1), -1.0 if episode.fallen else 1.0)
    gained, later = np.zeros(steps), 0.0
    for t in reversed(range(steps)):
        later = rewards[t] + config.discount * later
        gained[t] = later
    powers, none = config.discount ** np.arange(steps, 0, -1.0), np.zeros(steps)
    of_advantage = none if config.bootstrap == "none" else powers
    of_target = {"none": none, "discounted": powers, "printed": np.ones(steps)}[config.bootstrap]  # D17
    batch = as_batch(episode.observations, module)
    output = module.forward_train(batch)
    values = module.compute_values(batch, embeddings=output.get(Columns.EMBEDDINGS))
    distribution = module.get_train_action_dist_cls().from_logits(output[Columns.ACTION_DIST_INPUTS][:steps])
    by_advantage, by_target, returns = torch.as_tensor(np.array([of_advantage, of_target, gained])).to(values.dtype)
    advantage = returns + by_advantage * values[steps] - values[:steps]
    target = returns + by_target * values[steps]
    if not config.differentiate:
        advantage, target = advantage.detach(), target.detach()
    of_policy: torch.Tensor = (distribution.logp(torch.as_tensor(episode.actions)) * advantage).sum()
    of_value: torch.Tensor = ((target - values[:steps]) ** 2).sum()
    entropy: torch.Tensor = distribution.entropy().sum()
    return config.value_weight * of_value - of_policy - config.entropy_weight * entropy


_CART_POLE = "dprl/CartPoleGravity-v0"
_LANES = ("auto", "compiled", "torch")
_AT_ONCE = 16  # Episodes played together; more do not fit into the processor's registers.


class PGCConfig(GradientCollectionConfig):
    """Settings of PGC-A3C on RLlib: `training` takes those of `PGCA3CConfig`, `env_runners` also takes `lane`.

    reward: by default 'terminal' on CartPole with gravity, and elsewhere 'literal', the environment's reward.
    staleness: by default it keeps all runners busy, see `call_plan` of `dprl.algorithms.pgc.collector`; with a fixed
    number, results do not depend on the number of runners. n_submissions: messages to be applied in all.
    submissions_per_iteration: messages per call of `train`.
    lane: 'compiled' for CartPole with gravity and the default module, 'torch' for all others, 'auto' to choose.
    agents_per_call is by default 24 with one runner, 12 with two, else 9, or fewer if a given staleness requires it.
    """

    _learning: ClassVar[Any] = PGCA3CConfig
    _of_module: ClassVar[frozenset[str]] = frozenset({"hidden", "parameters"})
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

    def _validate_learning(self) -> None:
        check_choice("lane", self.lane, _LANES)
        if self.lane == "compiled" and not self.on_cart_pole:
            rule = "lane must be torch or auto for another environment or module"
            raise ValueError(f"{rule}, got 'compiled'; choose auto")
        if self.padded and not self.compiled:
            raise ValueError(f"padded must be False in the torch lane, got {self.padded}; set round_seconds instead")
        CollectionRules(self.staleness or 0, self.buffer_size, 0.0).checked()
        self.learning_config()
        if self.compiled:
            self.cart_pole()

    def learning_config(self) -> PGCA3CConfig:
        settings = {name: getattr(self, name) for name in self.learning_names()}
        settings["staleness"] = self._call_plan()[1]
        settings["reward"] = self.reward or ("terminal" if self.env == _CART_POLE else "literal")
        return PGCA3CConfig(**settings)

    def _call_plan(self) -> tuple[int, int]:
        calls = self.max_requests_in_flight_per_env_runner
        return call_plan(self.num_env_runners or 0, calls, self.buffer_size, self.agents_per_call, self.staleness)

    @property
    def call_size(self) -> int:
        return self._call_plan()[0]

    @property
    def on_cart_pole(self) -> bool:
        """Whether the compiled lane supports environment and module."""
        return self.env == _CART_POLE and self._rl_module_spec is None and not self._model_config

    @property
    def compiled(self) -> bool:
        return self.lane != "torch" and self.on_cart_pole

    def cart_pole(self) -> CartPoleGravity:
        """Return the environment of the compiled lane; raises ValueError."""
        known = {entry.name for entry in fields(CartPoleGravity)}
        for key in self.env_config:
            if key not in known:
                raise ValueError(unknown(f"setting of {_CART_POLE}", key, known))
        return CartPoleGravity(**self.env_config)

    def layout(self, dimension: int) -> GradientLayout:
        return GradientLayout(dimension, self.buffer_size, self.uncovered_channels)

    def rules(self, privatizer: GradientPrivatizer) -> CollectionRules:  # noqa: ARG002 - as every algorithm
        return self.learning_config().rules

    def local_update(self, env: Any, module: TorchRLModule, create: Callable[[], Any]) -> LocalUpdate:  # noqa: ANN401, ARG002
        learning, streams = self.learning_config(), self.streams()
        if self.compiled:
            lanes, sampled = min(_AT_ONCE, self.call_size), learning.acting == "sampled"
            task = self.cart_pole().build()
            return compiled_update(learning, agent_batch(lanes, task, streams, sampled=sampled, padded=learning.padded))
        key = tuple(int(word) for word in streams.key("exploration", "episodes"))
        return torch_update(learning, env, module, key, streams.key("env", "gravity"))

    def dry_run(self, env: Any, module: TorchRLModule, create: Callable[[], Any]) -> None:  # noqa: ANN401, ARG002
        check_playable(env, module, *OBSERVED)
        if not isinstance(module, ValueFunctionAPI):
            rule = "rl_module must have the ValueFunctionAPI"
            raise ValueError(f"{rule}, got {type(module).__name__}; add compute_values to it")
        some = play(env, module, 0.0, False, np.random.default_rng(0), {}, _DRY_RUN_STEPS)
        loss_gradient(module, some, self.learning_config())

    def returns(
        self, env: gym.Env[Any, Any], module: TorchRLModule, create: Create, seeds: Sequence[int], sampled: bool
    ) -> list[float]:
        del create
        episodes = (play(env, module, 0.0, sampled, np.random.default_rng(seed), {}) for seed in seeds)
        return [float(episode.rewards.sum()) for episode in episodes]

    def score_metrics(self, tracker: ScoreTracker) -> dict[str, float]:
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

    results_key = "pgc"

    @classmethod
    def get_default_config(cls) -> PGCConfig:
        """Return the default settings; privacy has none and must be chosen."""
        # Not a class attribute: Ray follows those on export, and an environment may refer to itself.
        return PGCConfig()
