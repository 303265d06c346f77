"""Verdicts follow from claim, proof and measurement; a certificate's summary keeps the most telling audit."""

from __future__ import annotations

import json
import math

import pytest

from dprl.privacy.accounting.curves import GaussianLoss, RandomizedResponses
from dprl.privacy.audits.findings import Claim, Finding, Measurement, Proof, audit_summary, proof_of


def measured(epsilon_lb: float, delta_lb: float = 0.0, claim: Claim | None = None) -> Measurement:
    return Measurement("two worlds", "probe", claim or Claim(1.0), 2.0, epsilon_lb, delta_lb, 0.95, 1000)


def finding(claim: Claim, proof: Proof, measurement: Measurement | None = None) -> Finding:
    return Finding("name", "subject", claim, proof, measurement)


@pytest.mark.parametrize(
    ("claim", "proof", "expected"),
    [
        (Claim(1.0), Proof(1.0, "exact", 0.9, 0.0), "holds"),
        (Claim(1.0), Proof(1.0 + 1e-12, "exact", 0.9, 0.0), "holds"),
        (Claim(1.0), Proof(2.0, "exact", 0.9, 1e-8), "holds_approximately"),
        (Claim(1.0), Proof(2.0, "exact", 1.8, 1e-3), "fails"),
        (Claim(1.0), Proof(450.0, "exact", 450.0, 1.0), "fails"),
        (Claim(1.0), Proof(math.inf, "exact", math.inf, 0.1), "fails"),
        (Claim(1.0), Proof(math.inf, "exact", math.inf, 1.0), "unbounded"),
        (Claim(1.0, 1e-5), Proof(math.inf, "exact", 1.0, 1e-5), "holds"),
        (Claim(1.0, 1e-5), Proof(math.inf, "exact", 1.1, 2e-5), "fails"),
        (Claim(0.0, 1e-5), Proof(math.inf, "exact", math.inf, 0.1), "fails"),
    ],
)
def test_the_white_box_verdict(claim: Claim, proof: Proof, expected: str) -> None:
    found = finding(claim, proof)
    assert found.white_box == expected
    assert found.verdict == "not sampled"
    assert found.violated == (expected != "holds")


def test_the_sampled_verdict() -> None:
    sound = Proof(1.0, "exact", 1.0, 0.0)
    assert finding(Claim(1.0), sound, measured(0.99)).verdict == "not refuted"
    assert finding(Claim(1.0), sound, measured(1.01)).verdict == "refuted"
    assert finding(Claim(1.0), sound, measured(0.5, delta_lb=1e-9)).verdict == "refuted"
    assert finding(Claim(1.0), sound, measured(1.01)).violated


def test_where_nothing_is_claimed_nothing_is_violated() -> None:
    nothing = Claim(math.inf)
    found = finding(nothing, Proof(math.inf, "exact", math.inf, 1.0), measured(math.inf, 1.0, nothing))
    assert (found.white_box, found.verdict, found.violated) == ("unbounded", "not refuted", False)


def test_a_proof_is_read_from_a_curve() -> None:
    proof = proof_of(RandomizedResponses(20, 0.1), Claim(1.0), exact=True)
    assert proof.pure_epsilon == pytest.approx(2.0)
    assert proof.tightness == "exact"
    assert proof.epsilon == pytest.approx(1.7886, abs=1e-4)
    assert proof.delta == pytest.approx(2.3967e-3, rel=1e-3)
    gaussian = proof_of(GaussianLoss(0.26805), Claim(1.0, 1e-5), exact=False)
    assert (gaussian.pure_epsilon, gaussian.tightness) == (math.inf, "upper")
    assert gaussian.epsilon == pytest.approx(1.0, abs=1e-4)


def test_a_finding_is_strict_json() -> None:
    found = finding(Claim(1.0), Proof(math.inf, "exact", math.inf, 1.0), measured(math.inf, 1.0))
    data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert data["proved"]["pure_epsilon"] == "inf"
    assert data["measured"]["epsilon_lb"] == "inf"
    assert (data["white_box"], data["verdict"]) == ("unbounded", "refuted")


def test_the_summary_keeps_the_most_telling_audit() -> None:
    sound = Proof(1.0, "exact", 1.0, 0.0)
    weak, strong = finding(Claim(1.0), sound, measured(0.3)), finding(Claim(1.0), sound, measured(0.9))
    summary = audit_summary([weak, strong, finding(Claim(1.0), sound)])
    assert summary["epsilon_lb"] == 0.9
    assert summary["verdict"] == "not refuted"
    assert summary["alpha"] == pytest.approx(0.05)
    assert audit_summary([weak, finding(Claim(1.0), sound, measured(0.1, delta_lb=0.1))])["verdict"] == "refuted"
    json.dumps(summary, allow_nan=False)


def test_a_summary_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^findings must have"):
        audit_summary([])
