"""The contract of this room: an algorithm learns from what users release and runs its own compiled learning loop."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
import numpy.typing as npt

from dprl.envs import Env
from dprl.privacy import Certificate, Privatizer, Streams
from dprl.privacy.base import TrustModel

Float64Array = npt.NDArray[np.float64]
Int64Array = npt.NDArray[np.int64]
Releases = Literal["counts", "gradients", "statistics", "bits"]
"""What users can release."""


@dataclass(frozen=True)
class Metric:
    """A number that a learner reports of every stretch of learning.

    Args:
        name: its key everywhere.
        over: what it is over the stretch's episodes: their 'sum', their 'mean', or the value after the 'last' one.
        unit: of an amount that is at least 0: of 'reward', of 'steps', or the number of 'episodes' after which
            something has happened, infinite if it has not; else empty.
        of: what it judges: the 'run', the policy 'deployed' last, or the 'output' policy, which the run gives out.
        short: the header of its column in a narrow table, which has the headline and metrics with a header only.
        definition: in a sentence's part, for readers of a page.
        across: what a cell shows of its seeds: their 'mean', or their 'median', which may be infinite.
        better: whether 'low' or 'high' values are.
        most: the largest value that it can have, where that is known; it is then at least 0, too.
        headline: whether it stands for the run in progress lines, tables and figures: a sum or a mean with a unit.
        covered: whether the certificate covers it: it is computed from released values and public facts only. Others
            are for simulations; with `release: true` they are written nowhere.

    Raises ValueError for a median over seeds of anything but the value after the last episode.
    """

    name: str
    over: Literal["sum", "mean", "last"]
    unit: Literal["reward", "steps", "episodes", ""] = ""
    of: Literal["run", "deployed", "output"] = "run"
    short: str = ""
    definition: str = ""
    across: Literal["mean", "median"] = "mean"
    better: Literal["low", "high"] = "low"
    headline: bool = False
    most: float = math.inf
    covered: bool = True

    def __post_init__(self) -> None:
        if self.across == "median" and self.over != "last":
            raise ValueError(
                f"across: must be mean with over {self.over!r}, got 'median' for metric {self.name!r}; a median over "
                "seeds is of the value after the last episode"
            )

    @property
    def label(self) -> str:
        """What tables and figures call it."""
        return self.name.replace("_", " ")

    def range(self, horizon: float = math.inf) -> tuple[float, float]:
        """Return the least and the largest value that an episode of so many steps can have.

        A step's reward is at most 1, so amounts of reward and of steps are at most the horizon, sums per episode. What
        has no unit and no largest value is not bounded.
        """
        if not self.unit and math.isinf(self.most):
            return -math.inf, math.inf
        return 0.0, min(self.most, horizon if self.unit in ("reward", "steps") else math.inf)


REGRET = Metric("regret", "sum", "reward", headline=True)
"""The exact pseudo-regret of the policies deployed, never a realised return."""
SATURATED = Metric("saturated", "mean")
"""The share of cells whose optimistic value is clipped at its cap."""


def headline(metrics: Sequence[Metric]) -> Metric | None:
    """Return the metric that stands for a run, None if there is none."""
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


class TrustSettings(Protocol):
    """The privacy settings of a run: a trust model, what is asked of it and how."""

    model: ClassVar[TrustModel]


class Algorithm(Protocol):
    """A learner on one environment, behind one privatizer."""

    episodes_done: int

    @property
    def policies(self) -> dict[str, np.ndarray]:
        """What a finished run leaves, as named tables; 'policy' is one of them."""

    @property
    def theorem(self) -> str | None:
        """The theorem that covers this run, with the noise that runs, and what it is of; None where there is none."""

    @property
    def derived(self) -> Mapping[str, float]:
        """Numbers that the settings leave to the noise and the sizes of the run, by name."""

    def learn(self, n: int) -> TrainResult:
        """Run the next n episodes."""

    def certificate(self) -> Certificate:
        """Return what the noise that ran proves of all that was released so far."""

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return everything that a resumed run needs, as arrays."""

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        """Continue from `state_dict`, bit for bit."""


class AlgorithmConfig(Protocol):
    """The config of one algorithm: what the file says, and what builds it.

    plays: the class of environments that the methods take. metrics: what its learner reports. releases: what users
    release, which decides what privacy settings it takes. unit: what an episode of the config is called.
    """

    name: ClassVar[str]
    plays: ClassVar[type[Env]]
    metrics: ClassVar[tuple[Metric, ...]]
    releases: ClassVar[Releases]
    unit: ClassVar[Literal["episode", "submission"]]

    @property
    def covered_by(self) -> str | None:
        """The theorem that covers all runs with these settings, and what it is of; None where there is none."""

    def privatizer(self, env: Any, privacy: Any, episodes: int, streams: Streams) -> Privatizer[Any]:  # noqa: ANN401
        """Return what `privacy`, of the kind that fits `releases`, makes of the releases of a run of `episodes`."""

    def build(self, env: Any, privatizer: Any, episodes: int, streams: Streams) -> Algorithm:  # noqa: ANN401
        """Return a fresh learner behind `privatizer`."""


def check_number(key: str, value: object, low: float, high: float = np.inf) -> None:
    """Raise ValueError, in one line, unless value is a finite number with low <= value < high."""
    valid = isinstance(value, int | float) and not isinstance(value, bool) and np.isfinite(value)
    if not valid or not low <= float(value) < high:  # type: ignore[arg-type]
        span = f"at least {low:g}" if high == np.inf else f"at least {low:g} and below {high:g}"
        raise ValueError(f"{key} must be a finite number, {span}, got {value!r}; choose a value in that range")


def check_whole(key: str, value: object, low: int, high: int) -> None:
    """Raise ValueError, in one line, unless value is a whole number with low <= value <= high."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"{key} must be a whole number from {low} to {high}, got {value!r}; choose one of them")


def check_choice(key: str, value: object, choices: Collection[str]) -> None:
    """Raise ValueError, in one line, unless value is one of `choices`."""
    if value not in choices:
        raise ValueError(f"{key} must be one of {', '.join(choices)}, got {value!r}; choose one of them")
