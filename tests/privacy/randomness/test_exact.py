"""Exact coins: the right probabilities to the last bit, ties resolved with separate bits."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from dprl.privacy.randomness.bits import fill_bits
from dprl.privacy.randomness.exact import (
    LIMBS,
    RESERVED,
    UInt64Array,
    bernoulli,
    exp_minus,
    fill_bernoulli,
    leading_bits,
    round_shift,
    stochastic_round,
    to_limbs,
)
from dprl.privacy.randomness.streams import Streams
from tests.without_compiler import printed_both_ways

KEY = Streams(1, "exact").key("user_noise")


def word(number: int) -> int:
    out = np.empty(1, dtype=np.uint64)
    fill_bits(out, KEY, np.uint64(number))
    return int(out[0])


def as_integer(limbs: np.ndarray) -> int:
    return int.from_bytes(np.asarray(limbs).astype(">u8").tobytes(), "big")


@pytest.mark.parametrize("x", ["0", "1e-30", "0.02", "0.999", "1", "7.5", "100", "1000"])
@pytest.mark.parametrize("bits", [64, 280, 1800])
def test_exponential_is_within_one_unit(x: str, bits: int) -> None:
    with localcontext() as context:
        context.prec = 700
        reference = (-Decimal(x)).exp() * Decimal(2) ** bits
        # Rounding to the nearest unit is off by half a unit at most; an error of one unit would be detected.
        assert abs(Decimal(exp_minus(Fraction(x), bits)) - reference) <= Decimal("0.5000001")


def test_exponential_refuses_what_is_no_probability() -> None:
    with pytest.raises(ValueError, match="x must be 0 or more, got -1"):
        exp_minus(Fraction(-1), 64)


def limbs_of(p: Fraction) -> UInt64Array:
    """The first 256 bits of a probability."""
    return to_limbs((p.numerator << 256) // p.denominator, LIMBS)


def test_leading_bits_round_down() -> None:
    with localcontext() as context:
        context.prec = 120
        for x in (Fraction(1, 7), Fraction(3), Fraction(50)):
            exact = (-Decimal(x.numerator) / Decimal(x.denominator)).exp()
            assert leading_bits(lambda bits, x=x: exp_minus(x, bits), 256) == int(exact * Decimal(2) ** 256)  # type: ignore[misc]


def test_an_approximation_near_a_boundary_is_asked_again() -> None:
    # 1/2 - 2^-150: with 32 guard bits its interval still holds 1/2.
    asked = []

    def p(bits: int) -> int:
        asked.append(bits)
        return round_shift(((1 << 149) - 1) << bits, 150)

    assert leading_bits(p, 64) == 2**63 - 1
    assert len(asked) > 1


@pytest.mark.parametrize("p", [Fraction(1), Fraction(3, 2), Fraction(-1, 2), Fraction(1, 2)])
def test_bad_probabilities_are_refused(p: Fraction) -> None:
    with pytest.raises(ValueError, match=r"^p must lie in"):
        leading_bits(lambda bits: (p.numerator << bits) // p.denominator, 64)


def test_limbs_are_most_significant_first() -> None:
    assert to_limbs((5 << 64) + 7, 2).tolist() == [5, 7]
    assert as_integer(limbs_of(Fraction(1, 3))) == 2**256 // 3


def test_ties_go_to_further_words_that_nobody_else_draws() -> None:
    # A threshold that agrees with the random number in `agreed` words: the next word decides, whichever way.
    number, n_limbs = 9, 4
    spare = int(RESERVED) + number * (n_limbs - 1)
    random = [word(number)] + [word(spare + j) for j in range(n_limbs - 1)]
    coin = np.empty(1, dtype=np.bool_)
    for agreed in range(n_limbs):
        for step, expected in ((1, True), (-1, False)):
            limbs = np.array(random, dtype=np.uint64)
            limbs[agreed] = random[agreed] + step
            limbs[agreed + 1 :] = 0 if step == 1 else 2**64 - 1
            fill_bernoulli(coin, limbs, KEY, np.uint64(number))
            assert bool(coin[0]) is expected
    fill_bernoulli(coin, np.array(random, dtype=np.uint64), KEY, np.uint64(number))
    assert not coin[0], "256 tied bits are a 0"


def test_one_coin_reads_word_after_word() -> None:
    random = np.array([word(100), word(101)], dtype=np.uint64)
    above = random + np.array([0, 1], dtype=np.uint64)
    assert not bernoulli(random, KEY, np.uint64(100))
    assert bernoulli(above, KEY, np.uint64(100))
    assert not bernoulli(np.zeros(3, dtype=np.uint64), KEY, np.uint64(100))


@pytest.mark.parametrize("n", [1, 255, 257])
def test_a_coin_depends_on_its_number_only(n: int) -> None:
    limbs = limbs_of(Fraction(2, 5))
    whole, part = np.empty(2000, dtype=np.bool_), np.empty(n, dtype=np.bool_)
    fill_bernoulli(whole, limbs, KEY, np.uint64(0))
    fill_bernoulli(part, limbs, KEY, np.uint64(700))
    assert np.array_equal(part, whole[700 : 700 + n])


@pytest.mark.parametrize("value", [0.0, 2.0**-63, 2.0**-11 + 2.0**-63, 0.3, 0.5, 1.0 - 2.0**-53, 1.0])
def test_stochastic_rounding_is_exact_at_both_sides_of_its_threshold(value: float) -> None:
    threshold = int(Fraction(value) * 2**63)
    assert Fraction(threshold, 2**63) == Fraction(value)
    for bits, expected in ((2 * threshold - 1, 1.0), (2 * threshold, 0.0), (0, float(value > 0)), (2**64 - 1, 0.0)):
        if 0 <= bits < 2**64 and (value < 1.0 or bits < 2 * threshold - 1):
            assert stochastic_round(value, np.uint64(bits)) == expected
    assert stochastic_round(1.0, np.uint64(2**64 - 1)) == 1.0


def test_stochastic_rounding_of_tiny_values_rounds_down() -> None:
    for value in (5e-324, 2.0**-64, 2.0**-63 - 2.0**-100):
        assert stochastic_round(value, np.uint64(0)) == 0.0


def test_same_bits_without_the_compiler() -> None:
    code = (
        "import numpy as np\n"
        "from dprl.privacy.randomness.streams import Streams\n"
        "from dprl.privacy.randomness.exact import fill_bernoulli, stochastic_round, to_limbs\n"
        "out = np.empty(600, dtype=np.bool_)\n"
        "limbs, key = to_limbs(2**256 // 3, 4), Streams(1, 'exact').key('user_noise')\n"
        "fill_bernoulli(out, limbs, key, np.uint64(0))\n"
        "print(''.join('01'[int(x)] for x in out), stochastic_round(0.7, np.uint64(2**63)))\n"
    )
    drawn, rounded = printed_both_ways(code).split()
    assert 150 < drawn.count("1") < 250
    assert rounded == "1.0"
