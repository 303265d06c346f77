"""What every registered algorithm promises under every trust model; being in ALGORITHMS is being tested."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dprl.algorithms import ALGORITHMS, Algorithm
from dprl.envs import FiniteMDP, RiverSwim
from dprl.privacy import CentralPrivacy, LocalPrivacy, NoPrivacy, Streams
from dprl.privacy.exchange import exchange, exchange_unreleased
from tests.algorithms.cases import (
    EACH,
    PRACTICAL,
    PRIVACY,
    TRUST,
    Learner,
    State,
    interpreted,
    optimal_q,
    same_state,
    value_of,
)

GROWTH = pytest.mark.parametrize("growth", [0.0, 0.1])


@EACH
def test_the_config_is_a_frozen_dataclass_under_its_own_name(name: str) -> None:
    config: Any = ALGORITHMS[name]()
    assert config.name == name
    assert config == ALGORITHMS[name]()
    first = (ALGORITHMS[name].__doc__ or "").splitlines()[0]
    assert first.endswith(".")
    assert not first.startswith(type(config).__name__)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.beta = 0.5


@EACH
@TRUST
def test_same_seed_same_bits_and_other_seed_other_run(
    privacy: Any, name: str, learner: Learner, river: FiniteMDP
) -> None:
    runs = [learner(river, 400, privacy, name=name, seed=seed, **PRACTICAL) for seed in (3, 3, 4)]
    segments = [run.learn(400) for run in runs]
    assert segments[0] == segments[1]
    assert same_state(runs[0].state_dict(), runs[1].state_dict())
    counts = [run.privatizer.private_counts().values for run in runs]
    assert not np.array_equal(counts[0], counts[2])


@EACH
@TRUST
@GROWTH
@pytest.mark.parametrize("cuts", [[1], [7, 40], [63, 64, 65], [199]])
def test_resume_is_exact_at_any_boundary(
    privacy: Any, name: str, growth: float, cuts: list[int], learner: Learner, river: FiniteMDP
) -> None:
    def fresh() -> Algorithm:
        return learner(river, 200, privacy, name=name, replan_growth=growth, **PRACTICAL)

    unbroken, stopped, resumed = fresh(), fresh(), fresh()
    unbroken.learn(200)
    for start, stop in pairwise([0, *cuts, 200]):
        assert resumed.learn(stop - start) == stopped.learn(stop - start)
        state = {key: array.copy() for key, array in resumed.state_dict().items()}
        resumed = fresh()
        resumed.load_state_dict(state)
    assert same_state(resumed.state_dict(), stopped.state_dict())
    assert same_state(resumed.state_dict(), unbroken.state_dict())


@EACH
def test_a_state_of_another_run_is_refused_in_one_line(name: str, learner: Learner, river: FiniteMDP) -> None:
    algorithm = learner(river, 50, name=name)
    algorithm.learn(20)
    state = algorithm.state_dict()
    for broken in (
        {},
        {key: array for key, array in state.items() if key != "privatizer.users"},
        state | {"episodes_done": np.array(21)},
        state | {key: array[:1] for key, array in state.items() if key.startswith("tables.")},
    ):
        with pytest.raises(ValueError, match=r"^the state.*; (resume|start)") as caught:
            learner(river, 50, name=name).load_state_dict(broken)
        assert "\n" not in str(caught.value)


@EACH
@TRUST
def test_policies_are_valid_at_every_moment(privacy: Any, name: str, learner: Learner, random_mdp: FiniteMDP) -> None:
    algorithm = learner(random_mdp, 300, privacy, name=name, **PRACTICAL)
    shape = random_mdp.rewards.shape
    for _ in range(60):
        for policy in (algorithm.policy, algorithm.plan(algorithm.privatizer.private_counts())):
            if policy.dtype == np.int64:
                assert policy.shape == shape[:2]
                assert ((policy >= 0) & (policy < random_mdp.n_actions)).all()
            else:
                assert policy.shape == shape
                assert policy.dtype == np.float64
                assert (policy >= 0.0).all()
                np.testing.assert_allclose(policy.sum(axis=-1), 1.0, rtol=1e-12)
            policy[:] = 0  # a copy: what comes next must not suffer
        algorithm.learn(5)
    assert value_of(random_mdp, algorithm.policy).max() > 0.0


@EACH
@TRUST
def test_plan_returns_the_next_episodes_policy_and_changes_nothing(
    privacy: Any, name: str, learner: Learner, random_mdp: FiniteMDP
) -> None:
    algorithm = learner(random_mdp, 300, privacy, name=name, **PRACTICAL)
    seen = []
    for _ in range(40):
        before = algorithm.state_dict()
        expected = algorithm.plan(algorithm.privatizer.private_counts())
        assert same_state(before, algorithm.state_dict())
        algorithm.learn(1)
        assert np.array_equal(algorithm.policy, expected)
        seen.append(expected.tobytes())
        algorithm.learn(5)
    assert len(set(seen)) > 1


@EACH
@pytest.mark.parametrize("bonus_scale", [1.0, 0.02])
@pytest.mark.parametrize(
    "privacy",
    [CentralPrivacy(4e4, mechanism="discrete_laplace"), LocalPrivacy(4e3, mechanism="discrete_laplace")],
    ids=lambda settings: settings.model,
)
def test_no_noise_is_the_non_private_algorithm(
    privacy: Any, bonus_scale: float, name: str, learner: Learner, small_mdp: FiniteMDP
) -> None:
    """Released counts and error bounds are all that a trust model may change: without them, every bit must agree.

    Whole-number noise of this scale is 0 in all draws but one of e^300; rewards of 0 and 1 stay what they are as coins.
    """
    scales = {"bonus_scale": bonus_scale, "precision_scale": 0.0}
    private, plain = (learner(small_mdp, 2000, trust, name=name, **scales) for trust in (privacy, NoPrivacy()))
    for _ in range(20):
        assert private.learn(100) == plain.learn(100)
        assert np.array_equal(private.policy, plain.policy)
        ours, theirs = (algorithm.privatizer.private_counts().values for algorithm in (private, plain))
        assert np.array_equal(ours, theirs)
    noisy, plain = (learner(small_mdp, 2000, trust, name=name, **PRACTICAL) for trust in (type(privacy)(1.0), None))
    assert noisy.learn(2000) != plain.learn(2000)


def failures_of_optimism(runs: list[Any], mdp: FiniteMDP) -> tuple[int, float]:
    """How many runs plan below what their bound is for, in any state at any check; the least saturation at the end."""
    best, failures, saturated = optimal_q(mdp).max(axis=1), 0, 1.0
    for algorithm in runs:
        failed = False
        for _ in range(10):
            segment = algorithm.learn(algorithm.episodes // 10)
            bounded = best if algorithm.config.bounds_optimum else value_of(mdp, algorithm.policy)
            failed |= bool((algorithm._tables.optimistic < bounded - 1e-9).any())
        failures += failed
        saturated = min(saturated, segment.saturated)
    return failures, saturated


@EACH
@TRUST
def test_optimism_holds_at_the_papers_constants(
    privacy: Any, name: str, learner: Learner, small_mdp: FiniteMDP
) -> None:
    # At bonus_scale 1 a run fails with probability 3 beta at most ([CZ22] Lemma 2; the others' claims are stronger).
    # With beta = 0.01 more than `most` of 20 runs fail with probability below 1e-4. Without a bonus nearly all do.
    most = int(stats.binom.isf(1e-4, 20, 0.03))
    little_noise = dataclasses.replace(privacy, epsilon=1000.0) if privacy.model != "none" else privacy

    def runs(**settings: float) -> list[Any]:
        return [
            learner(small_mdp, 15_000, little_noise, name=name, seed=seed, beta=0.01, **settings) for seed in range(20)
        ]

    failures, saturated = failures_of_optimism(runs(), small_mdp)
    assert failures <= most
    assert saturated < 0.9, "bounds at the cap say nothing"
    failures, _ = failures_of_optimism(runs(bonus_scale=0.0, precision_scale=0.0), small_mdp)
    assert failures > most


@EACH
@TRUST
def test_regret_is_the_exact_value_gap_and_never_negative(
    privacy: Any, name: str, learner: Learner, random_mdp: FiniteMDP
) -> None:
    algorithm = learner(random_mdp, 300, privacy, name=name, **PRACTICAL)
    best = float(random_mdp.start @ optimal_q(random_mdp).max(axis=1))
    for _ in range(150):
        segment = algorithm.learn(1)
        gap = best - float(random_mdp.start @ value_of(random_mdp, algorithm.policy))
        assert segment.regret == pytest.approx(gap, abs=1e-12)
        assert segment.regret >= -1e-12
        assert 0.0 <= segment.saturated <= 1.0


@EACH
@TRUST
@GROWTH
def test_regret_falls(privacy: Any, name: str, growth: float, learner: Learner, river: FiniteMDP) -> None:
    algorithm = learner(river, 100_000, privacy, name=name, replan_growth=growth, **PRACTICAL)
    first = algorithm.learn(1).regret
    algorithm.learn(89_999)
    assert algorithm.learn(10_000).regret / 10_000 < 0.2 * first


@EACH
@TRUST
@GROWTH
def test_users_reach_the_learner_through_released_counts_only(
    privacy: Any, name: str, growth: float, learner: Learner, random_mdp: FiniteMDP, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two worlds whose users differ but whose releases do not: policy, regret and saturation must be the same bits."""
    names = interpreted(name, monkeypatch)
    poison: State = {}

    def blind(send: Callable[..., None]) -> Callable[..., None]:
        def blinded(channel: Any, cells: np.ndarray, amounts: np.ndarray, user: int) -> None:
            server = channel.receiver
            memory = {"message": channel.sender.message, "totals": server.totals, "rows": server.counter.rows}
            memory["settled"] = server.settled
            for field, worth in poison.items():
                memory[field][:] = worth
            send(channel, np.full_like(cells, user % 7), np.full_like(amounts, 0.5), user)
            # Between two releases the server's unreleased memory differs from world to world, too.
            if channel.released is server.totals:
                memory.pop("totals")
            poison.update({field: array.copy() for field, array in memory.items()})
            for array in memory.values():
                array.flat = world + np.arange(array.size) / 7

        return blinded

    monkeypatch.setitem(names, "exchange", blind(exchange))
    monkeypatch.setitem(names, "exchange_unreleased", blind(exchange_unreleased))
    outcomes = []
    for world in (1, 2):
        poison.clear()
        algorithm: Any = learner(random_mdp, 300, privacy, name=name, replan_growth=growth, **PRACTICAL)
        algorithm._simulator = algorithm._simulator._replace(key=Streams(world, "world").key("env"))
        segments, states = [], []
        for _ in range(60):
            segments.append(algorithm.learn(5))
            states.append(algorithm._simulator.device.states.tolist())
        outcomes.append((algorithm.policy.tolist(), segments, states))
    assert outcomes[0][:2] == outcomes[1][:2]
    assert outcomes[0][2] != outcomes[1][2]


@EACH
@TRUST
def test_the_ledger_is_charged_before_the_loop_runs(
    privacy: Any, name: str, learner: Learner, river: FiniteMDP, monkeypatch: pytest.MonkeyPatch
) -> None:
    algorithm, config = learner(river, 50, privacy, name=name), ALGORITHMS[name]
    charged, run = [], config.run  # type: ignore[attr-defined]

    def watched(*arguments: Any) -> Any:
        charged.append(algorithm.privatizer.ledger.users_charged)
        return run(*arguments)

    monkeypatch.setattr(config, "run", staticmethod(watched))
    algorithm.learn(20)
    algorithm.learn(30)
    assert charged == [20, 49]


@EACH
@TRUST
def test_the_last_user_sends_nothing(privacy: Any, name: str, learner: Learner, river: FiniteMDP) -> None:
    algorithm = learner(river, 8, privacy, name=name)
    algorithm.learn(8)
    assert algorithm.privatizer.ledger.users_charged == 7
    assert algorithm.privatizer.private_counts().n_users == 7
    with pytest.raises(ValueError, match="build for more episodes"):
        algorithm.learn(1)


@EACH
def test_a_privatizer_for_another_problem_is_refused(
    name: str, learner: Learner, river: FiniteMDP, random_mdp: FiniteMDP
) -> None:
    for privatizer in (learner(random_mdp, 50, name=name).privatizer, learner(river, 20, name=name).privatizer):
        with pytest.raises(ValueError, match="must be built for this environment and 49 users"):
            ALGORITHMS[name]().build(river, privatizer, 50, Streams(0, "x"))


@EACH
def test_one_episode_is_refused(name: str, learner: Learner, river: FiniteMDP) -> None:
    with pytest.raises(ValueError, match="episodes must be at least 2, got 1"):
        ALGORITHMS[name]().build(river, learner(river, 2, name=name).privatizer, 1, Streams(0, "x"))


@EACH
@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf"), True, "1", None])
def test_bad_settings_are_refused_in_one_line(name: str, value: object) -> None:
    config: Any = ALGORITHMS[name]
    for key in (field.name for field in dataclasses.fields(config)):
        with pytest.raises(ValueError, match=f"^{key} must be .*, got .*; ") as caught:
            config(**{key: value})
        assert "\n" not in str(caught.value)


@EACH
@pytest.mark.parametrize(("value", "rule"), [(0.0, "at least 1e-20"), (1e-45, "at least 1e-20"), (1.0, "below 1, got")])
def test_beta_is_a_probability(name: str, value: float, rule: str) -> None:
    config: Any = ALGORITHMS[name]
    with pytest.raises(ValueError, match=rule):
        config(beta=value)


@pytest.mark.slow
def test_same_bits_without_the_compiler() -> None:
    code = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "from tests.algorithms.test_contract import fingerprints\n"
        "print(*fingerprints(), sep='\\n')\n"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.splitlines() == fingerprints()


def fingerprints() -> list[str]:
    """Segment, released counts and sums of the tables after a short run of every algorithm, as exact text."""
    mdp, found = RiverSwim(n_states=3, horizon=4).build(), []
    for name in sorted(ALGORITHMS):
        for privacy in PRIVACY:
            config, streams = ALGORITHMS[name](**PRACTICAL), Streams(0, "test")
            privatizer = config.privatizer(mdp, privacy, 40, streams)
            algorithm: Any = config.build(mdp, privatizer, 40, streams)
            segment = algorithm.learn(40)
            sums = [array.sum() for array in (privatizer.private_counts().values, *algorithm._tables)]
            numbers = [float(number).hex() for number in (segment.regret, segment.saturated, *sums)]
            found.append(" ".join((name, privacy.model, *numbers)))
    return found
