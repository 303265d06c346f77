"""Settings on RLlib: refusals and their places, names of the random streams, and every setting of RLlib itself."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import ray
from gymnasium import spaces
from ray import cloudpickle, tune
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

from dprl.algorithms.pgc.on_rllib import settings as table
from dprl.algorithms.pgc.on_rllib.settings import ALLOWED, refused
from dprl.algorithms.pgc_a3c.algorithm import PGCA3CConfig
from dprl.algorithms.pgc_a3c.on_rllib import PGCConfig
from dprl.platform.configs.config import read_config
from dprl.privacy import Streams
from dprl.privacy.queries.gradients import GradientLayout
from dprl.privacy.threat_models import CARRIED, DURATIONS, ROUNDS, TIMING_DETAILS
from tests.algorithms.pgc_a3c.on_rllib.cases import Corridor, TwoHeads

# The settings: refusals and their places; names of the random streams.


def config(**training: Any) -> PGCConfig:
    return PGCConfig().privacy(model="ldp", epsilon=2.0, mechanism="clipped_laplace").training(**training)


def other_place() -> PGCConfig:
    spec = RLModuleSpec(module_class=TwoHeads)
    made: PGCConfig = config().environment(Corridor).rl_module(rl_module_spec=spec)
    return made


def test_the_defaults_are_those_of_the_box_and_the_length_is_that_of_the_papers_runs() -> None:
    ready = config()
    ready.validate()
    assert ready.learning_config() == PGCA3CConfig()
    assert ready.n_submissions == read_config("pgc_a3c_table")["episodes"]


def test_elsewhere_rewards_are_the_environments_own() -> None:
    assert other_place().learning_config().reward == "literal"
    assert other_place().training(reward="terminal").learning_config().reward == "terminal"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: config(learning_rat=1.0), r"argument of training() 'learning_rat'; did you mean 'learning_rate'?"),
        (lambda: config(lr=1.0), "unknown argument of training() 'lr'; "),
        (lambda: config().privacy(model="ldp", epsilo=1.0), "privacy() 'epsilo'; did you mean 'epsilon'?"),
        (lambda: config().schedule(reserv=3), "schedule() 'reserv'; did you mean 'reserve'?"),
        (lambda: config().env_runners(agents_per_cal=3), "unexpected keyword argument 'agents_per_cal'"),
        (lambda: config().ledger(path="/x"), "unexpected keyword argument 'path'"),  # type: ignore[call-arg]
    ],
)
def test_unknown_arguments_are_refused(call: Any, message: str) -> None:
    with pytest.raises(TypeError, match=re.escape(message)):
        call()


def test_unknown_attributes_are_refused() -> None:
    with pytest.raises(AttributeError, match=r"^unknown setting 'buffersize'; did you mean 'buffer_size'"):
        config().buffersize = 3
    with pytest.raises(ValueError, match=r"^unknown setting 'stalenes'; did you mean 'staleness'"):
        config().update_from_dict({"stalenes": 3})
    with pytest.raises(ValueError, match=r"^model must be left as it is"):
        config().update_from_dict({"model": {"fcnet_hiddens": [3]}})


def test_a_sweep_may_vary_what_is_nested() -> None:
    swept = PGCConfig().privacy(model="ldp", epsilon=tune.grid_search([1.0, 2.0]), mechanism="privunit")
    assert swept.to_dict()["privacy_settings"]["epsilon"] == {"grid_search": [1.0, 2.0]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.training(learning_rate=-1.0), "learning_rate must be a finite number, at least 0"),
        (lambda c: c.training(acting="greedyly"), "acting must be one of greedy, sampled, got 'greedyly'"),
        (lambda c: c.training(n_submissions=0), "n_submissions must be a whole number from 1"),
        (lambda c: c.training(submissions_per_iteration=2.5), "submissions_per_iteration must be a whole number"),
        (lambda c: c.env_runners(agents_per_call=0), "agents_per_call must be a whole number from 1"),
        (lambda c: c.env_runners(lane="gpu"), "lane must be one of auto, compiled, torch, got 'gpu'"),
        (lambda c: c.env_runners(num_envs_per_env_runner=2), "num_envs_per_env_runner must be left at 1, got 2"),
        (lambda c: c.schedule(reserve=-1), "reserve must be a whole number from 0"),
        (lambda c: c.schedule(round_seconds=-1.0), "round_seconds must be a finite number, at least 0"),
        (lambda c: c.debugging(seed=-1), "seed must be an integer of at least 0, got -1"),
        (lambda c: c.learners(num_learners=1), "num_learners must be left at 0, got 1"),
        (lambda c: c.evaluation(evaluation_duration="auto"), "evaluation_duration must be a whole number"),
        (lambda c: c.environment(env_config={"gravty_low": 1.0}), "unknown setting of dprl/CartPoleGravity-v0"),
        (lambda c: c.privacy(model="ldb", epsilon=1.0), "model must be one of none, ldp, got 'ldb'"),
        (lambda c: c.privacy(model="jdp", epsilon=1.0), "model must be one of none, ldp, got 'jdp'"),
        (lambda c: c.privacy(model="shuffle", epsilon=1.0), "model must be one of none, ldp, got 'shuffle'"),
        (lambda c: c.privacy(model="ldp", epsilon=-1.0, mechanism="privunit"), "epsilon must be"),
        (lambda c: c.privacy(model="ldp", mechanism="privunit"), "epsilon must be given for privacy(model='ldp')"),
        (lambda c: c.privacy(model="none", epsilon=1.0), "unknown setting of privacy(model='none') 'epsilon'"),
        (lambda c: c.privacy(model="none", entropy="dice"), "entropy must be one of seed, os, got 'dice'"),
        (lambda c: c.environment(Corridor).env_runners(lane="compiled"), "lane must be torch or auto"),
        (lambda c: c.env_runners(sample_timeout_s=-1.0), "sample_timeout_s must be a finite number, at least 0"),
        (
            lambda c: c.schedule(round_seconds=2.0).env_runners(sample_timeout_s=2.0),
            "sample_timeout_s must exceed round_seconds, 2, got 2",
        ),
        (lambda c: c.environment(Corridor).training(padded=True), "padded must be False in the torch lane"),
        (lambda c: c.multi_agent(policies={"b", "a"}), "policies must be that of a single agent, got a, b; leave "),
    ],
)
def test_bad_settings_are_refused_in_one_line(change: Any, message: str) -> None:
    changed = config()
    change(changed)
    with pytest.raises(ValueError, match="^" + re.escape(message)) as refused:
        changed.validate()
    assert "\n" not in str(refused.value)
    assert ";" in str(refused.value)


class Pair(Corridor):
    def __init__(self, _: object = None) -> None:
        super().__init__()
        self.observation_space = spaces.MultiDiscrete([3, 4])


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ("Nope-v0", r"^env must be an environment that can be made \(.*Nope.*\), got 'Nope-v0'; correct the name, or "),
        (Pair, r"^env must have observations in a Box .*, got MultiDiscrete\(\[3 4\]\); wrap it in FlattenObservation"),
    ],
)
def test_environments_that_do_not_fit_are_refused_before_a_runner_starts(env: Any, message: str) -> None:
    before = ray.is_initialized()
    with pytest.raises(ValueError, match=message) as refused:
        config().environment(env).env_runners(num_env_runners=2).build_algo()
    assert "\n" not in str(refused.value)
    assert ray.is_initialized() == before


def test_privacy_is_no_default() -> None:
    with pytest.raises(ValueError, match=r"^privacy must be chosen, got nothing; call privacy\(model='ldp'"):
        PGCConfig().validate()


@pytest.mark.parametrize(
    ("runners", "agents_per_call", "staleness", "buffer_size", "plan"),
    [
        (0, None, None, 1, (9, 8)),
        (1, None, None, 1, (24, 47)),
        (2, None, None, 100, (12, 47)),
        (4, None, None, 1, (9, 71)),
        (2, 50, None, 1, (50, 199)),
        (0, 50, None, 1, (50, 49)),
        (2, None, 8, 1, (4, 8)),
        (2, None, 8, 10, (9, 8)),
        (2, None, 0, 1, (1, 0)),
        (3, 3, 8, 1, (3, 8)),
        (1000, None, None, 1, (9, 10_000)),
    ],
)
def test_agents_per_call_and_staleness_fit_together(
    runners: int, agents_per_call: int | None, staleness: int | None, buffer_size: int, plan: tuple[int, int]
) -> None:
    made = config(buffer_size=buffer_size, staleness=staleness)
    made.env_runners(num_env_runners=runners, agents_per_call=agents_per_call).validate()
    assert (made.call_size, made.learning_config().staleness) == plan
    assert made.learning_config().staleness == plan[1]


def test_agents_per_call_that_a_given_staleness_cannot_fill_are_refused() -> None:
    made = config(staleness=8).env_runners(num_env_runners=2, agents_per_call=50)
    rule = "^agents_per_call must be at most 4 for 2 runners with staleness 8 and buffer_size 1, which let 9 agents"
    with pytest.raises(ValueError, match=f"{rule} play at once, got 50; leave out agents_per_call or staleness$"):
        made.validate()


def test_who_plays_where() -> None:
    assert config().compiled
    assert not config().env_runners(lane="torch").compiled
    assert not other_place().compiled
    assert not config().environment("CartPole-v1").compiled


def test_the_streams_are_those_of_the_run_not_of_its_processes() -> None:
    streams = config(staleness=30).streams()
    same = (
        config(padded=True, staleness=30).env_runners(num_env_runners=3, agents_per_call=7).schedule(round_seconds=1.0)
    )
    assert same.streams() == streams
    for other in (
        config(learning_rate=0.1),
        config(staleness=31),
        config().schedule(reserve=5),
        config().privacy(model="ldp", epsilon=1.0, mechanism="clipped_laplace"),
        config().environment("dprl/CartPoleGravity-v0", env_config={"horizon": 100}),
        config().env_runners(lane="torch"),
        config().rl_module(rl_module_spec=RLModuleSpec(module_class=TwoHeads)),
        config().rl_module(rl_module_spec=RLModuleSpec(model_config={"hidden": 3})),
        config().rl_module(model_config={"hidden": 3}),
    ):
        assert other.streams().context != streams.context


def test_the_streams_of_a_module_are_the_same_in_every_process() -> None:
    def streams(what: object) -> Streams:
        spec = RLModuleSpec(module_class=TwoHeads, model_config={"what": what})
        made: PGCConfig = config().rl_module(rl_module_spec=spec)
        # RLlib does this with specs when it makes modules.
        spec.inference_only = not spec.inference_only
        return made.streams()

    assert streams(object()) == streams(object())
    numbers = np.arange(5000.0)
    changed = np.where(numbers == 2500.0, 0.5, numbers)
    assert streams(numbers) != streams(changed)


@pytest.mark.parametrize("round_seconds", [0.0, 0.5])
@pytest.mark.parametrize(("lane", "padded"), [("compiled", True), ("compiled", False), ("torch", False)])
def test_the_certificate_names_what_is_left_open(lane: str, padded: bool, round_seconds: float) -> None:
    ready = config(padded=padded).schedule(round_seconds=round_seconds)
    ready.env_runners(lane=lane).validate()
    expected = {ROUNDS if round_seconds else TIMING_DETAILS if padded else DURATIONS}
    expected |= {CARRIED} if lane == "torch" else set()
    assert set(ready.uncovered_channels) == expected
    privatizer = ready.trust_model().build(GradientLayout(112, 1, ready.uncovered_channels), 10, ready.streams())
    excluded = privatizer.planned_certificate("pgc_a3c").to_dict()["excluded_channels"]
    timed = {ROUNDS, TIMING_DETAILS, DURATIONS, CARRIED}
    assert timed & set(excluded) == expected


def test_the_reserve_stands_by() -> None:
    assert config(n_submissions=5000).population == 5000 + 500 + 1000
    assert config(n_submissions=5000).schedule(reserve=0).population == 5000


# Every public setting of RLlib's AlgorithmConfig works, has no effect by nature, or is refused by name.

REFUSED = refused()
CALLBACKS = sorted(name for name in REFUSED if name.startswith("callbacks_"))


def plain_config() -> PGCConfig:
    return PGCConfig().privacy(model="ldp", epsilon=2.0)


def test_every_setting_of_this_rllib_is_allowed_or_refused() -> None:
    attributes = {attribute for attribute, _ in REFUSED.values()}
    assert set(vars(AlgorithmConfig())) >= ALLOWED
    assert attributes | ALLOWED == set(vars(AlgorithmConfig()))
    assert not attributes & ALLOWED


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
        made, (attribute, remedy) = plain_config(), REFUSED[name]
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
    made = plain_config().callbacks(callbacks_class=watching)
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

    made = plain_config().environment(clip_actions=True, disable_env_checking=True)
    made = made.env_runners(num_cpus_per_env_runner=0.5, add_default_connectors_to_env_to_module_pipeline=False)
    made = made.callbacks(callbacks_class=Counting, on_evaluate_end=lambda **_: None)
    made = made.fault_tolerance(max_num_env_runner_restarts=3).debugging(log_level="ERROR", seed=3)
    made = made.evaluation(evaluation_interval=1, evaluation_config={"env_config": {}, "explore": False})
    made.validate()


def test_settings_of_evaluation_that_nobody_reads_are_refused() -> None:
    plain_config().evaluation(evaluation_config={"explore": True}).validate()
    made = plain_config().evaluation(evaluation_config={"num_env_runners": 2})
    with pytest.raises(ValueError, match=r"^evaluation_config must have env_config and explore only, got '"):
        made.validate()


def test_a_config_that_travelled_is_accepted() -> None:
    cloudpickle.loads(cloudpickle.dumps(plain_config())).validate()
    PGCConfig().update_from_dict(plain_config().to_dict()).validate()
    plain_config().copy(copy_frozen=True).validate()
