"""Releases of statistics on a schedule: a counter of Gram matrices and corrections for the releases that plans read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dprl.privacy import LedgerError, StatisticsLayout, StatisticsPrivacy, StatisticsPrivatizer, Streams
from dprl.privacy.queries.linear_statistics import (
    StatisticsQuery,
    add_statistics,
    aggregate_statistics,
    send_statistics,
)
from dprl.privacy.schedule import ReleaseSchedule

LAYOUT = StatisticsLayout(horizon=4, dimension=3, n_messages=2, n_agents=2, reward_dimension=2)
USERS, GROWTH = 40, 0.5
TIMES = [1, 2, 4, 7, 11, 17, 26, 40]
"""Plans before episodes 2, 3, 5, 8, 12, 18, 27 and 41."""
NO_NOISE = 1e9
GAUSSIAN: dict[str, Any] = {"delta": 1e-6, "mechanism": "gram_gaussian"}
NOISE: list[dict[str, Any]] = [
    {},
    {"counter": "kary_tree"},
    GAUSSIAN,
    {**GAUSSIAN, "counter": "auto"},
    {**GAUSSIAN, "counter": "buffered_toeplitz"},
]
Record = tuple[np.ndarray, np.ndarray, np.ndarray]


def records() -> list[Record]:
    """Features, targets and corrections of all users, none of which the device clips."""
    rng, (m, h, d) = np.random.default_rng(0), (LAYOUT.n_messages, LAYOUT.horizon, LAYOUT.dimension)
    return [
        (
            rng.uniform(-0.5, 0.5, (m, h, d)),
            rng.uniform(0, 1, (m, h)),
            rng.uniform(-0.2, 0.2, (LAYOUT.n_agents, h, LAYOUT.reward_dimension)),
        )
        for _ in range(USERS)
    ]


def scheduled(epsilon: float = 1.0, growth: float = GROWTH, users: int = USERS, **more: Any) -> StatisticsPrivatizer:
    return StatisticsPrivacy("jdp", epsilon, **more).build(LAYOUT, users, Streams(1, "schedule"), growth=growth)


class Read:
    """Sums that a learner reads, and the corrections of every user or release."""

    def __init__(self) -> None:
        m, h, d = LAYOUT.n_messages, LAYOUT.horizon, LAYOUT.dimension
        self.sums = np.zeros((m, h, d, d)), np.zeros((m, h, d))
        self.corrections = np.full((LAYOUT.n_agents, h, LAYOUT.reward_dimension), np.nan)

    def take(self, privatizer: StatisticsPrivatizer, given: list[Record], first: int = 1) -> dict[int, np.ndarray]:
        """Send the records of users first, first + 1, ...; return all numbers read, by number of users."""
        privatizer.charge(first, first + len(given) - 1)
        found = {}
        for user, record in enumerate(given, start=first):
            send_statistics(privatizer.channel, *record, user)
            add = add_statistics if user in TIMES else aggregate_statistics
            add(privatizer.channel, *self.sums, self.corrections)
            found[user] = np.concatenate([array.ravel() for array in (*self.sums, self.corrections)])
        return found


def read(privatizer: StatisticsPrivatizer) -> dict[int, np.ndarray]:
    return Read().take(privatizer, records())


@pytest.mark.parametrize("settings", NOISE, ids=str)
@pytest.mark.parametrize("growth", [0.01, 0.1, 1.0])
def test_noise_and_shifts_are_those_of_a_counter_for_so_many_users(settings: dict[str, Any], growth: float) -> None:
    """A user is in one block, so n releases need the noise of n users with a release after each."""
    users = 8499
    made = scheduled(users=users, growth=growth, **settings)
    number = ReleaseSchedule(growth, users).number
    every = scheduled(users=number, growth=0.0, **settings)
    assert number < users / 10
    assert every.query.schedule is None
    assert made.query.counter == every.query.counter
    assert made.query.noise_ratio == every.query.noise_ratio
    np.testing.assert_array_equal(made.query.deviations, every.query.deviations)
    certificate, other = (built.planned_certificate("x").to_dict() for built in (made, every))
    assert certificate["proved"] == other["proved"]
    assert (certificate["verdict"], certificate["releases"], other["releases"]) == ("holds", number, None)
    assert (certificate["users"], other["users"]) == (users, number)


def test_without_noise_releases_are_the_sums_and_corrections_those_since_the_last() -> None:
    exact = StatisticsPrivacy("none", rewards="open", clipping="device").build(
        LAYOUT, USERS, Streams(0, "raw"), growth=GROWTH
    )
    raw, found = read(exact), read(scheduled(NO_NOISE))
    n_sums = found[1].size - LAYOUT.n_corrections
    for start, stop in zip([0, *TIMES[:-1]], TIMES, strict=True):
        np.testing.assert_allclose(found[stop][:n_sums], raw[stop][:n_sums], atol=1e-3)
        expected = sum(raw[user][n_sums:] for user in range(start + 1, stop + 1))
        np.testing.assert_allclose(found[stop][n_sums:], expected, atol=1e-3)


@pytest.mark.parametrize("settings", NOISE, ids=str)
def test_between_two_releases_nothing_of_a_user_is_read(settings: dict[str, Any]) -> None:
    found = read(scheduled(**settings))
    n_sums = found[1].size - LAYOUT.n_corrections
    for user in set(found) - set(TIMES):
        last = max(time for time in TIMES if time < user)
        np.testing.assert_array_equal(found[user][:n_sums], found[last][:n_sums])
        assert not found[user][n_sums:].any()


@pytest.mark.parametrize("settings", NOISE, ids=str)
def test_a_release_that_is_not_on_the_schedule_is_refused(settings: dict[str, Any]) -> None:
    privatizer, reader = scheduled(**settings), Read()
    given = records()
    before = reader.take(privatizer, given[:4])[4]
    privatizer.charge(5, 5)
    send_statistics(privatizer.channel, *given[4], 5)
    with pytest.raises(LedgerError, match="the schedule has no release after these users"):
        add_statistics(privatizer.channel, *reader.sums, reader.corrections)
    n_sums = before.size - LAYOUT.n_corrections
    np.testing.assert_array_equal(np.concatenate([array.ravel() for array in reader.sums]), before[:n_sums])


def test_the_release_after_the_last_one_is_refused() -> None:
    """Of 45 users 40 are in eight blocks; user 45 would be in a ninth."""
    privatizer, reader = scheduled(users=45), Read()
    assert privatizer.query.schedule.times.tolist() == TIMES  # type: ignore[union-attr]
    reader.take(privatizer, records())
    privatizer.charge(41, 45)
    for user in range(41, 46):
        send_statistics(privatizer.channel, *records()[0], user)
        if user < 45:
            aggregate_statistics(privatizer.channel, *reader.sums, reader.corrections)
    with pytest.raises(LedgerError, match="the schedule has no release after these users"):
        add_statistics(privatizer.channel, *reader.sums, reader.corrections)
    assert privatizer.certificate("x").users == 45


@pytest.mark.parametrize("other", [{"growth": 0.4}, {"releases": "every_user"}, {"growth": 0.0}], ids=str)
def test_a_state_of_another_schedule_is_refused(other: dict[str, Any]) -> None:
    privatizer = scheduled()
    Read().take(privatizer, records()[:4])
    with pytest.raises(ValueError, match="state"):
        scheduled(**other).load_state_dict(privatizer.state_dict())


def test_every_user_is_released_where_that_is_asked_for() -> None:
    query = scheduled(releases="every_user").query
    assert (query.schedule, query.counter.n_items) == (None, USERS)  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="releases must be one of scheduled, every_user"):
        StatisticsPrivacy("jdp", 1.0, releases="never")  # type: ignore[arg-type]


def test_a_schedule_that_is_not_the_counters_is_refused() -> None:
    query: StatisticsQuery = scheduled().query
    with pytest.raises(LedgerError, match=r"an item for each of 40 releases, got 8; build it for the schedule"):
        replace(query, schedule=ReleaseSchedule(0.0, USERS))
    with pytest.raises(LedgerError, match="only a trusted server releases sums on a schedule"):
        replace(StatisticsPrivacy("ldp", 1.0).build(LAYOUT, USERS, Streams(0, "x")).query, schedule=query.schedule)
    with pytest.raises(ValueError, match="n_users must be at most 40, got 41"):
        query.check_run(USERS + 1, 1)
