"""Every public setting of RLlib's AlgorithmConfig works, has no effect by nature, or is refused by name."""

from __future__ import annotations

import inspect

import pytest
from ray import cloudpickle
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.callbacks.callbacks import RLlibCallback

from dprl.algorithms.pgc.on_rllib import settings as table
from dprl.algorithms.pgc.on_rllib.settings import ALLOWED, refused
from dprl.algorithms.pgc_a3c.on_rllib import PGCConfig

REFUSED = refused()
CALLBACKS = sorted(name for name in REFUSED if name.startswith("callbacks_"))
# Arguments of methods that make or copy configs, and set nothing.
NO_SETTINGS = {"copy_frozen", "module_id", "config_dict"}
STORED_AS = {
    "framework": "framework_str",
    "custom_stats_cls_lookup": "stats_cls_lookup",
    "dataset_num_iters_per_offline_eval_runner": "dataset_num_iters_per_eval_runner",
}
"""Attributes of RLlib's arguments with an unrelated name."""


def config() -> PGCConfig:
    return PGCConfig().privacy(model="ldp", epsilon=2.0)


def arguments() -> set[str]:
    """The arguments of all methods of AlgorithmConfig that return a config, without those that RLlib has given up."""
    found: set[str] = set()
    for name, method in inspect.getmembers(AlgorithmConfig, inspect.isfunction):
        signature = inspect.signature(method)
        if name.startswith("_") or not any(word in str(signature.return_annotation) for word in ("Self", "Config")):
            continue
        named = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        named = [each for each in named if each.kind is not inspect.Parameter.VAR_POSITIONAL]
        found |= {each.name for each in named if not table._is_deprecated(each.default)}
    return found - {"self"} - NO_SETTINGS


def attribute_of(argument: str) -> str:
    """The config's attribute for an argument of a method."""
    name = STORED_AS.get(argument, argument)
    return next(each for each in (name, f"_{name}", f"callbacks_{name}") if each in vars(AlgorithmConfig()))


def test_every_setting_of_this_rllib_is_allowed_or_refused() -> None:
    attributes = {attribute for attribute, _ in REFUSED.values()}
    assert set(vars(AlgorithmConfig())) >= ALLOWED
    assert attributes | ALLOWED == set(vars(AlgorithmConfig()))
    assert not attributes & ALLOWED
    assert "env_to_module_connector" in arguments()
    assert {attribute_of(name) for name in arguments()} <= attributes | ALLOWED


def other(value: object) -> object:
    """A value that is not the default."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 3
        case str():
            return "something else"
        case dict():
            return {"something": "else"}
        case _:
            return lambda *_: None


def test_what_would_be_ignored_is_refused_by_name_in_one_line() -> None:
    for name in sorted(REFUSED.keys() - {*PGCConfig.learning_names()}):
        made, (attribute, remedy) = config(), REFUSED[name]
        setattr(made, attribute, other(getattr(made, attribute)))
        with pytest.raises(ValueError, match=rf"^{name} must be left at .*, got .*; ") as caught:
            made.validate()
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) <= 300
        assert str(caught.value).endswith(remedy)


@pytest.mark.parametrize("name", CALLBACKS)
def test_a_class_of_callbacks_that_would_not_be_called_is_refused(name: str) -> None:
    method = name.removeprefix("callbacks_")
    watching = type("Watching", (RLlibCallback,), {method: lambda self, **_: None})
    made = config().callbacks(callbacks_class=watching)
    with pytest.raises(ValueError, match=rf"^callbacks_class must not have {method}, got Watching; "):
        made.validate()


def test_a_setting_of_a_later_rllib_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Later(AlgorithmConfig):
        def __init__(self) -> None:
            super().__init__()
            self.shiny = 1

    monkeypatch.setattr(table, "AlgorithmConfig", Later)
    assert refused.__wrapped__() == {**refused(), "shiny": ("shiny", table._UNKNOWN)}


def test_what_works_and_what_has_no_effect_is_accepted() -> None:
    class Counting(RLlibCallback):
        def on_train_result(self, **_: object) -> None:
            """Look at the result."""

    made = config().environment(normalize_actions=False, clip_actions=True, disable_env_checking=True)
    made = made.env_runners(num_cpus_per_env_runner=0.5, add_default_connectors_to_env_to_module_pipeline=False)
    made = made.callbacks(callbacks_class=Counting, on_evaluate_end=lambda **_: None)
    made = made.fault_tolerance(max_num_env_runner_restarts=3).debugging(log_level="ERROR", seed=3)
    made = made.evaluation(evaluation_interval=1, evaluation_config={"env_config": {}, "explore": False})
    made.validate()


def test_settings_of_evaluation_that_nobody_reads_are_refused() -> None:
    for settings in ({"explore": True}, {"num_env_runners": 2}):
        made = config().evaluation(evaluation_config=settings)
        with pytest.raises(ValueError, match=r"^evaluation_config must have an env_config only, got '"):
            made.validate()


def test_a_config_that_travelled_is_accepted() -> None:
    cloudpickle.loads(cloudpickle.dumps(config())).validate()
    PGCConfig().update_from_dict(config().to_dict()).validate()
    config().copy(copy_frozen=True).validate()
