"""Randomized response: the exact coin."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from dprl.privacy.mechanisms.reports import RandomizedResponse, fill_responses
from dprl.privacy.randomness.bits import fill_bits
from dprl.privacy.randomness.streams import Streams

N_DRAWS = 200_000


def respond(bits: np.ndarray, epsilon: float, seed: int, first: int = 0) -> np.ndarray:
    out = np.empty(bits.shape[0])
    key = Streams(seed, "test").key("user_noise")
    fill_responses(out, bits, key, np.uint64(first), RandomizedResponse(epsilon).table())
    return out


def truth_of(table: np.ndarray) -> Fraction:
    return Fraction(int.from_bytes(table.astype(">u8").tobytes(), "big"), 1 << 256)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 8.0, 100.0])
def test_the_coin_never_loses_more_than_epsilon_and_hardly_less(epsilon: float) -> None:
    truth = truth_of(RandomizedResponse(epsilon).table())
    with localcontext() as context:
        context.prec = 140
        # truth / (1 - truth) against e^epsilon, with rationals and 140 digits.
        ratio = Decimal(truth.numerator) / Decimal(truth.denominator - truth.numerator)
        bound = Decimal(epsilon).exp()
        assert ratio <= bound
        assert 1 - ratio / bound < (1 + bound) * Decimal(2) ** -254


@pytest.mark.parametrize("bit", [0.0, 1.0])
def test_the_truth_is_reported_with_its_probability(bit: float) -> None:
    # Binomial counts at 5 standard deviations: false-alarm rate below 1e-6. Two thirds and three halves are far off.
    epsilon = 1.0
    told = float(np.sum(respond(np.full(N_DRAWS, bit), epsilon, 1) == bit))

    def far(of: float) -> bool:
        p = 1.0 / (1.0 + math.exp(-of))
        return abs(told - N_DRAWS * p) > 5 * math.sqrt(N_DRAWS * p * (1 - p))

    assert not far(epsilon)
    assert far(epsilon * 2 / 3)
    assert far(epsilon * 3 / 2)


def test_a_response_depends_on_its_number_only() -> None:
    bits = (np.arange(900) % 2).astype(float)
    assert np.array_equal(respond(bits, 1.0, 3)[400:700], respond(bits[400:700], 1.0, 3, first=400))


def test_a_tie_reads_further_bits() -> None:
    # A threshold whose first word is the one that will be drawn: the next words decide, one way or the other.
    key, word = Streams(4, "test").key("user_noise"), np.empty(1, dtype=np.uint64)
    fill_bits(word, key, np.uint64(0))
    top = np.iinfo(np.uint64).max
    told = []
    for rest in (0, top):
        table, out = np.array([word[0], rest, rest, rest], dtype=np.uint64), np.empty(1)
        fill_responses(out, np.ones(1), key, np.uint64(0), table)
        told.append(out[0])
    assert told == [0.0, 1.0]


def test_what_is_no_bit_counts_as_one_of_them() -> None:
    strange = np.array([np.nan, -np.inf, np.inf, 0.5, 7.0] * 400)
    assert np.array_equal(respond(strange, 1.0, 5), respond((strange > 0.5).astype(float), 1.0, 5))
