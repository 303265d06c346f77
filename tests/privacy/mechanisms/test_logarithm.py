"""The logarithm's two halves together, and the conversion of bits to numbers."""

from __future__ import annotations

import numpy as np

from dprl.privacy.mechanisms.logarithm import log_of_reduced, one_to_two, open_unit, reduced, signed


def test_log_is_within_two_and_a_half_ulp() -> None:
    rng = np.random.default_rng(0)
    u = np.concatenate(
        [rng.random(20_000), 10.0 ** -rng.uniform(0, 16, 20_000), 1 - 10.0 ** -rng.uniform(1, 15, 20_000)]
    )
    ours = np.array([log_of_reduced(*reduced(float(v))) for v in u])
    reference = np.log(u)
    assert np.max(np.abs(ours - reference) / np.spacing(np.abs(reference))) <= 2.5
    assert log_of_reduced(*reduced(1.0)) == 0.0


def test_reduced_form_is_small_and_says_the_same_number() -> None:
    for u in (1.0, 0.75, 0.5, 0.1, 2.0**-53, 1.0 - 2.0**-53):
        s, e = reduced(u)
        assert abs(s) < 0.172
        assert e == int(e)
        assert abs(2.0**e * (1.0 + s) / (1.0 - s) - u) <= 4e-16 * u


def test_bits_become_numbers_of_the_open_interval() -> None:
    last = np.uint64(2**64 - 1)
    assert open_unit(np.uint64(0)) == 2.0**-53
    assert open_unit(last) == 1.0 - 2.0**-53
    assert open_unit(np.uint64(2**63)) == 0.5 + 2.0**-53
    assert one_to_two(np.uint64(0)) == 1.0
    assert one_to_two(last) == 2.0 - 2.0**-52


def test_only_the_lowest_bit_is_the_sign() -> None:
    assert signed(1.5, np.uint64(6)) == 1.5
    assert signed(1.5, np.uint64(7)) == -1.5
    assert signed(-1.5, np.uint64(7)) == 1.5
    assert np.signbit(signed(0.0, np.uint64(1)))
