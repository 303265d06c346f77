"""The contract of this room: an algorithm plans from private counts and runs its own compiled learning loop."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
import numpy.typing as npt

from dprl.envs import Env
from dprl.privacy import PrivacyConfig, PrivateCounts, Privatizer, Streams

Float64Array = npt.NDArray[np.float64]
Int64Array = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Metric:
    """A number that a learner reports of every stretch of learning.

    Args:
        name: its key everywhere.
        over: what it is over the stretch's episodes: their 'sum', their 'mean', or the value after the 'last' one.
        unit: 'reward' where it is an amount of reward and at least 0, else empty.
        of: what it judges: the 'run', the policy 'deployed' last, or the 'output' policy, which the run gives out.
        short: the header of its column in a narrow table; empty for its label.
        definition: in a sentence's part, for readers of a page.
    """

    name: str
    over: Literal["sum", "mean", "last"]
    unit: Literal["reward", ""] = ""
    of: Literal["run", "deployed", "output"] = "run"
    short: str = ""
    definition: str = ""

    @property
    def label(self) -> str:
        """What tables and figures call it."""
        return self.name.replace("_", " ")


REGRET = Metric("regret", "sum", "reward")
"""The exact pseudo-regret of the policies deployed, never a realised return."""
SATURATED = Metric("saturated", "mean")
"""The share of cells whose optimistic value is clipped at its cap."""


@dataclass(frozen=True)
class Segment:
    """What a stretch of learning did.

    Args:
        episodes: how many episodes it was.
        metrics: the value of each metric of the algorithm, by its name.
    """

    episodes: int
    metrics: Mapping[str, float]

    @property
    def regret(self) -> float:
        """The sum of the exact pseudo-regret over the episodes."""
        return self.metrics[REGRET.name]

    @property
    def saturated(self) -> float:
        """The mean over the episodes of the share of cells whose optimistic value is clipped at its cap."""
        return self.metrics[SATURATED.name]


class Algorithm(Protocol):
    """A learner on one environment, behind one privatizer."""

    privatizer: Privatizer
    episodes: int
    episodes_done: int

    @property
    def policy(self) -> Int64Array | Float64Array:
        """The policy deployed last: actions int64[H, S], or probabilities float64, [H, S, A] or those of a game."""

    @property
    def policies(self) -> dict[str, np.ndarray]:
        """What a finished run leaves, as named tables; 'policy' is one of them."""

    @property
    def theorem(self) -> str | None:
        """The theorem that covers this run, with the noise that runs, and what it is of; None where there is none."""

    @property
    def derived(self) -> Mapping[str, float]:
        """Numbers that the settings leave to the noise and the sizes of the run, by name."""

    def plan(self, counts: PrivateCounts) -> Int64Array | Float64Array:
        """Return the policy for the next episode, as `policy`. Private counts are all it may see."""

    def learn(self, n: int) -> Segment:
        """Run the next n episodes."""

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return everything that a resumed run needs, as arrays."""

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        """Continue from `state_dict`, bit for bit."""


class AlgorithmConfig(Protocol):
    """The config of one algorithm: what the file says, and what builds it.

    plays: the class of environments that the methods take. metrics: what its learner reports.
    """

    name: ClassVar[str]
    plays: ClassVar[type[Env]]
    metrics: ClassVar[tuple[Metric, ...]]

    @property
    def covered_by(self) -> str | None:
        """The theorem that covers all runs with these settings, and what it is of; None where there is none."""

    def privatizer(self, env: Any, privacy: PrivacyConfig, episodes: int, streams: Streams) -> Privatizer:  # noqa: ANN401
        """Return the privatizer that `privacy` makes of what the algorithm releases in a run of `episodes`."""

    def build(self, env: Any, privatizer: Privatizer, episodes: int, streams: Streams) -> Algorithm:  # noqa: ANN401
        """Return a fresh learner."""


def check_number(key: str, value: object, low: float, high: float = np.inf) -> None:
    """Raise ValueError, in one line, unless value is a finite number with low <= value < high."""
    valid = isinstance(value, int | float) and not isinstance(value, bool) and np.isfinite(value)
    if not valid or not low <= float(value) < high:  # type: ignore[arg-type]
        span = f"at least {low:g}" if high == np.inf else f"at least {low:g} and below {high:g}"
        raise ValueError(f"{key} must be a finite number, {span}, got {value!r}; choose a value in that range")


def check_choice(key: str, value: object, choices: Collection[str]) -> None:
    """Raise ValueError, in one line, unless value is one of `choices`."""
    if value not in choices:
        raise ValueError(f"{key} must be one of {', '.join(choices)}, got {value!r}; choose one of them")
