"""Roots: on the safe side, also at jumps and at the ends."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dprl.privacy.accounting.root_finding import largest, smallest
from dprl.privacy.base import quotient_up


@pytest.mark.parametrize("target", [1e-300, 1e-15, 0.3])
@pytest.mark.parametrize("start", [1e-9, 1.0, 1e9])
def test_smallest_is_just_above_the_root(target: float, start: float) -> None:
    x = smallest(lambda x: math.exp(-min(x, 800.0)), target, start)
    assert math.exp(-x) <= target
    assert x == pytest.approx(-math.log(target), rel=1e-8)


def test_jumps_and_missing_roots() -> None:
    assert smallest(lambda x: 0.5 if x < 3.0 else 0.0, 0.1, 1.0) == pytest.approx(3.0, rel=1e-8)
    assert smallest(lambda x: 0.5 if x < 3.0 else 0.0, 0.1, 1.0) >= 3.0
    assert smallest(lambda _: 0.5, 0.1, 1.0) == math.inf
    assert smallest(lambda _: 0.0, 0.1, 1.0) < 1e-290


def test_largest_is_just_below_the_root() -> None:
    x = largest(lambda x: 1 - math.exp(-x), 0.25, 1.0)
    assert 1 - math.exp(-x) <= 0.25
    assert x == pytest.approx(-math.log(0.75), rel=1e-8)


def test_quotients_are_the_nearest_on_the_safe_side() -> None:
    rng, inexact = np.random.default_rng(0), 0
    for numerator, denominator in np.exp(rng.uniform(-30, 30, (500, 2))).tolist():
        exact = Fraction(numerator) / Fraction(denominator)
        up, down = quotient_up(numerator, denominator), -quotient_up(-numerator, denominator)
        assert Fraction(math.nextafter(up, 0.0)) < exact <= Fraction(up)
        assert Fraction(down) <= exact < Fraction(math.nextafter(down, math.inf))
        inexact += up > numerator / denominator
    assert inexact > 100
    assert quotient_up(6.0, 1.5) == -quotient_up(-6.0, 1.5) == 4.0


def test_quotients_at_the_ends() -> None:
    assert quotient_up(1.0, 1e-320) == math.inf
    assert quotient_up(1e-320, 1e10) == 5e-324
    assert -quotient_up(-1e-320, 1e10) == 0.0
    assert quotient_up(1.0, math.inf) == 0.0
