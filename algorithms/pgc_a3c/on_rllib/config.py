"""AlgorithmConfig of PGC-A3C on RLlib; it refuses unknown settings."""

from __future__ import annotations

import difflib
import hashlib
import re
import sys
from collections.abc import Collection, Mapping
from dataclasses import fields, replace
from typing import Any, ClassVar, Literal, Self, TypedDict, Unpack, cast

import numpy as np
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

from dprl.algorithms.base import check_choice, check_number, check_whole
from dprl.algorithms.pgc.schedule import CallPlan, Schedule, call_plan
from dprl.algorithms.pgc_a3c.algorithm import PGCA3CConfig
from dprl.algorithms.pgc_a3c.on_rllib.env_runner import PrivateEnvRunner
from dprl.algorithms.pgc_a3c.on_rllib.learner import PGCLearner
from dprl.algorithms.pgc_a3c.on_rllib.module import ActorCriticModule
from dprl.algorithms.pgc_a3c.on_rllib.settings import check_settings
from dprl.envs import CartPoleGravity
from dprl.privacy import NoiseConfig, Streams, source_digest
from dprl.privacy.threat_models import ARRIVALS, CARRIED, DURATIONS, ROUNDS, TIMING_DETAILS
from dprl.privacy.trust_models import TRUST_MODELS

_CART_POLE = "dprl/CartPoleGravity-v0"
_LANES = ("auto", "compiled", "torch")
_BOX = tuple(entry.name for entry in fields(PGCA3CConfig))
_MODELS = {name: kind for name, kind in TRUST_MODELS["gradients"].items() if name in ("none", "ldp")}
"""Trust models of runners: they hold gradients without noise, so that a trusted server would be every process, and send
messages to the server without a shuffler between them."""
_NOISE = tuple(entry.name for entry in fields(NoiseConfig))
_MOST_SUBMISSIONS = 10**9
# Attributes that RLlib itself sets on configs, besides those of its constructor.
_OF_RLLIB = frozenset({"worker_index", "simple_optimizer", "algo_class", "policies"})
# RLlib passes these to `training`; it takes none of them here.
_THROUGH_TRAINING = ("model", "optimizer", "replay_buffer_config")


class _TrainingSettings(TypedDict, total=False):
    """Arguments of `training`: the settings of `PGCA3CConfig`, and the length of a run."""

    learning_rate: float
    buffer_size: int
    halving: float
    success_memory: float
    success_full: float
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


class _ScheduleSettings(TypedDict, total=False):
    """Arguments of `schedule`."""

    deterministic: bool
    reserve: int | None
    round_seconds: float


class _RunnerSettings(TypedDict, total=False):
    """Additional arguments of `env_runners`."""

    agents_per_call: int | None
    lane: Literal["auto", "compiled", "torch"]


class PGCConfig(AlgorithmConfig):
    """The settings of a PGC-A3C run on RLlib.

    `environment`, `rl_module`, `evaluation`, `resources`, `fault_tolerance`, `callbacks` and `debugging(seed=)` are
    RLlib's. `training`, `privacy`, `schedule` and `ledger` are this algorithm's, and `env_runners` takes two more
    settings. An unknown setting is refused: TypeError from a method, AttributeError or ValueError from an attribute or
    a dict. A setting of RLlib that would be ignored here is refused by `validate`; see `settings`.
    """

    _algorithm_class: ClassVar[type | None] = None
    """Set by `algorithm.py`, which imports this file."""

    def __init__(self, algo_class: type | None = None) -> None:
        self._complete = False
        super().__init__(algo_class=algo_class or self._algorithm_class)
        box = PGCA3CConfig()
        for name in _BOX:
            setattr(self, name, getattr(box, name))
        self.reward: str | None = None
        self.staleness: int | None = None
        self.n_submissions, self.submissions_per_iteration = 90_000, 1000
        self.privacy_settings: dict[str, Any] = {}
        self.deterministic, self.round_seconds = True, 0.0
        self.reserve: int | None = None
        self.agents_per_call: int | None = None
        self.lane = "auto"
        self.ledger_folder: str | None = None
        self.env, self.seed = _CART_POLE, 0
        self._leave_runners_alone()
        self._complete = True

    def _leave_runners_alone(self) -> None:
        """Turn off RLlib's weight syncing and restarts of runners: here parameters travel with every call."""
        self.env_runner_cls = PrivateEnvRunner
        self._dont_auto_sync_env_runner_states = True
        self.merge_env_runner_states = self.broadcast_env_runner_states = False
        self.restart_failed_env_runners = True
        # RLlib sleeps for a minute before a restart, and waits half a minute for the dead: both would stop the living.
        self.delay_between_env_runner_restarts_s, self.env_runner_health_probe_timeout_s = 0.0, 0.05
        self.max_requests_in_flight_per_env_runner = 2
        self.sample_timeout_s = 600.0

    def training(self, **settings: Unpack[_TrainingSettings]) -> Self:
        """Set the learning settings and the length of the run; see `PGCA3CConfig`.

        reward: by default 'terminal' on CartPole with gravity, and elsewhere 'literal', the environment's reward.
        staleness: by default it keeps all runners busy, see `call_plan` of `dprl.algorithms.pgc.schedule`; with a
        given number, results do not depend on the number of runners. n_submissions: messages to be applied in all.
        submissions_per_iteration: in one call of `train`.
        """
        return self._set("training", settings, _TrainingSettings.__annotations__)

    def schedule(self, **settings: Unpack[_ScheduleSettings]) -> Self:
        """Set the schedule of starting parameters and the release times of replies.

        deterministic: True applies messages in the order of their slots, so that runs can be repeated with any number
        of runners; False applies each when it arrives. reserve: submissions beyond `n_submissions` that replace lost
        ones; None: a tenth of it plus a thousand. round_seconds: replies leave at whole multiples of it; 0: at once. It
        must exceed the time of the longest batch: then every reply leaves after one round and does not reveal the
        length of episodes. A longer batch is visible by its second round, so the certificate names rounds.
        """
        return self._set("schedule", settings, _ScheduleSettings.__annotations__)

    def privacy(self, *, model: str, **settings: Any) -> Self:  # noqa: ANN401 - the trust models' own
        """Set the trust model, 'ldp' or 'none', its settings, and how noise is drawn (`entropy`, `arithmetic`)."""
        known = {entry.name for kind in _MODELS.values() for entry in fields(cast("Any", kind))} | {*_NOISE}
        _refuse_unknown("privacy", settings, known)
        self.privacy_settings = {"model": model, **settings}
        return self

    def ledger(self, *, folder: str | None) -> Self:
        """Set where charges are journaled: an absolute path on a disk that outlives the run; None for the default."""
        self.ledger_folder = folder
        return self

    def env_runners(self, **settings: Any) -> Self:  # noqa: ANN401 - RLlib's own
        """Set the number of runners and the agents per call; other settings are RLlib's.

        agents_per_call: agents per message between processes; by default 24 with one runner, 12 with two, else 9, or
        fewer if a given staleness requires it. lane: 'compiled' for CartPole with gravity and the default module,
        'torch' for all others, 'auto' to choose. RLlib's sample_timeout_s: time limit of a remote runner for a batch;
        then the batch is lost and the runner restarted.
        """
        own = {key: settings.pop(key) for key in _RunnerSettings.__annotations__ if key in settings}
        super().env_runners(**settings)
        return self._set("env_runners", own, _RunnerSettings.__annotations__)

    def update_from_dict(self, config_dict: dict[str, Any]) -> Self:
        """Set attributes by name, as RLlib does, but raise ValueError for an unknown name."""
        changes = dict(config_dict)
        for key in _THROUGH_TRAINING:
            if key in changes and changes.pop(key) != getattr(self, key, None):
                raise ValueError(f"{key} must be left as it is, got another one; give modules by rl_module")
        for key in changes:
            name = self._translate_special_keys(key, warn_deprecated=False)
            # Tune adds some of its own: `__trial_info__`, `__stdout_file__` and the like.
            if not (name.startswith("__") or name in ("multiagent", "_enable_new_api_stack") or hasattr(self, name)):
                raise ValueError(_unknown("setting", key, _names_of(self)))
        super().update_from_dict(changes)
        return self

    def __setattr__(self, key: str, value: object) -> None:
        if not key.startswith("_") and key not in _OF_RLLIB and vars(self).get("_complete") and not hasattr(self, key):
            raise AttributeError(_unknown("setting", key, _names_of(self)))
        super().__setattr__(key, value)

    def validate(self) -> None:
        """Raise ValueError for invalid settings."""
        # First, because RLlib's own error has several lines.
        self._validate_runners()
        super().validate()
        for key in ("n_submissions", "submissions_per_iteration"):
            check_whole(key, getattr(self, key), 1, _MOST_SUBMISSIONS)
        if self.reserve is not None:
            check_whole("reserve", self.reserve, 0, _MOST_SUBMISSIONS)
        check_number("round_seconds", self.round_seconds, 0.0)
        check_choice("lane", self.lane, _LANES)
        if not isinstance(self.deterministic, bool):
            raise ValueError(f"deterministic must be True or False, got {self.deterministic!r}; choose one of them")
        check_number("sample_timeout_s", self.sample_timeout_s, 0.0)
        if self.sample_timeout_s <= self.round_seconds:
            raise ValueError(
                f"sample_timeout_s must exceed round_seconds, {self.round_seconds:g}, got {self.sample_timeout_s:g}; "
                "call env_runners(sample_timeout_s=...)"
            )
        self._validate_box()
        self.noise()
        if self.compiled:
            self.cart_pole()

    def _validate_box(self) -> None:
        if self.agents_per_call is not None:
            check_whole("agents_per_call", self.agents_per_call, 1, _MOST_SUBMISSIONS)
        Schedule(self.staleness or 0, self.buffer_size).checked()
        trust = self.trust_model()
        if self.box().success_memory > 0.0 and trust.release_scores != "private":
            raise ValueError(
                f"success_memory must be 0 without private score bits, got {self.success_memory}; "
                "call privacy(..., release_scores='private', score_epsilon=...)"
            )

    def _validate_runners(self) -> None:
        # RLlib changes some settings of the copy that it makes for evaluation.
        if not self.in_evaluation:
            check_settings(self, PGCConfig(), frozenset(_BOX))
        check_whole("evaluation_duration", self.evaluation_duration, 1, _MOST_SUBMISSIONS)
        check_whole("max_requests_in_flight_per_env_runner", self.max_requests_in_flight_per_env_runner, 1, 10_000)
        if self.is_multi_agent or self.env is None:
            raise ValueError(f"env must be one environment with one agent, got {self.env!r}; call environment(...)")
        if not isinstance(self.seed, int) or self.seed < 0:
            raise ValueError(f"seed must be an integer of at least 0, got {self.seed!r}; call debugging(seed=0)")
        if self.lane == "compiled" and not self.on_cart_pole:
            raise ValueError(
                "lane must be torch or auto for another environment or module, got 'compiled'; choose auto"
            )
        if self.padded and not self.compiled:
            raise ValueError(f"padded must be False in the torch lane, got {self.padded}; set round_seconds instead")

    def box(self) -> PGCA3CConfig:
        """Return the settings of the algorithm. Raises ValueError."""
        settings = {name: getattr(self, name) for name in _BOX}
        settings["staleness"] = self.call_plan.staleness
        settings["reward"] = self.reward or ("terminal" if self.env == _CART_POLE else "literal")
        return PGCA3CConfig(**settings)

    @property
    def call_plan(self) -> CallPlan:
        """The number of agents per call and the staleness, a function of the settings; raises ValueError."""
        # Messages that are applied as they arrive wait for no others.
        staleness = self.staleness if self.deterministic or self.agents_per_call is None else None
        calls = self.max_requests_in_flight_per_env_runner
        found = call_plan(self.num_env_runners or 0, calls, self.buffer_size, self.agents_per_call, staleness)
        return found if self.staleness is None else found._replace(staleness=self.staleness)

    def trust_model(self) -> Any:  # noqa: ANN401 - one of TRUST_MODELS
        """Return the trust model; raises ValueError."""
        settings = {key: value for key, value in self.privacy_settings.items() if key not in _NOISE}
        if not settings:
            raise ValueError(
                "privacy must be chosen, got nothing; call privacy(model='ldp', epsilon=1.0, "
                "mechanism='clipped_laplace'), or privacy(model='none') for a run without privacy"
            )
        name = settings.pop("model")
        check_choice("model", name, _MODELS)
        kind: Any = _MODELS[name]
        known = {entry.name for entry in fields(kind)}
        for key in settings:
            if key not in known:
                raise ValueError(_unknown(f"setting of privacy(model={name!r})", key, known))
        if "epsilon" in known - set(settings):
            raise ValueError(f"epsilon must be given for privacy(model={name!r}), got nothing; choose it")
        return kind(**settings)

    def noise(self) -> NoiseConfig:
        """Return the noise settings; raises ValueError."""
        return NoiseConfig(**{key: value for key, value in self.privacy_settings.items() if key in _NOISE})

    @property
    def population(self) -> int:
        """Largest number of submissions: those of the run, and the reserve."""
        reserve = self.n_submissions // 10 + 1000 if self.reserve is None else self.reserve
        return self.n_submissions + reserve

    @property
    def on_cart_pole(self) -> bool:
        """Whether the compiled lane supports environment and module."""
        return self.env == _CART_POLE and self._rl_module_spec is None and not self._model_config

    @property
    def compiled(self) -> bool:
        """Whether agents play in the compiled lane."""
        return self.lane != "torch" and self.on_cart_pole

    @property
    def shows_scores(self) -> bool:
        """Whether raw scores leave the agents' side, for the metrics of a simulation."""
        return bool(self.trust_model().release_scores == "simulator")

    @property
    def channels_left_open(self) -> tuple[str, ...]:
        """Observable channels besides messages and scores; the certificate names them."""
        at_once = TIMING_DETAILS if self.padded else DURATIONS
        duration = ROUNDS if self.round_seconds > 0.0 else at_once
        # Wrappers of environments, e.g. normalisation, carry data of one agent to the next.
        carried = () if self.compiled else (CARRIED,)
        return (duration, *carried, *(() if self.deterministic else (ARRIVALS,)))

    def cart_pole(self) -> CartPoleGravity:
        """Return the environment of the compiled lane; raises ValueError."""
        known = {entry.name for entry in fields(CartPoleGravity)}
        for key in self.env_config:
            if key not in known:
                raise ValueError(_unknown(f"setting of {_CART_POLE}", key, known))
        return CartPoleGravity(**self.env_config)

    def streams(self) -> Streams:
        """Return the random streams of the run: a function of its settings, not of the number of processes."""
        box, place = replace(self.box(), padded=False), (str(self.env), sorted(self.env_config.items()))
        # The agent of a submission depends on the number of agents.
        agents = (self.compiled, self._module_text(), self.population, self.deterministic)
        what = repr((source_digest(), box, self.trust_model(), self.n_submissions, place, agents))
        return Streams(self.seed, hashlib.sha256(what.encode()).hexdigest(), self.noise())

    def _module_text(self) -> str:
        """Return the module settings as text, equal in every process: no addresses, no marks of RLlib's."""
        spec = self._rl_module_spec
        said = [getattr(spec, name, None) for name in ("module_class", "model_config", "load_state_path")]
        with np.printoptions(threshold=sys.maxsize, floatmode="unique"):
            return re.sub(r" at 0x[0-9a-f]+", "", repr((said, self._model_config)))

    def get_default_rl_module_spec(self) -> RLModuleSpec:
        """Return the spec of `ActorCriticModule`."""
        return RLModuleSpec(module_class=ActorCriticModule)

    def get_default_learner_class(self) -> type:
        """Return `PGCLearner`."""
        return PGCLearner

    def _set(self, method: str, settings: Mapping[str, object], known: Collection[str]) -> Self:
        _refuse_unknown(method, settings, known)
        for key, value in settings.items():
            setattr(self, key, value)
        return self


def _names_of(config: AlgorithmConfig) -> list[str]:
    return [name for name in vars(config) if not name.startswith("_")]


def _refuse_unknown(method: str, settings: Mapping[str, object], known: Collection[str]) -> None:
    for key in settings:
        if key not in known:
            raise TypeError(_unknown(f"argument of {method}()", key, known))


_RLLIB_NAMES = {
    "lr": "learning_rate",
    "gamma": "discount",
    "train_batch_size": "submissions_per_iteration",
    "train_batch_size_per_learner": "submissions_per_iteration",
    "entropy_coeff": "entropy_weight",
    "vf_loss_coeff": "value_weight",
}
"""Names of the same settings in other algorithms of RLlib."""


def _unknown(kind: str, key: str, known: Collection[str]) -> str:
    nearest = difflib.get_close_matches(key, sorted(known), 1)
    nearest = [_RLLIB_NAMES[key]] if key in _RLLIB_NAMES else nearest
    hint = f"did you mean {nearest[0]!r}?" if nearest else f"choose one of {', '.join(sorted(known)[:30])}"
    return f"unknown {kind} {key!r}; {hint}"
