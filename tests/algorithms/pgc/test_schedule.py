"""The deterministic schedule: the parameters from which an agent starts, and the agents that may start."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dprl.algorithms.pgc.aggregator import AggregatorState, CollectionRules, last_startable, version_of
from dprl.algorithms.pgc.collector import call_plan

SCHEDULES = [CollectionRules(s, b, 0.5) for s, b in itertools.product((0, 1, 8, 25), (1, 3, 10, 100))]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_an_agent_starts_from_what_the_staleness_says(schedule: CollectionRules) -> None:
    for slot in range(1, 400):
        messages = max(0, slot - 1 - schedule.staleness)
        assert version_of(schedule, slot) == messages // schedule.buffer_size


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_startable_is_exactly_who_has_parameters(schedule: CollectionRules) -> None:
    versions = {slot: version_of(schedule, slot) for slot in range(1, 900)}
    for applied in range(300):
        updates = applied // schedule.buffer_size
        startable = [slot for slot, version in versions.items() if version <= updates]
        assert last_startable(schedule, applied) == startable[-1]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_what_is_kept_is_what_can_still_be_asked_for(schedule: CollectionRules) -> None:
    kept = len(AggregatorState.first(schedule, np.zeros(1)).versions)
    for applied in range(300):
        updates = applied // schedule.buffer_size
        last = last_startable(schedule, applied)
        needed = {version_of(schedule, slot) for slot in range(applied + 1, last + 1)}
        assert updates - min(needed) < kept
        assert last - applied <= schedule.staleness + schedule.buffer_size


def test_without_staleness_and_buffer_agents_come_one_by_one() -> None:
    assert [last_startable(CollectionRules(0, 1, 0.5), applied) for applied in range(4)] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (CollectionRules(-1, 1, 0.5), "staleness must be a whole number from 0 to 10000, got -1"),
        (CollectionRules(0, 0, 0.5), "buffer_size must be a whole number from 1 to 100000, got 0"),
        (CollectionRules(0, True, 0.5), "buffer_size must be a whole number"),
        (CollectionRules(0, 1, -1.0), "learning_rate must be a finite number, at least 0"),
        (CollectionRules(0, 1, 0.5, halving=float("nan")), "halving must be a finite number"),
    ],
)
def test_bad_numbers_are_refused(schedule: CollectionRules, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        schedule.checked()


@pytest.mark.parametrize("staleness", [-1, 10_001])
def test_a_staleness_out_of_range_has_no_plan_of_calls(staleness: int) -> None:
    with pytest.raises(ValueError, match=f"staleness must be a whole number from 0 to 10000, got {staleness}"):
        call_plan(2, 2, 1, None, staleness)
