"""DPPG as an algorithm of RLlib, and its config."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypedDict, Unpack

import gymnasium as gym
import numpy as np
import torch
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray
from ray.rllib.algorithms.ppo.ppo_catalog import PPOCatalog
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import ValueFunctionAPI
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from ray.tune.registry import ENV_CREATOR, _global_registry
from torch.func import functional_call

from dprl.algorithms.base import Float64Array, check_whole
from dprl.algorithms.dppg.algorithm import DPPGConfig as Learning
from dprl.algorithms.dppg.updates import updates
from dprl.algorithms.pgc.aggregator import AggregatorConfig
from dprl.algorithms.pgc.base import Batch, LocalAgents
from dprl.algorithms.pgc.on_rllib.algorithm import GradientCollection
from dprl.algorithms.pgc.on_rllib.config import GradientCollectionConfig
from dprl.algorithms.pgc.on_rllib.env_runner import RolloutContext, check_playable
from dprl.algorithms.pgc.on_rllib.parameters import read_parameters, write_parameters
from dprl.algorithms.pgc.schedule import CallPlan
from dprl.envs import ControlTask, Episodes
from dprl.privacy import GradientClient, GradientPrivatizer
from dprl.privacy.randomness.bits import splitmix64

_LARGEST_SEED = 2**31 - 1


class _Outputs(torch.nn.Module):
    """A module's outputs, the inputs of its action distribution and its values, for `functional_call`."""

    def __init__(self, module: TorchRLModule, *, critic: bool) -> None:
        super().__init__()
        self.module, self._critic = module, critic

    def forward(self, seen: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the inputs [T, ...] and values [T], zeros without a critic, for observations [T, ...]."""
        batch = {Columns.OBS: seen}
        output = self.module.forward_train(batch)
        inputs = output[Columns.ACTION_DIST_INPUTS]
        if not self._critic:
            return inputs, inputs.new_zeros(inputs.shape[0])
        return inputs, self.module.compute_values(batch, embeddings=output.get(Columns.EMBEDDINGS))


class _ModulePolicy:
    """The policy of a module, as a function of one row of parameters; see `Evaluate` in `updates.py`.

    Args:
        module: any torch RLModule without state. shape: of its observations. critic: whether its values are learned.

    Raises ValueError for a critic without values.
    """

    def __init__(self, module: TorchRLModule, shape: tuple[int, ...] | None, *, critic: bool) -> None:
        if critic and not isinstance(module, ValueFunctionAPI):
            raise ValueError(
                f"critic must be device or none for {type(module).__name__}, which has no values, got 'joint'; change "
                "it, or add compute_values to the module"
            )
        self.module, self._shape, self._outputs = module, shape or (), _Outputs(module, critic=critic)
        self._names = [name for name, _ in self._outputs.named_parameters()]
        self._like = [parameter.detach() for parameter in self._outputs.parameters()]

    def evaluate(
        self, theta: torch.Tensor, seen: torch.Tensor, actions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return log probabilities, entropies and values [T] for theta [d], observations [T, o] and actions."""
        rows = torch.split(theta, [like.numel() for like in self._like])
        parameters = {
            name: row.reshape(like.shape).to(like.dtype)
            for name, row, like in zip(self._names, rows, self._like, strict=True)
        }
        inputs, values = functional_call(self._outputs, parameters, (self._rows(seen),))
        distribution = self.module.get_train_action_dist_cls().from_logits(inputs)
        return distribution.logp(actions), distribution.entropy(), values

    def act(self, seen: NDArray[np.float32], *, sampled: bool) -> NDArray[Any]:
        """Return actions for observations float32[n, o], drawn from torch's generator, or the most probable ones."""
        batch = {Columns.OBS: self._rows(torch.as_tensor(seen))}
        with torch.no_grad():
            # Not forward_exploration: it sets the mode of every layer anew.
            forward = self.module._forward_exploration if sampled else self.module._forward_inference
            inputs = forward(batch)[Columns.ACTION_DIST_INPUTS]
            distribution = self.module.get_exploration_action_dist_cls().from_logits(inputs)
            return np.asarray((distribution if sampled else distribution.to_deterministic()).sample())

    def _rows(self, seen: torch.Tensor) -> torch.Tensor:
        return seen.reshape(*seen.shape[:-1], *self._shape)


class _VectorRollout(NamedTuple):
    """Vectorised episodes of one call: the task, copies of its environment, the policy, and random keys.

    key: words that seed the episodes. agent_key uint64[5]: key from which environments' numbers of users are computed.
    """

    task: ControlTask
    vector: VectorEnv[Any, Any, Any]
    policy: _ModulePolicy
    key: tuple[int, ...] = ()
    agent_key: NDArray[np.uint64] = np.zeros(5, dtype=np.uint64)

    def play(self, number: int, agents: NDArray[np.int64], *, sampled: bool, padded: bool = False) -> Episodes:
        """Return an episode of each copy; `number` selects the random draws, and copy i belongs to user agents[i]."""
        seeds = np.random.SeedSequence((*self.key, number)).generate_state(2) % _LARGEST_SEED
        self.policy.module.eval()
        agent_ids = [int(splitmix64(self.agent_key, np.uint64(agent))) for agent in agents]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(seeds[0]))
            return self.task.play(
                self.vector,
                lambda seen: self.policy.act(seen, sampled=sampled),
                int(seeds[1]),
                padded=padded,
                checked=len(agents) == 0,
                options={"agents": agent_ids},
            )

    def updates(self, theta: Float64Array, episodes: Episodes, config: Learning) -> Float64Array:
        """Return the update float64[n, d] of each episode."""
        validated = torch.distributions.Distribution._validate_args
        torch.distributions.Distribution.set_default_validate_args(False)  # it reads values, and vmap cannot
        try:
            return updates(self.policy.evaluate, theta, episodes, config.loss)
        finally:
            torch.distributions.Distribution.set_default_validate_args(validated)


class _VectorAgents(LocalAgents):
    """Users' side of DPPG: one episode and one clipped update of each user, all users of a call at once.

    *Formal guarantee.* The client's: under `ldp` a message is randomized, under `jdp` it is clipped, for a trusted
    server. An update depends on one user's episode and on public parameters: arrays have the length of the longest
    possible episode and as many rows as the largest call.

    Args:
        config: settings of the algorithm. rollout: plays the episodes. client, shows_scores: see `LocalAgents`.
    """

    def __init__(
        self, config: Learning, rollout: _VectorRollout, client: GradientClient, *, shows_scores: bool
    ) -> None:
        super().__init__(client, shows_scores=shows_scores)
        self._config, self._rollout = config, rollout

    def _gradients(self, batch: Batch) -> tuple[Float64Array, Float64Array]:
        # All users of a call start from the same parameters.
        theta, lease = batch.parameters[batch.version[0]], batch.lease
        write_parameters(self._rollout.policy.module, theta)
        episodes = self._rollout.play(lease.first, lease.agents, sampled=True, padded=self._config.padded)
        return self._rollout.updates(theta, episodes, self._config)[: len(lease)], episodes.scores[: len(lease)]


def greedy_returns(rollout: _VectorRollout, number: int, n: int) -> list[float]:
    """Return the sums of rewards of n episodes of the most probable actions, without users, and close the copies."""
    rounds = math.ceil(n / rollout.vector.num_envs)
    nobody = np.zeros(0, dtype=np.int64)
    found = [rollout.play(number + i, nobody, sampled=False).scores for i in range(rounds)]
    rollout.vector.close()
    return [float(score) for score in np.concatenate(found)[:n]]


_CALLS, _EVALUATED_AT_ONCE = 4, 10
_MOST_STEPS = 100_000
_NAME = "dprl/user-v0"


class _TrainingSettings(TypedDict, total=False):
    """Arguments of `training`: the settings of `dprl.algorithms.dppg`, and the lengths of a run and of episodes."""

    learning_rate: float
    users_per_update: int
    halving: float
    discount: float
    entropy_weight: float
    critic: Literal["none", "device", "joint"]
    value_weight: float
    padded: bool
    horizon: int | None
    n_submissions: int
    submissions_per_iteration: int


class DPPGConfig(GradientCollectionConfig):
    """Settings of DPPG on RLlib. The default module is PPO's, with 64 x 64 tanh units.

    agents_per_call is by default a quarter of a round for any number of runners, so results do not depend on runners.
    """

    _learning: ClassVar[Any] = Learning
    _left_out: ClassVar[frozenset[str]] = frozenset({"hidden"})
    _models: ClassVar[tuple[str, ...]] = ("none", "jdp", "ldp")
    fixed_calls: ClassVar[bool] = True
    of_paper: ClassVar[bool] = False

    @classmethod
    def _algorithm_class(cls) -> type:
        return DPPG

    def _set_defaults(self) -> None:
        self.n_submissions, self.submissions_per_iteration = 10_000, self.users_per_update
        self.horizon: int | None = None
        self.env = None

    def training(self, **settings: Unpack[_TrainingSettings]) -> Self:
        """Set the learning settings and the length of the run; see `dprl.algorithms.dppg.DPPGConfig`.

        horizon: most steps of an episode; by default the environment's own limit. n_submissions: messages to be
        applied in all. submissions_per_iteration: messages per call of `train`, by default one round; with model 'jdp'
        whole rounds.
        """
        if "users_per_update" in settings:
            settings.setdefault("submissions_per_iteration", settings["users_per_update"])
        names = (*self.learning_names(), "horizon", "n_submissions", "submissions_per_iteration")
        return self._set("training", settings, names)

    def _validate_learning(self) -> None:
        self.learning_config()
        if self.horizon is not None:
            check_whole("horizon", self.horizon, 1, _MOST_STEPS)
        if self.call_plan.agents_per_call > self.users_per_update:
            raise ValueError(
                f"agents_per_call must be at most users_per_update, {self.users_per_update}, got "
                f"{self.agents_per_call}; all users of a call start from the same parameters"
            )
        if self.privacy_settings.get("model") != "jdp":
            return
        if (sampling := self.privacy_settings.get("sampling", "one_pass")) != "one_pass":
            raise ValueError(
                f"sampling must be one_pass on RLlib, got {sampling!r}; for others, run a config with algorithm: "
                "{name: dppg} in one process"
            )
        for key in ("n_submissions", "submissions_per_iteration"):
            if getattr(self, key) % self.users_per_update:
                raise ValueError(
                    f"{key} must be a multiple of users_per_update, {self.users_per_update}, with model 'jdp', got "
                    f"{getattr(self, key)}; the server adds noise to sums of whole rounds"
                )

    def learning_config(self) -> Learning:
        """Return the settings of the algorithm. Raises ValueError."""
        return Learning(**{name: getattr(self, name) for name in self.learning_names()})

    @property
    def call_plan(self) -> CallPlan:
        """The number of agents per call, and staleness 0: a round begins after the last one has ended."""
        return CallPlan(self.agents_per_call or math.ceil(self.users_per_update / _CALLS), 0)

    def _further_identity(self) -> tuple[object, ...]:
        return (self.horizon, self.call_plan.agents_per_call)

    def rules(self, privatizer: GradientPrivatizer) -> AggregatorConfig:
        """Return the rules of the aggregator. Raises ValueError."""
        learning = self.learning_config()
        return AggregatorConfig(learning.schedule, learning.step(privatizer.query), privatizer.server_noise)

    def agents(self, context: RolloutContext, client: GradientClient) -> LocalAgents:
        """Return the users' side, for a runner. Raises ValueError."""
        streams = self.streams()
        key = tuple(int(word) for word in streams.key("exploration", "episodes"))
        rollout = self._vector_rollout(context, self.call_plan.agents_per_call)
        rollout = rollout._replace(key=key, agent_key=streams.key("env", "users"))
        return _VectorAgents(self.learning_config(), rollout, client, shows_scores=self.shows_scores)

    def dry_run(self, context: RolloutContext) -> None:
        """Raise errors of environment and module before there are users; later errors would reveal data."""
        rollout, theta = self._vector_rollout(context, 2), read_parameters(context.module)
        episodes = rollout.play(0, np.zeros(0, dtype=np.int64), sampled=True)
        rollout.updates(theta, episodes, self.learning_config())
        rollout.vector.close()

    def greedy_returns(self, context: RolloutContext, seeds: Sequence[int]) -> list[float]:
        """Return the sum of rewards of an episode of the most probable actions for each seed, without users."""
        return greedy_returns(
            self._vector_rollout(context, min(len(seeds), _EVALUATED_AT_ONCE)), int(seeds[0]), len(seeds)
        )

    def _vector_rollout(self, context: RolloutContext, n: int) -> _VectorRollout:
        """Return the rollout of n users at once. Raises ValueError."""
        task = self._task(context)
        policy = _ModulePolicy(context.module, context.env.observation_space.shape, critic=self.critic == "joint")
        return _VectorRollout(task, task.vector(n, padded=self.padded), policy)

    def _task(self, context: RolloutContext) -> ControlTask:
        env: Any = context.env
        check_playable(env, context.module, gym.spaces.Box)
        limit = None if env.spec is None else env.spec.max_episode_steps
        if self.horizon is None and limit is None:
            raise ValueError(
                "horizon must be given for an environment without a limit of steps, got none; call "
                "training(horizon=...)"
            )
        steps = min(number for number in (self.horizon, limit) if number is not None)
        entry, arguments = EnvSpec(_NAME, entry_point=lambda **_: context.create()), dict[str, Any]()
        if self._is_registered:
            entry, arguments = gym.spec(str(self.env)), dict(self.env_config)
        return ControlTask("control", entry, arguments, steps, env.observation_space, env.action_space)

    @property
    def _is_registered(self) -> bool:
        """Whether the environment is registered with Gymnasium only, so that its vectorised form can be used."""
        name: Any = self.env
        return isinstance(name, str) and name in gym.registry and not _global_registry.contains(ENV_CREATOR, name)

    def get_default_rl_module_spec(self) -> RLModuleSpec:
        """Return the spec of PPO's module, with 64 x 64 tanh units."""
        return RLModuleSpec(
            module_class=DefaultPPOTorchRLModule,
            catalog_class=PPOCatalog,
            model_config=DefaultModelConfig(fcnet_hiddens=[64, 64], fcnet_activation="tanh"),
        )


class DPPG(GradientCollection):
    """Private policy gradient in one pass over users, on RLlib: `DPPGConfig().privacy(...).build_algo().train()`.

    Under `model='jdp'` runners send the clipped update of each user, and the driver adds noise to the sum of a round.
    Under `model='ldp'` each update is randomized before it leaves the runner.
    """

    config_class = DPPGConfig
    results_key = "dppg"
