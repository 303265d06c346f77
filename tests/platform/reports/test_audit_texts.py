"""The findings of an audit in words: measurement, claim and verdict."""

from __future__ import annotations

import math

import pytest

from dprl.platform.reports.audits import block, outcome
from dprl.privacy.audits.findings import Claim, Finding, Measurement, NoiseProof

PURE, APPROXIMATE = Claim(1.0, 0.0, "a paper"), Claim(1.0, 1e-6, "a paper")
HOLDS = NoiseProof(1.0, "exact", 0.8, 0.0)


def told(
    claim: Claim = PURE,
    bounds: tuple[float, float] = (0.5, 0.0),
    proved: tuple[float, float] = (1.0, 0.0),
    proof: NoiseProof = HOLDS,
    largest: float = math.inf,
) -> list[str]:
    """The lines on one finding. bounds: those measured, of epsilon and delta. proved: at the probe."""
    measured = Measurement(
        "two worlds", "one count", claim, NoiseProof(proved[0], None, *proved), *bounds, 0.95, 3000, largest
    )
    return block("cell", [Finding("one", "laplace noise", claim, proof, measured)]).splitlines()


@pytest.mark.parametrize(
    ("claim", "bounds", "proved", "first"),
    [
        (PURE, (0.5, 0.0), (1.0, 0.0), "NOT REFUTED: claimed 1, measured epsilon >= 0.5"),
        (PURE, (1.5, 0.0), (2.0, 0.0), "REFUTED: claimed 1, measured epsilon >= 1.5"),
        (PURE, (1.5, 0.0), (1.0, 0.0), "REFUTED: claimed 1, measured epsilon >= 1.5; the proof is wrong"),
        (PURE, (math.inf, 0.1), (math.inf, 1.0), "REFUTED: claimed 1, measured epsilon = inf"),
        (PURE, (0.5, 0.0), (0.3, 0.0), "THE PROOF IS WRONG: claimed 1, measured epsilon >= 0.5; the proof is wrong"),
        (APPROXIMATE, (0.5, 0.25), (3.0, 0.3), "REFUTED: claimed (1, 1e-06), measured delta >= 0.25"),
        (
            APPROXIMATE,
            (0.2, 1e-6),
            (1.0, 1e-7),
            "THE PROOF IS WRONG: claimed (1, 1e-06), measured delta >= 1e-06; the proof is wrong",
        ),
        (Claim(0.0, 0.1), (0.0, 0.05), (0.0, 0.1), "NOT REFUTED: claimed (0, 0.1), measured delta >= 0.05"),
        (
            Claim(math.inf),
            (math.inf, 1.0),
            (math.inf, 1.0),
            "NO PRIVACY: nothing is claimed, and what leaves shows the user's data",
        ),
    ],
)
def test_the_first_line_has_the_bound_that_decides(
    claim: Claim, bounds: tuple[float, float], proved: tuple[float, float], first: str
) -> None:
    assert told(claim, bounds, proved)[0] == f"cell: {first}"


@pytest.mark.parametrize(
    ("proof", "text"),
    [
        (HOLDS, "pure epsilon 1 (exact); (0.8, 1e-06); the claim holds"),
        (
            NoiseProof(2.0, "upper", 1.9, 0.0),
            "pure epsilon 2; (1.9, 1e-06); the claim fails, but holds at delta 1e-06",
        ),
        (NoiseProof(3.0, "upper", 2.0, 0.1, 2.5), "pure epsilon 2.50..3.00; (2, 1e-06); the claim fails"),
        (
            NoiseProof(1234.5, "exact", 0.0005, 0.0),
            "pure epsilon 1234 (exact); (0.0005, 1e-06); the claim fails, but holds at delta 1e-06",
        ),
        (NoiseProof(math.inf, None, math.inf, 0.2), "no pure epsilon; (1, 0.2); the claim fails"),
        (NoiseProof(math.inf, None, math.inf, 0.2, None, 0.1), "no pure epsilon; (1, >=0.1); the claim fails"),
        (NoiseProof(math.inf, None, math.inf, 1.0, raw=True), "no finite epsilon"),
    ],
)
def test_the_proof_is_told_with_the_verdict_on_the_claim(proof: NoiseProof, text: str) -> None:
    lines = told(proof=proof)
    assert lines[1:4] == ["  noise       laplace noise", "  claimed     1, by a paper", f"  proved      {text}"]
    assert ("; the proof fails" in lines[0]) == ("the claim holds" not in text)


@pytest.mark.parametrize(("failing", "named"), [("abcde", "a; b; c; d; e"), ("abcdef", "a; b; c; d; e; and 1 more")])
def test_the_last_line_names_what_fails(failing: str, named: str) -> None:
    why = f"claims fail in {len(failing)} of 9 audited, by proof or by sampling"
    assert outcome(failing, 9) == f"exit code 1: {why}: {named}"
    assert outcome([], 9) == "exit code 0: no claim fails (9 audited)"
