"""Running sums without further noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dprl.privacy.base import Float64Array
from dprl.privacy.counters.base import EXACT, Counter, CounterState
from dprl.privacy.mechanisms.base import Mechanism, Sensitivity
from dprl.privacy.mechanisms.sampling import SILENT


@dataclass(frozen=True)
class ExactCounter(Counter):
    """Running sums without further noise (trust model none, or sums of reports that are already noisy).

    *Formal guarantee.* None by itself: its sums are as private as the rows.

    Args:
        n_items: T, the maximum number of items.
    """

    n_items: int
    node: ClassVar[Mechanism | None] = None
    name: ClassVar[str] = "exact"
    place: ClassVar[str] = ""

    def sensitivity(self, row: Sensitivity) -> Sensitivity:
        """Return `row`, because the difference of two sums reveals the row."""
        return row

    def explain(self) -> str:
        """Return the line that says how often a row counts."""
        return "a row counts once: sums without further noise"

    def profile(self) -> Float64Array:
        """Return zeros float64[T]."""
        return np.zeros(self.n_items)

    def errors(self) -> tuple[float, float]:
        """Return 0 and 0."""
        return 0.0, 0.0

    def error_bound(
        self,
        n_cells: int,  # noqa: ARG002 - as every counter
        beta: float,  # noqa: ARG002
        summands: int = 1,  # noqa: ARG002
        users: int | None = None,  # noqa: ARG002
    ) -> float:
        """Return 0."""
        return 0.0

    def memory(self, n_cells: int) -> int:  # noqa: ARG002 - as every counter
        """Return 0 bytes."""
        return 0

    def open(self, n_cells: int, key: npt.NDArray[np.uint64]) -> CounterState:  # noqa: ARG002 - as every counter
        """Return a state without noise."""
        return CounterState(EXACT, 2, SILENT, np.zeros((0, n_cells)), np.zeros(0, np.int64), np.zeros(0))
