"""Noise by a table: draws have the table's law, and proofs use the same numbers."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy import stats

from dprl.privacy.counters.error_bounds import running_sum_bound
from dprl.privacy.mechanisms.base import Sensitivity
from dprl.privacy.mechanisms.sampling import fill_noise
from dprl.privacy.mechanisms.tabulated import WHOLE, TabulatedMechanism, require_nothing_else
from dprl.privacy.randomness.streams import Streams
from tests.privacy.laplace_losses import of_a_table

N_DRAWS = 100_000


@dataclass(frozen=True)
class Steps(TabulatedMechanism):
    """Noise of any table."""

    name: ClassVar[str] = "steps"
    table: tuple[int, ...]
    scale: float = 1.0

    @classmethod
    def calibrated(cls, epsilon: float, delta: float, sensitivity: Sensitivity) -> Steps:
        raise NotImplementedError

    def chances(self) -> list[int]:
        return list(self.table)


UNEVEN = Steps((WHOLE // 2, WHOLE // 4, WHOLE // 8, WHOLE // 8))
LONG = Steps((WHOLE - 2000 * (WHOLE // 4000), *[WHOLE // 4000] * 2000))


def draws(mechanism: TabulatedMechanism, seed: int = 0, n: int = N_DRAWS, first: int = 0) -> np.ndarray:
    out = np.full(n, np.nan)
    fill_noise(out, mechanism.noise(Streams(seed, "test").key("user_noise")), np.uint64(first))
    return out


@pytest.mark.parametrize("mechanism", [UNEVEN, LONG], ids=["short", "long"])
def test_what_is_drawn_is_the_law_of_the_table(mechanism: Steps) -> None:
    """A chi-squared test at 1e-6 accepts the law, and rejects the same one with 2/3 and 3/2 of the mass at 0."""
    bound = int(mechanism.bound)
    seen = np.bincount((draws(mechanism) + bound).astype(np.int64), minlength=2 * bound + 1)
    law = np.concatenate((mechanism.masses[:0:-1], mechanism.masses))

    def accepted(at_zero: float) -> bool:
        other = law * (1.0 - at_zero) / (1.0 - law[bound])
        other[bound] = at_zero
        return bool(stats.chisquare(seen, N_DRAWS * other).pvalue > 1e-6)

    assert accepted(law[bound])
    assert not accepted(law[bound] * 2 / 3)
    assert not accepted(min(0.9, law[bound] * 3 / 2))


def test_a_draw_depends_on_its_number_only() -> None:
    whole = draws(UNEVEN, n=3000)
    for first, n in [(0, 700), (1023, 5), (1024, 1), (2999, 1), (5, 0)]:
        assert np.array_equal(draws(UNEVEN, n=n, first=first), whole[first : first + n])
    assert not np.array_equal(draws(UNEVEN, seed=1, n=3000), whole)


def test_the_variance_is_that_of_the_table() -> None:
    assert UNEVEN.variance == Fraction(1, 4) + 4 * Fraction(1, 8) + 9 * Fraction(1, 8)
    assert draws(UNEVEN).var() == pytest.approx(UNEVEN.variance, rel=0.05)


@pytest.mark.parametrize("cells", [1, 2, 3])
def test_the_curve_holds_and_is_attained_by_enumeration(cells: int) -> None:
    """P(out | x) - e^epsilon P(out | x'), summed over outputs where it is positive, for n numbers that change by 1."""
    law = {z: float(UNEVEN.masses[abs(z)]) for z in range(-3, 4)}
    curve = UNEVEN.curve(Sensitivity.of_cells(cells))
    for epsilon in (0.0, 0.5, curve.epsilon(curve.delta(40.0)), 40.0):
        excess = 0.0
        for out in itertools.product(range(-3, 5), repeat=cells):
            ones = math.prod(law.get(z - 1, 0.0) for z in out)
            zeros = math.prod(law.get(z, 0.0) for z in out)
            excess += max(0.0, ones - math.exp(epsilon) * zeros)
        assert excess <= curve.delta(epsilon)
        if epsilon >= cells * math.log(4.0):
            assert excess == pytest.approx(curve.delta(epsilon), rel=1e-9)
    assert curve.pure_epsilon == math.inf


def test_numbers_that_change_otherwise_are_refused() -> None:
    with pytest.raises(ValueError, match="whole numbers that change by 1 only"):
        UNEVEN.curve(Sensitivity.of_cells(2, change=0.5))


@pytest.mark.parametrize(
    "table", [(WHOLE,), (WHOLE - 1, 2), (WHOLE, 0), (WHOLE + 5, -5), ()], ids=["one", "sum", "zero", "negative", "none"]
)
def test_a_table_that_is_no_law_is_refused(table: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"^chances must be"):
        _ = Steps(table).bound


@pytest.mark.parametrize(
    "table",
    [(2.0**63, 1000.0), tuple(np.full(3, WHOLE, dtype=np.uint64)), (True, WHOLE - 1)],
    ids=["floats", "wrapping", "bool"],
)
def test_only_whole_numbers_of_python_are_summed(table: tuple[Any, ...]) -> None:
    """Sums of floats are rounded to 2^63, and those of NumPy taken modulo 2^64."""
    with pytest.raises(ValueError, match=r"^chances must be"):
        _ = Steps(table).bound


@pytest.mark.parametrize(
    "name", ["curve", "noise", "masses", "bound", "law", "cumulative", "__getattribute__", "__init_subclass__"]
)
def test_a_class_cannot_say_otherwise_than_its_table(name: str) -> None:
    with pytest.raises(TypeError, match=f"Liar must leave {name} to its table"):
        type("Liar", (Steps,), {name: None})
    if name != "__init_subclass__":
        with pytest.raises(TypeError, match=f"Mixed must leave {name} to its table"):
            type("Mixed", (type("Mixin", (), {name: None}), Steps), {})


def test_a_class_that_was_not_looked_at_is_not_registered() -> None:
    """A mixed-in class prevents the check from being called."""
    silent = type("Silent", (), {"__init_subclass__": classmethod(lambda cls: None)})
    mixed = type("Mixed", (silent, Steps), {"curve": None})
    with pytest.raises(TypeError, match="Mixed must leave __init_subclass__, curve to its table"):
        require_nothing_else(mixed)


def test_a_field_cannot_say_otherwise_either() -> None:
    """A field without a default is an attribute of instances only, not of the class."""
    with pytest.raises(TypeError, match="Liar must leave law to its table"):
        type("Liar", (Steps,), {"__annotations__": {"law": "int"}})


@pytest.mark.parametrize("delta", [0.0, 1e-9, 0.3, 0.9])
def test_the_proof_is_recomputed_exactly(delta: float) -> None:
    for mechanism, cells in ((UNEVEN, 1), (UNEVEN, 3), (Steps((WHOLE - 2, 1, 1)), 2)):
        proved = mechanism.curve(Sensitivity.of_cells(cells)).epsilon(delta)
        again = of_a_table(mechanism.chances(), cells, delta)
        assert proved >= again
        if delta < 0.1:  # apart from the mass outside the support, the curve is slightly above the exact value
            assert proved == pytest.approx(again, rel=1e-9)


def test_sums_stay_within_their_bound() -> None:
    """Of 400 runs at beta = 0.05 more than 38 fail with probability below 1e-4; half of the bound does not hold."""
    runs = draws(UNEVEN, n=400 * 200).reshape(400, 200).cumsum(axis=1)
    largest, bound = np.abs(runs).max(axis=1), running_sum_bound(200, UNEVEN, 1, 0.05)
    assert (largest > bound).sum() <= 38
    assert (largest > bound / 2).sum() > 38
