"""The line that explains a scale: its formula, evaluated with the numbers in the line, gives the noise that runs."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from dprl.privacy.base import Sensitivity
from dprl.privacy.counters import BinaryTree, BufferedToeplitz, ExactCounter, GridToeplitz, KaryTree
from dprl.privacy.mechanisms import ADDITIVE, GRAMS
from dprl.privacy.mechanisms.bounded import BoundedLaplace, Uniform
from dprl.privacy.mechanisms.gram import GramBoundedLaplace, GramGaussian, GramLaplace, GramRelease, GramUniform
from dprl.privacy.mechanisms.privunit import PrivUnit
from dprl.privacy.mechanisms.projected_random_sign import ProjectedRandomSign
from dprl.privacy.mechanisms.reports import DirectEncoding, OptimizedUnaryEncoding
from dprl.privacy.mechanisms.vectors import ClippedGaussian, ClippedLaplace, SampledGaussian

ROW = Sensitivity.of_cells(20)
RELEASE, SCALES = GramRelease.of_horizon(4, 3, 2), (20.0, 9.0, 3.0, 0.0)
GAUSSIAN, LAPLACE = GramGaussian(RELEASE, SCALES), GramLaplace(RELEASE, SCALES)
BOUNDED = GramBoundedLaplace(RELEASE, SCALES, tuple(8.0 * scale for scale in SCALES))
# name = formula = the same in numbers = value
LINE = re.compile(r"(?P<name>\w+) (?:=|<=) [^=]+ = (?P<numbers>[-+*/().^ \w]+?) = (?P<value>\d[\d.e+-]*)")


def evaluated(line: str) -> float:
    """Return the value of the formula in a line, after evaluating the formula with the line's numbers."""
    found = LINE.search(line)
    assert found is not None, line
    numbers = re.sub(r"\be\^([\d.]+)", r"exp(\1)", found["numbers"]).replace("ln(", "log(")
    value = float(eval(numbers, {"exp": math.exp, "log": math.log, "sqrt": math.sqrt}))
    assert value == pytest.approx(float(found["value"]), rel=1e-4), line
    return value


@pytest.mark.parametrize("name", ADDITIVE)
@pytest.mark.parametrize("sensitivity", [ROW, ROW.repeated(4), ROW.joined(3), Sensitivity(30.0, 7.0, 4.0, 20)])
def test_of_additive_noise(name: str, sensitivity: Sensitivity) -> None:
    fixed = {"uniform": Uniform(500.0), "bounded_laplace": BoundedLaplace(40.0, 300.0)}
    law = fixed[name] if name in fixed else ADDITIVE[name].calibrated(0.5, 1e-3, sensitivity)
    line = law.explain(sensitivity)
    assert evaluated(line) == pytest.approx(law.scale, rel=1e-4)
    assert f"{sensitivity.l2 if law.norm == 'l2' else sensitivity.l1:.6g} / " in line
    assert line.endswith(sensitivity.changes)
    assert f"{sensitivity.cells} noisy numbers change by at most {sensitivity.linf:.6g} each" in line


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("kind", [ClippedLaplace, ClippedGaussian])
def test_of_clipped_vectors(kind: Any, exact: bool) -> None:
    law = kind.calibrated(1.0, 1e-6, 3, 2.0, exact=exact)
    assert evaluated(law.explain()) * (law.grid or 1.0) == pytest.approx(law.scale, rel=1e-4)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        *((law.explain(ROW), law.cold_probability) for law in (OptimizedUnaryEncoding(1.0), DirectEncoding(1.0, 5))),
        (ProjectedRandomSign.calibrated(6.0, 0.0, 10, 1.0).explain(), 6.0),
        ((cap := PrivUnit.calibrated(4.0, 0.0, 10)).explain(), cap.epsilon),
        (SampledGaussian(ClippedGaussian.with_scale(1.5, 3, 2.0), 0.1, 50).explain(), 1.5),
        (GAUSSIAN.explain(), GAUSSIAN.curve().mu),  # type: ignore[attr-defined]
        (LAPLACE.explain(), LAPLACE.curve().pure_epsilon),
        (BOUNDED.explain(), BOUNDED.curve().epsilon_0),  # type: ignore[attr-defined]
    ],
)
def test_of_reports_vectors_and_gram_matrices(line: str, expected: float) -> None:
    assert evaluated(line) == pytest.approx(expected, rel=1e-4)


def test_of_uniform_gram_noise_it_is_an_upper_bound() -> None:
    """The curve takes a product."""
    uniform = GramUniform(RELEASE, (400.0,) * 4)
    assert uniform.curve().delta(1.0) <= evaluated(uniform.explain()) < 1.1 * uniform.curve().delta(1.0)
    assert {law.name for law in (GAUSSIAN, LAPLACE, BOUNDED, uniform)} == set(GRAMS)


@pytest.mark.parametrize(
    "counter",
    [BinaryTree(1000), KaryTree(1000, base=5), ExactCounter(9), BufferedToeplitz(100), GridToeplitz(50, grid=2.0**-6)],
)
def test_of_counters(counter: Any) -> None:
    times = re.findall(r"row counts (?:[^:]*= )?([\d.]+) times|row counts (once)", counter.explain())[0][0] or 1
    sensitivity = counter.sensitivity(Sensitivity.of_cells(1))
    of_reals = isinstance(counter, BufferedToeplitz | GridToeplitz)
    assert float(times) == pytest.approx(sensitivity.l2 if of_reals else sensitivity.l1, rel=1e-5)
