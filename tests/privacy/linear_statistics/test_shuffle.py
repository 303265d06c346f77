"""Statistics in the shuffle model: messages of one pure law, blocks on a schedule, certificates, and refusals."""

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
    ShuffleStatisticsPrivacy,
    StatisticsLayout,
    StatisticsPrivatizer,
    Streams,
    add_statistics,
    send_statistics,
)
from dprl.privacy.accounting.shuffling import ShuffledLoss, local_epsilon
from dprl.privacy.ledger import ReleaseEvent
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
    # The noise is next to the least that the bound allows, and much less than without a shuffler.
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
def test_messages_are_those_of_the_local_model(rewards: str, arithmetic: str) -> None:
    made = built(arithmetic, rewards=rewards)
    alone = LocalStatisticsPrivacy(made.query.events("")[0].curve().pure_epsilon, rewards=rewards)  # type: ignore[arg-type]
    query = replace(
        alone.build(LAYOUT, USERS, Streams(0, "x", NoiseConfig(arithmetic))).query,  # type: ignore[arg-type]
        law=made.query.law,
        reward_law=made.query.reward_law,
    )
    shape = (LAYOUT.n_messages, LAYOUT.horizon, LAYOUT.dimension)
    record = np.full(shape, 0.25), np.full(shape[:2], 0.5), np.full((LAYOUT.n_agents, LAYOUT.horizon, 2), 0.1)
    key = Streams(0, "x").key("user_noise", "one")
    sent = []
    for parts in (made.query, query):
        channel = parts.opened(key, Streams(0, "x").key("user_noise", "two"))
        channel.cursor[0] = USERS
        sums = np.zeros((*shape, LAYOUT.dimension)), np.zeros(shape), np.zeros(record[2].shape)
        found = []
        for user in (1, 2, 3):
            send_statistics(channel, *record, user)
            add_statistics(channel, *sums)
            found.append(channel.message.copy())
        sent.append(np.concatenate([*found, *(array.ravel() for array in sums)]))
    np.testing.assert_array_equal(sent[0], sent[1])


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
        with pytest.raises(LedgerError, match="messages are on a schedule where a shuffler takes them"):
            replace(privatizer.query, **change)
    for query, model in ((made.query, "ldp"), (local.query, "shuffle")):
        with pytest.raises(LedgerError, match="reports must be shuffled with model shuffle only"):
            query.threat_model(model, 1)


def test_the_ledger_refuses_a_part_that_it_does_not_know() -> None:
    class Unknown:
        name, arithmetic = "unknown", "exact"

    (event,) = built(rewards="noisy").query.events("seeded")
    reports: Any = event.mechanism
    assert isinstance(reports.report, MessageInParts)
    other = MessageInParts((*reports.report.parts, Unknown()))  # type: ignore[arg-type]
    with pytest.raises(LedgerError, match="cannot account for a release"):
        ReleaseEvent.of_message("statistics", ShuffledReports(other, BLOCK), False, 3, "seeded")
