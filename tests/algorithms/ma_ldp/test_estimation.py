"""Ridge regression on noisy sums: exact if Sigma is positive definite, and defined if it is not."""

from __future__ import annotations

import math

import numpy as np

from dprl.algorithms.ma_ldp.algorithm import _POWERS, RIDGE, beta_rates, estimate, shift_rates
from dprl.privacy.mechanisms import GRAMS


def estimated(
    matrices: np.ndarray, vectors: np.ndarray, rates: np.ndarray, n_messages: int
) -> tuple[int, np.ndarray, np.ndarray]:
    """Return the number of extra shifts, theta and inverses from sums of two stages; the last one has no data."""
    both, sums = np.stack([matrices, np.zeros_like(matrices)], axis=1), np.stack([vectors, 0.0 * vectors], axis=1)
    d = vectors.shape[-1]
    theta, inverses = np.zeros_like(sums), np.tile(np.eye(d), (len(vectors), 2, 1, 1))
    return estimate(both, sums, rates, n_messages, theta, inverses, np.zeros((d, d))), theta, inverses


def test_theta_is_that_of_ridge_regression() -> None:
    generator = np.random.default_rng(0)
    features, targets = generator.standard_normal((2, 50, 3)), generator.standard_normal((2, 50))
    matrices, vectors = features.swapaxes(1, 2) @ features, np.einsum("mkd,mk->md", features, targets)
    extra, theta, inverses = estimated(matrices, vectors, np.array([0.7, 0.0]), 50)
    assert extra == 0
    shift = RIDGE + 0.7 * math.sqrt(50)
    for m in range(2):
        expected = np.linalg.solve(features[m].T @ features[m] + shift * np.eye(3), features[m].T @ targets[m])
        np.testing.assert_allclose(theta[m, 0], expected, rtol=1e-10)
    np.testing.assert_array_equal(theta[:, 1], 0.0)
    np.testing.assert_array_equal(inverses[:, 1], np.broadcast_to(np.eye(3), (2, 3, 3)))


def test_what_is_added_doubles_until_sigma_is_positive_definite() -> None:
    """With eigenvalues down to -100 and a shift of 1, what is added is 128: the first power of two above 100."""
    generator = np.random.default_rng(1)
    turn, _ = np.linalg.qr(generator.standard_normal((3, 3)))
    matrix = turn @ np.diag([-100.0, 5.0, 40.0]) @ turn.T
    extra, _, inverses = estimated(matrix[None], np.ones((1, 3)), np.zeros(2), 9)
    assert extra == 1
    np.testing.assert_allclose(inverses[0, 0], np.linalg.inv(matrix + 128.0 * np.eye(3)), rtol=1e-9)


def test_the_proofs_shift_makes_noise_positive_definite() -> None:
    """Of 200 sums of 100 noisy messages none needs a larger shift; with eta = 1 as printed nearly all do (D24)."""
    generator = np.random.default_rng(2)
    needed = {}
    for scale in (1.0, 0.0):
        rates = shift_rates(np.array([3.0, 0.0]), 4, 0.1, scale)
        needed[scale] = 0
        for _ in range(200):
            noise = np.triu(3.0 * generator.standard_normal((100, 4, 4)).sum(axis=0))
            needed[scale] += estimated(noise[None], np.zeros((1, 4)), rates, 100)[0]
    assert needed[1.0] == 0
    assert needed[0.0] > 190


def test_the_shift_is_that_of_the_proof() -> None:
    """2 Gamma_k over the root of the messages, Gamma_k for 1 - alpha / 6 at all H stages together."""
    deviations, alpha = np.array([3.0, 0.5, 0.0, 1.0, 2.0]), 0.1
    expected = 2.0 * deviations * (math.sqrt(4 * 6) + 2.0 * math.log(6 * 5 / alpha))
    np.testing.assert_allclose(shift_rates(deviations, 6, alpha, 1.0), expected, rtol=1e-12)
    np.testing.assert_allclose(shift_rates(deviations, 6, alpha, 0.25), expected / 4.0, rtol=1e-12)


def test_radii_are_those_of_the_theorems() -> None:
    sizes, alpha = (4, 5, 8500), 0.1
    common = 4**0.75 * math.log(4 * 8500 * 5 / 0.1)
    ahead = np.arange(5, 0, -1)
    np.testing.assert_allclose(beta_rates("raw", None, sizes, alpha), common * ahead**1.5)
    for name in ("gram_laplace", "gram_bounded_laplace"):
        np.testing.assert_allclose(beta_rates(name, (0.1, 0.0), sizes, alpha), common * ahead**1.5 / math.sqrt(0.1))
    delta = np.log(ahead / 1e-5) ** 0.25
    gaussian = beta_rates("gram_gaussian", (0.2, 1e-5), sizes, alpha)
    np.testing.assert_allclose(gaussian, common * ahead**1.5 * delta / math.sqrt(0.2))
    np.testing.assert_allclose(beta_rates("gram_uniform", (0.2, 1e-5), sizes, alpha), common * ahead**1.5 * delta)


def test_every_mechanism_has_a_radius() -> None:
    assert set(_POWERS) == {"raw", *GRAMS}
