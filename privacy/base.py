"""Basic types of privacy: arrays, trust models, guarantees, and the error of a ledger that refuses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Float64Array = npt.NDArray[np.float64]
Int64Array = npt.NDArray[np.int64]
TrustModel = str
"""Name of a trust model, a key of `threat_models.NOISY_SIDES`."""

ADJACENCY = "replace one user's trajectory"


class LedgerError(RuntimeError):
    """Refusal by a ledger or a privatizer: an unknown release, or a submission out of order or without a charge."""


@dataclass(frozen=True)
class Guarantee:
    """A differential-privacy guarantee: trust model, epsilon, delta, and the neighbouring data sets.

    Raises ValueError unless 0 < epsilon < inf and 0 <= delta < 1.
    """

    trust_model: TrustModel
    epsilon: float
    delta: float = 0.0
    adjacency: str = ADJACENCY

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < float("inf"):
            raise ValueError(f"epsilon must be finite and above 0, got {self.epsilon}; nothing else is a guarantee")
        if not 0 <= self.delta < 1:
            raise ValueError(f"delta must lie in [0, 1), got {self.delta}; nothing else is a guarantee")


@dataclass(frozen=True)
class Precision:
    """An error bound per count family that holds for all cells and episodes together with probability 1 - beta.

    Args:
        beta: the failure probability.
        bounds: family name -> E >= 0, in counts.
    """

    beta: float
    bounds: dict[str, float]
