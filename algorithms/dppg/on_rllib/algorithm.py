"""DPPG as an algorithm of RLlib, and its config."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self, TypedDict, Unpack

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec
from ray.rllib.algorithms.ppo.ppo_catalog import PPOCatalog
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.tune.registry import ENV_CREATOR, _global_registry

from dprl.algorithms.base import check_whole
from dprl.algorithms.dppg.algorithm import DPPGConfig as Learning
from dprl.algorithms.dppg.on_rllib.agents import ModulePolicy, VectorAgents, VectorRollout, greedy_returns
from dprl.algorithms.pgc.aggregator import AggregatorConfig
from dprl.algorithms.pgc.base import LocalAgents
from dprl.algorithms.pgc.on_rllib.algorithm import GradientCollection
from dprl.algorithms.pgc.on_rllib.config import GradientCollectionConfig
from dprl.algorithms.pgc.on_rllib.env_runner import RolloutContext, check_playable
from dprl.algorithms.pgc.on_rllib.parameters import read_parameters
from dprl.algorithms.pgc.schedule import CallPlan
from dprl.envs import ControlTask
from dprl.privacy import GradientClient, GradientPrivatizer

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
    local_epochs: int
    local_rate: float
    ratio_clip: float
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
        return VectorAgents(self.learning_config(), rollout, client, shows_scores=self.shows_scores)

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

    def _vector_rollout(self, context: RolloutContext, n: int) -> VectorRollout:
        """Return the rollout of n users at once. Raises ValueError."""
        task = self._task(context)
        policy = ModulePolicy(context.module, context.env.observation_space.shape, critic=self.critic == "joint")
        return VectorRollout(task, task.vector(n, padded=self.padded), policy)

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
