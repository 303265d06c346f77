"""What a certificate says, for a table, for a title, in a line; read from its published JSON form."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

_CALIBRATIONS = {"printed": "noise as printed", "certified": "certified noise"}


def number(value: float) -> str:
    """Return a number with four significant digits, or its whole part if that is longer."""
    if math.isinf(value):
        return "inf"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def proved_epsilon(certificate: Mapping[str, Any]) -> float:
    """Return the epsilon that is proved at the claimed delta: the pure one where delta is 0 or nothing is claimed."""
    return float(certificate["proved"]["epsilon_at_claimed_delta"])


def privacy_columns(certificate: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a summary shows of a certificate; infinity is float inf."""
    claimed, proved = certificate["claimed"], certificate["proved"]
    return {
        "claimed_epsilon": claimed["epsilon"],
        "claimed_delta": claimed["delta"],
        "proved_epsilon": proved_epsilon(certificate),
        "proved_pure_epsilon": float(proved["pure_epsilon"]),
        **{f"epsilon_at_{delta}": float(epsilon) for delta, epsilon in proved["epsilon_at_delta"].items()},
        "verdict": certificate["verdict"],
        "factor": None if certificate["factor"] is None else float(certificate["factor"]),
    }


def privacy_text(certificate: Mapping[str, Any]) -> str:
    """Return the trust model and what is proved for it; a claim that fails is only named as failing."""
    model, claimed = certificate["trust_model"], certificate["claimed"]
    if certificate["verdict"] == "unbounded":
        return (
            "no privacy (\u03b5 = \u221e)" if model == "none" else f"{model}: released without noise (\u03b5 = \u221e)"
        )
    at = f" at \u03b4 = {claimed['delta']:g}" if claimed["delta"] else ""
    text = f"{model}, proved \u03b5 = {number(proved_epsilon(certificate))}{at}"
    return text if certificate["verdict"] == "holds" else f"{text} (the claim of {number(claimed['epsilon'])} fails)"


def verdict_line(certificate: Mapping[str, Any]) -> str:
    """Return the certificate in one line, the verdict first."""
    verdict, claimed = certificate["verdict"], certificate["claimed"]
    if verdict == "unbounded":
        return "NO PRIVACY: something is released without noise, epsilon is infinite"
    noise = _CALIBRATIONS.get(claimed["calibration"], claimed["calibration"])
    at = f" at delta {claimed['delta']:g}" if claimed["delta"] else ""
    told = f"{noise} proves {number(proved_epsilon(certificate))}{at}, claimed {number(claimed['epsilon'])}"
    if verdict == "holds":
        return f"HOLDS: {told}"
    told += f" (factor {number(float(certificate['factor']))})"
    if verdict == "fails":
        return f"FAILS: {told}"
    approximate = certificate["proved"]["epsilon_at_delta"]
    smallest = min(approximate, key=float)
    return f"FAILS as a pure claim: {told}; it proves {number(float(approximate[smallest]))} at delta {smallest}"
