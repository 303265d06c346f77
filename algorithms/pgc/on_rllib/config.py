"""Config of private gradient collection on RLlib."""

from __future__ import annotations

import difflib
import hashlib
import re
import sys
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, ClassVar, NoReturn, Self

import gymnasium as gym
import numpy as np
import torch
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule

from dprl.algorithms.base import Float64Array
from dprl.algorithms.pgc.aggregator import CollectionRules, LocalUpdate
from dprl.algorithms.pgc.on_rllib.env_runner import PrivateEnvRunner, quiet
from dprl.algorithms.pgc.on_rllib.parameters import read_parameters
from dprl.algorithms.pgc.on_rllib.settings import check_settings, refused
from dprl.algorithms.pgc.scores import ScoreTracker
from dprl.envs.checks import require_integer, require_number
from dprl.privacy import GradientLayout, GradientPrivacy, GradientPrivatizer, NoiseConfig, Streams
from dprl.privacy.base import check_choice
from dprl.privacy.threat_models import CARRIED, DURATIONS, ROUNDS, RUNNERS, TIMING_DETAILS
from dprl.sources import results_version

Create = Callable[[], Any]
"""Makes one more environment."""
_NOISE = tuple(entry.name for entry in fields(NoiseConfig))
MOST_SUBMISSIONS = 10**9
# Attributes that RLlib itself sets on configs, besides those of its constructor.
_OF_RLLIB = frozenset({"worker_index", "simple_optimizer", "algo_class", "policies"})
# RLlib passes these to `training`; here it accepts none of them.
_THROUGH_TRAINING = ("model", "optimizer", "replay_buffer_config")


class GradientCollectionConfig(AlgorithmConfig):
    """Settings of private gradient collection on RLlib.

    `environment`, `rl_module`, `evaluation`, `resources`, `fault_tolerance`, `callbacks` and `debugging(seed=)` are
    RLlib's. `training`, `privacy`, `schedule` and `ledger` are ours, and `env_runners` takes a few more settings. An
    unknown setting raises TypeError in a method, AttributeError as an attribute and ValueError in a dict. `validate`
    refuses settings of RLlib that would be ignored here; see `settings`.
    """

    _learning: ClassVar[Any]
    """The dataclass of the algorithm's own settings."""
    _left_out: ClassVar[frozenset[str]] = frozenset()
    """Its fields that are not settings on RLlib."""
    _of_module: ClassVar[frozenset[str]]  # settings of the default module
    _models: ClassVar[tuple[str, ...]]
    """Supported trust models. The shuffle model is not among them: runners send messages directly to the server."""
    fixed_calls: ClassVar[bool] = False
    """Whether batches have their full size for any number of runners."""
    _for_training: ClassVar[tuple[str, ...]] = ("n_submissions", "submissions_per_iteration")
    """Arguments of `training` besides the algorithm's own settings."""
    _for_runners: ClassVar[tuple[str, ...]] = ("agents_per_call",)
    """Additional arguments of `env_runners`."""
    _further_identity: ClassVar[tuple[str, ...]] = ()
    """Names of other settings that change episodes, because different data need different noise."""

    def __init__(self, algo_class: type | None = None) -> None:
        self._complete = False
        super().__init__(algo_class=algo_class or self._algorithm_class())
        learning = self._learning()
        for name in self.learning_names():
            setattr(self, name, getattr(learning, name))
        self.privacy_settings: dict[str, Any] = {}
        self.round_seconds = 0.0
        self.reserve: int | None = None
        self.agents_per_call: int | None = None
        self.ledger_folder: str | None = None
        self.seed = 0
        self._set_defaults()
        # Every call sends the parameters, so RLlib's syncing of weights is off.
        self.env_runner_cls = PrivateEnvRunner
        self._dont_auto_sync_env_runner_states = True
        self.merge_env_runner_states = self.broadcast_env_runner_states = False
        self.restart_failed_env_runners = True
        # By default RLlib sleeps for a minute before a restart and waits half a minute for dead runners.
        self.delay_between_env_runner_restarts_s, self.env_runner_health_probe_timeout_s = 0.0, 0.05
        self.max_requests_in_flight_per_env_runner = 2
        self.sample_timeout_s = 600.0
        self.log_sys_usage = False
        self._complete = True

    @classmethod
    @abstractmethod
    def _algorithm_class(cls) -> type:
        """Return the algorithm; a method, because Ray pickles classes and a cycle of them would not terminate."""

    @abstractmethod
    def _set_defaults(self) -> None:
        """Set the defaults of the algorithm, among them n_submissions and submissions_per_iteration."""

    @classmethod
    def learning_names(cls) -> tuple[str, ...]:
        """Return the names of the algorithm's own settings."""
        return tuple(entry.name for entry in fields(cls._learning) if entry.name not in cls._left_out)

    def training(self, **settings: Any) -> Self:  # noqa: ANN401 - the algorithm's own
        """Set the learning settings, the length of a run, and the messages per call of `train`."""
        return self._set("training", settings, (*self.learning_names(), *self._for_training))

    def schedule(self, **settings: Any) -> Self:  # noqa: ANN401 - checked by name
        """Set the schedule of starting parameters and the release times of replies.

        Messages are applied in the order of their slots, so that runs can be repeated with any number of runners.
        reserve: submissions beyond `n_submissions` that replace lost ones; None: a tenth of it plus a thousand.
        round_seconds: replies leave at whole multiples of it; 0: at once. If it exceeds the time of the longest batch,
        every reply leaves after one round and does not reveal the length of episodes. A longer batch visibly takes a
        second round, so the certificate names rounds.
        """
        return self._set("schedule", settings, ("reserve", "round_seconds"))

    def privacy(self, *, model: str, **settings: Any) -> Self:  # noqa: ANN401 - the trust models' own
        """Set the trust model and its settings, and how noise is drawn (`entropy`, `arithmetic`)."""
        known = {key for name in self._models for key in GradientPrivacy.keys(name)} | {*_NOISE}
        for key in settings:
            if key not in known:
                raise TypeError(unknown("argument of privacy()", key, known))
        self.privacy_settings = {"model": model, **settings}
        return self

    def ledger(self, *, folder: str | None) -> Self:
        """Set the folder of the journal: an absolute path on a disk that outlives the run; None for the default."""
        self.ledger_folder = folder
        return self

    def env_runners(self, **settings: Any) -> Self:  # noqa: ANN401 - RLlib's own
        """Set the number of runners and the agents per call; other settings are RLlib's.

        agents_per_call: agents per call to a runner, see `call_plan`. RLlib's sample_timeout_s: time limit of a remote
        runner for a batch; after it the batch is lost and the runner restarted.
        """
        own = {key: settings.pop(key) for key in self._for_runners if key in settings}
        super().env_runners(**settings)
        return self._set("env_runners", own, self._for_runners)

    def update_from_dict(self, config_dict: dict[str, Any]) -> Self:
        """Set attributes by name, as RLlib does. Raises ValueError for an unknown name."""
        changes = dict(config_dict)
        for key in _THROUGH_TRAINING:
            if key in changes and changes.pop(key) != getattr(self, key, None):
                raise ValueError(f"{key} must be left as it is, got another one; give modules by rl_module")
        for key in changes:
            name = self._translate_special_keys(key, warn_deprecated=False)
            # Tune adds some of its own: `__trial_info__`, `__stdout_file__` and the like.
            if not (name.startswith("__") or name in ("multiagent", "_enable_new_api_stack") or hasattr(self, name)):
                raise ValueError(unknown("setting", key, _names_of(self)))
        super().update_from_dict(changes)
        return self

    def __setattr__(self, key: str, value: object) -> None:
        if not key.startswith("_") and key not in _OF_RLLIB and vars(self).get("_complete") and not hasattr(self, key):
            raise AttributeError(unknown("setting", key, _names_of(self)))
        super().__setattr__(key, value)

    def validate(self) -> None:
        """Raise ValueError for invalid settings."""
        # First, because RLlib's own error has several lines. RLlib changes some settings of its copy for evaluation.
        if not self.in_evaluation:
            check_settings(self, type(self)(), frozenset(self.learning_names()))
        require_integer("evaluation_duration", self.evaluation_duration, 1, MOST_SUBMISSIONS)
        require_integer("max_requests_in_flight_per_env_runner", self.max_requests_in_flight_per_env_runner, 1, 10_000)
        if self.env is None:
            raise ValueError("env must be one environment with one agent, got None; call environment(...)")
        if self.is_multi_agent:
            named = ", ".join(sorted(map(str, self.policies)))
            raise ValueError(f"policies must be that of a single agent, got {named}; leave multi_agent(...) out")
        given, own = getattr(self._rl_module_spec, "model_config", None), self._model_config
        if given is not None and own:
            raise ValueError("model_config must be given once, got one in rl_module_spec, too; leave one of them out")
        for key in own if self._rl_module_spec is None and isinstance(own, dict) else ():
            if key not in self._of_module:
                raise ValueError(unknown("setting of model_config", key, self._of_module))
        if not isinstance(self.seed, int) or self.seed < 0:
            raise ValueError(f"seed must be an integer of at least 0, got {self.seed!r}; call debugging(seed=0)")
        with quiet(self.log_level):
            super().validate()
        for key in ("n_submissions", "submissions_per_iteration"):
            require_integer(key, getattr(self, key), 1, MOST_SUBMISSIONS)
        if self.reserve is not None:
            require_integer("reserve", self.reserve, 0, MOST_SUBMISSIONS)
        require_number("round_seconds", self.round_seconds, 0.0)
        require_number("sample_timeout_s", self.sample_timeout_s, 0.0)
        if self.sample_timeout_s <= self.round_seconds:
            rule = f"sample_timeout_s must exceed round_seconds, {self.round_seconds:g}"
            raise ValueError(f"{rule}, got {self.sample_timeout_s:g}; call env_runners(sample_timeout_s=...)")
        if self.agents_per_call is not None:
            require_integer("agents_per_call", self.agents_per_call, 1, MOST_SUBMISSIONS)
        self.trust_model()
        self._validate_learning()
        self.noise()

    @abstractmethod
    def _validate_learning(self) -> None:
        """Raise ValueError for invalid settings of the algorithm."""

    @abstractmethod
    def learning_config(self) -> Any:  # noqa: ANN401 - an instance of `_learning`
        """Return the settings of the algorithm. Raises ValueError."""

    @property
    @abstractmethod
    def call_size(self) -> int:
        """The number of agents per call, a function of the settings; raises ValueError."""

    @abstractmethod
    def layout(self, dimension: int) -> GradientLayout:
        """Return the layout of gradients float64[dimension]."""

    @abstractmethod
    def rules(self, privatizer: GradientPrivatizer) -> CollectionRules:
        """Return the rules of the aggregator. Raises ValueError."""

    @abstractmethod
    def local_update(self, env: Any, module: TorchRLModule, create: Callable[[], Any]) -> LocalUpdate:  # noqa: ANN401
        """Return the agents' side of a runner with this environment and module; `create` makes more environments.

        *Formal guarantee.* It keeps gradients and trajectories from everyone but the caller, who sends them by a
        client; an error during an agent's episode is not raised.
        """

    @abstractmethod
    def dry_run(self, env: Any, module: TorchRLModule, create: Callable[[], Any]) -> None:  # noqa: ANN401
        """Raise errors of environment and module before there are agents; later errors would reveal data."""

    @abstractmethod
    def returns(
        self, env: gym.Env[Any, Any], module: TorchRLModule, create: Create, seeds: Sequence[int], sampled: bool
    ) -> list[float]:
        """Return the sum of rewards of an episode for each seed, without agents.

        sampled: whether actions are drawn from the policy; else they are the most probable ones.
        """

    def score_metrics(self, tracker: ScoreTracker) -> dict[str, float]:  # noqa: ARG002
        """Return metrics of scores, besides their mean."""
        return {}

    def initial_parameters(self, module: TorchRLModule, spaces: Any) -> Float64Array:  # noqa: ANN401 - RLlib's
        """Return the first parameters float64[d]: those of the module's checkpoint, or drawn with the seed."""
        spec = self.get_rl_module_spec(spaces=spaces, inference_only=False)
        if spec.load_state_path is not None:
            return read_parameters(module)
        # Not the learner's: its draws depend on the number of modules made before in this process.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            return read_parameters(spec.build())

    def trust_model(self) -> GradientPrivacy:
        """Return the privacy settings; raises ValueError."""
        settings = {key: value for key, value in self.privacy_settings.items() if key not in _NOISE}
        if not settings:
            raise ValueError(
                "privacy must be chosen, got nothing; call privacy(model='ldp', epsilon=1.0, "
                "mechanism='clipped_laplace'), or privacy(model='none') for a run without privacy"
            )
        name = settings.pop("model")
        check_choice("model", name, self._models)
        known = set(GradientPrivacy.keys(name))
        for key in settings:
            if key not in known:
                raise ValueError(unknown(f"setting of privacy(model={name!r})", key, known))
        if "epsilon" in known - set(settings):
            raise ValueError(f"epsilon must be given for privacy(model={name!r}), got nothing; choose it")
        return GradientPrivacy(name, **settings)

    def noise(self) -> NoiseConfig:
        """Return the noise settings; raises ValueError."""
        return NoiseConfig(**{key: value for key, value in self.privacy_settings.items() if key in _NOISE})

    @property
    def population(self) -> int:
        """Largest number of submissions: those of the run, and the reserve."""
        reserve: int = self.n_submissions // 10 + 1000 if self.reserve is None else self.reserve
        return int(self.n_submissions) + reserve

    @property
    def compiled(self) -> bool:
        """Whether agents play in a compiled lane, without the user's environment and module."""
        return False

    @property
    def shows_scores(self) -> bool:
        """Whether raw scores leave the agents' side, for the metrics of a simulation."""
        return bool(self.trust_model().release_scores == "simulator")

    @property
    def uncovered_channels(self) -> tuple[str, ...]:
        """Observable channels besides messages and scores; the certificate names them."""
        at_once = TIMING_DETAILS if self.padded else DURATIONS
        duration = ROUNDS if self.round_seconds > 0.0 else at_once
        # Wrappers of environments, e.g. for normalisation, may carry data from one agent to the next.
        carried = () if self.compiled else (CARRIED,)
        processes = (RUNNERS,) if self.privacy_settings.get("model") == "jdp" else ()
        return (duration, *carried, *processes)

    def streams(self) -> Streams:
        """Return the random streams of the run: a function of its settings, not of the number of processes."""
        learning = replace(self.learning_config(), padded=False)
        env, spec = (str(self.env), sorted(self.env_config.items())), self._rl_module_spec
        said = [getattr(spec, name, None) for name in ("module_class", "model_config", "load_state_path")]
        with np.printoptions(threshold=sys.maxsize, floatmode="unique"):  # as text, equal in every process
            module = re.sub(r" at 0x[0-9a-f]+", "", repr((said, self._model_config)))
        # The agent of a submission depends on the number of agents.
        further = [getattr(self, name) for name in self._further_identity]
        agents = (self.compiled, module, self.population, *further)
        what = repr((results_version(), learning, self.trust_model(), self.n_submissions, env, agents))
        return Streams(self.seed, hashlib.sha256(what.encode()).hexdigest(), self.noise())

    def get_default_learner_class(self) -> type:
        """Return the holder of the module."""
        return _Learner

    def _set(self, method: str, settings: Mapping[str, object], known: Collection[str]) -> Self:
        for key, value in settings.items():
            if key not in known:
                raise TypeError(unknown(f"argument of {method}()", key, known))
            setattr(self, key, value)
        return self


def _names_of(config: AlgorithmConfig) -> list[str]:
    return [name for name in vars(config) if not name.startswith("_")]


_RLLIB_NAMES = {
    "lr": "learning_rate",
    "gamma": "discount",
    "train_batch_size": "submissions_per_iteration",
    "train_batch_size_per_learner": "submissions_per_iteration",
    "entropy_coeff": "entropy_weight",
    "vf_loss_coeff": "value_weight",
}
"""Names of the same settings in other algorithms of RLlib."""


def unknown(kind: str, key: str, known: Collection[str]) -> str:
    """Return the message for an unknown name, with the nearest known one."""
    if key in refused().keys() - _RLLIB_NAMES.keys():
        return f"unknown {kind} {key!r}; {refused()[key][1]}"
    nearest = difflib.get_close_matches(key, sorted(known), 1)
    nearest = [_RLLIB_NAMES[key]] if key in _RLLIB_NAMES else nearest
    hint = f"did you mean {nearest[0]!r}?" if nearest else f"choose one of {', '.join(sorted(known)[:30])}"
    return f"unknown {kind} {key!r}; {hint}"


class _Learner(TorchLearner):
    """Holds the module, into which the algorithm writes its parameters; it has no optimizer and computes no loss."""

    def configure_optimizers_for_module(self, module_id: str, config: object = None) -> None:
        """Register none: the aggregator updates its own parameters."""

    def compute_loss_for_module(self, **_: object) -> NoReturn:
        """Raise RuntimeError: losses are the agents' own."""
        raise RuntimeError("the aggregator computes no losses, it is sent private gradients; call train()")
