"""Cells of a sweep with records that are made up, and what figures show of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from dprl.algorithms import MDPConfig
from dprl.platform.configs.experiment import Experiment, read_experiment
from dprl.platform.reports.records import columns, summary_row

NONE: dict[str, Any] = {"model": "none"}


def jdp(epsilon: float, **more: object) -> dict[str, Any]:
    return {"model": "jdp", "epsilon": epsilon, **more}


def cell(privacy: dict[str, Any], horizon: int = 4, seeds: int = 3) -> Experiment:
    return read_experiment(
        {
            "name": "try",
            "algorithm": {"name": "private_ucb_vi"},
            "env": {"name": "riverswim", "n_states": 3, "horizon": horizon},
            "privacy": privacy,
            "episodes": 1000,
            "seeds": seeds,
        }
    )


def records(seeds: int, saturated: float = 0.3) -> pd.DataFrame:
    episodes = np.arange(5, 1001, 5)
    frames = []
    for seed in range(seeds):
        rate = (1 + 0.1 * seed) / np.sqrt(episodes)
        frames.append(
            pd.DataFrame(
                dict(zip(columns(MDPConfig.metrics), (seed, episodes, 5 * rate.cumsum(), rate, saturated), strict=True))
            )
        )
    return pd.concat(frames, ignore_index=True)


def summary(cells: list[Experiment]) -> pd.DataFrame:
    return pd.DataFrame([summary_row(one, records(one.seeds), one.certificate().to_dict()) for one in cells])


def is_png(content: bytes) -> bool:
    return content.startswith(b"\x89PNG\r\n\x1a\n")


def legend_of(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]
