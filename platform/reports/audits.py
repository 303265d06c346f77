"""Findings of an audit as text: a block for each cell, or a row of a table."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

from dprl.platform.errors import EXIT_DONE, EXIT_SOME_FAILED, counted
from dprl.platform.reports.number_texts import number
from dprl.platform.reports.terminal import WIDTH, facts_text
from dprl.privacy.audits.findings import Claim, Finding, Measurement, NoiseProof
from dprl.privacy.base import APPROXIMATE_DELTA

_MOST_NAMED = 5
"""Failing cells named at the end; their blocks above give the reasons."""
_WHITE_BOX = {"holds_approximately": "delta > 0"}


def block(label: str, findings: Sequence[Finding], last_bits: str | None = None) -> str:
    """Return the findings about one cell, with the verdict in the first line.

    last_bits: remark on the last bits of float64 noise.
    """
    first, claim = findings[0], findings[0].claim
    claimed = claim.source if math.isinf(claim.epsilon) else f"{_pair(claim)}, by {claim.source}"
    facts = [("noise", first.subject), ("claimed", claimed), ("proved", _proved(first))]
    facts += [("measured", _measured(each, each.measurement)) for each in findings if each.measurement is not None]
    facts += [("last bits", last_bits)] if last_bits else []
    return facts_text("\n".join(_unbroken(f"{label}: {_headline(findings)}")), facts)


def outcome(failing: Sequence[str], audited: int) -> str:
    """Return the last lines of an audit: the failing cells, and the exit code."""
    if not failing:
        return f"exit code {EXIT_DONE}: no claim fails ({audited} audited)"
    named = "; ".join(failing[:_MOST_NAMED])
    more = f"; {counted(len(failing) - _MOST_NAMED, 'other')}" if len(failing) > _MOST_NAMED else ""
    why = f"claims fail in {len(failing)} of {audited} audited, by proof or by sampling: {named}{more}"
    return "\n".join(_unbroken(f"exit code {EXIT_SOME_FAILED}: {why}"))


def _unbroken(text: str) -> list[str]:
    """Return the text as lines broken between words only."""
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _headline(findings: Sequence[Finding]) -> str:
    claim = findings[0].claim
    if math.isinf(claim.epsilon):
        return "NO PRIVACY: nothing is claimed, and what leaves shows the user's data"
    if all(finding.measurement is None for finding in findings):
        fails = ", and the proof fails" if findings[0].violated else ""
        return f"NOT SAMPLED: claimed {_pair(claim)}{fails}"
    wrong = [finding for finding in findings if finding.contradicts_proof]
    refuted = [finding for finding in findings if finding.verdict == "refuted"]
    told = f"claimed {_pair(claim)}"
    if refuted:
        also = "; the proof is wrong, too" if wrong else ""
        return f"REFUTED: {told}, measured {_bound(_strongest(refuted))}{also}"
    if wrong:
        return f"THE PROOF IS WRONG: {told}, {_against_proof(_strongest(wrong))}"
    strongest = _strongest(findings)
    measured = _bound(strongest)
    if findings[0].violated:
        return f"NOT REFUTED by sampling ({measured}), but the proof fails: {told}"
    of = "" if strongest.claim.epsilon <= claim.epsilon else f" of {_pair(strongest.claim)}, {strongest.claim.source}"
    return f"NOT REFUTED: {told}, measured {measured}{of}{limit_text(strongest)}"


def limit_text(measured: Measurement) -> str:
    """Return a remark if only more runs could raise the bound, else ''."""
    return f" (the most that {measured.runs:,} runs can show)" if measured.limited_by_runs else ""


def _against_proof(measured: Measurement) -> str:
    """Return the proved bound with the measured one that exceeds it."""
    if measured.epsilon_lb > measured.proved_epsilon:
        return f"proved {_three(measured.proved_epsilon)}, measured epsilon >= {_three(measured.epsilon_lb)}"
    return f"proved delta {_three(measured.proof.delta)}, measured delta >= {_three(measured.delta_lb)}"


def _strongest(findings: Sequence[Finding]) -> Measurement:
    """Return the measurement with the strongest bound; those without a claim are left out."""
    measured = [one.measurement for one in findings if one.measurement is not None and math.isfinite(one.claim.epsilon)]
    return max(measured, key=lambda one: (one.epsilon_lb, one.delta_lb))


def _proved(finding: Finding) -> str:
    proof = finding.proof
    if finding.white_box == "unbounded":
        return "no finite epsilon"
    pure = f"pure epsilon {_range(proof.attained_epsilon, proof.pure_epsilon)}"
    if math.isinf(proof.pure_epsilon):
        pure = "no pure epsilon"
    tight = " (exact)" if proof.tightness == "exact" and math.isfinite(proof.pure_epsilon) else ""
    return f"{pure}{tight}; {_at_a_delta(proof, finding.claim)}; the claim {_WORDS[finding.white_box]}"


_WORDS = {
    "holds": "holds",
    "holds_approximately": f"fails, but holds at delta {APPROXIMATE_DELTA:g}",
    "fails": "fails",
    "unbounded": "fails",
}


def _measured(finding: Finding, measured: Measurement) -> str:
    sure = f"{_bound(measured)}{limit_text(measured)} with {100 * measured.confidence:g} % confidence"
    at = f"{sure}; {measured.method}, {measured.runs:,} runs each, {measured.probe}"
    if math.isinf(finding.claim.epsilon):
        return f"{at}; {finding.note}"
    return f"{at}; proved for this: {number(measured.proved_epsilon)}"


def finding_row(finding: Finding) -> tuple[str, ...]:
    """Return texts for a table: name, paper, noise, claim, proof at delta 0 and above, verdict, bound and verdict."""
    source, proof, measured = finding.claim.source, finding.proof, finding.measurement
    return (
        finding.name,
        source.split(" ")[0].strip("[]") if source.startswith("[") else "",
        finding.subject,
        _pair(finding.claim),
        _range(proof.attained_epsilon, proof.pure_epsilon),
        "(inf, 1)" if finding.white_box == "unbounded" else _at_a_delta(proof, finding.claim),
        _WHITE_BOX.get(finding.white_box, finding.white_box),
        "" if measured is None else _short_bound(measured),
        _by_sampling(finding),
    )


def _by_sampling(finding: Finding) -> str:
    """Return the verdict; without a claim, whether a leak was seen."""
    if math.isfinite(finding.claim.epsilon) or finding.measurement is None:
        return finding.verdict
    return "leaks" if finding.measurement.epsilon_lb > 0.0 else "no leak seen"


def _pair(claim: Claim) -> str:
    if math.isinf(claim.epsilon):
        return "-"
    return number(claim.epsilon) if claim.delta == 0 else f"({number(claim.epsilon)}, {_small(claim.delta)})"


def _at_a_delta(proof: NoiseProof, claim: Claim) -> str:
    """Return an (epsilon, delta) that the noise gives: at a small delta, or at the claimed epsilon if there is none."""
    if math.isfinite(proof.epsilon):
        return f"({_three(proof.epsilon)}, {_small(claim.delta or APPROXIMATE_DELTA)})"
    attained = proof.attained_delta
    return f"({number(claim.epsilon)}, {_three(proof.delta) if attained is None else '>=' + _three(attained)})"


def _range(low: float | None, high: float) -> str:
    return _three(high) if low is None else f"{low:.2f}..{high:.2f}"


def _three(value: float) -> str:
    """Return a number with four digits from 1 on, three below 1 and two below 0.001; from 1000 on as an integer."""
    if 0 < value < 0.001:
        return f"{value:.1e}".replace("e-0", "e-")
    return number(value) if value >= 1000 or math.isinf(value) else f"{value:.{4 if value >= 1 else 3}g}"


def _small(delta: float) -> str:
    return f"{delta:.0e}".replace("e-0", "e-")


def _bound(measured: Measurement) -> str:
    if _is_of_delta(measured):
        return f"delta >= {measured.delta_lb:.3g}"
    return "epsilon = inf" if math.isinf(measured.epsilon_lb) else f"epsilon >= {measured.epsilon_lb:.3g}"


def _is_of_delta(measured: Measurement) -> bool:
    """Whether the bound to show is that of delta: no epsilon is claimed, or only the bound of delta refutes."""
    return measured.claim.epsilon == 0 or (measured.refutes and measured.epsilon_lb <= measured.claim.epsilon)


def _short_bound(measured: Measurement) -> str:
    if _is_of_delta(measured):
        return f"delta {measured.delta_lb:.3g}"
    return "inf" if math.isinf(measured.epsilon_lb) else f"{measured.epsilon_lb:.3f}"
