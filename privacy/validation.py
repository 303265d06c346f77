"""Checks of settings that every trust model makes before it uses them."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

_SMALLEST_EPSILON, _LARGEST_EPSILON = 1e-9, 1e9
_SMALLEST_DELTA = 1e-15


def check_budget(epsilon: float, delta: float) -> None:
    """Raise ValueError, in one line, unless (epsilon, delta) is in the supported range."""
    if not _is_number(epsilon):
        raise ValueError(f"epsilon must be a number above 0, got {epsilon!r}; for no privacy write model: none")
    if not 0 < epsilon < math.inf:
        raise ValueError(f"epsilon must be finite and above 0, got {epsilon!r}; for no privacy write model: none")
    if not _SMALLEST_EPSILON <= epsilon <= _LARGEST_EPSILON:
        raise ValueError(f"epsilon must lie between 1e-9 and 1e9, got {epsilon!r}; beyond that nothing can be computed")
    if not (_is_number(delta) and (delta == 0 or _SMALLEST_DELTA <= delta < 1)):
        raise ValueError(
            f"delta must be 0 (pure differential privacy) or lie in [1e-15, 1), got {delta!r}; write e.g. delta: 1e-6"
        )


@cache  # resolving type hints takes longer than all checks with them
def field_types(kind: type[Any]) -> dict[str, Any]:
    """Return the types of a dataclass's fields that its constructor takes."""
    hints = get_type_hints(kind)
    return {entry.name: hints[entry.name] for entry in fields(kind) if entry.init}


def check_fields(settings: object) -> None:
    """Raise ValueError, in one line, for a Literal field with another value, or a flag that is no bool.

    A field that a subclass annotates with another type must satisfy the types of all its bases.
    """
    for kind in filter(is_dataclass, type(settings).__mro__):
        for name, hint in field_types(kind).items():
            if get_origin(hint) is Literal:
                check_choice(name, getattr(settings, name), get_args(hint))
            elif hint is bool:
                check_flag(name, getattr(settings, name))


def check_choice(key: str, value: object, choices: Collection[str]) -> None:
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
        raise ValueError(f"submissions must be a whole number of at least 1, got {value!r}; write e.g. submissions: 1")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
