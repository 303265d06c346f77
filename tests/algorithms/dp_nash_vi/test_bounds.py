"""Bounds of DP-Nash-VI: V_up and V_lo enclose best responses and the Nash value, and gaps bound regret."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from dprl.envs.games import MarkovGame, RandomGame
from dprl.privacy import CountPrivacy
from tests.algorithms.cases import Learner
from tests.algorithms.dp_nash_vi.cases import next_bounds

RUNS, BETA = 20, 0.1
MOST = int(stats.binom.isf(1e-4, RUNS, BETA))
# Chosen so that bounds leave their caps within the episodes, at the paper's constants.
MODELS: list[Any] = [
    (CountPrivacy("none"), 15_000),
    (CountPrivacy("jdp", 1000.0, families="separate", counter="binary_tree"), 30_000),
    (CountPrivacy("ldp", 6000.0, families="separate"), 30_000),
]
EACH_MODEL = pytest.mark.parametrize(("privacy", "episodes"), MODELS, ids=lambda value: getattr(value, "model", ""))


@pytest.fixture(scope="module")
def game() -> MarkovGame:
    """Return a game with S = A = B = H = 2 whose first state is random."""
    return RandomGame(n_states=2, n_max_actions=2, n_min_actions=2, horizon=2, seed=3).build()


def encloses(learner: Any, game: MarkovGame) -> tuple[bool, bool]:
    """Whether V_up >= V^{dagger,nu} >= V* >= V^{mu,dagger} >= V_lo at every h and s; whether none is at its cap."""
    policy, upper, lower = next_bounds(learner, game)
    max_player, min_player = game.marginals(policy)
    most, least = game.best_response_to_min(min_player)[0][:-1], game.best_response_to_max(max_player)[0][:-1]
    nash, caps = game.nash()[0][:-1], np.arange(game.horizon, 0, -1)[:, None]
    assert np.all(most >= nash - 1e-9)
    assert np.all(nash >= least - 1e-9)
    return bool(np.all(upper >= most - 1e-9) and np.all(lower <= least + 1e-9)), bool(np.all(upper - lower < caps))


def failures(learner: Learner, game: MarkovGame, privacy: Any, episodes: int, **settings: Any) -> tuple[int, int]:
    """How many of the runs have a plan with a wrong bound at ten checks, and in how many none is at its cap at last."""
    failed = informative = 0
    for seed in range(RUNS):
        run = learner(game, episodes, privacy, name="dp_nash_vi", seed=seed, beta=BETA, replan_growth=0.2, **settings)
        checks = []
        for _ in range(10):
            run.learn(episodes // 10)
            checks.append(encloses(run, game))
        failed += not all(holds for holds, _ in checks)
        informative += checks[-1][1]
    return failed, informative


@EACH_MODEL
@pytest.mark.parametrize("constants", ["given", "proved"])
def test_bounds_enclose_best_responses_and_the_nash_value(
    constants: str, privacy: Any, episodes: int, learner: Learner, game: MarkovGame
) -> None:
    """In at least a share 1 - beta of the runs, with C_1 = C_2 = 1 (default) and with the proved constants."""
    # If a run fails with probability beta = 0.1, more than MOST of 20 do with probability below 1e-4.
    failed, informative = failures(learner, game, privacy, episodes, constants=constants)
    assert failed <= MOST
    assert informative == RUNS


@EACH_MODEL
def test_without_a_bonus_bounds_are_wrong(privacy: Any, episodes: int, learner: Learner, game: MarkovGame) -> None:
    failed, _ = failures(learner, game, privacy, episodes // 10, bonus_scale=0.0)
    assert failed > MOST


@EACH_MODEL
def test_gaps_bound_the_regret_and_the_exploitability_of_the_output(
    privacy: Any, episodes: int, learner: Learner, game: MarkovGame
) -> None:
    """Runs with seeds for which the bounds hold."""
    for seed in range(5):
        run = learner(game, episodes, privacy, name="dp_nash_vi", seed=seed)
        smallest = float(game.horizon)
        for _ in range(20):
            run.learn(episodes // 20 - 1)
            assert encloses(run, game)[0]
            done = run.learn(1)
            gap, output = done["gap"], run.policies
            assert -1e-12 <= done["regret"] <= gap + 1e-9
            assert done["smallest_gap"] <= min(smallest, gap)
            smallest = done["smallest_gap"]
            assert done["exploitability"] == pytest.approx(
                game.exploitability(output["max_player"], output["min_player"]), abs=1e-12
            )
            assert done["exploitability"] <= smallest + 1e-9
        assert smallest < game.horizon


def test_without_a_bonus_gaps_bound_nothing(learner: Learner, game: MarkovGame) -> None:
    broken = 0
    for seed in range(10):
        run = learner(game, 300, name="dp_nash_vi", seed=seed, bonus_scale=0.0)
        for _ in range(300):
            done = run.learn(1)
            broken += done["regret"] > done["gap"] + 1e-9
    assert broken > 100
