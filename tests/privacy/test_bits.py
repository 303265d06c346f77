"""One randomized bit per user: true with the stated probability, sent once, in order and after its charge."""

from __future__ import annotations

import copy
import math
import pickle

import pytest

from dprl.privacy import (
    TRUST_MODELS,
    BitPrivatizer,
    BitQuery,
    LedgerError,
    LocalBitPrivacy,
    NoBitPrivacy,
    NoiseConfig,
    Privatizer,
    ShuffleBitPrivacy,
    Streams,
    receive_bit,
    send_bit,
)
from dprl.privacy.accounting.shuffling import ShuffledLoss, local_epsilon
from tests.without_compiler import printed_both_ways

N = 30
OS = NoiseConfig(arithmetic="exact", entropy="os")


def built(epsilon: float | None = 1.0, seed: int = 0, n_users: int = N) -> BitPrivatizer:
    config = NoBitPrivacy() if epsilon is None else LocalBitPrivacy(epsilon)
    return config.build(None, n_users, Streams(seed, "bits"))


def told(privatizer: BitPrivatizer, bit: int, first: int, last: int) -> list[int]:
    found = []
    for user in range(first, last + 1):
        send_bit(privatizer.channel, bit, user)
        found.append(receive_bit(privatizer.channel))
    return found


@pytest.mark.parametrize("bit", [0, 1])
def test_a_bit_is_reported_with_the_probability_of_its_epsilon_and_no_other(bit: int) -> None:
    # 4.5 standard deviations: false-alarm rate 7e-6; 2/3 and 3/2 of epsilon are further off.
    n = 8000
    privatizer = built(1.5, n_users=n)
    privatizer.charge(1, n)
    share = told(privatizer, bit, 1, n).count(bit) / n
    for epsilon, right in ((1.5, True), (1.0, False), (2.25, False)):
        p = 1 / (1 + math.exp(-epsilon))
        assert (abs(share - p) < 4.5 * math.sqrt(p * (1 - p) / n)) is right
    assert privatizer.query.truth == pytest.approx(1 / (1 + math.exp(-1.5)))


def test_without_privacy_bits_are_reported() -> None:
    privatizer = built(None)
    privatizer.charge(1, N)
    assert [told(privatizer, bit, bit + 1, bit + 1)[0] for bit in (0, 1)] == [0, 1]
    assert (privatizer.query.truth, privatizer.trust_model) == (1.0, "none")
    assert privatizer.certificate("x").verdict == "unbounded"
    # Anything but 1 counts as 0, because a device must not fail.
    assert told(privatizer, 7, 3, 3) == [0]


@pytest.mark.parametrize("epsilon", [1e-9, 0.5, 3, 1e9])
def test_the_certificate_is_exact(epsilon: float) -> None:
    privatizer = built(epsilon)
    planned = privatizer.planned_certificate("x")
    assert planned.proved_epsilon == min(epsilon, 100.0)
    assert (planned.verdict, planned.proof.tightness, planned.users) == ("holds", "exact", N)
    written = planned.to_dict()
    assert written["noise"][0]["arithmetic"] == "integer"
    assert written["covered_channels"][0] == "the user's bit"
    assert not any("last bits" in channel for channel in written["excluded_channels"])
    assert TRUST_MODELS["bits"]["ldp"] is LocalBitPrivacy
    assert TRUST_MODELS["bits"]["none"] is NoBitPrivacy
    assert TRUST_MODELS["bits"]["shuffle"] is ShuffleBitPrivacy


def test_an_epsilon_that_is_none_is_refused() -> None:
    for wrong in (0.0, -1.0, math.inf, math.nan, "1", 1e-12):
        with pytest.raises(ValueError, match=r"^epsilon must"):
            LocalBitPrivacy(wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^n_submissions must be at least 1, got 0"):
        built(n_users=0)


@pytest.mark.parametrize("epsilon", [None, 1.0])
def test_users_are_charged_first_and_send_once_in_order(epsilon: float | None) -> None:
    privatizer = built(epsilon)
    with pytest.raises(LedgerError, match="after the ledger has charged them"):
        send_bit(privatizer.channel, 1, 1)
    with pytest.raises(LedgerError, match="received once, after it was sent"):
        receive_bit(privatizer.channel)
    privatizer.charge(1, 3)
    told(privatizer, 1, 1, 2)
    for wrong in (1, 2, 4):
        with pytest.raises(LedgerError, match="in order"):
            send_bit(privatizer.channel, 1, wrong)
    with pytest.raises(LedgerError, match="received once"):
        receive_bit(privatizer.channel)
    with pytest.raises(LedgerError, match="submission 3 cannot be charged"):
        privatizer.charge(3, 4)
    with pytest.raises(ValueError, match=f"at most {N} submissions can be charged"):
        privatizer.charge(4, N + 1)
    assert privatizer.certificate("x").users == 3


@pytest.mark.parametrize("epsilon", [None, 1.0])
def test_a_run_continues_where_it_was(epsilon: float | None) -> None:
    whole, first, second = built(epsilon), built(epsilon), built(epsilon)
    whole.charge(1, N)
    expected = told(whole, 1, 1, N)
    first.charge(1, 20)
    told(first, 1, 1, 11)
    second.load_state_dict(pickle.loads(pickle.dumps(first.state_dict())))
    assert told(second, 1, 12, 20) == expected[11:20]
    second.charge(21, N)
    assert told(second, 1, 21, N) == expected[20:]
    assert second.certificate("x").to_dict() == whole.certificate("x").to_dict()
    for other in (built(epsilon, seed=1), built(2.0)):
        with pytest.raises(ValueError, match="of other noise, another seed or other settings"):
            other.load_state_dict(first.state_dict())


def test_keys_stay_where_they_are() -> None:
    privatizer = LocalBitPrivacy(1.0).build(None, N, Streams(0, "bits", OS))
    privatizer.charge(1, N)
    assert set(told(privatizer, 1, 1, N)) == {0, 1}
    assert not privatizer.certificate("x").to_dict()["excluded_channels"][6:]
    with pytest.raises(LedgerError, match="its noise must stay secret"):
        privatizer.state_dict()
    for copied in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(LedgerError, match="cannot be copied or pickled"):
            copied(privatizer)
        if copied is not copy.copy:  # a shallow copy shares the cursor
            with pytest.raises(TypeError, match="cannot be copied or pickled"):
                copied(privatizer.channel)
    assert repr(privatizer.channel) == f"BitChannel({N} users sent)"


def test_nothing_is_certified_that_was_not_charged() -> None:
    for entry, value in ((0, N + 1), (1, 2), (2, 9), (3, 4)):
        privatizer = built()
        privatizer.charge(1, N)
        told(privatizer, 1, 1, 3)
        privatizer.certificate("x")
        privatizer.channel.cursor[entry] = value
        with pytest.raises(LedgerError, match="more was sent than was charged"):
            privatizer.certificate("x")


# Shuffled bits.


def shuffled(epsilon: float = 1.0, block: int = 8, seed: int = 0, n_users: int = N) -> BitPrivatizer:
    return ShuffleBitPrivacy(epsilon, 1e-6, block).build(None, n_users, Streams(seed, "bits"))


def test_the_number_of_ones_of_a_full_block_is_all_that_is_read_of_it() -> None:
    privatizer = shuffled(1e3)  # bits that never lie
    privatizer.charge(1, N)
    sent = [1, 1, 0, 1, 0, 0, 1, 0] * 3 + [1] * 6
    found = []
    for user, bit in enumerate(sent, 1):
        send_bit(privatizer.channel, bit, user)
        found.append(receive_bit(privatizer.channel))
        assert repr(privatizer.channel) == f"BitChannel({user} users sent)"
    nothing = [-1] * 7
    assert found == [*nothing, 4, *nothing, 4, *nothing, 4, *([-1] * 6)]  # the last six are in no full block


@pytest.mark.parametrize("block", [1, 30, 1000, 10_000])
def test_shuffled_bits_have_the_largest_epsilon_0_of_their_block(block: int) -> None:
    privatizer = shuffled(1.0, block, n_users=25_000)
    each = privatizer.query.law.epsilon if privatizer.query.law else 0.0
    assert each == local_epsilon(1.0, 1e-6, block) >= 1.0
    assert ShuffledLoss(each, block).delta(1.0) <= 1e-6 < ShuffledLoss(1.01 * each, block).delta(1.0)
    certificate = privatizer.planned_certificate("x")
    assert (certificate.verdict, certificate.pure_epsilon, certificate.proof.tightness) == ("holds", each, "upper")
    written = certificate.to_dict()
    assert written["noise"][0]["mechanism"] == "shuffled_randomized_response"
    assert written["noise"][0]["parameters"]["users"] == block
    assert "in a random order" in written["observer"]
    assert "bits before they are shuffled" in written["excluded_channels"][0]


@pytest.mark.parametrize("cut", [3, 8, 13])
def test_a_run_continues_in_the_middle_of_a_block(cut: int) -> None:
    whole, first, second = shuffled(), shuffled(), shuffled()
    whole.charge(1, N)
    expected = told(whole, 1, 1, N)
    first.charge(1, cut)
    begun = told(first, 1, 1, cut)
    second.load_state_dict(first.state_dict())
    second.charge(cut + 1, N)
    assert begun + told(second, 1, cut + 1, N) == expected
    with pytest.raises(ValueError, match="of other noise, another seed or other settings"):
        shuffled(block=9).load_state_dict(first.state_dict())


def test_blocks_that_prove_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="smallest_block must be at most 30, the users who send a report, got 31"):
        shuffled(block=31)
    for settings, message in (
        ({"delta": 0.0}, "delta must be above 0 with model shuffle"),
        ({"smallest_block": 0}, "smallest_block must be from 1 to 1e12, got 0"),
        ({"smallest_block": 2.5}, "smallest_block must be from 1 to 1e12, got 2.5"),
    ):
        with pytest.raises(ValueError, match=message):
            ShuffleBitPrivacy(**{"epsilon": 1.0, "delta": 1e-6, **settings})  # type: ignore[arg-type]
    for wrong in ({"block": 5}, {"block": -1}):
        with pytest.raises(LedgerError, match="shuffled bits must have a law and a block"):
            BitQuery(None, **wrong)
    one, other = shuffled(), built()
    for query, request in ((one.query, other.request), (other.query, one.request)):
        with pytest.raises(LedgerError, match="reports must be shuffled with model shuffle only"):
            Privatizer(query, request, N, Streams(0, "x"))
    with pytest.raises(LedgerError, match="bits with model: shuffle come from the compiled loop"):
        one.lease(3)


SCRIPT = """
from dprl.privacy import LocalBitPrivacy, Streams, receive_bit, send_bit
privatizer = LocalBitPrivacy(1.0).build(None, 200, Streams(0, "bits"))
privatizer.charge(1, 200)
for user in range(1, 201):
    send_bit(privatizer.channel, user % 2, user)
    print(receive_bit(privatizer.channel), end="")
"""


def test_compiled_and_plain_bits_are_the_same() -> None:
    assert len(printed_both_ways(SCRIPT)) == 200
