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
from dprl.privacy.mechanisms.reports import DirectEncoding, OptimizedUnaryEncoding, ShuffledReports, UnaryEncoder
from dprl.privacy.mechanisms.vectors import ClippedGaussian, ClippedLaplace, SampledGaussian

ROW = Sensitivity.of_cells(20)
RELEASE = GramRelease.of_horizon(4, 3, 2)
# name = formula = the same in numbers = value
LINE = re.compile(r"(?P<name>\w+) (?:=|<=) [^=]+ = (?P<numbers>[-+*/().^ \w]+?) = (?P<value>\d[\d.e+-]*)")


def evaluated(line: str) -> tuple[str, float]:
    """Return the name and the value of the formula in a line, after evaluating the formula with the line's numbers."""
    found = LINE.search(line)
    assert found is not None, line
    numbers = re.sub(r"\be\^([\d.]+)", r"exp(\1)", found["numbers"]).replace("ln(", "log(")
    value = float(eval(numbers, {"exp": math.exp, "log": math.log, "sqrt": math.sqrt}))
    assert value == pytest.approx(float(found["value"]), rel=1e-4), line
    return found["name"], value


BOUNDED = {"uniform": Uniform(500.0), "bounded_laplace": BoundedLaplace(40.0, 300.0)}


@pytest.mark.parametrize("name", ADDITIVE)
@pytest.mark.parametrize("sensitivity", [ROW, ROW.repeated(4), ROW.joined(3), Sensitivity(30.0, 7.0, 4.0, 20)])
def test_of_additive_noise(name: str, sensitivity: Sensitivity) -> None:
    law = BOUNDED[name] if name in BOUNDED else ADDITIVE[name].calibrated(0.5, 1e-3, sensitivity)
    line = law.explain(sensitivity)
    assert evaluated(line)[1] == pytest.approx(law.scale, rel=1e-4)
    norm = sensitivity.l2 if law.norm == "l2" else sensitivity.l1
    assert f"{norm:.6g} / " in line
    assert line.endswith(sensitivity.changes)
    assert f"{sensitivity.cells} noisy numbers change by at most {sensitivity.linf:.6g} each" in line


@pytest.mark.parametrize("encoding", [OptimizedUnaryEncoding(1.0), DirectEncoding(1.0, 5)])
def test_of_encodings(encoding: Any) -> None:
    row, reports = Sensitivity.of_cells(2), UnaryEncoder(encoding, 7, 5)
    name, value = evaluated(encoding.explain(row))
    assert name == "q"
    assert value == pytest.approx(encoding.cold_probability, rel=1e-4)
    assert reports.explain(row).startswith(encoding.explain(row))
    assert "one of 7 steps" in reports.explain(row)
    assert ShuffledReports(reports, 100).explain(row).endswith("at least 99 others")


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("kind", [ClippedLaplace, ClippedGaussian])
def test_of_clipped_vectors(kind: Any, exact: bool) -> None:
    law = kind.calibrated(1.0, 1e-6, 3, 2.0, exact=exact)
    assert evaluated(law.explain())[1] * (law.grid or 1.0) == pytest.approx(law.scale, rel=1e-4)
    assert "differ by at most C = 2" in law.explain()


def test_of_other_vectors() -> None:
    signs, cap = ProjectedRandomSign.calibrated(6.0, 0.0, 10, 1.0), PrivUnit.calibrated(4.0, 0.0, 10)
    assert evaluated(signs.explain()) == ("epsilon", pytest.approx(6.0))  # type: ignore[comparison-overlap]
    assert evaluated(cap.explain()) == ("epsilon", pytest.approx(cap.epsilon, rel=1e-4))  # type: ignore[comparison-overlap]
    joined = SampledGaussian(ClippedGaussian.with_scale(1.5, 3, 2.0), 0.1, 50)
    assert evaluated(joined.explain()) == ("sigma", pytest.approx(1.5))  # type: ignore[comparison-overlap]


def test_of_gram_matrices() -> None:
    scales = (20.0, 9.0, 3.0, 0.0)
    laws = [GramGaussian(RELEASE, scales), GramLaplace(RELEASE, scales), GramUniform(RELEASE, (400.0,) * 4)]
    laws.append(GramBoundedLaplace(RELEASE, scales, tuple(8.0 * scale for scale in scales)))
    assert {law.name for law in laws} == set(GRAMS)
    proved = [laws[0].curve().mu, laws[1].curve().pure_epsilon]  # type: ignore[attr-defined]
    for law, expected in zip(laws, [*proved, None, laws[3].curve().epsilon_0], strict=True):  # type: ignore[attr-defined]
        value = evaluated(law.explain())[1]
        if expected is not None:
            assert value == pytest.approx(expected, rel=1e-4)
        else:  # an upper bound: the curve takes a product
            assert law.curve().delta(1.0) <= value < 1.1 * law.curve().delta(1.0)


@pytest.mark.parametrize("counter", [BinaryTree(1000), KaryTree(1000, base=5), ExactCounter(9), BufferedToeplitz(100)])
def test_of_counters(counter: Any) -> None:
    line, row = counter.explain(), Sensitivity.of_cells(1)
    times = float(re.findall(r"row counts (?:[^:]*= )?([\d.]+) times|row counts (once)", line)[0][0] or 1)
    sensitivity = counter.sensitivity(row)
    by_norm = sensitivity.l2 if isinstance(counter, BufferedToeplitz) else sensitivity.l1
    assert times == pytest.approx(by_norm, rel=1e-5)


def test_of_the_grid() -> None:
    counter = GridToeplitz(50, grid=2.0**-6)
    found = re.search(r"row counts ([\d.]+) times", counter.explain())
    assert found is not None
    assert float(found[1]) == pytest.approx(counter.sensitivity(Sensitivity.of_cells(1)).l2, rel=1e-5)
