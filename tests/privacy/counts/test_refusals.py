"""What a privatizer refuses: second messages, forged or foreign reports, other noise, wild values, bad settings."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dprl.privacy import (
    CentralPrivacy,
    Contribution,
    CountFamilies,
    CountFamily,
    Layout,
    LedgerError,
    LocalPrivacy,
    NoiseParts,
    NoPrivacy,
    PrivateCounts,
    Privatizer,
    Report,
    Streams,
)
from dprl.privacy.counters import BinaryTree
from dprl.privacy.counts.exchange import SUMS, encode, exchange
from dprl.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.mechanisms.unary_report import UnaryReport

Families = Callable[..., CountFamilies]
Users = Callable[[Privatizer, int], list[Contribution]]
Maker = Callable[..., Privatizer]
HORIZON, N_USERS = 4, 21
ONE_OF_EACH = pytest.mark.parametrize("kind", ["none", "jdp", "ldp, sampled"])
"""Raw records, sums and bits: for what depends on nothing else of a privatizer."""


def test_a_user_submits_once_and_in_order(privatizer: Privatizer, users_of: Users) -> None:
    contribution = users_of(privatizer, 1)[0]
    privatizer.encode(contribution, 1)
    with pytest.raises(LedgerError, match="user 1 cannot submit"):
        privatizer.encode(contribution, 1)
    with pytest.raises(LedgerError, match="user 3 cannot submit"):
        privatizer.encode(contribution, 3)
    with pytest.raises(ValueError, match="at most 21 users may submit"):
        privatizer.charge(2, N_USERS + 1)


def test_the_ledger_is_charged_before_the_message_exists(
    privatizer: Privatizer, monkeypatch: pytest.MonkeyPatch, users_of: Users
) -> None:
    charged: list[int] = []

    def watched(*arguments: Any) -> None:
        charged.append(privatizer.ledger.users_charged)
        encode(*arguments)

    monkeypatch.setattr("dprl.privacy.counts.privatizers.encode", watched)
    privatizer.encode(users_of(privatizer, 1)[0], 1)
    assert charged == [1]


@pytest.mark.parametrize(
    ("index", "value"), [(0, 7.0), (-5, math.nan), (10**9, math.inf), (-5, -3.0), (10**9, -math.inf)]
)
def test_whatever_a_device_holds_its_message_stays_within_the_sensitivity(
    kind: str, privatizer: Privatizer, index: int, value: float, privatizer_of: Maker
) -> None:
    released = privatizer.layout.released
    shape = (HORIZON, len(privatizer.families.families))
    blank = privatizer_of(kind)
    extreme = Contribution(np.full(shape, index, dtype=np.int64), np.full(shape, value))
    nothing = Contribution(np.zeros(shape, dtype=np.int64), np.zeros(shape))
    sent, other = privatizer.encode(extreme, 1).values, blank.encode(nothing, 1).values
    if privatizer.channel.sender.kind != SUMS:
        assert np.isin(sent[-released.block :], (0.0, 1.0)).all()
        assert sent.shape == other.shape
        return
    rows = (sent - other).reshape(released.n_steps, released.block)
    assert np.abs(rows).max() <= 1 + 1e-9
    for start, family in zip(released.offsets(), released.families, strict=True):
        per_step = np.abs(rows[:, start : start + family.width]).sum(axis=1)
        assert np.all(per_step <= 2 + 1e-9)


def test_a_report_is_absorbed_once_and_in_order(privatizer: Privatizer, users_of: Users) -> None:
    contributions = users_of(privatizer, 2)
    first, second = privatizer.encode(contributions[0], 1), privatizer.encode(contributions[1], 2)
    with pytest.raises(LedgerError, match="absorbed once, in order"):
        privatizer.absorb(second)
    assert not privatizer.private_counts().values.any()
    assert privatizer.absorb(first).n_users == 1
    with pytest.raises(LedgerError, match="absorbed once, in order"):
        privatizer.absorb(first)
    with pytest.raises(TypeError, match="issued by a Privatizer only"):
        dataclasses.replace(first, user=2)
    assert privatizer.absorb(second).n_users == 2


def test_the_compiled_exchange_refuses_whom_the_ledger_has_not_charged(privatizer: Privatizer, users_of: Users) -> None:
    contribution = users_of(privatizer, 1)[0]
    with pytest.raises(LedgerError, match="after the ledger has charged them"):
        exchange(privatizer.channel, contribution.index, contribution.value, 1)
    assert not privatizer.channel.sender.message.any()
    privatizer.charge(1, 1)
    exchange(privatizer.channel, contribution.index, contribution.value, 1)
    message = privatizer.channel.sender.message.copy()
    with pytest.raises(LedgerError, match="one message each"):
        exchange(privatizer.channel, contribution.index + 1, contribution.value, 1)
    assert np.array_equal(privatizer.channel.sender.message, message)


def test_a_user_who_has_sent_a_report_sends_no_second_one(privatizer: Privatizer, users_of: Users) -> None:
    first, other = users_of(privatizer, 2)
    privatizer.encode(first, 1)
    with pytest.raises(LedgerError, match="one message each"):
        exchange(privatizer.channel, other.index, other.value, 1)


@pytest.mark.parametrize("other", ["none", "jdp", "ldp"])
def test_a_report_of_another_privatizer_is_refused(
    privatizer: Privatizer, other: str, users_of: Users, privatizer_of: Maker
) -> None:
    contribution = users_of(privatizer, 1)[0]
    foreign = privatizer_of(other).encode(contribution, 1)
    privatizer.charge(1, 1)
    with pytest.raises(LedgerError, match="by the privatizer that encoded it"):
        privatizer.absorb(foreign)


def test_a_reports_seal_does_not_open_private_counts(privatizer: Privatizer, users_of: Users) -> None:
    report = privatizer.encode(users_of(privatizer, 1)[0], 1)
    with pytest.raises(TypeError, match="issued by a Privatizer only"):
        PrivateCounts(privatizer.families, report.values, 1, report.seal)  # type: ignore[arg-type]
    counts = privatizer.absorb(report)
    with pytest.raises(TypeError, match="issued by a Privatizer only"):
        dataclasses.replace(counts, n_users=77)


def test_copies_of_sealed_numbers_are_as_immutable_as_the_originals(privatizer: Privatizer, users_of: Users) -> None:
    report = privatizer.encode(users_of(privatizer, 1)[0], 1)
    for issued in (report, privatizer.absorb(report)):
        for twin_of in (copy.deepcopy(issued), pickle.loads(pickle.dumps(issued))):
            assert np.array_equal(twin_of.values, issued.values)
            with pytest.raises(ValueError, match="read-only"):
                twin_of.values[0] = 1.0


@ONE_OF_EACH
@pytest.mark.parametrize("dtype", [np.float64, np.complex128, object])
def test_indices_that_are_no_integers_are_refused_before_the_charge(privatizer: Privatizer, dtype: type) -> None:
    with pytest.raises(ValueError, match="one cell per step and family"):
        privatizer.encode(Contribution(np.zeros((HORIZON, 3), dtype=dtype), np.zeros((HORIZON, 3))), 1)
    assert privatizer.ledger.users_charged == 0


def test_a_privatizer_without_users_and_a_beta_that_is_no_probability_are_refused(
    privatizer: Privatizer, tabular_families: Families
) -> None:
    for settings in (NoPrivacy(), CentralPrivacy(1.0), LocalPrivacy(1.0)):
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

    built = CentralPrivacy(1.0).build(tabular_families(2), 9, Streams(0, "counter"))
    parts = NoiseParts(None, Cheap(9, Laplace(1.0)), None)
    with pytest.raises(LedgerError, match="cannot run a counter of type Cheap"):
        Privatizer(built.request, "jdp", built.layout, parts, Streams(0, "counter"))


def test_rewound_users_cannot_be_certified(privatizer: Privatizer, users_of: Users) -> None:
    privatizer.absorb(privatizer.encode(users_of(privatizer, 1)[0], 1))
    privatizer.channel.users[:] = [1, 0, 1, 1, 1]
    with pytest.raises(LedgerError, match="not the noise that was charged"):
        privatizer.certificate("private_ucb_vi")


@ONE_OF_EACH
@pytest.mark.parametrize("shape", [(500, 40), (1, 1), (HORIZON, 2), (HORIZON + 1, 3)])
def test_rows_of_another_shape_are_refused_by_the_kernels_too(privatizer: Privatizer, shape: tuple[int, int]) -> None:
    privatizer.charge(1, 1)
    right = (HORIZON, 3)
    with pytest.raises(ValueError, match="fill every slot"):
        exchange(privatizer.channel, np.zeros(shape, dtype=np.int64), np.ones(right), 1)
    with pytest.raises(ValueError, match="fill every slot"):
        exchange(privatizer.channel, np.zeros(right, dtype=np.int64), np.ones(shape), 1)
    assert not privatizer.channel.receiver.totals.any()
    exchange(privatizer.channel, np.zeros(right, dtype=np.int64), np.ones(right), 1)


def test_users_who_have_sent_are_not_sent_back(privatizer: Privatizer, users_of: Users) -> None:
    first, other = users_of(privatizer, 2)
    privatizer.absorb(privatizer.encode(first, 1))
    privatizer.charge(2, 2)
    privatizer.channel.users[:2] = 0
    exchange(privatizer.channel, other.index, other.value, 1)
    exchange(privatizer.channel, other.index, other.value, 2)
    with pytest.raises(LedgerError, match="not the noise that was charged"):
        privatizer.certificate("x")


def test_whole_number_noise_hides_the_fractions_of_values_too(tabular_families: Families) -> None:
    for settings in (
        CentralPrivacy(1.0, mechanism="discrete_laplace"),
        LocalPrivacy(1.0, mechanism="discrete_laplace"),
    ):
        privatizer = settings.build(tabular_families(HORIZON), 9, Streams(0, "fractions"))
        contribution = Contribution(np.zeros((HORIZON, 3), dtype=np.int64), np.full((HORIZON, 3), 0.25))
        counts = privatizer.absorb(privatizer.encode(contribution, 1))
        assert not (counts.values % 1).any()
    layout = Layout(tabular_families(HORIZON))
    parts = NoiseParts(None, BinaryTree(9, DiscreteLaplace(100.0)), None)
    with pytest.raises(LedgerError, match="hides whole numbers only"):
        Privatizer(privatizer.request, "jdp", layout, parts, Streams(0, "fractions"))


def test_a_unary_report_of_another_shape_is_refused(tabular_families: Families) -> None:
    built = LocalPrivacy(1.0, mechanism="optimized_unary_encoding", families="one_hot").build(
        tabular_families(HORIZON), 9, Streams(0, "rows")
    )
    report = built.noise.report
    assert isinstance(report, UnaryReport)
    for changed in (dataclasses.replace(report, n_steps=1), dataclasses.replace(report, width=2)):
        with pytest.raises(LedgerError, match="this layout has others"):
            Privatizer(built.request, "ldp", built.layout, built.noise._replace(report=changed), Streams(0, "rows"))


def test_noise_that_was_changed_after_charging_cannot_be_certified(privatizer: Privatizer) -> None:
    channel = privatizer.channel
    sender, counter = channel.sender, channel.receiver.counter
    for changed in (
        channel._replace(sender=sender._replace(noise=sender.noise._replace(scale=1e-9))),
        channel._replace(sender=sender._replace(table=sender.table + np.uint64(1), coins_key=sender.coins_key * 0)),
        channel._replace(receiver=channel.receiver._replace(counter=counter._replace(base=77))),
        channel._replace(
            receiver=channel.receiver._replace(counter=counter._replace(node=counter.node._replace(law=0, scale=7.0)))
        ),
    ):
        privatizer._channel = changed
        with pytest.raises(LedgerError, match="not the noise that was charged"):
            privatizer.certificate("private_ucb_vi")
    privatizer._channel = channel
    privatizer.certificate("private_ucb_vi")


def test_noise_on_the_wrong_side_is_refused(tabular_families: Families) -> None:
    built = CentralPrivacy(1.0).build(tabular_families(2), 3, Streams(0, "side"))
    for model in ("none", "ldp"):
        with pytest.raises(LedgerError, match=f"{model} needs its noise on"):
            Privatizer(built.request, model, built.layout, built.noise, Streams(0, "side"))
    assert isinstance(built.noise, NoiseParts)


def test_a_channel_does_not_print_what_is_not_released(privatizer: Privatizer) -> None:
    assert "totals" not in repr(privatizer.channel)
    assert "array" not in repr(privatizer)


def test_contributions_of_the_wrong_shape_are_refused(privatizer: Privatizer) -> None:
    with pytest.raises(ValueError, match="one cell per step and family"):
        privatizer.encode(Contribution(np.zeros((1, 3), dtype=np.int64), np.zeros((1, 3))), 1)
    assert privatizer.ledger.users_charged == 0


def test_private_counts_cannot_be_made_or_changed_outside(privatizer: Privatizer) -> None:
    with pytest.raises(TypeError, match="issued by a Privatizer only"):
        PrivateCounts(privatizer.families, np.zeros(privatizer.families.n_cells), 0, object())  # type: ignore[arg-type]
    counts = privatizer.private_counts()
    with pytest.raises(TypeError, match="issued by a Privatizer only"):
        dataclasses.replace(counts, values=np.ones(privatizer.families.n_cells))
    with pytest.raises(ValueError, match="cannot set WRITEABLE"):
        counts.values.flags.writeable = True
    with pytest.raises(TypeError, match="issued by a Privatizer only"):
        Report(1, np.zeros(privatizer.families.n_cells), object())  # type: ignore[arg-type]
    assert not counts.values.any()
    with pytest.raises(ValueError, match="read-only"):
        counts.values[0] = 1.0
    with pytest.raises(KeyError, match="no count family"):
        counts.family("visit")


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        (CentralPrivacy, {"epsilon": 0}, "epsilon must be finite and above 0, got 0"),
        (CentralPrivacy, {"epsilon": -1.0}, "got -1.0"),
        (LocalPrivacy, {"epsilon": float("nan")}, "got nan"),
        (LocalPrivacy, {"epsilon": float("inf")}, "write model: none"),
        (LocalPrivacy, {"epsilon": True}, "epsilon must be a number"),
        (CentralPrivacy, {"epsilon": "1"}, "epsilon must be a number"),
        (CentralPrivacy, {"epsilon": 1e-300}, "between 1e-9 and 1e9"),
        (CentralPrivacy, {"epsilon": 10**400}, "between 1e-9 and 1e9"),
        (CentralPrivacy, {"epsilon": 1.0, "delta": 1.0}, "delta must be 0 or lie in"),
        (LocalPrivacy, {"epsilon": 1.0, "delta": 1e-16}, "delta must be 0 or lie in"),
        (CentralPrivacy, {"epsilon": 1.0, "counter": "binary_three"}, "counter must be one of binary_tree"),
        (CentralPrivacy, {"epsilon": 1.0, "counter": "exact"}, "counter must be one of binary_tree"),
        (CentralPrivacy, {"epsilon": 1.0, "counter": "honaker"}, "counter must not be honaker: buffered_toeplitz has"),
        (CentralPrivacy, {"epsilon": 1.0, "counter": "square_root"}, "; write counter: buffered_toeplitz"),
        (LocalPrivacy, {"epsilon": 1.0, "calibration": "print"}, "calibration must be one of certified, printed"),
        (LocalPrivacy, {"epsilon": 1.0, "precision": "exakt"}, "precision must be one of exact, printed"),
        (LocalPrivacy, {"epsilon": 1.0, "mechanism": "gauss"}, "mechanism must be one of laplace"),
        (
            LocalPrivacy,
            {"epsilon": 1.0, "delta": 1e-6, "calibration": "printed"},
            "delta must be 0 with the printed calibration",
        ),
    ],
)
def test_bad_settings_are_refused_in_one_line(kind: type, values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        kind(**values)
    assert "\n" not in str(caught.value)


def test_noise_that_is_emptied_during_a_run_cannot_be_certified(
    kind: str, privatizer_of: Maker, users_of: Users
) -> None:
    privatizer = privatizer_of(kind)
    for user, contribution in enumerate(users_of(privatizer, 3), start=1):
        privatizer.absorb(privatizer.encode(contribution, user))
    if privatizer.channel.receiver.counter.rows.any():
        privatizer.channel.receiver.counter.rows[:] = 0.0
        with pytest.raises(LedgerError, match="not the noise that was charged"):
            privatizer.certificate("x")


def test_layouts_of_equal_noise_share_no_stream(tabular_families: Families) -> None:
    # Equal noise on other families: the difference of two releases would be exact.
    contribution = Contribution(np.zeros((1, 2), dtype=np.int64), np.ones((1, 2)))
    released = []
    for widths in ((4, 2), (3, 3)):
        families = CountFamilies(1, tuple(CountFamily(f"f{i}", width, 2) for i, width in enumerate(widths)))
        privatizer = CentralPrivacy(1.0).build(families, 3, Streams(0, "same"))
        released.append(privatizer.absorb(privatizer.encode(contribution, 1)).values)
    assert (np.abs(released[0] - released[1]) > 1.5).any()


def test_whole_number_noise_is_refused_on_indicators_that_a_device_could_cut(tabular_families: Families) -> None:
    families = CountFamilies(1, (CountFamily("a", 3, 2), CountFamily("b", 2, 2)))
    parts = NoiseParts(None, BinaryTree(3, DiscreteLaplace(5.0)), None)
    request = CentralPrivacy(1.0).build(families, 3, Streams(0, "x")).request
    with pytest.raises(LedgerError, match="hides whole numbers only"):
        Privatizer(request, "jdp", Layout(families), parts, Streams(0, "x"))
