"""Contract of every learner, whatever its users release; everything in ALGORITHMS that needs no file is tested."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from dprl.algorithms import ALGORITHMS
from dprl.algorithms.learner import Learner
from dprl.envs import (
    CONTROLS,
    TASKS,
    ControlLog,
    Env,
    FiniteMDP,
    LinearMixtureMDP,
    LoggedControl,
    LoggedEpisodes,
    MarkovGame,
    NetworkMDP,
    RandomGame,
    RiverSwim,
)
from dprl.privacy import CountPrivacy, GradientPrivacy, LedgerError, NoiseConfig, StatisticsPrivacy, Streams
from tests.algorithms.cases import PRACTICAL, same_state

K = 40
# Little enough noise for policies to change.
PRIVACY: dict[str, dict[str, Any]] = {
    "counts": {"none": CountPrivacy("none"), "central": CountPrivacy("jdp", 20.0), "local": CountPrivacy("ldp", 200.0)},
    "gradients": {
        "none": GradientPrivacy("none"),
        "clipped_laplace": GradientPrivacy("ldp", 5.0),
        "projected_random_sign": GradientPrivacy("ldp", 5.0, mechanism="projected_random_sign"),
        "privunit": GradientPrivacy("ldp", 5.0, mechanism="privunit"),
        "three submissions": GradientPrivacy("ldp", 6.0, submissions=3),
        "trusted server": GradientPrivacy("jdp", 5.0, submissions=2),
    },
    "statistics": {
        "none": StatisticsPrivacy("none"),
        "none, clipped": StatisticsPrivacy("none", rewards="public", clipping="device"),
        "printed": StatisticsPrivacy("ldp", 100.0, calibration="printed"),
        "laplace": StatisticsPrivacy("ldp", 1e4),
        "gaussian": StatisticsPrivacy("ldp", 1e3, 1e-3, "gram_gaussian", rewards="public"),
        "trusted server": StatisticsPrivacy("jdp", 1e4),
        "counter": StatisticsPrivacy("jdp", 1e3, 1e-3, "gram_gaussian", counter="auto", rewards="public"),
    },
}
GAME = RandomGame(n_states=2, n_max_actions=2, n_min_actions=2, horizon=3, seed=5)
ENVS: dict[type[Env], Env] = {
    FiniteMDP: RiverSwim(n_states=3, horizon=4).build(),
    MarkovGame: GAME.build(),
    LinearMixtureMDP: NetworkMDP(dimension=3, signs="random", horizon=4).build(),
    LoggedControl: LoggedControl(
        "control_log",
        ControlLog(env_id="CartPole-v1", horizon=3).task,
        observations=np.random.default_rng(1).standard_normal((150, 4)).astype(np.float32),
        actions=np.random.default_rng(2).integers(2, size=150),
        rewards=np.random.default_rng(3).random(150),
        ends=np.arange(3, 153, 3),
        returns=(0.0, 3.0),
    ),
}
SETTINGS: dict[str, dict[str, Any]] = {
    "dppg": {"users_per_update": 6, "hidden": "4"},
    "dp_bc": {"users_per_update": 6, "hidden": "4"},
    "pgc_a3c": {},
    "ma_ldp": {"bonus_scale": 0.001, "shift_scale": 0.01},
}
"""Settings with which policies change within few episodes, if not PRACTICAL."""
NAMES = [name for name, config in ALGORITHMS.items() if config.plays is not LoggedEpisodes]
EACH = pytest.mark.parametrize("name", NAMES)
CASES = [
    (name, kind)
    for name in NAMES
    for kind, privacy in PRIVACY[ALGORITHMS[name].releases].items()
    if name != "dp_bc" or privacy.model != "ldp"
]
TRUST = pytest.mark.parametrize(("name", "kind"), CASES, ids=[" ".join(case) for case in CASES])


def env_of(name: str) -> Env:
    plays = ALGORITHMS[name].plays
    tasks: list[Any] = [*TASKS.values(), *CONTROLS.values()]
    return ENVS[plays] if plays in ENVS else next(spec().build() for spec in tasks if issubclass(spec.builds, plays))


def learner(name: str, kind: str = "none", seed: int = 0, episodes: int = K, **settings: Any) -> Any:
    noise, env = settings.pop("noise", NoiseConfig()), settings.pop("env", None) or env_of(name)
    config: Any = ALGORITHMS[name](**(SETTINGS.get(name, PRACTICAL) | settings))
    streams = Streams(seed, "contract", noise)
    privatizer = config.privatizer(env, PRIVACY[config.releases][kind], episodes, streams)
    return config.build(env, privatizer, episodes, streams)


@EACH
def test_the_config_is_a_frozen_dataclass_under_its_own_name(name: str) -> None:
    config: Any = ALGORITHMS[name]()
    assert config.name == name
    assert config == ALGORITHMS[name]()
    assert isinstance(learner(name), Learner)
    first = (ALGORITHMS[name].__doc__ or "").splitlines()[0]
    assert first.endswith(".")
    assert not first.startswith(type(config).__name__)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.name = "other"


@EACH
@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf"), "no such thing", 1j])
def test_bad_settings_are_refused_in_one_line(name: str, value: object) -> None:
    config: Any = ALGORITHMS[name]
    hints = typing.get_type_hints(config)
    for key in (field.name for field in dataclasses.fields(config) if hints[field.name] in (int, float)):
        with pytest.raises(ValueError, match=f"^{key} must ") as caught:
            config(**{key: value})
        assert "\n" not in str(caught.value)


@TRUST
def test_a_run_is_its_seed_however_it_is_cut(name: str, kind: str) -> None:
    whole, stopped, resumed, other = (learner(name, kind, seed) for seed in (0, 0, 0, 1))
    segment = whole.learn(K)
    other.learn(K)
    for start, stop in pairwise([0, 1, 7, 20, 38, 39, K]):
        assert resumed.learn(stop - start) == stopped.learn(stop - start)
        state = {key: array.copy() for key, array in resumed.state_dict().items()}
        resumed = learner(name, kind)
        resumed.load_state_dict(state)
        assert resumed.episodes_done == stop
        assert same_state(resumed.policies, stopped.policies)
    for one in (resumed, stopped):
        assert same_state(one.state_dict(), whole.state_dict())
        assert one.certificate() == whole.certificate()
    assert learner(name, kind).learn(K) == segment
    assert not same_state(other._arrays(), whole._arrays())


@TRUST
def test_a_state_of_another_run_is_refused_in_one_line(name: str, kind: str) -> None:
    run = learner(name, kind)
    run.learn(20)
    state = run.state_dict()
    for other in (learner(name, kind, seed=1), learner(name, kind, episodes=K + 6)):
        with pytest.raises(ValueError, match=r"^[^\n]*; (resume|start)[^\n]*$"):
            other.load_state_dict(state)
    key = next(iter(run._arrays()))
    for broken in (
        {},
        {name: array for name, array in state.items() if not name.startswith("privatizer.")},
        state | {"episodes_done": np.array(21)},
        state | {key: state[key][np.newaxis]},
        state | {key: state[key] + 1},
    ):
        with pytest.raises(ValueError, match=r"^[^\n]*; (resume|start)[^\n]*$"):
            learner(name, kind).load_state_dict(broken)


@EACH
def test_a_state_of_other_noise_is_refused(name: str) -> None:
    kinds = [kind for other, kind in CASES if other == name]
    for kind, other in pairwise([*kinds, kinds[0]]):
        run = learner(name, kind)
        run.learn(5)
        with pytest.raises(ValueError, match=r"^[^\n]*; (resume|start)[^\n]*$"):
            learner(name, other).load_state_dict(run.state_dict())


@TRUST
def test_noise_of_the_operating_system_does_not_come_again(name: str, kind: str) -> None:
    """Only the noise differs; without noise, two runs of one seed are equal."""
    runs = [learner(name, kind, noise=NoiseConfig(entropy="os")) for _ in range(2)]
    for run in runs:
        run.learn(K)
    assert same_state(runs[0]._arrays(), runs[1]._arrays()) == kind.startswith("none")
    with pytest.raises(LedgerError, match="its noise must stay secret"):
        runs[0].state_dict()


@TRUST
def test_the_metrics_reported_are_those_declared(name: str, kind: str) -> None:
    """Over a stretch they are the sum, the mean or the last of those over its parts."""
    whole, parts = (learner(name, kind) for _ in range(2))
    for stretch in ((10, 1, 3), (2, 24)):
        segment, pieces = whole.learn(sum(stretch)), [parts.learn(n) for n in stretch]
        assert {*segment} == {metric.name for metric in ALGORITHMS[name].metrics}
        for metric in ALGORITHMS[name].metrics:
            found = segment[metric.name]
            assert type(found) is float
            assert not np.isnan(found)
            values = np.array([piece[metric.name] for piece in pieces])
            of_parts = {"sum": values.sum(), "mean": np.average(values, weights=stretch), "last": values[-1]}
            assert found == pytest.approx(of_parts[metric.over], rel=1e-9, abs=1e-12)


@TRUST
def test_policies_are_finite_copies(name: str, kind: str) -> None:
    run = learner(name, kind)
    run.learn(K)
    left = {key: table.copy() for key, table in run.policies.items()}
    for table in run.policies.values():
        assert np.isfinite(table).all()
        table[:] = 0
    assert same_state(run.policies, left)


@TRUST
def test_users_are_charged_before_the_loop_runs(name: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a use for its data the last user sends nothing."""
    made, charged = learner(name, kind), []
    run = made._run

    def watched(first: int, last: int) -> dict[str, float]:
        charged.append(made.privatizer.charged)
        found: dict[str, float] = run(first, last)
        return found

    monkeypatch.setattr(made, "_run", watched)
    for n in (15, 24, 1):
        made.learn(n)
    assert charged == [15, 39, 40 if made.last_user_sends else 39]
    with pytest.raises(ValueError, match="build for more episodes"):
        made.learn(1)


@TRUST
def test_the_certificate_of_a_finished_run_is_the_planned_one(name: str, kind: str) -> None:
    made = learner(name, kind)
    planned = made.privatizer.planned_certificate(name)
    assert made.certificate() != planned
    made.learn(K)
    assert made.certificate() == planned
    told = planned.to_dict()
    assert told["algorithm"] == name
    assert told["verdict"] == ("unbounded" if kind.startswith("none") or kind == "printed" else "holds")
    assert told["excluded_channels"]


@EACH
def test_a_privatizer_of_too_few_users_is_refused(name: str) -> None:
    config: Any = ALGORITHMS[name](**SETTINGS.get(name, PRACTICAL))
    with pytest.raises(ValueError, match=r"^the privatizer must be built for (39|40) users, got (19|20); "):
        config.build(env_of(name), learner(name, episodes=20).privatizer, K, Streams(0, "x"))


@EACH
def test_a_run_too_short_to_learn_is_refused(name: str) -> None:
    if ALGORITHMS[name].releases != "gradients":
        with pytest.raises(ValueError, match=r"^(episodes|n_submissions) must be at least (1|2), got (0|1); "):
            learner(name, episodes=1)
        return
    key = "buffer_size" if name == "pgc_a3c" else "users_per_update"
    enough: dict[str, Any] = {key: K}
    learner(name, **enough)
    with pytest.raises(ValueError, match=f"^{key} must be at most the number of episodes, got {K + 1} with {K}: no "):
        learner(name, **{**enough, key: K + 1})


@TRUST
def test_nobody_is_charged_twice(name: str, kind: str) -> None:
    run = learner(name, kind)
    run.learn(7)
    submissions = getattr(PRIVACY[ALGORITHMS[name].releases][kind], "submissions", 1)
    assert run.privatizer.ledger.users_charged == min(7, -(-K // submissions))
    run.learn(K - 7)
    last = run.privatizer.charged
    with pytest.raises((LedgerError, ValueError)):
        run.privatizer.charge(last, last)
    with pytest.raises((LedgerError, ValueError)):
        run.privatizer.lease(1) if hasattr(run.privatizer, "lease") else run.privatizer.charge(last + 1, last + 1)
    assert run.privatizer.charged == last


# Of each setting, another value and others that let it matter.
CHANGES: dict[str, dict[str, tuple[Any, dict[str, Any]]]] = {
    "dppg": {
        "learning_rate": (1.0, {}), "users_per_update": (7, {}), "halving": (20.0, {}), "hidden": ("5", {}),
        "discount": (0.5, {}), "entropy_weight": (0.1, {}), "critic": ("none", {}), "optimizer": ("sgd", {}),
    },
    "dp_bc": {
        "learning_rate": (1.0, {}), "users_per_update": (7, {}), "halving": (20.0, {}), "hidden": ("5", {}),
        "optimizer": ("sgd", {}), "sharpness": (2.0, {}),
    },
    "pgc_a3c": {
        "learning_rate": (0.1, {}), "buffer_size": (2, {}), "halving": (20.0, {}), "staleness": (2, {}),
        "discount": (0.5, {}),
        "value_weight": (0.1, {}), "entropy_weight": (0.5, {}), "exploration": (0.1, {}), "fading": (20.0, {}),
        "exploration_floor": (0.9, {}), "acting": ("sampled", {}), "reward": ("literal", {}),
        "bootstrap": ("printed", {}), "differentiate": (True, {}), "initial": ("glorot", {}),
        "initial_scale": (0.5, {}), "target": (5.0, {}), "reports": ("noise", {}),
    },
    "ma_ldp": {
        "bonus_scale": (0.0, {}), "shift_scale": (1.0, {}), "alpha": (0.5, {}), "value": ("joint", {}),
        "share": (True, {"value": "joint"}), "reward_step": (0.1, {}), "reward_decay": (0.6, {}),
        "replan_growth": (0.5, {}), "graph": ("line", {}), "ridge": (0.5, {"bonus_scale": 0.001}),
        "eta": (0.1, {"bonus_scale": 0.001}), "stationary": (True, {"bonus_scale": 0.001}),
        "preset": ("tuned", {"bonus_scale": None}),
    },
}  # fmt: skip
KINDS = {"share": "none, clipped", "shift_scale": "laplace"}
"""Privacy for the settings of `ma_ldp` that do not matter without noise."""
THREE_AGENTS = NetworkMDP(n_agents=3, dimension=3, horizon=3, gap=0.05).build()


@pytest.mark.parametrize("name", CHANGES)
def test_every_setting_changes_a_run_and_padding_only_its_time(name: str) -> None:
    fields = {field.name for field in dataclasses.fields(ALGORITHMS[name])}  # type: ignore[arg-type]
    assert fields - {"padded"} == {*CHANGES[name]}
    env: dict[str, Any] = {"env": THREE_AGENTS} if name == "ma_ldp" else {}
    default = {"ma_ldp": "none", "dp_bc": "trusted server"}.get(name, "clipped_laplace")

    def results(key: str = "", **changes: Any) -> tuple[Mapping[str, float], dict[str, bytes]]:
        run = learner(name, KINDS.get(key, default), **env, **changes)
        return run.learn(K), {array: found.tobytes() for array, found in run._arrays().items()}

    cases = CHANGES[name].items()
    assert not [key for key, (value, base) in cases if results(key, **base, **{key: value}) == results(key, **base)]
    assert "padded" not in fields or results(padded=True) == results()
