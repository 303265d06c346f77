"""When the regret per episode has halved: lasting, at the end of a block, and infinite otherwise."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from dprl.algorithms import TabularMDPConfig
from dprl.platform.results.summary import columns, final_numbers, halved_at
from tests.platform.reports.cases import cell, finished


def records(seeds: list[list[float]], lengths: list[int]) -> pd.DataFrame:
    """Rows of seeds with these regrets per episode in blocks of these lengths."""
    ends = np.cumsum(lengths)
    frames = []
    for seed, values in enumerate(seeds):
        total = np.cumsum(np.array(values) * lengths)
        frames.append(
            pd.DataFrame(dict(zip(columns(TabularMDPConfig.metrics), (seed, ends, total, values, 0.0), strict=True)))
        )
    return pd.concat(frames, ignore_index=True)


def halving(some: pd.DataFrame) -> dict[str, float]:
    """The columns on halving of a finished cell with these records."""
    one = cell({"model": "none"})
    found = final_numbers(one.metrics, finished(one, some))
    return {name: value for name, value in found.items() if name.startswith("halved")}


def by_definition(values: list[float], lengths: list[int]) -> float:
    """The definition, implemented literally."""
    target = values[0] / 2
    for i in range(len(values) - 1):
        later = [np.average(values[i + 1 : j], weights=lengths[i + 1 : j]) for j in range(i + 2, len(values) + 1)]
        if values[i] <= target and max(later) <= target:
            return float(sum(lengths[: i + 1]))
    return math.inf


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, 1.0, 0.5, 0.25], 3 + 0.0),
        ([1.0, 0.5, 0.5, 0.5], 2.0),
        ([1.0, 0.6, 0.6, 0.6], math.inf),
        ([1.0, 1.0, 1.0, 0.1], math.inf),  # nothing confirms the last block
        ([1.0, 0.1, 1.0, 0.1, 0.1], 4.0),  # a dip
        ([1.0, 0.1, 0.4, 0.6, 0.3], 2.0),  # a rise that the mean after the halving does not notice
        ([0.0, 0.0, 0.0], 1.0),
        ([0.0, 0.0, 1.0], math.inf),
    ],
)
def test_the_first_lasting_halving_counts(values: list[float], expected: float) -> None:
    assert halved_at(records([values], [1] * len(values))).tolist() == [expected]


def test_a_dip_does_not_count_however_long_the_run_is_good_afterwards() -> None:
    """The mean over the rest of the run is below half from episode 2 on, but the regret only from episode 1000 on."""
    some = records([[1.0, 0.1, 1.0, 0.01, 0.01]], [1, 1, 998, 10**6, 10**6])
    assert halved_at(some).tolist() == [1_001_000.0]


def test_blocks_weigh_by_their_lengths() -> None:
    lengths = [1, 1, 8, 2, 4]
    assert halved_at(records([[1.0, 0.4, 0.35, 0.9, 0.1]], lengths)).tolist() == [2.0]
    assert halved_at(records([[1.0, 0.4, 0.35, 0.9, 0.1]], [1, 1, 2, 8, 4])).tolist() == [math.inf]


def test_it_is_the_definition_on_random_walks() -> None:
    rng = np.random.default_rng(4)
    lengths = [1, *rng.integers(1, 30, size=39).tolist()]
    # Multiples of 1/64 below 8, so that sums are exact and ties are seen.
    seeds = [(np.round(rng.random(40) * 64) / 64 * np.linspace(2, 0.5, 40).round()).tolist() for _ in range(200)]
    found = halved_at(records(seeds, lengths))
    assert found.tolist() == [by_definition(values, lengths) for values in seeds]
    assert 20 < np.isfinite(found).sum() < 200


def test_a_better_start_asks_for_more() -> None:
    some = records([[1.0, 0.4, 0.4], [0.6, 0.4, 0.4]], [1, 1, 1])
    assert halved_at(some).tolist() == [2.0, math.inf]


def test_where_the_first_policy_is_optimal_there_is_nothing_to_halve() -> None:
    assert halving(records([[0.0, 0.2, 0.0], [0.0, 0.0, 0.0]], [1, 1, 1])) == {}


def test_the_columns_are_the_median_its_interval_and_the_share() -> None:
    halved, never = [1.0, 0.5, 0.5], [1.0, 1.0, 1.0]
    assert halving(records([halved] * 15 + [never] * 5, [1, 1, 1])) == {
        "halved_at": 2.0,
        "halved_at_lower": 2.0,
        "halved_at_upper": 2.0,
        "halved_share": 0.75,
    }
    assert halving(records([halved] * 14 + [never] * 6, [1, 1, 1]))["halved_at_upper"] == math.inf
