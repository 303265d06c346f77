"""Releases on a schedule: the counter is built for exactly the releases that plans read."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from dprl.algorithms.bernstein_vi import BernsteinVIConfig
from dprl.envs.riverswim import RiverSwim
from dprl.privacy import CountPrivacy, CountPrivatizer, LedgerError, Streams, UserRecord
from dprl.privacy.counters import COUNTERS
from dprl.privacy.queries.counts import release, send_and_aggregate
from dprl.privacy.schedule import ReleaseSchedule

Users = Callable[[CountPrivatizer, int], list[UserRecord]]
Maker = Callable[..., CountPrivatizer]
K = 1_000_000
N_USERS = 40
GROWTH = 0.5
TIMES = [1, 2, 4, 7, 11, 17, 26, 40]
"""Plans before episodes 2, 3, 5, 8, 12, 18, 27 and 41."""


@pytest.mark.parametrize(("growth", "number", "last"), [(0.01, 982, 993_257), (0.1, 125, 927_660), (1.0, 19, 524_287)])
def test_the_number_of_releases_and_the_last_one(growth: float, number: int, last: int) -> None:
    schedule = ReleaseSchedule(growth, K - 1)
    assert (schedule.number, schedule.times[-1]) == (number, last)
    assert [schedule.releases_until(users) for users in (0, 1, last - 1, last, K)] == [1, 1, number - 1, number, number]


def test_a_run_without_a_second_plan_has_one_release_at_its_end() -> None:
    assert ReleaseSchedule(1e6, 99).times.tolist() == [99]


@pytest.mark.parametrize(
    ("growth", "delta", "counter", "scale", "bound"),
    [
        (0.01, 0.0, "kary_tree", 120.0, 11266),
        (0.1, 0.0, "kary_tree", 80.0, 6427),
        (1.0, 0.0, "kary_tree", 40.0, 3390),
        (0.01, 1e-6, "buffered_toeplitz", 26.7192, 1479),
        (0.1, 1e-6, "buffered_toeplitz", 26.7192, 1078),
        (1.0, 1e-6, "buffered_toeplitz", 26.7192, 752),
    ],
)
def test_noise_and_error_bounds_are_those_of_so_many_releases(
    growth: float, delta: float, counter: str, scale: float, bound: float
) -> None:
    """The vectors of RiverSwim S = 6, H = 20, epsilon 1: E over 12 cells, at beta = 0.1/960 of each of 960 sums."""
    config = BernsteinVIConfig(replan_growth=growth)
    privacy = CountPrivacy("jdp", 1.0, delta, families="one_hot", counter="auto")
    privatizer = config.privatizer(RiverSwim(n_states=6, horizon=20).build(), privacy, K, Streams(0, "vectors"))
    counter_used = privatizer.query.counter
    assert (counter_used.name, counter_used.n_items) == (counter, ReleaseSchedule(growth, K - 1).number)
    assert counter_used.node is not None
    assert counter_used.node.scale == pytest.approx(scale, rel=1e-5)
    found = privatizer.query.weighted_precision("transitions", 6, 1, K, 0.1 / 960)
    assert found == pytest.approx(bound, rel=2e-3)
    certificate = privatizer.planned_certificate("x").to_dict()
    assert certificate["releases"] == counter_used.n_items
    assert certificate["verdict"] == "holds"


@pytest.fixture(params=[*COUNTERS, "whole numbers", "ldp"])
def built(request: pytest.FixtureRequest, privatizer_of: Maker) -> Callable[[], CountPrivatizer]:
    """A privatizer for N_USERS users and the releases in TIMES; local reports have no schedule."""
    name, families = request.param, privatizer_of("none").query.families
    privacy: CountPrivacy | CountPrivacy = CountPrivacy("ldp", 1.0)
    if name == "whole numbers":
        privacy = CountPrivacy("jdp", 1.0, 1e-6, families="one_hot", counter="auto", mechanism="discrete_gaussian")
    elif name != "ldp":
        privacy = CountPrivacy("jdp", 1.0, delta=1e-6, counter=name)

    def build() -> CountPrivatizer:
        return privacy.build(families, N_USERS, Streams(3, name), growth=GROWTH)

    return build


def play(privatizer: CountPrivatizer, users: list[UserRecord], first: int = 1) -> dict[int, np.ndarray]:
    """Send all users' records and release on the schedule; return the releases by number of users."""
    found = {}
    for user, record in enumerate(users, start=first):
        send_and_aggregate(privatizer.channel, record.index, record.value, user)
        if user in TIMES:
            release(privatizer.channel)
            found[user] = privatizer.channel.needed.copy()
    return found


def test_releases_are_exact_sums_and_the_counters_noise(privatizer_of: Maker, users_of: Users) -> None:
    """Release j has the noise that a counter with a release after every user has at item j."""
    families, counter = privatizer_of("none").query.families, "binary_tree"
    scheduled = CountPrivacy("jdp", 1.0, counter=counter, families="separate").build(
        families, N_USERS, Streams(3, ""), growth=GROWTH
    )
    assert scheduled.query.counter.n_items == len(TIMES)
    users = users_of(scheduled, N_USERS)
    scheduled.charge(1, N_USERS)
    found = play(scheduled, users)
    exact = np.array([found[user] - play_exactly(families, users[:user]) for user in TIMES])
    node = scheduled.query.counter.node
    assert node is not None
    assert np.isclose(node.scale, len(families.families) * 2 * families.n_steps * 4)  # four levels for eight releases
    # Binary tree: release 3 is the sum of the nodes of items 1-2 and 3; releases 2 and 4 have one node each.
    for a, b in ((0, 1), (1, 3), (3, 7)):
        assert not np.isclose(exact[a], exact[b]).any()
    assert abs(np.abs(exact[[0, 1, 3, 7]]).mean() / node.scale - 1.0) < 0.2


def play_exactly(families: object, users: list[UserRecord]) -> np.ndarray:
    exact = CountPrivacy("none").build(families, N_USERS, Streams(0, "exact"))  # type: ignore[arg-type]
    exact.charge(1, N_USERS)
    for user, record in enumerate(users, start=1):
        send_and_aggregate(exact.channel, record.index, record.value, user)
        release(exact.channel)
    return np.asarray(exact.channel.needed.copy())


def test_a_release_that_is_not_on_the_schedule_is_refused(
    built: Callable[[], CountPrivatizer], users_of: Users
) -> None:
    privatizer = built()
    users = users_of(privatizer, N_USERS)
    privatizer.charge(1, N_USERS)
    play(privatizer, users[:4])
    last = privatizer.release()
    send_and_aggregate(privatizer.channel, users[4].index, users[4].value, 5)
    if not privatizer.server_noise:
        assert privatizer.release().users == 5
        return
    later = privatizer.release()
    assert (later.users, later.values.tolist()) == (4, last.values.tolist())
    send_and_aggregate(privatizer.channel, users[5].index, users[5].value, 6)
    with pytest.raises(LedgerError, match="the schedule has no release after these users"):
        release(privatizer.channel)


def test_every_user_is_released_where_that_is_asked_for_or_printed(privatizer_of: Maker) -> None:
    families = privatizer_of("none").query.families
    for privacy in (CountPrivacy("jdp", 1.0, releases="every_user"), CountPrivacy("jdp", 1.0, calibration="printed")):
        query = privacy.build(families, N_USERS, Streams(0, ""), growth=GROWTH).query
        assert (query.schedule, query.counter.n_items) == (None, N_USERS)
