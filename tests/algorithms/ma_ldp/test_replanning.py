"""MA-LDP with plans on a schedule: their times, users between two plans, the noise, and states."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dprl.algorithms.ma_ldp import MALDPConfig
from dprl.algorithms.ma_ldp.algorithm import _MALDPLearner, shift_rates
from dprl.envs import NetworkMDP
from dprl.privacy import StatisticsPrivacy, Streams
from dprl.privacy.schedule import ReleaseSchedule
from tests.algorithms.cases import same_state

K, GROWTH = 40, 0.5
PLANS = [1, 2, 3, 5, 8, 12, 18, 27]
"""Episodes before which there is a plan; the next would be before episode 41."""
ENV = NetworkMDP(dimension=3, signs="random", horizon=4).build()
# Little enough noise for policies to change.
PRIVACY: dict[str, StatisticsPrivacy] = {
    "none": StatisticsPrivacy("none"),
    "jdp": StatisticsPrivacy("jdp", 1e4),
    "jdp, auto": StatisticsPrivacy("jdp", 1e3, 1e-3, "gram_gaussian", counter="auto"),
    "jdp, every user": StatisticsPrivacy("jdp", 1e4, releases="every_user"),
    "ldp": StatisticsPrivacy("ldp", 1e4),
}
TRUST = pytest.mark.parametrize("kind", list(PRIVACY))


def learner(kind: str, seed: int = 0, episodes: int = K, **settings: Any) -> _MALDPLearner:
    config = MALDPConfig(**({"bonus_scale": 0.001, "shift_scale": 0.01, "replan_growth": GROWTH} | settings))
    streams = Streams(seed, "replanning")
    return config.build(ENV, config.privatizer(ENV, PRIVACY[kind], episodes, streams), episodes, streams)


def tables(made: _MALDPLearner) -> dict[str, np.ndarray]:
    """All public data that determine a user's policy and message."""
    held = made.state_dict()
    return {key: held[key].copy() for key in ("chances", "values", "slopes", "levels", "rewards")}


@TRUST
def test_plans_are_made_on_the_schedule_whatever_users_send(kind: str) -> None:
    for seed in (0, 1):
        made, planned = learner(kind, seed), []
        for episode in range(1, K + 1):
            made.learn(1)
            last, after, number = (int(entry) for entry in made._server.plans)
            assert last <= episode < after
            planned += [last] if last == episode else []
            assert number == len(planned)
        assert planned == PLANS


@TRUST
def test_users_between_two_plans_have_the_same_policy_and_values(kind: str) -> None:
    """Estimated rewards change after the last message before a plan, and that plan reads them next."""
    made = learner(kind)
    made.learn(1)
    before, moved = tables(made), []
    for episode in range(2, K + 1):
        made.learn(1)
        after = tables(made)
        if episode not in PLANS:
            assert all(np.array_equal(before[key], after[key]) for key in before if key != "rewards")
        if episode + 1 not in PLANS:
            assert np.array_equal(before["rewards"], after["rewards"])
        moved += [episode] if not np.array_equal(before["rewards"], after["rewards"]) else []
        before = after
    assert set(moved) <= {plan - 1 for plan in PLANS}
    assert len(moved) > 3


@TRUST
def test_a_run_may_be_cut_after_any_episode(kind: str) -> None:
    """One run is uninterrupted; the other one is loaded into a new learner after every episode."""
    unbroken, resumed = learner(kind), learner(kind)
    total = unbroken.learn(K)["regret"]
    found = 0.0
    for _ in range(K):
        found += resumed.learn(1)["regret"]
        state = {key: array.copy() for key, array in resumed.state_dict().items()}
        resumed = learner(kind)
        resumed.load_state_dict(state)
    assert found == pytest.approx(total, rel=1e-12)
    assert same_state(resumed.state_dict(), unbroken.state_dict())
    assert resumed.certificate() == unbroken.certificate()


def test_a_state_of_another_schedule_is_refused() -> None:
    made = learner("none")
    made.learn(5)
    with pytest.raises(ValueError, match="same settings"):
        learner("none", replan_growth=0.4).load_state_dict(made.state_dict())


def test_a_step_on_rewards_is_the_mean_of_the_corrections_since_the_last() -> None:
    """Without noise, on the complete graph: w + gamma_j mean, averaged over both agents."""
    made = learner("none")
    made.learn(PLANS[-2] - 1)
    weights, sent = made.state_dict()["weights"].copy(), []
    for _ in range(PLANS[-2], PLANS[-1]):
        made.learn(1)
        sent.append(made._users.device.corrections.copy())
    step = (len(PLANS) - 1) ** -0.75 * np.mean(sent, axis=0)  # [n, H, p]
    expected = (weights + step.swapaxes(0, 1)).mean(axis=1, keepdims=True)
    np.testing.assert_allclose(made.state_dict()["weights"], np.broadcast_to(expected, weights.shape), atol=1e-14)
    assert not made.state_dict()["corrections"].any()


@pytest.mark.parametrize("kind", ["jdp", "jdp, auto"])
def test_shift_and_radius_are_those_of_a_counter_for_the_releases(kind: str) -> None:
    episodes, growth = 2001, 0.1
    made = learner(kind, episodes=episodes, replan_growth=growth)
    every = learner(kind, episodes=episodes, replan_growth=0.0)
    number = ReleaseSchedule(growth, episodes - 1).number
    counter: Any = made.privatizer.query.counter
    assert counter.n_items == number < 100
    small = PRIVACY[kind].build(made.config.layout(ENV), number, Streams(0, "x")).query
    np.testing.assert_array_equal(made.shift_rates, shift_rates(small.deviations, 6, 0.1, 0.01))
    assert (made.shift_rates[:-1] < 0.8 * every.shift_rates[:-1]).all()
    ratio = np.sqrt(small.noise_ratio / every.privatizer.query.noise_ratio)
    np.testing.assert_allclose(made.beta_rates, ratio * every.beta_rates, rtol=1e-12)
    assert [one.certificate().to_dict()["releases"] for one in (made, every)] == [number, None]


def test_every_user_may_be_released_although_few_releases_are_read() -> None:
    made = learner("jdp, every user")
    made.learn(K)
    counter: Any = made.privatizer.query.counter
    assert (counter.n_items, made.privatizer.query.schedule) == (K - 1, None)


def test_no_theorem_covers_a_schedule() -> None:
    assert MALDPConfig(replan_growth=0.01).covered_by is None
    for growth in (-0.1, 2e6, float("nan")):
        with pytest.raises(ValueError, match=r"^replan_growth must be"):
            MALDPConfig(replan_growth=growth)


def test_a_privatizer_of_another_schedule_is_refused() -> None:
    """Its counter would be without the releases of this run."""
    streams = Streams(0, "replanning")
    other = MALDPConfig(replan_growth=2.0).privatizer(ENV, StatisticsPrivacy("jdp", 1e4), K, streams)
    with pytest.raises(ValueError, match=r"the privatizer must be built for replan_growth 0\.5, got one for 2\.0"):
        MALDPConfig(replan_growth=GROWTH).build(ENV, other, K, streams)
