"""Texts of numbers: digits, powers of ten, intervals, and half regret that a run has not reached."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dprl.algorithms import Metric
from dprl.platform.reports.number_texts import delta_number, effect_text, estimate_text, rounded
from dprl.platform.reports.report import result_text
from dprl.platform.results.inference import Effect, Estimate


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.01224, "0.0122"),
        (34483.0, "34,500"),
        (99.96, "100"),
        (0.0, "0"),
        (-3.456, "\u22123.46"),
        (1e-6, "10\u207b\u2076"),
        (2.5e-7, "2.5\u00b710\u207b\u2077"),
        (-2.5e-7, "\u22122.5\u00b710\u207b\u2077"),
        (9.996e-5, "0.000100"),
        (9.994e-5, "9.99\u00b710\u207b\u2075"),
        (math.inf, "\u221e"),
        (-math.inf, "\u2212\u221e"),
        (math.nan, ""),
    ],
)
def test_tables_have_three_digits(value: float, text: str) -> None:
    assert rounded(value) == text


def test_sentences_have_two_digits() -> None:
    assert [rounded(value, 2) for value in (0.01224, 34483.0, 5.0)] == ["0.012", "34,000", "5.0"]


def test_deltas_are_powers_of_ten() -> None:
    assert [delta_number(delta) for delta in (0.0, 1e-6, 1e-3, 0.1)] == ["0", "10\u207b\u2076", "0.001", "0.1"]


def test_estimates_and_effects_have_their_intervals() -> None:
    assert estimate_text(Estimate(0.01224, 0.01081, 0.01379, "log")) == "0.0122 [0.0108, 0.0138]"
    assert estimate_text(Estimate(1.5, math.nan, math.nan, "linear")) == "1.50"
    assert effect_text(Effect(58.3, 45.1, 75.2, 0.01, "log")) == "58\u00d7 [45, 75]"
    assert effect_text(Effect(123.4, math.nan, math.nan, math.nan, "log")) == "123\u00d7"
    assert effect_text(Effect(-3.2, -5.0, 1.0, 0.1, "linear")) == "\u22123.20 [\u22125.00, +1.00]"


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
