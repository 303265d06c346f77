"""The cells of the reproduction of [OT20]: which one an experiment is, and what its trials have shown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dprl.algorithms.base import Float64Array, Int64Array
from dprl.algorithms.pgc.scores import AREA, FINAL_SCORE, FIRST_SUCCESS, SCORE
from dprl.platform.configs.experiment import Experiment
from dprl.platform.reproductions.pgc_a3c.published import LAPLACE, PROJECTED, TRIALS
from dprl.platform.results.cell_folder import CellResults
from dprl.platform.results.records import by_seed

ELEMENTWISE, WITHOUT_NOISE = "elementwise", "l1"
"""Clips of cells without privacy: of each coordinate, or as in the Laplace mechanism, whose noise is left out."""
MECHANISMS = {
    LAPLACE: "Laplace",
    PROJECTED: "PRS",
    ELEMENTWISE: "none, each coordinate clipped",
    WITHOUT_NOISE: "none, Laplace's L1 clip",
}
GRADIENT, NOISE = "gradient", "noise"
BINS = 100


class Reading(NamedTuple):
    """A reading of what the paper leaves open. settings: of the algorithm, that tell it from others."""

    name: str
    words: str
    settings: Mapping[str, str | float]


READINGS = (
    Reading(
        "R1",
        "Loss with a reward of 0 but for the last step's, -1 if the pole fell and +1 if not; V(s_T) discounted in both "
        "eqs. (12) and (18); first parameters normal with standard deviation 0.1.",
        {"reward": "terminal", "bootstrap": "discounted", "initial": "normal", "initial_scale": 0.1},
    ),
    Reading(
        "R2",
        "As R1, but for the first parameters, which are Glorot uniform, the default of TensorFlow's layers.",
        {"reward": "terminal", "bootstrap": "discounted", "initial": "glorot", "initial_scale": 1.0},
    ),
    Reading(
        "literal",
        "The formulas as printed: a reward of 1 for every step, V(s_T) discounted in eq. (12) and not in eq. (18); "
        "first parameters Glorot uniform.",
        {"reward": "literal", "bootstrap": "printed", "initial": "glorot", "initial_scale": 1.0},
    ),
)


class Key(NamedTuple):
    """Which cell it is.

    mechanism: one of MECHANISMS. epsilon: infinite without privacy. reports: 'gradient', or 'noise' for the control.
    """

    reading: str
    mechanism: str
    epsilon: float
    buffer_size: int
    reports: str = GRADIENT

    @classmethod
    def of(cls, experiment: Experiment) -> Key | None:
        """Return the key of an experiment, None if it is none of the reproduction's."""
        flat = experiment.parameters()
        for reading in READINGS:
            if all(flat.get(f"algorithm.{name}") == value for name, value in reading.settings.items()):
                private = flat["privacy.model"] != "none"
                mechanism = str(flat["privacy.mechanism" if private else "privacy.clip_norm"])
                epsilon = float(flat["privacy.epsilon"]) if private else math.inf
                buffer_size, reports = int(flat["algorithm.buffer_size"]), str(flat["algorithm.reports"])
                return cls(reading.name, mechanism, epsilon, buffer_size, reports) if mechanism in MECHANISMS else None
        return None


@dataclass(frozen=True, eq=False)
class Trials:
    """What the trials of a cell have shown.

    Args:
        first_success: float64[n], infinite without one. area: float64[n], under the step at the first success, at most
            1. final_score: float64[n], mean of the last 5,000 submissions. mean_score: float64[n], mean of all.
        ends: int64[b], where stretches of submissions end. scores: float64[n, b], mean score over each.
        certificate: as `Certificate.to_dict` gives it.
    """

    first_success: Float64Array
    area: Float64Array
    final_score: Float64Array
    mean_score: Float64Array
    ends: Int64Array
    scores: Float64Array
    certificate: Mapping[str, Any]

    @classmethod
    def of(cls, results: CellResults) -> Trials:
        """Return those of a finished cell."""
        records = results.records
        last = (by_seed(records, metric.name)[1][-1] for metric in (FIRST_SUCCESS, AREA, FINAL_SCORE))
        first, area, final = map(np.ascontiguousarray, last)
        ends, scores = by_seed(records, SCORE.name)
        whole = np.average(scores.T, axis=1, weights=np.diff(ends, prepend=0))
        return cls(first, area, final, whole, *_evened(ends, scores.T), results.certificate)

    @property
    def submissions(self) -> int:
        """N, of each trial."""
        return int(self.ends[-1])

    @property
    def count(self) -> int:
        """How many trials there are."""
        return len(self.first_success)

    @property
    def succeeded(self) -> Float64Array:
        """1 for every trial with a first success, else 0: float64[n]."""
        return np.isfinite(self.first_success).astype(np.float64)

    def succeeded_by(self, submission: float) -> Float64Array:
        """Return 1 for every trial whose first success is no later, else 0: float64[n]."""
        return (self.first_success <= submission).astype(np.float64)


def as_in_the_paper(values: Float64Array) -> Float64Array:
    """Return the values of the first 20 trials, fewer if there are fewer."""
    return values[:TRIALS]


def trials_by_key(cells: Sequence[tuple[Experiment, CellResults]]) -> dict[Key, Trials]:
    """Return the trials of each finished cell that belongs to the reproduction."""
    found = {}
    for experiment, results in cells:
        key = Key.of(experiment)
        if key is not None:
            found[key] = Trials.of(results)
    return found


def _evened(ends: Int64Array, blocks: Float64Array) -> tuple[Int64Array, Float64Array]:
    """Return ends int64[b] and means float64[n, b] over stretches of a hundredth of the run, or over single blocks.

    Blocks at the start are of a few submissions each: a curve of them would be mostly their scatter.
    """
    lengths = np.diff(ends, prepend=0)
    place = (ends * BINS - 1) // int(ends[-1])
    starts = np.flatnonzero(np.diff(place, prepend=-1))
    total, weight = np.add.reduceat(blocks * lengths, starts, axis=1), np.add.reduceat(lengths, starts)
    return np.append(ends[starts[1:] - 1], ends[-1]), total / weight
