"""The cells of the reproduction of [TH23]: which one an experiment is, and what its runs have shown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dprl.algorithms.base import REGRET, SATURATED, Float64Array, Int64Array
from dprl.algorithms.ma_ldp.learner import INDEFINITE
from dprl.envs.network_mdp import NetworkMDP
from dprl.platform.configs.experiment import Experiment, Scalar
from dprl.platform.reproductions.ma_ldp.published import BOUNDED
from dprl.platform.results.cell_folder import CellResults
from dprl.platform.results.records import by_seed

NO_NOISE, ONE_BIT = "none", "randomized_response"
PRINTED, AGAIN, MAXMIN, CLIPPED = "printed", "again", "maxmin", "clipped"
LEARNED, KNOWN, SHARED = "certified, rewards learned", "certified, rewards known", "certified, one message for all"
WITHOUT, WITHOUT_MAXMIN = "no noise", "no noise, maxmin"
ILLUSTRATION, ILLUSTRATION_MAXMIN = "illustration", "illustration, maxmin"
VOTES = "one bit"


class Group(NamedTuple):
    """Cells that are told apart by mechanism and epsilon alone. settings: what all of them have.

    private: whether it is meant to protect anybody.
    """

    name: str
    words: str
    settings: Mapping[str, Scalar]
    private: bool = True


_AS_PRINTED: dict[str, Scalar] = {"privacy.calibration": "printed", "privacy.clipping": "none"}
_AFTER_CLIPS: dict[str, Scalar] = {"privacy.calibration": "printed", "privacy.clipping": "device"}
_NO_NOISE: dict[str, Scalar] = {"algorithm.name": "ma_ldp", "privacy.model": "none"}
_HARDLY_ANY_NOISE: dict[str, Scalar] = {**_AFTER_CLIPS, "privacy.noise_scale": 1e-4}
GROUPS = (
    Group(PRINTED, "as printed, V of joint actions", {"algorithm.value": "joint", "seed": 0, **_AS_PRINTED}),
    Group(AGAIN, "the same with other seeds", {"algorithm.value": "joint", "seed": 1000, **_AS_PRINTED}),
    Group(MAXMIN, "as printed, V of maxmin", {"algorithm.value": "maxmin", **_AS_PRINTED}),
    Group(CLIPPED, "printed noise after the clips, rewards known", {**_AFTER_CLIPS, "privacy.noise_scale": 1.0}),
    Group(LEARNED, LEARNED, {"privacy.calibration": "certified", "privacy.rewards": "noisy"}),
    Group(
        KNOWN,
        KNOWN,
        {"privacy.calibration": "certified", "privacy.rewards": "public", "algorithm.share": False},
    ),
    Group(SHARED, SHARED, {"privacy.calibration": "certified", "algorithm.share": True}),
    Group(
        WITHOUT, "NOT PRIVATE, no noise, V of joint actions", {**_NO_NOISE, "algorithm.value": "joint"}, private=False
    ),
    Group(
        WITHOUT_MAXMIN, "NOT PRIVATE, no noise, V of maxmin", {**_NO_NOISE, "algorithm.value": "maxmin"}, private=False
    ),
    Group(
        ILLUSTRATION,
        "NOT PRIVATE, a ten-thousandth of the noise, V of joint actions",
        {**_HARDLY_ANY_NOISE, "algorithm.value": "joint"},
        private=False,
    ),
    Group(
        ILLUSTRATION_MAXMIN,
        "NOT PRIVATE, a ten-thousandth of the noise, V of maxmin",
        {**_HARDLY_ANY_NOISE, "algorithm.value": "maxmin"},
        private=False,
    ),
    Group(VOTES, "one randomised bit a user, ours", {"algorithm.name": "ldp_sign_votes"}),
)
NON_PRIVATE_CEILING = (WITHOUT, WITHOUT_MAXMIN)
"""Groups without noise: how much MA-LDP can learn under each reading of V."""
ILLUSTRATIONS = (ILLUSTRATION, ILLUSTRATION_MAXMIN)
"""Groups with a ten-thousandth of the printed noise, under each reading of V."""


class Key(NamedTuple):
    """Which cell it is.

    mechanism: of the noise. epsilon: claimed, infinite without noise. setting: B/b of bounded Laplace noise, c of cells
    without noise, else 1.
    """

    group: str
    mechanism: str
    epsilon: float
    setting: float = 1.0

    @classmethod
    def of(cls, experiment: Experiment) -> Key | None:
        """Return the key of an experiment, None if it is none of the reproduction's."""
        flat = experiment.parameters()
        for group in GROUPS:
            if all(flat.get(name) == value for name, value in group.settings.items()):
                if group.name in NON_PRIVATE_CEILING:
                    return cls(group.name, NO_NOISE, math.inf, float(flat["algorithm.bonus_scale"]))
                mechanism = ONE_BIT if group.name == VOTES else str(flat["privacy.mechanism"])
                setting = float(flat["privacy.bound_ratio"]) if mechanism == BOUNDED else 1.0
                return cls(group.name, mechanism, float(flat["privacy.epsilon"]), setting)
        return None


@dataclass(frozen=True, eq=False)
class Runs:
    """What the runs of a cell have shown.

    Args:
        ends: int64[b], where blocks of episodes end. curves: float64[n, b], the regret summed up to there.
        saturated, indefinite: shares of entries of Q at H + 1 - h, and of matrices that were not positive definite with
            their shift, over all runs; NaN where the algorithm has none.
        shift: what is added to Sigma in the last episode, NaN where there is none.
        certificate: as `Certificate.to_dict` gives it.
    """

    ends: Int64Array
    curves: Float64Array
    saturated: float
    indefinite: float
    shift: float
    certificate: Mapping[str, Any]

    @classmethod
    def of(cls, results: CellResults) -> Runs:
        """Return those of a finished cell."""
        records = results.records
        ends, regrets = by_seed(records, REGRET.name)
        lengths = np.diff(ends, prepend=0)

        def share(name: str) -> float:
            if name not in records:
                return math.nan
            return float(np.average(by_seed(records, name)[1].T, axis=1, weights=lengths).mean())

        shift = results.derived.get("last_shift", math.nan)
        return cls(ends, regrets.T, share(SATURATED.name), share(INDEFINITE.name), shift, results.certificate)

    @property
    def regret(self) -> Float64Array:
        """R_K of each run, float64[n]."""
        return np.ascontiguousarray(self.curves[:, -1])

    @property
    def late(self) -> Float64Array:
        """The regret per episode over the last tenth of each run or a little more, float64[n]."""
        start = max(0, int(np.searchsorted(self.ends, 0.9 * self.episodes, side="right")) - 1)
        lost = self.curves[:, -1] - self.curves[:, start]
        return np.asarray(lost / max(1, self.episodes - int(self.ends[start])))

    @property
    def episodes(self) -> int:
        """K, of each run."""
        return int(self.ends[-1])

    @property
    def count(self) -> int:
        """How many runs there are."""
        return len(self.curves)


class Levels(NamedTuple):
    """R_K, exactly, of agents who act at random, and of those who do as badly as can be; the best have 0."""

    uniform: float
    worst: float

    @property
    def half(self) -> float:
        """Half of what actions at random lose."""
        return self.uniform / 2.0

    @classmethod
    def of(cls, episodes: int) -> Levels:
        """Return those of K = `episodes` on the paper's network."""
        mdp = NetworkMDP().build()
        best = mdp.optimal_start_value()
        uniform, worst = (float(values[0, mdp.start]) for values in (mdp.uniform_value(), mdp.worst()[0]))
        return cls(episodes * (best - uniform), episodes * (best - worst))


def runs_by_key(cells: Sequence[tuple[Experiment, CellResults]]) -> dict[Key, Runs]:
    """Return the runs of each finished cell that belongs to the reproduction."""
    keyed = ((Key.of(experiment), results) for experiment, results in cells)
    return {key: Runs.of(results) for key, results in keyed if key is not None}
