"""Blocks come out in the order of their slots, each once, for any order of arrival."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dprl.algorithms.pgc.aggregator import ReorderBuffer


@given(st.lists(st.integers(1, 4), min_size=1, max_size=9), st.randoms(use_true_random=False))
def test_blocks_come_out_in_order_as_soon_as_they_can(lengths: list[int], order: object) -> None:
    ends = [sum(lengths[: i + 1]) for i in range(len(lengths))]
    blocks = [(end - length + 1, end) for end, length in zip(ends, lengths, strict=True)]
    arriving = list(blocks)
    order.shuffle(arriving)  # type: ignore[attr-defined]
    waiting: ReorderBuffer[tuple[int, int]] = ReorderBuffer()
    out: list[tuple[int, int]] = []
    for i, block in enumerate(arriving, start=1):
        assert not waiting.has(*block)
        out += waiting.put(*block, block)
        assert all(waiting.has(slot, slot) for slot in range(block[0], block[1] + 1))
        there = set(arriving[:i])
        missing = [other for other in blocks if other not in there]
        assert out == [other for other in blocks if not missing or other < missing[0]]
        assert waiting.taken == (out[-1][1] if out else 0)


def test_a_buffer_can_begin_later() -> None:
    waiting: ReorderBuffer[str] = ReorderBuffer(taken=5)
    assert waiting.has(5, 6)
    assert waiting.put(7, 9, "later") == []
    assert waiting.put(6, 6, "next") == ["next", "later"]
