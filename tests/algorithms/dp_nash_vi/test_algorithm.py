"""DP-Nash-VI's own properties: numbers of the bonus, edge cases, the output policy, and games solved by hand."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from dprl.algorithms.dp_nash_vi.algorithm import _NashPlanner, _NashTables, count_families, plain_payoffs, plan
from dprl.algorithms.tabular import Released
from dprl.envs import FiniteMDP
from dprl.envs.games import MarkovGame, RandomGame, RockPaperScissors
from dprl.privacy import CountPrivacy
from tests.algorithms.cases import PRACTICAL, TRUST, Learner, same_state
from tests.algorithms.dp_nash_vi.cases import from_step, numbers, planned, repeated

OURS = ("dp_nash_vi", "dp_ucbvi")


@pytest.fixture(scope="module")
def game() -> MarkovGame:
    """Return a random game with S = 3, A = 3, B = 2, H = 4."""
    return RandomGame(n_states=3, n_max_actions=3, n_min_actions=2, horizon=4, seed=2).build()


def counted(game: MarkovGame, visits: float) -> np.ndarray:
    """Counts [H, S+1, S, A, B] of as many visits to every cell, transitions as expected."""
    horizon, n_states, n_max, n_min = game.rewards.shape
    rows = np.full((horizon, n_states + 1, n_states, n_max, n_min), visits)
    rows[:, :-1] = visits * np.moveaxis(game.transitions, -1, 1)
    return rows


# --- numbers ---------------------------------------------------------------------------------------------------------


@TRUST
def test_the_numbers_are_those_of_the_box(privacy: Any, learner: Learner, game: MarkovGame) -> None:
    episodes, beta, (horizon, n_states, n_max, n_min) = 5000, 0.05, game.rewards.shape
    settings: dict[str, float] = {"beta": beta, "c1": 0.7, "c2": 1.3, "bonus_scale": 0.5, "precision_scale": 0.1}
    algorithm: Any = learner(game, episodes, privacy, name="dp_nash_vi", **settings)
    bounds = algorithm.privatizer.precision(beta / 3)
    assert set(bounds) == {"visits", "transitions"}
    e = 0.1 * 4 * max(bounds.values())
    iota = math.log(30 * horizon * n_states * n_max * n_min * episodes / beta)
    assert (e == 0.0) == (privacy.model == "none")
    found = algorithm._bonus.bonus
    assert found.e == pytest.approx(e)
    assert found.per_gap == pytest.approx(0.5 * 0.7 / horizon)
    assert found.per_deviation == pytest.approx(0.5 * 1.3 * math.sqrt(iota))
    assert found.per_count == pytest.approx(0.5 * 1.3 * (horizon * n_states * e * iota + horizon**2 * n_states * iota))


def test_private_counts_are_transitions_and_visits(game: MarkovGame) -> None:
    horizon, n_states, n_max, n_min = game.rewards.shape
    found, pairs = count_families(game), n_states * n_max * n_min
    assert found.paper == "[QW24]"
    assert found.n_steps == horizon
    assert [(family.name, family.width) for family in found.families] == [
        ("transitions", pairs * n_states),
        ("visits", pairs),
    ]
    assert all(family.indicator for family in found.families)


# --- edges -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("bonus", "share"), [(0.4, 0.0), (0.6, 0.5), (1.0, 1.0)])
def test_cells_of_which_both_bounds_are_at_their_caps_are_counted(bonus: float, share: float) -> None:
    """Near 0 and 1 one bound is at its cap, the other one with a bonus of 1; near 1/2 both with a bonus of 1/2."""
    game = repeated([[0.0, 1.0], [0.5, 0.5]], horizon=1)
    counts = Released(counted(game, 10.0).ravel(), 1, 1)
    assert plan(counts, _NashPlanner.of(game, numbers(per_count=10 * bonus)), _NashTables.first(game)) == (True, share)


def test_infeasible_cells_are_counted(game: MarkovGame) -> None:
    """A noisy number of visits below -E/4 has no solution: the share of such cells, whatever their transitions."""
    rows = counted(game, 10.0)
    rows[1, -1, 0, :, 0], rows[3, -1, 2, 1, 1] = -2.1, -2.1
    assert planned(game, rows.ravel(), numbers(e=8.0)).infeasible[0] == pytest.approx(4 / 72)
    assert planned(game, rows.ravel(), numbers(e=8.5)).infeasible[0] == 0.0


@pytest.mark.parametrize("violation", [1.1e-9, math.inf, math.nan])
def test_a_missed_equilibrium_stops_the_run(
    violation: float, learner: Learner, game: MarkovGame, monkeypatch: pytest.MonkeyPatch
) -> None:
    def miss(upper: Any, lower: Any, scratch: Any, policy: Any) -> float:
        policy[:] = 1.0 / policy.size
        return violation

    algorithm: Any = learner(game, 100, name="dp_nash_vi", **PRACTICAL)
    algorithm.learn(5)
    assert algorithm._tables.missed[0] == 0.0
    plain: Any = getattr(plan, "py_func", plan)
    monkeypatch.setitem(plain.__globals__, "coarse_correlated_equilibrium", miss)
    counts = algorithm.privatizer.release()
    plain(Released(counts.values, counts.users, 1), algorithm._bonus, algorithm._tables)
    assert algorithm._tables.missed[0] == game.horizon * game.n_states
    with pytest.raises(
        RuntimeError, match=r"^equilibria must be met to 1e-09 .*, got \d+ that are not; report"
    ) as caught:
        algorithm.learn(1)
    assert "\n" not in str(caught.value)


# --- the output ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OURS)
def test_the_output_is_the_policy_of_the_smallest_gap(
    name: str, learner: Learner, game: MarkovGame, random_mdp: FiniteMDP
) -> None:
    """The run is replayed episode by episode; of equal gaps the first counts, including that of the first plan."""
    env = game if name == "dp_nash_vi" else random_mdp
    run = learner(env, 1500, CountPrivacy("jdp", 200.0), name=name, seed=1, **PRACTICAL)
    output, smallest, kept, repeats = run.policy, math.inf, 0, 0
    for _ in range(1500):
        done = run.learn(1)
        gap = done["gap"]
        repeats += gap == smallest
        if gap < smallest:
            output, smallest, kept = run.policy, gap, kept + 1
        assert done["smallest_gap"] == smallest
        assert np.array_equal(run.policies["policy"], output)
    assert kept > 3
    assert repeats > 0
    assert smallest < env.horizon


def test_before_any_gap_is_below_the_cap_the_output_is_the_first_policy(learner: Learner, game: MarkovGame) -> None:
    run = learner(game, 300, CountPrivacy("jdp", 1.0), name="dp_nash_vi")
    first = run.plan(run.privatizer.release())
    assert np.array_equal(run.policies["policy"], first)
    assert run.learn(300)["smallest_gap"] == game.horizon
    assert np.array_equal(run.policies["policy"], first)


def test_marginals_of_the_output_are_left(learner: Learner, game: MarkovGame) -> None:
    run = learner(game, 2000, name="dp_nash_vi", **PRACTICAL)
    run.learn(2000)
    left = run.policies
    assert set(left) == {"policy", "max_player", "min_player"}
    for found, expected in zip((left["max_player"], left["min_player"]), game.marginals(left["policy"]), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-15)
    assert (left["max_player"].max(axis=2) < 1.0).any()


# --- one player ------------------------------------------------------------------------------------------------------


@TRUST
def test_with_one_action_of_the_min_player_it_is_dp_ucbvi_bit_for_bit(
    privacy: Any, learner: Learner, random_mdp: FiniteMDP
) -> None:
    pair = MarkovGame.from_mdp(random_mdp)
    alone = learner(random_mdp, 2000, privacy, name="dp_ucbvi", **PRACTICAL)
    against_nobody = learner(pair, 2000, privacy, name="dp_nash_vi", **PRACTICAL)
    for _ in range(10):
        assert alone.learn(200) == against_nobody.learn(200)
        assert np.array_equal(alone.policy, np.asarray(against_nobody.policy)[..., 0])
        assert np.array_equal(alone.policies["policy"], against_nobody.policies["policy"][..., 0])
        assert np.array_equal(alone.policies["policy"], against_nobody.policies["max_player"])
    assert same_state(alone.privatizer.state_dict(), against_nobody.privatizer.state_dict())


# --- solved by hand --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", ["none", "outcome"])
def test_biased_rock_paper_scissors_is_learned(memory: Any, learner: Learner) -> None:
    """The output approaches (1/16, 10/16, 5/16) for both players wherever play goes, and exploitability falls."""
    game = RockPaperScissors(horizon=2, payoffs="biased", memory=memory).build()
    run, expected = learner(game, 20_000, name="dp_nash_vi", bonus_scale=1e-4), np.array([1.0, 10.0, 5.0]) / 16
    done = [run.learn(n) for n in (10, 1_000, 18_990)]
    assert all(later["exploitability"] < earlier["exploitability"] for earlier, later in pairwise(done))
    assert done[-1]["exploitability"] < done[-1]["smallest_gap"] < 1e-3
    for player in ("max_player", "min_player"):
        first, second = run.policies[player]
        for mixed in (first[0], *second):
            np.testing.assert_allclose(mixed, expected, atol=2e-3)


def test_a_saddle_point_is_played_for_sure(learner: Learner) -> None:
    """Row 1 and column 0 of [[0.4, 0.9], [0.5, 0.7]]: worth 0.5 a round."""
    run: Any = learner(repeated([[0.4, 0.9], [0.5, 0.7]], horizon=2), 5000, name="dp_nash_vi", bonus_scale=0.01)
    assert run.learn(5000)["exploitability"] == pytest.approx(0.0, abs=1e-12)
    expected = np.broadcast_to([[0.0, 0.0], [1.0, 0.0]], (2, 1, 2, 2))
    assert np.array_equal(run.policies["policy"], expected)
    assert run._tables.pessimistic[0] <= 1.0 <= run._tables.optimistic[0]


@pytest.mark.parametrize("e", [0.0, 12.0])
def test_payoffs_are_those_of_the_plain_step(e: float) -> None:
    game: MarkovGame = RandomGame(n_states=3, n_max_actions=2, n_min_actions=2, horizon=2).build()
    noisy, below = np.random.default_rng(int(e)), 0
    for _ in range(20):
        steps = noisy.normal(30.0, 25.0, size=(2, 4, 12))
        steps[:, 3] = steps[:, :3].sum(axis=1) + noisy.normal(0.0, 5.0, size=(2, 12))
        bonus = numbers(e, per_gap=0.2, per_deviation=0.3, per_count=2.0)
        found, later = planned(game, steps.ravel(), bonus), planned(from_step(game, 1), steps[1].ravel(), bonus)
        rewards = game.rewards[0].ravel()
        q_up, q_lo = plain_payoffs(steps[0], rewards, later.optimistic, later.pessimistic, 2.0, bonus)
        np.testing.assert_allclose(found.q_up.ravel(), q_up, atol=1e-7)
        np.testing.assert_allclose(found.q_lo.ravel(), q_lo, atol=1e-7)
        below += int(((q_up < 2.0) & (q_lo > 0.0)).sum())
    assert below > 20
