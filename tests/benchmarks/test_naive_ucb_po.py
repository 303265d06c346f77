"""The naive Private-UCB-PO: what it does not share with the naive Private-UCB-VI."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from benchmarks.naive_ucb_po import NaiveUCBPO, TunedUCBPO
from benchmarks.naive_ucb_vi import Counts, Settings
from dprl.envs import FiniteMDP

H, S, A, K = 4, 3, 2, 1000
PROGRAMS = pytest.mark.parametrize("program", [NaiveUCBPO, TunedUCBPO])


def q_by_the_book(private: Counts, policy: np.ndarray, settings: Settings) -> np.ndarray:
    """Lines 5-10 of Algorithm 1, cell by cell, in rewards: Q [H, S, A]."""
    e1, e2 = settings.visits_error, settings.transitions_error
    l_c = math.sqrt(2 * math.log(4 * S * A * K * H / settings.beta))
    l_p = math.sqrt(4 * S * math.log(6 * S * A * K * H / settings.beta))
    values, all_q = [0.0] * S, np.empty((H, S, A))
    for h in reversed(range(H)):
        for s, a in itertools.product(range(S), range(A)):
            d = max(1.0, private.visits[h, s, a] + e1)
            bonus = l_c / math.sqrt(d) + 3 * e1 / d + H * (l_p / math.sqrt(d) + (S * e2 + 2 * e1) / d)
            total = private.rewards[h, s, a] / d + settings.bonus_scale * bonus
            total += sum(private.transitions[h, s, a, t] / d * values[t] for t in range(S))
            all_q[h, s, a] = min(H - h, max(0.0, total))
        values = [sum(policy[h, s, a] * all_q[h, s, a] for a in range(A)) for s in range(S)]
    return all_q


@PROGRAMS
@pytest.mark.parametrize("bonus_scale", [1.0, 0.05])
def test_the_plan_is_the_papers(
    program: type[NaiveUCBPO], bonus_scale: float, mdp: FiniteMDP, noisy_counts: list[Counts]
) -> None:
    settings = Settings("jdp", 10.0, visits_error=15.0, transitions_error=18.0, bonus_scale=bonus_scale)
    planner = program(mdp, K, settings, np.random.default_rng(1))
    eta, expected = math.sqrt(2 * math.log(A) / (H * H * K)), np.full((H, S, A), 0.5)
    for private in noisy_counts:
        planner.policy = planner.plan(private)
        np.testing.assert_allclose(planner.policy, expected, rtol=1e-12)
        q = q_by_the_book(private, expected, settings)
        for h, s in itertools.product(range(H), range(S)):
            weights = [expected[h, s, a] * math.exp(eta * q[h, s, a]) for a in range(A)]
            expected[h, s] = [weight / sum(weights) for weight in weights]
    assert np.abs(expected - 0.5).max() > (0.01 if bonus_scale < 1.0 else -1.0)


@PROGRAMS
def test_actions_have_the_probabilities_of_the_policy(program: type[NaiveUCBPO], mdp: FiniteMDP) -> None:
    """Frequencies within 5 standard deviations: false alarm below 1e-4."""
    agent = program(mdp, K, Settings(), np.random.default_rng(6))
    agent.policy = np.random.default_rng(7).dirichlet(np.ones(A), size=(H, S))
    for _ in range(3000):
        agent.absorb(*agent.roll_out())
    counts = agent.counts
    assert (counts.visits.sum(axis=(1, 2)) == 3000).all()
    in_state = counts.visits.sum(axis=2, keepdims=True)
    tolerance = 5 * np.sqrt(in_state * agent.policy * (1 - agent.policy)) + 1e-9
    assert (np.abs(counts.visits - in_state * agent.policy) <= tolerance).all()


def test_it_learns(mdp: FiniteMDP) -> None:
    agent = TunedUCBPO(mdp, 4 * K, Settings(bonus_scale=0.05), np.random.default_rng(8))
    regrets = [agent.episode() for _ in range(4 * K)]
    assert min(regrets) >= -1e-12
    assert np.mean(regrets[-200:]) < 0.5 * np.mean(regrets[:20])
    assert agent.start_value() == pytest.approx(mdp.start_value(agent.policy))
