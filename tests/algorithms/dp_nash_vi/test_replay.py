"""Whole runs of DP-Nash-VI against a simple program that solves its linear programs by linprog."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.naive_dp_nash_vi import NaiveNashVI, Settings
from benchmarks.naive_ucb_vi import Counts
from dprl.algorithms import DPNashVIConfig
from dprl.envs.games import MarkovGame, RandomGame
from dprl.privacy import CountPrivacy, Streams
from dprl.privacy.randomness.bits import fill_uniform
from tests.algorithms.cases import Learner, regret_of
from tests.algorithms.dp_nash_vi.oracle import OurChoiceNashVI

SETTINGS: dict[str, Any] = {"bonus_scale": 0.003, "precision_scale": 0.05, "c1": 0.7, "c2": 1.3}


def random_game(seed: int) -> MarkovGame:
    """A game with S = A = B = H = 3 and an uneven start."""
    drawn = RandomGame(seed=seed).build()
    return MarkovGame("random", drawn.transitions, drawn.rewards, np.array([0.5, 0.3, 0.2]))


def twin(program: type[NaiveNashVI], learner: Any, game: MarkovGame) -> NaiveNashVI:
    settings = Settings.of(learner.privatizer, DPNashVIConfig(**SETTINGS))
    return program(game, learner.episodes, settings, np.random.default_rng(0))


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
    theirs, key = twin(OurChoiceNashVI, ours, game), Streams(seed, "test").key("env")
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
    theirs = twin(OurChoiceNashVI, ours, game)
    mixed = 0
    for k in range(40):
        ours.learn(60)
        plan, done = theirs.plan(released(ours, game)), ours.learn(1)
        np.testing.assert_allclose(ours.policy, plan.policy, rtol=0.0, atol=1e-9, err_msg=f"plan {k}")
        assert done["gap"] == pytest.approx(float(game.start @ (plan.upper[0] - plan.lower[0])), abs=1e-9)
        mixed += bool((plan.policy.max(axis=(2, 3)) < 1.0).any())
    assert mixed > 10
