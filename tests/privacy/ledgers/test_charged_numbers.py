"""In any order of calls, every submission is charged exactly once, and the journal has all charges."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dprl.privacy import LedgerError
from tests.privacy.ledgers.cases import CAP, N_AGENTS, Notes, agents

MOST = N_AGENTS * CAP
CALLS = st.lists(st.tuples(st.integers(-1, MOST + 2), st.integers(-1, 8)), max_size=12)


@given(CALLS)
def test_a_ledger_is_the_set_of_submissions_that_the_rules_allow(calls: list[tuple[int, int]]) -> None:
    journal, charged = Notes(), 0
    ledger = agents(journal=journal)
    for first, more in calls:
        last = first + more
        allowed = charged + 1 == first <= last <= MOST
        try:
            ledger.charge(first, last)
        except (LedgerError, ValueError):
            assert not allowed
        else:
            assert allowed
            charged = last
        assert (ledger.charged, ledger.users_charged) == (charged, min(charged, N_AGENTS))
        assert (journal.attempts or [0])[-1] == charged
    assert agents(journal=journal).charged == charged
