"""Noise settings: arithmetic and entropy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class NoiseConfig:
    """Noise settings.

    >>> NoiseConfig("exact", "os").fit_for_release, NoiseConfig().fit_for_release
    (True, False)

    Args:
        arithmetic: 'fast': float64 noise, with a proof for real numbers. 'exact': whole numbers and exact coins, so
            that the proof is for the released numbers; values in [0, 1] become coins on the user's side.
        entropy: 'seed': reproducible, not secret. 'os': keys from the operating system for a cryptographic generator,
            never stored; such a run cannot be repeated or continued.
    """

    arithmetic: Literal["fast", "exact"] = "fast"
    entropy: Literal["seed", "os"] = "seed"

    def __post_init__(self) -> None:
        for key, value, choices in (
            ("arithmetic", self.arithmetic, ("fast", "exact")),
            ("entropy", self.entropy, ("seed", "os")),
        ):
            if value not in choices:
                raise ValueError(f"{key} must be one of {', '.join(choices)}, got {value!r}; choose one of them")

    @property
    def fit_for_release(self) -> bool:
        """Whether the noise is fit for real users."""
        return self.arithmetic == "exact" and self.entropy == "os"
