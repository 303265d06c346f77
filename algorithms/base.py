"""Interface of algorithms: configs, learners, metrics, and checks of settings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
import numpy.typing as npt

from dprl.envs import Env
from dprl.privacy import Certificate, Privatizer, Streams

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
            raise ValueError(
                f"across: must be mean with over {self.over!r}, got 'median' for metric {self.name!r}; a median over "
                "seeds is of the value after the last episode"
            )

    @property
    def label(self) -> str:
        """Name in tables and figures."""
        return self.name.replace("_", " ")

    def range(self, horizon: float = math.inf) -> tuple[float, float]:
        """Return the least and the largest possible value in an episode with `horizon` steps; sums are per episode.

        A step's reward is at most 1, so rewards and steps are at most the horizon. Metrics without a unit or a largest
        value are not bounded.
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


@dataclass(frozen=True)
class TrainResult:
    """Result of a stretch of learning.

    Args:
        episodes: length of the stretch. metrics: value of each metric of the algorithm, by name.
    """

    episodes: int
    metrics: Mapping[str, float]

    @property
    def regret(self) -> float:
        """Sum of the exact pseudo-regret over the episodes."""
        return self.metrics[REGRET.name]

    @property
    def saturated(self) -> float:
        """Mean over the episodes of the share of cells with an optimistic value clipped at its cap."""
        return self.metrics[SATURATED.name]


class Algorithm(Protocol):
    """Learner on one environment, behind one privatizer."""

    episodes_done: int

    @property
    def policies(self) -> dict[str, np.ndarray]:
        """Output of a finished run: named tables, including 'policy'."""

    @property
    def theorem(self) -> str | None:
        """Theorem that covers this run with its noise, and its subject; None if no theorem does."""

    @property
    def derived(self) -> Mapping[str, float]:
        """Numbers that follow from the settings, the noise and the sizes of the run, by name."""

    def learn(self, n: int) -> TrainResult:
        """Run the next n episodes."""

    def certificate(self) -> Certificate:
        """Return the certificate of the noise that ran, for all releases so far."""

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return the state for resuming, as arrays."""

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        """Continue from `state_dict`, bit for bit."""


class AlgorithmConfig(Protocol):
    """Config of one algorithm: its settings in a file, and the builder of its learner.

    plays: class of environments. metrics: reported by the learner. releases: kind of data that users release; privacy
    settings must be of the same kind. unit: name of one episode in the config.
    """

    name: ClassVar[str]
    plays: ClassVar[type[Env]]
    metrics: ClassVar[tuple[Metric, ...]]
    releases: ClassVar[Releases]
    unit: ClassVar[Literal["episode", "submission"]]

    @property
    def covered_by(self) -> str | None:
        """Theorem that covers all runs with these settings, and its subject; None if no theorem does."""

    def privatizer(self, env: Any, privacy: Any, episodes: int, streams: Streams) -> Privatizer[Any]:  # noqa: ANN401
        """Return the privatizer of a run of `episodes` under `privacy`, settings of the same kind as `releases`."""

    def build(self, env: Any, privatizer: Any, episodes: int, streams: Streams) -> Algorithm:  # noqa: ANN401
        """Return a fresh learner behind `privatizer`."""


def check_number(key: str, value: object, low: float, high: float = np.inf) -> None:
    """Raise ValueError unless value is a finite number with low <= value < high."""
    valid = isinstance(value, int | float) and not isinstance(value, bool) and np.isfinite(value)
    if not valid or not low <= float(value) < high:  # type: ignore[arg-type]
        span = f"at least {low:g}" if high == np.inf else f"at least {low:g} and below {high:g}"
        raise ValueError(f"{key} must be a finite number, {span}, got {value!r}; choose a value in that range")


def check_whole(key: str, value: object, low: int, high: int) -> None:
    """Raise ValueError unless value is a whole number with low <= value <= high."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"{key} must be a whole number from {low} to {high}, got {value!r}; choose one in that range")
