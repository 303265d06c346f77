"""Small parts of pages: numbers with intervals, names in the colours of figures, badges of claims."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from dprl.platform.reports.documents.blocks import beside, styled
from dprl.platform.reports.verdicts import ONLY_WITH_DELTA
from dprl.platform.results.summary import standing

BADGES = {
    "holds": ("\u2713 holds", "The noise certifies the claimed \u03b5 at the claimed \u03b4."),
    "delta": (
        f"\u25d0 holds {ONLY_WITH_DELTA}".replace("delta", "\u03b4"),
        "The claim of pure privacy fails; the same \u03b5 holds at \u03b4 = 10\u207b\u2076.",
    ),
    "fails": ("\u2717 FAILS", "The noise certifies only a larger \u03b5."),
    "nothing": ("\u2298 NO PRIVACY", "The noise certifies no finite \u03b5, although the cell claims one."),
    "refuted": ("\u26a0 REFUTED", "An audit has measured a larger \u03b5 than the claimed or the certified one."),
    "reference": ("\u25cb NO PRIVACY", "Run without noise, for comparison."),
}
"""Words and meanings of verdicts on claims, in the order of a page; they differ in more than colour."""


def badge_of(certificate: Mapping[str, Any]) -> str:
    """Return the key of the badge of a certificate."""
    stands = standing(certificate)
    if stands.refuted:
        return "refuted"
    if certificate["claimed"]["epsilon"] is None:
        return "reference"
    if math.isinf(stands.proved):
        return "nothing"
    return {"holds": "holds", "holds_approximately": "delta"}.get(stands.verdict, "fails")


def badge(key: str) -> Markup:
    """Return the badge of a verdict."""
    return styled(BADGES[key][0], "span", f"badge {key}")


def with_grey_interval(text: str) -> Markup:
    """Return a number with its interval '[a, b]' in grey."""
    value, bracket, rest = text.partition(" [")
    interval, _, after = rest.partition("]")
    return beside(value, styled(f"[{interval}]", "span", "iv") if bracket else "", after.strip())
