"""The only entry to noise: every law with both generators, zeros for none, and errors for unknown codes."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from numba import TypingError
from scipy import stats
from scipy.stats import ks_2samp

from dprl.privacy.mechanisms.base import INTEGER, Mechanism
from dprl.privacy.mechanisms.bounded import BoundedLaplace, Uniform
from dprl.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from dprl.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.mechanisms.reports import OneHotEncoding
from dprl.privacy.mechanisms.sampling import NO_NOISE, SILENT, Noise, extend_noise, fill_noise, noise_of, sampler
from dprl.privacy.randomness.bits import CHACHA20, SPLITMIX64, fill_bits
from dprl.privacy.randomness.streams import Streams
from tests.privacy.keys import key_of
from tests.without_compiler import printed_both_ways

N_DRAWS = 50_000
GENERATORS = (0, 1)
MECHANISMS: list[Mechanism] = [
    Laplace(9.0),
    Gaussian(9.0),
    DiscreteLaplace(9.0),
    DiscreteGaussian(9.0),
    Uniform(9.0),
    BoundedLaplace(9.0, 18.0),
]
"""One of every additive law."""
OTHER_SCALES: list[Mechanism] = [
    *(DiscreteLaplace(scale) for scale in (0.3, 1.0, 50.0, 300.0)),
    *(DiscreteGaussian(scale) for scale in (0.4, 3.0, 42.25, 1000.0)),
    BoundedLaplace(1.0, 0.05),
    BoundedLaplace(0.5, 40.0),
]
BY_NAME = pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: str(m.name))
BY_GENERATOR = pytest.mark.parametrize("generator", GENERATORS, ids=["splitmix64", "chacha20"])


def noise(mechanism: Mechanism, generator: int, seed: int = 1) -> Noise:
    return mechanism.noise(key_of(generator, seed, 0x9E3779B97F4A7C15, 3, 4))


def draws(of: Noise, n: int = N_DRAWS, first: int = 0) -> np.ndarray:
    out = np.full(n, np.nan)
    fill_noise(out, of, np.uint64(first))
    return out


def distribution(mechanism: Mechanism, x: np.ndarray) -> np.ndarray:
    """The law's distribution function; of whole numbers, that of the noise and a uniform number in (-1/2, 1/2)."""
    scale, bound = mechanism.scale, mechanism.bound
    if mechanism.arithmetic == INTEGER:
        z = np.arange(-40 * math.ceil(scale), 40 * math.ceil(scale) + 1)
        mass = np.exp(-np.abs(z) / scale if mechanism.name == "discrete_laplace" else -0.5 * (z / scale) ** 2)
        return np.asarray(np.interp(x, z + 0.5, np.cumsum(mass) / mass.sum()))
    if mechanism.name == "gaussian":
        return np.asarray(stats.norm(scale=scale).cdf(x))
    if mechanism.name == "uniform":
        return np.asarray(stats.uniform(-bound, 2 * bound).cdf(x))
    below = stats.laplace(scale=scale).cdf
    edge = below(-bound) if bound > 0.0 else 0.0
    return np.asarray(np.clip((below(x) - edge) / (1.0 - 2.0 * edge), 0.0, 1.0))


@BY_GENERATOR
@pytest.mark.parametrize("mechanism", [*MECHANISMS, *OTHER_SCALES], ids=str)
def test_accepts_the_right_scale_and_rejects_two_thirds_and_three_halves(mechanism: Mechanism, generator: int) -> None:
    """Kolmogorov-Smirnov at a fixed seed: the false-alarm rate of each acceptance is 1e-3."""
    x = draws(noise(mechanism, generator))
    whole = mechanism.arithmetic == INTEGER
    assert not whole or np.array_equal(x, np.rint(x))
    spread = x + (np.random.default_rng(2).random(N_DRAWS) - 0.5) * whole

    def pvalue(factor: float) -> float:
        numbers = {field.name: factor * getattr(mechanism, field.name) for field in fields(mechanism)}  # type: ignore[arg-type]
        other = replace(mechanism, **numbers) if factor != 1.0 else mechanism  # type: ignore[type-var]
        return float(stats.kstest(spread, lambda y: distribution(other, y)).pvalue)

    assert pvalue(1.0) > 1e-3
    for factor in (2 / 3, 3 / 2):
        assert pvalue(factor) < 1e-20
    # No law here has kurtosis above 6: the mean square and the correlation of neighbours are within 5 deviations.
    assert abs(np.mean(x**2) / mechanism.variance - 1.0) < 5.0 * math.sqrt(5.0 / N_DRAWS)
    assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 5.0 / math.sqrt(N_DRAWS)
    assert mechanism.bound == 0.0 or np.abs(x).max() <= mechanism.bound


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan])
@BY_NAME
def test_numbers_that_are_no_size_of_noise_are_refused(mechanism: Mechanism, bad: float) -> None:
    for field in fields(mechanism):  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=f"^{field.name} must (be a finite number above 0|lie in)"):
            replace(mechanism, **{field.name: bad})  # type: ignore[type-var]


@pytest.mark.parametrize("mechanism", [m for m in MECHANISMS if m.draws_sums], ids=lambda m: str(m.name))
def test_sums_drawn_at_once_have_the_law_of_summed_draws(mechanism: Mechanism) -> None:
    """False-alarm rate: 1e-3; 2/3 and 3/2 of the scale are rejected."""
    summed = draws(noise(mechanism, 0)).reshape(-1, 5).sum(axis=1)
    at_once = mechanism.sum_of_draws(5, len(summed), np.random.default_rng(1))
    right, small, large = (ks_2samp(scale * at_once, summed).pvalue for scale in (1.0, 2.0 / 3.0, 1.5))
    assert right > 1e-3
    assert max(small, large) < 1e-9


@BY_GENERATOR
@BY_NAME
@pytest.mark.parametrize(("first", "n"), [(0, 700), (1, 1), (7, 300), (256, 255), (513, 0)])
def test_a_draw_depends_on_its_number_only(mechanism: Mechanism, generator: int, first: int, n: int) -> None:
    of = noise(mechanism, generator)
    assert np.array_equal(draws(of, n, first), draws(of, 1000)[first : first + n])


@BY_NAME
def test_keys_and_laws_do_not_share_their_noise(mechanism: Mechanism) -> None:
    x = draws(noise(mechanism, 0, seed=1), 2000)
    for other in (noise(mechanism, 1, seed=1), noise(mechanism, 0, seed=2)):
        # 5 standard deviations of the correlation of independent draws.
        assert abs(np.corrcoef(x, draws(other, 2000))[0, 1]) < 5 / math.sqrt(2000)
    codes = {OneHotEncoding.law, *(m.law for m in MECHANISMS)}
    assert len(codes) == len(MECHANISMS) + 1
    assert NO_NOISE not in codes


@BY_NAME
def test_log_ratios_depend_on_distances_and_change_sign_with_the_worlds(mechanism: Mechanism) -> None:
    y = np.arange(-11.0, 11.0)  # within every law's reach of one of the two numbers
    ones, zeros = np.full(y.shape, 2.0), np.full(y.shape, -3.0)
    ratios = mechanism.log_ratios(y, ones, zeros)
    assert ratios.min() < 0.0 < ratios.max()
    np.testing.assert_allclose(mechanism.log_ratios(y + 7.0, ones + 7.0, zeros + 7.0), ratios, atol=1e-12)
    np.testing.assert_allclose(mechanism.log_ratios(y, zeros, ones), -ratios, atol=1e-12)


def test_no_noise_is_zero() -> None:
    assert not draws(SILENT, 9).any()


@pytest.mark.parametrize("law", [-1, 63, 99])
def test_an_unknown_law_is_an_error_and_not_silence(law: int) -> None:
    with pytest.raises(ValueError, match=r"^law must be one of the codes"):
        noise_of(law, 1.0, 0.0, SILENT.key, SILENT.table)


@BY_NAME
def test_an_unknown_generator_is_an_error_and_not_silence(mechanism: Mechanism) -> None:
    with pytest.raises(ValueError, match=r"^key must begin with the code of its generator"):
        draws(noise(mechanism, 2), 9)


@BY_NAME
def test_a_key_with_the_code_of_the_other_generator_is_an_error_and_not_silence(mechanism: Mechanism) -> None:
    for generator, other in ((SPLITMIX64, CHACHA20), (CHACHA20, SPLITMIX64)):
        key = key_of(generator, 1, 2, 3, 4)
        key[0] = other
        with pytest.raises(ValueError, match=r"^key must begin with the code of its generator"):
            draws(mechanism.noise(key), 9)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_sampler_that_fails_is_an_error_and_not_silence(capfd: pytest.CaptureFixture[str]) -> None:
    """It is called by its address, so its own error is lost, like that of a full memory."""

    def failing(out: Any, scale: float, bound: float, key: Any, table: Any, first: Any) -> None:
        if scale > 0.0:
            raise MemoryError("full")
        out[0] = bound + table.shape[0] + first + key[0]

    sampler(62)(failing)
    noise_of_it = noise_of(62, 1.0, 0.0, SILENT.key, SILENT.table)
    with pytest.raises(MemoryError, match=r"full|could not be drawn"):
        fill_noise(np.zeros(3), noise_of_it, np.uint64(0))
    rows = [np.zeros(3) for _ in range(4)]
    with pytest.raises(MemoryError, match=r"full|could not be drawn"):
        extend_noise(rows[0], rows[1], rows[2], rows[3], noise_of_it, 1)
    capfd.readouterr()


@pytest.mark.parametrize("mechanism", [DiscreteLaplace(3.0), DiscreteGaussian(3.0)])
def test_a_damaged_table_is_nobody_elses(mechanism: Mechanism) -> None:
    mine = noise(mechanism, SPLITMIX64)
    mine.table[:] = 0
    assert draws(noise(mechanism, SPLITMIX64), 99).any()


def test_what_is_handed_on_by_address_is_checked_first() -> None:
    keys = np.stack([Streams(0, str(i)).key("user_noise") for i in range(5)], axis=1)
    good = DiscreteLaplace(3.0).noise(np.ascontiguousarray(keys[:, 0]))
    fill_noise(np.zeros(9), good, np.uint64(0))
    for bad in (good._replace(key=keys[:, 0]), good._replace(table=np.repeat(good.table, 2)[::2])):
        with pytest.raises((TypingError, ValueError)):
            fill_noise(np.zeros(9), bad, np.uint64(0))
    with pytest.raises(ValueError, match=r"^key must begin"):
        fill_noise(np.zeros(9), good._replace(key=good.key[:3]), np.uint64(0))
    with pytest.raises((TypingError, ValueError)):
        fill_noise(np.zeros(9, dtype=np.float32), good, np.uint64(0))
    strided, whole = np.zeros((2, 9), dtype=np.uint64)
    fill_bits(strided, keys[:, 0], np.uint64(0))  # not by address
    fill_bits(whole, good.key, np.uint64(0))
    assert np.array_equal(strided, whole)


@BY_GENERATOR
@BY_NAME
@pytest.mark.parametrize("node", [1, 3, -3])
@pytest.mark.parametrize("n", [1, 257, 2048, 5001])
def test_extending_is_drawing_and_adding(mechanism: Mechanism, generator: int, node: int, n: int) -> None:
    of, sign = noise(mechanism, generator), 1.0 if node > 0 else -1.0
    totals, parent = np.random.default_rng(n).normal(size=(2, n))
    added = draws(of, n, abs(node) * n) * sign
    released, row = np.empty(n), np.empty(n)
    extend_noise(released, totals, parent, row, of, node)
    assert np.array_equal(row, parent + added)
    assert np.array_equal(released, row + totals)
    kept = parent.copy()
    extend_noise(released, totals, kept, kept, of, node)
    assert np.array_equal(kept, row)
    assert np.array_equal(released, row + totals)


def test_rows_of_another_size_or_type_are_refused() -> None:
    laplace = noise(Laplace(1.0), 0)
    for which in range(4):
        rows: list[Any] = [np.zeros(6) for _ in range(4)]
        rows[which] = np.zeros(5)
        with pytest.raises(ValueError, match=r"^rows must have the same number of cells"):
            extend_noise(rows[0], rows[1], rows[2], rows[3], laplace, 1)
    for released in (np.zeros(6, dtype=np.float32), np.zeros(12)[::2]):
        with pytest.raises((ValueError, TypingError)):
            extend_noise(released, np.zeros(6), np.zeros(6), np.zeros(6), laplace, 1)  # type: ignore[arg-type]
    for key in (np.full(5, 9, dtype=np.uint64), np.zeros(4, dtype=np.uint64)):
        with pytest.raises(ValueError, match=r"generator"):
            extend_noise(np.zeros(6), np.zeros(6), np.zeros(6), np.zeros(6), laplace._replace(key=key), 1)


def print_draws() -> None:
    """Print draws of every law, near and far from 0, in both generators; few of the discrete ones are ties."""
    more = [DiscreteLaplace(1.0), DiscreteLaplace(2.0**40), DiscreteGaussian(0.4), DiscreteGaussian(42.25)]
    for mechanism in [*MECHANISMS, *more]:
        for generator in GENERATORS:
            found = draws(noise(mechanism, generator), 600, first=3)
            print(" ".join(float(x).hex() for x in found))


def test_same_bits_without_the_compiler() -> None:
    printed_both_ways("from tests.privacy.mechanisms.test_sampling import print_draws as p; p()")
