"""Metrics of algorithms, and types of their arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Float64Array = npt.NDArray[np.float64]
Int64Array = npt.NDArray[np.int64]
Releases = Literal["counts", "gradients", "statistics"]
"""Kinds of data that users release."""


@dataclass(frozen=True)
class Metric:
    """Number that a learner reports for every stretch of learning.

    Args:
        name: key in records, tables and MLflow.
        over: aggregation over the stretch's episodes: 'sum', 'mean', or the value after the 'last' one.
        unit: 'return'; or of a number that is at least 0: 'reward', 'steps', or 'episodes' until an event, infinite if
            it has not happened; else empty.
        of: the subject: the 'run', the policy 'deployed' last, or the 'output' policy of a finished run.
        short: column header in narrow tables; without one, only the headline metric has a column there.
        definition: phrase for readers of a page.
        across: aggregation over seeds: 'mean', or 'median', where values may be infinite.
        better: whether 'low' or 'high' values are better.
        most: largest possible value, if known; the least is then 0.
        headline: whether it represents the run in progress lines, tables and figures: a sum or a mean with a unit.
        covered: whether the certificate covers it: it is computed from released values and public facts only. Others
            are for simulations; with `release: true` they are written nowhere.

    Raises ValueError for a median over seeds unless `over` is 'last'.
    """

    name: str
    over: Literal["sum", "mean", "last"]
    unit: Literal["reward", "return", "steps", "episodes", ""] = ""
    of: Literal["run", "deployed", "output"] = "run"
    short: str = ""
    definition: str = ""
    across: Literal["mean", "median"] = "mean"
    better: Literal["low", "high"] = "low"
    headline: bool = False
    most: float = math.inf
    covered: bool = False

    def __post_init__(self) -> None:
        if self.across == "median" and self.over != "last":
            wrong = f"across: must be mean with over {self.over!r}, got 'median' for metric {self.name!r}"
            raise ValueError(f"{wrong}; a median over seeds is of the value after the last episode")

    @property
    def label(self) -> str:
        """Name in tables and figures."""
        return self.name.replace("_", " ")

    def range(self, horizon: float = math.inf) -> tuple[float, float]:
        """Return the least and the largest possible value in an episode with `horizon` steps; sums are per episode.

        Rewards and steps are at most the horizon. Metrics without a unit or a largest value are not bounded.
        """
        if self.unit == "return" or (not self.unit and math.isinf(self.most)):
            return -math.inf, math.inf
        return 0.0, min(self.most, horizon if self.unit in ("reward", "steps") else math.inf)


REGRET = Metric(
    "regret",
    "sum",
    "reward",
    headline=True,
    definition="the optimal value minus that of the policy of the episode, both exact, summed over episodes",
    covered=True,
)
"""Exact pseudo-regret of the deployed policies, never a realised return."""
SATURATED = Metric("saturated", "mean", covered=True)
"""Share of cells with an optimistic value clipped at its cap."""


def headline(metrics: Sequence[Metric]) -> Metric | None:
    """Return the headline metric, None if there is none."""
    return next((metric for metric in metrics if metric.headline), None)
