"""A ledger charges ranges of submissions as it charges them one by one."""

from __future__ import annotations

import pytest

from dprl.privacy import (
    LedgerError,
    SubmissionLedger,
)
from tests.privacy.ledgers.cases import AGENTS, N_AGENTS, Notes, agents, laplace


def test_a_range_is_charged_as_its_submissions_one_after_the_other() -> None:
    journals = Notes(), Notes()
    together, apart = (agents(journal=journal) for journal in journals)
    for first, last in [(1, 2), (3, 9), (10, 10), (11, 15)]:
        together.charge_range(first, last)
        numbers = apart.charge_all([n % N_AGENTS + 1 for n in range(first - 1, last)])
        assert numbers.tolist() == [n // N_AGENTS + 1 for n in range(first - 1, last)]
        assert together.submitted.tolist() == apart.submitted.tolist()
        assert together.users_charged == min(last, N_AGENTS)
    assert journals[0].lines == journals[1].lines
    assert (together.ranges, together.charged) == ([(1, 15)], 15)


@pytest.mark.parametrize(
    ("first", "last", "rule"),
    [
        (3, 4, "submission 3 cannot be charged: it is charged already"),
        (2, 6, "submission 2 cannot be charged: it is charged already"),
        (14, 16, r"submissions 14\.\.16 cannot be charged: 5 agents submit 3 times at most"),
        (0, 0, r"submissions 0\.\.0 cannot be charged"),
        (6, 5, r"submissions 6\.\.5 cannot be charged"),
        (9, 9, r"submissions 9\.\.9 cannot be charged: an agent would leave out an earlier one"),
        (5, 11, r"submissions 5\.\.11 cannot be charged: an agent would leave out an earlier one"),
    ],
)
def test_a_range_that_cannot_be_charged_charges_nothing(first: int, last: int, rule: str) -> None:
    ledger = agents(journal=(journal := Notes()))
    ledger.charge_all([2, 3])
    if first == 5:
        ledger.charge(4)
    before = ledger.ranges, list(journal.lines)
    with pytest.raises(LedgerError, match=rule):
        ledger.charge_range(first, last)
    assert (ledger.ranges, journal.lines) == before


def test_ranges_survive_in_a_journal_in_pieces() -> None:
    journal = Notes()
    first = agents(journal=journal)
    first.charge_range(1, 7)
    first.charge_all([5, 4])
    second = agents(journal=journal)
    assert second.ranges == first.ranges == [(1, 7), (9, 10)]
    with pytest.raises(LedgerError, match="submission 9 cannot be charged: it is charged already"):
        second.charge_range(8, 12)
    second.charge_range(8, 8)
    assert second.ranges == [(1, 10)]


def test_a_ledger_of_many_agents_takes_no_memory_for_each() -> None:
    ledger = SubmissionLedger("ldp", [laplace()], AGENTS, 10**12, 2)
    ledger.charge_range(1, 10**12 + 7)
    assert (ledger.users_charged, ledger.charged) == (10**12, 10**12 + 7)
