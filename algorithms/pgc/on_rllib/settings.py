"""Support of each setting of RLlib's AlgorithmConfig: it works, has no effect by nature, or is refused."""

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

WORKS = frozenset(
    [
        *("env", "env_config", "rl_module_spec", "model_config", "seed", "log_level", "log_sys_usage"),
        *("num_env_runners", "num_cpus_per_env_runner", "num_gpus_per_env_runner", "custom_resources_per_env_runner"),
        *("num_cpus_for_main_process", "custom_resources_for_main_process", "placement_strategy"),
        *("sample_timeout_s", "max_requests_in_flight_per_env_runner", "validate_env_runners_after_construction"),
        *("restart_failed_env_runners", "max_num_env_runner_restarts", "delay_between_env_runner_restarts_s"),
        *("num_consecutive_env_runner_failures_tolerance", "env_runner_health_probe_timeout_s"),
        *("env_runner_restore_timeout_s", "evaluation_interval", "evaluation_duration", "evaluation_config"),
        *("callbacks_class", "callbacks_on_algorithm_init", "callbacks_on_train_result"),
        *("callbacks_on_checkpoint_loaded", "callbacks_on_evaluate_start", "callbacks_on_evaluate_end"),
        *("stats_cls_lookup", "_use_msgpack_checkpoints", "_validate_config"),
    ]
)
"""Settings that work as in RLlib; `callbacks_class` except for refused methods."""

NO_EFFECT: dict[str, tuple[str, ...]] = {
    "actions outside of a Box are moved to its edge, and never rescaled": ("clip_actions", "normalize_actions"),
    "environment and module are always tried before there are agents": ("disable_env_checking",),
    "there are no connectors": (
        "add_default_connectors_to_env_to_module_pipeline",
        "add_default_connectors_to_module_to_env_pipeline",
        "add_default_connectors_to_learner_pipeline",
    ),
    "one agent has one module; more than one is refused": ("policies", "policy_mapping_fn"),
    "RLlib sets it itself": ("algo_class", "in_evaluation"),
}
"""Settings without effect for every value, by the reason."""

_OLD = "it belongs to RLlib's old API stack"
_UNKNOWN = "agents play whole episodes, and the aggregator only sums messages: it has no meaning here"
_REFUSED = {
    "agents are played: nothing is read from files, and no trajectory may be written": "input_.*|output.*|.*offline.*",
    "evaluate() plays a simulator in the driver: call evaluation(evaluation_duration=...)": (
        "evaluation_.*|custom_evaluation_function"
    ),
    "call training(submissions_per_iteration=...)": "train_batch_size.*|min_.*_per_iteration",
    "wrap the environment instead: RLlib's pipeline does not run here": (
        "env_to_module_connector|module_to_env_connector|clip_rewards|_disable_preprocessor_api|"
        "_disable_action_flattening"
    ),
    "its means over agents would reach other messages without noise: normalise by constants in a wrapper": (
        "observation_filter"
    ),
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
    _UNKNOWN: (
        "_fake_gpus|_torch_(grad|lr)_.*|_disable_initialize_loss_from_dummy_batch|learner_.*|is_atari|.*tf_.*|"
        "(observation|action)_space|torch_.*"
    ),
}
"""Patterns of settings that must keep their default, by the alternative; the first that matches has it."""

_STORED_AS = {
    "framework": "framework_str",
    "custom_stats_cls_lookup": "stats_cls_lookup",
    "dataset_num_iters_per_offline_eval_runner": "dataset_num_iters_per_eval_runner",
}
"""Attributes of RLlib's arguments with an unrelated name."""
_SET_BY_RLLIB = "simple_optimizer"
_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = 40


def attribute_of(config: AlgorithmConfig, name: str) -> str:
    """Return the name of the config's attribute for a setting of the tables or an argument of a method."""
    name = _STORED_AS.get(name, name)
    variants = (name, f"_{name}", f"callbacks_{name}")
    return next((variant for variant in variants if variant in vars(config)), name)


def is_deprecated(value: object) -> bool:
    """Whether a default marks a deprecated setting."""
    return isinstance(value, type(DEPRECATED_VALUE)) and value == DEPRECATED_VALUE


@cache
def refused() -> dict[str, str]:
    """Return the settings of the installed RLlib that must keep their default, with the alternative to each.

    These are all settings that neither work nor are without effect; an unknown setting is therefore refused.
    """
    plain = AlgorithmConfig()
    accepted = {attribute_of(plain, name) for names in (WORKS, *NO_EFFECT.values()) for name in names}
    found = {}
    for stored in vars(plain).keys() - accepted - {_SET_BY_RLLIB}:
        # An argument may be stored with an underscore.
        names = dict.fromkeys((stored, stored.removeprefix("_")))
        matches = (
            (name, remedy) for remedy, pattern in _REFUSED.items() for name in names if re.fullmatch(pattern, name)
        )
        name, remedy = next(matches, (stored, "" if stored.startswith("_") else _UNKNOWN))
        if is_deprecated(getattr(plain, stored)):
            name, remedy = stored, _OLD
        if remedy:
            found[name] = remedy
    return found


def check_settings(config: AlgorithmConfig, defaults: AlgorithmConfig, own: frozenset[str]) -> None:
    """Raise ValueError for a setting of RLlib that would be ignored.

    defaults: of the same class. own: names of settings that the class redefines.
    """
    for name in refused().keys() - own:
        stored = attribute_of(defaults, name)
        found, default = getattr(config, stored), getattr(defaults, stored)
        if not _same(found, default):
            shown = "its default" if is_deprecated(default) or callable(default) else _SHORT.repr(default)
            raise ValueError(f"{name} must be left at {shown}, got {_SHORT.repr(found)}; {refused()[name]}")
    _check_callbacks(config.callbacks_class)
    _check_evaluation(config.evaluation_config)


def _check_callbacks(classes: Any) -> None:  # noqa: ANN401 - RLlib's: a class, or a list of classes
    """Refuse classes with a method that RLlib would never call here."""
    names = {name: remedy for name, remedy in refused().items() if name.startswith("callbacks_")}
    for each in classes if isinstance(classes, list | tuple) else [classes]:
        for name, remedy in names.items():
            method = name.removeprefix("callbacks_")
            if getattr(each, method, None) is not getattr(RLlibCallback, method):
                raise ValueError(f"callbacks_class must not have {method}, got {each.__name__}; {remedy}")


def _check_evaluation(settings: Any) -> None:  # noqa: ANN401 - RLlib's: None, a dict or a config
    """Refuse settings that `evaluate` ignores."""
    if settings is None:
        return
    if not isinstance(settings, Mapping):
        raise ValueError(f"evaluation_config must be a dict, got {type(settings).__name__}; give its env_config only")
    for key, value in settings.items():
        if key != "env_config" and not (key == "explore" and value is False):
            raise ValueError(
                f"evaluation_config must have an env_config only, got {key!r}; evaluate() plays the most probable "
                "actions on a simulator"
            )


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
