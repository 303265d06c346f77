"""Every claim that the four papers print, audited on one page, with certified noise as controls."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from dprl.privacy.audits.findings import Finding
from dprl.privacy.audits.page import Entry, audit_page
from dprl.privacy.audits.papers_gradients import gradient_claims, gradient_controls
from dprl.privacy.audits.papers_linear import NumberCheck, linear_claims, linear_controls, variance_check
from dprl.privacy.audits.papers_tabular import floating_point_claim, tabular_claims, tabular_controls
from dprl.privacy.audits.specimens import specimens
from dprl.privacy.audits.two_worlds import Attack

ALPHA = 0.05
_VARIANCE_RUNS = 1_000_000
_ORDER = ("C", "L", "A", "M", "F")
OTHER_READINGS = {"C1'": "C1", "C2'": "C2", "L2'": "L2", "A2 k=1": "A2"}
"""Rows that read the print of another row's claim in another way."""
REPEATS = {"L1 run": "L1", "M2 n=10": "M2", "M4 B=5b": "M4"}
"""Rows that audit another row's claim again, with another attack or at another instance."""


@dataclass(frozen=True)
class PapersPage:
    """What was found.

    Args:
        claims: of the papers. controls: of certified noise. numbers: printed numbers that are no guarantees.
        alpha: the probability that any of the measured bounds is wrong is at most this.
    """

    claims: tuple[Finding, ...]
    controls: tuple[Finding, ...]
    numbers: tuple[NumberCheck, ...]
    alpha: float

    @property
    def distinct(self) -> tuple[Finding, ...]:
        """The papers' claims, each once: no other readings, no repeats, nothing unclaimed, nothing of no paper."""
        once = (one for one in self.claims if one.name not in OTHER_READINGS and one.name not in REPEATS)
        return tuple(one for one in once if math.isfinite(one.claim.epsilon) and one.source.startswith("["))

    @property
    def inconsistent(self) -> bool:
        """Whether certified noise is refuted, or more was measured than is proved: then the proofs are wrong."""
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


def paper_claims() -> list[Entry]:
    """Return all printed claims: central, local, gradients, linear models, floating point."""
    entries = [*tabular_claims(), *gradient_claims(), *linear_claims(), *specimens(), floating_point_claim()]
    return sorted(entries, key=lambda entry: (_ORDER.index(entry.name[0]), entry.name[1:2], entry.name))


def paper_controls() -> list[Entry]:
    """Return certified noise for the same releases."""
    entries = [*tabular_controls(), *gradient_controls(), *linear_controls()]
    return sorted(entries, key=lambda entry: (_ORDER.index(entry.name[0]), entry.name))


def audit_papers(seed: int = 0, alpha: float = ALPHA) -> PapersPage:
    """Return the whole page; all measured bounds hold together with probability 1 - alpha."""
    claims, controls = paper_claims(), paper_controls()
    checks = 1
    sampled = sum(entry.measure is not None for entry in (*claims, *controls)) + checks
    each = alpha / sampled
    found = audit_page([*claims, *controls], seed, alpha * (sampled - checks) / sampled)
    number = variance_check(Attack(_VARIANCE_RUNS, seed, each))
    return PapersPage(tuple(found[: len(claims)]), tuple(found[len(claims) :]), (number,), alpha)
