"""Checks of environments' fields and arrays, and of algorithms' settings.

Errors are one line with the rule, the value and the remedy.
"""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np
from numpy.typing import ArrayLike, NDArray

_SUM_TOLERANCE = 1e-9  # The rounding error of a sum of a few thousand float64 probabilities is far below this.
_MAX_ENTRIES = 10**8  # Learners keep several tables of this size; 10^8 float64 entries are 0.8 GB each.


def require_integer(key: str, value: object, minimum: int, maximum: int | None = None) -> None:
    """Raise a ValueError unless value is an integer of at least `minimum`, and at most `maximum` if there is one."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if maximum is None and not (whole and value >= minimum):  # type: ignore[operator]
        raise ValueError(f"{key} must be an integer of at least {minimum}, got {value!r}; set {key}: {minimum} or more")
    if maximum is not None and not (whole and minimum <= value <= maximum):  # type: ignore[operator]
        rule = f"a whole number from {minimum} to {maximum}"
        raise ValueError(f"{key} must be {rule}, got {value!r}; choose one in that range")


def require_flag(key: str, value: object) -> None:
    """Raise a ValueError unless value is true or false."""
    if not isinstance(value, bool):
        raise ValueError(f"{key} must be true or false, got {value!r}; choose one of them")


def require_integers(spec: object, **minima: int) -> None:
    """Raise a ValueError unless each named field of the spec is an integer of at least its minimum."""
    for key, minimum in minima.items():
        require_integer(key, getattr(spec, key), minimum)


def require_size(name: str, size: tuple[int, int, int], keys: str) -> None:
    """Raise a ValueError if the transitions [H, S, A, S'] would not fit in memory.

    size: H, S, A, where A may be the number of pairs of actions. keys: the fields that decide its size.
    """
    horizon, n_states, n_actions = (int(number) for number in size)
    entries = horizon * n_states**2 * n_actions
    if entries > _MAX_ENTRIES:
        rule = f"{name} needs transitions of at most {_MAX_ENTRIES} entries"
        raise ValueError(
            f"{rule}, got {horizon} steps x {n_states}^2 states x {n_actions} actions = {entries}; lower {keys}"
        )


def require_number(key: str, value: object, low: float, high: float = math.inf, *, below: float = math.inf) -> None:
    """Raise a ValueError unless value is finite, low <= value <= high, and value < below."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not (number and low <= value <= high and value < below):  # type: ignore[operator]
        span = "" if below == math.inf else f" and below {below:g}"
        rule = f"a number in [{low:g}, {high:g}]" if high < math.inf else f"a finite number, at least {low:g}{span}"
        raise ValueError(f"{key} must be {rule}, got {value!r}; choose a value in that range")


def require_choice(key: str, value: object, choices: Collection[str]) -> None:
    """Raise a ValueError unless value is one of `choices`."""
    if value not in tuple(choices):
        raise ValueError(f"{key} must be one of {', '.join(choices)}, got {value!r}; choose one of them")


def table(key: str, value: ArrayLike, dimensions: int) -> NDArray[np.float64]:
    """Return a copy of value as a C-contiguous float64 array; raise a ValueError unless it is finite and fits."""
    try:
        array = np.array(value, dtype=np.float64, order="C")
    except (TypeError, ValueError):
        raise ValueError(f"{key} must be an array of numbers, got {type(value).__name__}; pass float64") from None
    if array.ndim != dimensions or array.size == 0:
        rule = f"{key} must be a non-empty array of {dimensions} dimensions"
        raise ValueError(f"{rule}, got shape {array.shape}; give all of its axes, none of length 0")
    if not np.isfinite(array).all():
        raise ValueError(f"{key} must be finite, got NaN or infinity; remove these entries")
    return array


def require_distributions(key: str, array: NDArray[np.float64]) -> None:
    """Raise a ValueError unless every row of the last axis is a probability distribution."""
    if array.min() < 0.0:
        raise ValueError(f"{key} must hold probabilities >= 0, got {array.min():g}; remove negative entries")
    sums = array.sum(axis=-1).ravel()
    worst = sums[np.abs(sums - 1.0).argmax()]
    if abs(worst - 1.0) > _SUM_TOLERANCE:
        raise ValueError(f"{key} must sum to 1 over the last axis, got a sum of {worst:.12g}; normalise the rows")
