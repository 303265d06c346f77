"""Privatizers: the contract for all trust models, the bounded sensitivity, and the sealed counts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from dprl.privacy import CountFamilies, CountPrivacy, CountPrivatizer, Streams, UserRecord
from dprl.privacy.queries.counts import release, send_and_aggregate
from tests.privacy.sending import message_of, sent

Families = Callable[..., CountFamilies]
Users = Callable[[CountPrivatizer, int], list[UserRecord]]
Maker = Callable[[str], CountPrivatizer]
HORIZON, N_USERS = 4, 21


def test_one_user_at_a_time_equals_the_compiled_exchange_bit_for_bit(
    kind: str, privatizer: CountPrivatizer, users_of: Users, privatizer_of: Maker
) -> None:
    compiled = privatizer_of(kind)
    for user, contribution in enumerate(users_of(privatizer, N_USERS), start=1):
        counts = sent(privatizer, contribution, user)
        compiled.charge(user, user)
        send_and_aggregate(compiled.channel, contribution.index, contribution.value, user)
        release(compiled.channel)
        assert np.array_equal(counts.values, compiled.channel.needed)
        assert counts.users == user


def test_noise_is_all_that_separates_private_counts_from_the_truth(
    privatizer: CountPrivatizer, users_of: Users, privatizer_of: Maker
) -> None:
    truth = privatizer_of("none")
    bounds = privatizer.precision(1e-9)
    for user, contribution in enumerate(users_of(privatizer, N_USERS), start=1):
        counts = sent(privatizer, contribution, user)
        exact = sent(truth, contribution, user)
        for family in privatizer.query.families.families:
            error = np.abs(privatizer.query.family(counts, family.name) - truth.query.family(exact, family.name)).max()
            assert error <= bounds[family.name] + 1e-9
            assert (error == 0) == (privatizer.trust_model == "none")


def test_the_same_user_with_and_without_a_neighbour_in_the_past_sends_the_same_report(
    tabular_families: Families, random_contribution: Callable[[CountFamilies, np.random.Generator], UserRecord]
) -> None:
    rng = np.random.default_rng(0)
    families = tabular_families(HORIZON)
    one, other = (CountPrivacy("ldp", 1.0).build(families, 2, Streams(0, "x")) for _ in range(2))
    message_of(one, random_contribution(families, rng), 1)
    message_of(other, random_contribution(families, rng), 1)
    second = random_contribution(families, rng)
    assert np.array_equal(message_of(one, second, 2), message_of(other, second, 2))


def test_local_reports_have_the_certified_scale_and_no_other(tabular_families: Families) -> None:
    # Kolmogorov-Smirnov at a fixed seed; false-alarm rate 1e-3.
    families = tabular_families(20, n_states=8, n_actions=3)
    privatizer = CountPrivacy("ldp", 2.0, families="separate").build(families, 2, Streams(0, "scale"))
    shape = (20, 3)
    noise = message_of(privatizer, UserRecord(np.zeros(shape, dtype=np.int64), np.zeros(shape)), 1)
    scale = 6 * 20 / 2.0
    assert stats.kstest(noise, stats.laplace(scale=scale).cdf).pvalue > 1e-3
    for factor in (2 / 3, 3 / 2):
        assert stats.kstest(noise, stats.laplace(scale=scale * factor).cdf).pvalue < 1e-20


def test_printed_precision_is_the_papers_formula(tabular_families: Families) -> None:
    n_states, n_actions, horizon, episodes, beta, epsilon = 3, 2, 5, 1000, 0.1, 0.7
    steps, log_k = horizon * episodes, np.log(episodes)
    cells = n_states * n_actions * steps
    for settings, growth in (
        (CountPrivacy("jdp", epsilon, calibration="printed", precision="printed"), log_k**3),
        (CountPrivacy("ldp", epsilon, calibration="printed", precision="printed"), episodes),
    ):
        bounds = settings.build(tabular_families(horizon), episodes - 1, Streams(0, "p")).precision(beta)
        e1 = 3 * horizon / epsilon * np.sqrt(8 * growth * np.log(6 * cells / beta))
        e2 = 3 * horizon / epsilon * np.sqrt(8 * growth * np.log(6 * n_states * cells / beta))
        assert bounds == pytest.approx({"visits": e1, "rewards": e1, "transitions": e2})


@pytest.mark.parametrize("settings", [CountPrivacy("jdp", 1.0), CountPrivacy("ldp", 1.0)])
def test_exact_precision_holds_in_runs_and_is_below_the_printed_one(
    settings: CountPrivacy, tabular_families: Families
) -> None:
    # 200 runs: failures may exceed beta by 4 standard deviations (one-sided 3e-5).
    beta, n_runs, users = 0.2, 200, 30
    families = tabular_families(2, n_states=2)
    nobody = UserRecord(np.zeros((2, 3), dtype=np.int64), np.zeros((2, 3)))
    failures = 0
    for run in range(n_runs):
        privatizer = settings.build(families, users, Streams(run, "precision"))
        bounds = privatizer.precision(beta)
        worst = dict.fromkeys(bounds, 0.0)
        for user in range(1, users + 1):
            counts = sent(privatizer, nobody, user)
            for name in bounds:
                worst[name] = max(worst[name], float(np.abs(privatizer.query.family(counts, name)).max()))
        failures += any(worst[name] > bounds[name] for name in bounds)
    assert failures / n_runs <= beta + 4 * np.sqrt(beta * (1 - beta) / n_runs)
