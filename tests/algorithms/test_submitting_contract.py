"""Contract of every algorithm in ALGORITHMS whose users send one message of statistics each.

A message is sent once, in order and after its charge; the learner receives nothing else from its user.
"""

from __future__ import annotations

import dataclasses
import sys
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from dprl.algorithms import ALGORITHMS
from dprl.algorithms.learner import Learner
from dprl.envs import LinearMixtureMDP, NetworkMDP
from dprl.privacy import (
    CentralStatisticsPrivacy,
    LedgerError,
    LocalStatisticsPrivacy,
    NoiseConfig,
    NoStatisticsPrivacy,
    Streams,
)
from tests.algorithms.cases import same_state
from tests.without_compiler import printed_both_ways

K = 40
# Little enough noise for policies to change.
PRIVACY: dict[str, Any] = {
    "none": NoStatisticsPrivacy(),
    "none, clipped": NoStatisticsPrivacy("public", "device"),
    "printed": LocalStatisticsPrivacy(100.0, calibration="printed"),
    "laplace": LocalStatisticsPrivacy(1e4),
    "gaussian": LocalStatisticsPrivacy(1e3, 1e-3, "gram_gaussian", rewards="public"),
    "trusted server": CentralStatisticsPrivacy(1e4),
    "counter": CentralStatisticsPrivacy(1e3, 1e-3, "gram_gaussian", counter="auto", rewards="public"),
}
SETTINGS: dict[str, dict[str, Any]] = {"ma_ldp": {"bonus_scale": 0.001, "shift_scale": 0.01}}
"""Settings with which policies change within few episodes; otherwise the defaults do."""
JOINT, GOSSIP = {"value": "joint"}, {"graph": "gossip"}
# Of each setting, another value and others that let it matter, and the privacy that it is for if that is not none.
CHANGES: dict[str, dict[str, tuple[Any, dict[str, Any]]]] = {
    "ma_ldp": {
        "bonus_scale": (0.0, {}), "shift_scale": (1.0, {}), "alpha": (0.5, {}), "value": ("joint", {}),
        "share": (True, JOINT), "reward_step": (0.1, {}), "reward_decay": (0.6, {}), "replan_growth": (0.5, {}),
        "graph": ("gossip", {}), "edge_probability": (0.9, {"graph": "random_edges"}), "gossip_over": ("line", GOSSIP),
    },
}  # fmt: skip
KINDS = {"share": "none, clipped", "shift_scale": "laplace"}
NAMES = [name for name, config in ALGORITHMS.items() if config.releases == "statistics"]
CASES = [(name, kind) for name in NAMES for kind in PRIVACY]
EACH = pytest.mark.parametrize("name", NAMES)
TRUST = pytest.mark.parametrize(("name", "kind"), CASES, ids=[" ".join(case) for case in CASES])
MDP = NetworkMDP(dimension=3, signs="random", horizon=4).build()
THREE_AGENTS = NetworkMDP(n_agents=3, dimension=3, horizon=3, gap=0.05).build()
OTHER_MDP = NetworkMDP(dimension=3, signs="random", sign_seed=1, horizon=4).build()


def learner(
    name: str, kind: str = "none", seed: int = 0, episodes: int = K, mdp: LinearMixtureMDP = MDP, **settings: Any
) -> Any:
    noise = settings.pop("noise", NoiseConfig())
    config: Any = ALGORITHMS[name]
    algorithm, streams = config(**(SETTINGS.get(name, {}) | settings)), Streams(seed, "contract", noise)
    privatizer = algorithm.privatizer(mdp, PRIVACY[kind], episodes, streams)
    return algorithm.build(mdp, privatizer, episodes, streams)


def interpreted(made: Learner, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Let a learner's loop run uncompiled; returns the names that it looks up."""
    module = sys.modules[type(made).__module__]
    plain = module.run.py_func
    monkeypatch.setattr(module, "run", plain)
    names: dict[str, Any] = plain.__globals__
    return names


def users_of(made: Learner) -> tuple[str, Any]:
    """The attribute that holds the users' side, and what it holds."""
    return next((key, held) for key, held in vars(made).items() if hasattr(held, "env_key"))


@EACH
def test_the_config_is_a_frozen_dataclass_under_its_own_name(name: str) -> None:
    config: Any = ALGORITHMS[name]()
    assert config.name == name
    assert config == ALGORITHMS[name]()
    assert ALGORITHMS[name].plays is LinearMixtureMDP
    assert isinstance(learner(name), Learner)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.name = "other"


@EACH
@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf"), 1j, "no such thing", None])
def test_bad_settings_are_refused_in_one_line(name: str, value: object) -> None:
    config: Any = ALGORITHMS[name]
    for key in (field.name for field in dataclasses.fields(config)):
        with pytest.raises(ValueError, match=f"^{key} must be .*, got .*; ") as caught:
            config(**{key: value})
        assert "\n" not in str(caught.value)


@EACH
def test_every_setting_changes_a_run(name: str) -> None:
    assert {field.name for field in dataclasses.fields(ALGORITHMS[name])} == set(CHANGES[name])  # type: ignore[arg-type]

    def results(key: str, **changes: Any) -> tuple[dict[str, float], dict[str, bytes]]:
        run = learner(name, KINDS.get(key, "none"), mdp=THREE_AGENTS, **changes)
        return run.learn(K).metrics, {key: array.tobytes() for key, array in run._arrays().items()}

    cases = CHANGES[name].items()
    assert not [key for key, (value, base) in cases if results(key, **base, **{key: value}) == results(key, **base)]


@TRUST
def test_same_seed_same_bits_and_other_seed_other_run(name: str, kind: str) -> None:
    runs = [learner(name, kind, seed) for seed in (3, 3, 4)]
    segments = [run.learn(K) for run in runs]
    assert segments[0] == segments[1]
    assert same_state(runs[0].state_dict(), runs[1].state_dict())
    assert same_state(runs[0].policies, runs[1].policies)
    assert not same_state(runs[0]._arrays(), runs[2]._arrays())


@TRUST
@pytest.mark.parametrize("cuts", [[1], [7, 20], [2, 38, 39]], ids=str)
def test_a_run_may_be_cut_anywhere(name: str, kind: str, cuts: list[int]) -> None:
    unbroken, stopped, resumed = (learner(name, kind) for _ in range(3))
    unbroken.learn(K)
    for start, stop in pairwise([0, *cuts, K]):
        assert resumed.learn(stop - start) == stopped.learn(stop - start)
        state = {key: array.copy() for key, array in resumed.state_dict().items()}
        resumed = learner(name, kind)
        resumed.load_state_dict(state)
        assert resumed.episodes_done == stop
        assert same_state(resumed.policies, stopped.policies)
    for one in (resumed, stopped):
        assert same_state(one.state_dict(), unbroken.state_dict())
        assert one.certificate() == unbroken.certificate()


@TRUST
def test_a_state_of_another_run_is_refused_in_one_line(name: str, kind: str) -> None:
    run = learner(name, kind)
    run.learn(20)
    state = run.state_dict()
    others = [learner(name, kind, seed=1), learner(name, kind, episodes=K + 1), learner(name, kind, mdp=OTHER_MDP)]
    if name in SETTINGS:
        others.append(learner(name, kind, **{key: 2.0 * value for key, value in SETTINGS[name].items()}))
    for other in others:
        with pytest.raises(ValueError, match=r"^[^\n]*; (resume|start)[^\n]*$"):
            other.load_state_dict(state)
    key = next(iter(run._arrays()))
    for broken in (
        {},
        {name: array for name, array in state.items() if name != "privatizer.cursor"},
        state | {"episodes_done": np.array(21)},
        state | {key: state[key] + 1},
        state | {"privatizer.cursor": state["privatizer.cursor"] + 1},
    ):
        with pytest.raises(ValueError, match=r"^[^\n]*; (resume|start)[^\n]*$"):
            learner(name, kind).load_state_dict(broken)


@EACH
def test_a_state_of_other_noise_is_refused(name: str) -> None:
    kinds = [*PRIVACY]
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
def test_users_reach_the_learner_through_their_messages_only(
    name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With different users but equal messages, policies and regret must be equal bit for bit."""
    names = interpreted(learner(name, kind), monkeypatch)
    original, told, world = names["send_statistics"], [], 0

    def blinded(channel: Any, *data: Any) -> None:
        told.append([np.array(part).tolist() for part in data])
        *values, user = data
        original(channel, *(np.full_like(part, 0.1 * (user % 7)) for part in values), user)
        # The user's part of the buffer must not be read.
        channel.feature[:] = world
        channel.rewards.clipped[:] = world
        channel.rewards.noise.numbers[:] = world

    monkeypatch.setitem(names, "send_statistics", blinded)
    outcomes, saw = [], []
    for world in (1, 2):
        made = learner(name, kind)
        where, people = users_of(made)
        setattr(made, where, people._replace(env_key=Streams(world, "world").key("env")))
        told.clear()
        found = [(made.learn(5), made.policy.tolist()) for _ in range(K // 5)]
        outcomes.append((found, {key: array.tolist() for key, array in made._arrays().items()}))
        saw.append([*told])
    assert outcomes[0] == outcomes[1]
    assert saw[0] != saw[1]
    assert len(saw[0]) == K - 1


@TRUST
def test_the_ledger_is_charged_before_the_loop_runs(name: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = learner(name, kind)
    module = sys.modules[type(made).__module__]
    charged, run = [], module.run

    def watched(*arguments: Any) -> Any:
        charged.append((made.privatizer.ledger.users_charged, int(made.privatizer.channel.cursor[1])))
        return run(*arguments)

    monkeypatch.setattr(module, "run", watched)
    for n in (15, 24, 1):
        made.learn(n)
    assert charged == [(15, 0), (39, 15), (39, 39)]


@EACH
def test_a_refused_state_leaves_the_learner_as_it_was(name: str) -> None:
    """A state whose ledger is at another episode is refused before anybody is charged, and the right one loads."""
    made, other = learner(name), learner(name)
    made.learn(9)
    early = made.state_dict()
    made.learn(4)
    late = made.state_dict()
    mixed = {key: early[key] if key.startswith("privatizer.") else value for key, value in late.items()}
    with pytest.raises(ValueError, match="the same settings, environment and seed, unchanged"):
        other.load_state_dict(mixed)
    ahead = learner(name)
    ahead.learn(9)
    ahead.privatizer.charge(10, 10)
    with pytest.raises(ValueError, match="must be those that its ledger has charged"):
        other.load_state_dict(ahead.state_dict())
    assert other.privatizer.ledger.users_charged == 0
    other.load_state_dict(late)
    assert other.learn(3) == made.learn(3)


@EACH
def test_what_may_follow_a_state_is_part_of_the_environment(name: str) -> None:
    """At H = 2 the intermediate node's own weights change no value; they are another environment all the same."""
    ways = [NetworkMDP(horizon=2, gap=0.05, node_leave=leave, node_forward=0.3).build() for leave in (0.5, 0.4)]
    assert ways[0].optimal_start_value() == ways[1].optimal_start_value()
    made = learner(name, mdp=ways[0])
    made.learn(5)
    with pytest.raises(ValueError, match="the same settings, environment and seed"):
        learner(name, mdp=ways[1]).load_state_dict(made.state_dict())


@TRUST
def test_the_last_user_sends_nothing(name: str, kind: str) -> None:
    made = learner(name, kind, episodes=8)
    made.learn(8)
    assert made.privatizer.ledger.users_charged == 7
    assert made.privatizer.channel.cursor.tolist()[:4] == [7, 7, 7, 7]
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
    open_ends = kind.startswith("none") or kind == "printed"
    assert told["algorithm"] == name
    assert told["verdict"] == ("unbounded" if open_ends else "holds")
    assert told["excluded_channels"]


@TRUST
def test_the_metrics_reported_are_those_declared(name: str, kind: str) -> None:
    """Over a stretch they are the sum, the mean or the last of those over its parts."""
    whole, parts = (learner(name, kind) for _ in range(2))
    for stretch in ((10, 1, 3), (2, 24)):
        segment, pieces = whole.learn(sum(stretch)), [parts.learn(n) for n in stretch]
        assert segment.episodes == sum(stretch)
        assert [*segment.metrics] == [metric.name for metric in ALGORITHMS[name].metrics]
        for metric in ALGORITHMS[name].metrics:
            values = np.array([piece.metrics[metric.name] for piece in pieces])
            of_parts = {"sum": values.sum(), "mean": np.average(values, weights=stretch), "last": values[-1]}
            assert type(segment.metrics[metric.name]) is float
            assert segment.metrics[metric.name] == pytest.approx(of_parts[metric.over], rel=1e-9, abs=1e-12)
            assert 0.0 <= segment.metrics[metric.name] <= (np.inf if metric.unit else 1.0)


@TRUST
def test_policies_are_probabilities_and_regret_is_exact(name: str, kind: str) -> None:
    """An episode's regret is V* - V^pi of the policy that was deployed in it, which `policy` is until the next one."""
    made, best = learner(name, kind), MDP.optimal_start_value()
    seen = [made.policy]
    for _ in range(K):
        missing = made.learn(1).regret
        assert made.policies.keys() == {"policy"}
        seen.append(made.policies["policy"])
        assert best - MDP.start_value(seen[-1]) == pytest.approx(missing, abs=1e-9)
        made.policy[:] = 0.0  # a copy, because the run continues
    assert np.array_equal(made.policy, seen[-1])
    for policy in seen:
        assert policy.shape == (MDP.horizon, MDP.n_states, MDP.n_agents, MDP.n_actions)
        assert policy.min() >= 0.0
        np.testing.assert_allclose(policy.sum(axis=-1), 1.0, rtol=1e-12)
    assert len({policy.tobytes() for policy in seen}) > 1


@EACH
def test_a_privatizer_for_another_problem_is_refused(name: str) -> None:
    privatizer = learner(name, episodes=20).privatizer
    with pytest.raises(ValueError, match=r"^the privatizer must be built for 39 users, got 19; "):
        ALGORITHMS[name]().build(MDP, privatizer, K, Streams(0, "x"))


@EACH
def test_one_episode_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"^episodes must be at least 2, got 1; "):
        ALGORITHMS[name]().build(MDP, learner(name, episodes=2).privatizer, 1, Streams(0, "x"))


def test_same_bits_without_the_compiler() -> None:
    printed_both_ways(
        "from tests.algorithms.test_submitting_contract import fingerprints; print(*fingerprints(), sep='\\n')"
    )


def fingerprints() -> list[str]:
    """TrainResult and state after a short run of every algorithm under every trust model, as exact text."""
    small, found = NetworkMDP(horizon=3).build(), []
    for name, kind in CASES:
        made = learner(name, kind, episodes=12, mdp=small)
        segment = made.learn(12)
        arrays = [made._arrays()[key] for key in sorted(made._arrays())]
        numbers = (*segment.metrics.values(), *(number for array in arrays for number in array.flat))
        found.append(" ".join((name, kind, *(float(number).hex() for number in numbers))))
    return found
