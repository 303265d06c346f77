"""The comparison with PPO counts users by its stated rule."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from benchmarks.dppg import needed, table


def curve(*scores: float) -> pd.DataFrame:
    return pd.DataFrame({"users": np.arange(len(scores)) * 100 + 100, "score": scores})


@pytest.mark.parametrize(
    ("scores", "expected"),
    [((0, 90, 0, 90, 95), 400), ((90, 90), 100), ((0, 0, 90), math.inf), ((), math.inf)],
)
def test_two_scores_in_a_row_reach_the_goal(scores: tuple[float, ...], expected: float) -> None:
    assert needed(curve(*scores), 90.0) == expected


def test_the_goal_is_relative_to_random_actions_and_the_median_has_its_exact_interval() -> None:
    runs = {"PPO": [curve(*[0] * n, 95, 100, 105) for n in range(10)], "DPPG": [curve(0, 0, 0)] * 10}
    ppo, dppg = table(runs, random=-100.0).to_dict("records")
    assert (ppo["score"], ppo["goal"]) == (100.0, pytest.approx(80.0))
    assert ppo["users by seed"] == [100.0 * n for n in range(1, 11)]
    # Order statistics 2 and 9 of 10: each side misses the median with probability 11 / 1024.
    assert (ppo["median"], ppo["low"], ppo["high"]) == (550.0, 200.0, 900.0)
    assert (dppg["median"], dppg["low"]) == (math.inf, math.inf)
