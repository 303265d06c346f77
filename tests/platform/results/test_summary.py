"""The row of a cell in the summary, and the episode at which its regret has halved."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dprl.algorithms import Metric, TabularMDPConfig
from dprl.platform.configs.experiment import read_experiment
from dprl.platform.results.inference import estimate
from dprl.platform.results.summary import (
    SATURATION_NOTE,
    by_seed,
    columns,
    final_numbers,
    halved_at,
    learned_nothing,
    summary_row,
    unit_of,
)
from tests.platform.processes import SMALL
from tests.platform.reports.cases import cell, finished, game_cell
from tests.platform.reports.cases import records as game_records

RAW = SMALL | {"privacy": {"model": "ldp", "epsilon": 1.0, "calibration": "printed"}, "episodes": 4, "seeds": 3}


def records(per_episode: list[list[float]], saturated: float = 0.5) -> pd.DataFrame:
    """Rows of seeds with these regrets per block of two episodes."""
    rows = [
        (seed, 2 * (i + 1), 2 * sum(values[: i + 1]), values[i], saturated)
        for seed, values in enumerate(per_episode)
        for i in range(len(values))
    ]
    return pd.DataFrame(rows, columns=columns(TabularMDPConfig.metrics))


def test_the_order_of_rows_does_not_matter() -> None:
    some = records([[1.0, 0.5], [3.0, 1.5]])
    mixed = by_seed(some.sample(frac=1, random_state=0))
    assert [each.tolist() for each in mixed] == [each.tolist() for each in by_seed(some)]


def test_the_summary_row_has_settings_regret_and_privacy() -> None:
    one = read_experiment(RAW)
    row = summary_row(one, finished(one, records([[1.0, 0.5], [3.0, 1.5], [2.0, 1.0]])))
    assert row["cell"] == one.digest
    assert row["env.horizon"] == 4
    assert row["regret"] == pytest.approx(6.0)
    assert row["regret_lower"] < 6.0 < row["regret_upper"]
    assert row["mean_regret"] == pytest.approx(1.5)
    assert (row["regret_per_episode_first"], row["regret_per_episode_last"]) == pytest.approx((2.0, 1.0))
    assert (row["claimed_epsilon"], row["proved_epsilon"], row["verdict"]) == (1.0, 2.0, "fails")
    assert row["saturated"] == 0.5
    assert row["note"] == ""
    assert (row["halved_at"], row["halved_share"]) == (math.inf, 0.0)


def test_intervals_do_not_leave_the_range_of_their_metric() -> None:
    """An episode of 4 steps loses between 0 and 4, and the intervals of these seeds reach beyond both."""
    one = read_experiment(RAW)
    row = summary_row(one, finished(one, records([[0.0, 0.0], [0.0, 4.0], [4.0, 4.0]])))
    assert (row["regret_lower"], row["regret_upper"]) == (0.0, 16.0)
    assert (row["mean_regret_lower"], row["mean_regret_upper"]) == (0.0, 4.0)
    assert (row["regret_per_episode_last_lower"], row["regret_per_episode_last_upper"]) == (0.0, 4.0)


def test_the_summary_row_names_the_theorem_that_covers_the_settings() -> None:
    found = []
    for settings in ({}, {"bonus_scale": 0.5}, {"name": "pucb"}):
        one = read_experiment({**RAW, "algorithm": {**RAW["algorithm"], **settings}})
        found.append(summary_row(one, finished(one, records([[1.0, 0.5]])))["theorem"])
    assert found[0].startswith("[CZ22] Theorem")
    assert summary_row(one, finished(one, records([[1.0, 0.5]])))["derived_c"] == 0.5
    assert found[1:] == ["", ""]


def test_saturation_is_a_mean_over_episodes_whatever_the_length_of_a_block() -> None:
    one = read_experiment(RAW)
    some = pd.DataFrame([(0, 1, 1.0, 1.0, 1.0), (0, 4, 2.0, 1 / 3, 0.2)], columns=columns(TabularMDPConfig.metrics))
    assert summary_row(one, finished(one, some))["saturated"] == pytest.approx(0.4)


@pytest.mark.parametrize(("share", "noted"), [(1.0, True), (0.995, True), (0.99, False), (0.2, False)])
def test_a_bonus_that_stays_saturated_is_noted(share: float, noted: bool) -> None:
    one = read_experiment(RAW)
    some = records([[1.0, 1.0], [1.0, 1.0]], saturated=share)
    assert learned_nothing(some) is noted
    assert (summary_row(one, finished(one, some))["note"] == SATURATION_NOTE) is noted


def test_a_bonus_that_comes_down_at_the_end_is_not_noted() -> None:
    some = records([[1.0, 1.0], [1.0, 1.0]], saturated=1.0)
    some.loc[some["episode"] == 4, "saturated"] = 0.5
    assert not learned_nothing(some)


def test_a_cell_without_regret_is_not_said_to_have_learned_nothing() -> None:
    one = read_experiment(RAW)
    some = records([[0.0, 0.0], [0.0, 0.0]], saturated=1.0)
    assert not learned_nothing(some)
    assert summary_row(one, finished(one, some))["note"] == ""
    assert learned_nothing(records([[0.0, 0.0], [0.0, 1.0]], saturated=1.0))


def test_the_summary_row_of_a_game_has_gaps_with_their_bands() -> None:
    one = game_cell({"model": "jdp", "epsilon": 1.0})
    some = game_records(one)
    final = some[some["episode"] == 1000]
    row = summary_row(one, finished(one, some))
    for name in ("gap", "smallest_gap", "exploitability", "infeasible"):
        found = row[name], row[f"{name}_lower"], row[f"{name}_upper"]
        assert found == pytest.approx(estimate(final[name].to_numpy())[:3])
    other = summary_row(read_experiment(RAW), finished(read_experiment(RAW), records([[1.0, 0.5]] * 3)))
    assert not {key for key in other if "gap" in key or "exploit" in key}


@pytest.mark.parametrize(
    ("rows", "unit"),
    [
        ([{"algorithm.name": "private_ucb_vi"}], "episode"),
        ([{"algorithm.name": "pgc_a3c"}], "submission"),
        ([{"algorithm.name": "dppg"}], "user"),
        ([{"algorithm.name": "dppg", "privacy.submissions": 2}], "episode"),
        ([{"algorithm.name": "unknown"}], "episode"),
        ([{"algorithm.name": "pgc_a3c"}, {"algorithm.name": "dppg"}], "episode"),
    ],
)
def test_the_unit_of_runs_is_that_of_their_algorithms(rows: list[dict[str, Any]], unit: str) -> None:
    assert unit_of(rows) == unit


@pytest.mark.parametrize("over", ["sum", "mean"])
def test_a_median_is_of_the_last_value(over: Any) -> None:
    with pytest.raises(ValueError, match=f"across: must be mean with over '{over}', got 'median' for metric 'score'"):
        Metric("score", over, "steps", across="median")


# When the regret per episode has halved: lasting, at the end of a block, and infinite otherwise.


def regrets(seeds: list[list[float]], lengths: list[int]) -> pd.DataFrame:
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
    """The columns on halving of a finished cell with these regrets."""
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
    assert halved_at(regrets([values], [1] * len(values))).tolist() == [expected]


def test_a_dip_does_not_count_however_long_the_run_is_good_afterwards() -> None:
    """The mean over the rest of the run is below half from episode 2 on, but the regret only from episode 1000 on."""
    some = regrets([[1.0, 0.1, 1.0, 0.01, 0.01]], [1, 1, 998, 10**6, 10**6])
    assert halved_at(some).tolist() == [1_001_000.0]


def test_blocks_weigh_by_their_lengths() -> None:
    lengths = [1, 1, 8, 2, 4]
    assert halved_at(regrets([[1.0, 0.4, 0.35, 0.9, 0.1]], lengths)).tolist() == [2.0]
    assert halved_at(regrets([[1.0, 0.4, 0.35, 0.9, 0.1]], [1, 1, 2, 8, 4])).tolist() == [math.inf]


def test_it_is_the_definition_on_random_walks() -> None:
    rng = np.random.default_rng(4)
    lengths = [1, *rng.integers(1, 30, size=39).tolist()]
    # Multiples of 1/64 below 8, so that sums are exact and ties are seen.
    seeds = [(np.round(rng.random(40) * 64) / 64 * np.linspace(2, 0.5, 40).round()).tolist() for _ in range(200)]
    found = halved_at(regrets(seeds, lengths))
    assert found.tolist() == [by_definition(values, lengths) for values in seeds]
    assert 20 < np.isfinite(found).sum() < 200


def test_a_better_start_asks_for_more() -> None:
    some = regrets([[1.0, 0.4, 0.4], [0.6, 0.4, 0.4]], [1, 1, 1])
    assert halved_at(some).tolist() == [2.0, math.inf]


def test_where_the_first_policy_is_optimal_there_is_nothing_to_halve() -> None:
    assert halving(regrets([[0.0, 0.2, 0.0], [0.0, 0.0, 0.0]], [1, 1, 1])) == {}


def test_the_columns_are_the_median_its_interval_and_the_share() -> None:
    halved, never = [1.0, 0.5, 0.5], [1.0, 1.0, 1.0]
    assert halving(regrets([halved] * 15 + [never] * 5, [1, 1, 1])) == {
        "halved_at": 2.0,
        "halved_at_lower": 2.0,
        "halved_at_upper": 2.0,
        "halved_share": 0.75,
    }
    assert halving(regrets([halved] * 14 + [never] * 6, [1, 1, 1]))["halved_at_upper"] == math.inf
