"""The figures of a finished cell, by their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from dprl.algorithms.base import headline
from dprl.platform.configs.experiment import Experiment
from dprl.platform.reports.figures.episode_figure import drawn_as_episode, episode_figure
from dprl.platform.reports.figures.learning import cell_figure

_WITHOUT_HEADLINE = "metrics"
_EPISODE = "episode.png"
_POLICY = "policy"


def cell_figures(
    records: pd.DataFrame, experiment: Experiment, certificate: Mapping[str, Any], policies: Mapping[str, np.ndarray]
) -> dict[str, bytes]:
    """Return the figures of a finished cell as PNGs, by the name of their file: that of the headline is its name's.

    policies: those of each seed, by name; the first seed's is played where an episode can be drawn.
    """
    main = headline(experiment.metrics)
    name = main.name if main is not None else _WITHOUT_HEADLINE
    found = {f"{name}.png": cell_figure(records, experiment, certificate)} if experiment.metrics else {}
    first = policies[_POLICY][0]
    # Parameters that have grown without bounds act in no way that could be shown.
    if drawn_as_episode(experiment.env.builds) and np.isfinite(first).all():
        found[_EPISODE] = episode_figure(first, experiment)
    return found
