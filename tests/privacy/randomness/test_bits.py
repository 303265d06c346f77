"""Random bits: known answers of SplitMix64, uniforms, and no bits from an unknown generator."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dprl.privacy.randomness.bits import (
    CHACHA20,
    SPLITMIX64,
    fill_bits,
    fill_uniform,
    splitmix64,
    splitmix64_increment,
)

GOLDEN_GAMMA = 0x9E3779B97F4A7C15
KEYS = {
    "splitmix64": np.array([SPLITMIX64, 7, GOLDEN_GAMMA, 0, 0], dtype=np.uint64),
    "chacha20": np.array([CHACHA20, 1, 2, 3, 4]),
}


def bits(key: np.ndarray, first: int, n: int) -> np.ndarray:
    out = np.empty(n, dtype=np.uint64)
    fill_bits(out, key, np.uint64(first))
    return out


@pytest.mark.parametrize(
    ("seed", "expected"),
    [
        (0, [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC]),
        (1234567, [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]),
    ],
)
def test_published_outputs_of_splitmix64(seed: int, expected: list[int]) -> None:
    # The published generator advances before each output: its first is our draw number 1.
    key = np.array([SPLITMIX64, seed, GOLDEN_GAMMA, 0, 0], dtype=np.uint64)
    assert bits(key, 1, 4).tolist() == expected
    assert [int(splitmix64(key, np.uint64(i))) for i in range(1, 5)] == expected


def test_splitmix64_agrees_with_pythons_integers() -> None:
    start, increment = 0x0123456789ABCDEF, 0xB5AD4ECEDA1CE2A9
    key = np.array([SPLITMIX64, start, increment, 0, 0], dtype=np.uint64)
    for number in (0, 5, 2**40, 2**64 - 1):
        z = (start + number * increment) % 2**64
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        assert int(bits(key, number, 1)[0]) == z ^ z >> 31


def test_increments_are_odd_and_change_bit_often() -> None:
    rng = np.random.default_rng(0)
    samples = [0, 1, 2**64 - 1, 2**63, GOLDEN_GAMMA, *(int(v) for v in rng.integers(0, 2**64, 2000, dtype=np.uint64))]
    kept = 0
    for sample in samples:
        increment = splitmix64_increment(sample)
        assert increment % 2 == 1
        assert 0 < increment < 2**64
        assert (increment ^ increment >> 1).bit_count() >= 24
        kept += increment == sample | 1
    assert 0.9 * len(samples) < kept < len(samples)


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("n", [0, 1, 255, 256, 257, 700])
def test_a_draw_depends_on_its_number_only(name: str, n: int) -> None:
    key = KEYS[name]
    assert np.array_equal(bits(key, 300, n), bits(key, 0, 1000)[300 : 300 + n])


@pytest.mark.parametrize("name", KEYS)
def test_uniforms_are_uniform_and_depend_on_position_only(name: str) -> None:
    # Kolmogorov-Smirnov at a fixed key: false alarm 1e-3.
    whole, part = np.empty(64_000), np.empty(101)
    fill_uniform(whole, KEYS[name], np.uint64(0))
    fill_uniform(part, KEYS[name], np.uint64(501))
    assert np.array_equal(whole[501:602], part)
    assert stats.kstest(whole, "uniform").pvalue > 1e-3
    assert whole.min() >= 0.0
    assert whole.max() < 1.0
    assert np.array_equal(whole, (bits(KEYS[name], 0, 64_000) >> np.uint64(11)) / 2.0**53)


def test_an_unknown_generator_gives_no_bits() -> None:
    key = KEYS["chacha20"].copy()
    for code in (2, -(2**63)):
        key[0] = code
        with pytest.raises(ValueError, match=r"^key must begin with the code of its generator"):
            bits(key, 0, 4)
        with pytest.raises(ValueError, match=r"^key must begin with the code of its generator"):
            fill_uniform(np.empty(4), key, np.uint64(0))
