"""The texts of a cell: numbers with their intervals, settings and claims in a few words."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dprl.algorithms import Metric
from dprl.platform.reports.report import result_text
from dprl.platform.results.cells import plain, setting_text


def interval(name: str, value: float, lower: float, upper: float) -> dict[str, Any]:
    return {"episodes": 1000, name: value, f"{name}_lower": lower, f"{name}_upper": upper}


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (interval("halved_at", 50.0, 40.0, 61.0), "50 [40, 61]"),
        (interval("halved_at", 50.0, 40.0, math.inf), "50 [40, >1,000]"),
        (interval("halved_at", math.inf, 900.0, math.inf), ">1,000 [900, >1,000]"),
        (interval("halved_at", math.inf, math.inf, math.inf), ">1,000"),
        ({"episodes": 1000, "halved_at": 50.0}, "50"),
        ({"episodes": 1000}, ""),
    ],
)
def test_half_regret_beyond_the_run_is_more_than_its_episodes(row: dict[str, Any], text: str) -> None:
    halved_at = Metric("halved_at", "last", "episodes", across="median")
    assert result_text(row, halved_at) == text


def test_a_result_has_its_interval_if_there_are_enough_seeds() -> None:
    reward, episode = Metric("final", "last", "reward"), Metric("first_success", "last", "episodes", across="median")
    row = interval("final", 12.3456, 11.0, 13.5) | interval("first_success", 700.0, 650.0, math.inf)
    assert result_text(row, reward) == "12.3 [11.0, 13.5]"
    assert result_text(row, episode) == "700 [650, >1,000]"
    assert result_text({"episodes": 1000, "final": 12.0}, reward) == "12.0"
    assert [result_text({"episodes": 1000}, metric) for metric in (reward, episode)] == ["", ""]


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("privacy.mechanism", "privunit", "privunit"),
        ("privacy.rewards", "public", "rewards=public"),
        ("algorithm.buffer_size", 100, "buffer_size=100"),
        ("algorithm.bonus_scale", 0.1 + 0.2, "bonus_scale=0.3"),
        ("algorithm.lazy", False, "lazy=False"),
    ],
)
def test_settings_are_a_few_words(key: str, value: object, text: str) -> None:
    assert setting_text(key, value) == text


def test_whole_numbers_have_no_decimals_and_others_at_most_ten_digits() -> None:
    assert [plain(value) for value in (3.0, 3, 1 / 3, "3.0")] == ["3", "3", "0.3333333333", "3.0"]
