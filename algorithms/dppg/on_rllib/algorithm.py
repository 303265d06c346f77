"""DPPG as an algorithm of RLlib, and its config."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from typing import Any, ClassVar, Self

import gymnasium as gym
import numpy as np
import torch
from gymnasium.envs.registration import EnvSpec
from numpy.typing import NDArray
from ray.rllib.algorithms.ppo.ppo_catalog import PPOCatalog
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from ray.tune.registry import ENV_CREATOR, _global_registry
from torch.func import functional_call

from dprl.algorithms.base import Float64Array, Int64Array
from dprl.algorithms.dppg.algorithm import DPPGConfig as Learning
from dprl.algorithms.dppg.algorithm import report_round, with_spare
from dprl.algorithms.dppg.updates import Rollout
from dprl.algorithms.pgc.aggregator import Batch, CollectionRules, LocalUpdate, Reply
from dprl.algorithms.pgc.on_rllib.algorithm import GradientCollection
from dprl.algorithms.pgc.on_rllib.config import Create, GradientCollectionConfig
from dprl.algorithms.pgc.on_rllib.env_runner import check_playable
from dprl.algorithms.pgc.on_rllib.parameters import read_parameters, write_parameters
from dprl.envs import ControlTask
from dprl.envs.checks import require_integer
from dprl.envs.control import Act
from dprl.privacy import GradientLayout, GradientPrivatizer, LedgerError, PrivateMessages
from dprl.privacy.designs.gradients import DEFAULT_CLIP
from dprl.privacy.queries.sampled_gradients import draw_users
from dprl.privacy.randomness.bits import splitmix64

_LARGEST_SEED = 2**31 - 1


class _ModulePolicy(torch.nn.Module):
    """A module as a policy of a row of parameters; see `Policy` in `updates.py`.

    module: any torch RLModule without state. shape: of its observations. Raises ValueError for batch normalisation.
    """

    def __init__(self, module: TorchRLModule, shape: tuple[int, ...] | None) -> None:
        super().__init__()
        if any(isinstance(part, torch.nn.modules.batchnorm._BatchNorm) for part in module.modules()):
            raise ValueError("rl_module must have no BatchNorm, which mixes users, got one; take LayerNorm")
        self.module, self._shape = module, shape or ()

    def forward(self, seen: torch.Tensor) -> torch.Tensor:
        """Return the action distribution's inputs [T, ...] for observations [T, o]."""
        found: torch.Tensor = self.module.forward_train({Columns.OBS: self._rows(seen)})[Columns.ACTION_DIST_INPUTS]
        return found

    def evaluate(
        self, theta: torch.Tensor, seen: torch.Tensor, actions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return log probabilities and entropies [T] for theta [d], observations [T, o] and actions."""
        parameters = {name: part.to(theta.new_empty(0, dtype=part.dtype)) for name, part in self.named_buffers()}
        at = 0
        for name, like in self.named_parameters():
            row, at = theta[at : at + like.numel()], at + like.numel()
            parameters[name] = row.reshape(like.shape).to(like.dtype)
        inputs = functional_call(self, parameters, (seen,))
        distribution = self.module.get_train_action_dist_cls().from_logits(inputs)
        return distribution.logp(actions), distribution.entropy()

    def acting(self, theta: Float64Array, rng: np.random.Generator | None) -> Act:
        """Return actions for observations float32[n, o], drawn with `rng`, or the most probable ones."""
        write_parameters(self.module, theta)
        self.module.eval()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)  # of other devices, too: draws of earlier users must not reach these

        def act(seen: NDArray[np.float32]) -> NDArray[Any]:
            batch = {Columns.OBS: self._rows(torch.as_tensor(seen))}
            # Not forward_exploration: it sets the mode of every layer anew. Torch draws from its global generator only.
            with torch.no_grad(), torch.random.fork_rng(devices=[]):
                torch.default_generator.manual_seed(0 if rng is None else int(rng.integers(_LARGEST_SEED)))
                forward = self.module._forward_inference if rng is None else self.module._forward_exploration
                inputs = forward(batch)[Columns.ACTION_DIST_INPUTS]
                distribution = self.module.get_exploration_action_dist_cls().from_logits(inputs)
                return np.asarray((distribution.to_deterministic() if rng is None else distribution).sample())

        return act

    def _rows(self, seen: torch.Tensor) -> torch.Tensor:
        return seen.reshape(*seen.shape[:-1], *self._shape)


_CALLS, _EVALUATED_AT_ONCE = 4, 10
_MOST_STEPS = 100_000
_NAME = "dprl/user-v0"


class DPPGConfig(GradientCollectionConfig):
    """Settings of DPPG on RLlib. The default module is PPO's, with 64 x 64 tanh units.

    `training` takes the settings of `dprl.algorithms.dppg.DPPGConfig`, and the lengths of a run and of episodes.
    horizon: most steps of an episode; by default the environment's own limit. n_submissions: messages to be applied in
    all, with sampled users their expected number. submissions_per_iteration: messages per call of `train`, by default
    one round; with model 'jdp' whole rounds. agents_per_call is by default a quarter of a round for any number of
    runners, so results do not depend on runners.
    """

    _learning: ClassVar[Any] = Learning
    _left_out: ClassVar[frozenset[str]] = frozenset({"hidden"})
    _of_module: ClassVar[frozenset[str]] = frozenset(entry.name for entry in fields(DefaultModelConfig))
    _models: ClassVar[tuple[str, ...]] = ("none", "jdp", "ldp")
    _for_training: ClassVar[tuple[str, ...]] = ("horizon", "n_submissions", "submissions_per_iteration")
    fixed_calls: ClassVar[bool] = True
    _further_identity: ClassVar[tuple[str, ...]] = ("horizon", "call_size")

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
            rule = f"agents_per_call must be at most users_per_update, {self.users_per_update}"
            raise ValueError(f"{rule}, got {self.agents_per_call}; all users of a call start from the same parameters")
        if self.privacy_settings.get("model") != "jdp":
            return
        for key in ("n_submissions", "submissions_per_iteration"):
            if getattr(self, key) % self.users_per_update:
                rule = f"{key} must be a multiple of users_per_update, {self.users_per_update}, with model 'jdp'"
                raise ValueError(f"{rule}, got {getattr(self, key)}; the server adds noise to sums of whole rounds")

    def learning_config(self) -> Learning:
        return Learning(**{name: getattr(self, name) for name in self.learning_names()})

    @property
    def call_size(self) -> int:
        return self.agents_per_call or math.ceil(self.users_per_update / _CALLS)

    @property
    def population(self) -> int:
        """Largest number of submissions; with sampled users there is no reserve, as lost calls are played again."""
        return int(self.n_submissions) if self.trust_model().population else super().population

    def layout(self, dimension: int) -> GradientLayout:
        return GradientLayout(dimension, self.users_per_update, self.uncovered_channels, draws=True, paper=False)

    def rules(self, privatizer: GradientPrivatizer) -> CollectionRules:
        return self.learning_config().rules(privatizer.query, summed=privatizer.server_noise)

    def local_update(self, env: Any, module: TorchRLModule, create: Callable[[], Any]) -> LocalUpdate:  # noqa: ANN401
        """Return the users' side, for a runner: an episode and an update of each user, all users of a call at once.

        An update depends on one user's episode and on public parameters: arrays have the length of the longest possible
        episode and as many rows as the largest call. Raises ValueError.
        """
        streams, rollout, n = self.streams(), self.rollout(env, module, create), self.call_size
        key, agent_key = [int(word) for word in streams.key("exploration", "episodes")], streams.key("env", "users")

        def update(batch: Batch) -> tuple[Float64Array, Float64Array]:
            # All users of a call start from the same parameters.
            theta, rng = batch.parameters[batch.version[0]], np.random.default_rng([*key, batch.lease.first])
            agents = [int(splitmix64(agent_key, np.uint64(agent))) for agent in batch.agents]
            found, played = rollout.report(n, theta, rng, agents)
            return found[: len(batch.slots)], played[: len(batch.slots)]

        return update

    def dry_run(self, env: Any, module: TorchRLModule, create: Callable[[], Any]) -> None:  # noqa: ANN401
        check_playable(env, module, gym.spaces.Box)
        rollout, theta = self.rollout(env, module, create), read_parameters(module)
        rollout.updates(theta, rollout.play(2, theta, np.random.default_rng(0), sampled=True, users=False))
        rollout.close()

    def returns(
        self, env: gym.Env[Any, Any], module: TorchRLModule, create: Create, seeds: Sequence[int], sampled: bool
    ) -> list[float]:
        rollout, theta = self.rollout(env, module, create), read_parameters(module)
        rng, n = np.random.default_rng(seeds), min(len(seeds), _EVALUATED_AT_ONCE)
        played = [rollout.play(n, theta, rng, sampled=sampled, users=False) for _ in range(math.ceil(len(seeds) / n))]
        rollout.close()
        return [float(score) for episodes in played for score in episodes.scores][: len(seeds)]

    def rollout(self, env: Any, module: Any, create: Callable[[], Any]) -> Rollout:  # noqa: ANN401
        """Return episodes of the module. Raises ValueError."""
        limit = None if env.spec is None else env.spec.max_episode_steps
        if self.horizon is None and limit is None:
            rule = "horizon must be given for an environment without a limit of steps"
            raise ValueError(f"{rule}, got none; call training(horizon=...)")
        steps = min(number for number in (self.horizon, limit) if number is not None)
        entry, arguments = EnvSpec(_NAME, entry_point=lambda **_: create()), dict[str, Any]()
        name: Any = self.env
        # Registered with Gymnasium only: its vectorised form can be used.
        if isinstance(name, str) and name in gym.registry and not _global_registry.contains(ENV_CREATOR, name):
            entry, arguments = gym.spec(name), dict(self.env_config)
        task = ControlTask("control", entry, arguments, steps, env.observation_space, env.action_space)
        policy = _ModulePolicy(module, env.observation_space.shape)
        found = Rollout(task, policy, self.learning_config(), (self.trust_model().clip or DEFAULT_CLIP) / 2.0)
        found.torch_device = "cuda" if self.num_gpus_per_env_runner > 0 and torch.cuda.is_available() else "cpu"
        return found

    @property
    def _model_config_auto_includes(self) -> dict[str, Any]:
        units = DefaultModelConfig(fcnet_hiddens=[64, 64], fcnet_activation="tanh")
        return {**super()._model_config_auto_includes, **asdict(units)}

    def get_default_rl_module_spec(self) -> RLModuleSpec:
        """Return the spec of PPO's module, with 64 x 64 tanh units unless `rl_module(model_config=...)` has others."""
        return RLModuleSpec(
            module_class=DefaultPPOTorchRLModule, catalog_class=PPOCatalog, model_config=self.model_config
        )


class _Round:
    """A round of sampled users, to be collected like messages.

    It has always as many slots as 4 standard deviations above the expected number of users, unless more joined; nobody
    plays those beyond the users who joined. So the number of calls reveals almost nothing.

    theta float64[d]: parameters. joined int64[m]: the users. number: of the round, from 0 on.
    """

    def __init__(self, theta: Float64Array, joined: Int64Array, number: int, privatizer: GradientPrivatizer) -> None:
        query, self._theta, self._numbers = privatizer.query, theta, privatizer.clipped_by_runners
        self.size, self.applied = max(with_spare(query.window), joined.size), 0
        self.rules = CollectionRules(0, self.size, 0.0)
        self._before = number * (with_spare(query.window) + privatizer.n_users)
        self._agents = np.concatenate([joined, np.zeros(self.size - joined.size, dtype=np.int64)])
        self.updates, self.played = np.zeros((self.size, theta.size)), np.zeros((self.size, 2))

    def forget_waiting(self) -> None: ...

    def batch(self, _: object, slots: Int64Array) -> Batch:
        lease = self._numbers(int(self._before + slots[0]), int(self._before + slots[-1]))
        return Batch(lease, slots, self._theta[np.newaxis], np.zeros_like(slots), self._agents[slots - 1])

    def receive(self, slots: Int64Array, reply: Reply) -> None:
        found = reply[0]
        whole = type(found) is PrivateMessages and found.values.shape == (len(slots), self._theta.size)
        if not whole or found.first != self._before + slots[0]:
            raise LedgerError("a runner must send one update for each of its users")
        self.updates[slots - 1], self.applied = found.values, self.applied + len(slots)
        if reply[1] is not None:
            self.played[slots - 1] = reply[1]


class DPPG(GradientCollection):
    """Private policy gradient in one pass over users, on RLlib: `DPPGConfig().privacy(...).build_algo().train()`.

    Under `model='jdp'` the driver adds noise to the sum of a round's clipped updates, under 'ldp' runners to each one.
    With `sampling='poisson'` the driver draws the users of a round; the whole population is charged before the first.
    """

    results_key = "dppg"

    @classmethod
    def get_default_config(cls) -> DPPGConfig:
        """Return the default settings; privacy has none and must be chosen."""
        # Not a class attribute: Ray follows those on export, and an environment may refer to itself.
        return DPPGConfig()

    def _collect(self, goal: int) -> None:
        privatizer = self._journaled.privatizer
        if not privatizer.query.sampled:
            super()._collect(goal)
            return
        self._journaled.charge_all()
        while self.submissions < goal:
            joined = draw_users(privatizer.channel)
            users = _Round(self.parameters, joined, self._aggregator.updates, privatizer)
            self._collect_from(users, lambda *_: None, users.size)
            report_round(privatizer.channel, self._aggregator.state, users.updates[: joined.size])
            if self.config.shows_scores:
                self._note_scores(users.played[: joined.size])
