"""What every trust model asks of a config before it computes with it."""

from __future__ import annotations

import math
from collections.abc import Sequence

_SMALLEST_EPSILON, _LARGEST_EPSILON = 1e-9, 1e9
_SMALLEST_DELTA = 1e-15


def check_budget(epsilon: float, delta: float) -> None:
    """Raise ValueError, in one line, unless (epsilon, delta) is a guarantee that can be computed with."""
    if not _is_number(epsilon):
        raise ValueError(f"epsilon must be a number above 0, got {epsilon!r}; for no privacy write model: none")
    if not 0 < epsilon < math.inf:
        raise ValueError(f"epsilon must be finite and above 0, got {epsilon!r}; for no privacy write model: none")
    if not _SMALLEST_EPSILON <= epsilon <= _LARGEST_EPSILON:
        raise ValueError(f"epsilon must lie between 1e-9 and 1e9, got {epsilon!r}; beyond that nothing can be computed")
    if not (_is_number(delta) and (delta == 0 or _SMALLEST_DELTA <= delta < 1)):
        raise ValueError(f"delta must be 0 or lie in [1e-15, 1), got {delta!r}; 0 asks for pure differential privacy")


def check_choice(key: str, value: object, choices: Sequence[str]) -> None:
    """Raise ValueError, in one line, unless value is one of `choices`."""
    if value not in choices:
        raise ValueError(f"{key} must be one of {', '.join(choices)}, got {value!r}; choose one of them")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
