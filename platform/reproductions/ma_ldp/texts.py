"""How the page on [TH23] writes numbers."""

from __future__ import annotations

import math

from dprl.platform.reproductions.resampling import Estimate

INFINITE = "\u221e"


def plain(value: float) -> str:
    """Return a number with three significant digits, or as a whole number if that is longer."""
    if math.isnan(value):
        return "\u2014"
    if math.isinf(value):
        return INFINITE
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def regret(value: float) -> str:
    """Return a regret as a whole number."""
    return "\u2014" if math.isnan(value) else f"{value:.0f}"


def ends(found: Estimate) -> str:
    """Return the interval of a mean regret."""
    return "\u2014" if math.isnan(found.lower) else f"[{regret(found.lower)}, {regret(found.upper)}]"


def regrets(found: Estimate) -> str:
    """Return a mean regret with its interval."""
    return regret(found.value) if math.isnan(found.lower) else f"{regret(found.value)} {ends(found)}"


def ratios(found: Estimate) -> str:
    """Return a ratio with its interval."""
    if math.isnan(found.lower):
        return f"{found.value:.2f}"
    return f"{found.value:.2f} [{found.lower:.2f}, {found.upper:.2f}]"


def share(value: float) -> str:
    """Return a share in per cent."""
    return "\u2014" if math.isnan(value) else f"{100.0 * value:.1f} %"


def p_value(value: float) -> str:
    """Return a p-value."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def between(low: float, high: float) -> str:
    """Return an interval of two numbers, or the one bound that is known."""
    return f"at most {plain(high)}" if math.isnan(low) else f"in [{plain(low)}, {plain(high)}]"
