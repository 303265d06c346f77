"""The choice of the randomizer of reports: `mechanism: auto` in the local model."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from dprl.privacy import CountFamilies
from dprl.privacy.queries.count_calibration import (
    CountBudget,
    best_of_all,
    calibrated_report,
    detected_visits,
    report_names,
)
from dprl.privacy.queries.count_encoding import CountEncoding

Families = Callable[..., CountFamilies]


def budget(families: CountFamilies, epsilon: float, n_users: int, kind: str = "one_hot") -> CountBudget:
    """The budget of local reports."""
    return CountBudget(epsilon, 0.0, CountEncoding(families, kind), n_users, "fast")


def variances(name: str, epsilon: float, steps: int, families: int) -> tuple[float, float]:
    """What a user adds to a visited cell and to another: second moment of the estimate minus its squared mean."""
    if name in ("laplace", "discrete_laplace"):
        scale = 2 * steps * families / epsilon
        e = math.exp(-1 / scale)
        value = 2 * scale**2 if name == "laplace" else 2 * e / (1 - e) ** 2
        return value, value
    drawn = steps if name.startswith("sampled_") else 1
    each = epsilon * drawn / steps
    p, q = (0.5, 1 / (math.exp(each) + 1)) if "optimized" in name else (1 / (1 + math.exp(-each / 2)),) * 2
    q = q if "optimized" in name else 1 - p
    estimates = [drawn * (p * (1 - q) ** 2 + (1 - p) * q**2), drawn * (q * (1 - q) ** 2 + (1 - q) * q**2)]
    return estimates[0] / (p - q) ** 2 - 1, estimates[1] / (p - q) ** 2


@pytest.mark.parametrize("epsilon", [1.0, 10.0])
@pytest.mark.parametrize("kind", ["one_hot", "separate"])
def test_a_count_has_its_standard_deviation_at_the_detected_number_of_visits(
    kind: str, epsilon: float, tabular_families: Families
) -> None:
    horizon, users = 4, 1000
    asked = budget(tabular_families(horizon), epsilon, users, kind)
    visits = next(family for family in asked.encoding.needed.families if family.name == "visits")
    names = [name for name in report_names() if "gaussian" not in name and name != "auto"]
    for name in names if kind == "one_hot" else ["laplace", "discrete_laplace"]:
        report, _ = calibrated_report(name, asked)
        found = detected_visits(report, asked)
        own, other = variances(name, epsilon, horizon, 3 if kind == "separate" else 1)
        cells = asked.encoding.summands(visits)
        assert (cells == 1) == (kind == "separate")
        variance = found + found * own + (users * cells - found) * other
        assert math.sqrt(variance) == pytest.approx(found, rel=1e-9), name


@pytest.mark.parametrize(
    ("epsilon", "n_users", "chosen"),
    [
        (1.0, 10**5, "sampled_optimized_unary_encoding"),
        (20.0, 10**3, "sampled_symmetric_unary_encoding"),
        (20.0, 10**9, "sampled_optimized_unary_encoding"),
        (100.0, 10**3, "symmetric_unary_encoding"),
    ],
)
def test_auto_is_the_report_that_detects_the_fewest_visits(
    epsilon: float, n_users: int, chosen: str, tabular_families: Families
) -> None:
    asked = budget(tabular_families(4), epsilon, n_users)
    report, why = calibrated_report("auto", asked)
    assert report.name == chosen
    visits = {}
    for name in report_names():
        if name == "laplace" or name.endswith("unary_encoding"):
            other, _ = calibrated_report(name, asked)
            visits[other.name] = detected_visits(other, asked)
    first, second = sorted(visits, key=visits.__getitem__)[:2]
    assert first == chosen
    assert why == (
        f"{first}, whose counts of visits exceed their standard deviation from {visits[first]:.4g} on; "
        f"next: {second}, {visits[second]:.4g}"
    )


def test_the_best_families_are_those_whose_reports_detect_the_fewest_visits(tabular_families: Families) -> None:
    for epsilon, n_users in ((1.0, 10**5), (20.0, 10**9)):
        best = best_of_all(budget(tabular_families(4), epsilon, n_users), local=True)
        found = {}
        for kind in ("separate", "marginal", "one_hot"):
            asked = budget(tabular_families(4), epsilon, n_users, kind)
            report, _ = calibrated_report("auto", asked)
            found[kind, report.name] = detected_visits(report, asked)
        assert (best["families"], best["mechanism"]) == min(found, key=found.__getitem__)
