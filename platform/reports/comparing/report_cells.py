"""Cells of a report: the finished ones of some sweeps, with the headline of every seed."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from dprl.algorithms import ALGORITHMS, AlgorithmConfig, Metric
from dprl.algorithms.base import headline
from dprl.algorithms.offline_vi import OPTIMUM_GAP
from dprl.platform.configs.experiment import Experiment
from dprl.platform.errors import UserError, broken_rule
from dprl.platform.reports.cell_texts import Row, Settings, algorithm_name, rows_of, settings_in
from dprl.platform.reports.inference.effects import Estimate, estimate, scale_of
from dprl.platform.reports.records import PROVES_NOTHING, summary_row
from dprl.platform.results.cell_folder import CellFolder, CellResults, DamagedCellError
from dprl.platform.results.layout import SweepLayout
from dprl.platform.results.summary import block_column, by_seed, standing, worst_of
from dprl.privacy.mechanisms.vectors import ClippedGaussian, ClippedLaplace, RawVector
from dprl.privacy.queries.gradients import GradientLayout
from dprl.privacy.verification import design_of

_OTHERS = ("episodes", "release", "audit")
"""Settings that have no dot in their name."""
_SOURCES = "results_version"
_ALGORITHM = "algorithm.name"
_MOST_BLOCKS = 25
_NEARLY = 0.95


@dataclass(frozen=True)
class ReportCell:
    """A cell, or several that differ in their seeds only.

    row: its row of the summary, without missing values; 'sweep' names the sweep. certificate: content of
    `certificate.json`. metric: the headline, None without one. episodes: int64[T], the ends of the blocks. curves:
    float64[n_seeds, T], the headline there, summed from the start if it is a sum; empty without one. folders: of its
    parts.
    """

    row: Row
    certificate: Mapping[str, Any]
    metric: Metric | None
    episodes: np.ndarray
    curves: np.ndarray
    folders: tuple[CellFolder, ...]

    @property
    def seeds(self) -> int:
        """Number of seeds."""
        return int(self.row["seeds"])

    @property
    def proved(self) -> float:
        """The proved epsilon, infinite if there is none."""
        return float(self.row["proved_epsilon"])

    @property
    def delta(self) -> float:
        """The delta of the claimed and certified epsilon, 0 for a pure one."""
        return float(self.row.get("claimed_delta", 0.0))

    @property
    def private(self) -> bool:
        """Whether privacy was asked for, proved or not."""
        return str(self.row["privacy.model"]) != "none"

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

    @property
    def positive(self) -> bool:
        """Whether its headline is a loss of at least 0; such losses are compared by ratios if no seed is at 0."""
        return self.metric is not None and self.metric.better == "low" and self.metric.unit != ""

    @property
    def bounds(self) -> tuple[float, float]:
        """The range of the headline of the whole run."""
        if self.metric is None:
            return -math.inf, math.inf
        episodes = float(self.row["episodes"]) if self.metric.over == "sum" else 1.0
        low, high = self.metric.range(float(self.row.get("env.horizon", math.inf)))
        return low * episodes, high * episodes

    @cached_property
    def estimate(self) -> Estimate:
        """The headline of the whole run over seeds, on the log scale if it is positive and no seed is at 0."""
        scale = scale_of(self.finals) if self.positive else "linear"
        return estimate(self.finals, scale, self.bounds)

    @cached_property
    def finals(self) -> np.ndarray:
        """The headline of the whole run of each seed, float64[n_seeds]: the sum, or the mean over all episodes."""
        if self.metric is None or self.metric.over == "sum":
            return self.curves[:, -1]
        return np.average(self.curves, axis=1, weights=np.diff(self.episodes, prepend=0))

    def values_of(self, metric: Metric) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of blocks, int64[T], and the values of a metric there, float64[n_seeds, T]."""
        records = _numbered_apart([folder.records([metric.name]) for folder in self.folders])
        episodes, values = by_seed(records, metric.name)
        return episodes, values.T


def longer_blocks(episodes: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of at most 25 joined blocks, and the means in them of `values` float64[n_seeds, T].

    Blocks at the start of a run are single episodes, whose means show mostly the noise of a few users.
    """
    wanted = np.linspace(0, episodes[-1], _MOST_BLOCKS + 1)[1:]
    ends = np.unique(np.searchsorted(episodes, wanted).clip(0, len(episodes) - 1))
    sums = np.cumsum(values * np.diff(episodes, prepend=0), axis=1)[:, ends]
    return episodes[ends], np.diff(sums, prepend=0.0) / np.diff(episodes[ends], prepend=0)


def read_cells(layouts: Sequence[SweepLayout], damaged: list[str] | None = None) -> list[ReportCell]:
    """Return the finished cells of these sweeps; cells that differ in their seeds only are pooled.

    damaged: receives a line for each cell with unreadable files, which is left out. Raises UserError, also for such a
    cell if `damaged` is None.
    """
    pools: dict[Settings, dict[object, ReportCell]] = {}
    for settings, cell in (part for layout in layouts for part in _parts(layout, damaged)):
        pool = pools.setdefault(settings, {})
        # A cell of the same first seed repeats the seeds of this one, and may have more.
        other = pool.get(cell.row["seed"])
        if other is None or cell.seeds > other.seeds:
            pool[cell.row["seed"]] = cell
    return told_apart([_pooled([*pool.values()]) for pool in pools.values()])


def told_apart(cells: Sequence[ReportCell]) -> list[ReportCell]:
    """Return the cells with the algorithm's name behind labels that several algorithms share, e.g. 'Ours (pucb)'."""
    algorithms: dict[str, set[str]] = {}
    for cell in cells:
        for label in {str(cell.row.get("cell_label", "")), algorithm_name(cell.row)}:
            algorithms.setdefault(label, set()).add(str(cell.row[_ALGORITHM]))
    found = []
    for cell in cells:
        own = {key: cell.row[key] for key in ("cell_label", "algorithm_label") if key in cell.row}
        name = str(cell.row[_ALGORITHM])
        shared = {
            key: f"{label} ({name})" for key, label in own.items() if label != name and len(algorithms[label]) > 1
        }
        found.append(dataclasses.replace(cell, row={**cell.row, **shared}))
    return found


def _parts(layout: SweepLayout, damaged: list[str] | None) -> Iterator[tuple[Settings, ReportCell]]:
    """Yield the finished cells of the sweep's grid that can be read, each with its settings besides the seeds."""
    known = rows_of(layout.summary()) if layout.summary_file.is_file() else []
    rows = {str(row["cell"]): row for row in known}
    for folder in layout.finished_cells():
        try:
            found = _read(folder, layout.name, rows.get(folder.path.name))
        except DamagedCellError as error:
            if damaged is None:
                raise
            damaged.append(str(error))
        else:
            yield found


def _read(folder: CellFolder, sweep: str, row: Row | None) -> tuple[Settings, ReportCell]:
    """Return a finished cell, and everything except its seeds: its settings and the code that ran.

    row: its row of the summary, if there is one. Raises UserError, DamagedCellError.
    """
    results = folder.results()
    row = {"sweep": sweep, **(row or _row(folder, results))}
    metric = headline(_known_algorithm(str(row[_ALGORITHM])).metrics)
    episodes, curves = np.empty(0, np.int64), np.empty((int(row["seeds"]), 0))
    # Of a release, `Experiment.metrics` may lack the headline.
    if metric is not None and f"{block_column(metric)}_first" not in row:
        metric = None
    if metric is not None:
        episodes, values = by_seed(folder.records([metric.name]), metric.name)
        curves = values.T
    known = sorted(key for key in row if "." in key or key in _OTHERS)
    settings = ((_SOURCES, str(results.versions[_SOURCES])), *settings_in(row, known))
    return settings, ReportCell(row, results.certificate, metric, episodes, curves, (folder,))


def _row(folder: CellFolder, results: CellResults) -> Row:
    """Return the row of a cell that is not yet in a summary."""
    row = {**summary_row(_experiment_of(folder), results), "cell": folder.path.name, "seconds": results.seconds}
    return rows_of(pd.DataFrame([row]))[0]


def _experiment_of(folder: CellFolder) -> Experiment:
    """Return the experiment of a cell of a sweep. Raises UserError."""
    try:
        return folder.experiment()
    except UserError as error:
        raise UserError(f"SWEEP: must have settings that this version of dprl knows: {error}") from None


def _pooled(parts: Sequence[ReportCell]) -> ReportCell:
    """Return the cell of `parts` that differ in their seeds only."""
    cells = sorted(parts, key=lambda part: int(part.row["seed"]))
    row = cells[0].row if len(cells) == 1 else _pooled_row(cells)
    certificates = [cell.certificate for cell in cells]
    certificate = certificates[worst_of(certificates)]
    stands = standing(certificate)
    return dataclasses.replace(
        cells[0],
        row={**row, "proved_epsilon": stands.proved, "verdict": stands.verdict},
        certificate=certificate,
        curves=np.concatenate([cell.curves for cell in cells]),
        folders=tuple(folder for cell in cells for folder in cell.folders),
    )


def _known_algorithm(name: str) -> type[AlgorithmConfig]:
    """Return the algorithm's config class, which defines its metrics. Raises UserError for an unknown algorithm."""
    if name not in ALGORITHMS:
        rule = "must have algorithms that are known here"
        raise broken_rule("SWEEP", rule, name, "name its plugin in DPRL_PLUGINS, as when it ran")
    return ALGORITHMS[name]


def _pooled_row(cells: Sequence[ReportCell]) -> Row:
    """Return one row of the summary for several pooled cells."""
    results = [cell.folders[0].results() for cell in cells]
    worst = results[worst_of([found.certificate for found in results])]
    together = dataclasses.replace(worst, records=_numbered_apart([found.records for found in results]))
    experiment = dataclasses.replace(_experiment_of(cells[0].folders[0]), seeds=sum(cell.seeds for cell in cells))
    row = summary_row(experiment, together)
    about = {"sweep": cells[0].row["sweep"], "seconds": sum(found.seconds for found in results)}
    digests = " ".join(str(cell.row["cell"]) for cell in cells)
    return rows_of(pd.DataFrame([{**about, **row, "cell": digests}]))[0]


def _numbered_apart(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the records of several cells as those of one, with distinct numbers for all seeds."""
    numbered = [records.assign(seed=records["seed"] + i * 2**33) for i, records in enumerate(parts)]
    return pd.concat(numbered, ignore_index=True)


def clips_alike(free: ReportCell, private: ReportCell) -> bool:
    """Whether a cell without privacy clips gradients as a private one does, or not at all."""
    ours, wanted = (_clip(cell.certificate) for cell in (free, private))
    return ours is None or wanted is None or ours == wanted


def _clip(certificate: Mapping[str, Any]) -> tuple[str, float] | None:
    """Return norm and size of the ball to which gradients are clipped, None without one."""
    if (certificate.get("request") or {}).get("kind") != GradientLayout.__name__:
        return None
    query: Any = design_of(certificate).query
    law = query.law
    clips = isinstance(law, RawVector | ClippedLaplace | ClippedGaussian) and law.norm != "none"
    return (law.norm, law.clip) if clips else None
