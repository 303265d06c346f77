"""Names, shapes and types of a state are checked before any of it is used."""

from __future__ import annotations

import numpy as np
import pytest

from dprl.privacy import CountFamilies, CountFamily, CountPrivacy, LedgerError, NoiseConfig, Privatizer, Streams
from dprl.privacy.privatizer import check_arrays, check_sealed, digest_of, part_of, sealed

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


def test_what_was_sealed_is_taken_back_and_nothing_else() -> None:
    own, state = sealed("one run", OWN), sealed("one run", {**OWN, "a": np.ones(3)})
    check_sealed(state, own, "one run")
    with pytest.raises(ValueError, match="of other noise, another seed or other settings"):
        check_sealed(sealed("another run", OWN), own, "one run")
    for name, other in (("a", np.full(3, 2.0)), ("b", np.ones((2, 2), dtype=np.int64))):
        with pytest.raises(ValueError, match="not the one that was written"):
            check_sealed(state | {name: other}, own, "one run")
    with pytest.raises(ValueError, match="'digest' is missing"):
        check_sealed({name: array for name, array in state.items() if name != "digest"}, own, "one run")


def test_a_seal_does_not_hold_on_to_what_a_run_still_writes_into() -> None:
    array = np.zeros(2)
    state = sealed("run", {"a": array})
    array[0] = 1.0
    assert not state["a"].any()


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


def test_noise_of_the_operating_system_is_not_written_down() -> None:
    families, streams = CountFamilies(1, (CountFamily("visits", 2),)), Streams(0, "x", NoiseConfig(entropy="os"))
    with pytest.raises(LedgerError, match="entropy: os has no checkpoints"):
        CountPrivacy("ldp", 1.0).build(families, 3, streams).state_dict()
