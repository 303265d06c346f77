"""Verdicts follow from claim, proof and measurement; a certificate's summary keeps the most informative audit."""

from __future__ import annotations

import json
import math

import pytest

from dprl.privacy import CountFamilies, CountFamily, Privatizer, Streams
from dprl.privacy.accounting.closed_forms import GaussianDP, RandomizedResponses
from dprl.privacy.audits.findings import (
    NOTHING_PROVED,
    Claim,
    Finding,
    Measurement,
    NoiseProof,
    audit_summary,
    proof_of,
)
from dprl.privacy.base import Guarantee
from dprl.privacy.counters import ExactCounter
from dprl.privacy.mechanisms.base import Mechanism
from dprl.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.queries.count_layout import CountEncoding
from dprl.privacy.queries.counts import CountQuery
from tests.privacy.by_hand import design_of

PROVED = NoiseProof(2.0, None, 2.0, 0.2)


def measured(epsilon_lb: float, delta_lb: float = 0.0, claim: Claim | None = None) -> Measurement:
    return Measurement("two worlds", "probe", claim or Claim(1.0), PROVED, epsilon_lb, delta_lb, 0.95, 1000)


def finding(claim: Claim, proof: NoiseProof, measurement: Measurement | None = None) -> Finding:
    return Finding("name", "subject", claim, proof, measurement)


@pytest.mark.parametrize(
    ("claim", "proof", "expected"),
    [
        (Claim(1.0), NoiseProof(1.0, "exact", 0.9, 0.0), "holds"),
        (Claim(1.0), NoiseProof(1.0 + 1e-12, "exact", 0.9, 0.0), "holds"),
        (Claim(1.0), NoiseProof(2.0, "exact", 0.9, 1e-8), "holds_approximately"),
        (Claim(1.0), NoiseProof(2.0, "exact", 1.8, 1e-3), "fails"),
        (Claim(1.0), NoiseProof(450.0, "exact", 450.0, 1.0), "fails"),
        (Claim(1.0), NoiseProof(math.inf, "exact", math.inf, 0.1), "fails"),
        (Claim(1.0), NoiseProof(math.inf, "exact", math.inf, 1.0), "fails"),
        (Claim(1.0), NoiseProof(math.inf, "exact", math.inf, 1.0, raw=True), "unbounded"),
        (Claim(1.0, 1e-5), NoiseProof(math.inf, "exact", 1.0, 1e-5), "holds"),
        (Claim(1.0, 1e-5), NoiseProof(math.inf, "exact", 1.1, 2e-5), "fails"),
        (Claim(0.0, 1e-5), NoiseProof(math.inf, "exact", math.inf, 0.1), "fails"),
    ],
)
def test_the_white_box_verdict(claim: Claim, proof: NoiseProof, expected: str) -> None:
    found = finding(claim, proof)
    assert found.white_box == expected
    assert found.verdict == "not sampled"
    assert found.violated == (expected != "holds")


def test_the_sampled_verdict() -> None:
    sound = NoiseProof(1.0, "exact", 1.0, 0.0)
    assert finding(Claim(1.0), sound, measured(0.99)).verdict == "not refuted"
    assert finding(Claim(1.0), sound, measured(1.01)).verdict == "refuted"
    assert finding(Claim(1.0), sound, measured(0.5, delta_lb=1e-9)).verdict == "refuted"
    assert finding(Claim(1.0), sound, measured(1.01)).violated


@pytest.mark.parametrize(
    ("epsilon_lb", "delta_lb", "wrong"), [(2.0, 0.2, False), (2.01, 0.0, True), (0.0, 0.21, True), (0.0, 0.0, False)]
)
def test_more_than_is_proved_is_a_violation_also_of_a_true_claim(
    epsilon_lb: float, delta_lb: float, wrong: bool
) -> None:
    claim = Claim(3.0, 0.3)
    found = finding(claim, NoiseProof(math.inf, "exact", 2.0, 0.2), measured(epsilon_lb, delta_lb, claim))
    assert (found.white_box, found.verdict) == ("holds", "not refuted")
    assert (found.contradicts_proof, found.violated) == (wrong, wrong)
    assert audit_summary([found])["contradicts_proof"] is wrong


def test_without_a_finite_epsilon_a_delta_can_contradict() -> None:
    """A bound on epsilon could not: nothing exceeds an infinite epsilon."""
    claim, proved = Claim(1.0), NoiseProof(math.inf, None, math.inf, 0.1)
    for delta_lb, wrong in ((0.09, False), (0.11, True)):
        one = Measurement("two worlds", "probe", claim, proved, math.inf, delta_lb, 0.95, 1000)
        assert one.contradicts_proof is wrong


@pytest.mark.parametrize(("most", "limited"), [(math.inf, False), (10.0, False), (9.1, True), (9.0, True)])
def test_a_bound_within_two_percent_of_the_largest_is_limited_by_runs(most: float, limited: bool) -> None:
    one = Measurement("two worlds", "probe", Claim(1.0), PROVED, 9.0, 0.0, 0.95, 1000, most)
    assert one.limited_by_runs is limited


NOISES: list[Mechanism] = [Gaussian(0.05), Gaussian(5.0), Laplace(0.9), Laplace(1.0), DiscreteLaplace(20.0)]


@pytest.mark.parametrize("noise", NOISES, ids=str)
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.0), (1.0, 1e-6), (0.2, 1e-6), (1.0, 1e-2), (25.0, 0.0)])
def test_an_audit_and_a_certificate_agree(noise: Mechanism, epsilon: float, delta: float) -> None:
    families = CountFamilies(1, (CountFamily("visits", 2),))
    claimed = Guarantee("ldp", epsilon, delta)
    query = CountQuery(CountEncoding(families, whole=True), noise, ExactCounter(1))
    privatizer = Privatizer(design_of(query, 1, claimed), Streams(0, "verdicts"))
    claim, curve = Claim(epsilon, delta), privatizer.planned_ledger().curve
    assert finding(claim, proof_of(curve, claim, exact=True)).white_box == privatizer.planned_certificate("x").verdict


def test_where_nothing_is_claimed_nothing_is_violated() -> None:
    nothing = Claim(math.inf)
    everything = Measurement("two worlds", "probe", nothing, NOTHING_PROVED, math.inf, 1.0, 0.95, 1000)
    found = finding(nothing, NoiseProof(math.inf, "exact", math.inf, 1.0, raw=True), everything)
    assert (found.white_box, found.verdict, found.violated) == ("unbounded", "not refuted", False)


def test_a_proof_is_read_from_a_curve() -> None:
    proof = proof_of(RandomizedResponses(20, 0.1), Claim(1.0), exact=True)
    assert proof.pure_epsilon == pytest.approx(2.0)
    assert proof.tightness == "exact"
    assert proof.epsilon == pytest.approx(1.7886, abs=1e-4)
    assert proof.delta == pytest.approx(2.3967e-3, rel=1e-3)
    gaussian = proof_of(GaussianDP(0.26805), Claim(1.0, 1e-5), exact=False)
    assert (gaussian.pure_epsilon, gaussian.tightness) == (math.inf, None)
    assert gaussian.epsilon == pytest.approx(1.0, abs=1e-4)


def test_a_finding_is_strict_json() -> None:
    found = finding(Claim(1.0), NoiseProof(math.inf, "exact", math.inf, 1.0, raw=True), measured(math.inf, 1.0))
    data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert data["proved"]["pure_epsilon"] == "inf"
    assert data["measured"]["epsilon_lb"] == "inf"
    assert (data["white_box"], data["verdict"]) == ("unbounded", "refuted")
    assert data["measured"]["proved_delta"] == 0.2
    assert data["contradicts_proof"]


def test_the_summary_keeps_the_most_telling_audit() -> None:
    sound = NoiseProof(1.0, "exact", 1.0, 0.0)
    weak, strong = finding(Claim(1.0), sound, measured(0.3)), finding(Claim(1.0), sound, measured(0.9))
    summary = audit_summary([weak, strong, finding(Claim(1.0), sound)])
    assert summary["epsilon_lb"] == 0.9
    assert summary["verdict"] == "not refuted"
    assert audit_summary([weak, finding(Claim(1.0), sound, measured(0.1, delta_lb=0.1))])["verdict"] == "refuted"
    assert audit_summary([weak, finding(Claim(1.0), sound, measured(2.1))])["contradicts_proof"]
    json.dumps(summary, allow_nan=False)


def test_a_summary_of_nothing_samples_nothing() -> None:
    assert audit_summary([])["verdict"] == "not sampled"
