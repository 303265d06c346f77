"""LDP-SignVotes: the bits are correct, the policy follows the votes, and it learns at epsilon = 0.1."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from dprl.algorithms.ldp_sign_votes.algorithm import (
    LDPSignVotesConfig,
    LDPSignVotesLearner,
    act,
    add_votes,
    no_votes,
    play,
    refit,
)
from dprl.algorithms.ldp_sign_votes.sign_test import directions, sign_tests
from dprl.envs import LinearMixtureMDP, NetworkMDP
from dprl.envs.network_mdp.dynamics import roll_out
from dprl.privacy import LocalBitPrivacy, NoBitPrivacy, ShuffleBitPrivacy, Streams

EPISODES = 8500
NETWORKS = [
    NetworkMDP(),
    NetworkMDP(dimension=3, signs="random", sign_seed=1),
    NetworkMDP(n_agents=3, dimension=3, gap=0.05),
    NetworkMDP(n_intermediate=2, gap=0.05),
]


def learner(
    epsilon: float | None, seed: int = 0, episodes: int = EPISODES, env: LinearMixtureMDP | None = None
) -> LDPSignVotesLearner:
    mdp, config, streams = env or NetworkMDP().build(), LDPSignVotesConfig(), Streams(seed, "test")
    privacy = NoBitPrivacy() if epsilon is None else LocalBitPrivacy(epsilon)
    return config.build(mdp, config.privatizer(mdp, privacy, episodes, streams), episodes, streams)


def test_it_reaches_less_than_half_of_the_uniform_policys_regret() -> None:
    """At epsilon 0.1 and K = 8500, 40 seeds: the upper end of a 99 % interval is below half of 5628."""
    env = NetworkMDP().build()
    regrets = [learner(0.1, seed).learn(EPISODES).regret for seed in range(40)]
    half = EPISODES * (env.optimal_start_value() - float(env.uniform_value()[0, env.start])) / 2.0
    assert np.mean(regrets) + 2.71 * np.std(regrets, ddof=1) / math.sqrt(40) < half
    assert learner(0.1).certificate().proved_epsilon == pytest.approx(0.1, rel=1e-12)


@pytest.mark.parametrize("spec", NETWORKS, ids=lambda spec: f"{spec.n_agents}-{spec.dimension}-{spec.n_intermediate}")
def test_without_noise_all_signs_are_found(spec: NetworkMDP) -> None:
    env = spec.build()
    found = learner(None, env=env, episodes=20_000)
    found.learn(19_000)
    # In nearly all of the last thousand episodes all signs are right; the rest is exploration.
    segment = found.learn(1000)
    gap = env.optimal_start_value() - float(env.uniform_value()[0, env.start])
    assert segment.regret < 0.02 * 1000 * gap
    right = np.sign(found._server.fit.slopes) * (found._env.theta != 0.0)
    np.testing.assert_array_equal(right, np.sign(env.theta))


def votes_of(spec: NetworkMDP, actions: np.ndarray, n_users: int) -> np.ndarray:
    """Return the mean vote, 1 or -1, on each agent."""
    env = spec.build()
    found, total = learner(None, env=env), np.zeros(env.n_agents)
    for user in range(1, n_users * env.n_agents + 1):
        play(found._users, actions, user)
        total[(user - 1) % env.n_agents] += 2 * found._users.device.bit[0] - 1
    return total / n_users


@pytest.mark.parametrize("spec", NETWORKS[:3], ids=["usual", "d=3", "n=3"])
def test_votes_lean_the_way_an_action_drives(spec: NetworkMDP) -> None:
    """10,000 votes on each agent lean by 4 standard deviations, for all actions; at a drift of 0 they do not lean."""
    env = spec.build()
    for actions in (np.ones(env.theta.shape), -np.ones(env.theta.shape), np.sign(env.theta)):
        drifts = (actions * env.theta).sum(axis=1)
        votes = votes_of(spec, actions, 10_000)
        assert (votes[drifts != 0.0] * np.sign(drifts[drifts != 0.0]) > 0.04).all()


@pytest.mark.parametrize(
    "spec",
    [
        NetworkMDP(gap=0.0),
        NetworkMDP(gap=0.0, start_forward=0.3, node_leave=0.7, node_forward=0.2),
        NetworkMDP(gap=0.0, n_agents=3, horizon=4),
    ],
    ids=["even", "uneven", "n=3"],
)
def test_at_theta_zero_votes_are_even(spec: NetworkMDP) -> None:
    """20,000 users per agent: within 4.5 standard deviations of even, a false alarm in 10^5."""
    votes = votes_of(spec, np.ones((spec.n_agents, 1)), 20_000)
    assert (np.abs(votes) < 4.5 / math.sqrt(20_000)).all()


def test_weights_are_slopes_of_log_chances_at_theta_zero() -> None:
    env = NetworkMDP(gap=0.0, start_forward=0.3, node_leave=0.7, node_forward=0.2).build()
    chances, weights = env.lists.constant.sum(axis=1), sign_tests(env).weights
    possible = chances > 1e-9
    below, above = (np.log(chances[possible, None] + push * env.lists.sign[possible]) for push in (-1e-6, 1e-6))
    np.testing.assert_allclose(weights[possible], (above - below) / 2e-6, rtol=1e-6)
    assert not weights[~possible].any()


def test_slopes_are_those_of_ridge_regression() -> None:
    generator = np.random.default_rng(0)
    actions, votes = generator.choice([-1.0, 1.0], size=(40, 3)), generator.choice([-1.0, 1.0], size=40)
    kept, fit = no_votes(2, 3)
    for action, vote in zip(actions, votes, strict=True):
        add_votes(kept, 1, action, float(vote), 1.0)
    refit(kept, 1, fit)
    gram = actions.T @ actions + np.eye(3)
    np.testing.assert_allclose(fit.slopes[1], np.linalg.solve(gram, actions.T @ votes), rtol=1e-12)
    np.testing.assert_allclose(fit.spread[1], np.sqrt(np.diag(np.linalg.inv(gram))), rtol=1e-12)
    np.testing.assert_array_equal(fit.slopes[0], 0.0)


def test_exploration_is_as_likely_as_the_spread_says() -> None:
    """A slope of one deviation has the wrong sign with the logistic law's chance; 5 deviations of 40,000 draws."""
    _, fit = no_votes(1, 2)
    fit.slopes[0], fit.spread[0] = [0.5, -0.2], [0.5, 0.1]
    generator, actions, wrong = np.random.default_rng(1), np.ones((1, 2)), np.zeros(2)
    for _ in range(40_000):
        act(fit, 1.0, generator.random((1, 2)), actions)
        wrong += actions[0] != [1.0, -1.0]
    chances = 1.0 / (1.0 + np.exp(np.array([1.0, 2.0]) * math.pi / math.sqrt(3.0)))
    assert (np.abs(wrong / 40_000 - chances) < 5.0 * np.sqrt(chances / 40_000)).all()
    act(fit, 0.0, np.full((1, 2), 0.001), actions)
    np.testing.assert_array_equal(actions, [[1.0, -1.0]])


@pytest.mark.parametrize("spec", NETWORKS[1:], ids=["d=3", "n=3", "two nodes"])
def test_a_vote_tells_on_which_side_of_the_median_the_score_of_the_policys_episode_is(spec: NetworkMDP) -> None:
    env = spec.build()
    found, generator = learner(None, env=env), np.random.default_rng(3)
    tests, device, ties = found._users.tests, found._users.device, 0
    for user in range(1, 401):
        found._server.actions[:] = generator.choice([-1.0, 1.0], size=env.theta.shape)
        play(found._users, found._server.actions, user)
        states, taken = np.full(env.horizon + 1, env.start), np.empty((env.horizon, env.n_agents), dtype=np.int64)
        policy = found.policy.argmax(axis=3)
        roll_out(env.lists, env.drifts, policy, device.uniforms[:-1], states, taken)
        agent, score = (user - 1) % env.n_agents, 0.0
        for h, (state, after) in enumerate(itertools.pairwise(states)):
            first, last = env.lists.first[state : state + 2]
            entry = first + env.lists.state[first:last].tolist().index(after)
            score += tests.directions[h, state, agent] * tests.weights[entry, agent]
        tied = abs(score - tests.medians[agent]) < 1e-6
        ties += tied
        vote = device.uniforms[-1] < tests.coins[agent] if tied else score > tests.medians[agent]
        assert device.bit[0] == vote
    assert ties < 400


@pytest.mark.parametrize("start", [0, 3])
def test_regret_is_that_of_the_policy(start: int) -> None:
    env = replace(NetworkMDP(dimension=3, signs="random", sign_seed=1).build(), start=start)
    found = learner(0.5, env=env, episodes=60)
    for _ in range(60):
        regret = found.learn(1).regret
        assert regret == pytest.approx(env.optimal_start_value() - env.start_value(found.policy), abs=1e-12)


def test_shuffled_votes_are_fitted_block_by_block_and_agents_take_turns() -> None:
    """Within a block actions are the same, and with a block of one user the run is that without a shuffler."""
    mdp, config, streams = NETWORKS[1].build(), LDPSignVotesConfig(), Streams(0, "test")

    def made(privacy: LocalBitPrivacy | ShuffleBitPrivacy) -> LDPSignVotesLearner:
        return config.build(mdp, config.privatizer(mdp, privacy, 60, streams), 60, streams)

    found, actions, grams = made(ShuffleBitPrivacy(2.0, 1e-6, 7)), [], []
    for _ in range(60):
        found.learn(1)
        actions.append(found._server.actions.tobytes())
        grams.append(found._server.votes.gram.trace(axis1=1, axis2=2))
    blocks = [set(actions[start : start + 7]) for start in range(0, 60, 7)]
    assert all(len(block) == 1 for block in blocks)
    assert len(set().union(*blocks)) > 1
    steps = np.diff(np.array(grams), axis=0, prepend=0.0)
    assert np.flatnonzero(steps.any(axis=1)).tolist() == list(range(6, 56, 7))  # users 57..59 fill no block
    each = 7 * (mdp.dimension - 1)
    assert (steps[6::7] == [[each, 0] if block % 2 == 0 else [0, each] for block in range(8)]).all()


def test_too_many_scores_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^horizon must give at most 200000 different scores, got 60; lower it"):
        sign_tests(NetworkMDP(n_agents=3, gap=0.01, start_forward=0.37, node_leave=0.61, horizon=60).build())


def test_directions_are_those_of_the_optimum_on_the_papers_network() -> None:
    env = NetworkMDP().build()
    values, _ = env.optimum()
    best = np.stack([env.value_features(values[h + 1])[0] for h in range(env.horizon)])
    given = directions(env)
    assert (np.where(best < 0.0, -1.0, 1.0) == given).all()
    assert (given < 0.0).any()
