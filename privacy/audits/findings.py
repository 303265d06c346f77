"""Findings of audits: claim, proof, measurement, and the verdicts that follow."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from dprl.privacy.accounting.closed_forms import PrivacyCurve
from dprl.privacy.base import APPROXIMATE_DELTA, Tightness, Verdict, in_json, verdict

SampledVerdict = Literal["refuted", "not refuted", "not sampled"]

_TOLERANCE = 1e-9
_NEAR_THE_MOST = 0.98
_FINITE = 1e300


@dataclass(frozen=True)
class Claim:
    """Claim on a mechanism: (epsilon, delta) for one user, and its source."""

    epsilon: float
    delta: float = 0.0
    source: str = ""


@dataclass(frozen=True)
class NoiseProof:
    """Guarantee of the noise, in the terms of a claim.

    Args:
        pure_epsilon: at delta 0; infinite if there is none.
        tightness: 'exact' if a pair of neighbours attains the pure epsilon, else 'upper'; None for an infinite one.
        epsilon: at the claimed delta, or at 1e-6 for a pure claim.
        delta: at the claimed epsilon.
        attained_epsilon, attained_delta: attained by an explicit pair of neighbours, if less than proved; the true
            values lie between.
        raw: whether something leaves without noise.
    """

    pure_epsilon: float
    tightness: Tightness | None
    epsilon: float
    delta: float
    attained_epsilon: float | None = None
    attained_delta: float | None = None
    raw: bool = False

    def epsilon_for(self, claim: Claim) -> float:
        """Return the epsilon at the claim's own delta, so the pure one for a pure claim."""
        return self.epsilon if claim.delta > 0.0 else self.pure_epsilon


NOTHING_PROVED = NoiseProof(math.inf, None, math.inf, 1.0)


@dataclass(frozen=True)
class Measurement:
    """Lower bound by running the sampler at a probe: a configuration with a loss that sampling can show.

    Args:
        method: 'two worlds', or 'same seeds' for a message without noise. probe: the configuration.
        claim: restricted to the probe. proof: the guarantee of the noise there.
        epsilon_lb, delta_lb: the bounds: epsilon at the claimed delta, delta at the claimed epsilon.
        confidence: of both together. runs: per world.
        largest_epsilon_lb: epsilon_lb if no run were ambiguous; infinite if nothing limits it.
    """

    method: str
    probe: str
    claim: Claim
    proof: NoiseProof
    epsilon_lb: float
    delta_lb: float
    confidence: float
    runs: int
    largest_epsilon_lb: float = math.inf

    @property
    def proved_epsilon(self) -> float:
        """The epsilon that is proved there at the claimed delta; infinite if there is none."""
        return self.proof.epsilon_for(self.claim)

    @property
    def limited_by_runs(self) -> bool:
        """Whether epsilon_lb is within 2 % of the largest that these runs can show, so epsilon may be larger."""
        return math.isfinite(self.largest_epsilon_lb) and self.epsilon_lb >= _NEAR_THE_MOST * self.largest_epsilon_lb

    @property
    def refutes(self) -> bool:
        """Whether the claim is false, with the stated confidence; an infinite epsilon claims nothing."""
        if math.isinf(self.claim.epsilon):
            return False
        return self.epsilon_lb > self.claim.epsilon or self.delta_lb > self.claim.delta

    @property
    def contradicts_proof(self) -> bool:
        """Whether more was measured than is proved: then the proof is wrong, with the stated confidence."""
        most = 1.0 + _TOLERANCE
        return self.epsilon_lb > self.proved_epsilon * most or self.delta_lb > self.proof.delta * most


Attack = Callable[..., Measurement]
"""An attack as a function of `runs`, `seed` and `alpha`, see `distinguishing_attack.measure`."""


@dataclass(frozen=True)
class Finding:
    """One claim under audit, with the proof on its noise and, once it has run, the attack.

    Args:
        name: short, unique on its page. subject: the mechanism and its noise, in a line.
        claim: under audit. proof: the guarantee of its noise. note: further facts for a reader.
        measurement: of the attack; None before it has run, and without one.
        attack: runs the sampler; None if sampling cannot show anything in reasonable time. runs: per world.
    """

    name: str
    subject: str
    claim: Claim
    proof: NoiseProof
    measurement: Measurement | None = None
    note: str = ""
    attack: Attack | None = field(default=None, repr=False, compare=False)
    runs: int = 100_000

    def audit(self, seed: int, alpha: float) -> Finding:
        """Return the finding with its measurement; the measured bounds hold with probability 1 - alpha."""
        if self.attack is None:
            return self
        return replace(self, measurement=self.attack(runs=self.runs, seed=seed, alpha=alpha))

    @property
    def white_box(self) -> Verdict:
        """Verdict of the noise itself on the claim, by the rule of certificates."""
        claim, proof = self.claim, self.proof
        return verdict(claim.epsilon, claim.delta, proof.epsilon_for(claim), proof.delta, proof.raw)

    @property
    def verdict(self) -> SampledVerdict:
        """Verdict of sampling on the claim."""
        if self.measurement is None:
            return "not sampled"
        return "refuted" if self.measurement.refutes else "not refuted"

    @property
    def contradicts_proof(self) -> bool:
        """Whether more was measured than is proved."""
        return self.measurement is not None and self.measurement.contradicts_proof

    @property
    def violated(self) -> bool:
        """Whether the claim as stated is false, by proof or by measurement, or the proof itself is.

        Without a claim, only the proof can be false.
        """
        if self.contradicts_proof or self.verdict == "refuted":
            return True
        return self.white_box != "holds" and math.isfinite(self.claim.epsilon)

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as JSON-ready data; infinity is written as the string 'inf'."""
        claim, proof, measured = self.claim, self.proof, self.measurement
        return {
            "name": self.name,
            "subject": self.subject,
            "source": claim.source,
            "claim": {"epsilon": in_json(claim.epsilon), "delta": claim.delta},
            "proved": {
                "pure_epsilon": in_json(proof.pure_epsilon),
                "tightness": proof.tightness,
                "epsilon": in_json(proof.epsilon),
                "at_delta": claim.delta or APPROXIMATE_DELTA,
                "delta_at_claimed_epsilon": proof.delta,
                "attained_epsilon": None if proof.attained_epsilon is None else in_json(proof.attained_epsilon),
                "attained_delta": proof.attained_delta,
            },
            "measured": None
            if measured is None
            else {
                "method": measured.method,
                "probe": measured.probe,
                "claim": {"epsilon": in_json(measured.claim.epsilon), "delta": measured.claim.delta},
                "proved_epsilon": in_json(measured.proved_epsilon),
                "proved_delta": measured.proof.delta,
                "epsilon_lb": in_json(measured.epsilon_lb),
                "largest_epsilon_lb": in_json(measured.largest_epsilon_lb),
                "delta_lb": measured.delta_lb,
                "confidence": measured.confidence,
                "runs": measured.runs,
            },
            "white_box": self.white_box,
            "verdict": self.verdict,
            "contradicts_proof": self.contradicts_proof,
            "note": self.note,
        }


def proof_of(curve: PrivacyCurve, claim: Claim, exact: bool = True, raw: bool = False) -> NoiseProof:
    """Return the guarantee of `curve`, in the terms of `claim`.

    exact: whether a pair of neighbours attains it; raw: whether something leaves without noise.
    """
    delta = claim.delta or APPROXIMATE_DELTA
    return NoiseProof(
        pure_epsilon=curve.pure_epsilon,
        tightness=None if math.isinf(curve.pure_epsilon) else "exact" if exact else "upper",
        epsilon=curve.epsilon(delta),
        delta=min(1.0, curve.delta(claim.epsilon)),
        raw=raw,
    )


def audit_summary(findings: Iterable[Finding]) -> dict[str, Any]:
    """Return the field `audit` of a run's certificate: the strongest measurement, and the verdict.

    The verdict is 'not sampled' if nothing was measured.
    """
    kept = list(findings)
    measured = [finding.measurement for finding in kept if finding.measurement is not None]
    if not measured:
        return {"verdict": "not sampled", "note": "there is no noise, or no attack on it"}
    telling = max(measured, key=lambda one: one.epsilon_lb - min(one.claim.epsilon, _FINITE))
    return {
        "method": telling.method,
        "runs": telling.runs,
        "confidence": telling.confidence,
        "epsilon_lb": in_json(telling.epsilon_lb),
        "delta_lb": telling.delta_lb,
        "probe_config": telling.probe,
        "probe_claim": {"epsilon": in_json(telling.claim.epsilon), "delta": telling.claim.delta},
        "verdict": "refuted" if any(one.refutes for one in measured) else "not refuted",
        "contradicts_proof": any(one.contradicts_proof for one in measured),
        "audits": [finding.name for finding in kept],
    }
