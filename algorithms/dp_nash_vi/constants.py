"""Which constants C_1 and C_2 of the bonus are proved to make bounds of it: docs/dp_nash_vi.md, Theorem 1."""

from __future__ import annotations

import math
from dataclasses import dataclass

ALWAYS_ENOUGH = math.sqrt(2.0)
"""With C_1 >= 1 and C_2 at least this, the bounds hold whatever the noise and the sizes."""
_DIGITS = 1e-6


@dataclass(frozen=True)
class Sizes:
    """What the condition depends on: S states, H steps, K episodes, E that bounds all noise, and iota."""

    n_states: int
    horizon: int
    episodes: int
    e: float
    iota: float


def enough(c1: float, c2: float, sizes: Sizes) -> bool:
    """Return whether the theorem proves the bounds for C_1 = c1 and C_2 = c2.

    Paper: docs/dp_nash_vi.md, inequality (5).
    """
    n_states, f, e, iota = sizes.n_states, sizes.horizon, sizes.e, sizes.iota
    if _nothing_to_estimate(sizes):
        return True
    if c1 <= 0.0:
        return False
    c1 = min(c1, 1.0)
    rho = 2.0 * c1 / (3.0 * f)
    log_sets = (n_states - 1) * math.log(2.0) + math.log1p(-(2.0 ** (1 - n_states)))
    tau = 1.0 + log_sets / iota
    visits = 10.0 / 3.0 if e > 0.0 else 7.0 / 3.0
    deviation = max(0.0, ALWAYS_ENOUGH - c2) * (f / 2.0) * math.sqrt(iota * (sizes.episodes + e))
    noise = e * n_states * (f - 1) * (1.25 + rho / 2.0)
    chance = 3.0 * f**2 / (8.0 * c1) + visits * (f - 1) + 3.0 * f * (f - 1) / (4.0 * c1) * (1.0 + rho) ** 2 * tau
    return deviation + noise + iota * chance <= c2 * f * n_states * iota * (e + f)


def least_scale(sizes: Sizes) -> float:
    """Return the least c, to six digits from above, for which C_1 = C_2 = c is enough.

    Paper: docs/dp_nash_vi.md, Corollary 3.
    """
    if _nothing_to_estimate(sizes):
        return 0.0
    low, high = 0.0, ALWAYS_ENOUGH
    while high - low > _DIGITS * high:
        middle = 0.5 * (low + high)
        if enough(middle, middle, sizes):
            high = middle
        else:
            low = middle
    return high


def _nothing_to_estimate(sizes: Sizes) -> bool:
    """Whether P~ = P for a single state, or nothing follows a single step."""
    return sizes.n_states == 1 or sizes.horizon == 1
