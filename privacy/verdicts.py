"""Verdict on a claim, from the proof: one rule for certificates and audits."""

from __future__ import annotations

import math
from typing import Literal

APPROXIMATE_DELTA = 1e-6
"""The delta at which a pure claim that fails may hold approximately."""
_TOLERANCE = 1e-9

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
    if proved_epsilon <= epsilon * (1.0 + _TOLERANCE):
        return "holds"
    if delta > 0.0:
        return "holds" if proved_delta <= delta * (1.0 + _TOLERANCE) else "fails"
    return "holds_approximately" if proved_delta <= APPROXIMATE_DELTA else "fails"


def tightness_of(pure_epsilon: float, attained: bool) -> Tightness | None:
    """Return whether a proved pure epsilon is exact or an upper bound; None for an infinite one."""
    if math.isinf(pure_epsilon):
        return None
    return "exact" if attained else "upper"


def in_json(value: float) -> Number:
    """Return `value` for JSON, infinity as the string 'inf'."""
    return "inf" if math.isinf(value) else value
