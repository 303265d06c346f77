"""The choice of the randomizer of reports: `mechanism: auto` in the local model."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from dprl.privacy import CountFamilies, CountFamily, PooledFamilies
from dprl.privacy.designs import counts as of_counts
from dprl.privacy.designs.counts import report_names
from dprl.privacy.queries.count_layout import CountEncoding
from tests.privacy.conftest import SAMPLED

Families = Callable[..., CountFamilies]


class Budget(NamedTuple):
    """What local reports must meet."""

    epsilon: float
    n_users: int
    encoding: CountEncoding


def budget(families: CountFamilies, epsilon: float, n_users: int, kind: str = "one_hot") -> Budget:
    return Budget(epsilon, n_users, CountEncoding(families, kind))


def calibrated_report(name: str, asked: Budget) -> tuple[Any, str]:
    return of_counts.least_report(name, asked.epsilon, 0.0, asked.encoding, asked.n_users, exact=False)


def detection_threshold(report: Any, asked: Budget) -> float:
    return of_counts.detection_threshold(report, asked.encoding, asked.n_users)


def best_of_all(asked: Budget, *, local: bool) -> dict[str, Any]:
    return of_counts.best_of_all(asked.epsilon, 0.0, asked.encoding, asked.n_users, exact=False, local=local)


def variances(name: str, epsilon: float, steps: int, cells: int, width: int, families: int = 1) -> tuple[float, float]:
    """What a user adds to a sum of cells with and without the visited one: second moment minus squared mean."""
    if name in ("laplace", "discrete_laplace"):
        scale = 2 * steps * families / epsilon
        e = math.exp(-1 / scale)
        value = 2 * scale**2 if name == "laplace" else 2 * e / (1 - e) ** 2
        return cells * value, cells * value
    if "direct" in name:  # one bit of the row is 1, so a sum is 0 or 1
        q = 1 / (math.exp(epsilon) - 1 + width)
        p = math.exp(epsilon) * q
        means = p + (cells - 1) * q, cells * q
        hot, cold = (mean - mean**2 for mean in means)
    else:
        p, q = 0.5, 1 / (math.exp(epsilon) + 1)
        hot, cold = p * (1 - p) + (cells - 1) * q * (1 - q), cells * q * (1 - q)
    return steps * (hot / (p - q) ** 2 + 1) - 1, steps * cold / (p - q) ** 2


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
        found = detection_threshold(report, asked)
        cells = asked.encoding.summands(visits)
        assert (cells == 1) == (kind == "separate")
        width, many = asked.encoding.released.block, 3 if kind == "separate" else 1
        own, other = variances(name, epsilon, horizon, cells, width, many)
        variance = found + found * own + (users - found) * other
        assert math.sqrt(variance) == pytest.approx(found, rel=1e-9), name


@pytest.mark.parametrize(
    ("epsilon", "n_users", "chosen"),
    [(1.0, 10**5, SAMPLED), (3.0, 10**5, "sampled_direct_encoding"), (20.0, 10**9, "sampled_direct_encoding")],
)
def test_auto_is_the_report_that_detects_the_fewest_visits(
    epsilon: float, n_users: int, chosen: str, tabular_families: Families
) -> None:
    asked = budget(tabular_families(4), epsilon, n_users)
    report, why = calibrated_report("auto", asked)
    assert report.name == chosen
    visits = {}
    for name in report_names():
        if name == "laplace" or name.endswith("_encoding"):
            other, _ = calibrated_report(name, asked)
            visits[other.name] = detection_threshold(other, asked)
    first, second = sorted(visits, key=visits.__getitem__)[:2]
    assert first == chosen
    assert why == (
        f"{first}: counts of visits exceed their standard deviation from {visits[first]:.4g} visits on; "
        f"next: {second}, {visits[second]:.4g}"
    )


def test_pooled_counts_have_the_noise_of_all_steps() -> None:
    families = (CountFamily("transitions", 8), CountFamily("visits", 4, marginal_of="transitions"))
    pooled, each = (kind(6, families) for kind in (PooledFamilies, CountFamilies))
    report, _ = calibrated_report(SAMPLED, budget(each, 3.0, 1000))
    own, other = variances(report.name, 3.0, 6, 2, 8)
    for made, steps in ((pooled, 6), (each, 1)):
        found = detection_threshold(report, budget(made, 3.0, 1000))
        assert math.sqrt(found * (1 + own - other) + 1000 * steps * other) == pytest.approx(found, rel=1e-9)


@pytest.mark.parametrize(
    ("n_states", "epsilon", "expected"),
    [
        # Laplace noise on separate families detects visits first, with 4 times the noise of transitions.
        (30, 1.0, ("one_hot", SAMPLED)),
        (3, 20.0, ("one_hot", "sampled_direct_encoding")),
    ],
)
def test_the_best_noise_is_the_choice_of_auto_for_the_families_of_least_error(
    n_states: int, epsilon: float, expected: tuple[str, str], tabular_families: Families
) -> None:
    best = best_of_all(budget(tabular_families(2, n_states), epsilon, 10**7), local=True)
    assert (best["families"], best["mechanism"]) == expected
    asked = budget(tabular_families(2, n_states), epsilon, 10**7, best["families"])
    assert best["threshold"] == detection_threshold(calibrated_report("auto", asked)[0], asked)


@pytest.mark.parametrize("epsilon", [1.0, 10.0, 20.0])
def test_where_one_bound_is_for_all_cells_the_most_visited_decides(epsilon: float, tabular_families: Families) -> None:
    families, users = replace(tabular_families(4), by_bound=True), 1000
    asked = budget(families, epsilon, users)
    largest = {}
    for name in report_names():
        if name == "laplace" or name.endswith("_encoding"):
            own, _ = variances(name, epsilon, 4, 6, asked.encoding.released.block)  # 2 S cells, one of them the user's
            largest[name] = math.sqrt(users * own)
            report, _ = calibrated_report(name, asked)
            assert detection_threshold(report, asked) == pytest.approx(largest[name], rel=1e-9)
    report, why = calibrated_report("auto", asked)
    assert report.name == min(largest, key=largest.__getitem__)
    assert why.startswith(f"{report.name}: counts of visits exceed the largest standard deviation from ")


@pytest.mark.parametrize("name", [SAMPLED, "sampled_direct_encoding"])
def test_a_bound_for_pooled_counts_is_for_the_most_telling_number_of_visits(name: str) -> None:
    """By the law of a user's estimate who visits the cell at h of H steps, for all h."""
    steps, users, epsilon = 6, 1000, 5.0
    families = (CountFamily("transitions", 8), CountFamily("visits", 4, marginal_of="transitions"))
    asked = budget(PooledFamilies(steps, families, by_bound=True), epsilon, users)
    report, _ = calibrated_report(name, asked)
    own, other = variances(name, epsilon, 1, 2, 8)
    found = []
    for h in range(1, steps + 1):
        # One of H steps is sent, times H: a visit of it is one hot cell of two, which add up.
        square = h / steps * (own + 1) + (1 - h / steps) * other
        found.append(steps**2 * square - h**2)
    assert detection_threshold(report, asked) == pytest.approx(math.sqrt(users * max(found)), rel=1e-9)


def test_families_without_visits_have_a_threshold_too() -> None:
    asked = budget(CountFamilies(2, (CountFamily("values", 4, indicator=False),)), 1.0, 100, "separate")
    report, why = calibrated_report("auto", asked)
    assert detection_threshold(report, asked) == pytest.approx((1 + math.sqrt(1 + 800 * report.scale**2)) / 2)
    assert why.startswith("laplace: ")
