"""Contract of every privatizer that a compiled loop runs: users are charged first and send once, in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dprl.privacy import GradientLayout, GradientPrivacy, LedgerError, StatisticsPrivacy, Streams
from dprl.privacy.queries.gradients import receive, submit
from dprl.privacy.queries.linear_statistics import add_statistics, send_statistics
from tests.privacy.test_forks import LAWS, LAYOUT, N_USERS, NOISELESS, SEEDED, of_senders

SETTINGS: dict[str, tuple[Any, Any]] = {
    **{law: (build, settings) for law, (build, settings, _) in LAWS.items() if build is not of_senders},
    **{f"{query} without noise": found for query, found in NOISELESS.items()},
}


@pytest.fixture(params=SETTINGS)
def case(request: pytest.FixtureRequest, tabular_families: Any, random_contribution: Any) -> Any:
    """Return a privatizer with seeded noise, and a function that sends and receives a user's message."""
    build, settings = SETTINGS[request.param]
    return build(settings, SEEDED, tabular_families, random_contribution)


def test_users_are_charged_first_and_send_once_in_order(case: Any) -> None:
    privatizer, release = case
    with pytest.raises(LedgerError, match="after the ledger has charged them"):
        release(1, 1)
    privatizer.charge(1, 3)
    for wrong in (0, 2, -1, 4):
        with pytest.raises(LedgerError, match="in order"):
            release(wrong, 1)
    release(1, 1)
    with pytest.raises(LedgerError, match="in order"):
        release(1, 2)
    for first, last in ((1, 3), (3, 4), (5, 6), (4, 3)):
        with pytest.raises(LedgerError, match=f"submission {first} cannot be charged"):
            privatizer.charge(first, last)
    with pytest.raises((LedgerError, ValueError), match="can be charged"):
        privatizer.charge(4, privatizer.capacity + 1)
    assert privatizer.certificate("x").users == 3


def test_a_plan_charges_everybody_and_releases_nothing(case: Any) -> None:
    privatizer = case.privatizer
    planned = privatizer.planned_certificate("x")
    assert (planned.users, privatizer.charged) == (privatizer.n_users, 0)
    privatizer.charge(1, N_USERS)
    assert privatizer.certificate("x").to_dict() == planned.to_dict()


def of_vectors() -> tuple[Any, Callable[[], None], Callable[[], None]]:
    """Return a privatizer, and how its first user sends and its server receives."""
    privatizer, out = GradientPrivacy("none").build(GradientLayout(2), 3, Streams(0, "x")), np.zeros(2)
    return (privatizer, lambda: submit(privatizer.channel, np.ones(2), 1), lambda: receive(privatizer.channel, out))


def of_sums() -> tuple[Any, Callable[[], None], Callable[[], None]]:
    """The same of linear statistics."""
    privatizer = StatisticsPrivacy("none").build(LAYOUT, 3, Streams(0, "x"))
    given, sums = (np.zeros((2, 3, 2)), np.zeros((2, 3)), np.zeros((2, 3, 2))), np.zeros((2, 3, 2, 2))
    return (
        privatizer,
        lambda: send_statistics(privatizer.channel, *given, 1),
        lambda: add_statistics(privatizer.channel, sums, np.zeros((2, 3, 2)), np.zeros((2, 3, 2))),
    )


@pytest.mark.parametrize("made", [of_vectors, of_sums])
def test_a_message_is_received_once_after_it_was_sent(made: Callable[[], Any]) -> None:
    """Counts have their own test; no state is written while a message is under way."""
    privatizer, sends, receives = made()
    with pytest.raises(LedgerError, match="after it was sent"):
        receives()
    privatizer.charge(1, 3)
    sends()
    with pytest.raises(LedgerError, match="a message is under way"):
        privatizer.state_dict()
    receives()
    with pytest.raises(LedgerError, match="received once"):
        receives()
