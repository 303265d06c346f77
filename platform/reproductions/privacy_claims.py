"""Page of all claims on privacy that the papers print, with certified noise as controls: `dprl audit --papers`."""

from __future__ import annotations

from dprl.platform.reports.audits import ClaimsPage
from dprl.platform.reproductions.claims_on_counts import count_claims, count_controls, floating_point_claim
from dprl.platform.reproductions.claims_on_messages import (
    gradient_claims,
    gram_claims,
    message_controls,
    variance_check,
)
from dprl.privacy.audits.distinguishing_attack import audit_page
from dprl.privacy.audits.findings import Finding

_ALPHA = 0.05
_VARIANCE_RUNS = 1_000_000
_ORDER = ("C", "L", "A", "M", "F")
OTHER_READINGS = {"C1'": "C1", "C2'": "C2", "L2'": "L2", "A2 k=1": "A2"}
"""Rows that are another reading of another row's printed claim."""
REPEATS = {"M2 n=10": "M2", "M4 B=5b": "M4"}
"""Rows that audit another row's claim again, with another attack or at another instance."""


def paper_claims() -> list[Finding]:
    """Return all printed claims: central, local, gradients, linear models, floating point."""
    cases = [*count_claims(), *gradient_claims(), *gram_claims(), floating_point_claim()]
    return sorted(cases, key=lambda case: (_ORDER.index(case.name[0]), case.name[1:2], case.name))


def paper_controls() -> list[Finding]:
    """Return certified noise for the same releases."""
    cases = [*count_controls(), *message_controls()]
    return sorted(cases, key=lambda case: (_ORDER.index(case.name[0]), case.name))


def audit_papers(seed: int = 0) -> ClaimsPage:
    """Return the whole page; all measured bounds hold together with 95 % confidence."""
    claims, controls = paper_claims(), paper_controls()
    checks = 1
    sampled = sum(case.attack is not None for case in (*claims, *controls)) + checks
    each = _ALPHA / sampled
    found = audit_page([*claims, *controls], seed, _ALPHA * (sampled - checks) / sampled)
    number = variance_check(_VARIANCE_RUNS, seed, each)
    shown, controlled = tuple(found[: len(claims)]), tuple(found[len(claims) :])
    return ClaimsPage(shown, controlled, (number,), _ALPHA, OTHER_READINGS, REPEATS)
