"""Whatever is asked in whatever order, no submission is charged twice, none is left out, and the journal has all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprl.privacy import LedgerError
from tests.privacy.ledgers.cases import CAP, N_AGENTS, Notes, agents

MOST = N_AGENTS * CAP
RANGES = st.tuples(st.integers(-1, MOST + 2), st.integers(-1, 8)).map(lambda span: (span[0], span[0] + span[1]))
CALLS = st.lists(RANGES | st.lists(st.integers(1, N_AGENTS), min_size=1, max_size=4), max_size=12)


def wanted(call: tuple[int, int] | list[int], charged: set[int]) -> set[int]:
    """The submissions that a call may charge by the rules alone; empty if it must be refused."""
    if isinstance(call, tuple):
        asked = list(range(call[0], call[1] + 1))
    else:
        before = [sum(1 for number in charged if number % N_AGENTS == agent % N_AGENTS) for agent in call]
        asked = [(before[i] + call[:i].count(agent)) * N_AGENTS + agent for i, agent in enumerate(call)]
    new = set(asked)
    earlier = {number - N_AGENTS for number in new if number > N_AGENTS}
    fine = all(1 <= number <= MOST for number in new) and not new & charged and earlier <= charged | new
    return new if fine else set()


@given(CALLS)
def test_a_ledger_is_the_set_of_submissions_that_the_rules_allow(calls: list[tuple[int, int] | list[int]]) -> None:
    journal, charged = Notes(), set[int]()
    ledger = agents(journal=journal)
    for call in calls:
        new = wanted(call, charged)
        try:
            ledger.charge_range(*call) if isinstance(call, tuple) else ledger.charge_all(call)
        except LedgerError:
            assert not new
        else:
            assert new
        charged |= new
        assert {n for first, last in ledger.ranges for n in range(first, last + 1)} == charged
    numbers = [(number - 1) * N_AGENTS + agent for agent, number in journal.lines]
    assert sorted(numbers) == sorted(charged)
    assert agents(journal=journal).ranges == ledger.ranges


@pytest.mark.parametrize("kept", [0, 3, 9])
def test_a_journal_that_lost_its_last_lines_lets_nobody_submit_again(kept: int) -> None:
    """What a state says was charged stays charged, and is charged no second time under the same numbers."""
    journal = Notes()
    before = agents(journal=journal)
    before.charge_range(1, 9)
    state, journal.lines = before.state_dict(), journal.lines[:kept]
    after = agents(journal=journal)
    after.load_state_dict(state)
    assert after.ranges == [(1, 9)]
    with pytest.raises(LedgerError, match="submission 9 cannot be charged: it is charged already"):
        after.charge_range(9, 10)
    assert after.charge_all([5, 1]).tolist() == [2, 3]
    assert after.ranges == [(1, 11)]
