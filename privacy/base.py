"""Basic types of privacy: arrays, guarantees and verdicts on them, the error of a ledger that refuses, and checks."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

Float64Array = npt.NDArray[np.float64]
Int64Array = npt.NDArray[np.int64]
TrustModel = str
"""Name of a trust model, a key of `threat_models.NOISY_SIDES`."""

ADJACENCY = "replace one user's trajectory"


class LedgerError(RuntimeError):
    """Refusal by a ledger or a privatizer: an unknown release, or a submission out of order or without a charge.

    >>> from dprl.privacy import CountFamilies, CountFamily, CountPrivacy, Streams
    >>> visits = CountFamilies(1, (CountFamily("visits", 2),))
    >>> users = CountPrivacy("ldp", 1.0).build(visits, 3, Streams(0, "an example"))
    >>> users.charge(1, 2)
    >>> users.charge(2, 3)
    Traceback (most recent call last):
    dprl.privacy.base.LedgerError: submission 2 cannot be charged: those up to 2 are charged already
    """


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


# ---- verdicts on a claim: one rule for certificates and audits ----

APPROXIMATE_DELTA = 1e-6
"""The delta at which a pure claim that fails may hold approximately."""
_VERDICT_TOLERANCE = 1e-9

Verdict = Literal["holds", "holds_approximately", "fails", "unbounded"]
Tightness = Literal["exact", "upper"]
Number = float | str


def verdict(epsilon: float, delta: float, proved_epsilon: float, proved_delta: float, raw: bool) -> Verdict:
    """Return whether the claim (epsilon, delta) is proved.

    `holds`; `holds_approximately` if a pure claim fails but holds at delta 1e-6; `fails`; `unbounded` if something
    leaves without noise.

    Args:
        epsilon, delta: the claim.
        proved_epsilon: the epsilon proved at `delta`, so the pure one for delta 0; may be infinite.
        proved_delta: the delta proved at `epsilon`.
        raw: whether something leaves without noise.

    >>> verdict(1.0, 0.0, proved_epsilon=1.0, proved_delta=0.0, raw=False)
    'holds'
    >>> verdict(1.0, 0.0, proved_epsilon=1.5, proved_delta=0.1, raw=False)
    'fails'
    """
    if raw:
        return "unbounded"
    if proved_epsilon <= epsilon * (1.0 + _VERDICT_TOLERANCE):
        return "holds"
    if delta > 0.0:
        return "holds" if proved_delta <= delta * (1.0 + _VERDICT_TOLERANCE) else "fails"
    return "holds_approximately" if proved_delta <= APPROXIMATE_DELTA else "fails"


def tightness_of(pure_epsilon: float, attained: bool) -> Tightness | None:
    """Return whether a proved pure epsilon is exact or an upper bound; None for an infinite one."""
    if math.isinf(pure_epsilon):
        return None
    return "exact" if attained else "upper"


def in_json(value: float) -> Number:
    """Return `value` for JSON, infinity as the string 'inf'."""
    return "inf" if math.isinf(value) else value


# ---- checks of settings ----

_SMALLEST_EPSILON, _LARGEST_EPSILON = 1e-9, 1e9
_SMALLEST_DELTA = 1e-15


def check_budget(epsilon: float, delta: float) -> None:
    """Raise ValueError, in one line, unless (epsilon, delta) is in the supported range."""
    numbers = [isinstance(value, int | float) and not isinstance(value, bool) for value in (epsilon, delta)]
    if not numbers[0]:
        raise ValueError(f"epsilon must be a number above 0, got {epsilon!r}; for no privacy write model: none")
    if not 0 < epsilon < math.inf:
        raise ValueError(f"epsilon must be finite and above 0, got {epsilon!r}; for no privacy write model: none")
    if not _SMALLEST_EPSILON <= epsilon <= _LARGEST_EPSILON:
        raise ValueError(f"epsilon must lie between 1e-9 and 1e9, got {epsilon!r}; beyond that nothing can be computed")
    if not (numbers[1] and (delta == 0 or _SMALLEST_DELTA <= delta < 1)):
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
            elif hint is bool and not isinstance(getattr(settings, name), bool):
                raise ValueError(f"{name} must be true or false, got {getattr(settings, name)!r}; write one of them")


def check_choice(key: str, value: object, choices: Collection[str]) -> None:
    """Raise ValueError, in one line, unless value is one of `choices`."""
    if value not in choices:
        raise ValueError(f"{key} must be one of {', '.join(choices)}, got {value!r}; choose one of them")


def check_positive(key: str, value: object, remedy: str = "leave it out for 1") -> None:
    """Raise ValueError, in one line, unless value is a finite number above 0."""
    if not (isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf):
        raise ValueError(f"{key} must be a finite number above 0, got {value!r}; {remedy}")
