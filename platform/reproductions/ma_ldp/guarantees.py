"""What the noise that [TH23] prints proves, and what an attack finds: Tables 1 and 2 from the certificate's side."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dprl.platform.reproductions.ma_ldp.published import BOUNDED, GAUSSIAN, HORIZON, LAPLACE, TABLE_1, UNIFORM
from dprl.privacy import StatisticsLayout, Streams
from dprl.privacy.audits.findings import Finding
from dprl.privacy.audits.page import audit_page
from dprl.privacy.audits.papers_linear import DELTA, EPSILON, changed_numbers, linear_claims, mass_outside
from dprl.privacy.linear_statistics.trust_models import LocalStatisticsPrivacy
from dprl.privacy.mechanisms.bounded_laplace import BoundedLaplace
from dprl.privacy.mechanisms.gram import l1_lower, l1_upper
from dprl.privacy.mechanisms.gram_printed import printed_laplace_scale, printed_uniform_bound
from dprl.privacy.mechanisms.uniform import Uniform

EXAMPLES = ((2, 2), (10, 5))
"""n and d: the network that is run, and a larger one."""
ATTACKED = {GAUSSIAN: "M1", UNIFORM: "M3", BOUNDED: "M4"}
"""Rows of `dprl audit --papers`; Laplace's violation is too rare for any sampling."""
_REWARD_FEATURES = 3


@dataclass(frozen=True)
class Proved:
    """What printed noise proves after the clips, with known rewards, of all messages of one user.

    pure: an upper bound on epsilon at delta 0. at_delta: epsilon at delta 1e-5. delta: an upper bound at the claimed
    epsilon. least_pure, least_delta: what some pair of neighbours attains, NaN if none was looked for. verdict: the
    certificate's.
    """

    pure: float
    at_delta: float
    delta: float
    least_pure: float
    least_delta: float
    verdict: str


def proved(mechanism: str, agents: int, features: int, epsilon: float = EPSILON, bound_ratio: float = 1.0) -> Proved:
    """Return what the printed scale of a mechanism proves for that many agents of that many features."""
    layout = StatisticsLayout(HORIZON, agents * features, agents, agents, _REWARD_FEATURES)
    delta = DELTA if mechanism in (GAUSSIAN, UNIFORM) else 0.0
    config = LocalStatisticsPrivacy(
        epsilon,
        delta,
        mechanism=mechanism,
        calibration="printed",
        clipping="device",
        rewards="public",
        bound_ratio=bound_ratio,
    )
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


@dataclass(frozen=True)
class Guarantees:
    """proofs: by mechanism, n and d. attacks: by mechanism, on n = d = 2; all bounds hold together with 95 %."""

    proofs: Mapping[tuple[str, int, int], Proved]
    attacks: Mapping[str, Finding]

    @classmethod
    def found(cls, attacked: bool = True) -> Guarantees:
        """Compute the proofs and, which takes some seconds, run the attacks."""
        proofs = {(row.mechanism, *example): proved(row.mechanism, *example) for row in TABLE_1 for example in EXAMPLES}
        named = {finding.name: finding for finding in audit_page(linear_claims())} if attacked else {}
        return cls(proofs, {kind: named[name] for kind, name in ATTACKED.items() if name in named})

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        proofs = [
            {"mechanism": kind, "agents": n, "features": d, **vars(one)} for (kind, n, d), one in self.proofs.items()
        ]
        return {"proofs": proofs, "attacks": {kind: found.to_dict() for kind, found in self.attacks.items()}}
