"""The naive and the compiled implementation are the same algorithm, with the same behaviour."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.harness import Model, trust
from benchmarks.naive_ucb_vi import Counts
from benchmarks.tabular import SUBJECTS
from dprl.algorithms import TabularLearner, TabularMDPConfig
from dprl.envs import FiniteMDP, RiverSwim
from dprl.privacy import CountPrivatizer, Streams
from dprl.privacy.randomness.bits import fill_uniform

BOTH = pytest.mark.parametrize("config", SUBJECTS, ids=lambda config: config.name)
UCB_VI = next(iter(SUBJECTS))


def small_mdp() -> FiniteMDP:
    rng = np.random.default_rng(11)
    start = np.array([0.5, 0.3, 0.2])
    return FiniteMDP("small", rng.dirichlet(np.ones(3), size=(4, 3, 2)), rng.random((4, 3, 2)), start)


def build(
    config: TabularMDPConfig, mdp: FiniteMDP, model: Model, episodes: int, seed: int
) -> tuple[TabularLearner, Streams]:
    streams = Streams(seed, "agreement")
    settings = replace(config, bonus_scale=0.1, precision_scale=0.05)
    privatizer = settings.privatizer(mdp, trust(model, 50.0), episodes, streams)
    return settings.build(mdp, privatizer, episodes, streams), streams


def released(mdp: FiniteMDP, privatizer: CountPrivatizer) -> Counts:
    """Our private counts in the yardstick's layout: ours hold a step's transitions as [S', S, A]."""
    counts = privatizer.release()
    shape = mdp.rewards.shape
    by_next = privatizer.query.family(counts, "transitions").reshape(shape[0], shape[1], shape[1], shape[2])
    return Counts(
        privatizer.query.family(counts, "visits").reshape(shape),
        np.moveaxis(by_next, 1, 3),
        privatizer.query.family(counts, "rewards").reshape(shape),
    )


@BOTH
@pytest.mark.parametrize("mdp", [small_mdp(), RiverSwim(n_states=4, horizon=5).build()], ids=["random", "river"])
def test_without_noise_both_make_the_same_moves(mdp: FiniteMDP, config: TabularMDPConfig) -> None:
    episodes = 1000
    ours, streams = build(config, mdp, "none", episodes, seed=1)
    theirs = SUBJECTS[config](mdp, ours, np.random.default_rng(0))
    draws_a_step = 1 if config is UCB_VI else 2
    uniforms = np.empty(draws_a_step * mdp.horizon + 1)
    policies = set()
    for k in range(1, episodes + 1):
        regret = ours.learn(1)["regret"]
        theirs.policy = theirs.plan(theirs.private_counts())
        np.testing.assert_allclose(theirs.policy, ours.policy, rtol=1e-9, err_msg=f"episode {k}")
        assert theirs.optimum - theirs.start_value() == pytest.approx(regret, abs=1e-12)
        fill_uniform(uniforms, streams.key("env"), np.uint64(k) * np.uint64(uniforms.size))
        theirs.absorb(*theirs.roll_out(uniforms))
        policies.add(theirs.policy.tobytes())
    assert len(policies) > 20


@BOTH
@pytest.mark.parametrize("model", ["jdp", "ldp"])
def test_the_same_private_counts_give_the_same_plan(model: Model, config: TabularMDPConfig) -> None:
    mdp, episodes = small_mdp(), 300
    ours, _ = build(config, mdp, model, episodes, seed=2)
    planner = SUBJECTS[config](mdp, ours, np.random.default_rng(0))
    policies = set()
    for k in range(episodes):
        planner.policy = planner.plan(released(mdp, ours.privatizer))
        ours.learn(1)
        np.testing.assert_allclose(planner.policy, ours.policy, rtol=1e-9, err_msg=f"episode {k + 1}")
        policies.add(planner.policy.tobytes())
    assert len(policies) > 20
