"""Random bits: known answers of SplitMix64 and ChaCha20, uniforms, and no bits from an unknown generator."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dprl.privacy.randomness.bits import CHACHA20, SPLITMIX64, fill_bits, fill_uniform, splitmix64, splitmix64_increment
from dprl.privacy.randomness.chacha20 import BATCH, LANES, chacha20_blocks, fill_chacha20

# Random bits: known answers of SplitMix64, uniforms, and no bits from an unknown generator.

GOLDEN_GAMMA = 0x9E3779B97F4A7C15
KEYS = {"splitmix64": np.array([SPLITMIX64, 7, GOLDEN_GAMMA, 0, 0], dtype=np.uint64)}
KEYS["chacha20"] = np.array([CHACHA20, 1, 2, 3, 4])


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


# ChaCha20: the vectors of RFC 8439, and a plain program with Python's integers.

CONSTANTS = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574]
MASK = 2**32 - 1
KEY = np.array([1, 0x0123456789ABCDEF, 0xFEDCBA9876543210, 2**64 - 1, 42], dtype=np.uint64)


def plain_block(state: list[int]) -> list[int]:
    x = list(state)

    def rotated(value: int, by: int) -> int:
        return (value << by | value >> (32 - by)) & MASK

    def quarter_round(a: int, b: int, c: int, d: int) -> None:
        for p, q, r, by in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            x[p] = (x[p] + x[q]) & MASK
            x[r] = rotated(x[r] ^ x[p], by)

    for _ in range(10):
        for i in range(4):
            quarter_round(i, 4 + i, 8 + i, 12 + i)
        for i in range(4):
            quarter_round(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
    return [(old + new) & MASK for old, new in zip(state, x, strict=True)]


def plain_draw(key: np.ndarray, number: int) -> int:
    block, word = divmod(number % 2**64, 8)
    halves = [half for k in key[1:] for half in (int(k) & MASK, int(k) >> 32)]
    x = plain_block([*CONSTANTS, *halves, block & MASK, block >> 32, 0, 0])
    return x[2 * word] | x[2 * word + 1] << 32


def draws(key: np.ndarray, first: int, n: int) -> np.ndarray:
    out = np.empty(n, dtype=np.uint64)
    fill_chacha20(out, key, np.uint64(first))
    return out


def test_block_function_of_section_2_3_2() -> None:
    key = [0x03020100 + 0x04040404 * i for i in range(8)]
    words = [*CONSTANTS, *key, 1, 0x09000000, 0x4A000000, 0]
    state = np.zeros((16, LANES), dtype=np.uint32)
    # Every lane on its own: the state of the RFC in one of them at a time.
    for lane in (0, 7, LANES - 1):
        state[:] = 0
        state[:, lane] = words
        out, x = np.empty(BATCH, dtype=np.uint64), np.empty(16 * LANES, dtype=np.uint32)
        chacha20_blocks(out, x, state.ravel())
        block = [half for word in out.reshape(8, LANES)[:, lane] for half in (int(word) & MASK, int(word) >> 32)]
        assert block == [
            *(0xE4E7F110, 0x15593BD1, 0x1FDD0F50, 0xC47120A3, 0xC7F4D1C7, 0x0368C033, 0x9AAA2204, 0x4E6CD4C3),
            *(0x466482D2, 0x09AA9F07, 0x05D7C214, 0xA2028BD9, 0xD19C12B5, 0xB94E16DE, 0xE883D0CB, 0x4E3C50A2),
        ]


@pytest.mark.parametrize("first", [0, 3, 8 * 2**32 - 20, 2**63 + 1, 2**64 - 5])
def test_the_same_as_a_plain_program_also_where_counters_carry_and_end(first: int) -> None:
    assert draws(KEY, first, 40).tolist() == [plain_draw(KEY, first + i) for i in range(40)]


@pytest.mark.parametrize("first", [0, 1, 8, 250, 255, 256])
@pytest.mark.parametrize("n", [0, 1, 7, 8, BATCH - 1, BATCH, BATCH + 1, 3 * BATCH])
def test_a_word_of_chacha20_depends_on_its_number_only(first: int, n: int) -> None:
    whole = draws(KEY, 0, 5 * BATCH)
    assert np.array_equal(draws(KEY, first, n), whole[first : first + n])
