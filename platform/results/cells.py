"""Finished cells of some sweeps: their rows of the summary, certificates, and the headline of every seed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from dprl.algorithms import ALGORITHMS, Metric
from dprl.algorithms.offline_vi import OPTIMUM_GAP
from dprl.platform.configs.experiment import NEEDS_ITS_NAME, needed_keys, varies
from dprl.platform.errors import broken_rule
from dprl.platform.results.cell_folder import CellFolder, DamagedCellError
from dprl.platform.results.inference import Estimate, estimate, scale_of
from dprl.platform.results.layout import SweepLayout
from dprl.platform.results.summary import PROVES_NOTHING, by_seed, headlines_in, standing, summary_row
from dprl.privacy.mechanisms.vectors import ClippedGaussian, ClippedLaplace, RawVector
from dprl.privacy.queries.gradients import GradientLayout
from dprl.privacy.verification import design_of

Row = Mapping[str, Any]
Settings = tuple[tuple[str, str], ...]
"""Some settings of a cell with their values, for comparisons of cells."""
EPISODES = "episodes"
PRIVACY = ("privacy.model", "privacy.epsilon", "privacy.delta")
NAMED = ("algorithm.name", *PRIVACY)
"""Settings that are part of every cell's name in other words."""
NOISE = ("privacy.", "noise.")
"""Sections with the settings of the noise."""
ENV_NAME, _ENV_ID = "env.name", "env.env_id"
_DIGESTS = {"env.table", "env.source"}
"""Settings that follow from an environment's id and arguments, unless its code has changed."""
SIZES = {
    "env.horizon": "horizon",
    "env.n_states": "number of states",
    "env.n_actions": "number of actions",
    EPISODES: "number of episodes",
}
"""Sizes of a problem, which are in the titles of its groups and panels and on axes, if they vary."""
_NEARLY = 0.95


@dataclass(eq=False)
class Cell:
    """A finished cell.

    row: its row of the summary, without missing values; 'sweep' names the sweep. certificate: content of
    `certificate.json`. metric: the headline, None without one. episodes: int64[T], the ends of the blocks. curves:
    float64[n_seeds, T], the headline there, summed from the start if it is a sum; empty without one.
    """

    row: Row
    certificate: Mapping[str, Any]
    metric: Metric | None
    episodes: np.ndarray
    curves: np.ndarray
    folder: CellFolder

    def __post_init__(self) -> None:
        self.seeds = int(self.row["seeds"])
        self.algorithm = str(self.row["algorithm.name"])  # as registered
        self.horizon = float(self.row.get("env.horizon", math.inf))
        self.model = str(self.row["privacy.model"])
        self.private = self.model != "none"  # whether privacy was asked for, proved or not
        self.proved = float(self.row["proved_epsilon"])  # infinite without a proof
        self.delta = float(self.row.get("claimed_delta", 0.0))  # of claim and certificate, 0 for a pure epsilon
        self.certified = self.private and math.isfinite(self.proved)
        # Losses of at least 0 are compared by ratios if no seed is at 0.
        self.positive = self.metric is not None and self.metric.better == "low" and self.metric.unit != ""

    @property
    def saturated(self) -> bool:
        """Whether estimates stayed at their caps."""
        note = str(self.row.get("note") or "")
        return bool(note) and PROVES_NOTHING not in note

    @property
    def unlearned(self) -> bool:
        """Whether nothing was learned: it is saturated, or ends with nearly the regret of its first policy.

        Only saturation counts for offline learners, because they play one policy until their last episode.
        """
        first, last = (float(self.row.get(f"regret_per_episode_{block}", 0.0)) for block in ("first", "last"))
        return self.saturated or (OPTIMUM_GAP.name not in self.row and 0.0 < first * _NEARLY <= last)

    @cached_property
    def estimate(self) -> Estimate:
        """The headline of the whole run over seeds, on the log scale if it is positive and no seed is at 0."""
        bounds = (-math.inf, math.inf)
        if self.metric is not None:
            episodes = float(self.row[EPISODES]) if self.metric.over == "sum" else 1.0
            low, high = self.metric.range(self.horizon)
            bounds = low * episodes, high * episodes
        return estimate(self.finals, scale_of(self.finals) if self.positive else "linear", bounds)

    @cached_property
    def finals(self) -> np.ndarray:
        """The headline of the whole run of each seed, float64[n_seeds]: the sum, or the mean over all episodes."""
        if self.metric is None or self.metric.over == "sum":
            return self.curves[:, -1]
        return np.average(self.curves, axis=1, weights=np.diff(self.episodes, prepend=0))

    def values_of(self, metric: Metric) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of blocks, int64[T], and the values of a metric there, float64[n_seeds, T]."""
        episodes, values = by_seed(self.folder.records([metric.name]), metric.name)
        return episodes, values.T

    @cached_property
    def ball(self) -> tuple[str, float] | None:
        """Norm and size of the ball to which gradients are clipped, None without one."""
        if (self.certificate.get("request") or {}).get("kind") != GradientLayout.__name__:
            return None
        query: Any = design_of(self.certificate).query
        law = query.law
        clips = isinstance(law, RawVector | ClippedLaplace | ClippedGaussian) and law.norm != "none"
        return (law.norm, law.clip) if clips else None


# ---- reading ----


def read_cells(layouts: Sequence[SweepLayout], damaged: list[str] | None = None) -> list[Cell]:
    """Return the finished cells of the grids of these sweeps; one that several sweeps have is there once.

    damaged: receives a line for each cell with unreadable files, which is left out. Raises UserError, also for such a
    cell if `damaged` is None.
    """
    found: dict[str, Cell] = {}
    for layout in layouts:
        known = rows_of(layout.summary()) if layout.summary_file.is_file() else []
        rows = {str(row["cell"]): row for row in known}
        for folder in layout.finished_cells():
            digest = folder.path.name
            try:
                found.setdefault(digest, _read(folder, layout.name, rows.get(digest)))
            except DamagedCellError as error:
                if damaged is None:
                    raise
                damaged.append(str(error))
    return [*found.values()]


def _read(folder: CellFolder, sweep: str, row: Row | None) -> Cell:
    """Return a finished cell. row: of the summary, if it is there already. Raises UserError, DamagedCellError."""
    results = folder.results()
    if row is None:
        made = {**summary_row(folder.experiment(), results), "cell": folder.path.name, "seconds": results.seconds}
        row = rows_of(pd.DataFrame([made]))[0]
    name, stands = str(row["algorithm.name"]), standing(results.certificate)
    metric = next(iter(headlines_in(row)), None)  # a release may lack it
    if metric is None and name not in ALGORITHMS:
        rule, remedy = "must have algorithms that are known here", "name its plugin in DPRL_PLUGINS, as when it ran"
        raise broken_rule("SWEEP", rule, name, remedy)
    # An audit may have changed the certificate since the summary was written.
    row = {"sweep": sweep, **row, "proved_epsilon": stands.proved, "verdict": stands.verdict}
    episodes, values = np.empty(0, np.int64), np.empty((0, int(row["seeds"])))
    if metric is not None:
        episodes, values = by_seed(results.records, metric.name)
    return Cell(row, results.certificate, metric, episodes, values.T, folder)


# ---- words for rows and settings ----


def rows_of(summary: pd.DataFrame) -> list[Row]:
    """Return the rows as mappings without missing values."""
    return [{str(key): value for key, value in row.items() if pd.notna(value)} for row in summary.to_dict("records")]


def settings_in(row: Row, keys: Iterable[str]) -> Settings:
    """Return those of the settings `keys` that the row has, in this order."""
    return tuple((key, plain(row[key])) for key in keys if key in row)


def algorithm_name(row: Row) -> str:
    """Return the config's label of the cell's algorithm, by default its name."""
    return str(row.get("algorithm_label") or row["algorithm.name"])


def environment_name(row: Row) -> str:
    """Return the name of the cell's environment: its id in Gymnasium, or its name here."""
    return str(row.get(_ENV_ID) or row[ENV_NAME])


def environment_keys(rows: Sequence[Row], besides: str = "") -> list[str]:
    """Return the settings that distinguish the cells' environments and lengths: sizes that differ, and others needed.

    besides: a setting to leave out.
    """
    every = dict.fromkeys(key for row in rows for key in row if key.startswith("env.") or key == EPISODES)
    keys = [key for key in every if key != besides and varies(key, rows)]
    always = [key for key in keys if key in {ENV_NAME, _ENV_ID, *SIZES}]
    others = sorted((key for key in keys if key not in always), key=lambda key: key in _DIGESTS)
    needed = {*always, *needed_keys(rows, others, always)}
    return [key for key in keys if key in needed]


def environment_text(row: Row, keys: Sequence[str], separator: str) -> str:
    """Return the settings `keys` of a cell's environment, and its length; the name comes first."""
    naming = {ENV_NAME, _ENV_ID}
    words = [environment_name(row)] if naming & {*keys} else []
    for key in keys:
        if key == EPISODES:
            words.append(f"K={int(row[key]):,}")
        elif key not in naming and row.get(key, "") != "":
            words.append(setting_text(key, row[key]))
    return separator.join(words)


def shared_settings(rows: Sequence[Row]) -> list[str]:
    """Return, as words, every setting that all rows share."""
    first = rows[0]
    agreed = [key for key in first if "." in key and all(key in row and row[key] == first[key] for row in rows)]
    return [f"{key.removesuffix('.name').rpartition('.')[2]}={plain(first[key])}" for key in agreed]


def plain(value: object) -> str:
    """Return a value in at most ten digits, without the '.0' that pandas adds to whole numbers in columns with gaps."""
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else f"{value:.10g}"
    return str(value)


def setting_text(key: str, value: object) -> str:
    """Return a setting as a short text, without its name if the value alone is clear."""
    alone = isinstance(value, str) and key not in NEEDS_ITS_NAME
    return str(value) if alone else f"{key.rpartition('.')[2]}={plain(value)}"
