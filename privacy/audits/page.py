"""Audited page: claims, each with the proof of its noise and the attack that measures it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from dprl.privacy.accounting.closed_forms import PrivacyCurve
from dprl.privacy.audits.distinguishing_attack import Attack, Probe, measure
from dprl.privacy.audits.findings import Claim, Finding, Measurement, NoiseProof, ProbeProof, proof_of

Measure = Callable[[Attack], Measurement]


@dataclass(frozen=True)
class AuditCase:
    """Claim to be audited.

    Args:
        name: short, unique on its page.
        subject: the mechanism and its noise, in a line.
        claim: under audit.
        prove: computes the guarantee of the noise.
        measure: runs the sampler; None if sampling cannot show anything in reasonable time.
        runs: per world.
        note: further facts for a reader.
    """

    name: str
    subject: str
    claim: Claim
    prove: Callable[[], NoiseProof]
    measure: Measure | None = None
    runs: int = 100_000
    note: str = ""

    @classmethod
    def of_curve(
        cls, name: str, subject: str, claim: Claim, curve: PrivacyCurve, probe: Probe, *, exact: bool = True
    ) -> AuditCase:
        """Return the case of noise with this curve, attacked at a probe with the same curve.

        exact: whether a pair of neighbours attains the curve.
        """
        attack = partial(measure, probe, claim, ProbeProof.of(curve, claim))
        return cls(name, subject, claim, partial(proof_of, curve, claim, exact), attack)

    def audit(self, attack: Attack) -> Finding:
        """Return the finding; the case's `runs` replace those of `attack`."""
        measured = None if self.measure is None else self.measure(replace(attack, runs=self.runs))
        return Finding(self.name, self.subject, self.claim, self.prove(), measured, self.note)


def audit_page(cases: Iterable[AuditCase], seed: int = 0, alpha: float = 0.05) -> list[Finding]:
    """Return all findings; all measured bounds hold together with probability 1 - alpha."""
    page = list(cases)
    sampled = sum(case.measure is not None for case in page)
    attack = Attack(seed=seed, alpha=alpha / max(1, sampled))
    return [case.audit(attack) for case in page]


@dataclass(frozen=True)
class NumberCheck:
    """Published number that is no guarantee, beside an interval from sampling.

    low, high: hold the true one with the stated confidence.
    """

    name: str
    subject: str
    source: str
    printed: float
    low: float
    high: float
    confidence: float
    runs: int

    @property
    def holds(self) -> bool:
        """Whether the published number lies in the interval."""
        return self.low <= self.printed <= self.high

    def to_dict(self) -> dict[str, Any]:
        """Return the check as JSON-ready data."""
        return {**asdict(self), "holds": self.holds}


@dataclass(frozen=True)
class ClaimsPage:
    """Findings on published claims.

    Args:
        claims: as published. controls: of certified noise. numbers: published ones that are no guarantees.
        alpha: bound on the probability that any of the measured bounds is wrong.
        other_readings: rows that are another reading of another row's printed claim.
        repeats: rows that audit another row's claim again, with another attack or at another instance.
    """

    claims: tuple[Finding, ...]
    controls: tuple[Finding, ...]
    numbers: tuple[NumberCheck, ...]
    alpha: float
    other_readings: Mapping[str, str] = field(default_factory=dict)
    repeats: Mapping[str, str] = field(default_factory=dict)

    @property
    def distinct(self) -> tuple[Finding, ...]:
        """The published claims, each once, without other readings, repeats, and rows without a published claim."""
        once = (one for one in self.claims if one.name not in self.other_readings and one.name not in self.repeats)
        return tuple(one for one in once if math.isfinite(one.claim.epsilon) and one.source.startswith("["))

    @property
    def inconsistent(self) -> bool:
        """Whether certified noise is refuted, or more was measured than is proved, so that a proof is wrong."""
        return any(one.violated for one in self.controls) or any(one.contradicts_proof for one in self.claims)

    def to_dict(self) -> dict[str, Any]:
        """Return the page as JSON-ready data."""
        return {
            "confidence": 1.0 - self.alpha,
            "distinct_claims": [finding.name for finding in self.distinct],
            "claims": [finding.to_dict() for finding in self.claims],
            "controls": [finding.to_dict() for finding in self.controls],
            "numbers": [number.to_dict() for number in self.numbers],
        }
