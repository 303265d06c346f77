"""Users added without a release: later releases, charges and states are the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from dprl.privacy import CountPrivacy, CountPrivatizer, Streams, UserRecord
from dprl.privacy.counters import COUNTERS
from dprl.privacy.queries.count_layout import RELEASED_FAMILIES
from dprl.privacy.queries.counts import release, send_and_aggregate

Users = Callable[[CountPrivatizer, int], list[UserRecord]]
Maker = Callable[..., CountPrivatizer]
N_USERS = 21
READ = ({21}, {1, 4, 5, 11, 12, 16, 21}, {8, 16, 17}, set(range(2, 22, 3)))
LOCAL = {
    "separate": ("laplace", "discrete_laplace"),
    "one_hot": ("gaussian", "laplace", "sampled_optimized_unary_encoding", "sampled_direct_encoding"),
}
SETTINGS: dict[str, CountPrivacy] = {
    f"{counter}, {families}": CountPrivacy("jdp", 1.0, delta=1e-6, counter=counter, families=families)
    for counter in sorted(COUNTERS)
    for families in RELEASED_FAMILIES
} | {
    f"{mechanism}, {families}": CountPrivacy("ldp", 1.0, delta=1e-6, mechanism=mechanism, families=families)
    for families, mechanisms in LOCAL.items()
    for mechanism in mechanisms
}


def run(privatizer: CountPrivatizer, users: list[UserRecord], read: set[int], first: int = 1) -> dict[int, np.ndarray]:
    """Release after the users in `read`, add the others without a release; return the releases by user."""
    released = {}
    for user, contribution in enumerate(users[first - 1 :], start=first):
        if user in read:
            send_and_aggregate(privatizer.channel, contribution.index, contribution.value, user)
            release(privatizer.channel)
            released[user] = privatizer.channel.needed.copy()
        else:
            send_and_aggregate(privatizer.channel, contribution.index, contribution.value, user)
    return released


def charged(privatizer: CountPrivatizer) -> CountPrivatizer:
    privatizer.charge(1, N_USERS)
    return privatizer


@pytest.mark.parametrize("name", SETTINGS)
def test_later_releases_are_those_of_a_release_after_every_user(
    name: str, users_of: Users, privatizer_of: Maker
) -> None:
    families = privatizer_of("none").query.families

    def built() -> CountPrivatizer:
        return charged(SETTINGS[name].build(families, N_USERS, Streams(3, name)))

    users = users_of(built(), N_USERS)
    every = run(built(), users, set(range(1, N_USERS + 1)))
    for read in READ:
        some = run(built(), users, read)
        assert some.keys() == read
        assert all(np.array_equal(some[user], every[user]) for user in read)


def test_the_certificate_and_the_report_are_those_of_an_exchange(
    kind: str, users_of: Users, privatizer_of: Maker
) -> None:
    released, unreleased = charged(privatizer_of(kind)), charged(privatizer_of(kind))
    for user, contribution in enumerate(users_of(released, N_USERS), start=1):
        send_and_aggregate(released.channel, contribution.index, contribution.value, user)
        release(released.channel)
        send_and_aggregate(unreleased.channel, contribution.index, contribution.value, user)
        assert np.array_equal(released.channel.message, unreleased.channel.message)
        assert np.array_equal(released.channel.totals, unreleased.channel.totals)
    assert unreleased.certificate("x").to_dict() == released.certificate("x").to_dict()


def test_what_a_learner_could_read_meanwhile_is_the_last_release(
    kind: str, users_of: Users, privatizer_of: Maker
) -> None:
    privatizer = charged(privatizer_of(kind))
    users = users_of(privatizer, 9)
    last = run(privatizer, users[:5], {5})[5]
    run(privatizer, users, set(), first=6)
    if privatizer.trust_model == "jdp":
        assert np.array_equal(privatizer.channel.needed, last)
    assert privatizer.release().users == 9
