"""What an audit found: the claim, what is proved, what was measured, and the verdicts that follow."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from dprl.privacy.accounting.curves import PrivacyCurve

WhiteBoxVerdict = Literal["holds", "holds_approximately", "fails", "unbounded"]
Verdict = Literal["refuted", "not refuted", "not sampled"]
Tightness = Literal["exact", "upper"]

APPROXIMATE_DELTA = 1e-6
_TOLERANCE = 1e-9
_FINITE = 1e300


@dataclass(frozen=True)
class Claim:
    """What is said about a mechanism: (epsilon, delta) for one user, and who says so."""

    epsilon: float
    delta: float = 0.0
    source: str = ""


@dataclass(frozen=True)
class Proof:
    """What its noise proves.

    Args:
        pure_epsilon: at delta 0; infinite if there is none.
        tightness: 'exact' if a pair of neighbours attains the pure epsilon, else 'upper'.
        epsilon: at the claimed delta, or at 1e-6 for a pure claim.
        delta: at the claimed epsilon.
        attained_epsilon, attained_delta: what an explicit pair of neighbours reaches, where that is less than what is
            proved; the truth lies between.
    """

    pure_epsilon: float
    tightness: Tightness
    epsilon: float
    delta: float
    attained_epsilon: float | None = None
    attained_delta: float | None = None


@dataclass(frozen=True)
class Measurement:
    """A lower bound by running the sampler at a probe: a configuration at which sampling can show something.

    Args:
        method: 'two worlds', 'one run' or 'same seeds'.
        probe: the configuration.
        claim: what the claim says there.
        proved: the epsilon proved there, at the claim's delta; infinite if there is none.
        epsilon_lb, delta_lb: the bounds; delta's at the claimed epsilon, epsilon's at the claimed delta.
        confidence: with which both hold.
        runs: per world.
    """

    method: str
    probe: str
    claim: Claim
    proved: float
    epsilon_lb: float
    delta_lb: float
    confidence: float
    runs: int

    @property
    def refutes(self) -> bool:
        """Whether the claim is false, with the stated confidence; an infinite epsilon claims nothing."""
        if math.isinf(self.claim.epsilon):
            return False
        return self.epsilon_lb > self.claim.epsilon or self.delta_lb > self.claim.delta


@dataclass(frozen=True)
class Finding:
    """One audited claim.

    Args:
        name: short, unique on its page.
        subject: the mechanism and its noise, in a line.
        claim: what is said.
        proof: what its noise proves.
        measurement: None where sampling cannot show anything.
        note: what a reader should also know.
    """

    name: str
    subject: str
    claim: Claim
    proof: Proof
    measurement: Measurement | None = None
    note: str = ""

    @property
    def source(self) -> str:
        """Who claims it."""
        return self.claim.source

    @property
    def white_box(self) -> WhiteBoxVerdict:
        """What the noise itself says of the claim."""
        claim, proof = self.claim, self.proof
        if math.isinf(proof.pure_epsilon) and proof.delta >= 1.0:
            return "unbounded"
        if proof.pure_epsilon <= claim.epsilon * (1.0 + _TOLERANCE):
            return "holds"
        if claim.delta > 0.0:
            return "holds" if proof.delta <= claim.delta * (1.0 + _TOLERANCE) else "fails"
        return "holds_approximately" if proof.delta <= APPROXIMATE_DELTA else "fails"

    @property
    def verdict(self) -> Verdict:
        """What sampling says of the claim."""
        if self.measurement is None:
            return "not sampled"
        return "refuted" if self.measurement.refutes else "not refuted"

    @property
    def violated(self) -> bool:
        """Whether the claim as stated is false, by proof or by measurement. No claim, no violation."""
        return self.verdict == "refuted" or (self.white_box != "holds" and math.isfinite(self.claim.epsilon))

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as JSON-ready data; infinity is written as the string 'inf'."""
        claim, proof, measured = self.claim, self.proof, self.measurement
        return {
            "name": self.name,
            "subject": self.subject,
            "source": claim.source,
            "claim": {"epsilon": _number(claim.epsilon), "delta": claim.delta},
            "proved": {
                "pure_epsilon": _number(proof.pure_epsilon),
                "tightness": proof.tightness,
                "epsilon": _number(proof.epsilon),
                "at_delta": claim.delta or APPROXIMATE_DELTA,
                "delta_at_claimed_epsilon": proof.delta,
                "attained_epsilon": None if proof.attained_epsilon is None else _number(proof.attained_epsilon),
                "attained_delta": proof.attained_delta,
            },
            "measured": None if measured is None else _measured(measured),
            "white_box": self.white_box,
            "verdict": self.verdict,
            "note": self.note,
        }


def proof_of(curve: PrivacyCurve, claim: Claim, exact: bool) -> Proof:
    """Return what `curve` proves, in the terms of `claim`; exact: whether a pair of neighbours attains it."""
    delta = claim.delta or APPROXIMATE_DELTA
    return Proof(
        pure_epsilon=curve.pure_epsilon,
        tightness="exact" if exact else "upper",
        epsilon=curve.epsilon(delta),
        delta=min(1.0, curve.delta(claim.epsilon)),
    )


def audit_summary(findings: Iterable[Finding]) -> dict[str, Any]:
    """Return what a run's certificate keeps of its audits (field `audit`): the most telling one, and the verdict.

    Raises ValueError if nothing was measured.
    """
    kept = list(findings)
    measured = [finding.measurement for finding in kept if finding.measurement is not None]
    if not measured:
        raise ValueError("findings must have at least one measurement, got none; a certificate says what was measured")
    telling = max(measured, key=lambda one: one.epsilon_lb - min(one.claim.epsilon, _FINITE))
    return {
        "method": telling.method,
        "runs": telling.runs,
        "alpha": 1.0 - telling.confidence,
        "confidence": telling.confidence,
        "epsilon_lb": _number(telling.epsilon_lb),
        "delta_lb": telling.delta_lb,
        "probe_config": telling.probe,
        "probe_claim": {"epsilon": _number(telling.claim.epsilon), "delta": telling.claim.delta},
        "verdict": "refuted" if any(one.refutes for one in measured) else "not refuted",
        "audits": [finding.name for finding in kept],
    }


def _measured(measured: Measurement) -> dict[str, Any]:
    return {
        "method": measured.method,
        "probe": measured.probe,
        "claim": {"epsilon": _number(measured.claim.epsilon), "delta": measured.claim.delta},
        "proved_epsilon": _number(measured.proved),
        "epsilon_lb": _number(measured.epsilon_lb),
        "delta_lb": measured.delta_lb,
        "confidence": measured.confidence,
        "runs": measured.runs,
    }


def _number(value: float) -> float | str:
    return "inf" if math.isinf(value) else value
