"""Reports and certificates of made-up cells are those of the files beside this one.

`DPRL_WRITE_GOLDEN=1 pytest tests/golden` rewrites the files: their diff then shows the changes that a reader sees.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dprl.platform.configs.experiment import Experiment, read_experiment
from dprl.platform.reports.report import SweepReport
from dprl.platform.reports.verdicts import certificate_page
from dprl.platform.results.cell_folder import CellFolder
from dprl.platform.results.cells import Cell
from dprl.platform.results.compare import groups_of
from dprl.platform.results.summary import columns, per_episode
from tests.golden.test_command_line import FOLDER, check
from tests.platform.reports.cases import NONE, jdp, reported

ENV = {"name": "riverswim", "n_states": 3, "horizon": 4}
GAME = {"name": "random_game", "n_states": 2, "n_max_actions": 2, "n_min_actions": 2, "horizon": 2}
PRINTED = {"calibration": "printed"}
CONTROL = {"name": "control", "horizon": 50}
LDP = {"model": "ldp", "epsilon": 1.0}
PRESET = {"preset": "tuned", "replan_growth": 0.01}


def experiment(algorithm: str, privacy: dict[str, Any], env: dict[str, Any], **more: Any) -> Experiment:
    settings = {"name": algorithm, **more.pop("settings", {})}
    rest = {"episodes": 1000, "seeds": 3, **more}
    return read_experiment({"name": "try", "algorithm": settings, "env": env, "privacy": privacy, **rest})


def records(one: Experiment, level: float) -> pd.DataFrame:
    """Every metric falls with the root of the episode from another level; scores, which are to be large, rise."""
    episodes = np.unique(np.geomspace(1, one.episodes, 40).astype(np.int64))
    frames = []
    for seed in range(one.seeds):
        rate = level * (1 + 0.1 * seed) / np.sqrt(episodes)
        values: dict[str, Any] = {"seed": seed, "episode": episodes}
        for i, metric in enumerate(one.algorithm.metrics):
            values[metric.name] = (100.0 / (1.0 + rate) if metric.better == "high" else rate) / (1.0 + 0.2 * i)
            if metric.over == "sum":
                values[per_episode(metric)] = values[metric.name]
                values[metric.name] = (np.diff(episodes, prepend=0) * values[metric.name]).cumsum()
        values["saturated"] = 1.0 if level > 5 else 0.3
        frames.append(pd.DataFrame({name: values[name] for name in columns(one.algorithm.metrics)}))
    return pd.concat(frames, ignore_index=True)


GROUPS = {
    "algorithms": [
        experiment("bernstein_vi", NONE, ENV, settings=PRESET),
        experiment("private_ucb_vi", NONE, ENV, settings=PRESET),
        experiment("bernstein_vi", jdp(10.0, delta=1e-6), ENV, settings=PRESET),
        experiment("private_ucb_vi", jdp(10.0, delta=1e-6), ENV, settings=PRESET),
        experiment("bernstein_vi", jdp(1.0, delta=1e-6), ENV, settings=PRESET),
        experiment("private_ucb_vi", jdp(1.0, delta=1e-6), ENV, settings=PRESET, seeds=2),
        experiment("private_ucb_vi", LDP, ENV, settings=PRESET),
        experiment("private_ucb_vi", jdp(1.0, counter="kary_tree"), ENV, settings=PRESET),
    ],
    "horizons": [
        experiment("private_ucb_vi", privacy, ENV | {"horizon": horizon}, settings={"bonus_scale": scale})
        for horizon, scale in ((3, 0.1), (6, 0.1), (6, 0.3))
        for privacy in (NONE, jdp(1.0), jdp(1.0, **PRINTED))
    ],
    "lengths": [
        experiment("private_ucb_vi", privacy, ENV, episodes=episodes, seeds=7, **more)
        for episodes in (4, 1000)
        for privacy, more in ((NONE, {}), (jdp(1.0), {}), (jdp(1.0), {"audit": True}), (jdp(2.0), {"label": "twice"}))
    ],
    "epsilons": [
        experiment(algorithm, jdp(epsilon), ENV, settings={"replan_growth": 0.01})
        for algorithm in ("pucb", "random_vi")
        for epsilon in (0.1, 0.3, 1.0, 10.0, 100.0)
    ],
    "games": [experiment("dp_nash_vi", privacy, GAME) for privacy in (NONE, jdp(1.0), jdp(9.0), LDP)],
    "scores": [
        experiment("dppg", privacy, CONTROL, settings={"users_per_update": 100})
        for privacy in (NONE, jdp(3.0, delta=1e-6), jdp(1.0, delta=1e-6))
    ],
}
"""Of each group every cell has half as much regret again as the one before."""


def group(name: str, folder: Path) -> list[Cell]:
    """The finished cells of a group; `folder` has their records."""
    found = []
    for i, one in enumerate(GROUPS[name]):
        rows, place = records(one, 0.8 * 1.5**i), CellFolder(folder / str(i))
        place.path.mkdir()
        rows.to_parquet(place.records_file)
        place.versions_file.write_text('{"results_version": "1"}')
        made = reported(one, rows, cell=f"{i:012x}", sweep="made_up")
        found.append(dataclasses.replace(made, folder=place))
    return found


def check_page(name: str, text: str) -> None:
    """Compare a page with its file, without the stylesheet."""
    check(FOLDER / "pages" / name, re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL))


@pytest.mark.parametrize("name", GROUPS)
def test_reports_are_unchanged(name: str, tmp_path: Path) -> None:
    found = group(name, tmp_path)
    page = SweepReport([], groups_of(found), ["one is missing"]).page([], "a test", None)
    check_page(f"{name}.html", page)


@pytest.mark.parametrize("name", ["jdp", "ldp", "printed", "none", "release", "gradients"])
def test_certificates_are_unchanged(name: str) -> None:
    found = {
        "jdp": experiment("bernstein_vi", jdp(1.0, delta=1e-6, counter="auto"), ENV, settings=PRESET),
        "ldp": experiment("private_ucb_vi", LDP, ENV),
        "printed": experiment("private_ucb_vi", jdp(1.0, **PRINTED), ENV),
        "none": experiment("private_ucb_vi", NONE, ENV),
        "release": experiment("private_ucb_vi", jdp(1.0), ENV, release=True, seeds=1),
        "gradients": experiment("dppg", jdp(1.0, delta=1e-6), CONTROL),
    }[name]
    certificate = found.certificate().to_dict()
    del certificate["version"], certificate["checksum"]
    text = certificate_page({**certificate, "version": "1.2.3", "checksum": "0"}, {"numpy": "2.0"}, "a cell")
    check_page(f"certificate_{name}.html", text)
