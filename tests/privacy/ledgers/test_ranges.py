"""A set of ranges is the set of its numbers."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from dprl.privacy.messages import RangeSet

SPANS = st.lists(st.tuples(st.integers(1, 30), st.integers(-1, 6)), max_size=12)


def built(spans: list[tuple[int, int]]) -> tuple[RangeSet, set[int]]:
    ranges, numbers = RangeSet(), set()
    for first, length in spans:
        ranges.add(first, first + length)
        numbers |= set(range(first, first + length + 1))
    return ranges, numbers


@given(SPANS, st.integers(1, 40), st.integers(0, 8))
def test_it_holds_what_was_added(spans: list[tuple[int, int]], first: int, length: int) -> None:
    ranges, numbers = built(spans)
    asked = range(first, first + length)
    assert [n for start, stop in ranges.to_array() for n in range(start, stop + 1)] == sorted(numbers)
    assert ranges.last == max(numbers, default=0)
    assert ranges.first_common(first, first + length - 1) == min(numbers & set(asked), default=None)


@given(SPANS)
def test_ranges_that_touch_are_one(spans: list[tuple[int, int]]) -> None:
    ranges = built(spans)[0].to_array().tolist()
    assert all(stop + 1 < start for (_, stop), (start, _) in pairwise(ranges))
