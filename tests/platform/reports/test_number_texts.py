"""Numbers have three significant digits in tables and two in sentences."""

from __future__ import annotations

import math

import pytest

from dprl.platform.reports.number_texts import delta_number, effect_text, estimate_text, rounded
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
