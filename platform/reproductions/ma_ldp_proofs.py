"""Guarantees of the noise that [TH23] prints, and attacks on it, for Tables 1 and 2."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import scipy

from dprl.platform.reproductions.claims_on_messages import DELTA, EPSILON, gram_claims, gram_noise, gram_proof
from dprl.platform.reproductions.ma_ldp import (
    BOUNDED,
    GAUSSIAN,
    LAPLACE,
    NAMES,
    TABLE_1,
    UNIFORM,
    Levels,
    printed_bound,
)
from dprl.platform.reproductions.tables import INFINITE, markdown_table, plain
from dprl.privacy.audits.findings import Claim, Finding, NoiseProof
from dprl.privacy.audits.page import audit_page
from dprl.privacy.mechanisms.bounded_laplace import BoundedLaplace

EXAMPLES = ((2, 2), (10, 5))
"""Values of (n, d): the network that is run, and a larger one."""
_ATTACKED = {GAUSSIAN: "M1", UNIFORM: "M3", BOUNDED: "M4"}
"""Rows of `dprl audit --papers` by mechanism; Laplace's violation is too rare for sampling."""
VERDICTS = {
    "holds": "holds",
    "holds_approximately": "**fails**; holds at \u03b4 = 1e-06",
    "fails": "**fails**",
    "unbounded": "**unbounded**",
}


@lru_cache
def proved(mechanism: str, agents: int, features: int, epsilon: float = EPSILON, ratio: float = 1.0) -> Finding:
    """Return the claim on a mechanism of printed scale after the clips, with known rewards, and its proof.

    agents, features: numbers of agents, and of features of each. ratio: B / b of bounded Laplace noise.
    """
    claim = Claim(0.0 if mechanism == UNIFORM else epsilon, DELTA if mechanism in (GAUSSIAN, UNIFORM) else 0.0)
    proof = gram_proof(gram_noise(mechanism, agents, features, epsilon, ratio), claim)
    return Finding(mechanism, "", claim, proof)


def variance_share(bound_ratio: float) -> float:
    """Return zeta over the variance 2 b^2 of Laplace noise, for B = bound_ratio b."""
    return BoundedLaplace(1.0, bound_ratio).variance / 2.0


def attacked() -> dict[str, Finding]:
    """Return attacks on n = d = 2 by mechanism, in some seconds; all bounds hold together with 95 % confidence."""
    named = {each.name: each for each in audit_page(case for case in gram_claims() if case.name in _ATTACKED.values())}
    return {mechanism: named[name] for mechanism, name in _ATTACKED.items()}


def guarantee_data(attacks: Mapping[str, Finding]) -> dict[str, Any]:
    """Return proofs and attacks as plain data."""
    proofs = []
    for mechanism, (n, d) in itertools.product(NAMES, EXAMPLES):
        one = proved(mechanism, n, d)
        row = {
            "mechanism": mechanism,
            "agents": n,
            "features": d,
            "pure": one.proof.pure_epsilon,
            "at_delta": gram_noise(mechanism, n, d).curve().epsilon(DELTA),
            "delta": one.proof.delta,
            "least_pure": _or_nan(one.proof.attained_epsilon),
            "least_delta": _or_nan(one.proof.attained_delta),
            "verdict": one.white_box,
        }
        proofs.append(row)
    return {"proofs": proofs, "attacks": {mechanism: found.to_dict() for mechanism, found in attacks.items()}}


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def privacy_table(attacks: Mapping[str, Finding]) -> str:
    """Return Table 1: the claims, and the guarantee of the same noise."""
    rows = []
    for one in TABLE_1:
        row = {"mechanism": one.name, "claimed": one.privacy, "order of regret": one.order}
        row["proved as printed"] = f"\u03b5 = {INFINITE}"
        proofs = {example: proved(one.mechanism, *example) for example in EXAMPLES}
        for (n, d), finding in proofs.items():
            row[f"proved after the clips, n={n} d={d}"] = _proof(one.mechanism, finding.proof)
        row["attack on n=2 d=2"] = _attack(one.mechanism, attacks.get(one.mechanism))
        verdicts = {n: VERDICTS[finding.white_box] for (n, _), finding in proofs.items()}
        same, *others = dict.fromkeys(verdicts.values())
        by_example = "; ".join(f"n={n}: {verdict}" for n, verdict in verdicts.items())
        rows.append({**row, "verdict after the clips": by_example if others else same})
    return markdown_table(rows, rows[0])


def _proof(mechanism: str, found: NoiseProof) -> str:
    if mechanism == GAUSSIAN:
        return f"\u03b5 at most {plain(found.epsilon)} at \u03b4 = {DELTA:g}"
    if mechanism == LAPLACE:
        return f"pure \u03b5 {between(found.attained_epsilon, found.pure_epsilon)}"
    at = "every \u03b5" if mechanism == UNIFORM else f"\u03b5 = {EPSILON:g}"
    return f"no pure \u03b5; \u03b4 {between(found.attained_delta, found.delta)} at {at}"


def between(low: float | None, high: float) -> str:
    """Return the text of an interval, or of its upper bound without `low`."""
    return f"at most {plain(high)}" if low is None else f"in [{plain(low)}, {plain(high)}]"


def _attack(mechanism: str, found: Finding | None) -> str:
    if mechanism not in _ATTACKED:
        return "too rare to sample"
    if found is None or found.measurement is None:
        return "not run"
    if not found.measurement.refutes:
        return f"{found.name}: not refuted"
    return f"{found.name}: \u03b4 at least {plain(found.measurement.delta_lb)} at \u03b5 = {found.claim.epsilon:g}"


def episodes_needed(mechanism: str, epsilon: float, levels: Levels, episodes: int) -> float:
    """Return the least K at which the printed bound, with 1 for its constants, is below the regret of the worst policy.

    levels: for K = `episodes`, from which those for other K follow.
    """

    def excess(logarithm: float) -> float:
        k = math.exp(logarithm)
        return math.log(printed_bound(mechanism, epsilon, k)) - math.log(levels.worst / episodes * k)

    return math.exp(float(scipy.optimize.brentq(excess, math.log(2.0), math.log(1e60))))
