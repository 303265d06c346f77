"""Refusals of a privatizer of counts: second messages, foreign messages, invalid values, noise without a kernel."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dprl.privacy import CountFamilies, CountFamily, CountPrivacy, CountPrivatizer, LedgerError, Streams, UserRecord
from dprl.privacy.base import Guarantee
from dprl.privacy.counters import BinaryTree, ExactCounter
from dprl.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.mechanisms.reports import UnaryEncoder
from dprl.privacy.queries.count_layout import CountEncoding
from dprl.privacy.queries.counts import SUMS, CountQuery, add_message, encode, send_and_aggregate
from tests.privacy.by_hand import design_of
from tests.privacy.conftest import KINDS
from tests.privacy.sending import message_of, sent

Families = Callable[..., CountFamilies]
Users = Callable[[CountPrivatizer, int], list[UserRecord]]
Maker = Callable[..., CountPrivatizer]
HORIZON = 4
ONE_OF_EACH = pytest.mark.parametrize("kind", ["none", "jdp", "ldp, sampled"])
"""Raw records, sums and bits: the simplest privatizer that some tests need."""
SHAPES = [(1, 1), (HORIZON, 2), (HORIZON + 1, 3)]


def test_the_ledger_is_charged_before_the_message_exists(
    privatizer: CountPrivatizer, monkeypatch: pytest.MonkeyPatch, users_of: Users
) -> None:
    charged: list[int] = []

    def watched(*arguments: Any) -> None:
        charged.append(privatizer.ledger.users_charged)
        encode(*arguments)

    monkeypatch.setattr("dprl.privacy.queries.counts.encode", watched)
    message_of(privatizer, users_of(privatizer, 1)[0], 1)
    assert charged == [1]


@pytest.mark.parametrize(
    ("index", "value"), [(0, 7.0), (-5, math.nan), (10**9, math.inf), (-5, -3.0), (10**9, -math.inf)]
)
def test_whatever_a_device_holds_its_message_stays_within_the_sensitivity(
    kind: str, privatizer: CountPrivatizer, index: int, value: float, privatizer_of: Maker
) -> None:
    released = privatizer.query.encoding.released
    shape = (HORIZON, len(privatizer.query.families.families))
    blank = privatizer_of(kind)
    extreme = UserRecord(np.full(shape, index, dtype=np.int64), np.full(shape, value))
    nothing = UserRecord(np.zeros(shape, dtype=np.int64), np.zeros(shape))
    given, other = message_of(privatizer, extreme, 1), message_of(blank, nothing, 1)
    if privatizer.channel.kind != SUMS:
        assert np.isin(given[-released.block :], (0.0, 1.0)).all()
        assert given.shape == other.shape
        return
    rows = (given - other).reshape(released.n_steps, released.block)
    assert np.abs(rows).max() <= 1 + 1e-9
    for start, family in zip(released.offsets(), released.families, strict=True):
        per_step = np.abs(rows[:, start : start + family.width]).sum(axis=1)
        assert np.all(per_step <= 2 + 1e-9)


def test_a_message_is_received_once_and_in_order(privatizer: CountPrivatizer, users_of: Users) -> None:
    first, second = users_of(privatizer, 2)
    message_of(privatizer, first, 1)
    assert not privatizer.release().values.any()
    add_message(privatizer.channel)
    assert privatizer.release().users == 1
    with pytest.raises(LedgerError, match="received once, after it was sent"):
        add_message(privatizer.channel)
    assert sent(privatizer, second, 2).users == 2


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith("ldp")])
def test_noise_that_cannot_be_drawn_leaves_no_record_behind(privatizer: CountPrivatizer, users_of: Users) -> None:
    channel, record = privatizer.channel, users_of(privatizer, 1)[0]
    other = channel.noise.key.copy()
    other[0] = 77
    privatizer.charge(1, 1)
    with pytest.raises(ValueError, match="key must begin with the code of its generator"):
        encode(channel._replace(noise=channel.noise._replace(key=other)), record.index, record.value, 1)
    assert set(channel.message[1:]) == {0.0}  # the first number may be the step that was drawn


def test_counts_are_immutable(privatizer: CountPrivatizer, users_of: Users) -> None:
    released = sent(privatizer, users_of(privatizer, 1)[0], 1)
    with pytest.raises(ValueError, match="read-only"):
        released.values[0] = 1.0
    with pytest.raises(ValueError, match="cannot set WRITEABLE"):
        released.values.flags.writeable = True
    with pytest.raises(KeyError, match="no count family"):
        privatizer.query.family(privatizer.release(), "visit")


@ONE_OF_EACH
@pytest.mark.parametrize("dtype", [np.float64, np.complex128, object])
def test_indices_that_are_no_integers_are_refused_before_the_charge(privatizer: CountPrivatizer, dtype: type) -> None:
    with pytest.raises(ValueError, match="one cell per step and family"):
        message_of(privatizer, UserRecord(np.zeros((HORIZON, 3), dtype=dtype), np.zeros((HORIZON, 3))), 1)
    assert privatizer.ledger.users_charged == 0


@pytest.mark.parametrize("shape", SHAPES)
def test_records_of_another_shape_are_refused_uncharged(privatizer: CountPrivatizer, shape: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="one cell per step and family"):
        message_of(privatizer, UserRecord(np.zeros(shape, dtype=np.int64), np.zeros(shape)), 1)
    assert privatizer.ledger.users_charged == 0
    privatizer.charge(1, 1)
    right = (HORIZON, 3)
    for index, value in ((shape, right), (right, shape)):
        with pytest.raises(ValueError, match="fill every slot"):
            send_and_aggregate(privatizer.channel, np.zeros(index, dtype=np.int64), np.ones(value), 1)
    assert not privatizer.channel.totals.any()
    send_and_aggregate(privatizer.channel, np.zeros(right, dtype=np.int64), np.ones(right), 1)


def test_a_privatizer_without_users_and_a_beta_that_is_no_probability_are_refused(
    privatizer: CountPrivatizer, tabular_families: Families
) -> None:
    for settings in (CountPrivacy("none"), CountPrivacy("jdp", 1.0), CountPrivacy("ldp", 1.0)):
        with pytest.raises(ValueError, match="at least 1"):
            settings.build(tabular_families(2), 0, Streams(0, "nobody"))
    for beta in (0.0, 1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="beta must lie in"):
            privatizer.precision(beta)


def test_a_counter_that_the_kernels_do_not_run_is_refused(tabular_families: Families) -> None:
    class Cheap(BinaryTree):
        @property
        def levels(self) -> int:
            return 1

    with pytest.raises(LedgerError, match="cannot run a counter of type Cheap"):
        CountQuery(CountEncoding(tabular_families(2)), None, Cheap(9, Laplace(1.0)))


def test_nothing_is_certified_that_was_not_charged(privatizer: CountPrivatizer, users_of: Users) -> None:
    sent(privatizer, users_of(privatizer, 1)[0], 1)
    privatizer.certificate("x")
    for cursor in ([1, 0, 1, 1, 1], [2, 1, 1, 1, 1], [1, 1, 2, 1, 1], [1, 2, 2, 1, 1], [1, 1, 1, 2, 1]):
        privatizer.channel.cursor[:] = cursor
        with pytest.raises(LedgerError, match="more was sent than was charged"):
            privatizer.certificate("x")


def test_whole_number_noise_hides_the_fractions_of_values_too(tabular_families: Families) -> None:
    for settings in (CountPrivacy(model, 1.0, mechanism="discrete_laplace") for model in ("jdp", "ldp")):
        privatizer = settings.build(tabular_families(HORIZON), 9, Streams(0, "fractions"))
        contribution = UserRecord(np.zeros((HORIZON, 3), dtype=np.int64), np.full((HORIZON, 3), 0.25))
        counts = sent(privatizer, contribution, 1)
        assert not (counts.values % 1).any()
    query = CountQuery(CountEncoding(tabular_families(HORIZON)), None, BinaryTree(9, DiscreteLaplace(100.0)))
    with pytest.raises(LedgerError, match="hides whole numbers only"):
        query.events("seeded")


def test_a_unary_law_of_another_shape_is_refused(tabular_families: Families) -> None:
    settings = CountPrivacy("ldp", 1.0, mechanism="sampled_optimized_unary_encoding", families="one_hot")
    query = settings.build(tabular_families(HORIZON), 9, Streams(0, "rows")).query
    assert isinstance(query.report, UnaryEncoder)
    own = query.report
    for law in (dataclasses.replace(own, n_steps=1), dataclasses.replace(own, width=2)):
        with pytest.raises(LedgerError, match="the encoding has others"):
            dataclasses.replace(query, report=law)


@pytest.mark.parametrize("model", ["none", "jdp", "ldp"])
@pytest.mark.parametrize("sides", [(False, False), (False, True), (True, False), (True, True)])
def test_noise_on_other_sides_than_those_of_the_trust_model_is_refused(
    tabular_families: Families, model: str, sides: tuple[bool, bool]
) -> None:
    law, node = (Laplace(1.0) if noisy else None for noisy in sides)
    counter = ExactCounter(9) if node is None else BinaryTree(9, node)
    query = CountQuery(CountEncoding(tabular_families(2)), law, counter)
    asked = None if model == "none" else Guarantee(model, 1.0)
    if sides == {"none": (False, False), "jdp": (False, True), "ldp": (True, False)}[model]:
        assert design_of(query, 9, asked).model == model
    else:
        with pytest.raises(LedgerError, match=r"noise on \(the client's side, the server's side\) must be"):
            design_of(query, 9, asked)


def test_a_channel_does_not_print_what_is_not_released(privatizer: CountPrivatizer) -> None:
    assert "totals" not in repr(privatizer.channel)
    assert "array" not in repr(privatizer)


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        ("jdp", {"epsilon": 0}, "epsilon must be finite and above 0, got 0"),
        ("ldp", {"epsilon": float("nan")}, "got nan"),
        ("ldp", {"epsilon": float("inf")}, "write model: none"),
        ("ldp", {"epsilon": True}, "epsilon must be a number"),
        ("jdp", {"epsilon": "1"}, "epsilon must be a number"),
        ("jdp", {"epsilon": 1e-300}, "between 1e-9 and 1e9"),
        ("jdp", {"epsilon": 10**400}, "between 1e-9 and 1e9"),
        ("jdp", {"epsilon": 1.0, "delta": 1.0}, "delta must be 0 .* or lie in"),
        ("ldp", {"epsilon": 1.0, "delta": 1e-16}, "delta must be 0 .* or lie in"),
        ("jdp", {"epsilon": 1.0, "counter": "exact"}, "counter must be one of binary_tree"),
        ("ldp", {"epsilon": 1.0, "delta": 1e-6, "calibration": "printed"}, "delta must be 0 with .* calibration"),
    ],
)
def test_bad_settings_are_refused_in_one_line(kind: str, values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        CountPrivacy(kind, **values)
    assert "\n" not in str(caught.value)


def test_encodings_of_equal_noise_share_no_stream() -> None:
    # With equal noise on other families, the difference of two releases would be exact.
    contribution = UserRecord(np.zeros((1, 2), dtype=np.int64), np.ones((1, 2)))
    released = []
    for widths in ((4, 2), (3, 3)):
        families = CountFamilies(1, tuple(CountFamily(f"f{i}", width) for i, width in enumerate(widths)))
        privatizer = CountPrivacy("jdp", 1.0).build(families, 3, Streams(0, "same"))
        released.append(sent(privatizer, contribution, 1).values)
    assert (np.abs(released[0] - released[1]) > 1.5).any()


def test_whole_number_noise_is_refused_on_indicators_that_a_device_could_cut() -> None:
    families = CountFamilies(1, (CountFamily("a", 3), CountFamily("b", 2)))
    query = CountQuery(CountEncoding(families), None, BinaryTree(3, DiscreteLaplace(5.0)))
    with pytest.raises(LedgerError, match="hides whole numbers only"):
        query.events("seeded")
