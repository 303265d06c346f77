"""Guarantees of the noise that [TH23] prints, and attacks on it, for Tables 1 and 2."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import scipy

from dprl.platform.reports.documents.markdown import markdown_table
from dprl.platform.reproductions.claims_on_messages import DELTA, EPSILON, changed_numbers, gram_claims, mass_outside
from dprl.platform.reproductions.ma_ldp import (
    BOUNDED,
    GAUSSIAN,
    HORIZON,
    LAPLACE,
    TABLE_1,
    UNIFORM,
    Levels,
    printed_bound,
)
from dprl.platform.reproductions.tables import INFINITE, plain
from dprl.privacy import StatisticsLayout, Streams
from dprl.privacy.audits.findings import Finding
from dprl.privacy.audits.page import audit_page
from dprl.privacy.mechanisms.bounded_laplace import BoundedLaplace
from dprl.privacy.mechanisms.gram import l1_lower, l1_upper
from dprl.privacy.mechanisms.gram_laws import printed_laplace_scale, printed_uniform_bound
from dprl.privacy.mechanisms.uniform import Uniform
from dprl.privacy.trust_models.local import LocalStatisticsPrivacy

EXAMPLES = ((2, 2), (10, 5))
"""Values of (n, d): the network that is run, and a larger one."""
ATTACKED = {GAUSSIAN: "M1", UNIFORM: "M3", BOUNDED: "M4"}
"""Rows of `dprl audit --papers` by mechanism; Laplace's violation is too rare for sampling."""
_REWARD_FEATURES = 3
VERDICTS = {
    "holds": "holds",
    "holds_approximately": "**fails**; holds at \u03b4 = 1e-06",
    "fails": "**fails**",
    "unbounded": "**unbounded**",
}


class Proved(NamedTuple):
    """Guarantee of printed noise after the clips, with known rewards, for all messages of one user.

    pure: an upper bound on epsilon at delta 0. at_delta: epsilon at delta 1e-5. delta: an upper bound at the claimed
    epsilon. least_pure, least_delta: reached by some pair of neighbours, NaN if none was looked for. verdict: the
    certificate's.
    """

    pure: float
    at_delta: float
    delta: float
    least_pure: float
    least_delta: float
    verdict: str


def proved(mechanism: str, agents: int, features: int, epsilon: float = EPSILON, bound_ratio: float = 1.0) -> Proved:
    """Return the guarantee of a mechanism's printed scale for `agents` agents with `features` features each."""
    layout = StatisticsLayout(HORIZON, agents * features, agents, agents, _REWARD_FEATURES)
    delta = DELTA if mechanism in (GAUSSIAN, UNIFORM) else 0.0
    settings = {"calibration": "printed", "clipping": "device", "rewards": "public", "bound_ratio": bound_ratio}
    config = LocalStatisticsPrivacy(epsilon, delta, mechanism=mechanism, **settings)  # type: ignore[arg-type]
    certificate = config.build(layout, 1, Streams(0, "table 1")).planned_certificate("ma_ldp").to_dict()
    found = certificate["proved"]
    pure, verdict = float(found["pure_epsilon"]), str(certificate["verdict"])
    if mechanism == UNIFORM and found["delta_at_requested_epsilon"] > DELTA:
        verdict = "fails"  # the claim is on delta alone
    return Proved(
        pure=pure,
        at_delta=float(found["epsilon_at_delta"][f"{DELTA:g}"]),
        delta=float(found["delta_at_requested_epsilon"]),
        least_pure=pure * l1_lower(layout.dimension) / l1_upper(layout.dimension) if mechanism == LAPLACE else math.nan,
        least_delta=_least_delta(mechanism, layout, epsilon, bound_ratio),
        verdict=verdict,
    )


def _least_delta(mechanism: str, layout: StatisticsLayout, epsilon: float, bound_ratio: float) -> float:
    """Return the mass that only one of a pair of neighbours reaches, NaN for noise that reaches everything."""
    if mechanism == UNIFORM:
        return mass_outside(Uniform(printed_uniform_bound(HORIZON, DELTA)), changed_numbers(layout.release(True)))
    if mechanism == BOUNDED:
        scale = printed_laplace_scale(HORIZON, layout.dimension, epsilon)
        return mass_outside(BoundedLaplace(scale, bound_ratio * scale), changed_numbers(layout.release(True)))
    return math.nan


def variance_share(bound_ratio: float) -> float:
    """Return zeta over the variance 2 b^2 of Laplace noise, for B = bound_ratio b."""
    return BoundedLaplace(1.0, bound_ratio).variance / 2.0


class Guarantees(NamedTuple):
    """Proofs and attacks for Tables 1 and 2.

    proofs: by mechanism, n and d. attacks: by mechanism, on n = d = 2; all bounds hold together with 95 % confidence.
    """

    proofs: Mapping[tuple[str, int, int], Proved]
    attacks: Mapping[str, Finding]

    @classmethod
    def found(cls, attacked: bool = True) -> Guarantees:
        """Compute the proofs and, in some seconds, run the attacks."""
        proofs = {(row.mechanism, *example): proved(row.mechanism, *example) for row in TABLE_1 for example in EXAMPLES}
        cases = [case for case in gram_claims() if case.name in ATTACKED.values()] if attacked else []
        named = {finding.name: finding for finding in audit_page(cases)}
        return cls(proofs, {kind: named[name] for kind, name in ATTACKED.items() if name in named})

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        proofs = [
            {"mechanism": kind, "agents": n, "features": d, **one._asdict()}
            for (kind, n, d), one in self.proofs.items()
        ]
        return {"proofs": proofs, "attacks": {kind: found.to_dict() for kind, found in self.attacks.items()}}


def privacy_table(guarantees: Guarantees) -> str:
    """Return Table 1: the claims, and the guarantee of the same noise."""
    rows = []
    for one in TABLE_1:
        row = {"mechanism": one.name, "claimed": one.privacy, "order of regret": one.order}
        row["proved as printed"] = f"\u03b5 = {INFINITE}"
        proofs = {example: guarantees.proofs[one.mechanism, *example] for example in EXAMPLES}
        for (n, d), proof in proofs.items():
            row[f"proved after the clips, n={n} d={d}"] = _proof(one.mechanism, proof)
        row["attack on n=2 d=2"] = _attack(one.mechanism, guarantees.attacks.get(one.mechanism))
        verdicts = {n: VERDICTS[proof.verdict] for (n, _), proof in proofs.items()}
        same, *others = dict.fromkeys(verdicts.values())
        by_example = "; ".join(f"n={n}: {verdict}" for n, verdict in verdicts.items())
        rows.append({**row, "verdict after the clips": by_example if others else same})
    return markdown_table(rows, rows[0])


def _proof(mechanism: str, found: Proved) -> str:
    if mechanism == GAUSSIAN:
        return f"\u03b5 at most {plain(found.at_delta)} at \u03b4 = {DELTA:g}"
    if mechanism == LAPLACE:
        return f"pure \u03b5 {between(found.least_pure, found.pure)}"
    at = "every \u03b5" if mechanism == UNIFORM else f"\u03b5 = {EPSILON:g}"
    return f"no pure \u03b5; \u03b4 {between(found.least_delta, found.delta)} at {at}"


def between(low: float, high: float) -> str:
    """Return the text of an interval, or of its upper bound if `low` is NaN."""
    return f"at most {plain(high)}" if math.isnan(low) else f"in [{plain(low)}, {plain(high)}]"


def _attack(mechanism: str, found: Finding | None) -> str:
    if mechanism not in ATTACKED:
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
