"""The contract of this room: an algorithm plans from private counts and runs its own compiled learning loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from dprl.envs import FiniteMDP
from dprl.privacy import PrivacyConfig, PrivateCounts, Privatizer, Streams

Float64Array = npt.NDArray[np.float64]
Int64Array = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Segment:
    """What a stretch of learning did.

    Args:
        episodes: how many episodes it was.
        regret: sum over them of the exact pseudo-regret V*(s_1) - V^pi(s_1).
        saturated: mean over them of the share of (h, s, a) cells whose optimistic value is clipped at its cap.
    """

    episodes: int
    regret: float
    saturated: float


class Algorithm(Protocol):
    """A learner on one environment, behind one privatizer."""

    privatizer: Privatizer
    episodes: int
    episodes_done: int

    @property
    def policy(self) -> Int64Array | Float64Array:
        """The policy deployed last: actions int64[H, S], or probabilities float64[H, S, A]; see FiniteMDP.value."""

    def plan(self, counts: PrivateCounts) -> Int64Array | Float64Array:
        """Return the policy for the next episode, as `policy`. Private counts are all it may see."""

    def learn(self, n: int) -> Segment:
        """Run the next n episodes."""

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return everything that a resumed run needs, as arrays."""

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        """Continue from `state_dict`, bit for bit."""


class AlgorithmConfig(Protocol):
    """The config of one algorithm: what the file says, and what builds it."""

    name: ClassVar[str]

    def privatizer(self, mdp: FiniteMDP, privacy: PrivacyConfig, episodes: int, streams: Streams) -> Privatizer:
        """Return the privatizer that `privacy` makes of what the algorithm releases in a run of `episodes`."""

    def build(self, mdp: FiniteMDP, privatizer: Privatizer, episodes: int, streams: Streams) -> Algorithm:
        """Return a fresh learner."""


def check_number(key: str, value: object, low: float, high: float = np.inf) -> None:
    """Raise ValueError, in one line, unless value is a finite number with low <= value < high."""
    valid = isinstance(value, int | float) and not isinstance(value, bool) and np.isfinite(value)
    if not valid or not low <= float(value) < high:  # type: ignore[arg-type]
        span = f"at least {low:g}" if high == np.inf else f"at least {low:g} and below {high:g}"
        raise ValueError(f"{key} must be a finite number, {span}, got {value!r}; choose a value in that range")
