"""PUCB against a plain NumPy reading of its box, and next to UBEV when there is no noise."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dprl.algorithms import Algorithm, PUCBConfig
from dprl.algorithms.pucb import Bonus, plan
from dprl.algorithms.tabular import Released, count_families
from dprl.algorithms.tabular.greedy import GreedyTables
from dprl.envs import ENVIRONMENTS, FiniteMDP
from dprl.privacy import CentralPrivacy, LocalPrivacy, NoPrivacy

Learner = Callable[..., Algorithm]
PRIVACY: list[Any] = [NoPrivacy(), CentralPrivacy(20.0), LocalPrivacy(200.0)]
TRUST = pytest.mark.parametrize("privacy", PRIVACY, ids=lambda settings: settings.model)


@pytest.fixture(scope="module")
def random_mdp() -> FiniteMDP:
    return ENVIRONMENTS["random_mdp"](n_states=4, n_actions=3, horizon=5, seed=1).build()  # type: ignore[call-arg]


def families(values: np.ndarray, mdp: FiniteMDP) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Transitions [H, S', S, A], visits [H, S, A] and rewards [H, S, A]."""
    horizon, n_states, n_actions = mdp.rewards.shape
    rows = values.reshape(horizon, n_states + 2, n_states, n_actions)
    return rows[:, :n_states], rows[:, n_states], rows[:, n_states + 1]


def planned_by_the_box(values: np.ndarray, mdp: FiniteMDP, e: float, log_term: float, scale: float) -> np.ndarray:
    """PrivQ cell by cell; log_term is ln(T/beta'). Returns Q [H, S, A]."""
    horizon, n_states, n_actions = mdp.rewards.shape
    transitions, visits, rewards = families(values, mdp)
    q = np.full((horizon, n_states, n_actions), float(horizon))
    value = np.zeros(n_states)
    for h in reversed(range(horizon)):
        for s in range(n_states):
            for a in range(n_actions):
                n = visits[h, s, a]
                if n < 2 * e or n < 1:
                    continue
                phi = np.sqrt(2 * log_term / max(n - e, 1))
                psi = (1 + n_states * horizon) * (3 * e / n + 2 * e**2 / n**2)
                conf = scale * ((horizon + 1) * phi + psi)
                estimate = (rewards[h, s, a] + transitions[h, :, s, a] @ value) / n
                q[h, s, a] = max(0.0, min(horizon, estimate + conf))
        value = q[h].max(axis=1)
    return q


def planned(values: np.ndarray, bonus: Bonus, mdp: FiniteMDP) -> tuple[np.ndarray, np.ndarray, float]:
    """Policy [H, S], Q [S, A] of the first step and the saturated share that the kernel finds."""
    horizon, n_states, n_actions = mdp.rewards.shape
    tables = GreedyTables(
        np.zeros((horizon, n_states), dtype=np.int64), np.zeros(n_states), np.zeros(n_states * n_actions)
    )
    _, saturated = plan(Released(values, 1, 1), bonus, tables)
    return tables.policy, tables.q.reshape(n_states, n_actions), saturated


@TRUST
def test_planning_equals_the_box(privacy: Any, learner: Learner, random_mdp: FiniteMDP) -> None:
    episodes, beta, c, c_e = 3000, 0.1, 0.02, 0.02
    settings = PUCBConfig(bonus_scale=c, precision_scale=c_e, beta=beta)
    algorithm = learner(random_mdp, episodes, privacy, name="pucb", bonus_scale=c, precision_scale=c_e, beta=beta)
    bonus = settings.bonus(random_mdp, algorithm.privatizer, episodes)
    e = c_e * max(algorithm.privatizer.precision(beta).bounds.values())
    log_term = np.log(episodes * 2 * random_mdp.rewards.size / beta)
    compared, estimated = 0, 0
    for _ in range(10):
        algorithm.learn(300)
        values = algorithm.privatizer.private_counts().values
        q = planned_by_the_box(values, random_mdp, e, log_term, c)
        policy, first_q, saturated = planned(values, bonus, random_mdp)
        assert first_q == pytest.approx(q[0], abs=1e-9)
        assert saturated == np.mean(q == random_mdp.horizon)
        best_two = np.sort(q, axis=2)[..., -2:]
        clear = best_two[..., 1] - best_two[..., 0] > 1e-9
        assert np.array_equal(policy[clear], q.argmax(axis=2)[clear])
        compared += int(clear.sum())
        estimated += int((q < random_mdp.horizon).sum())
    assert compared > 50
    assert estimated > 50


def test_bonus_coefficients_are_those_of_the_paper(learner: Learner, random_mdp: FiniteMDP) -> None:
    horizon, n_states, n_actions = random_mdp.rewards.shape
    episodes, beta = 1000, 0.05
    privacy = CentralPrivacy(1.0, calibration="printed", precision="printed")
    privatizer = learner(random_mdp, episodes, privacy, name="pucb").privatizer
    cells = n_states * n_actions * horizon
    e = 3 * horizon * np.sqrt(8 * np.log(episodes) ** 3 * np.log(6 * cells * n_states * episodes / beta))
    root = (horizon + 1) * np.sqrt(2 * np.log(episodes / (beta / (2 * cells))))
    psi = 1 + n_states * horizon
    bonus = PUCBConfig(beta=beta).bonus(random_mdp, privatizer, episodes)
    assert bonus == pytest.approx((e, 2 * e, root, 3 * psi * e, 2 * psi * e**2))
    scaled = PUCBConfig(beta=beta, bonus_scale=0.5, precision_scale=0.1).bonus(random_mdp, privatizer, episodes)
    assert scaled == pytest.approx((0.1 * e, 0.2 * e, 0.5 * root, 0.05 * 3 * psi * e, 0.005 * 2 * psi * e**2))


def test_without_privacy_the_precision_is_zero(learner: Learner, random_mdp: FiniteMDP) -> None:
    bonus = PUCBConfig().bonus(random_mdp, learner(random_mdp, 100, name="pucb").privatizer, 100)
    assert (bonus.e, bonus.enough, bonus.per_count, bonus.per_square) == (0.0, 1.0, 0.0, 0.0)


@pytest.mark.parametrize(("visits", "value"), [(7.999, 2.0), (8.0, 6.0 / 8 + 0.25)])
def test_a_count_is_used_from_twice_its_error_on(visits: float, value: float) -> None:
    # One state, one action, two steps. The last step has 6 of reward; with fewer than 2 E = 8 visits it is worth H = 2.
    mdp: FiniteMDP = ENVIRONMENTS["random_mdp"](n_states=1, n_actions=1, horizon=2, seed=0).build()  # type: ignore[call-arg]
    many = 1e12
    values = np.array([many, many, 0.0, visits, visits, 6.0])
    assert values.size == count_families(mdp).n_cells
    tables = GreedyTables(np.zeros((2, 1), dtype=np.int64), np.zeros(1), np.zeros(1))
    plan(Released(values, 10, 1), Bonus(4.0, 8.0, 0.5, 0.0, 0.0), tables)
    assert tables.q[0] == pytest.approx(value, abs=1e-5)


def ubev(values: np.ndarray, mdp: FiniteMDP, log_term: float) -> np.ndarray:
    """UBEV's optimistic Q [H, S, A] (Dann et al. 2017, Algorithm 1) with phi = sqrt(2 log_term/n) for its own phi."""
    horizon, n_states, n_actions = mdp.rewards.shape
    transitions, visits, rewards = families(values, mdp)
    q = np.empty((horizon, n_states, n_actions))
    value = np.zeros(n_states)
    for h in reversed(range(horizon)):
        n = np.maximum(visits[h], 1.0)
        phi = np.where(visits[h] > 0, np.sqrt(2 * log_term / n), np.inf)
        remaining = horizon - 1 - h
        if remaining == 0:
            next_value = np.zeros((n_states, n_actions))
        else:
            next_value = np.minimum(value.max(), np.einsum("zsa,z->sa", transitions[h], value) / n + remaining * phi)
        q[h] = np.minimum(1.0, rewards[h] / n + phi) + next_value
        value = q[h].max(axis=1)
    return q


def test_without_noise_it_is_ubev_with_wider_clips(learner: Learner, random_mdp: FiniteMDP) -> None:
    """With the same phi PUCB's Q is never below UBEV's; without a bonus both are the values of the empirical model."""
    episodes, generator = 4000, np.random.default_rng(0)
    values = np.zeros(count_families(random_mdp).n_cells)
    transitions, visits, rewards = families(values, random_mdp)
    visits[:] = generator.integers(1, 60, visits.shape)
    transitions[:] = np.moveaxis(generator.multinomial(visits.astype(int), random_mdp.transitions), -1, 1)
    rewards[:] = visits * random_mdp.rewards
    bonus = PUCBConfig().bonus(random_mdp, learner(random_mdp, episodes, name="pucb").privatizer, episodes)
    log_term = np.log(episodes * 2 * random_mdp.rewards.size / 0.1)
    for scale in (1.0, 0.1, 0.01):
        _, ours, _ = planned(values, bonus._replace(per_root=scale * bonus.per_root), random_mdp)
        theirs = ubev(values, random_mdp, scale**2 * log_term)[0]
        assert np.all(ours >= theirs - 1e-9)
        assert ours.sum() > theirs.sum() + 0.1
    _, ours, saturated = planned(values, bonus._replace(per_root=0.0), random_mdp)
    assert saturated == 0.0
    assert ours == pytest.approx(ubev(values, random_mdp, 0.0)[0], abs=1e-9)


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
    privatizer = learner(random_mdp, 1000, CentralPrivacy(1.0), name="pucb").privatizer
    bounds, n_states = privatizer.precision(0.1).bounds, random_mdp.n_states
    private = PUCBConfig().bonus(random_mdp, privatizer, 1000)._replace(per_root=0.0)
    nothing = private._replace(per_count=0.0, per_square=0.0)
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
    bonus = PUCBConfig().bonus(random_mdp, learner(random_mdp, 1000, name="pucb").privatizer, 1000)
    nothing = bonus._replace(per_root=0.0)
    generator, best, failures, below = np.random.default_rng(0), optimal_q(random_mdp), 0, 0
    for _ in range(40):
        values = true_counts(random_mdp, 10_000, generator).ravel()
        _, q, _ = planned(values, bonus, random_mdp)
        assert np.all(q < random_mdp.horizon)
        failures += int(np.any(q < best))
        below += int(np.any(planned(values, nothing, random_mdp)[1] < best))
    assert failures <= 12
    assert below > 12  # without its bonus the algorithm does not pass


def test_learning_is_visible_with_and_without_noise(learner: Learner) -> None:
    river = ENVIRONMENTS["riverswim"](n_states=3, horizon=4).build()  # type: ignore[call-arg]
    for privacy, episodes in ((NoPrivacy(), 20_000), (CentralPrivacy(10.0), 200_000)):
        algorithm = learner(river, episodes, privacy, name="pucb", bonus_scale=0.1, precision_scale=0.1)
        tenth = episodes // 10
        first = algorithm.learn(tenth).regret
        algorithm.learn(8 * tenth)
        assert algorithm.learn(tenth).regret < 0.2 * first


def test_no_theorem_covers_any_run() -> None:
    assert PUCBConfig().covered_by is None


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
        "    settings = ALGORITHMS['pucb'](bonus_scale=0.1, precision_scale=0.01)\n"
        "    privatizer = settings.privatizer(mdp, privacy, 60, Streams(0, 'test'))\n"
        "    algorithm = settings.build(mdp, privatizer, 60, Streams(0, 'test'))\n"
        "    segment = algorithm.learn(60)\n"
        "    print(segment.regret.hex(), segment.saturated.hex(), privatizer.channel.released.sum().hex())\n"
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
        algorithm: Any = learner(river, 60, privacy, name="pucb", bonus_scale=0.1, precision_scale=0.01)
        segment = algorithm.learn(60)
        released = algorithm.privatizer.channel.released.sum()
        compiled.append(f"{segment.regret.hex()} {segment.saturated.hex()} {released.hex()}")
    assert shown.stdout.splitlines() == compiled
