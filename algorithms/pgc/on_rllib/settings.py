"""Support of each setting of RLlib's AlgorithmConfig: it works, has no effect by nature, or is refused.

A test checks that every setting of the installed RLlib is listed.
"""

from __future__ import annotations

import inspect
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

_EPISODES = "episodes stay with their agents, and a callback would see them: use on_train_result or on_evaluate_end"
_WRAP = "wrap the environment instead: RLlib's pipeline does not run here"
_WHOLE = "each agent plays one whole episode: call env_runners(agents_per_call=...)"
_PARAMETERS = "the aggregator adds private messages up and computes no loss: call training(learning_rate=...)"
_DRIVER = "the aggregator lives in the driver and needs no learner of its own"
_FILES = "agents are played: nothing is read from files, and no trajectory may be written"
_ONE = "there is one agent with one module"
_OLD = "it belongs to RLlib's old API stack"
_NO_STATE = "runners keep no state: parameters travel with every call"
_COMPILE = "modules run uncompiled on torch"

REFUSED: dict[str, tuple[str, ...]] = {
    _WRAP: (
        *("env_to_module_connector", "module_to_env_connector", "clip_rewards", "action_mask_key", "is_atari"),
        *("gym_env_vectorize_mode", "remote_worker_envs", "remote_env_batch_wait_ms", "preprocessor_pref"),
        *("_disable_preprocessor_api", "_disable_action_flattening", "restart_failed_sub_environments"),
    ),
    "its means over agents would reach other messages without noise: normalise by constants in a wrapper": (
        *("observation_filter", "update_worker_filter_stats", "use_worker_filter_stats"),
        "sync_filters_on_rollout_workers_timeout_s",
    ),
    "the spaces are those of the environment": ("observation_space", "action_space"),
    "nobody may watch an agent: render in the environment that evaluate() plays": ("render_env",),
    _EPISODES: (
        *("callbacks_on_episode_created", "callbacks_on_episode_start", "callbacks_on_episode_step"),
        *("callbacks_on_episode_end", "callbacks_on_sample_end"),
    ),
    "do it in the environment's constructor": ("callbacks_on_environment_created",),
    "runners come back during train(): read 'lost' in its result": ("callbacks_on_env_runners_recreated",),
    "actions are drawn from the module, and as training() says": ("explore", "exploration_config"),
    _WHOLE: (
        *("rollout_fragment_length", "batch_mode", "num_envs_per_env_runner", "episode_lookback_horizon"),
        *("episodes_to_numpy", "compress_observations", "sample_collector", "count_steps_by"),
    ),
    "agents clip their own gradients: call privacy(clip=...)": ("grad_clip", "grad_clip_by"),
    "call training(learning_rate=...)": ("lr",),
    "call training(discount=...)": ("gamma",),
    "call training(submissions_per_iteration=...)": (
        *("train_batch_size", "train_batch_size_per_learner", "min_time_s_per_iteration"),
        *("min_train_timesteps_per_iteration", "min_sample_timesteps_per_iteration"),
    ),
    _PARAMETERS: (
        *("minibatch_size", "num_epochs", "shuffle_batch_per_epoch", "optimizer", "learner_class"),
        *("learner_connector", "learner_config_dict", "log_gradients", "torch_skip_nan_gradients"),
        *("_torch_grad_scaler_class", "_torch_lr_scheduler_classes", "_disable_initialize_loss_from_dummy_batch"),
    ),
    _DRIVER: (
        *("num_learners", "num_cpus_per_learner", "num_gpus_per_learner", "custom_resources_per_learner"),
        *("local_gpu_idx", "max_requests_in_flight_per_learner", "num_aggregator_actors_per_learner"),
        *("max_requests_in_flight_per_aggregator_actor", "torch_ddp_kwargs", "num_gpus", "_fake_gpus"),
    ),
    _NO_STATE: (
        *("merge_env_runner_states", "broadcast_env_runner_states", "use_env_runner_state_server"),
        *("env_runner_state_server_max_concurrency", "create_local_env_runner", "create_env_on_local_worker"),
    ),
    "only its runners keep trajectories to themselves": ("env_runner_cls",),
    "a batch that fails is lost, and a fresh agent takes its place": ("ignore_env_runner_failures",),
    "evaluate() plays a simulator in the driver: call evaluation(evaluation_duration=...)": (
        *("evaluation_num_env_runners", "evaluation_duration_unit", "evaluation_parallel_to_training"),
        *("evaluation_auto_duration_min_env_steps_per_sample", "evaluation_auto_duration_max_env_steps_per_sample"),
        *("evaluation_sample_timeout_s", "evaluation_unhealthy_workers_timeout_s", "custom_evaluation_function"),
        *("evaluation_error_after_n_consecutive_skips", "evaluation_force_reset_envs_before_iteration"),
    ),
    "no episode of an agent is measured: read the results of train() and evaluate()": (
        *("keep_per_episode_custom_metrics", "metrics_episode_collection_timeout_s"),
        "metrics_num_episodes_for_smoothing",
    ),
    "give modules by rl_module(rl_module_spec=...)": ("model",),
    _ONE: (
        *("algorithm_config_overrides_per_module", "observation_fn", "policies_to_train", "policy_map_capacity"),
        *("policy_states_are_swappable", "checkpoint_trainable_policies_only"),
    ),
    _COMPILE: (
        *("framework_str", "torch_compile_learner", "torch_compile_learner_dynamo_backend"),
        *("torch_compile_learner_dynamo_mode", "torch_compile_learner_what_to_compile", "torch_compile_worker"),
        *("torch_compile_worker_dynamo_backend", "torch_compile_worker_dynamo_mode", "eager_max_retraces"),
        *("eager_tracing", "enable_tf1_exec_eagerly", "local_tf_session_args", "tf_session_args"),
        "_tf_policy_handles_more_than_one_loss",
    ),
    "it runs on RLlib's new API stack only": ("enable_rl_module_and_learner", "enable_env_runner_and_connector_v2"),
    "set them in Ray's runtime_env": ("extra_python_environs_for_driver", "extra_python_environs_for_worker"),
    _OLD: (
        *("export_native_model_files", "fake_sampler", "sampler_perf_stats_ema_coef", "replay_sequence_length"),
        *("postprocess_inputs", "actions_in_input_normalized"),
    ),
    _FILES: (
        *("input_", "input_compress_columns", "input_config", "input_filesystem", "input_filesystem_kwargs"),
        *("input_read_batch_size", "input_read_episodes", "input_read_method", "input_read_method_kwargs"),
        *("input_read_sample_batches", "input_read_schema", "input_spaces_jsonable", "iter_batches_kwargs"),
        *("map_batches_kwargs", "materialize_data", "materialize_mapped_data", "ignore_final_observation"),
        *("prelearner_buffer_class", "prelearner_buffer_kwargs", "prelearner_class", "shuffle_buffer_size"),
        *("prelearner_module_synch_period", "prelearner_use_recorded_module_states", "offline_data_class"),
        *("dataset_num_iters_per_learner", "dataset_num_iters_per_eval_runner", "offline_sampling", "output"),
        *("output_compress_columns", "output_config", "output_filesystem", "output_filesystem_kwargs"),
        *("output_max_file_size", "output_max_rows_per_file", "output_write_episodes", "output_write_method"),
        *("output_write_method_kwargs", "output_write_remaining_data", "off_policy_estimation_methods"),
        *("ope_split_batch_by_episode", "offline_evaluation_interval", "offline_evaluation_duration"),
        *("offline_evaluation_type", "offline_evaluation_parallel_to_training", "offline_evaluation_timeout_s"),
        *("offline_eval_runner_class", "offline_loss_for_module_fn", "offline_eval_batch_size_per_runner"),
        *("offline_eval_rl_module_inference_only", "num_offline_eval_runners", "num_cpus_per_offline_eval_runner"),
        *("num_gpus_per_offline_eval_runner", "custom_resources_per_offline_eval_runner"),
        *("max_requests_in_flight_per_offline_eval_runner", "broadcast_offline_eval_runner_states"),
        *("validate_offline_eval_runners_after_construction", "restart_failed_offline_eval_runners"),
        *("ignore_offline_eval_runner_failures", "max_num_offline_eval_runner_restarts"),
        *("offline_eval_runner_health_probe_timeout_s", "offline_eval_runner_restore_timeout_s"),
        *("callbacks_on_evaluate_offline_start", "callbacks_on_evaluate_offline_end"),
        "callbacks_on_offline_eval_runners_recreated",
    ),
}
"""Settings that must keep their default, by the alternative."""

_STORED_AS = {
    "framework": "framework_str",
    "custom_stats_cls_lookup": "stats_cls_lookup",
    "dataset_num_iters_per_offline_eval_runner": "dataset_num_iters_per_eval_runner",
}
"""Attributes of RLlib's arguments with an unrelated name."""
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


def check_settings(config: AlgorithmConfig, defaults: AlgorithmConfig, own: frozenset[str]) -> None:
    """Raise ValueError for a setting of RLlib that would be ignored.

    defaults: of the same class. own: names of settings that the class redefines.
    """
    for remedy, names in (*REFUSED.items(), (_OLD, _deprecated() - own)):
        for name in names:
            stored = attribute_of(defaults, name)
            found, default = getattr(config, stored), getattr(defaults, stored)
            if not _same(found, default):
                shown = "its default" if is_deprecated(default) or callable(default) else _SHORT.repr(default)
                raise ValueError(f"{name} must be left at {shown}, got {_SHORT.repr(found)}; {remedy}")
    _check_callbacks(config.callbacks_class)
    _check_evaluation(config.evaluation_config)


def _check_callbacks(classes: Any) -> None:  # noqa: ANN401 - RLlib's: a class, or a list of classes
    """Refuse classes with a method that RLlib would never call here."""
    names = {name: remedy for remedy, names in REFUSED.items() for name in names if name.startswith("callbacks_")}
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


@cache
def _deprecated() -> frozenset[str]:
    # RLlib sets `simple_optimizer` itself.
    plain = vars(AlgorithmConfig())
    return frozenset(name for name, value in plain.items() if is_deprecated(value)) - {"simple_optimizer"}


def _same(found: object, default: object) -> bool:
    """Whether a setting has its default; False if they cannot be compared."""
    equal = found is default or found == default
    if isinstance(equal, bool) and equal:
        return True
    # A class or a function that has been pickled by value is another object.
    named = (found, default)
    return (
        all(inspect.isroutine(each) or inspect.isclass(each) for each in named)
        and len(
            {(each.__module__, each.__qualname__) for each in named}  # type: ignore[attr-defined]
        )
        == 1
    )
