"""Private-UCB-VI against a plain NumPy reading of the paper's box, and the contract of every algorithm."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dprl.algorithms import ALGORITHMS, Algorithm, PrivateUCBVIConfig
from dprl.algorithms.private_ucb_vi import Bonus, Tables, plan, run
from dprl.algorithms.tabular import Released, count_families
from dprl.algorithms.tabular.counts import write_contribution
from dprl.envs import ENVIRONMENTS, FiniteMDP
from dprl.envs.dynamics import roll_out
from dprl.privacy import CentralPrivacy, Contribution, LocalPrivacy, NoPrivacy, PrivateCounts, Streams
from dprl.privacy.exchange import exchange
from dprl.privacy.randomness.bits import fill_uniform

Learner = Callable[..., Algorithm]
PRIVACY: list[Any] = [NoPrivacy(), CentralPrivacy(20.0), LocalPrivacy(200.0)]
TRUST = pytest.mark.parametrize("privacy", PRIVACY, ids=lambda settings: settings.model)


@pytest.fixture(scope="module")
def river() -> FiniteMDP:
    return ENVIRONMENTS["riverswim"](n_states=3, horizon=4).build()  # type: ignore[call-arg]


@pytest.fixture(scope="module")
def random_mdp() -> FiniteMDP:
    return ENVIRONMENTS["random_mdp"](n_states=4, n_actions=3, horizon=5, seed=1).build()  # type: ignore[call-arg]


def planned_by_the_box(counts: PrivateCounts, mdp: FiniteMDP, bonus: Bonus) -> tuple[np.ndarray, np.ndarray]:
    """Algorithm 2, lines 4-10, in NumPy; returns policy [H, S] and Q [H, S, A]."""
    horizon, n_states, n_actions = mdp.rewards.shape
    transitions = counts.family("transitions").reshape(horizon, n_states, n_states, n_actions)
    visits = counts.family("visits").reshape(horizon, n_states, n_actions)
    rewards = counts.family("rewards").reshape(horizon, n_states, n_actions)
    q = np.empty((horizon, n_states, n_actions))
    value = np.zeros(n_states)
    for h in reversed(range(horizon)):
        d = np.maximum(1.0, visits[h] + bonus.e1)
        r_hat, p_hat = rewards[h] / d, np.moveaxis(transitions[h], 0, -1) / d[..., None]
        beta = bonus.per_root / np.sqrt(d) + bonus.per_count / d
        q[h] = np.clip(r_hat + p_hat @ value + beta, 0.0, horizon - h)
        value = q[h].max(axis=1)
    return q.argmax(axis=2), q


def step_by_step(algorithm: Any, mdp: FiniteMDP, streams: Streams) -> tuple[float, np.ndarray]:
    """Play the whole run one user at a time through encode and absorb; return the regret and the last policy."""
    horizon = mdp.horizon
    states, actions = np.zeros(horizon + 1, dtype=np.int64), np.zeros(horizon, dtype=np.int64)
    uniforms, key = np.zeros(horizon + 1), streams.key("env")
    regret, counts = 0.0, algorithm.privatizer.private_counts()
    policy = algorithm.policy
    for k in range(1, algorithm.episodes + 1):
        policy = algorithm.plan(counts)
        regret += mdp.optimal_start_value() - mdp.start_value(policy)
        fill_uniform(uniforms, key, np.uint64(k * (horizon + 1)))
        roll_out(mdp.cdf, mdp.start_cdf, policy, uniforms, states, actions)
        if k < algorithm.episodes:
            index, value = np.zeros((horizon, 3), dtype=np.int64), np.zeros((horizon, 3))
            write_contribution(states, actions, mdp.rewards, index, value)
            counts = algorithm.privatizer.absorb(algorithm.privatizer.encode(Contribution(index, value), k))
    return regret, policy


@TRUST
def test_the_compiled_loop_equals_one_user_at_a_time(privacy: Any, learner: Learner, random_mdp: FiniteMDP) -> None:
    compiled = learner(random_mdp, 60, privacy, bonus_scale=0.1)
    slow = learner(random_mdp, 60, privacy, bonus_scale=0.1)
    regret, policy = step_by_step(slow, random_mdp, Streams(0, "test"))
    assert compiled.learn(60).regret == pytest.approx(regret, abs=1e-9)
    assert np.array_equal(compiled.policy, policy)
    for key, value in slow.privatizer.state_dict().items():
        assert np.array_equal(compiled.privatizer.state_dict()[key], value)


@TRUST
def test_planning_equals_the_papers_box(privacy: Any, learner: Learner, random_mdp: FiniteMDP) -> None:
    episodes = 400
    algorithm = learner(random_mdp, episodes, privacy, bonus_scale=0.05)
    bonus = PrivateUCBVIConfig(bonus_scale=0.05).bonus(random_mdp, algorithm.privatizer, episodes)
    compared = 0
    for _ in range(20):
        algorithm.learn(15)
        counts = algorithm.privatizer.private_counts()
        policy, q = planned_by_the_box(counts, random_mdp, bonus)
        ours = algorithm.plan(counts)
        best_two = np.sort(q, axis=2)[..., -2:]
        clear = best_two[..., 1] - best_two[..., 0] > 1e-9
        assert np.array_equal(ours[clear], policy[clear])
        compared += int(clear.sum())
    assert compared > 50


def test_bonus_coefficients_are_those_of_the_paper(learner: Learner, random_mdp: FiniteMDP) -> None:
    horizon, n_states, n_actions = random_mdp.rewards.shape
    episodes, beta = 1000, 0.05
    privacy = CentralPrivacy(1.0, calibration="printed", precision="printed")
    algorithm = learner(random_mdp, episodes, privacy)
    bonus = PrivateUCBVIConfig(beta=beta).bonus(random_mdp, algorithm.privatizer, episodes)
    sat, log_k = n_states * n_actions * horizon * episodes, np.log(episodes)
    e1 = 3 * horizon * np.sqrt(8 * log_k**3 * np.log(6 * sat / beta))
    e2 = 3 * horizon * np.sqrt(8 * log_k**3 * np.log(6 * sat * n_states / beta))
    l_c = np.sqrt(2 * np.log(4 * sat / beta))
    assert bonus == pytest.approx((e1, (1 + horizon) * l_c, 3 * e1 + horizon * (n_states * e2 + 2 * e1)))
    scaled = PrivateUCBVIConfig(beta=beta, bonus_scale=0.5, precision_scale=0.1).bonus(
        random_mdp, algorithm.privatizer, episodes
    )
    assert scaled == pytest.approx((0.1 * bonus.e1, 0.5 * bonus.per_root, 0.05 * bonus.per_count))


def test_without_privacy_the_precision_is_zero(learner: Learner, river: FiniteMDP) -> None:
    bonus = PrivateUCBVIConfig().bonus(river, learner(river, 100).privatizer, 100)
    assert bonus.e1 == 0.0
    assert bonus.per_count == 0.0


@TRUST
@pytest.mark.parametrize("cuts", [[1], [7, 40], [63, 64, 65], [199]])
def test_resume_is_exact_at_any_boundary(privacy: Any, cuts: list[int], learner: Learner, river: FiniteMDP) -> None:
    whole = learner(river, 200, privacy, bonus_scale=0.1)
    whole.learn(200)
    parts = learner(river, 200, privacy, bonus_scale=0.1)
    for start, stop in zip([0, *cuts], [*cuts, 200], strict=True):
        parts.learn(stop - start)
        state = {key: value.copy() for key, value in parts.state_dict().items()}
        parts = learner(river, 200, privacy, bonus_scale=0.1)
        parts.load_state_dict(state)
    ours, theirs = parts.state_dict(), whole.state_dict()
    assert ours.keys() == theirs.keys()
    for key in ours:
        assert np.array_equal(ours[key], theirs[key]), key


@TRUST
def test_same_seed_same_run_and_other_seed_other_run(privacy: Any, learner: Learner, river: FiniteMDP) -> None:
    regrets = [learner(river, 3000, privacy, bonus_scale=0.05, seed=seed).learn(3000).regret for seed in (3, 3, 4)]
    assert regrets[0] == regrets[1]
    assert regrets[0] != regrets[2]


@TRUST
def test_regret_is_the_exact_value_gap_and_never_negative(privacy: Any, learner: Learner, river: FiniteMDP) -> None:
    algorithm = learner(river, 300, privacy, bonus_scale=0.05)
    for _ in range(100):
        segment = algorithm.learn(1)
        assert segment.regret == pytest.approx(river.optimal_start_value() - exhaustive_value(river, algorithm.policy))
        assert segment.regret >= -1e-12
        assert 0.0 <= segment.saturated <= 1.0


def exhaustive_value(mdp: FiniteMDP, policy: np.ndarray) -> float:
    """Value of a policy by pushing the state distribution forward, independent of backward induction."""
    distribution, total = mdp.start.copy(), 0.0
    for h in range(mdp.horizon):
        chosen = np.take_along_axis(mdp.rewards[h], policy[h][:, None], axis=1)[:, 0]
        total += float(distribution @ chosen)
        rows = np.take_along_axis(mdp.transitions[h], policy[h][:, None, None], axis=1)[:, 0]
        distribution = distribution @ rows
    return total


@TRUST
def test_optimism_holds_at_the_papers_constants(privacy: Any, learner: Learner, random_mdp: FiniteMDP) -> None:
    # At bonus_scale 1 the optimistic start value must be at least V* in at least 1 - 3 beta of the runs (Lemma 2).
    # 60 runs, checked at 12 episodes each; with beta = 0.1 more than 60 * 0.3 + 4 sd failures have probability < 1e-4.
    failures = 0
    best = random_mdp.optimal_start_value()
    for seed in range(60):
        algorithm: Any = learner(random_mdp, 1200, privacy, seed=seed)
        for _ in range(12):
            algorithm.learn(100)
            algorithm.plan(algorithm.privatizer.private_counts())
            if random_mdp.start @ algorithm._tables.optimistic < best - 1e-9:
                failures += 1
                break
    assert failures <= 60 * 0.3 + 4 * np.sqrt(60 * 0.3 * 0.7)


@TRUST
@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_users_reach_the_learner_through_released_counts_only(
    privacy: Any, name: str, learner: Learner, random_mdp: FiniteMDP, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two worlds whose users differ but whose releases do not: policy, regret and saturation must be the same bits."""
    config: Any = ALGORITHMS[name]
    plain = config.run.py_func
    monkeypatch.setattr(config, "run", staticmethod(plain))

    poison: dict[str, np.ndarray] = {}

    def blind(channel: Any, cells: np.ndarray, amounts: np.ndarray, user: int) -> None:
        server = channel.receiver
        memory = {"message": channel.sender.message, "totals": server.totals, "rows": server.counter.rows}
        for field, worth in poison.items():
            memory[field][:] = worth
        exchange(channel, np.full_like(cells, user % 7), np.full_like(amounts, 0.5), user)
        # Between two releases the server's unreleased memory differs from world to world, too.
        if channel.released is server.totals:
            memory.pop("totals")
        poison.update({field: array.copy() for field, array in memory.items()})
        for array in memory.values():
            array.flat = world + np.arange(array.size) / 7

    monkeypatch.setitem(plain.__globals__, "exchange", blind)
    outcomes = []
    for world in (1, 2):
        poison.clear()
        algorithm: Any = learner(random_mdp, 300, privacy, name=name, bonus_scale=0.02, precision_scale=0.05)
        algorithm._simulator = algorithm._simulator._replace(key=Streams(world, "world").key("env"))
        segments, states = [], []
        for _ in range(60):
            segments.append(algorithm.learn(5))
            states.append(algorithm._simulator.device.states.tolist())
        outcomes.append((algorithm.policy.tolist(), [(s.regret, s.saturated) for s in segments], states))
    assert outcomes[0][:2] == outcomes[1][:2]
    assert outcomes[0][2] != outcomes[1][2]


def test_a_privatizer_for_another_problem_is_refused(learner: Learner, river: FiniteMDP, random_mdp: FiniteMDP) -> None:
    settings, streams = PrivateUCBVIConfig(), Streams(0, "x")
    for privatizer in (learner(random_mdp, 50).privatizer, learner(river, 20).privatizer):
        with pytest.raises(ValueError, match="must be built for this MDP and 49 users"):
            settings.build(river, privatizer, 50, streams)


def test_learning_is_visible_with_and_without_noise(learner: Learner, river: FiniteMDP) -> None:
    for privacy, episodes in ((NoPrivacy(), 20_000), (CentralPrivacy(10.0), 200_000)):
        algorithm = learner(river, episodes, privacy, bonus_scale=0.1, precision_scale=0.1)
        tenth = episodes // 10
        first = algorithm.learn(tenth).regret
        algorithm.learn(8 * tenth)
        assert algorithm.learn(tenth).regret < 0.2 * first


def test_paper_constants_saturate_on_a_short_run(learner: Learner, river: FiniteMDP) -> None:
    segment = learner(river, 200, CentralPrivacy(1.0)).learn(200)
    assert segment.saturated == 1.0
    assert segment.regret == pytest.approx(
        200 * (river.optimal_start_value() - river.start_value(np.zeros((4, 3), int)))
    )


def test_the_last_user_sends_nothing(learner: Learner, river: FiniteMDP) -> None:
    algorithm = learner(river, 8, CentralPrivacy(1.0))
    algorithm.learn(8)
    assert algorithm.privatizer.ledger.users_charged == 7
    with pytest.raises(ValueError, match="build for more episodes"):
        algorithm.learn(1)


def test_the_ledger_is_charged_before_the_loop_runs(
    learner: Learner, river: FiniteMDP, monkeypatch: pytest.MonkeyPatch
) -> None:
    algorithm = learner(river, 50, LocalPrivacy(1.0))
    charged: list[int] = []

    def watched(*arguments: Any) -> Any:
        charged.append(algorithm.privatizer.ledger.users_charged)
        return run(*arguments)

    monkeypatch.setattr(PrivateUCBVIConfig, "run", staticmethod(watched))
    algorithm.learn(20)
    algorithm.learn(30)
    assert charged == [20, 49]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"bonus_scale": -0.1}, "bonus_scale must be a finite number, at least 0, got -0.1"),
        ({"precision_scale": float("nan")}, "precision_scale must be a finite number"),
        ({"beta": 0.0}, "beta must be a finite number"),
        ({"beta": 1e-45}, "at least 1e-20"),
        ({"beta": 1.0}, "below 1, got 1.0"),
        ({"bonus_scale": True}, "got True"),
        ({"bonus_scale": "1"}, "got '1'"),
    ],
)
def test_bad_settings_are_refused_in_one_line(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        PrivateUCBVIConfig(**values)
    assert "\n" not in str(caught.value)


def test_one_episode_is_refused(learner: Learner, river: FiniteMDP) -> None:
    with pytest.raises(ValueError, match="at least 2"):
        PrivateUCBVIConfig().build(river, learner(river, 2).privatizer, 1, Streams(0, "x"))


def test_registry_names_are_the_settings_names() -> None:
    for name, settings in ALGORITHMS.items():
        assert settings.name == name


def test_ties_go_to_the_lowest_action(river: FiniteMDP) -> None:
    cells = count_families(river).n_cells
    policy = np.ones((4, 3), dtype=np.int64)
    changed, saturated = plan(
        Released(np.zeros(cells), 0, 0), Bonus(0.0, 100.0, 0.0), Tables(policy, np.zeros(3), np.zeros(6))
    )
    assert changed
    assert saturated == 1.0
    assert not policy.any()


@pytest.mark.slow
def test_same_bits_without_the_compiler(learner: Learner, river: FiniteMDP) -> None:
    code = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "from dprl.algorithms import ALGORITHMS\n"
        "from dprl.envs import ENVIRONMENTS\n"
        "from dprl.privacy import CentralPrivacy, LocalPrivacy, NoPrivacy, Streams\n"
        "mdp = ENVIRONMENTS['riverswim'](n_states=3, horizon=4).build()\n"
        "for privacy in (NoPrivacy(), CentralPrivacy(20.0), LocalPrivacy(200.0)):\n"
        "    settings, streams = ALGORITHMS['private_ucb_vi'](bonus_scale=0.1), Streams(0, 'test')\n"
        "    privatizer = settings.privatizer(mdp, privacy, 40, streams)\n"
        "    algorithm = settings.build(mdp, privatizer, 40, streams)\n"
        "    print(algorithm.learn(40).regret.hex(), privatizer.channel.released.sum().hex())\n"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    compiled = []
    for privacy in PRIVACY:
        algorithm: Any = learner(river, 40, privacy, bonus_scale=0.1)
        compiled.append(f"{algorithm.learn(40).regret.hex()} {algorithm.privatizer.channel.released.sum().hex()}")
    assert shown.stdout.splitlines() == compiled
