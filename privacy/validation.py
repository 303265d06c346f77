"""Checks of settings that every trust model makes before it computes with them."""

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


def check_positive(key: str, value: object, remedy: str = "leave it out for 1") -> None:
    """Raise ValueError, in one line, unless value is a finite number above 0."""
    if not (isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf):
        raise ValueError(f"{key} must be a finite number above 0, got {value!r}; {remedy}")


def check_share(key: str, value: object) -> None:
    """Raise ValueError, in one line, unless value lies in (0, 1)."""
    if not (isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1):
        raise ValueError(f"{key} must lie in (0, 1), got {value!r}; without noisy rewards leave it out")


def check_flag(key: str, value: object) -> None:
    """Raise ValueError, in one line, unless value is true or false."""
    if not isinstance(value, bool):
        raise ValueError(f"{key} must be true or false, got {value!r}; write one of them")


def check_submissions(value: object) -> None:
    """Raise ValueError, in one line, unless value is a number of submissions."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"submissions must be a whole number from 1 on, got {value!r}; an agent submits once or more")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
