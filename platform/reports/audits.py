"""Findings of an audit as text: a block for each cell, or a row of a table."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Sequence

from dprl.platform.errors import EXIT_DONE, EXIT_SOME_FAILED, first_of
from dprl.platform.reports.number_texts import number
from dprl.platform.reports.templates import sentence
from dprl.platform.reports.terminal import WIDTH, facts_text
from dprl.privacy.audits.findings import Claim, Finding, Measurement, NoiseProof
from dprl.privacy.base import APPROXIMATE_DELTA

_MOST_NAMED = 5  # failing cells named at the end; their blocks above give the reasons
_WHITE_BOX = {
    "holds": ("holds", "holds"),
    "holds_approximately": ("delta > 0", f"fails, but holds at delta {APPROXIMATE_DELTA:g}"),
    "fails": ("fails", "fails"),
    "unbounded": ("unbounded", "fails"),
}
"""Words for the verdict of the proof on a claim: in tables, and in full."""


def block(label: str, findings: Sequence[Finding], last_bits: str | None = None) -> str:
    """Return the findings about one cell, with the verdict in the first line.

    last_bits: remark on the last bits of float64 noise.
    """
    first, claim = findings[0], findings[0].claim
    source = claim.source if math.isinf(claim.epsilon) else f"{_pair(claim)}, by {claim.source}"
    pure = first.proof.pure_epsilon
    proved = sentence(
        "audit_proof",
        nothing=first.white_box == "unbounded",
        pure="" if math.isinf(pure) else _range(first.proof.attained_epsilon, pure),
        exact=first.proof.tightness == "exact",
        at_delta=_at_a_delta(first.proof, claim),
        verdict=_WHITE_BOX[first.white_box][1],
    )
    facts = [("noise", first.subject), ("claimed", source), ("proved", proved)]
    for finding in findings:
        if (found := finding.measurement) is not None:
            proved = f"proved for this: {number(found.proved_epsilon)}"
            note = finding.note if math.isinf(finding.claim.epsilon) else proved
            told = sentence("audit_measurement", found, _bound_text(found), limit_text(found), note)
            facts.append(("measured", told))
    facts += [("last bits", last_bits)] if last_bits else []
    return facts_text(_unbroken(f"{label}: {_headline(findings)}"), facts)


def _headline(findings: Sequence[Finding]) -> str:
    """Return the verdict with the measurement that decides: that with the largest bounds."""
    claim = findings[0].claim
    known = [one.measurement for one in findings if one.measurement is not None and math.isfinite(one.claim.epsilon)]
    refuting, wrong = [one for one in known if one.refutes], [one for one in known if one.contradicts_proof]
    verdict = "REFUTED" if refuting else "THE PROOF IS WRONG" if wrong else "NOT REFUTED" if known else "NOT SAMPLED"
    found = max(refuting or wrong or known, key=lambda one: (one.epsilon_lb, one.delta_lb), default=None)
    told = ""
    if found is not None:
        of = f" of {_pair(found.claim)}, {found.claim.source}" if found.claim.epsilon > claim.epsilon else ""
        told = f"{_bound_text(found)}{of}{limit_text(found)}"
    return sentence(
        "audit_line",
        verdict="NO PRIVACY" if math.isinf(claim.epsilon) else verdict,
        claimed=_pair(claim),
        measured=told,
        wrong=bool(wrong),
        fails=findings[0].white_box != "holds",
    )


def outcome(failing: Sequence[str], audited: int) -> str:
    """Return the last lines of an audit: the failing cells, and the exit code."""
    if not failing:
        return f"exit code {EXIT_DONE}: no claim fails ({audited} audited)"
    why = f"claims fail in {len(failing)} of {audited} audited, by proof or by sampling"
    return _unbroken(f"exit code {EXIT_SOME_FAILED}: {why}: {'; '.join(first_of(failing, _MOST_NAMED))}")


def _unbroken(text: str) -> str:
    """Return the text as lines broken between words only."""
    return textwrap.fill(text, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def limit_text(measured: Measurement) -> str:
    """Return a remark if only more runs could raise the bound, else ''."""
    return f" (the most that {measured.runs:,} runs can show)" if measured.limited_by_runs else ""


def finding_row(finding: Finding) -> tuple[str, ...]:
    """Return texts for a table: name, paper, noise, claim, proof at delta 0 and above, verdict, bound and verdict."""
    source, proof, measured = finding.claim.source, finding.proof, finding.measurement
    sampled: str = finding.verdict
    if measured is not None and math.isinf(finding.claim.epsilon):  # without a claim, whether a leak was seen
        sampled = "leaks" if measured.epsilon_lb > 0.0 else "no leak seen"
    return (
        finding.name,
        source.split(" ")[0].strip("[]") if source.startswith("[") else "",
        finding.subject,
        _pair(finding.claim),
        _range(proof.attained_epsilon, proof.pure_epsilon),
        "(inf, 1)" if finding.white_box == "unbounded" else _at_a_delta(proof, finding.claim),
        _WHITE_BOX[finding.white_box][0],
        "" if measured is None else re.sub("epsilon |>?= ", "", _bound_text(measured)),
        sampled,
    )


def _pair(claim: Claim) -> str:
    if math.isinf(claim.epsilon):
        return "-"
    return number(claim.epsilon) if claim.delta == 0 else f"({number(claim.epsilon)}, {claim.delta:g})"


def _at_a_delta(proof: NoiseProof, claim: Claim) -> str:
    """Return an (epsilon, delta) that the noise gives: at a small delta, or at the claimed epsilon if there is none."""
    if math.isfinite(proof.epsilon):
        return f"({proof.epsilon:.3g}, {claim.delta or APPROXIMATE_DELTA:g})"
    attained = proof.attained_delta
    return f"({number(claim.epsilon)}, {f'{proof.delta:.3g}' if attained is None else f'>={attained:.3g}'})"


def _range(low: float | None, high: float) -> str:
    return number(high) if low is None else f"{low:.2f}..{high:.2f}"


def _bound_text(measured: Measurement) -> str:
    """Return the bound on epsilon, or on delta if no epsilon is claimed, or if only it refutes something."""
    epsilon = measured.epsilon_lb
    most = measured.claim.epsilon if measured.refutes else measured.proved_epsilon
    refutes = measured.refutes or measured.contradicts_proof
    if measured.claim.epsilon == 0 or (refutes and epsilon <= most):
        return f"delta >= {measured.delta_lb:.3g}"
    return "epsilon = inf" if math.isinf(epsilon) else f"epsilon >= {epsilon:.3g}"
