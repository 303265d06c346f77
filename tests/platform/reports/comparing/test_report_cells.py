"""The curves of a cell of a report: of all its seeds, with bands that cover each whole curve."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from dprl.platform.reports.inference.bands import scaled_band
from dprl.platform.reports.inference.effects import UNBOUNDED
from dprl.platform.reports.records import curve, is_gap, results_in
from dprl.platform.results.cell_folder import CellFolder
from tests.platform.reports.cases import game_cell, jdp, records
from tests.platform.reports.comparing.cases import report_cell


def test_a_gap_over_episodes_has_a_band_of_the_whole_curve(tmp_path: Path) -> None:
    one = game_cell(jdp(1.0), seeds=4)
    rows = records(one)
    generator = np.random.default_rng(0)
    rows["smallest_gap"] += generator.normal(0.0, 0.1, len(rows))
    rows.to_parquet(tmp_path / "records.parquet")
    cell = dataclasses.replace(report_cell([1.0, 2.0, 3.0, 4.0]), folders=(CellFolder(tmp_path),))
    (metric,) = [each for each in results_in(rows.columns, is_gap) if each.name == "smallest_gap"]
    (episodes, values), pointwise = cell.values_of(metric), curve(rows, "smallest_gap")
    mean, lower, upper = scaled_band(values, "linear", UNBOUNDED)
    assert episodes.tolist() == pointwise["episode"].tolist()
    assert (values == rows["smallest_gap"].to_numpy().reshape(4, -1)).all()
    assert mean == pytest.approx(values.mean(axis=0))
    # With 200 independent points, some pointwise interval misses.
    assert (upper - lower > 1.5 * (pointwise["upper"] - pointwise["lower"])).all()
