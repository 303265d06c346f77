"""Basic types of privacy: arrays, guarantees, sensitivities, verdicts on claims, a ledger's error, and checks."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
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


# ---- changes of released numbers ----

# Relative: a smaller rest of the L1 norm is rounding, not a further number.
_NOTHING = 1e-12


@dataclass(frozen=True)
class Sensitivity:
    """Largest distance of the vectors of two neighbours.

    >>> two_steps = Sensitivity.of_cells(4)
    >>> two_steps.repeated(4)
    Sensitivity(l1=16.0, l2=4.0, linf=1.0, cells=16, copies=1)

    Args:
        l1, l2, linf: bounds on the norms of their difference.
        cells: number of numbers that can differ.
        copies: number of copies of each, released with separate noise and counted as one; see `joined`.
    """

    l1: float
    l2: float
    linf: float
    cells: int
    copies: int = 1

    def __post_init__(self) -> None:
        norms = (self.l1, self.l2, self.linf)
        if min(self.cells, self.copies) < 1 or not all(math.isfinite(x) and x > 0 for x in norms):
            raise ValueError(f"a sensitivity is finite and above 0 in every norm, got {self}; bound what is released")

    @staticmethod
    def of_cells(n: int, change: float = 1.0) -> Sensitivity:
        """Return the sensitivity of n numbers that change by at most `change` each."""
        return Sensitivity(n * change, math.sqrt(n) * change, change, n)

    def repeated(self, times: int) -> Sensitivity:
        """Return the sensitivity of `times` copies, each with separate noise."""
        l1, l2 = self.l1 * times, self.l2 * math.sqrt(times)
        return Sensitivity(l1, l2, self.linf, self.cells * times, self.copies)

    def joined(self, times: int) -> Sensitivity:
        """Return the sensitivity of `times` copies, where all copies of a number count as one release.

        For copies with noises that are not independent given what is known when the number is chosen.
        """
        l2, copies = self.l2 * math.sqrt(times), self.copies * times
        return Sensitivity(self.l1 * times, l2, self.linf * times, self.cells, copies)

    def scaled(self, factor: int) -> Sensitivity:
        """Return a bound for the sum of `factor` differences in any cells, by the triangle inequality."""
        norms = (self.l1 * factor, self.l2 * factor, self.linf * factor)
        return Sensitivity(*norms, self.cells * factor, self.copies)

    def beside(self, other: Sensitivity) -> Sensitivity:
        """Return the joint sensitivity of both, for different numbers."""
        l2 = math.hypot(self.l2, other.l2)
        linf, copies = max(self.linf, other.linf), max(self.copies, other.copies)
        return Sensitivity(self.l1 + other.l1, l2, linf, self.cells + other.cells, copies)

    @property
    def of_one_copy(self) -> Sensitivity:
        """The sensitivity of one copy of every number."""
        l2 = self.l2 / math.sqrt(self.copies)
        return Sensitivity(self.l1 / self.copies, l2, self.linf / self.copies, self.cells, 1)

    @property
    def changes(self) -> str:
        """What changes, in words."""
        joined = f", whose {self.copies} copies count as one" if self.copies > 1 else ""
        return f"{self.cells:,} noisy numbers change by at most {self.linf:.6g} each{joined}"

    @property
    def integer(self) -> bool:
        """Whether it is the sensitivity of `cells` numbers that can change by 1 each."""
        unit_changes = self.l1 == self.cells and self.linf == 1.0
        return unit_changes and math.isclose(self.l2, math.sqrt(self.cells), rel_tol=1e-12)

    @property
    def worst_shift(self) -> tuple[tuple[int, float], ...]:
        """The most concentrated change: (how many numbers, change of each), as many by linf as fit, one by the rest."""
        size = min(self.l1, self.linf)
        whole = math.floor(self.l1 / size * (1.0 + _NOTHING))
        rest = self.l1 - whole * size
        if whole >= self.cells or rest <= _NOTHING * size:
            return ((min(whole, self.cells), size),)
        return (whole, size), (1, rest)


def quotient_up(numerator: float, denominator: float) -> float:
    """Return the least float64 that is at least numerator / denominator as rational numbers; denominator > 0."""
    quotient = numerator / denominator
    if math.isfinite(quotient) and math.isfinite(denominator):
        exact = Fraction(numerator) / Fraction(denominator)
        while math.isfinite(quotient) and Fraction(quotient) < exact:
            quotient = math.nextafter(quotient, math.inf)
    return quotient


# ---- verdicts on a claim: one rule for certificates and audits ----

APPROXIMATE_DELTA = 1e-6
"""The delta at which a pure claim that fails may hold approximately."""
_VERDICT_TOLERANCE = 1e-9

Verdict = Literal["holds", "holds_approximately", "fails", "unbounded"]
Tightness = Literal["exact", "upper"]
Number = float | str


def verdict(epsilon: float, delta: float, proved_epsilon: float, proved_delta: float, raw: bool) -> Verdict:
    """Return whether the claim (epsilon, delta) is proved.

    `holds`; `holds_approximately` if a pure claim fails but holds at delta 1e-6; `fails`; `unbounded` if `raw`.

    Args:
        epsilon, delta: the claim. raw: whether something leaves without noise.
        proved_epsilon: the epsilon proved at `delta`, so the pure one for delta 0; may be infinite.
        proved_delta: the delta proved at `epsilon`.

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
        rule = "delta must be 0 (pure differential privacy) or lie in [1e-15, 1)"
        raise ValueError(f"{rule}, got {delta!r}; write e.g. delta: 1e-6")


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


def check_whole(key: str, value: object, low: int, high: int, remedy: str) -> None:
    """Raise ValueError, in one line, unless value is a whole number with low <= value <= high."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"{key} must be a whole number from {low} to {high}, got {value!r}; {remedy}")
