"""The Laplace sampler: the right distribution, no other, and the same bits without the compiler."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from dprl.privacy import Laplace, Streams
from dprl.privacy.accounting.closed_forms import laplace_scale
from dprl.privacy.mechanisms.laplace import _reduce, fill_laplace, second_half

N_DRAWS = 200_000
SCALE = 3.0


def sample(seed: int, n: int = N_DRAWS, scale: float = SCALE) -> np.ndarray:
    out = np.empty(n)
    fill_laplace(out, Streams(seed, "test").key("user_noise"), np.uint64(0), scale)
    return out


def test_accepts_the_right_scale_and_rejects_two_thirds_and_three_halves() -> None:
    # Kolmogorov-Smirnov at a fixed seed; false-alarm rate of the acceptance 1e-3.
    x = sample(1)
    assert stats.kstest(x, stats.laplace(scale=SCALE).cdf).pvalue > 1e-3
    for factor in (2 / 3, 3 / 2):
        assert stats.kstest(x, stats.laplace(scale=SCALE * factor).cdf).pvalue < 1e-100


def test_tail_and_sign_are_right() -> None:
    # Binomial counts at 5 standard deviations: false-alarm rate below 1e-6 each.
    x = sample(2)
    for threshold in (5.0, 8.0):
        p = np.exp(-threshold)
        expected, sd = N_DRAWS * p, np.sqrt(N_DRAWS * p * (1 - p))
        assert abs(np.sum(np.abs(x) > threshold * SCALE) - expected) < 5 * sd
    assert abs(np.sum(x > 0) - N_DRAWS / 2) < 5 * np.sqrt(N_DRAWS) / 2
    assert np.all(np.isfinite(x))


def test_neighbouring_draws_and_streams_are_uncorrelated() -> None:
    # Correlations of independent draws have standard deviation 1/sqrt(n); 5 of them.
    x, y = sample(3), sample(4)
    limit = 5 / np.sqrt(N_DRAWS)
    assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < limit
    assert abs(np.corrcoef(np.abs(x[:-1]), np.abs(x[1:]))[0, 1]) < limit
    assert abs(np.corrcoef(x, y)[0, 1]) < limit


def test_log_is_within_two_and_a_half_ulp() -> None:
    rng = np.random.default_rng(0)
    u = np.concatenate(
        [rng.random(20_000), 10.0 ** -rng.uniform(0, 16, 20_000), 1 - 10.0 ** -rng.uniform(1, 15, 20_000)]
    )
    ours = np.array([-second_half(*_reduce(float(v)), 1.0) for v in u])
    reference = np.log(u)
    assert np.max(np.abs(ours - reference) / np.spacing(np.abs(reference))) <= 2.5


def test_same_bits_without_the_compiler() -> None:
    code = (
        "import numpy as np, warnings; warnings.simplefilter('ignore')\n"
        "from dprl.privacy import Streams\n"
        "from dprl.privacy.mechanisms.laplace import fill_laplace\n"
        "out = np.empty(600)\n"
        "fill_laplace(out, Streams(5, 'test').key('user_noise'), np.uint64(0), 3.0)\n"
        "print(' '.join(float(x).hex() for x in out))\n"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.split() == [float(v).hex() for v in sample(5, 600)]


@pytest.mark.parametrize("scale", [0.0, -1.0, float("inf"), float("nan")])
def test_bad_scales_are_refused(scale: float) -> None:
    with pytest.raises(ValueError, match="scale must be finite and above 0"):
        Laplace(scale)


def test_scale_and_guarantee_are_inverse() -> None:
    for epsilon, changes in ((0.5, 12), (3.0, 7)):
        assert Laplace(laplace_scale(epsilon, 0.0, changes)).pure_epsilon(changes) == pytest.approx(epsilon)


@pytest.mark.parametrize("n", [1, 255, 256, 257, 1000])
def test_a_draw_depends_on_its_number_only(n: int) -> None:
    key, whole, part = Streams(6, "test").key("user_noise"), sample(6, 3000), np.empty(n)
    fill_laplace(part, key, np.uint64(700), SCALE)
    assert np.array_equal(part, whole[700 : 700 + n])
