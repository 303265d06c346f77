"""Noise on a bounded interval: some outputs are possible for one neighbour only, so no pure epsilon exists.

Lemma E. Let a density f on a bounded interval be log-concave, and shift independent draws of it by v_1, ..., v_n. The
outputs that the shifted draws cannot produce have mass 1 - prod_j o(v_j), where o(v) is the mass of f on the common
support. If the log-ratio of f and its shift is at most r on the common support, that mass is exactly delta(epsilon) for
every epsilon >= r. Over all shifts with |v|_1 <= l1 and |v_j| <= linf on at most `cells` numbers it is largest for the
most concentrated one: as many numbers at linf as fit, one for the rest. *Proof.* o(v) is the integral over x of f(x)
1[x - v in the support], a marginal of a log-concave function of (x, v), hence log-concave (Prekopa); a sum of one
concave function over the coordinates is Schur-concave, and the concentrated vector majorises every other one.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dprl.privacy.accounting.curves import ApproximateLoss, PrivacyCurve, Unbounded

# Relative: a smaller rest of the L1 norm is rounding, not a further number.
_NOTHING = 1e-12


def worst_outside(l1: float, linf: float, cells: int, log_common: Callable[[float], float]) -> float:
    """Return the largest mass outside the common support over all shifts with these norms (Lemma E).

    Args:
        l1, linf, cells: norms of the shift, and the maximum of numbers that it changes.
        log_common: returns, for v >= 0, ln of the mass of one number's noise on the common support, -inf for none.
    """
    whole, rest = concentrated(l1, linf, cells)
    total = whole * log_common(min(l1, linf)) if whole else 0.0
    if rest > 0.0:
        total += log_common(rest)
    return -math.expm1(total)


def concentrated(l1: float, linf: float, cells: int) -> tuple[int, float]:
    """Return the number of changes of size linf in the concentrated shift, and the size of the remaining one."""
    size = min(l1, linf)
    whole = math.floor(l1 / size * (1.0 + _NOTHING))
    if whole >= cells:
        return cells, 0.0
    rest = l1 - whole * size
    return whole, rest if rest > _NOTHING * size else 0.0


def bounded_support_curve(outside: float, ratio: float) -> PrivacyCurve:
    """Return the curve of a release with mass `outside` off the common support and log-ratios up to `ratio` on it.

    *Formal guarantee.* (ratio, outside)-DP: for every epsilon >= ratio, delta is `outside`, and no epsilon is finite at
    a smaller delta. Without a common support there is no guarantee.

    Args:
        outside: a mass in [0, 1].
        ratio: >= 0; 0 for uniform noise.
    """
    return Unbounded() if outside >= 1.0 else ApproximateLoss(ratio, outside)
