"""DPPG as an algorithm of RLlib, and its config."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import gymnasium as gym
import numpy as np
import torch
from gymnasium.envs.registration import EnvSpec
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

from dprl.algorithms.base import Float64Array
from dprl.algorithms.dppg.algorithm import DPPGConfig as Learning
from dprl.algorithms.dppg.updates import updates
from dprl.algorithms.pgc.aggregator import Batch, CollectionRules, LocalUpdate
from dprl.algorithms.pgc.on_rllib.algorithm import GradientCollection
from dprl.algorithms.pgc.on_rllib.config import GradientCollectionConfig
from dprl.algorithms.pgc.on_rllib.env_runner import check_playable
from dprl.algorithms.pgc.on_rllib.parameters import read_parameters, write_parameters
from dprl.envs import ControlTask, Episodes
from dprl.envs.checks import require_integer
from dprl.privacy import GradientPrivatizer
from dprl.privacy.randomness.bits import splitmix64

_LARGEST_SEED = 2**31 - 1


class _ModulePolicy(torch.nn.Module):
    """The policy of a module, as a function of one row of parameters; see `Evaluate` in `updates.py`.

    module: any torch RLModule without state. shape: of its observations. critic: whether its values are learned.

    Raises ValueError for a critic without values.
    """

    def __init__(self, module: TorchRLModule, shape: tuple[int, ...] | None, *, critic: bool) -> None:
        super().__init__()
        if critic and not isinstance(module, ValueFunctionAPI):
            raise ValueError(
                f"critic must be device or none for {type(module).__name__}, which has no values, got 'joint'; change "
                "it, or add compute_values to the module"
            )
        self.module, self._shape, self._critic = module, shape or (), critic

    def forward(self, seen: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the action distribution's inputs [T, ...] and values [T], zeros without a critic, for [T, o]."""
        batch = {Columns.OBS: self._rows(seen)}
        output = self.module.forward_train(batch)
        inputs = output[Columns.ACTION_DIST_INPUTS]
        if not self._critic:
            return inputs, inputs.new_zeros(inputs.shape[0])
        return inputs, self.module.compute_values(batch, embeddings=output.get(Columns.EMBEDDINGS))

    def evaluate(
        self, theta: torch.Tensor, seen: torch.Tensor, actions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return log probabilities, entropies and values [T] for theta [d], observations [T, o] and actions."""
        parameters, at = {}, 0
        for name, like in self.named_parameters():
            row, at = theta[at : at + like.numel()], at + like.numel()
            parameters[name] = row.reshape(like.shape).to(like.dtype)
        inputs, values = functional_call(self, parameters, (seen,))
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


class _Rollout:
    """Vectorised episodes of one call, and the updates of their users.

    Args:
        task: the control task. copies: number of its environments. policy: plays them. padded: see `DPPGConfig`.
        key: words that seed the episodes. agent_key uint64[5]: key from which environments' numbers of users are
            computed.
    """

    def __init__(
        self,
        task: ControlTask,
        copies: int,
        policy: _ModulePolicy,
        *,
        padded: bool,
        key: Sequence[int] = (),
        agent_key: NDArray[np.uint64] | None = None,
    ) -> None:
        self.task, self.policy, self.vector = task, policy, task.vector(copies, padded=padded)
        self._key, self._agent_key = key, np.zeros(5, dtype=np.uint64) if agent_key is None else agent_key

    def play(self, number: int, agents: NDArray[np.int64], *, sampled: bool, padded: bool = False) -> Episodes:
        """Return an episode of each copy; `number` selects the random draws, and copy i belongs to user agents[i]."""
        seeds = np.random.SeedSequence((*self._key, number)).generate_state(2) % _LARGEST_SEED
        self.policy.module.eval()
        agent_ids = [int(splitmix64(self._agent_key, np.uint64(agent))) for agent in agents]
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
        validated = torch.distributions.Distribution._validate_args
        torch.distributions.Distribution.set_default_validate_args(False)  # it reads values, and vmap cannot
        try:
            return updates(self.policy.evaluate, theta, episodes, config)
        finally:
            torch.distributions.Distribution.set_default_validate_args(validated)


_CALLS, _EVALUATED_AT_ONCE = 4, 10
_MOST_STEPS = 100_000
_NAME = "dprl/user-v0"
_NOBODY = np.zeros(0, dtype=np.int64)


class DPPGConfig(GradientCollectionConfig):
    """Settings of DPPG on RLlib. The default module is PPO's, with 64 x 64 tanh units.

    `training` takes the settings of `dprl.algorithms.dppg.DPPGConfig`, and the lengths of a run and of episodes.
    horizon: most steps of an episode; by default the environment's own limit. n_submissions: messages to be applied in
    all. submissions_per_iteration: messages per call of `train`, by default one round; with model 'jdp' whole rounds.
    agents_per_call is by default a quarter of a round for any number of runners, so results do not depend on runners.
    """

    _learning: ClassVar[Any] = Learning
    _left_out: ClassVar[frozenset[str]] = frozenset({"hidden"})
    _models: ClassVar[tuple[str, ...]] = ("none", "jdp", "ldp")
    _for_training: ClassVar[tuple[str, ...]] = ("horizon", "n_submissions", "submissions_per_iteration")
    size_of_update: ClassVar[str] = "users_per_update"
    fixed_calls: ClassVar[bool] = True
    _further_identity: ClassVar[tuple[str, ...]] = ("horizon", "call_size")
    of_paper: ClassVar[bool] = False

    @classmethod
    def _algorithm_class(cls) -> type:
        return DPPG

    def _set_defaults(self) -> None:
        self.n_submissions, self.submissions_per_iteration = 10_000, self.users_per_update
        self.horizon: int | None = None
        self.env = None

    def training(self, **settings: Any) -> Self:  # noqa: ANN401 - checked by name
        """Set the learning settings, the length of the run and that of episodes."""
        if "users_per_update" in settings:
            settings.setdefault("submissions_per_iteration", settings["users_per_update"])
        return super().training(**settings)

    def _validate_learning(self) -> None:
        self.learning_config()
        if self.horizon is not None:
            require_integer("horizon", self.horizon, 1, _MOST_STEPS)
        if self.call_size > self.users_per_update:
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
        return Learning(**{name: getattr(self, name) for name in self.learning_names()})

    @property
    def call_size(self) -> int:
        return self.agents_per_call or math.ceil(self.users_per_update / _CALLS)

    def rules(self, privatizer: GradientPrivatizer) -> CollectionRules:
        return self.learning_config().rules(privatizer.query, summed=privatizer.server_noise)

    def local_update(self, env: Any, module: TorchRLModule, create: Callable[[], Any]) -> LocalUpdate:  # noqa: ANN401
        """Return the users' side, for a runner: an episode and an update of each user, all users of a call at once.

        An update depends on one user's episode and on public parameters: arrays have the length of the longest possible
        episode and as many rows as the largest call. Raises ValueError.
        """
        streams, config = self.streams(), self.learning_config()
        key = [int(word) for word in streams.key("exploration", "episodes")]
        rollout = self.rollout(env, module, create, self.call_size, key=key, agent_key=streams.key("env", "users"))

        def update(batch: Batch) -> tuple[Float64Array, Float64Array]:
            # All users of a call start from the same parameters.
            theta, lease = batch.parameters[batch.version[0]], batch.lease
            write_parameters(module, theta)
            episodes = rollout.play(lease.first, lease.agents, sampled=True, padded=config.padded)
            return rollout.updates(theta, episodes, config)[: len(lease)], episodes.scores[: len(lease)]

        return update

    def dry_run(self, env: Any, module: TorchRLModule, create: Callable[[], Any]) -> None:  # noqa: ANN401
        check_playable(env, module, gym.spaces.Box)
        rollout, theta = self.rollout(env, module, create, 2), read_parameters(module)
        episodes = rollout.play(0, _NOBODY, sampled=True)
        rollout.updates(theta, episodes, self.learning_config())
        rollout.vector.close()

    def greedy_returns(self, env: Any, module: Any, create: Callable[[], Any], seeds: Sequence[int]) -> list[float]:  # noqa: ANN401
        rollout = self.rollout(env, module, create, min(len(seeds), _EVALUATED_AT_ONCE))
        rounds = math.ceil(len(seeds) / rollout.vector.num_envs)
        found = [rollout.play(int(seeds[0]) + i, _NOBODY, sampled=False).scores for i in range(rounds)]
        rollout.vector.close()
        return [float(score) for score in np.concatenate(found)[: len(seeds)]]

    def rollout(self, env: Any, module: Any, create: Callable[[], Any], copies: int, **keys: Any) -> _Rollout:  # noqa: ANN401
        """Return the episodes of a number of users at once; keys: see `_Rollout`. Raises ValueError."""
        limit = None if env.spec is None else env.spec.max_episode_steps
        if self.horizon is None and limit is None:
            raise ValueError(
                "horizon must be given for an environment without a limit of steps, got none; call "
                "training(horizon=...)"
            )
        steps = min(number for number in (self.horizon, limit) if number is not None)
        entry, arguments = EnvSpec(_NAME, entry_point=lambda **_: create()), dict[str, Any]()
        name: Any = self.env
        # Registered with Gymnasium only: its vectorised form can be used.
        if isinstance(name, str) and name in gym.registry and not _global_registry.contains(ENV_CREATOR, name):
            entry, arguments = gym.spec(name), dict(self.env_config)
        task = ControlTask("control", entry, arguments, steps, env.observation_space, env.action_space)
        policy = _ModulePolicy(module, env.observation_space.shape, critic=self.critic == "joint")
        return _Rollout(task, copies, policy, padded=self.padded, **keys)

    def get_default_rl_module_spec(self) -> RLModuleSpec:
        """Return the spec of PPO's module, with 64 x 64 tanh units."""
        return RLModuleSpec(
            module_class=DefaultPPOTorchRLModule,
            catalog_class=PPOCatalog,
            model_config=DefaultModelConfig(fcnet_hiddens=[64, 64], fcnet_activation="tanh"),
        )


class DPPG(GradientCollection):
    """Private policy gradient in one pass over users, on RLlib: `DPPGConfig().privacy(...).build_algo().train()`.

    Under `model='jdp'` the driver adds noise to the sum of a round's clipped updates, under 'ldp' runners to each one.
    """

    results_key = "dppg"

    @classmethod
    def get_default_config(cls) -> DPPGConfig:
        """Return the default settings; privacy has none and must be chosen."""
        # Not a class attribute: Ray follows those on export, and an environment may refer to itself.
        return DPPGConfig()
