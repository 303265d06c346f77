"""`--compare` of two algorithms: ratios of their episodes to half regret, at equal noise only."""

from __future__ import annotations

import math
from typing import Any

from dprl.platform.reports.documents.blocks import Heading, Section, Table
from dprl.platform.reports.pages.comparison import halving_comparison

SCALES: dict[str, Any] = {"algorithm.bonus_scale": 0.03, "algorithm.precision_scale": 0.03}
OTHER: dict[str, Any] = {"algorithm.name": "other"}
LESS: dict[str, Any] = {"privacy.families": "one_hot", "privacy.counter": "auto"}


def row(halved_at: float, **more: Any) -> dict[str, Any]:
    """A cell of a summary."""
    one = {
        "algorithm.name": "ours",
        "algorithm.bonus_scale": 1.0,
        "algorithm.precision_scale": 1.0,
        "env.name": "riverswim",
        "env.horizon": 3,
        "privacy.model": "jdp",
        "privacy.families": "separate",
        "privacy.counter": "binary_tree",
        "episodes": 300,
        "proved_epsilon": 1.0,
        "claimed_delta": 1e-6,
    }
    return {**one, "halved_at": halved_at, **more}


def compared(cells: list[dict[str, Any]], one: str, other: str) -> dict[str, list[dict[str, str]]]:
    """The rows of each table by header, for each heading."""
    found = {}
    for section in halving_comparison(cells, one, other):
        assert isinstance(section, Section)
        heading, _, table = section.blocks
        assert isinstance(heading, Heading)
        assert isinstance(table, Table)
        columns, rows = table.plain()
        headers = [str(column.header) for column in columns]
        found[heading.text] = [dict(zip(headers, each, strict=True)) for each in rows]
    return found


def test_two_algorithms_are_compared_at_equal_privacy_and_scales() -> None:
    cells = [row(50.0), row(math.inf, **OTHER), row(60.0, episodes=900, **SCALES), row(240.0, **OTHER, **SCALES)]
    cells += [row(240.0, **OTHER, claimed_delta=0.0)]
    (line,) = compared(cells, "ours", "other")["ours against other at equal noise"]
    assert (line["trust model"], line["certified \u03b5"], line["\u03b4"]) == ("jdp", "1", "1e-06")
    assert (line["scales 1"], line["scales 0.03"]) == ("> 6 (>300 / 50)", "4 (240 / 60)")
    (line,) = compared(cells, "other", "ours")["other against ours at equal noise"]
    assert (line["scales 1"], line["scales 0.03"]) == ("< 0.167 (50 / >300)", "0.25 (60 / 240)")
    (line,) = compared([row(math.inf), row(math.inf, **OTHER)], "ours", "other")["ours against other at equal noise"]
    assert line["scales 1"] == "neither (>300 / >300)"


def test_a_ratio_never_mixes_algorithm_and_noise() -> None:
    found = compared([row(200.0), row(40.0, **LESS), row(20.0, **LESS, **OTHER)], "other", "ours")
    (line,) = found["other against ours at equal noise"]
    assert (line["noise"], line["scales 1"]) == ("one_hot auto", "2 (40 / 20)")
    (line,) = found["Effect of the noise at equal algorithms"]
    assert (line["algorithm"], line["scales 1"]) == ("ours", "5 (200 / 40)")
    assert line["noise: from, to"] == "separate binary_tree, one_hot auto"


def test_a_ratio_never_mixes_settings_of_an_algorithm() -> None:
    two = [row(200.0, **{"algorithm.beta": 0.1}), row(80.0, **{"algorithm.beta": 0.2}), row(40.0, **OTHER)]
    less = [{**each, "privacy.families": "one_hot", "halved_at": each["halved_at"] / 2.0} for each in two]
    found = compared([*two, *less], "ours", "other")
    ratios = {
        (line["settings"], line["noise"]): line["scales 1"] for line in found["ours against other at equal noise"]
    }
    assert {setting: text for (setting, noise), text in ratios.items() if noise == "separate"} == {
        "beta=0.1": "0.2 (40 / 200)",
        "beta=0.2": "0.5 (40 / 80)",
    }
    assert len(ratios) == 4
    noises = found["Effect of the noise at equal algorithms"]
    assert {(line["algorithm"], line["settings"], line["scales 1"]) for line in noises} == {
        ("ours", "beta=0.1", "2 (200 / 100)"),
        ("ours", "beta=0.2", "2 (80 / 40)"),
        ("other", "", "2 (40 / 20)"),
    }


def test_cells_without_regret_or_without_privacy_are_in_no_ratio() -> None:
    free = row(10.0, **{"privacy.model": "none"})
    assert compared([free, row(20.0, **OTHER)], "ours", "other") == {}
