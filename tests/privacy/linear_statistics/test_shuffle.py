"""Statistics in the shuffle model: messages with one pure epsilon, blocks on a schedule, certificates, and refusals."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dprl.privacy import (
    ChargeJournal,
    LedgerError,
    LocalStatisticsPrivacy,
    NoiseConfig,
    Privatizer,
    ShuffleStatisticsPrivacy,
    StatisticsLayout,
    StatisticsPrivatizer,
    Streams,
    add_statistics,
    aggregate_statistics,
    send_statistics,
)
from dprl.privacy.accounting.shuffling import ShuffledLoss, local_epsilon
from dprl.privacy.ledger import ReleaseEvent
from dprl.privacy.mechanisms.gram_laws import GramGaussian
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.mechanisms.shuffled import MessageInParts, ShuffledReports

LAYOUT = StatisticsLayout(horizon=4, dimension=3, n_messages=2, n_agents=2, reward_dimension=2)
BLOCK, USERS = 50, 400
REWARDS = pytest.mark.parametrize("rewards", ["public", "noisy"])
ARITHMETIC = pytest.mark.parametrize("arithmetic", ["fast", "exact"])


def built(arithmetic: Any = "fast", growth: float = 0.2, users: int = USERS, **more: Any) -> StatisticsPrivatizer:
    settings = ShuffleStatisticsPrivacy(**{"epsilon": 1.0, "delta": 1e-6, "smallest_block": BLOCK, **more})
    return settings.build(LAYOUT, users, Streams(0, "shuffle", NoiseConfig(arithmetic)), growth=growth)


@REWARDS
@ARITHMETIC
def test_the_budget_is_met_by_the_bound_on_one_message_in_the_smallest_block(rewards: str, arithmetic: str) -> None:
    made = built(arithmetic, rewards=rewards)
    (event,) = made.query.events("seeded")
    curve, largest = event.curve(), local_epsilon(1.0, 1e-6, BLOCK)
    assert isinstance(curve, ShuffledLoss)
    assert curve.delta(1.0) <= 1e-6
    # The noise is close to the least that the bound allows, and much less than without a shuffler.
    assert 0.995 * largest < curve.pure_epsilon <= largest
    assert 0.99 < made.planned_certificate("ma_ldp").proof.epsilon_at_claimed_delta <= 1.0
    assert made.planned_certificate("ma_ldp").to_dict()["releases"] == made.query.schedule.number  # type: ignore[union-attr]
    local = LocalStatisticsPrivacy(1.0, rewards=rewards)  # type: ignore[arg-type]
    alone = local.build(LAYOUT, USERS, Streams(0, "shuffle", NoiseConfig(arithmetic)))  # type: ignore[arg-type]
    np.testing.assert_allclose(made.query.deviations * curve.pure_epsilon, alone.query.deviations, rtol=0.02)


@REWARDS
def test_both_parts_of_a_message_count(rewards: str) -> None:
    query = built(rewards=rewards).query
    (event,) = query.events("seeded")
    parts = [part for part in (query.law, query.reward_law) if part is not None]
    assert len(parts) == 1 + (rewards == "noisy")
    together = math.fsum(part.curve().pure_epsilon for part in parts)
    assert event.curve().pure_epsilon == pytest.approx(together, rel=1e-12)
    told = built(rewards=rewards).planned_certificate("ma_ldp").to_dict()["noise"][0]["parameters"]
    assert told["users"] == BLOCK
    assert told["report.scales" if rewards == "public" else "report.parts.0.scales"] == list(query.law.scales)
    assert event.cells == query.law.release.n_numbers + (LAYOUT.n_corrections if rewards == "noisy" else 0)


@REWARDS
@ARITHMETIC
def test_the_learner_reads_sums_of_full_blocks_only(rewards: str, arithmetic: str) -> None:
    """Messages are those of the local model, and the learner reads none before its block is full."""
    made = built(arithmetic, rewards=rewards)
    local = LocalStatisticsPrivacy(1.0, rewards=rewards)  # type: ignore[arg-type]
    query = replace(
        local.build(LAYOUT, USERS, Streams(0, "x", NoiseConfig(arithmetic))).query,  # type: ignore[arg-type]
        law=made.query.law,
        reward_law=made.query.reward_law,
    )
    keys = [Streams(0, "x").key("user_noise", part) for part in ("one", "two")]
    shape, rng = (LAYOUT.n_messages, LAYOUT.horizon, LAYOUT.dimension), np.random.default_rng(0)
    records = [
        (rng.uniform(-0.5, 0.5, shape), rng.uniform(0, 1, shape[:2]), rng.uniform(-0.2, 0.2, (2, LAYOUT.horizon, 2)))
        for _ in range(2 * BLOCK)
    ]
    channel, alone = made.query.opened(*keys), query.opened(*keys)
    for one in (channel, alone):
        one.cursor[0] = USERS
    read, sums = ([np.zeros((*shape, 3)), np.zeros(shape), np.zeros((2, LAYOUT.horizon, 2))] for _ in range(2))
    corrections = np.zeros_like(sums[2])
    first, second = channel.times[:2]
    for user in range(1, second + 1):
        record = records[user - 1]
        send_statistics(channel, *record, user)
        send_statistics(alone, *record, user)
        np.testing.assert_array_equal(channel.message, alone.message)
        add_statistics(alone, *sums)
        corrections += sums[2]
        before = [array.copy() for array in read]
        if user in (first, second):
            add_statistics(channel, *read)
            for found, expected in zip(read, (*sums[:2], corrections), strict=True):
                np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())
            corrections[:] = 0.0
        else:
            aggregate_statistics(channel, *read)
            assert not read[2].any()
            for found, expected in zip(read[:2], before[:2], strict=True):
                np.testing.assert_array_equal(found, expected)
    assert first == BLOCK


def test_a_sum_of_less_than_a_block_is_refused() -> None:
    made = built()
    made.charge(1, USERS)
    shape = (LAYOUT.n_messages, LAYOUT.horizon, LAYOUT.dimension)
    send_statistics(made.channel, np.zeros(shape), np.zeros(shape[:2]), np.zeros((2, LAYOUT.horizon, 2)), 1)
    with pytest.raises(LedgerError, match="the schedule has no release after these users"):
        add_statistics(made.channel, np.zeros((*shape, 3)), np.zeros(shape), np.zeros((2, LAYOUT.horizon, 2)))


@pytest.mark.parametrize(("users", "submissions"), [(100, 4), (USERS, 2)])
def test_nobody_is_twice_in_a_block(users: int, submissions: int) -> None:
    made = built()
    with pytest.raises(LedgerError, match="submissions must be 1 where a server counts or users are shuffled"):
        Privatizer(made.query, made.request, users, Streams(0, "x"), submissions)


def test_blocks_have_the_least_size_and_grow() -> None:
    schedule = built(growth=0.5).query.schedule
    assert schedule is not None
    assert schedule.blocks().min() == BLOCK
    assert schedule.blocks().max() > BLOCK
    constant = built(growth=0.0).query.schedule
    assert constant is not None
    assert constant.times.tolist() == list(range(BLOCK, USERS + 1, BLOCK))


def test_a_run_that_lost_a_part_of_a_block_does_not_go_on(tmp_path: Path) -> None:
    path, settings = tmp_path / "charged", ShuffleStatisticsPrivacy(1.0, 1e-6, smallest_block=BLOCK)

    def attempt() -> StatisticsPrivatizer:
        return settings.build(LAYOUT, USERS, Streams(0, "shuffle"), ChargeJournal(path))

    first = attempt()
    first.charge(1, 30)
    del first
    with pytest.raises(LedgerError, match="shuffled statistics cannot go on from a journal"):
        attempt().charge(31, 60)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"delta": 0.0}, "delta must be above 0 with model shuffle, got 0.0; add delta: 1e-6"),
        ({"mechanism": "gram_gaussian"}, "mechanism must be"),
        ({"rewards": "open"}, "rewards must be"),
        ({"smallest_block": 0}, "smallest_block must be from 1 to 1e12, got 0"),
        ({"smallest_block": USERS + 1}, f"smallest_block must be at most {USERS}, the users who send a report"),
    ],
)
def test_settings_that_prove_nothing_are_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        built(**settings)


def test_real_users_are_refused_since_sums_tell_an_order() -> None:
    settings = ShuffleStatisticsPrivacy(1.0, 1e-6, smallest_block=BLOCK)
    with pytest.raises(ValueError, match="model must be ldp or jdp with statistics and entropy: os, got 'shuffle'"):
        settings.build(LAYOUT, USERS, Streams(0, "x", NoiseConfig(arithmetic="exact", entropy="os")))


def test_messages_are_shuffled_with_a_schedule_and_noise_only() -> None:
    made, local = built(), LocalStatisticsPrivacy(1.0).build(LAYOUT, USERS, Streams(0, "x"))
    changes: list[tuple[StatisticsPrivatizer, dict[str, Any]]] = [
        (made, {"schedule": None}),
        (made, {"shuffled": False}),
        (local, {"shuffled": True}),
        (local, {"schedule": made.query.schedule}),
    ]
    for privatizer, change in changes:
        with pytest.raises(LedgerError, match="a shuffler needs a schedule, and noise on all numbers"):
            replace(privatizer.query, **change)
    for query, model in ((made.query, "ldp"), (local.query, "shuffle")):
        with pytest.raises(LedgerError, match="reports must be shuffled with model shuffle only"):
            query.threat_model(model, 1)


def test_the_ledger_refuses_messages_without_a_finite_loss_before_they_are_charged() -> None:
    class Unknown:
        name, arithmetic = "unknown", "exact"

    made = built(rewards="noisy")
    (event,) = made.query.events("seeded")
    reports: Any = event.mechanism
    assert isinstance(reports.report, MessageInParts)
    parts = reports.report.parts
    wide = GramGaussian(LAYOUT.release(clipped=True), made.query.law.scales)
    for message in (
        lambda: MessageInParts((*parts, Unknown())),  # type: ignore[arg-type]
        lambda: MessageInParts(()),
        lambda: MessageInParts(list(parts)),  # type: ignore[arg-type]
        lambda: MessageInParts((Laplace(1.0), *parts)),  # type: ignore[arg-type]
        lambda: wide,
        lambda: MessageInParts((wide, *parts[1:])),
        lambda: reports,
    ):
        with pytest.raises(LedgerError):
            ReleaseEvent.of_message("statistics", ShuffledReports(message(), BLOCK), False, 3, "seeded")
    for users in (0, 10.5):
        with pytest.raises(LedgerError, match="users must be a whole number of at least 1"):
            ShuffledReports(parts[0], users)  # type: ignore[arg-type]
    with pytest.raises(LedgerError, match="must have a pure epsilon, got gram_gaussian"):
        Privatizer(
            replace(made.query, law=wide, rewards="public", reward_law=None), made.request, USERS, Streams(0, "x")
        )
