"""Numbers for people: three significant digits in tables of pages, two in sentences, four on the terminal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dprl.platform.results.inference import Effect, Estimate

_TABLE = 3
_SUPERSCRIPTS = str.maketrans("-0123456789", "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079")
_SMALLEST_DECIMAL = 1e-4  # smaller numbers are written with a power of ten
_EXACT_RATIO = 100.0  # larger ratios have three digits


def rounded(value: float, digits: int = _TABLE) -> str:
    """Return a number with `digits` significant digits and commas for thousands, e.g. '0.0122' or '34,500'."""
    if math.isnan(value):
        return ""
    if math.isinf(value):
        return "\u221e" if value > 0 else "\u2212\u221e"
    if value == 0.0:
        return "0"
    shown = float(f"{value:.{digits - 1}e}")
    if abs(shown) < _SMALLEST_DECIMAL:
        return power_text(shown, digits)
    exponent = math.floor(math.log10(abs(shown)))
    return f"{shown:,.{max(0, digits - 1 - exponent)}f}".replace("-", "\u2212")


def power_text(value: float, digits: int = _TABLE) -> str:
    """Return a number as a power of ten, e.g. '10\u207b\u2076' for 1e-06 and '2.5\u00b710\u207b\u2077'."""
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    power = f"10{str(int(exponent)).translate(_SUPERSCRIPTS)}"
    return power if float(mantissa) == 1.0 else f"{float(mantissa):g}\u00b7{power}".replace("-", "\u2212")


def number(value: float, infinite: str = "inf") -> str:
    """Return a number with four significant digits, or its whole part if that is longer."""
    if math.isinf(value):
        return infinite
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def bound(value: float, infinite: str = "inf") -> str:
    """Return an upper bound like `number`, but rounded up. A relative excess of 1e-9 is rounding error."""
    if not math.isfinite(value) or value <= 0.0:
        return number(value, infinite)
    unit = min(10.0 ** (math.floor(math.log10(value)) - 3), 1.0)
    return number(math.ceil(value / unit * (1.0 - 1e-9)) * unit)


def episode_reached(episode: float, episodes: int, comma: str = "") -> str:
    """Return the episode, or '>K' if it lies beyond the `episodes` that were run. comma: between thousands, if any."""
    return f">{episodes:{comma}}" if math.isinf(episode) else f"{episode:{comma}.0f}"


def delta_number(delta: float) -> str:
    """Return a delta, e.g. '0' or '10\u207b\u2076'."""
    return "0" if delta == 0.0 else power_text(delta) if delta < _SMALLEST_DECIMAL * 10 else f"{delta:g}"


def estimate_text(found: Estimate, digits: int = _TABLE) -> str:
    """Return an estimate with its interval if it has one, e.g. '0.0122 [0.0108, 0.0138]'."""
    ends = f" [{rounded(found.lower, digits)}, {rounded(found.upper, digits)}]" if found.has_interval else ""
    return rounded(found.value, digits) + ends


def effect_text(found: Effect) -> str:
    """Return a ratio, e.g. '58\u00d7 [45, 75]', or a difference with its sign; the interval if there is one."""
    if found.scale == "log":
        value, *ends = (rounded(x, 2 if x < _EXACT_RATIO else _TABLE) for x in found[:3])
        value += "\u00d7"
    else:
        value, *ends = ("+" * (x > 0.0) + rounded(x) for x in found[:3])
    return value if math.isnan(found.lower) else f"{value} [{', '.join(ends)}]"
