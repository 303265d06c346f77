"""The yardstick and the compiled implementation are the same algorithm: two programs, one behaviour."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.naive_ucb_vi import Counts, NaiveUCBVI, Settings, TunedUCBVI
from dprl.algorithms import PrivateUCBVIConfig, TabularLearner
from dprl.envs import FiniteMDP, RiverSwim
from dprl.privacy import CentralPrivacy, Contribution, LocalPrivacy, NoPrivacy, Privatizer, Streams
from dprl.privacy.randomness.bits import fill_uniform

CHOSEN = PrivateUCBVIConfig(bonus_scale=0.1, precision_scale=0.05)
SEEDS = 40


def small_mdp() -> FiniteMDP:
    rng = np.random.default_rng(11)
    start = np.array([0.5, 0.3, 0.2])
    return FiniteMDP("small", rng.dirichlet(np.ones(3), size=(4, 3, 2)), rng.random((4, 3, 2)), start)


def build(mdp: FiniteMDP, model: str, episodes: int, seed: int, epsilon: float = 50.0) -> tuple[TabularLearner, Streams]:
    streams = Streams(seed, "agreement")
    trust: NoPrivacy | CentralPrivacy | LocalPrivacy = NoPrivacy()
    if model != "none":
        trust = CentralPrivacy(epsilon) if model == "jdp" else LocalPrivacy(epsilon)
    privatizer = CHOSEN.privatizer(mdp, trust, episodes, streams)
    return CHOSEN.build(mdp, privatizer, episodes, streams), streams


def released(mdp: FiniteMDP, privatizer: Privatizer) -> Counts:
    """Our private counts in the yardstick's layout: ours hold a step's transitions as [S', S, A]."""
    counts = privatizer.private_counts()
    shape = mdp.rewards.shape
    by_next = counts.family("transitions").reshape(shape[0], shape[1], shape[1], shape[2])
    return Counts(
        counts.family("visits").reshape(shape),
        np.moveaxis(by_next, 1, 3),
        counts.family("rewards").reshape(shape),
    )


@pytest.mark.parametrize("mdp", [small_mdp(), RiverSwim(n_states=4, horizon=5).build()], ids=["random", "river"])
def test_without_noise_both_make_the_same_moves(mdp: FiniteMDP) -> None:
    episodes = 1000
    ours, streams = build(mdp, "none", episodes, seed=1)
    theirs = TunedUCBVI(mdp, episodes, Settings.of(ours.privatizer, CHOSEN), np.random.default_rng(0))
    uniforms = np.empty(mdp.horizon + 1)
    policies = set()
    for k in range(1, episodes + 1):
        regret = ours.learn(1).regret
        theirs.policy = theirs.plan(theirs.private_counts())
        assert theirs.policy.tolist() == ours.policy.tolist(), f"episode {k}"
        assert theirs.optimum - theirs.start_value() == pytest.approx(regret, abs=1e-12)
        fill_uniform(uniforms, streams.key("env"), np.uint64(k) * np.uint64(mdp.horizon + 1))
        theirs.absorb(*theirs.roll_out_with(uniforms))
        policies.add(theirs.policy.tobytes())
    assert len(policies) > 20


@pytest.mark.parametrize("model", ["jdp", "ldp"])
@pytest.mark.parametrize("learner", [NaiveUCBVI, TunedUCBVI])
def test_the_same_private_counts_give_the_same_plan(model: str, learner: type[NaiveUCBVI]) -> None:
    mdp, episodes = small_mdp(), 300
    ours, _ = build(mdp, model, episodes, seed=2)
    planner = learner(mdp, episodes, Settings.of(ours.privatizer, CHOSEN), np.random.default_rng(0))
    policies = set()
    for k in range(episodes):
        plan = planner.plan(released(mdp, ours.privatizer))
        ours.learn(1)
        assert plan.tolist() == ours.policy.tolist(), f"episode {k + 1}"
        policies.add(plan.tobytes())
    assert len(policies) > 20


@pytest.mark.parametrize("model", ["jdp", "ldp"])
def test_the_noise_has_the_same_variance(model: str) -> None:
    """After 59 users (5 binary digits) without data: 2,400 draws tell the scale from 2/3 or 3/2 of it.

    The quotient of the variances has a standard error below 0.05: false alarm below 1e-6.
    """
    mdp, users = small_mdp(), 59
    nothing = Contribution(np.zeros((mdp.horizon, 3), dtype=np.int64), np.zeros((mdp.horizon, 3)))
    ours, theirs = [], []
    for seed in range(20):
        learner, _ = build(mdp, model, 512, seed)
        yardstick = NaiveUCBVI(mdp, 512, Settings.of(learner.privatizer, CHOSEN), np.random.default_rng(seed))
        empty = (np.zeros(mdp.horizon + 1, dtype=np.int64), np.zeros(mdp.horizon, dtype=np.int64))
        for user in range(1, users + 1):
            counts = learner.privatizer.absorb(learner.privatizer.encode(nothing, user))
            yardstick.absorb(*empty)
        noisy = yardstick.private_counts()
        ours.append(counts.values)
        theirs.append(noisy.visits - yardstick.counts.visits)
        theirs.append(noisy.rewards - yardstick.counts.rewards)
        theirs.append(noisy.transitions - yardstick.counts.transitions)
    quotient = np.concatenate(ours).var() / np.concatenate([noise.ravel() for noise in theirs]).var()
    assert 0.75 < quotient < 1.25


@pytest.mark.parametrize("model", ["jdp", "ldp"])
def test_mean_regret_agrees(model: str) -> None:
    """Four points of the curve over 40 seeds each, within 4 standard errors: false alarm below 6e-4."""
    mdp, episodes, points = small_mdp(), 512, 4
    block = episodes // points
    ours, theirs = np.empty((SEEDS, points)), np.empty((SEEDS, points))
    for seed in range(SEEDS):
        learner, _ = build(mdp, model, episodes, seed)
        ours[seed] = np.cumsum([learner.learn(block).regret for _ in range(points)])
        settings = Settings.of(learner.privatizer, CHOSEN)
        yardstick = TunedUCBVI(mdp, episodes, settings, np.random.default_rng(seed))
        theirs[seed] = np.cumsum([sum(yardstick.episode() for _ in range(block)) for _ in range(points)])
    difference = ours.mean(axis=0) - theirs.mean(axis=0)
    standard_error = np.sqrt((ours.var(axis=0, ddof=1) + theirs.var(axis=0, ddof=1)) / SEEDS)
    assert (np.abs(difference) <= 4.0 * standard_error).all()
