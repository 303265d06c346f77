"""LDP-OBI against a plain NumPy reading of its formulas."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dprl.algorithms import Algorithm, LDPOBIConfig, PrivateUCBVIConfig
from dprl.algorithms.ldp_obi import Bonus, plan
from dprl.algorithms.tabular import Released
from dprl.algorithms.tabular.greedy import GreedyTables
from dprl.envs import ENVIRONMENTS, FiniteMDP
from dprl.privacy import CentralPrivacy, LocalPrivacy, NoPrivacy, PrivateCounts

Learner = Callable[..., Algorithm]
PRIVACY: list[Any] = [NoPrivacy(), CentralPrivacy(20.0), LocalPrivacy(200.0)]
TRUST = pytest.mark.parametrize("privacy", PRIVACY, ids=lambda settings: settings.model)


@pytest.fixture(scope="module")
def random_mdp() -> FiniteMDP:
    return ENVIRONMENTS["random_mdp"](n_states=4, n_actions=3, horizon=5, seed=1).build()  # type: ignore[call-arg]


def planned_by_the_box(
    counts: PrivateCounts, mdp: FiniteMDP, errors: tuple[float, float, float], settings: LDPOBIConfig
) -> np.ndarray:
    """Backward induction by cells; errors c_1 of rewards, c_2 of visits, c_4 of transitions. Returns Q [H, S, A]."""
    horizon, n_states, n_actions = mdp.rewards.shape
    transitions = counts.family("transitions").reshape(horizon, n_states, n_states, n_actions)
    visits = counts.family("visits").reshape(horizon, n_states, n_actions)
    rewards = counts.family("rewards").reshape(horizon, n_states, n_actions)
    (c1, c2, c4), alpha, k = errors, settings.alpha, counts.n_users + 1
    log = np.log(4 * np.pi**2 * n_states * n_actions * horizon * k**3 / (3 * settings.beta))
    q = np.empty((horizon, n_states, n_actions))
    value = np.zeros(n_states)
    for h in reversed(range(horizon)):
        steps_left = horizon - h
        for s in range(n_states):
            for a in range(n_actions):
                d = max(1.0, visits[h, s, a] + alpha * c2)
                beta_r = np.sqrt(2 * log / d) + ((alpha + 1) * c2 + c1) / d
                beta_p = np.sqrt(14 * n_states * log / d) + (n_states * c4 + (alpha + 1) * c2) / d
                estimate = rewards[h, s, a] / d + (transitions[h, :, s, a] / d) @ value
                q[h, s, a] = estimate + settings.bonus_scale * (beta_r + steps_left * beta_p)
        value = np.clip(q[h].max(axis=1), 0.0, steps_left)
    return q


def planned(values: np.ndarray, bonus: Bonus, mdp: FiniteMDP, users: int = 0) -> tuple[np.ndarray, np.ndarray, float]:
    """Policy [H, S], Q [S, A] of the first step and the saturated share that the kernel finds."""
    horizon, n_states, n_actions = mdp.rewards.shape
    tables = GreedyTables(
        np.zeros((horizon, n_states), dtype=np.int64), np.zeros(n_states), np.zeros(n_states * n_actions)
    )
    _, saturated = plan(Released(values, users, 1), bonus, tables)
    return tables.policy, tables.q.reshape(n_states, n_actions), saturated


@TRUST
def test_planning_equals_the_box(privacy: Any, learner: Learner, random_mdp: FiniteMDP) -> None:
    values = {"bonus_scale": 0.02, "precision_scale": 0.05, "beta": 0.05, "alpha": 1.5}
    episodes, settings = 3000, LDPOBIConfig(**values)
    algorithm = learner(random_mdp, episodes, privacy, name="ldp_obi", **values)
    bonus = settings.bonus(random_mdp, algorithm.privatizer, episodes)
    bounds = algorithm.privatizer.precision(settings.beta).bounds
    errors = tuple(0.05 * bounds[name] for name in ("rewards", "visits", "transitions"))
    caps = np.arange(random_mdp.horizon, 0, -1)[:, None, None]
    compared, below = 0, 0
    for _ in range(10):
        algorithm.learn(300)
        counts = algorithm.privatizer.private_counts()
        q = planned_by_the_box(counts, random_mdp, errors, settings)  # type: ignore[arg-type]
        policy, first_q, saturated = planned(counts.values, bonus, random_mdp, counts.n_users)
        assert first_q == pytest.approx(q[0], abs=1e-9)
        assert saturated == np.mean(q >= caps)
        best_two = np.sort(q, axis=2)[..., -2:]
        clear = best_two[..., 1] - best_two[..., 0] > 1e-9
        assert np.array_equal(policy[clear], q.argmax(axis=2)[clear])
        compared += int(clear.sum())
        below += int((q < caps).sum())
    assert compared > 50
    assert below > 50


def test_bonus_coefficients_are_those_of_the_paper(learner: Learner, random_mdp: FiniteMDP) -> None:
    horizon, n_states, n_actions = random_mdp.rewards.shape
    episodes, beta = 1000, 0.05
    privacy = LocalPrivacy(1.0, calibration="printed", precision="printed")
    privatizer = learner(random_mdp, episodes, privacy, name="ldp_obi").privatizer
    cells = n_states * n_actions * horizon
    c2 = 3 * horizon * np.sqrt(8 * episodes * np.log(6 * cells * episodes / beta))
    c4 = 3 * horizon * np.sqrt(8 * episodes * np.log(6 * cells * n_states * episodes / beta))
    union = np.log(4 * np.pi**2 * cells / (3 * beta))
    expected = (3 * c2, union, np.sqrt(2), 4 * c2 + c2, np.sqrt(14 * n_states), n_states * c4 + 4 * c2)
    bonus = LDPOBIConfig(beta=beta, alpha=3.0).bonus(random_mdp, privatizer, episodes)
    assert bonus == pytest.approx(expected)
    scaled = LDPOBIConfig(beta=beta, alpha=3.0, bonus_scale=0.5, precision_scale=0.1)
    factors = np.array([0.1, 1.0, 0.5, 0.05, 0.5, 0.05])
    assert scaled.bonus(random_mdp, privatizer, episodes) == pytest.approx(factors * expected)


def test_at_alpha_one_the_privacy_terms_are_those_of_private_ucb_vi(learner: Learner, random_mdp: FiniteMDP) -> None:
    # [CZ22] Lemma 1: 3 E_1/D for rewards and (S E_2 + 2 E_1)/D for transitions, times H at the first step.
    privacy = CentralPrivacy(1.0, calibration="printed", precision="printed")
    privatizer = learner(random_mdp, 500, privacy, name="ldp_obi").privatizer
    ours = LDPOBIConfig(alpha=1.0).bonus(random_mdp, privatizer, 500)
    theirs = PrivateUCBVIConfig().bonus(random_mdp, privatizer, 500)
    assert ours.added == theirs.e1
    assert ours.reward_count + random_mdp.horizon * ours.transition_count == pytest.approx(theirs.per_count)


def test_without_privacy_only_sampling_errors_remain(learner: Learner, random_mdp: FiniteMDP) -> None:
    bonus = LDPOBIConfig().bonus(random_mdp, learner(random_mdp, 100, name="ldp_obi").privatizer, 100)
    assert (bonus.added, bonus.reward_count, bonus.transition_count) == (0.0, 0.0, 0.0)


def test_the_policy_is_greedy_before_values_are_clipped(random_mdp: FiniteMDP) -> None:
    # Two cells of each state are far above the cap; the one with fewer visits has the larger bonus and must win.
    horizon, n_states, n_actions = random_mdp.rewards.shape
    values = np.zeros((horizon, n_states + 2, n_states, n_actions))
    values[:, n_states] = [30.0, 10.0, 20.0]
    tables = GreedyTables(
        np.zeros((horizon, n_states), dtype=np.int64), np.zeros(n_states), np.zeros(n_states * n_actions)
    )
    changed, saturated = plan(Released(values.ravel(), 59, 1), Bonus(0.0, 5.0, 100.0, 0.0, 0.0, 0.0), tables)
    assert changed
    assert saturated == 1.0
    assert np.all(tables.policy == 1)
    assert np.all(tables.optimistic == horizon)


def test_values_are_clipped_at_zero_from_below(random_mdp: FiniteMDP) -> None:
    horizon, n_states, n_actions = random_mdp.rewards.shape
    values = np.zeros((horizon, n_states + 2, n_states, n_actions))
    values[:, n_states + 1] = -7.0
    tables = GreedyTables(
        np.zeros((horizon, n_states), dtype=np.int64), np.ones(n_states), np.zeros(n_states * n_actions)
    )
    _, saturated = plan(Released(values.ravel(), 0, 1), Bonus(0.0, 5.0, 0.0, 0.0, 0.0, 0.0), tables)
    assert saturated == 0.0
    assert np.all(tables.q == -7.0)
    assert np.all(tables.optimistic == 0.0)


def optimal_q(mdp: FiniteMDP) -> np.ndarray:
    """Q* of the first step, [S, A]."""
    value = np.zeros(mdp.rewards.shape[1])
    for h in reversed(range(mdp.horizon)):
        q = mdp.rewards[h] + mdp.transitions[h] @ value
        value = q.max(axis=1)
    return np.asarray(q)


def true_counts(mdp: FiniteMDP, visits: int, generator: np.random.Generator | None) -> np.ndarray:
    """Counts of `visits` visits to every cell, their transitions drawn or, without a generator, as expected."""
    horizon, n_states, n_actions = mdp.rewards.shape
    rows = np.full((horizon, n_states + 2, n_states, n_actions), float(visits))
    drawn = generator.multinomial(visits, mdp.transitions) if generator else visits * mdp.transitions
    rows[:, :n_states] = np.moveaxis(drawn, -1, 1)
    rows[:, n_states + 1] *= mdp.rewards
    return rows


def test_optimism_survives_the_worst_errors_of_counts(learner: Learner, random_mdp: FiniteMDP) -> None:
    """Counts as expected, then each moved by its whole error bound: the bonus for privacy alone makes up for it."""
    privatizer = learner(random_mdp, 1000, CentralPrivacy(1.0), name="ldp_obi").privatizer
    bounds, n_states = privatizer.precision(0.1).bounds, random_mdp.n_states
    private = LDPOBIConfig().bonus(random_mdp, privatizer, 1000)._replace(reward_root=0.0, transition_root=0.0)
    nothing = private._replace(reward_count=0.0, transition_count=0.0)
    best, below = optimal_q(random_mdp), 0
    for signs in itertools.product((-1, 1), repeat=3):
        rows = true_counts(random_mdp, 30_000_000, None)
        rows[:, :n_states] += signs[0] * bounds["transitions"]
        rows[:, n_states] += signs[1] * bounds["visits"]
        rows[:, n_states + 1] += signs[2] * bounds["rewards"]
        _, q, _ = planned(rows.ravel(), private, random_mdp)
        assert np.all(q >= best)
        assert np.all(q < random_mdp.horizon)
        below += int(np.any(planned(rows.ravel(), nothing, random_mdp)[1] < best))
    assert below >= 4


def test_optimism_survives_sampling(learner: Learner, random_mdp: FiniteMDP) -> None:
    # A draw fails with probability at most beta = 0.1, so that more than 12 of 40 do with probability < 1e-3.
    bonus = LDPOBIConfig().bonus(random_mdp, learner(random_mdp, 1000, name="ldp_obi").privatizer, 1000)
    nothing = bonus._replace(reward_root=0.0, transition_root=0.0)
    generator, best, failures, below = np.random.default_rng(0), optimal_q(random_mdp), 0, 0
    for _ in range(40):
        values = true_counts(random_mdp, 3_000_000, generator).ravel()
        _, q, _ = planned(values, bonus, random_mdp, users=999)
        assert np.all(q < random_mdp.horizon)
        failures += int(np.any(q < best))
        below += int(np.any(planned(values, nothing, random_mdp)[1] < best))
    assert failures <= 12
    assert below > 12  # without its bonus the algorithm does not pass


def test_learning_is_visible_with_and_without_noise(learner: Learner) -> None:
    river = ENVIRONMENTS["riverswim"](n_states=3, horizon=4).build()  # type: ignore[call-arg]
    for privacy, episodes in ((NoPrivacy(), 20_000), (LocalPrivacy(100.0), 200_000)):
        algorithm = learner(river, episodes, privacy, name="ldp_obi", bonus_scale=0.05, precision_scale=0.05)
        tenth = episodes // 10
        first = algorithm.learn(tenth).regret
        algorithm.learn(8 * tenth)
        assert algorithm.learn(tenth).regret < 0.2 * first


def test_a_number_below_one_is_refused_as_alpha() -> None:
    with pytest.raises(ValueError, match="alpha must be a finite number, at least 1"):
        LDPOBIConfig(alpha=0.9)
    with pytest.raises(ValueError, match="bonus_scale must be a finite number, at least 0"):
        LDPOBIConfig(bonus_scale=-1.0)


def test_no_theorem_covers_any_run() -> None:
    assert LDPOBIConfig().covered_by is None


@pytest.mark.slow
def test_same_bits_without_the_compiler(learner: Learner) -> None:
    river = ENVIRONMENTS["riverswim"](n_states=3, horizon=4).build()  # type: ignore[call-arg]
    code = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "from dprl.algorithms import ALGORITHMS\n"
        "from dprl.envs import ENVIRONMENTS\n"
        "from dprl.privacy import CentralPrivacy, LocalPrivacy, NoPrivacy, Streams\n"
        "mdp = ENVIRONMENTS['riverswim'](n_states=3, horizon=4).build()\n"
        "for privacy in (NoPrivacy(), CentralPrivacy(20.0), LocalPrivacy(200.0)):\n"
        "    settings = ALGORITHMS['ldp_obi'](bonus_scale=0.02, precision_scale=0.01)\n"
        "    privatizer = settings.privatizer(mdp, privacy, 60, Streams(0, 'test'))\n"
        "    algorithm = settings.build(mdp, privatizer, 60, Streams(0, 'test'))\n"
        "    segment = algorithm.learn(60)\n"
        "    q = algorithm._tables.q.sum()\n"
        "    print(segment.regret.hex(), segment.saturated.hex(), privatizer.channel.released.sum().hex(), q.hex())\n"
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
        algorithm: Any = learner(river, 60, privacy, name="ldp_obi", bonus_scale=0.02, precision_scale=0.01)
        segment = algorithm.learn(60)
        released, q = algorithm.privatizer.channel.released.sum(), algorithm._tables.q.sum()
        compiled.append(f"{segment.regret.hex()} {segment.saturated.hex()} {released.hex()} {q.hex()}")
    assert shown.stdout.splitlines() == compiled
