"""Tuned scales: near the least regret, as a geometric mean of ratios over settings."""

from __future__ import annotations

import pandas as pd
import pytest
import yaml

from benchmarks.tuning import chosen, ranked
from dprl.algorithms import ALGORITHMS
from dprl.algorithms.tabular import TabularConfig
from dprl.platform.configs.config import config_files, load_cells


def test_ratios_are_geometric_means_over_settings() -> None:
    rows = [("a", 0.1, 100.0, 1.0), ("a", 0.01, 50.0, 1.0), ("a", 0.1, 3.0, 10.0), ("a", 0.01, 24.0, 10.0)]
    cells = pd.DataFrame(rows, columns=["algorithm.name", "algorithm.bonus_scale", "regret", "privacy.epsilon"])
    cells["algorithm.precision_scale"], cells["env.name"] = 1.0, "x"
    found = ranked(cells)
    assert found["algorithm.bonus_scale"].tolist() == [0.1, 0.01]
    assert found["ratio"].tolist() == pytest.approx([2.0**0.5, 8.0**0.5])
    assert found["size"].tolist() == [2, 2]
    assert chosen(found)["algorithm.bonus_scale"].tolist() == [0.1]


def test_the_largest_scales_within_a_tenth_of_the_least_regret_are_chosen() -> None:
    rows = [("a", 0.01, 50.0), ("a", 0.1, 54.0), ("a", 1.0, 56.0), ("b", 0.1, 9.0), ("b", 1.0, 5.0)]
    cells = pd.DataFrame(rows, columns=["algorithm.name", "algorithm.bonus_scale", "regret"])
    cells["algorithm.precision_scale"], cells["env.name"] = 1.0, "x"
    assert chosen(ranked(cells))["algorithm.bonus_scale"].tolist() == [0.1, 1.0]


def test_of_equal_products_the_scales_most_alike_are_chosen() -> None:
    pairs = [(1.0, 0.01), (0.1, 0.1), (0.01, 1.0)]
    cells = pd.DataFrame(pairs, columns=["algorithm.bonus_scale", "algorithm.precision_scale"])
    cells["algorithm.name"], cells["env.name"], cells["regret"] = "a", "x", [10.0, 10.5, 10.2]
    assert chosen(ranked(cells))["algorithm.bonus_scale"].tolist() == [0.1]


def test_every_tuned_scale_is_one_that_the_sweep_tried_and_its_environments_are_not_reported_on() -> None:
    files = config_files()
    tried = load_cells(files["tuning"])
    settings = [cell.as_mapping()["algorithm"] for cell in tried]
    scales = {(each["name"], each["bonus_scale"], each["precision_scale"]) for each in settings}
    tuned = {name: config.tuned for name, config in ALGORITHMS.items() if issubclass(config, TabularConfig)}
    assert tuned.pop("logged_vi") == tuned["offline_vi"]
    assert {(name, *pair) for name, pair in tuned.items() if pair is not None} <= scales
    trained_on = {str(cell.as_mapping()["env"]) for cell in tried}
    assert not trained_on & {str(cell.as_mapping()["env"]) for cell in load_cells(files["held_out"])}
    assert "tuning" in yaml.safe_load(files["tuning"].read_text())["name"]
