"""Bounds and whole runs of DP-Nash-VI: they enclose values, bound regret, and are those of a simple program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from benchmarks.naive_ucb_vi import Counts
from dprl.envs.games import MarkovGame, RandomGame
from dprl.privacy import CountPrivacy, Streams
from dprl.privacy.randomness.bits import fill_uniform
from tests.algorithms.cases import Learner, regret_of
from tests.algorithms.dp_nash_vi.cases import next_bounds
from tests.algorithms.dp_nash_vi.oracle import OurChoiceNashVI

# Bounds of DP-Nash-VI: V_up and V_lo enclose best responses and the Nash value, and gaps bound regret.

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


# Whole runs of DP-Nash-VI against a simple program that solves its linear programs by linprog.

SETTINGS: dict[str, Any] = {"bonus_scale": 0.003, "precision_scale": 0.05, "c1": 0.7, "c2": 1.3}


def random_game(seed: int) -> MarkovGame:
    """A game with S = A = B = H = 3 and an uneven start."""
    drawn = RandomGame(seed=seed).build()
    return MarkovGame("random", drawn.transitions, drawn.rewards, np.array([0.5, 0.3, 0.2]))


def released(learner: Any, game: MarkovGame) -> Counts:
    """Private counts as the other program has them: ours hold a step's transitions as [S', S, A, B]."""
    counts, shape = learner.privatizer.release(), game.rewards.shape
    by_next = learner.privatizer.query.family(counts, "transitions").reshape(shape[0], shape[1], *shape[1:])
    return Counts(
        learner.privatizer.query.family(counts, "visits").reshape(shape), np.moveaxis(by_next, 1, 4), np.zeros(0)
    )


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_without_noise_both_programs_make_the_same_moves(seed: int, learner: Learner) -> None:
    game, episodes = random_game(seed), 100
    ours = learner(game, episodes, name="dp_nash_vi", seed=seed, **SETTINGS)
    theirs, key = OurChoiceNashVI(game, ours, np.random.default_rng(0)), Streams(seed, "test").key("env")
    uniforms, mixed = np.empty(2 * game.horizon + 1), 0
    for k in range(1, episodes + 1):
        done, plan = ours.learn(1), theirs.plan(theirs.private_counts())
        theirs.deploy(plan)
        np.testing.assert_allclose(ours.policy, plan.policy, rtol=0.0, atol=1e-9, err_msg=f"episode {k}")
        gap = float(game.start @ (plan.upper[0] - plan.lower[0]))
        assert done["gap"] == pytest.approx(gap, abs=1e-9)
        assert done["smallest_gap"] == pytest.approx(theirs.smallest_gap, abs=1e-9)
        assert done["regret"] == pytest.approx(regret_of(theirs.game, plan.policy), abs=1e-8)
        fill_uniform(uniforms, key, np.uint64(k) * np.uint64(uniforms.size))
        theirs.absorb(*theirs.roll_out(uniforms))
        mixed += bool((plan.policy.max(axis=(2, 3)) < 1.0).any())
    np.testing.assert_allclose(ours.policies["policy"], theirs.output, rtol=0.0, atol=1e-9)
    assert mixed > episodes // 4


@pytest.mark.parametrize(
    ("privacy", "seed"),
    [(CountPrivacy("jdp", 1000.0), 1), (CountPrivacy("ldp", 1000.0), 2)],
    ids=lambda each: getattr(each, "model", None),
)
def test_plans_from_the_same_private_counts_are_the_same(privacy: Any, seed: int, learner: Learner) -> None:
    game = random_game(seed)
    ours = learner(game, 3000, privacy, name="dp_nash_vi", seed=seed, **SETTINGS)
    theirs = OurChoiceNashVI(game, ours, np.random.default_rng(0))
    mixed = 0
    for k in range(40):
        ours.learn(60)
        plan, done = theirs.plan(released(ours, game)), ours.learn(1)
        np.testing.assert_allclose(ours.policy, plan.policy, rtol=0.0, atol=1e-9, err_msg=f"plan {k}")
        assert done["gap"] == pytest.approx(float(game.start @ (plan.upper[0] - plan.lower[0])), abs=1e-9)
        mixed += bool((plan.policy.max(axis=(2, 3)) < 1.0).any())
    assert mixed > 10
