"""Certificate: the requested guarantee, the claimed one, and the guarantee that the noise of the run proves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dprl import __version__
from dprl.privacy.base import Guarantee, LedgerError, TrustModel
from dprl.privacy.certificate_json import release_in_json, sealed
from dprl.privacy.ledger import Ledger, ReleaseEvent
from dprl.privacy.mechanisms.base import IDEALISED
from dprl.privacy.several_episodes import several_episodes
from dprl.privacy.threat_models import ThreatModel
from dprl.privacy.verdicts import Tightness, Verdict, in_json, tightness_of, verdict

SCHEMA = "dprl.certificate/5"
DELTAS = (1e-5, 1e-6)
SEEDED = "seeded"
ENTROPY = {"seed": SEEDED, "os": "os"}
"""Texts for the entropy of a release, by the setting `entropy`."""

_SEED = (
    "the random seed: whoever has it can remove the noise, and two runs that share it share their noise; the generator "
    "is not cryptographic: a few messages can be enough to compute the noise of everybody, without the seed (entropy: "
    "os has a cryptographic one)"
)
_ROUNDING = "the last bits of floating-point noise: the proof is for real numbers (arithmetic: exact has none)"
OPEN_CHANNELS = (_SEED, _ROUNDING)
"""Texts for channels that noise may leave open."""


@dataclass(frozen=True)
class PrivacyRequest:
    """Requested guarantee, and the one that the source of the noise scale claims.

    Args:
        requested: the guarantee that the user asked for; None for trust model none.
        claimed: the claim that is checked; None without a claim.
        calibration: 'printed', 'certified' or 'none'.
        source: origin of the claim.
        choice: automatic choices with their reasons; '' without any.
    """

    requested: Guarantee | None
    claimed: Guarantee | None
    calibration: str
    source: str
    choice: str = ""


@dataclass(frozen=True)
class Proof:
    """Proof of the ledger about one user.

    Args:
        pure_epsilon: the proved pure epsilon over all pairs of neighbours.
        tightness: 'exact' if a pair of neighbours attains it, 'upper' if it is only an upper bound; None if infinite.
        epsilon_at_claimed_delta: the epsilon to compare with the claim, at its delta; for delta 0 the pure one.
        epsilon_at_delta: delta -> epsilon.
        delta_at_requested_epsilon: delta at the requested epsilon; None if there is none.
        method: how it was computed.
    """

    pure_epsilon: float
    tightness: Tightness | None
    epsilon_at_claimed_delta: float
    epsilon_at_delta: dict[float, float]
    delta_at_requested_epsilon: float | None
    method: str


@dataclass(frozen=True)
class Certificate:
    """A privacy certificate; `to_dict` gives the published fields."""

    algorithm: str
    trust_model: TrustModel
    request: PrivacyRequest
    proof: Proof
    threat_model: ThreatModel
    releases: tuple[ReleaseEvent, ...]
    users: int
    most_users: int
    submissions: int
    attempts: int
    users_asked_again: int
    verdict: Verdict
    factor: float | None
    details: Mapping[str, Any] = field(default_factory=dict)
    audit: dict[str, Any] | None = field(default=None)
    groups: tuple[tuple[int, ...], ...] = ()

    @property
    def claimed_epsilon(self) -> float | None:
        """The claimed epsilon, None without a claim."""
        return None if self.request.claimed is None else self.request.claimed.epsilon

    @property
    def proved_epsilon(self) -> float:
        """The proved epsilon at the claimed delta, as in summary.csv; may be infinite."""
        return self.proof.epsilon_at_claimed_delta

    @property
    def pure_epsilon(self) -> float:
        """The proved epsilon at delta = 0; may be infinite."""
        return self.proof.pure_epsilon

    @property
    def epsilon_at_delta(self) -> dict[float, float]:
        """The proved epsilon at each of DELTAS."""
        return self.proof.epsilon_at_delta

    def to_dict(self) -> dict[str, Any]:
        """Return the certificate as JSON-ready data; infinity is written as the string 'inf'."""
        request, proof = self.request, self.proof
        fields = {
            "schema": SCHEMA,
            "version": __version__,
            "algorithm": self.algorithm,
            "trust_model": self.trust_model,
            "unit": self.threat_model.unit,
            "adjacency": self.threat_model.adjacency,
            "observer": self.threat_model.observer,
            "attained_by": self.threat_model.attained_by,
            "requested": _epsilon_and_delta(request.requested),
            "claimed": {
                **_epsilon_and_delta(request.claimed),
                "source": request.source,
                "calibration": request.calibration,
            },
            "proved": {
                **{name: in_json(each) if isinstance(each, float) else each for name, each in vars(proof).items()},
                "epsilon_at_delta": {f"{d:g}": in_json(e) for d, e in proof.epsilon_at_delta.items()},
            },
            "noise": [release_in_json(release) for release in self.releases],
            "groups": [list(group) for group in self.groups] or None,
            "query": self.details.get("query"),
            "randomness": self.details.get("randomness"),
            "users": self.users,
            "most_users": self.most_users,
            "submissions": self.submissions,
            "attempts": self.attempts,
            "users_asked_again": self.users_asked_again,
            "covered_channels": list(self.threat_model.covered),
            "excluded_channels": [*self.threat_model.excluded, *_left_open(self.releases)],
            "composition": self.details.get("composition"),
            "choice": request.choice,
            "error": self.details.get("error"),
            "releases": self.details.get("releases"),
            "simulation": self.details.get("simulation", "users"),
            "assumption": self.details.get("assumption"),
            "best_available": self.details.get("best_available"),
            "episodes_per_user": several_episodes(
                self.trust_model,
                self.threat_model.adjacency,
                request.claimed,
                self.releases,
                self.submissions * self.attempts,
                self.groups,
            ),
            "verdict": self.verdict,
            "factor": None if self.factor is None else in_json(self.factor),
            "audit": self.audit,
        }
        return sealed(fields)


def certify(
    ledger: Ledger, request: PrivacyRequest, algorithm: str, details: Mapping[str, Any] | None = None
) -> Certificate:
    """Compute the certificate of a ledger; the request is only compared with the result, never trusted.

    `details`: 'query' and 'randomness', the facts from which the releases are computed; 'composition'; and facts about
    the accuracy of the same noise: 'error', 'best_available'.

    Verdicts: `holds`; `holds_approximately` if a pure claim fails but holds at delta 1e-6; `fails`; `unbounded` if
    something leaves without noise. `factor` is the proved epsilon over the claimed one, at the claimed delta.
    """
    requested, claimed, spec = request.requested, request.claimed, ledger.spec
    neighbours = spec.threat_model.adjacency
    if claimed is not None and (claimed.trust_model, claimed.adjacency) != (spec.trust_model, neighbours):
        raise LedgerError(
            f"the claim must be of the ledger's trust model and neighbours ({spec.trust_model}, {neighbours}), got "
            f"{claimed}; state the claim for this noise"
        )
    proof = Proof(
        pure_epsilon=ledger.pure_epsilon(),
        tightness=tightness_of(ledger.pure_epsilon(), ledger.attained),
        epsilon_at_claimed_delta=ledger.epsilon(0.0 if claimed is None else claimed.delta),
        epsilon_at_delta={delta: ledger.epsilon(delta) for delta in DELTAS},
        delta_at_requested_epsilon=None if requested is None else ledger.delta(requested.epsilon),
        method=f"{ledger.curve.method}; pure: {_tightness(ledger)}",
    )
    told, factor = _verdict(ledger, claimed, proof.epsilon_at_claimed_delta)
    return Certificate(
        algorithm,
        spec.trust_model,
        request,
        proof,
        spec.threat_model,
        spec.releases,
        ledger.users_charged,
        spec.users,
        spec.submissions,
        ledger.attempts,
        ledger.users_asked_again,
        told,
        factor,
        details=details or {},
        groups=spec.groups,
    )


def _verdict(ledger: Ledger, claimed: Guarantee | None, proved: float) -> tuple[Verdict, float | None]:
    if ledger.has_raw_release:
        return "unbounded", None if claimed is None else math.inf
    if claimed is None:
        raise ValueError("a request for noise must have a claim, got none; state the claimed guarantee")
    factor = proved / claimed.epsilon
    return verdict(claimed.epsilon, claimed.delta, proved, ledger.delta(claimed.epsilon), raw=False), factor


def _epsilon_and_delta(guarantee: Guarantee | None) -> dict[str, float | None]:
    if guarantee is None:
        return {"epsilon": None, "delta": 0.0}
    return {"epsilon": guarantee.epsilon, "delta": guarantee.delta}


def _tightness(ledger: Ledger) -> str:
    if math.isinf(ledger.pure_epsilon()):
        return "no finite epsilon"
    return f"attained by {ledger.spec.threat_model.attained_by}" if ledger.attained else "an upper bound"


def _left_open(releases: tuple[ReleaseEvent, ...]) -> list[str]:
    """Return the channels that the noise of this run leaves open."""
    noisy = [release for release in releases if release.mechanism is not None]
    seeded = any(release.entropy == SEEDED for release in noisy)
    idealised = any(release.mechanism.arithmetic == IDEALISED for release in noisy if release.mechanism)
    return [*([_SEED] if seeded else []), *([_ROUNDING] if idealised else [])]
