"""Claims of [TH23] on MA-LDP as data: Tables 1 and 2, the theorems on order, and the words on Figure 1.

Figure 1 is a picture without readable values, so there are no numbers to compare with; none are guessed.
Paper: [TH23] Tables 1 and 2, Theorems 9, 10 and 11, sec. 8.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from dprl.algorithms.base import REGRET, SATURATED
from dprl.algorithms.ma_ldp.algorithm import INDEFINITE
from dprl.envs.network_mdp import NetworkMDP
from dprl.platform.configs.experiment import Scalar
from dprl.platform.reproductions.claims import Inequality, Key, Measure, PaperCell, Sentence, Side
from dprl.platform.reproductions.engine import PaperGroup
from dprl.platform.results.cell_folder import CellResults
from dprl.platform.results.summary import by_seed

CONFIG, RUNS = "ma_ldp_mechanisms", 10
GAUSSIAN, LAPLACE, UNIFORM, BOUNDED = "gram_gaussian", "gram_laplace", "gram_uniform", "gram_bounded_laplace"
NO_NOISE = "none"
EPISODES, HORIZON, AGENTS, FEATURES = 8500, 5, 2, 2
ALPHA, DELTA = 0.1, 0.1
"""Our choice: the paper names neither the failure probability nor the delta of its experiments."""
R_K = Measure("R_K", "regret", decimals=0)


class _TableRow(NamedTuple):
    """Row of Table 1. privacy: as printed. order: of the regret, with 1 for all constants, as text."""

    mechanism: str
    name: str
    privacy: str
    order: str


_COMMON = "(nd)^5/4 H^7/4 T^3/4 log(ndT/\u03b1)"
TABLE_1 = (
    _TableRow(GAUSSIAN, "Gaussian", "(\u03b5, \u03b4)", f"{_COMMON} log(H/\u03b4)^1/4 \u03b5^-1/2"),
    _TableRow(LAPLACE, "Laplace", "(\u03b5, 0)", f"{_COMMON} \u03b5^-1/2"),
    _TableRow(UNIFORM, "uniform", "(0, \u03b4)", f"{_COMMON} log(H/\u03b4)^1/4"),
    _TableRow(BOUNDED, "bounded Laplace", "(\u03b5, 0)", "(nd)^5/4 \u03b6^1/4 H^1/4 T^3/4 log(ndT/\u03b1)"),
)
NAMES = {row.mechanism: row.name for row in TABLE_1}


def printed_bound(mechanism: str, epsilon: float, episodes: float) -> float:
    """Return the regret of Table 1 with 1 for all constants, for Gaussian or Laplace noise."""
    dimension, steps = AGENTS * FEATURES, episodes * HORIZON
    common = dimension**1.25 * HORIZON**1.75 * steps**0.75 * math.log(dimension * steps / ALPHA) / math.sqrt(epsilon)
    return float(common * (math.log(HORIZON / DELTA) ** 0.25 if mechanism == GAUSSIAN else 1.0))


def _side(mechanism: str, epsilon: float) -> Side:
    return Side(f"{NAMES[mechanism]} \u03b5={epsilon:g}", Key("", mechanism, epsilon))


FIGURE = (_side(LAPLACE, 0.1), _side(LAPLACE, 0.2), _side(GAUSSIAN, 0.05), _side(GAUSSIAN, 0.2))
"""Cells of Figure 1, by mechanism, the smaller epsilon first."""
ORDERS = Sentence(
    "Figure 1 illustrates the results of Theorems 9 and 10",
    "8",
    (
        Inequality(R_K, *FIGURE[:2], "Theorem 9", math.sqrt(2.0)),
        Inequality(R_K, *FIGURE[2:], "Theorem 9", math.sqrt(4.0)),
        # On one epsilon: 0.2 is the one that both mechanisms of Figure 1 have. The proof prints log(H/delta); with the
        # fourth root of Table 1 it is this.
        Inequality(R_K, FIGURE[3], FIGURE[1], "Theorem 10", math.log(HORIZON / DELTA) ** 0.25),
    ),
    "permutations",
)

PRINTED, AGAIN, MAXMIN, CLIPPED = "printed", "again", "maxmin", "clipped"
LEARNED, KNOWN, SHARED = "certified, rewards learned", "certified, rewards known", "certified, one message for all"
WITHOUT, WITHOUT_MAXMIN = "no noise", "no noise, maxmin"
ILLUSTRATION, ILLUSTRATION_MAXMIN = "illustration", "illustration, maxmin"
AS_RUN = (PRINTED, AGAIN, MAXMIN, CLIPPED)
"""Groups with the printed noise."""
NON_PRIVATE_CEILING = (WITHOUT, WITHOUT_MAXMIN)
"""Groups without noise: how much MA-LDP can learn under each reading of V."""
ILLUSTRATIONS = (ILLUSTRATION, ILLUSTRATION_MAXMIN)
"""Groups with a ten-thousandth of the printed noise, under each reading of V."""
_JOINT: dict[str, Scalar] = {"algorithm.value": "joint"}
_OVER_OTHERS: dict[str, Scalar] = {"algorithm.value": "maxmin"}
_AS_PRINTED: dict[str, Scalar] = {"privacy.calibration": "printed", "privacy.clipping": "none"}
_AFTER_CLIPS: dict[str, Scalar] = {"privacy.calibration": "printed", "privacy.clipping": "device"}
_CERTIFIED: dict[str, Scalar] = {"privacy.calibration": "certified"}
_NO_NOISE: dict[str, Scalar] = {"algorithm.name": "ma_ldp", "privacy.model": "none"}
_HARDLY_ANY: dict[str, Scalar] = {**_AFTER_CLIPS, "privacy.noise_scale": 1e-4}
_NOT_PRIVATE = "NOT PRIVATE, a ten-thousandth of the noise"
GROUPS = (
    PaperGroup(PRINTED, "as printed, V of joint actions", {**_JOINT, "seed": 0, **_AS_PRINTED}),
    PaperGroup(AGAIN, "the same with other seeds", {**_JOINT, "seed": 1000, **_AS_PRINTED}),
    PaperGroup(MAXMIN, "as printed, V of maxmin", {**_OVER_OTHERS, **_AS_PRINTED}),
    PaperGroup(CLIPPED, "printed noise after the clips, rewards known", {**_AFTER_CLIPS, "privacy.noise_scale": 1.0}),
    PaperGroup(LEARNED, LEARNED, {**_CERTIFIED, "privacy.rewards": "noisy"}),
    PaperGroup(KNOWN, KNOWN, {**_CERTIFIED, "privacy.rewards": "public", "algorithm.share": False}),
    PaperGroup(SHARED, SHARED, {**_CERTIFIED, "algorithm.share": True}),
    PaperGroup(WITHOUT, "NOT PRIVATE, no noise, V of joint actions", {**_NO_NOISE, **_JOINT}, private=False),
    PaperGroup(WITHOUT_MAXMIN, "NOT PRIVATE, no noise, V of maxmin", {**_NO_NOISE, **_OVER_OTHERS}, private=False),
    PaperGroup(ILLUSTRATION, f"{_NOT_PRIVATE}, V of joint actions", {**_HARDLY_ANY, **_JOINT}, private=False),
    PaperGroup(ILLUSTRATION_MAXMIN, f"{_NOT_PRIVATE}, V of maxmin", {**_HARDLY_ANY, **_OVER_OTHERS}, private=False),
)


def key(group: str, flat: Mapping[str, Scalar]) -> Key:
    """Return the key of a cell: its setting is B/b of bounded Laplace noise, c of cells without noise, else 1."""
    if group in NON_PRIVATE_CEILING:
        return Key(group, NO_NOISE, math.inf, float(flat["algorithm.bonus_scale"]))
    mechanism = str(flat["privacy.mechanism"])
    setting = float(flat["privacy.bound_ratio"]) if mechanism == BOUNDED else 1.0
    return Key(group, mechanism, float(flat["privacy.epsilon"]), setting)


def read(results: CellResults) -> PaperCell:
    """Return the runs of a finished cell.

    values: `regret`, R_K, and `late`, the regret per episode over about the last tenth of the run. curves: cumulative
    regret. facts: shares of entries of Q at H + 1 - h (`saturated`) and of matrices that were not positive definite
    with their shift (`indefinite`), and the number added to Sigma in the last episode (`shift`).
    """
    records = results.records
    ends, regrets = by_seed(records, REGRET.name)
    lengths = np.diff(ends, prepend=0)
    facts = {"shift": results.derived.get("last_shift", math.nan)}
    for name in (SATURATED.name, INDEFINITE.name):
        facts[name] = float(np.average(by_seed(records, name)[1].T, axis=1, weights=lengths).mean())
    return cell_of(ends, regrets.T, results.certificate, facts)


def cell_of(
    ends: np.ndarray, curves: np.ndarray, certificate: Mapping[str, object], facts: Mapping[str, float]
) -> PaperCell:
    """Return the cell with these cumulative regrets float64[n, b]."""
    episodes = int(ends[-1])
    start = max(0, int(np.searchsorted(ends, 0.9 * episodes, side="right")) - 1)
    late = (curves[:, -1] - curves[:, start]) / max(1, episodes - int(ends[start]))
    values = {"regret": np.ascontiguousarray(curves[:, -1]), "late": late}
    return PaperCell(values, ends, curves, certificate, facts)


class Levels(NamedTuple):
    """Exact R_K of agents that act at random, and of the worst possible agents; the best have 0."""

    uniform: float
    worst: float

    @property
    def half(self) -> float:
        """Half of the regret of random actions."""
        return self.uniform / 2.0

    @classmethod
    def of(cls, episodes: int) -> Levels:
        """Return the levels for K = `episodes` on the paper's network."""
        mdp = NetworkMDP().build()
        best = mdp.optimal_start_value()
        uniform, worst = (float(values[0, mdp.start]) for values in (mdp.uniform_value(), mdp.worst()[0]))
        return cls(episodes * (best - uniform), episodes * (best - worst))
