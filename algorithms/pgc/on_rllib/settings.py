"""Settings of RLlib's AlgorithmConfig that may be changed here; every other one must keep its default."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from functools import cache
from reprlib import Repr
from typing import Any

from ray._common.deprecation import DEPRECATED_VALUE
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.callbacks.callbacks import RLlibCallback

ALLOWED = frozenset(
    [
        # They work as in RLlib; `callbacks_class` except for refused methods.
        *("env", "env_config", "_rl_module_spec", "_model_config", "seed", "log_level", "log_sys_usage"),
        *("num_env_runners", "num_cpus_per_env_runner", "num_gpus_per_env_runner", "custom_resources_per_env_runner"),
        *("num_cpus_for_main_process", "custom_resources_for_main_process", "placement_strategy"),
        *("sample_timeout_s", "max_requests_in_flight_per_env_runner", "validate_env_runners_after_construction"),
        *("restart_failed_env_runners", "max_num_env_runner_restarts", "delay_between_env_runner_restarts_s"),
        *("num_consecutive_env_runner_failures_tolerance", "env_runner_health_probe_timeout_s"),
        *("env_runner_restore_timeout_s", "evaluation_interval", "evaluation_duration", "evaluation_config"),
        *("callbacks_class", "callbacks_on_algorithm_init", "callbacks_on_train_result"),
        *("callbacks_on_checkpoint_loaded", "callbacks_on_evaluate_start", "callbacks_on_evaluate_end"),
        *("stats_cls_lookup", "_use_msgpack_checkpoints", "_validate_config"),
        # No effect: actions outside of a Box are always moved to its edge; environment and module are always tried
        # before there are agents; there are no connectors; more than one policy is refused elsewhere.
        *("clip_actions", "disable_env_checking", "policies", "policy_mapping_fn"),
        "add_default_connectors_to_env_to_module_pipeline",
        "add_default_connectors_to_module_to_env_pipeline",
        "add_default_connectors_to_learner_pipeline",
        # RLlib sets them itself.
        *("algo_class", "in_evaluation", "simple_optimizer", "_is_frozen", "_is_atari", "_is_online"),
    ]
)
"""Attributes of a config."""

_OLD = "it belongs to RLlib's old API stack"
_UNKNOWN = "agents play whole episodes, and the aggregator only sums messages: it has no meaning here"
_REMEDIES = {
    "agents are played: nothing is read from files, and no trajectory may be written": "input_.*|output.*|.*offline.*",
    "evaluate() plays a simulator in the driver: call evaluation(evaluation_duration=...)": (
        "evaluation_.*|custom_evaluation_function"
    ),
    "call training(submissions_per_iteration=...)": "train_batch_size.*|min_.*_per_iteration",
    "wrap the environment instead: RLlib's pipeline does not run here": (
        "env_to_module_connector|module_to_env_connector|clip_rewards|disable_preprocessor_api|"
        "disable_action_flattening"
    ),
    "its means over agents would reach other messages without noise: normalise by constants in a wrapper": (
        "observation_filter"
    ),
    "-1 and 1 are the edges of a bounded Box: for raw actions wrap it as an unbounded one": "normalize_actions",
    "nobody may watch an agent: render in the environment that evaluate() plays": "render_env",
    "episodes stay with their agents, and a callback would see them: use on_train_result or on_evaluate_end": (
        "callbacks_on_(episode|sample)_.*"
    ),
    "do it in the environment's constructor": "callbacks_on_environment_created",
    "runners come back during train(): read 'lost' in its result": "callbacks_on_env_runners_recreated",
    "actions are drawn from the module, and as training() says": "explore|exploration_config",
    "each agent plays one whole episode: call env_runners(agents_per_call=...)": (
        "rollout_fragment_length|batch_mode|num_envs_per_.*"
    ),
    "agents clip their own gradients: call privacy(clip=...)": "grad_clip.*",
    "call training(learning_rate=...)": "lr",
    "call training(discount=...)": "gamma",
    "give modules by rl_module(rl_module_spec=...)": "model",
    _UNKNOWN: ".*",
}
"""Patterns of refused settings by the remedy; the first that matches has it."""
_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = 40


@cache
def refused() -> dict[str, tuple[str, str]]:
    """Return (attribute, remedy) of each setting of the installed RLlib that must keep its default, by its name.

    A name is the attribute without a leading underscore.
    """
    found = {}
    for attribute, default in vars(AlgorithmConfig()).items():
        name = attribute.removeprefix("_")
        if attribute not in ALLOWED:
            remedy = next(remedy for remedy, pattern in _REMEDIES.items() if re.fullmatch(pattern, name))
            found[name] = attribute, _OLD if _is_deprecated(default) else remedy
    return found


def check_settings(config: AlgorithmConfig, defaults: AlgorithmConfig, own: frozenset[str]) -> None:
    """Raise ValueError for a setting of RLlib that is not allowed.

    defaults: of the same class. own: names of settings that the class redefines.
    """
    for name, (attribute, remedy) in refused().items():
        found, default = getattr(config, attribute), getattr(defaults, attribute)
        if name not in own and not _same(found, default):
            shown = "its default" if _is_deprecated(default) or callable(default) else _SHORT.repr(default)
            raise ValueError(f"{name} must be left at {shown}, got {_SHORT.repr(found)}; {remedy}")
    classes: Any = config.callbacks_class
    for each in classes if isinstance(classes, list | tuple) else [classes]:
        for name, (_, remedy) in refused().items():
            method = name.removeprefix("callbacks_")
            if method != name and getattr(each, method, None) is not getattr(RLlibCallback, method):
                raise ValueError(f"callbacks_class must not have {method}, got {each.__name__}; {remedy}")
    evaluation: Any = config.evaluation_config or {}
    if not isinstance(evaluation, Mapping):
        raise ValueError(f"evaluation_config must be a dict, got {type(evaluation).__name__}; give its env_config only")
    for key in evaluation:
        if key not in ("env_config", "explore"):
            rule = "evaluation_config must have env_config and explore only"
            raise ValueError(f"{rule}, got {key!r}; evaluate() plays episodes on a simulator")


def _is_deprecated(value: object) -> bool:
    """Whether a default marks a deprecated setting."""
    return isinstance(value, type(DEPRECATED_VALUE)) and value == DEPRECATED_VALUE


def _same(found: object, default: object) -> bool:
    """Whether a setting has its default; False if they cannot be compared."""
    equal = found is default or found == default
    if isinstance(equal, bool) and equal:
        return True
    # A class or a function that has been pickled by value is another object.
    if not all(inspect.isroutine(each) or inspect.isclass(each) for each in (found, default)):
        return False
    one, other = ((each.__module__, each.__qualname__) for each in (found, default))  # type: ignore[attr-defined]
    return bool(one == other)
