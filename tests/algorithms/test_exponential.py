"""The exponential function of the policy step."""

from __future__ import annotations

import numpy as np
import pytest

from dprl.algorithms.numerics import exponential


def arguments() -> np.ndarray:
    rng = np.random.default_rng(0)
    near, far = 10.0 ** -rng.uniform(0, 20, 5_000), rng.uniform(0.0, 708.0, 5_000)
    return -np.concatenate([rng.random(5_000), near, far, np.arange(1021) * np.log(2.0)])


def test_it_is_within_two_ulp_of_numpy() -> None:
    x = arguments()
    ours = np.array([exponential(v) for v in x])
    assert np.max(np.abs(ours - np.exp(x)) / np.spacing(np.exp(x))) <= 2.0


def test_its_ends() -> None:
    assert exponential(0.0) == 1.0
    assert exponential(-0.0) == 1.0
    assert exponential(-708.0) == pytest.approx(np.exp(-708.0), rel=1e-15)
    for x in (np.nextafter(-708.0, -800.0), -745.0, -1e300, -np.inf):
        assert exponential(x) == 0.0
