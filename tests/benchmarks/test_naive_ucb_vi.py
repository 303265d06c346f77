"""The naive program must be the same algorithm, or the ratios mean nothing."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from benchmarks.naive_ucb_vi import Counts, NaiveLearner, NaiveUCBVI, NoiseSettings, Settings, TunedUCBVI
from dprl.envs import FiniteMDP

H, S, A, K = 4, 3, 2, 1000


def plan_by_the_book(private: Counts, settings: Settings) -> list[list[int]]:
    """The box of Algorithm 2, cell by cell, in rewards."""
    e1, e2 = settings.visits_error, settings.transitions_error
    log_term = math.sqrt(2 * math.log(4 * S * A * K * H / settings.beta))
    values = [0.0] * S
    policy = [[0] * S for _ in range(H)]
    for h in reversed(range(H)):
        q = [[0.0] * A for _ in range(S)]
        for s, a in itertools.product(range(S), range(A)):
            d = max(1.0, private.visits[h, s, a] + e1)
            bonus = log_term / math.sqrt(d) + 3 * e1 / d
            bonus += H * log_term / math.sqrt(d) + H * (S * e2 + 2 * e1) / d
            total = private.rewards[h, s, a] / d + settings.bonus_scale * bonus
            total += sum(private.transitions[h, s, a, t] / d * values[t] for t in range(S))
            q[s][a] = min(H - h, max(0.0, total))
        policy[h] = [row.index(max(row)) for row in q]
        values = [max(row) for row in q]
    return policy


@pytest.mark.parametrize("learner", [NaiveUCBVI, TunedUCBVI])
@pytest.mark.parametrize("bonus_scale", [1.0, 0.05])
def test_the_plan_is_the_papers(
    learner: type[NaiveUCBVI], bonus_scale: float, mdp: FiniteMDP, noisy_counts: list[Counts]
) -> None:
    settings = Settings("jdp", 10.0, visits_error=15.0, transitions_error=18.0, bonus_scale=bonus_scale)
    planner = learner(mdp, K, settings, np.random.default_rng(1))
    policies = set()
    for private in noisy_counts:
        policy = planner.plan(private).tolist()
        assert policy == plan_by_the_book(private, settings)
        policies.add(str(policy))
    assert len(policies) > 10 or bonus_scale == 1.0


def test_tree_noise_is_the_sum_over_the_dyadic_nodes(mdp: FiniteMDP) -> None:
    learner = NaiveLearner(mdp, Counts.zeros(mdp), NoiseSettings("jdp", 1.0), np.random.default_rng(3))
    node_noise: dict[tuple[int, int], float] = {}
    for user in range(1, 301):
        learner.add_noise()
        level = (user & -user).bit_length() - 1
        node_noise[user - (1 << level), user] = float(learner.nodes[level].transitions[1, 2, 0, 1])
        end, expected = user, 0.0
        while end:
            start = end - (end & -end)
            expected += node_noise[start, end]
            end = start
        assert learner.private_counts().transitions[1, 2, 0, 1] == pytest.approx(expected, abs=1e-9)


def test_a_jump_leaves_the_tree_as_it_would_be(mdp: FiniteMDP) -> None:
    learner = NaiveUCBVI(mdp, K, Settings("jdp", noise_scale=1.0), np.random.default_rng(4))
    learner.jump_to(300)
    assert learner.private_counts().visits.std() > 0.5
    learner.episode()
    assert learner.episodes_done == 301


@pytest.mark.parametrize("learner", [NaiveUCBVI, TunedUCBVI])
def test_roll_out_and_counts(learner: type[NaiveUCBVI], mdp: FiniteMDP) -> None:
    """Frequencies of the next state within 5 standard deviations: false alarm below 1e-5."""
    agent = learner(mdp, K, Settings(bonus_scale=0.0), np.random.default_rng(6))
    for _ in range(3000):
        agent.absorb(*agent.roll_out())
    counts = agent.counts
    assert (counts.visits.sum(axis=(1, 2)) == 3000).all()
    assert (counts.transitions.sum(axis=3) == counts.visits).all()
    assert counts.rewards == pytest.approx(counts.visits * mdp.rewards)
    expected = counts.visits[..., None] * mdp.transitions
    tolerance = 5 * np.sqrt(expected * (1 - mdp.transitions)) + 1e-9
    assert (np.abs(counts.transitions - expected) <= tolerance).all()


def test_it_learns(mdp: FiniteMDP) -> None:
    agent = TunedUCBVI(mdp, 2 * K, Settings(bonus_scale=0.1), np.random.default_rng(8))
    regrets = [agent.episode() for _ in range(2 * K)]
    assert min(regrets) >= -1e-12
    assert np.mean(regrets[-200:]) < 0.2 * np.mean(regrets[:20])
    assert agent.start_value() == pytest.approx(mdp.start_value(agent.policy))
