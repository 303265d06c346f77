"""One randomised bit from every user: told with the stated probability, once, in order, charged."""

from __future__ import annotations

import copy
import math
import pickle

import pytest

from dprl.privacy import (
    TRUST_MODELS,
    BitPrivatizer,
    LedgerError,
    LocalBitPrivacy,
    NoBitPrivacy,
    NoiseConfig,
    Streams,
    receive_bit,
    send_bit,
)
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
    assert privatizer.query.gain == pytest.approx(math.tanh(0.75)) == pytest.approx(2 * privatizer.query.truth - 1)


def test_without_privacy_bits_are_reported() -> None:
    privatizer = built(None)
    privatizer.charge(1, N)
    assert [told(privatizer, bit, bit + 1, bit + 1)[0] for bit in (0, 1)] == [0, 1]
    assert (privatizer.query.truth, privatizer.query.gain, privatizer.trust_model) == (1.0, 1.0, "none")
    assert privatizer.certificate("x").verdict == "unbounded"
    # Whatever is no 1 is a 0, as a device must not fail.
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
