"""The Laplace mechanism: the right distribution and no other, the same bits without the compiler, the right epsilon."""

from __future__ import annotations

import numpy as np
import pytest

from dprl.privacy.accounting.closed_forms import largest_loss
from dprl.privacy.base import Sensitivity
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.mechanisms.sampling import fill_noise
from dprl.privacy.randomness.bits import fill_bits
from tests.privacy.keys import key_of
from tests.privacy.laplace_losses import of_laplace_losses

SCALE = 3.0
GENERATORS = {"splitmix64": 0, "chacha20": 1}


def key(generator: str, seed: int) -> np.ndarray:
    return key_of(GENERATORS[generator], seed, 0x9E3779B97F4A7C15, 1, 2)


def sample(generator: str, seed: int, n: int, first: int = 0) -> np.ndarray:
    out = np.empty(n)
    fill_noise(out, Laplace(SCALE).noise(key(generator, seed)), np.uint64(first))
    return out


@pytest.mark.parametrize("generator", GENERATORS)
def test_a_draw_is_the_inverted_distribution_function_of_its_bits(generator: str) -> None:
    bits = np.empty(5000, dtype=np.uint64)
    fill_bits(bits, key(generator, 3), np.uint64(11))
    u = ((bits >> np.uint64(12)) + 0.5) / 2.0**52
    expected = np.where(bits & np.uint64(1), -1.0, 1.0) * -SCALE * np.log(u)
    assert np.allclose(sample(generator, 3, 5000, first=11), expected, rtol=1e-15, atol=0.0)


def test_pure_scale_and_guarantee_are_inverse() -> None:
    for epsilon, sensitivity in ((0.5, Sensitivity.of_cells(12)), (3.0, Sensitivity.of_cells(7, 0.25))):
        mechanism = Laplace.calibrated(epsilon, 0.0, sensitivity)
        assert mechanism.scale == pytest.approx(sensitivity.l1 / epsilon)
        assert mechanism.curve(sensitivity).pure_epsilon == pytest.approx(epsilon)
        assert mechanism.variance == pytest.approx(2 * mechanism.scale**2)


def test_a_delta_never_costs_noise_and_its_scale_proves_it() -> None:
    for epsilon, delta, sensitivity in (
        (1.0, 1e-6, Sensitivity.of_cells(20)),
        (1.0, 1e-6, Sensitivity.of_cells(400)),
        (0.5, 1e-3, Sensitivity(1.0, 1.0, 1.0, 50)),
    ):
        mechanism = Laplace.calibrated(epsilon, delta, sensitivity)
        assert mechanism.scale <= Laplace.calibrated(epsilon, 0.0, sensitivity).scale
        assert mechanism.curve(sensitivity).delta(epsilon) <= delta * (1 + 1e-6)
        less = Laplace(mechanism.scale * 0.99)
        assert less.curve(sensitivity).delta(epsilon) > delta
    composed = Laplace.calibrated(1.0, 1e-6, Sensitivity.of_cells(400))
    # Randomized responses of the same loss lose more.
    assert 0.99 < largest_loss(1.0, 1e-6, 400) * composed.scale < 1.0
    assert of_laplace_losses(400, 1.0 / composed.scale, 1e-6) == pytest.approx(1.0, rel=1e-4)


def test_the_kernels_see_what_the_mechanism_says_and_the_key_is_not_shown() -> None:
    noise = Laplace(2.5).noise(key("chacha20", 123456789))
    assert (noise.law, noise.scale, noise.bound, noise.table.size) == (Laplace.law, 2.5, 0.0, 0)
    assert "123456789" not in repr(noise)
