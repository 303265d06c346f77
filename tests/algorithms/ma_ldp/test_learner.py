"""Runs of MA-LDP: they learn without noise, estimate rewards correctly, and learn nothing with the printed noise."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from dprl.algorithms.ma_ldp import MALDPConfig
from dprl.algorithms.ma_ldp.algorithm import _MALDPLearner, play
from dprl.envs import LinearMixture, LinearMixtureMDP, MixtureRiverSwim, NetworkMDP, RandomMixture
from dprl.platform.configs.experiment import read_experiment
from dprl.privacy import StatisticsPrivacy, Streams
from tests.envs.network_mdp.cases import theta_star

EPISODES = 8500


def learner(
    config: MALDPConfig,
    privacy: StatisticsPrivacy,
    env: LinearMixtureMDP | None = None,
    episodes: int = EPISODES,
    seed: int = 0,
) -> _MALDPLearner:
    mdp, streams = env or NetworkMDP().build(), Streams(seed, "test")
    return config.build(mdp, config.privatizer(mdp, privacy, episodes, streams), episodes, streams)


def uniform_regret(env: LinearMixtureMDP, episodes: int = EPISODES) -> float:
    return episodes * (env.optimal_start_value() - float(env.uniform_value()[0, env.start]))


@pytest.mark.slow
@pytest.mark.parametrize("value", ["maxmin", "joint"])
@pytest.mark.parametrize("clipping", ["device", "none"])
def test_without_noise_and_bonus_the_optimum_is_found(value: Any, clipping: Any) -> None:
    config = MALDPConfig(bonus_scale=0.0, value=value)
    found = learner(config, StatisticsPrivacy("none", rewards="public", clipping=clipping))
    regret = found.learn(EPISODES)["regret"]
    assert 0.0 < regret < 0.1 * uniform_regret(NetworkMDP().build())


def test_with_the_printed_radius_not_even_exact_data_are_used() -> None:
    """[TH23]'s constants keep all of Q at its cap, so every action is as good as any: the uniform policy."""
    segment = learner(MALDPConfig(), StatisticsPrivacy("none", rewards="public"), episodes=1000).learn(1000)
    assert segment["regret"] == pytest.approx(uniform_regret(NetworkMDP().build(), 1000), rel=0.01)
    assert segment["saturated"] > 0.9


def test_no_draw_both_breaks_a_tie_and_moves_the_state() -> None:
    found, episodes = learner(MALDPConfig(), StatisticsPrivacy("none", rewards="public"), episodes=60), 60
    device, moves, choices = found._users.device, list[float](), list[float]()
    for _ in range(episodes):
        found.learn(1)
        moves += device.uniforms.tolist()
        choices += device.choices.ravel().tolist()
    assert len({*moves, *choices}) == episodes * (device.uniforms.size + device.choices.size)


def test_with_the_printed_noise_nothing_is_learned() -> None:
    """The mean of 20 seeds is within 4 standard errors of the uniform policy's: a false alarm in 16,000."""
    privacy = StatisticsPrivacy("ldp", 0.1, calibration="printed", rewards="public")
    regrets = [learner(MALDPConfig(value="joint"), privacy, seed=seed).learn(EPISODES)["regret"] for seed in range(20)]
    error = float(np.std(regrets, ddof=1)) / math.sqrt(20)
    assert abs(np.mean(regrets) - uniform_regret(NetworkMDP().build())) < 4.0 * error


@pytest.mark.parametrize("value", ["maxmin", "joint"])
def test_each_of_more_agents_than_actions_prefers_an_action(value: Any) -> None:
    """An agent that plans leave out would draw its actions at random."""
    env = NetworkMDP(n_agents=3, gap=0.02).build()
    found = learner(MALDPConfig(bonus_scale=0.0, value=value), StatisticsPrivacy("none", rewards="public"), env, 500)
    found.learn(500)
    assert env.n_agents > env.n_actions
    assert found._planning.chances[0, env.start].max(axis=1).tolist() == [1.0] * 3


def test_agents_correct_the_estimates_of_their_own() -> None:
    """At every stage, corrections are (r_i - estimate of agent i) psi at one state, for all agents i."""
    mdp = NetworkMDP(n_agents=3, gap=0.05).build()
    env = dataclasses.replace(mdp, rewards=np.array([[0.1], [0.5], [1.0]]) * mdp.common_rewards)
    found = learner(MALDPConfig(bonus_scale=0.001, graph="line"), StatisticsPrivacy("none", rewards="open"), env)
    found.learn(50)
    believed = found._server.rewards.values[..., : env.n_states]
    assert (np.ptp(believed, axis=0).max(axis=1) > 0.0).all()
    play(found._users, found._planning, found._server.rewards.values, 51)
    of_states = (env.rewards[:, None] - believed)[..., None] * env.reward_features
    right = np.isclose(of_states, found._users.device.corrections[:, :, None]).all(axis=(0, 3))
    assert (right.sum(axis=1) > 0).all()


def test_public_rewards_are_believed_from_the_first_episode_on() -> None:
    found = learner(MALDPConfig(), StatisticsPrivacy("ldp", 1.0, rewards="public"), episodes=10)
    assert found.learn(10)["reward_error"] == 0.0


@pytest.mark.parametrize(("clipping", "horizon"), [("device", 3), ("device", 8), ("centered", 8)])
def test_shrunk_features_and_values_stay_in_proportion(clipping: Any, horizon: int) -> None:
    """<theta*, phi> of what a device sends is the expectation of its target, though both are cut (D7)."""
    env = NetworkMDP(n_agents=2, dimension=3, horizon=horizon).build()
    privacy = StatisticsPrivacy("none", rewards="public", clipping=clipping)
    found = learner(MALDPConfig(bonus_scale=1e-3), privacy, env, 400)
    found.learn(300)
    users, planned, believed = found._users, found._planning, found._server.rewards.values
    features, errors, cut, bounds = [], [], 0, np.arange(horizon - 1, -1, -1.0) / (1 + (clipping == "centered"))
    theta = theta_star(env)
    for user in range(301, 3301):
        play(users, planned, believed, user)
        features.append(users.device.features.copy())
        errors.append(users.device.targets - users.device.features @ theta)
        norms = np.linalg.norm(users.device.features[0, :-1], axis=1)
        cut += int((norms > bounds[:-1] * (1.0 - 1e-9)).sum())
    assert (np.linalg.norm(features, axis=-1) <= bounds * (1.0 + 1e-9)).all()
    assert cut > 100  # the clip is at work
    mean, deviation = np.mean(errors, axis=0), np.std(errors, axis=0)
    # 4.5 standard errors at each message and stage: a false alarm in 10^4 over all of them.
    assert (np.abs(mean) <= 4.5 * deviation / math.sqrt(3000) + 1e-12).all()


def test_shared_messages_need_one_value_function() -> None:
    with pytest.raises(ValueError, match=r"^value must be joint with share: true, got 'maxmin'; "):
        MALDPConfig(share=True)
    shared, noisy = MALDPConfig(share=True, value="joint"), StatisticsPrivacy("ldp", 1.0)
    unshared: dict[str, StatisticsPrivacy] = {"noisy": noisy, "open": StatisticsPrivacy("none", rewards="open")}
    for rewards, privacy in unshared.items():
        with pytest.raises(ValueError, match=rf"^share must be false with privacy.rewards: {rewards}, got True; "):
            learner(shared, privacy)
    mdp, streams = NetworkMDP().build(), Streams(0, "test")
    with pytest.raises(ValueError, match=r"share needs public rewards, got noisy ones; use config.privatizer"):
        shared.build(mdp, noisy.build(shared.layout(mdp), EPISODES - 1, streams), EPISODES, streams)


def test_another_environments_privatizer_is_refused() -> None:
    env, other, streams = NetworkMDP().build(), NetworkMDP(dimension=3).build(), Streams(0, "test")
    config = MALDPConfig()
    privatizer = config.privatizer(other, StatisticsPrivacy("ldp", 1.0), 10, streams)
    with pytest.raises(ValueError, match=r"^the privatizer must be built for this environment"):
        config.build(env, privatizer, 10, streams)


def ucrl_vtr(
    env: LinearMixture, matrices: np.ndarray, vectors: np.ndarray, shifts: np.ndarray, betas: np.ndarray
) -> np.ndarray:
    """UCRL-VTR's greedy policy [H, S], written from its equations: Q from ridge regression of V on phi_V."""
    horizon, values, policy = env.horizon, np.zeros(env.n_states), np.zeros((env.horizon, env.n_states), dtype=int)
    paid = env.rewards[0]
    for h in reversed(range(horizon)):
        phi = np.einsum("satd,t->sad", env.features, values)
        q = paid.copy()
        if h < horizon - 1:
            whole = np.triu(matrices[h]) + np.triu(matrices[h], 1).T + shifts[h] * np.eye(env.dimension)
            theta = np.linalg.solve(whole, vectors[h])
            bonus = np.sqrt(np.einsum("sad,de,sae->sa", phi, np.linalg.inv(whole), phi))
            q = q + phi @ theta + betas[h] * bonus
        q = np.minimum(q, horizon - h)
        policy[h], values = q.argmax(axis=1), q.max(axis=1)
    return policy


def test_with_one_agent_it_is_ucrl_vtr() -> None:
    """Its policies are greedy for all users, and what it adds to the first stage is phi phi^T of a step there."""
    env = RandomMixture(n_states=6, n_actions=3, dimension=2, horizon=4, seed=2).build()
    found = learner(MALDPConfig(bonus_scale=0.001), StatisticsPrivacy("none", rewards="public"), env, episodes=101)
    for k in range(1, 101):
        matrices, vectors = (found.state_dict()[key][0].copy() for key in ("matrices", "vectors"))
        found.learn(1)
        greedy = ucrl_vtr(env, matrices, vectors, np.ones(4), found.beta_rates * k**0.25)
        assert (np.take_along_axis(found.policy[:, :, 0], greedy[..., None], axis=2) > 0.0).all()
        grown = np.triu(found.state_dict()["matrices"][0, 0] - matrices[0])
        phi = found._planning.phis[0, 0].reshape(2, 6, 3)[:, env.start].T
        assert min(np.abs(grown - np.triu(np.outer(each, each))).max() for each in phi) < 1e-9


def test_pooled_stages_make_one_estimate() -> None:
    env = MixtureRiverSwim(n_states=4, horizon=6).build()
    found = learner(MALDPConfig(stationary=True), StatisticsPrivacy("none", rewards="public"), env, episodes=60)
    found.learn(60)
    server = found._server
    weights = np.append(1.0 / np.arange(5.0, 0.0, -1.0) ** 2, 0.0)
    upper = np.einsum("h,hde->de", weights, np.triu(server.matrices[0]))
    whole = upper + np.triu(upper, 1).T + weights[0] * np.eye(8)
    sums = np.einsum("h,hd->d", weights, server.vectors[0])
    # The last user's plan has the sums of all users before, and this user sends nothing.
    np.testing.assert_allclose(whole @ server.theta[0, 0], sums, atol=1e-9)
    assert np.ptp(server.theta[0], axis=0).max() == 0.0
    np.testing.assert_allclose(server.inverses[0, 1], weights[1] * np.linalg.inv(whole), rtol=1e-8)
    steps = LinearMixture(env.features, np.tile(env.theta, (6, 1)), env.rewards, 6)
    with pytest.raises(ValueError, match=r"^stationary must be false on an environment"):
        learner(MALDPConfig(stationary=True), StatisticsPrivacy("none"), steps)


def test_centred_values_need_a_quarter_of_the_noise_and_lead_to_the_optimum() -> None:
    env = RandomMixture(n_states=5, dimension=3, horizon=4).build()
    deviations, values = {}, {}
    for clipping in ("device", "centered"):
        local = StatisticsPrivacy("ldp", 1.0, 1e-5, rewards="public", clipping=clipping)
        deviations[clipping] = learner(MALDPConfig(), local, env).privatizer.query.deviations
        config = MALDPConfig(bonus_scale=0.0, eta=1e-9)
        found = learner(config, StatisticsPrivacy("none", rewards="public", clipping=clipping), env, episodes=300)
        found.learn(300)
        values[clipping] = env.start_value(found.policy)
    np.testing.assert_allclose(deviations["centered"], deviations["device"] / 4.0, rtol=1e-12)
    assert values["centered"] == pytest.approx(env.optimal_start_value(), abs=0.05)


def test_a_tabular_learner_plays_all_agents_of_a_mixture() -> None:
    spec = RandomMixture(n_states=4, n_actions=2, n_agents=2, dimension=2, horizon=3)
    env = {"name": spec.name, **dataclasses.asdict(spec)}
    settings = {"algorithm": {"name": "private_ucb_vi"}, "privacy": {"model": "none"}, "episodes": 50, "seeds": 1}
    cell = read_experiment({"name": "all", "env": env, **settings})
    mdp: Any = cell.environment()
    assert (mdp.n_actions, mdp.optimal_start_value()) == (4, spec.build().optimal_start_value())
