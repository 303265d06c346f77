"""Claims of [OT20] on PGC-A3C as data: its readings, the known cells of its three tables, and its sentences.

Several cells of Tables 1 and 3 are missing from the available text; they are left out, not guessed.
Paper: [OT20] Tables 1, 2 and 3, sec. 4.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dprl.algorithms.base import Float64Array
from dprl.algorithms.pgc.scores import AREA, FINAL_SCORE, FIRST_SUCCESS, SCORE
from dprl.platform.configs.experiment import Scalar
from dprl.platform.reproductions.claims import (
    Inequality,
    Key,
    Measure,
    PaperCell,
    PublishedTable,
    Sentence,
    Side,
    finite_epsilon,
)
from dprl.platform.reproductions.engine import Paper, PaperGroup
from dprl.platform.reproductions.resampling import median
from dprl.platform.results.cell_folder import CellResults
from dprl.platform.results.summary import by_seed

CONFIG, RUNS, TARGET = "pgc_a3c_table", 20, 195.0
LAPLACE, PROJECTED = "clipped_laplace", "projected_random_sign"
ELEMENTWISE, WITHOUT_NOISE = "elementwise", "l1"
"""Clips of cells without privacy: of each coordinate, or those of the Laplace mechanism without its noise."""
NAMES = {
    LAPLACE: "Laplace",
    PROJECTED: "PRS",
    ELEMENTWISE: "none, each coordinate clipped",
    WITHOUT_NOISE: "none, Laplace's L1 clip",
}
NOISE = "noise"
"""Control in which every agent reports a gradient of zero."""
EPSILONS = (1.0, 2.0, 5.0, 10.0)
BUFFERS = {LAPLACE: 1, PROJECTED: 100}
"""|B| of the tables, by the last sentence of sec. 4.1."""
EARLY = 10_000
"""Submissions; the paper does not say when its early stage ends."""


def _reading(name: str, words: str, reward: str, bootstrap: str, initial: str, scale: float) -> PaperGroup:
    settings: dict[str, Scalar] = {"reward": reward, "bootstrap": bootstrap, "initial": initial, "initial_scale": scale}
    return PaperGroup(name, words, {f"algorithm.{key}": value for key, value in settings.items()})


READINGS = (
    _reading(
        "R1",
        "Loss with a reward of 0 except at the last step, -1 if the pole fell and +1 if not; V(s_T) discounted in both "
        "eqs. (12) and (18); first parameters normal with standard deviation 0.1.",
        *("terminal", "discounted", "normal", 0.1),
    ),
    _reading(
        "R2",
        "As R1, with Glorot uniform first parameters, the default of TensorFlow's layers.",
        *("terminal", "discounted", "glorot", 1.0),
    ),
    _reading(
        "literal",
        "The formulas as printed: a reward of 1 for every step, V(s_T) discounted in eq. (12) and not in eq. (18); "
        "first parameters Glorot uniform.",
        *("literal", "printed", "glorot", 1.0),
    ),
)


def key(group: str, flat: Mapping[str, Scalar]) -> Key | None:
    """Return the key of a cell with these parameters; its setting is the buffer size."""
    private = flat["privacy.model"] != "none"
    mechanism = str(flat["privacy.mechanism" if private else "privacy.clip_norm"])
    epsilon = float(flat["privacy.epsilon"]) if private else math.inf
    control = "" if flat["algorithm.reports"] == "gradient" else str(flat["algorithm.reports"])
    return Key(group, mechanism, epsilon, int(flat["algorithm.buffer_size"]), control) if mechanism in NAMES else None


def read(results: CellResults) -> PaperCell:
    """Return the trials of a finished cell."""
    records = results.records
    first, area, final = (by_seed(records, one.name)[1][-1] for one in (FIRST_SUCCESS, AREA, FINAL_SCORE))
    ends, scores = by_seed(records, SCORE.name)
    whole = np.average(scores.T, axis=1, weights=np.diff(ends, prepend=0))
    return PaperCell(values_of(first, area, final, whole), int(ends[-1]), results.certificate)


def values_of(
    first: Float64Array, area: Float64Array, final: Float64Array, whole: Float64Array
) -> dict[str, Float64Array]:
    """Return the values of trials, float64[n] each.

    first: submission of the first success, infinite without one. area: under the step function that jumps to 1 there,
    at most 1. final: mean score of the last 5,000 submissions. whole: mean score of all.
    """
    found = {
        "first_success": first,
        "success": np.isfinite(first),
        "early_success": first <= EARLY,
        "area": area,
        "mean_score": whole,
        "final_score": final,
    }
    return {name: np.ascontiguousarray(values, dtype=np.float64) for name, values in found.items()}


FIRST = Measure("median first success", "first_success", median, decimals=0)
SUCCESS = Measure("success ratio", "success", ones=True)
EARLY_SUCCESS = Measure(f"success ratio by submission {EARLY:,}", "early_success", ones=True)
AREA_UNDER = Measure("area", "area")
MEAN_SCORE = Measure("mean score", "mean_score", decimals=1)
FINAL = Measure("final score", "final_score", decimals=1)
EVERY_TRIAL = Measure("share of trials with a success", "success", ones=True)


def _row(mechanism: str, epsilon: float) -> Key:
    """Return the key of a table's row; without privacy it has the buffer of the mechanism."""
    return Key("", ELEMENTWISE if math.isinf(epsilon) else mechanism, epsilon, BUFFERS[mechanism])


ROWS = (
    *(_row(mechanism, epsilon) for mechanism in BUFFERS for epsilon in (*EPSILONS, math.inf)),
    Key("", WITHOUT_NOISE, math.inf, BUFFERS[LAPLACE]),
)


def _numbers(laplace: Mapping[float, float], projected: Mapping[float, float]) -> dict[Key, float]:
    """Return published numbers by epsilon, infinite without privacy."""
    both = {LAPLACE: laplace, PROJECTED: projected}
    return {_row(mechanism, epsilon): value for mechanism, found in both.items() for epsilon, value in found.items()}


TABLES = (
    PublishedTable(
        "Table 1",
        "first success, median over trials, in submissions",
        FIRST,
        ROWS,
        _numbers(
            {2.0: 20238.5, math.inf: 1769.0},
            {1.0: 25226.5, 2.0: 7549.0, 5.0: 2656.5, 10.0: 11217.5, math.inf: 1709.0},
        ),
        decimals=1,
    ),
    PublishedTable(
        "Table 2",
        "success ratio",
        SUCCESS,
        ROWS,
        _numbers(
            {1.0: 0.80, 2.0: 0.90, 5.0: 1.00, 10.0: 1.00, math.inf: 1.0},
            {1.0: 0.85, 2.0: 0.95, 5.0: 0.90, 10.0: 0.90, math.inf: 1.0},
        ),
        decimals=2,
    ),
    PublishedTable(
        "Table 3",
        "relative area under the success ratio",
        AREA_UNDER,
        ROWS,
        _numbers({2.0: 0.711, 10.0: 0.965}, {2.0: 0.862, 10.0: 0.771}),
        decimals=3,
        references={row: Key("", ELEMENTWISE, math.inf, row.setting) for row in ROWS},
    ),
)


def _side(mechanism: str, epsilon: float, buffer_size: int | None = None) -> Side:
    """Return a cell with the buffer of the tables or another one."""
    usual = BUFFERS[mechanism]
    size = usual if buffer_size is None else buffer_size
    unusual = "" if size == usual else f" buffer {size}"
    return Side(f"{NAMES[mechanism]} \u03b5={epsilon:g}{unusual}", Key("", mechanism, epsilon, size))


def _falls(measure: Measure, mechanism: str, order: Sequence[float]) -> tuple[Inequality, ...]:
    """Return the claims that the measure of a mechanism falls along `order`, from each epsilon to the next."""
    sides = [_side(mechanism, epsilon) for epsilon in order]
    return tuple(Inequality(measure, one, other) for one, other in itertools.pairwise(sides))


def _beats(measure: Measure, larger: str, epsilons: Sequence[float]) -> tuple[Inequality, ...]:
    """Return the claims that one mechanism's measure is larger than the other's."""
    smaller = LAPLACE if larger == PROJECTED else PROJECTED
    return tuple(Inequality(measure, _side(larger, epsilon), _side(smaller, epsilon)) for epsilon in epsilons)


def _buffered(mechanism: str, better: int, worse: int) -> tuple[Inequality, ...]:
    """Return the claims that one buffer is better than another at epsilon 1."""
    sides = _side(mechanism, 1.0, better), _side(mechanism, 1.0, worse)
    return tuple(Inequality(measure, *sides) for measure in (AREA_UNDER, MEAN_SCORE))


SENTENCES = (
    Sentence(
        "the buffering limits the learning dynamics of the Laplace mechanism too small to learn",
        "4.1",
        _buffered(LAPLACE, 1, 100),
    ),
    Sentence(
        "in the PRS mechanism, the buffering gives better learning stability", "4.1", _buffered(PROJECTED, 100, 1)
    ),
    Sentence(
        "the Laplace mechanism shows a decreasing the median of FST along with increasing \u03b5",
        "4.2",
        _falls(FIRST, LAPLACE, EPSILONS),
    ),
    Sentence("PGC-A3C with PRS shows better results within \u03b5={2,5}", "4.2", _beats(FIRST, LAPLACE, (2.0, 5.0))),
    Sentence("(the median of PRS falls from \u03b5=1 to 5)", "Table 1", _falls(FIRST, PROJECTED, (1.0, 5.0))),
    Sentence("it does not show such improvement at \u03b5=10", "4.2", _falls(FIRST, PROJECTED, (10.0, 5.0))),
    Sentence(
        "The non-private A3C (\u03b5=\u221e) succeeds in all trials",
        "4.3",
        tuple(
            Inequality(EVERY_TRIAL, Side(f"without privacy, buffer {size}", Key("", ELEMENTWISE, math.inf, size)), None)
            for size in BUFFERS.values()
        ),
    ),
    Sentence(
        "the algorithms tend to make more successes for larger \u03b5",
        "4.3",
        (*_falls(SUCCESS, LAPLACE, (10.0, 1.0)), *_falls(SUCCESS, PROJECTED, (10.0, 1.0))),
    ),
    Sentence("PRS gives more successes for \u03b5=1,2", "4.3", _beats(SUCCESS, PROJECTED, (1.0, 2.0))),
    Sentence("the Laplace mechanism shows better for \u03b5=5,10", "4.3", _beats(SUCCESS, LAPLACE, (5.0, 10.0))),
    Sentence("PRS makes more successes in the early stage", "4.3", _beats(EARLY_SUCCESS, PROJECTED, EPSILONS)),
    Sentence(
        "Laplace shows more successes by the end of each training process", "4.3", _beats(SUCCESS, LAPLACE, EPSILONS)
    ),
    Sentence(
        "Laplace mechanism achieves larger AUC in proportional to \u03b5",
        "4.3",
        _falls(AREA_UNDER, LAPLACE, EPSILONS[::-1]),
    ),
    Sentence(
        "PRS shows the best at \u03b5 = 2",
        "4.3",
        tuple(Inequality(AREA_UNDER, _side(PROJECTED, 2.0), _side(PROJECTED, epsilon)) for epsilon in (1.0, 5.0, 10.0)),
    ),
    Sentence(
        "PRS may be a better choice if we require strong privacy guarantees (\u03b5<10)",
        "4.3",
        _beats(AREA_UNDER, PROJECTED, (1.0, 2.0, 5.0)),
    ),
    Sentence("Otherwise, the Laplace mechanism seems more promising", "4.3", _beats(AREA_UNDER, LAPLACE, (10.0,))),
)


class _PGCA3C(Paper):
    """[OT20], with the names of its readings and buffers in the data."""

    name, config, runs = "pgc_a3c", CONFIG, RUNS
    groups, names, units = READINGS, NAMES, ("trials", "submissions")
    measures = (FIRST, SUCCESS, AREA_UNDER, MEAN_SCORE, FINAL)
    tables, sentences = TABLES, SENTENCES

    key, read = staticmethod(key), staticmethod(read)

    def named(self, key: Key) -> dict[str, Any]:
        return {
            "reading": key.group,
            "mechanism": key.mechanism,
            "epsilon": finite_epsilon(key),
            "buffer_size": key.setting,
            "reports": key.control or "gradient",
        }


PAPER = _PGCA3C()
