"""AlgorithmConfig of DPPG on RLlib; it refuses unknown settings."""

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
from dprl.algorithms.dppg.on_rllib.agents import ModulePolicy, Stage, VectorAgents, greedy_returns
from dprl.algorithms.pgc.aggregator import Rules
from dprl.algorithms.pgc.base import LocalAgents
from dprl.algorithms.pgc.on_rllib.config import GradientCollectionConfig
from dprl.algorithms.pgc.on_rllib.env_runner import Place
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
    """The settings of a run of DPPG on RLlib. Without a module of your own it is PPO's, with 64 x 64 tanh units.

    agents_per_call is by default a quarter of a round, for any number of runners: so results do not depend on it.
    """

    _learning: ClassVar[Any] = Learning
    _left_out: ClassVar[frozenset[str]] = frozenset({"hidden"})
    _models: ClassVar[tuple[str, ...]] = ("none", "jdp", "ldp")
    fixed_calls: ClassVar[bool] = True

    def _set_defaults(self) -> None:
        self.n_submissions, self.submissions_per_iteration = 10_000, self.users_per_update
        self.horizon: int | None = None
        self.env = None

    def training(self, **settings: Unpack[_TrainingSettings]) -> Self:
        """Set the learning settings and the length of the run; see `dprl.algorithms.dppg.DPPGConfig`.

        horizon: most steps of an episode; by default the environment's own limit. n_submissions: updates of users to be
        applied in all. submissions_per_iteration: in one call of `train`, by default those of one round; whole rounds
        with model 'jdp'.
        """
        if "users_per_update" in settings:
            settings.setdefault("submissions_per_iteration", settings["users_per_update"])
        names = (*self.learning_names(), "horizon", "n_submissions", "submissions_per_iteration")
        return self._set("training", settings, names)

    def _validate_learning(self) -> None:
        self.box()
        if self.horizon is not None:
            check_whole("horizon", self.horizon, 1, _MOST_STEPS)
        if self.call_plan.agents_per_call > self.users_per_update:
            raise ValueError(
                f"agents_per_call must be at most users_per_update, {self.users_per_update}, got "
                f"{self.agents_per_call}; all users of a call start from the same parameters"
            )
        if self.privacy_settings.get("model") != "jdp":
            return
        for key, plain in (("sampling", "one_pass"), ("counter", "none")):
            if self.privacy_settings.get(key, plain) != plain:
                raise ValueError(
                    f"{key} must be {plain} on RLlib, got {self.privacy_settings[key]!r}; run a config with algorithm: "
                    "{name: dppg}: its learner in one process has others"
                )
        if not self.deterministic:
            raise ValueError("deterministic must be True with model 'jdp', got False; its sums are of whole rounds")
        for key in ("n_submissions", "submissions_per_iteration"):
            if getattr(self, key) % self.users_per_update:
                raise ValueError(
                    f"{key} must be a multiple of users_per_update, {self.users_per_update}, with model 'jdp', got "
                    f"{getattr(self, key)}; the server adds noise to sums of whole rounds"
                )

    def box(self) -> Learning:
        """Return the settings of the algorithm. Raises ValueError."""
        return Learning(**{name: getattr(self, name) for name in self.learning_names()})

    @property
    def call_plan(self) -> CallPlan:
        """The number of agents per call, and no staleness: a round begins after the last one."""
        return CallPlan(self.agents_per_call or math.ceil(self.users_per_update / _CALLS), 0)

    def _further_identity(self) -> tuple[object, ...]:
        return (self.horizon, self.call_plan.agents_per_call)

    def rules(self, privatizer: GradientPrivatizer) -> Rules:
        """Return the rules of the aggregator. Raises ValueError."""
        box = self.box()
        return Rules(box.schedule, box.step, self.deterministic, privatizer.server_noise)

    def agents(self, place: Place, sender: GradientClient) -> LocalAgents:
        """Return the users' side, for a runner. Raises ValueError."""
        streams = self.streams()
        key = tuple(int(word) for word in streams.key("exploration", "episodes"))
        stage = self._stage(place, self.call_plan.agents_per_call)
        stage = stage._replace(key=key, agent_key=streams.key("env", "users"))
        return VectorAgents(self.box(), stage, sender, shows_scores=self.shows_scores)

    def rehearse(self, place: Place) -> None:
        """Raise the errors of environment and module before there are users; later ones would reveal data."""
        stage, theta = self._stage(place, 2), read_parameters(place.module)
        episodes = stage.play(0, np.zeros(0, dtype=np.int64), sampled=True)
        stage.updates(theta, episodes, self.box())
        stage.vector.close()

    def greedy_returns(self, place: Place, seeds: Sequence[int]) -> list[float]:
        """Return the sum of rewards of an episode of the most probable actions for each seed, without users."""
        return greedy_returns(self._stage(place, min(len(seeds), _EVALUATED_AT_ONCE)), int(seeds[0]), len(seeds))

    def _stage(self, place: Place, n: int) -> Stage:
        """Return where n users play at once. Raises ValueError."""
        task = self._task(place)
        policy = ModulePolicy(place.module, place.env.observation_space.shape, critic=self.critic == "joint")
        return Stage(task, task.vector(n, padded=self.padded), policy)

    def _task(self, place: Place) -> ControlTask:
        env, observed = place.env, place.env.observation_space
        if not isinstance(observed, gym.spaces.Box):
            raise ValueError(f"env must observe an array, got {observed}; wrap it in FlattenObservation")
        if not isinstance(env.action_space, gym.spaces.Discrete | gym.spaces.Box):
            raise ValueError(f"env must have actions in Discrete or Box, got {env.action_space}; wrap the environment")
        limit = None if env.spec is None else env.spec.max_episode_steps
        if self.horizon is None and limit is None:
            raise ValueError(
                "horizon must be given for an environment without a limit of steps, got nothing; call "
                "training(horizon=...)"
            )
        steps = min(number for number in (self.horizon, limit) if number is not None)
        entry, arguments = EnvSpec(_NAME, entry_point=lambda **_: place.create()), dict[str, Any]()
        if self._is_registered:
            entry, arguments = gym.spec(str(self.env)), dict(self.env_config)
        return ControlTask("control", entry, arguments, steps, observed, env.action_space)

    @property
    def _is_registered(self) -> bool:
        """Whether the environment is Gymnasium's as it stands, so that its vectorised form may take its place."""
        name: Any = self.env
        return isinstance(name, str) and name in gym.registry and not _global_registry.contains(ENV_CREATOR, name)

    def get_default_rl_module_spec(self) -> RLModuleSpec:
        """Return the spec of PPO's module, with 64 x 64 tanh units."""
        return RLModuleSpec(
            module_class=DefaultPPOTorchRLModule,
            catalog_class=PPOCatalog,
            model_config=DefaultModelConfig(fcnet_hiddens=[64, 64], fcnet_activation="tanh"),
        )
