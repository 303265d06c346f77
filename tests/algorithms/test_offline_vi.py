"""offline_vi against docs/proofs/offline_vi.md: inequalities, kernel, and the coverage of the certified bound."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dprl.algorithms import OfflineVIConfig
from dprl.algorithms.offline_vi import _Bonus, _Limits, divergence_bound, limits_of, lower_value, plain_plan, plan
from dprl.algorithms.tabular import Released
from dprl.envs import FiniteMDP
from dprl.privacy import CountPrivacy
from tests.algorithms.cases import TRUST, Environments, Learner, value_of
from tests.algorithms.test_bernstein_vi import noisy_counts
from tests.algorithms.test_blocks import FALSE_ALARM, least_p_value

NOISES: dict[str, Any] = {
    "none": CountPrivacy("none"),
    "jdp laplace": CountPrivacy("jdp", 20.0, families="separate", counter="binary_tree"),
    "jdp gaussian": CountPrivacy("jdp", 5.0, 1e-6, families="one_hot", counter="buffered_toeplitz"),
    "jdp every user": CountPrivacy("jdp", 20.0, counter="kary_tree", families="one_hot", releases="every_user"),
    "ldp": CountPrivacy("ldp", 60.0, families="separate"),
    "ldp unary": CountPrivacy("ldp", 8.0, families="one_hot", mechanism="sampled_optimized_unary_encoding"),
}
NOISE = pytest.mark.parametrize("noise", NOISES)


def tables_of(n_states: int, n_actions: int, horizon: int) -> Any:
    """Tables that have no policy yet."""
    env = FiniteMDP(
        "any",
        np.full((horizon, n_states, n_actions, n_states), 1.0 / n_states),
        np.zeros((horizon, n_states, n_actions)),
        np.eye(n_states)[0],
    )
    return OfflineVIConfig().tables(env, 10)


@pytest.mark.parametrize("size", [0.0, 30.0])
@pytest.mark.parametrize("scale", [0.1, 1.0])
def test_the_kernel_is_the_page(scale: float, size: float) -> None:
    proved = _Limits(3.0 * size, 2.0 * size, 9.0, 7.0, 1.0)
    planning = proved._replace(e=0.5 * proved.e, scale=scale)
    for seed in range(20):
        values = noisy_counts(np.random.default_rng(seed), 5000, size)
        horizon, _, n_states, n_actions = values.shape
        tables = tables_of(n_states, n_actions, horizon)
        counts = Released(values.ravel(), 5000, 1)
        plan(counts, _Bonus(planning, proved), tables)
        policy, bound = plain_plan(counts, planning, proved, (horizon, n_states, n_actions))
        assert np.array_equal(tables.policy, np.eye(n_actions)[policy])
        assert np.allclose(tables.optimistic, bound, rtol=1e-12, atol=1e-12)


def test_without_noise_it_is_pessimistic_value_iteration(learner: Learner, river: FiniteMDP) -> None:
    """Empirical means less sqrt(2 u Var / N) + D u / N, and the same for rewards as coins, on the users' own counts."""
    run: Any = learner(river, 20_000, name="offline_vi")
    run.learn(20_000)
    horizon, n_states, n_actions = river.rewards.shape
    counts = run.privatizer.release().values.reshape(horizon, n_states + 2, n_states, n_actions)
    iota = math.log(4.0 * river.rewards.size * 19_999 / 0.1)
    u, best = divergence_bound(n_states, iota), np.zeros(n_states)
    assert run._bonus.proved == _Limits(0.0, 0.0, u, iota, 1.0)
    for h in reversed(range(horizon)):
        visits = np.maximum(counts[h, n_states], 1.0)
        law, mean = np.moveaxis(counts[h, :n_states], 0, -1) / visits[..., None], counts[h, n_states + 1] / visits
        variance, width = law @ best**2 - (law @ best) ** 2, best.max() - best.min()
        after = law @ best - np.sqrt(2.0 * u * np.maximum(variance, 0.0) / visits) - width * u / visits
        reward = mean - np.sqrt(2.0 * iota * mean * (1.0 - mean) / visits) - iota / visits
        q = np.maximum(after, best.min()) + np.maximum(reward, 0.0)
        best = np.where(counts[h, n_states] > 0.0, q, best.min()).max(axis=1)
    assert np.allclose(run._tables.optimistic, best, atol=1e-9)
    assert river.start @ best > 0.3


def test_lemma_1_holds_for_all_functions_and_is_nearly_attained() -> None:
    generator, closest = np.random.default_rng(0), 0.0
    for _ in range(5000):
        p, q = generator.dirichlet(np.full(4, generator.choice([0.2, 1.0, 20.0])), size=2)
        q = np.maximum(0.9 * p + 0.1 * q, 1e-12) if generator.random() < 0.5 else np.maximum(q, 1e-12)
        f = generator.random(4) ** generator.choice([0.2, 1.0, 5.0])
        divergence = float(stats.entropy(np.maximum(p, 1e-300), q / q.sum()))
        variance = max(p @ f**2 - (p @ f) ** 2, 0.0)
        bound = math.sqrt(2.0 * divergence * variance) + (f.max() - f.min()) * divergence
        gap = float(p @ f - q @ f / q.sum())
        assert gap <= bound + 1e-9
        closest = max(closest, gap / bound) if divergence > 1e-6 else closest
    assert closest > 0.8


@pytest.mark.parametrize("law", [(0.5, 0.3, 0.2), (0.96, 0.02, 0.01, 0.01), (0.2,) * 5], ids=str)
@pytest.mark.parametrize("draws", [10, 300])
def test_empirical_laws_diverge_no_more_than_the_bound(law: tuple[float, ...], draws: int) -> None:
    """At e^-2 of 20,000 samples: more than five standard deviations above with probability below 1e-6."""
    counts = np.random.default_rng(1).multinomial(draws, law, size=20_000)
    shares = np.maximum(counts / draws, 1e-300)
    divergence = draws * (counts / draws * np.log(shares / law)).sum(axis=1)
    u = divergence_bound(len(law), 2.0)
    assert u - (len(law) - 1) * math.log(math.e * u / (len(law) - 1)) == pytest.approx(2.0)
    rate = math.exp(-2.0)
    assert (divergence >= u).mean() <= rate + 5.0 * math.sqrt(rate / 20_000)
    assert divergence_bound(1, 2.0) == 0.0


def test_noise_within_its_bounds_never_lifts_a_value_above_the_truth() -> None:
    """Counts as expected, moved by noise with all sums over sets within E, in the worst of many directions."""
    generator, above = np.random.default_rng(2), 0
    for _ in range(5000):
        n_states = 4
        law, values = generator.dirichlet(np.full(n_states, 0.5)), 3.0 * generator.random(n_states)
        total, reward = generator.uniform(50.0, 3000.0), generator.random()
        e, e_rewards = generator.uniform(1.0, 60.0, size=2)
        noise = (values - generator.uniform(values.min(), values.max())) + 0.3 * generator.normal(size=n_states)
        noise *= e / max(np.maximum(noise, 0.0).sum(), np.maximum(-noise, 0.0).sum())
        step = np.concatenate([total * law + noise, [0.0, total * reward + e_rewards]])[:, None]
        truth = reward + law @ values
        found, _ = lower_value(step, 0, values, 10.0, _Limits(e, e_rewards, 0.0, 0.0, 1.0))
        assert found <= truth + 1e-9
        above += int(lower_value(step, 0, values, 10.0, _Limits(0.5 * e, 0.5 * e_rewards, 0.0, 0.0, 1.0))[0] > truth)
    assert above > 100  # half of the bounds would not do


@NOISE
@pytest.mark.parametrize("settings", [{}, {"bonus_scale": 0.01, "precision_scale": 0.01}], ids=["proved", "scaled"])
@pytest.mark.parametrize("name", ["offline_vi"])
def test_the_certified_bound_covers_the_value(
    name: str, settings: dict[str, float], noise: str, learner: Learner, envs: Environments[Any]
) -> None:
    """In all states, at every scale of planning. A run fails with probability 0.2 at most.

    More than `most` of 40 runs do with probability below 1e-4. Without penalties nearly all fail.
    """
    failures, unproved, most, bounds = 0, 0, int(stats.binom.isf(1e-4, 40, 0.2)), []
    for seed in range(40):
        run: Any = learner(envs.tiny, 30_000, NOISES[noise], name=name, seed=seed, beta=0.2, **settings)
        segment = run.learn(30_000)
        failures += bool((run._tables.optimistic > value_of(envs.tiny, run.policy) + 1e-12).any())
        bounds.append(segment["lower_bound"])
        bare = run._bonus._replace(proved=run._bonus.proved._replace(scale=0.0))
        plan(run.privatizer.release(), bare, run._tables)
        unproved += bool((run._tables.optimistic > value_of(envs.tiny, run.policy) + 1e-12).any())
    assert failures <= most
    assert unproved > most
    assert np.median(bounds) > 0.2, "a bound of 0 says nothing"


@NOISE
def test_the_bound_covers_with_pooled_counts(noise: str, learner: Learner, river: FiniteMDP) -> None:
    """A run fails with probability 0.2 at most; more than `most` of 20 do with probability below 1e-4."""
    failures, most = 0, int(stats.binom.isf(1e-4, 20, 0.2))
    for seed in range(20):
        settings: Any = {"stationary": True, "beta": 0.2, "exploration": 0.5}
        run: Any = learner(river, 100_000, NOISES[noise], name="offline_vi", seed=seed, **settings)
        run.learn(100_000)
        failures += bool((run._tables.optimistic > value_of(river, run.policy) + 1e-12).any())
    assert failures <= most


@TRUST
def test_users_play_the_behaviour_policy_until_the_last_one(privacy: Any, learner: Learner, river: FiniteMDP) -> None:
    run: Any = learner(river, 3000, privacy, name="offline_vi", exploration=0.5)
    _, expert = river.optimum()
    behaviour = 0.25 + 0.5 * np.eye(river.n_actions)[expert]
    assert np.allclose(run.policy, behaviour)
    before = run.learn(2999)
    assert np.allclose(run.policy, behaviour)
    assert before["lower_bound"] == 0.0
    last = run.learn(1)
    assert set(run.policy.ravel()) == {0.0, 1.0}
    assert run.privatizer.ledger.users_charged == 2999
    value = river.start @ value_of(river, run.policy)
    assert last["value"] == pytest.approx(value)
    assert last["optimum_gap"] == pytest.approx(river.optimal_start_value() - value)
    assert last["regret"] == pytest.approx(last["optimum_gap"])


@NOISE
def test_blocks_have_the_law_of_users(noise: str, learner: Learner, river: FiniteMDP) -> None:
    """All counts of 150 runs each, by Kolmogorov-Smirnov; the false-alarm rate is FALSE_ALARM for each count."""

    def counts(simulation: Any) -> np.ndarray:
        found = []
        for seed in range(150):
            run = learner(river, 40, NOISES[noise], name="offline_vi", seed=seed, simulation=simulation)
            run.learn(40)
            found.append(run.privatizer.release().values)
        return np.array(found)

    assert least_p_value(counts("users"), counts("blocks")) > FALSE_ALARM


def test_settings_that_mean_nothing_here_are_refused(learner: Learner, river: FiniteMDP) -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({"replan_growth": 0.1}, r"replan_growth must be 0 with offline_vi, got 0\.1; it plans once"),
        ({"exploration": 1.5}, r"exploration must be a number in \[0, 1\], got 1\.5; "),
    ]
    for settings, rule in refused:
        with pytest.raises(ValueError, match=rule):
            OfflineVIConfig(**settings)
    with pytest.raises(ValueError, match="precision must be exact with offline_vi, got 'printed'"):
        learner(river, 50, CountPrivacy("jdp", 1.0, calibration="printed", precision="printed"), name="offline_vi")


def test_scales_change_the_limits_of_planning_alone(learner: Learner, river: FiniteMDP) -> None:
    run: Any = learner(river, 1000, NOISES["ldp"], name="offline_vi", bonus_scale=0.5, precision_scale=0.25, beta=0.2)
    planning, proved = run._bonus
    assert proved == limits_of(river, run.privatizer, 0.2)
    assert planning == proved._replace(e=0.25 * proved.e, e_rewards=0.25 * proved.e_rewards, scale=0.5)


@pytest.mark.parametrize("noise", ["jdp gaussian", "ldp"])
def test_errors_are_bounded_for_all_functions_and_pairs_at_once(noise: str, learner: Learner, river: FiniteMDP) -> None:
    """A quarter of beta is shared by the sums over all sets of next states, of every step, state and action."""
    privatizer: Any = learner(river, 1000, NOISES[noise], name="offline_vi").privatizer
    n, pairs, users = river.n_states, river.rewards.size, privatizer.capacity

    def bound(cells: int, number: int) -> float:
        found: float = privatizer.query.weighted_precision("transitions", cells, number, users, 0.05)
        return found

    assert limits_of(river, privatizer, 0.2).e == pytest.approx(min(n * bound(1, n * pairs), bound(n, 2**n * pairs)))
