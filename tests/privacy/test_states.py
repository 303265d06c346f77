"""Names, shapes and types of a state are checked before any of it is used."""

from __future__ import annotations

import numpy as np
import pytest

from dprl.privacy import Privatizer
from dprl.privacy.privatizer import digest_of


def test_a_digest_tells_names_shapes_types_and_values_apart_and_no_order() -> None:
    arrays = {"a": np.zeros(2), "b": np.ones(2)}
    others: list[dict[str, np.ndarray]] = [
        {"a": np.ones(2), "b": np.zeros(2)},
        {"a": np.zeros(2), "c": np.ones(2)},
        {"a": np.zeros((2, 1)), "b": np.ones(2)},
        {"a": np.zeros(2, dtype=np.int64), "b": np.ones(2)},
        {"a": np.zeros(2)},
    ]
    found = {digest_of("words", some).tobytes() for some in (arrays, *others)} | {digest_of("word", arrays).tobytes()}
    assert len(found) == 7
    assert np.array_equal(digest_of("words", {name: arrays[name] for name in ("b", "a")}), digest_of("words", arrays))


@pytest.mark.parametrize(
    "array",
    [None, np.array(3), np.zeros(0, dtype=np.int64), np.ones((2, 2), dtype=np.int64), np.array([np.inf]), ["x"]],
)
def test_charges_in_another_mapping_are_reported_without_an_error(array: np.ndarray | None) -> None:
    assert Privatizer.charged_in({} if array is None else {"counts": array}) == -1
    assert Privatizer.charged_in({"counts": np.array([4, 5])}) == 4
