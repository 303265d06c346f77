"""Items come out in the order of their numbers, each once, whatever the order in which they came in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dprl.algorithms.pgc.in_order import InOrder


@given(st.permutations(range(1, 9)), st.integers(1, 8))
def test_they_come_out_in_order_as_soon_as_they_can(arriving: list[int], at_once: int) -> None:
    waiting: InOrder[str] = InOrder()
    out: list[str] = []
    for start in range(0, 8, at_once):
        numbers = arriving[start : start + at_once]
        assert not any(waiting.has(number) for number in numbers)
        out += waiting.put(numbers, [str(number) for number in numbers])
        assert all(waiting.has(number) for number in numbers)
        there = set(arriving[: start + at_once])
        first_missing = min(set(range(1, 10)) - there)
        assert out == [str(number) for number in range(1, first_missing)]
        assert waiting.taken == len(out)


def test_one_can_begin_later() -> None:
    waiting: InOrder[int] = InOrder(taken=5)
    assert waiting.has(5)
    assert waiting.put([7, 6], [70, 60]) == [60, 70]
