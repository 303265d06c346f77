"""The metrics page lists every logged number: of records, summaries, MLflow, certificates and RLlib's results."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dprl.algorithms import ALGORITHMS
from dprl.envs import ENVIRONMENTS
from dprl.platform.configs.experiment import Experiment, read_experiment
from dprl.platform.results.cell_folder import CellResults
from dprl.platform.results.summary import columns, summary_row
from dprl.platform.tracking.exporter import cell_metrics

ENDS = re.compile(r"_(?:lower|upper)$")
# Settings are called as in the config; `derived_NAME`, `curve/NAME` and `interval/NAME` stand for all of their kind.
GROUP = re.compile(r"^(?:derived_|curve/|interval/)")
AS_IN_THE_CONFIG = re.compile(r"^(?:\w+\.\w+|episodes|seeds?|release|audit)$")


def words(page: str) -> set[str]:
    """Return the page's words in backticks, and their dotted parts."""
    code = set(re.findall(r"`([^`\n]+)`", page))
    return code | {part for word in code for part in re.split(r"[. ]", word)}


def undefined(names: set[str], page: str) -> set[str]:
    known = words(page)
    return {
        name
        for name in names
        if not AS_IN_THE_CONFIG.match(name) and not {name, GROUP.sub("", ENDS.sub("", name))} & known
    }


def experiment(algorithm: str) -> Experiment:
    config = ALGORITHMS[algorithm]
    env = next(name for name, spec in ENVIRONMENTS.items() if issubclass(spec.builds, config.plays))
    parts = {"algorithm": {"name": algorithm}, "env": {"name": env}, "privacy": {"model": "none"}}
    return read_experiment({"name": "try", **parts, "episodes": 200, "seeds": 3})


def results(algorithm: str) -> CellResults:
    """Return made-up results, because only the names matter."""
    made: dict[str, Any] = dict.fromkeys(columns(ALGORITHMS[algorithm].metrics), 0.5)
    made |= {"seed": np.repeat([0, 1, 2], 2), "episode": [1, 10] * 3}
    return CellResults(pd.DataFrame(made), experiment(algorithm).certificate().to_dict(), 1.0, 0.0)


@pytest.fixture(scope="module")
def page(root: Path) -> str:
    return (root / "docs" / "metrics.md").read_text()


# logged_vi and dp_bc need a file; their metrics are of offline_vi and dppg.
@pytest.mark.parametrize("algorithm", sorted({*ALGORITHMS} - {"logged_vi", "dp_bc"}))
def test_every_column_and_metric_of_an_algorithm_is_defined(algorithm: str, page: str) -> None:
    found = results(algorithm)
    assert undefined(set(found.records.columns), page) == set()
    assert undefined(set(summary_row(experiment(algorithm), found)), page) == set()
    metrics = ALGORITHMS[algorithm].metrics
    assert undefined({point.key for point in cell_metrics(metrics, found)}, page) == set()


@pytest.mark.parametrize("algorithm", ["private_ucb_vi", "ma_ldp", "pgc_a3c"])
def test_every_field_of_a_certificate_is_defined(algorithm: str, page: str) -> None:
    raw = experiment(algorithm).as_mapping() | {"privacy": {"model": "ldp", "epsilon": 1.0}}
    certificate = read_experiment(raw).certificate().to_dict()
    part = page.partition("## Certificate")[2]
    names = set(certificate) | set(certificate["proved"]) | set(certificate["noise"][0])
    assert undefined(names - {"source", "calibration"}, part) == set()
