"""The worst shift of bounded noise: no other shift with the same norms has a larger loss, for any log-concave law."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from dprl.privacy.accounting.closed_forms import Unbounded, bounded_support_curve, worst_outside
from dprl.privacy.base import Sensitivity

LogCommon = Callable[[float], float]


def uniform_common(shift: float) -> float:
    """Of the uniform law on [-1, 1]."""
    return math.log1p(-shift / 2) if shift < 2 else -math.inf


def triangle_common(shift: float) -> float:
    """Of the triangular law on [-1, 1]: the mass above shift - 1."""
    if shift >= 2:
        return -math.inf
    tail = shift**2 / 2 if shift <= 1 else 1 - (2 - shift) ** 2 / 2
    return math.log1p(-tail)


@pytest.mark.parametrize("log_common", [uniform_common, triangle_common])
@pytest.mark.parametrize(
    ("l1", "linf", "cells"), [(1.0, 1.0, 3), (2.3, 0.7, 5), (9.0, 0.3, 4), (0.2, 1.5, 2), (2.9, 1.9, 3)]
)
def test_no_shift_with_these_norms_loses_more(log_common: LogCommon, l1: float, linf: float, cells: int) -> None:
    rng, stated = np.random.default_rng(0), worst_outside(Sensitivity(l1, l1, linf, cells), log_common)
    for _ in range(2000):
        shift = np.minimum(rng.dirichlet(np.full(cells, rng.choice([0.1, 0.5, 3.0]))) * l1, linf)
        assert 1 - math.exp(sum(log_common(float(v)) for v in shift)) <= stated + 1e-12


def test_the_worst_shift_is_the_concentrated_one() -> None:
    assert worst_outside(Sensitivity(2.3, 2.3, 1.0, 9), uniform_common) == pytest.approx(1 - 0.5 * 0.5 * 0.85)
    assert worst_outside(Sensitivity(7 * 0.1, 7 * 0.1, 0.1, 7), uniform_common) == pytest.approx(1 - 0.95**7)
    assert worst_outside(Sensitivity(9.0, 9.0, 0.5, 2), uniform_common) == pytest.approx(1 - 0.75**2)
    assert worst_outside(Sensitivity(0.4, 0.4, 1.0, 5), uniform_common) == pytest.approx(0.2)


def test_curve_is_a_point_and_nothing_in_common_is_no_guarantee() -> None:
    curve = bounded_support_curve(1e-4, 0.5)
    assert (curve.delta(0.5), curve.delta(7.0)) == (1e-4, 1e-4)
    assert curve.delta(0.2) > 1e-3
    assert (curve.epsilon(0.9e-4), curve.pure_epsilon) == (math.inf, math.inf)
    assert curve.epsilon(1e-4) == 0.5
    assert isinstance(bounded_support_curve(1.0, 0.5), Unbounded)
