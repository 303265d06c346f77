"""States are checked by name, shape and type, before anything of them is used."""

from __future__ import annotations

import numpy as np
import pytest

from dprl.privacy.states import check_arrays, part_of

OWN = {"a": np.zeros(3), "b": np.zeros((2, 2), dtype=np.int64)}


def test_the_same_arrays_pass_and_others_may_stand_beside_them() -> None:
    check_arrays({"a": np.ones(3), "b": np.ones((2, 2), dtype=np.int64), "c": np.ones(1)}, OWN)


@pytest.mark.parametrize(
    ("name", "array"), [("a", None), ("a", np.zeros(4)), ("a", np.zeros(3, dtype=np.float32)), ("b", np.zeros((2, 2)))]
)
def test_others_are_refused_by_name(name: str, array: np.ndarray | None) -> None:
    state = {key: value for key, value in {**OWN, name: array}.items() if value is not None}
    with pytest.raises(ValueError, match=f"the state's '{name}' is missing or of another shape; resume with the same"):
        check_arrays(state, OWN)


def test_a_part_has_names_without_the_prefix() -> None:
    assert list(part_of({"inner.a": OWN["a"], "a": OWN["a"], "inner.inner.b": OWN["b"]}, "inner.")) == ["a", "inner.b"]
