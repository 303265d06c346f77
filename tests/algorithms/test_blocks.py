"""Users in blocks: the same distribution as users one by one, for every algorithm, trust model and report."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import ks_2samp

from dprl.algorithms.private_ucb_vi import PrivateUCBVIConfig
from dprl.algorithms.tabular.loop import add_mdp_block, draw_visits
from dprl.envs import FiniteMDP
from dprl.privacy import CountPrivacy, LedgerError, NoiseConfig, Streams
from tests.algorithms.cases import EACH_ONLINE, ONLINE, PRACTICAL, PRIVACY, TRUST, Environments, Learner

EPISODES = 52
"""The plan before this episode reads the counts of all sending users."""
GROWTH = 0.6
RUNS = 150
FALSE_ALARM = 1e-6
"""False-alarm rate of one comparison; there are about 500."""
KINDS = ("private_ucb_vi", "private_ucb_po", "dp_nash_vi")
"""Deterministic policies, stochastic ones, and those of a game."""
SAMPLED = "sampled_optimized_unary_encoding"
REPORTS: dict[str, Any] = {
    "none": CountPrivacy("none"),
    "jdp one_hot": CountPrivacy("jdp", 20.0, delta=1e-6, families="one_hot", counter="buffered_toeplitz"),
    "jdp every_user": CountPrivacy("jdp", 20.0, releases="every_user"),
    "ldp laplace": CountPrivacy("ldp", 200.0, families="separate", mechanism="laplace"),
    "ldp gaussian": CountPrivacy("ldp", 20.0, delta=1e-6, families="one_hot", mechanism="gaussian"),
    "ldp discrete_laplace": CountPrivacy("ldp", 200.0, families="separate", mechanism="discrete_laplace"),
    "shuffle": CountPrivacy("shuffle", 20.0, 1e-6, smallest_block=EPISODES - 1),
    **{
        f"ldp {name}": CountPrivacy("ldp", 10.0, families="one_hot", mechanism=name)
        for name in (SAMPLED, "sampled_direct_encoding")
    },
}


def outcomes(
    learner: Learner, env: Any, privacy: Any, name: str, simulation: str, growth: float = GROWTH, **more: bool
) -> np.ndarray:
    """Numbers float64[RUNS, 6] of runs with different seeds: regret, and projections and norm of the last release."""
    settings: Any = {"replan_growth": growth, "simulation": simulation, **PRACTICAL, **more}
    first, found = RUNS * (simulation == "blocks"), []
    for seed in range(first, first + RUNS):
        algorithm = learner(env, EPISODES, privacy, name=name, seed=seed, **settings)
        assert algorithm.privatizer.in_blocks == (simulation == "blocks")
        regret, counts = algorithm.learn(EPISODES)["regret"], algorithm.privatizer.release()
        assert counts.users == EPISODES - 1
        projections = np.random.default_rng(0).standard_normal((4, counts.values.shape[0]))
        found.append([regret, *(projections @ counts.values), float(counts.values @ counts.values)])
    return np.round(found, 6)  # sums of the same numbers in another order


def least_p_value(first: np.ndarray, second: np.ndarray) -> float:
    """The least p-value of Kolmogorov-Smirnov tests that two samples have one law, column by column."""
    return min(float(ks_2samp(a, b).pvalue) for a, b in zip(first.T, second.T, strict=True))


def pairs() -> list[Any]:
    """Every algorithm under every trust model, and three kinds of policies with every report."""
    chosen = [(name, report) for name in ONLINE for report in ("none", "jdp one_hot", "ldp laplace")]
    chosen += [(name, report) for name in KINDS for report in REPORTS]
    # Error bounds of shuffled reports take seconds; pooled ones, below, are quicker.
    fast = [("private_ucb_vi", report) for report in REPORTS if report != "shuffle"]
    return [
        pytest.param(name, report, marks=[] if (name, report) in fast else [pytest.mark.slow])
        for name, report in dict.fromkeys(chosen)
    ]


@pytest.mark.parametrize(("name", "report"), pairs())
def test_blocks_have_the_law_of_users(name: str, report: str, learner: Learner, envs: Environments[Any]) -> None:
    users, blocks = (outcomes(learner, envs.tiny, REPORTS[report], name, kind) for kind in ("users", "blocks"))
    assert least_p_value(users, blocks) > FALSE_ALARM


@pytest.mark.parametrize("name", ["bernstein_vi"])
@pytest.mark.parametrize("report", ["none", "jdp one_hot", "ldp laplace", "shuffle", f"ldp {SAMPLED}"])
def test_blocks_of_pooled_counts_have_that_law(name: str, report: str, learner: Learner, river: FiniteMDP) -> None:
    def found(simulation: str) -> np.ndarray:
        return outcomes(learner, river, REPORTS[report], name, simulation, stationary=True)

    assert least_p_value(found("users"), found("blocks")) > FALSE_ALARM


@pytest.mark.parametrize("stochastic", [False, True])
@pytest.mark.parametrize("apart", [False, True], ids=["same users", "users of each step"])
def test_visits_have_means_and_covariances_of_episodes(stochastic: bool, apart: bool, random_mdp: FiniteMDP) -> None:
    """Of 4,000 blocks, within 6 standard errors: the false-alarm rate of all is below 1e-4."""
    generator, mdp, users, runs = np.random.default_rng(3), random_mdp, 30, 4000
    policy: Any = generator.integers(mdp.n_actions, size=(mdp.horizon, mdp.n_states))
    chances = np.eye(mdp.n_actions)[policy]
    if stochastic:
        policy = chances = generator.dirichlet(np.ones(mdp.n_actions), size=(mdp.horizon, mdp.n_states))
    each = np.full(mdp.horizon, users) if apart else users
    found = np.array([draw_visits(mdp.transitions, mdp.start, policy, each, generator) for _ in range(runs)])
    law, mean = mdp.start, []
    for h in range(mdp.horizon):
        joint = law[:, None, None] * chances[h][:, :, None] * mdp.transitions[h]
        mean.append(joint.transpose(2, 0, 1).reshape(-1))
        law = joint.sum(axis=(0, 1))
    p = np.array(mean)
    assert (found.sum(axis=2) == users).all()
    assert (np.abs(found.mean(axis=0) - users * p) <= 6.0 * np.sqrt(users * p * (1.0 - p) / runs) + 1e-12).all()
    arrived = found.reshape(runs, mdp.horizon, mdp.n_states, -1).sum(axis=3)
    left = found.reshape(runs, mdp.horizon, mdp.n_states, mdp.n_states, -1).sum(axis=(2, 4))
    assert bool((arrived[:, :-1] == left[:, 1:]).all()) != apart


@EACH_ONLINE
@TRUST
def test_the_length_of_stretches_and_states_in_between_make_no_difference(
    privacy: Any, name: str, learner: Learner, envs: Environments[Any]
) -> None:
    settings: Any = {"replan_growth": 0.3, **PRACTICAL}
    whole, resumed = (learner(envs.small, 400, privacy, name=name, **settings) for _ in range(2))
    segments = [whole.learn(n) for n in (1, 30, 69, 300)]
    for n, expected in zip((1, 30, 69, 300), segments, strict=True):
        state = {key: value.copy() for key, value in resumed.state_dict().items()}
        resumed = learner(envs.small, 400, privacy, name=name, **settings)
        resumed.load_state_dict(state)
        assert resumed.learn(n) == expected
    assert np.array_equal(whole.policy, resumed.policy)
    at_once = learner(envs.small, 400, privacy, name=name, **settings)
    assert at_once.learn(400)["regret"] == pytest.approx(sum(part["regret"] for part in segments), rel=1e-12)
    assert np.array_equal(at_once.policy, whole.policy)
    certificate = at_once.certificate().to_dict()
    assert (certificate["simulation"], certificate["users"]) == ("blocks", 399)


@TRUST
def test_users_are_simulated_one_by_one_where_blocks_are_impossible(privacy: Any, river: FiniteMDP) -> None:
    config, noise = PrivateUCBVIConfig, NoiseConfig(entropy="os")
    cases: list[tuple[dict[str, Any], Any, Streams]] = [
        ({"replan_growth": 0.0}, privacy, Streams(0, "")),
        ({"replan_growth": 0.1}, privacy, Streams(0, "", noise)),
    ]
    if privacy.model == "ldp":
        cases.append(
            ({"replan_growth": 0.1}, replace(privacy, delta=1e-6, mechanism="discrete_gaussian"), Streams(0, ""))
        )
    for settings, trust, streams in cases:
        assert not config(**settings).privatizer(river, trust, 100, streams).in_blocks
        with pytest.raises(ValueError, match=r"^simulation must be users here, got blocks; "):
            config(**settings, simulation="blocks").privatizer(river, trust, 100, streams)


@EACH_ONLINE
def test_every_block_has_draws_of_its_own(name: str, learner: Learner, envs: Environments[Any]) -> None:
    algorithm: Any = learner(envs.random, 400, CountPrivacy("none"), name=name, replan_growth=0.1)
    add_block, drawn = algorithm.config.run.add_block, list[bytes]()
    recorder = SimpleNamespace(add_block=lambda _, __, draw, *values: drawn.append(draw(None).tobytes()))
    for user in (1, 1, 61, 62):
        add_block(recorder, algorithm._simulator, algorithm.policy, user, 60)
    first, again, *others = drawn
    assert first == again
    assert len({first, *others}) == 3


def test_blocks_are_refused_out_of_order_and_before_charges(learner: Learner, river: FiniteMDP) -> None:
    algorithm = learner(river, 100, PRIVACY[1], replan_growth=0.1)
    one_by_one = learner(river, 100, PRIVACY[1], replan_growth=0.1, simulation="users")

    def add(learner: Any) -> None:
        add_mdp_block(learner.privatizer, learner._simulator, learner.policy, 1, 5)

    with pytest.raises(LedgerError, match="after the ledger has charged them"):
        add(algorithm)
    algorithm.privatizer.charge(1, 5)
    add(algorithm)
    with pytest.raises(LedgerError, match="users send once, in order"):
        add(algorithm)
    one_by_one.privatizer.charge(1, 5)
    with pytest.raises(LedgerError, match=r"after simulate_in_blocks\(\) only"):
        add(one_by_one)


@pytest.mark.parametrize("episodes", [15, 16])
def test_the_last_user_is_in_no_block(episodes: int, learner: Learner, river: FiniteMDP) -> None:
    """Plans are before episodes 1, 2, 4, 8, 16, also if the next one would come after the last episode."""
    algorithm = learner(river, episodes, PRIVACY[1], replan_growth=1.0)
    algorithm.learn(episodes)
    assert algorithm.privatizer.in_blocks
    assert algorithm.privatizer.release().users == (7 if episodes == 15 else 15)


def test_a_billion_episodes(learner: Learner, river: FiniteMDP) -> None:
    privacy = CountPrivacy("jdp", 1.0, 1e-6, families="one_hot", counter="auto")
    algorithm = learner(river, 10**9, privacy, replan_growth=0.05, **PRACTICAL)
    found = algorithm.learn(10**9)
    assert 0.0 < found["regret"] < 0.05 * 10**9
    assert algorithm.certificate().to_dict()["users"] == 10**9 - 1
