"""Lower bounds on the values of deployed policies: they cover, for every form of policy and of counts, and resume."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from dprl.algorithms import ALGORITHMS
from dprl.algorithms.bernstein_vi import BernsteinVIConfig
from dprl.algorithms.tabular import Released
from dprl.algorithms.tabular.lower_bounds import Limits, limits_of, lower_value, lower_values, probabilities
from dprl.envs import FiniteMDP
from dprl.privacy import CentralPrivacy, LocalPrivacy, NoPrivacy, WeightedSums
from tests.algorithms.cases import Environments, Learner, same_state

NOISES: dict[str, Any] = {
    "none": NoPrivacy(),
    "jdp": CentralPrivacy(10.0, 1e-6, families="one_hot", counter="buffered_toeplitz"),
    "ldp": LocalPrivacy(20.0, families="one_hot"),
}
RUNS, BETA = 30, 0.2
ASKED: dict[str, Any] = {"certify_policy": True, "beta": BETA, "replan_growth": 0.05}
SCALES: dict[str, Any] = {"bonus_scale": 0.05, "precision_scale": 0.05}
SLOW = pytest.mark.slow
# Every form of policy and of counts once, and every trust model with the first of them.
CASES: list[Any] = [
    ("private_ucb_vi", {}, "jdp"),
    *(pytest.param("private_ucb_vi", {}, noise, marks=SLOW) for noise in NOISES if noise != "jdp"),
    pytest.param("private_ucb_vi", {"counts": "costs"}, "ldp", marks=SLOW),
    pytest.param("private_ucb_po", {}, "ldp", marks=SLOW),
    pytest.param("bernstein_vi", {}, "none", marks=SLOW),
    pytest.param("bernstein_vi", {"stationary": True}, "jdp", marks=SLOW),
    pytest.param("random_vi", {"bonus_scale": 1.0, "precision_scale": 1.0}, "jdp", marks=SLOW),
]


@pytest.mark.parametrize(("name", "more", "noise"), CASES, ids=str)
def test_the_bound_covers_the_value_of_the_deployed_policy(
    name: str, more: dict[str, Any], noise: str, learner: Learner, envs: Environments[Any], river: FiniteMDP
) -> None:
    """A run fails with probability BETA at most; more than `most` of RUNS do with probability below 1e-4."""
    env = river if more.get("stationary") else envs.tiny
    most, failures, bounds = int(stats.binom.isf(1e-4, RUNS, BETA)), 0, []
    for seed in range(RUNS):
        run: Any = learner(env, 10**6, NOISES[noise], name=name, seed=seed, **{**ASKED, **SCALES, **more})
        metrics = run.learn(10**6).metrics
        assert metrics["value"] == pytest.approx(env.start_value(run.policy))
        failures += metrics["lower_bound"] > metrics["value"] + 1e-12
        bounds.append(metrics["lower_bound"] / env.optimal_start_value())
    assert failures <= most
    assert np.median(bounds) > 0.5, "a bound of 0 says nothing"


@pytest.mark.parametrize("name", ["private_ucb_vi"])
def test_without_penalties_it_would_not_cover(name: str, learner: Learner, envs: Environments[Any]) -> None:
    """Means alone are above the value in about half of the runs; in fewer than 5 of RUNS with probability 3e-5."""
    above = 0
    for seed in range(RUNS):
        run: Any = learner(envs.tiny, 10**6, NOISES["jdp"], name=name, seed=seed, **ASKED, **SCALES)
        run.learn(10**6)
        bare = limits_of(envs.tiny, run.privatizer, BETA)._replace(scale=0.0)
        found = lower_values(run.privatizer.release(), probabilities(run.policy, 2), bare, False)
        above += int(envs.tiny.start @ found > envs.tiny.start_value(run.policy))
    assert above >= 5


def test_losses_mirror_rewards() -> None:
    generator = np.random.default_rng(0)
    for _ in range(1000):
        transitions = generator.integers(0, 500, size=4).astype(float)
        total, values = transitions.sum(), 3.0 * generator.random(4)
        rewards = total * generator.random()
        divergence, iota = generator.uniform(1.0, 20.0, size=2)
        limits = Limits(0.0, 0.0, divergence, iota, 1.0)
        one, other = (np.append(transitions, [0.0, third])[:, None] for third in (rewards, total - rewards))
        found = lower_value(one, 0, values, 9.0, limits, losses=False)
        assert found == pytest.approx(lower_value(other, 0, values, 9.0, limits, losses=True))
        with_noise = limits._replace(e=5.0, e_rewards=4.0)
        noisy = np.append(transitions, [0.0, total - rewards - 4.0])[:, None]
        assert lower_value(noisy, 0, values, 9.0, with_noise, losses=True)[0] <= found[0] + 1e-9


def test_it_is_the_bound_of_offline_vi_for_its_policy(learner: Learner, river: FiniteMDP) -> None:
    run: Any = learner(river, 10**6, NOISES["jdp"], name="offline_vi")
    metrics = run.learn(10**6).metrics
    limits = limits_of(river, run.privatizer, run.config.beta)
    found = lower_values(run.privatizer.release(), probabilities(run.policy, river.n_actions), limits, False)
    assert metrics["lower_bound"] == pytest.approx(float(river.start @ found))


@pytest.mark.parametrize("noise", ["jdp", "ldp"])
def test_errors_are_bounded_for_all_functions_at_all_pairs_at_once(
    noise: str, learner: Learner, river: FiniteMDP
) -> None:
    """A quarter of beta is shared by the sums over all sets of next states, of every step, state and action."""
    privatizer: Any = learner(river, 1000, NOISES[noise], name="offline_vi").privatizer
    n, pairs, users = river.n_states, river.rewards.size, privatizer.capacity

    def bound(cells: int, number: int) -> float:
        found: float = privatizer.query.weighted_precision(
            WeightedSums("transitions", cells, number, users), BETA / 4.0
        )
        return found

    assert limits_of(river, privatizer, BETA).e == pytest.approx(min(n * bound(1, n * pairs), bound(n, 2**n * pairs)))


@pytest.mark.parametrize("growth", [0.0, 0.05])
def test_resumed_runs_have_the_same_bounds(growth: float, learner: Learner, river: FiniteMDP) -> None:
    def fresh() -> Any:
        settings = {"certify_policy": True, "replan_growth": growth, **SCALES}
        return learner(river, 400, CentralPrivacy(50.0), name="private_ucb_vi", **settings)

    whole, cut = fresh(), fresh()
    whole.learn(150)
    expected = whole.learn(250).metrics
    cut.learn(150)
    again = fresh()
    again.load_state_dict({key: array.copy() for key, array in cut.state_dict().items()})
    assert again.learn(250).metrics == expected
    assert same_state(whole.state_dict(), again.state_dict())


def test_metrics_are_there_where_they_are_asked_for() -> None:
    assert {"lower_bound", "value"} <= {metric.name for metric in BernsteinVIConfig(certify_policy=True).metrics}
    assert BernsteinVIConfig().metrics == BernsteinVIConfig.metrics
    assert "lower_bound" not in {metric.name for metric in BernsteinVIConfig.metrics}


def test_before_the_first_release_nothing_is_known() -> None:
    empty = Released(np.zeros(2 * 4 * 4), 0, 0)
    assert not lower_values(empty, np.full((2, 2, 2), 0.5), Limits(1.0, 1.0, 1.0, 1.0, 1.0), False).any()


def test_what_cannot_be_bounded_is_refused(learner: Learner, river: FiniteMDP) -> None:
    printed = CentralPrivacy(1.0, calibration="printed", precision="printed")
    with pytest.raises(ValueError, match=r"precision must be exact for lower bounds, got 'printed'"):
        learner(river, 50, printed, name="private_ucb_vi", certify_policy=True)
    with pytest.raises(ValueError, match=r"known_rewards must be false for lower bounds, got True"):
        learner(river, 50, NoPrivacy(), name="bernstein_vi", certify_policy=True, known_rewards=True)
    config: Any = ALGORITHMS["offline_vi"]
    with pytest.raises(ValueError, match="certify_policy must be false with offline_vi, got True"):
        config(certify_policy=True)
