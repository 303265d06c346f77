"""The papers' page: every wrong claim is refuted, no control is, and the proofs have the expected numbers.

The page's bounds hold together with 95 % confidence; with this fixed seed they do.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from dprl.platform.reports.audits import ClaimsPage
from dprl.platform.reproductions.privacy_claims import (
    OTHER_READINGS,
    REPEATS,
    audit_papers,
    paper_claims,
    paper_controls,
)
from dprl.privacy.audits.findings import Finding
from dprl.privacy.designs.counts import printed_scale

REFUTED = {"C1", "C2", "C2'", "L1", "L2", "L2'", "A2 k=1", "M0", "M3", "M4", "M4 B=5b", "M4'", "F"}
STAND = {"C1'", "A1", "A2", "A3", "M1", "M2"}
FAILS_BY_PROOF_ALONE = {"M2 n=10"}
CLAIMS_NOTHING = {"A4"}
ALL = REFUTED | STAND | FAILS_BY_PROOF_ALONE | CLAIMS_NOTHING
DISTINCT = {"C1", "C2", "L1", "L2", "A1", "A2", "A3", "M0", "M1", "M2", "M3", "M4", "M4'"}

PURE = {
    "C1": 2.8953,
    "C1'": 0.419,
    "C2": 2.8953,
    "C2'": 31085.0,
    "L1": 2.0,
    "L2": 2.0,
    "L2'": 450.0,
    "A1": 1.0,
    "A2": 5.0,
    "A2 k=1": 9.70,
    "A3": 1.0,
    "M2": 0.3932,
    "M2 n=10": 3.9607,
}
EPSILON_AT_A_DELTA = {
    "C1": 0.8468,
    "C2": 0.6836,
    "L1": 1.7740,
    "L2": 1.4827,
    "M1": 0.063,
    "M2": 0.234,
    "M2 n=10": 0.144,
}
AT_THE_PROBE = {
    "C1": 6 * 3 / (2 * 2 * math.log(5)),
    "C1'": 2 * 5 / (2 * math.log(24) ** 2),
    "C2": 3 * 2 / (3 * math.log(3)),
    "C2'": 3 * 5 * math.log(1000),
    "L1": 2.0,
    "L2": 2.0,
    "L2'": 3 * 5,
}
"""Changed noisy numbers over the printed scale, at the H and K of each probe."""
DELTA = {"L1": 2.2944e-3, "L2": 4.1417e-4, "C1": 2.3912e-8, "M3": 0.1007, "M4": 0.1096, "F": 0.0208}
ATTAINED_DELTA = {"M3": 0.095, "M4": 0.102}
ATTAINED_EPSILON = {"M2": 0.37, "M2 n=10": 3.84}


@pytest.fixture(scope="module")
def page() -> ClaimsPage:
    return audit_papers(seed=0)


@pytest.fixture(scope="module")
def found(page: ClaimsPage) -> dict[str, Finding]:
    return {finding.name: finding for finding in page.claims}


def test_names_are_unique_and_every_claim_has_a_verdict() -> None:
    names = [entry.name for entry in (*paper_claims(), *paper_controls())]
    assert len(names) == len(set(names))
    assert {entry.name for entry in paper_claims()} == ALL


def test_where_nothing_is_claimed_a_leak_refutes_nothing(found: dict[str, Finding]) -> None:
    for name in CLAIMS_NOTHING:
        measured = found[name].measurement
        assert measured is not None
        assert (found[name].claim.epsilon, measured.epsilon_lb) == (math.inf, math.inf)
        assert (found[name].white_box, found[name].verdict, found[name].violated) == ("unbounded", "not refuted", False)


def test_rows_that_are_no_claims_of_their_own_are_distinguished(page: ClaimsPage) -> None:
    assert {finding.name for finding in page.distinct} == DISTINCT
    apart = {**OTHER_READINGS, **REPEATS}
    # F is of no paper.
    assert {finding.name for finding in page.claims} == DISTINCT | set(apart) | CLAIMS_NOTHING | {"F"}
    assert set(apart.values()) <= DISTINCT


def test_the_note_on_m1_has_the_numbers_of_its_row(found: dict[str, Finding]) -> None:
    """At the claimed (1, 1e-5) mu may be 0.26805; the printed sigma gives sqrt(4.5 * 2 * 354) / 2649.4."""
    assert math.sqrt(4.5 * 2 * 354) / 2649.4 * 12.6 == pytest.approx(0.26805, rel=5e-3)
    assert "holds for n <= 316, here with 12.6 times" in found["M1"].note


def test_what_more_runs_could_raise_is_marked(page: ClaimsPage) -> None:
    marked = {one.name for one in page.claims if one.measurement is not None and one.measurement.limited_by_runs}
    assert marked == {"C2'", "L2'"}


@pytest.mark.parametrize("name", sorted(REFUTED))
def test_a_wrong_claim_is_refuted_and_its_proof_fails(found: dict[str, Finding], name: str) -> None:
    assert found[name].verdict == "refuted"
    assert found[name].white_box != "holds"


@pytest.mark.parametrize("name", sorted(STAND))
def test_a_true_claim_stands(found: dict[str, Finding], name: str) -> None:
    assert found[name].verdict != "refuted"
    assert found[name].white_box == "holds"
    assert not found[name].violated


def test_what_sampling_cannot_show_the_white_box_does(found: dict[str, Finding]) -> None:
    for name in FAILS_BY_PROOF_ALONE:
        assert found[name].verdict == "not sampled"
        assert found[name].violated
        assert found[name].white_box == "holds_approximately"


def test_no_control_is_refuted(page: ClaimsPage) -> None:
    assert {finding.verdict for finding in page.controls} == {"not refuted"}
    assert not any(finding.violated for finding in page.controls)
    assert not page.inconsistent


def test_controls_are_attacked_with_some_power(page: ClaimsPage) -> None:
    measured = {one.name: one.measurement for one in page.controls}
    for name in ("C2 ok", "L1 ok", "A2 ok", "M4 ok"):
        one = measured[name]
        assert one is not None
        assert 0.9 * one.proved_epsilon < one.epsilon_lb <= one.proved_epsilon


def test_nothing_measured_exceeds_what_is_proved_there(page: ClaimsPage) -> None:
    for finding in (*page.claims, *page.controls):
        assert not finding.contradicts_proof
        # Every check must be able to fail: only releases without noise have neither an epsilon nor a delta.
        if finding.measurement is not None and finding.name not in ("A4", "M0"):
            assert math.isfinite(finding.measurement.proved_epsilon) or finding.measurement.proof.delta < 0.75


@pytest.mark.parametrize("name", ["L1", "M3", "M4", "M4 B=5b", "M4'", "F", "M4 ok"])
def test_a_wrong_proof_would_be_noticed(page: ClaimsPage, name: str) -> None:
    findings = {finding.name: finding for finding in (*page.claims, *page.controls)}
    measured = findings[name].measurement
    assert measured is not None
    # Half of the proved epsilon is less than the measured one.
    half = measured.proved_epsilon / 2.0
    proof = replace(measured.proof, pure_epsilon=half, epsilon=half, delta=measured.proof.delta / 2.0)
    planted = replace(findings[name], measurement=replace(measured, proof=proof))
    assert planted.contradicts_proof
    assert replace(page, claims=(*page.claims, planted)).inconsistent


def test_the_scales_of_cz22_are_those_that_run(found: dict[str, Finding]) -> None:
    tree, report = printed_scale("jdp", 3, 5, 999, 1.0), printed_scale("ldp", 3, 5, 999, 1.0)
    # 6 H L numbers in the tree and 6 H in a report, each with a loss of one over the scale.
    assert found["C2"].proof.pure_epsilon == pytest.approx(60 * 5 / tree)
    assert found["L2"].proof.pure_epsilon == pytest.approx(6 * 5 / report)
    assert found["C2'"].proof.pure_epsilon == pytest.approx(60 * 5 * tree)
    assert found["L2'"].proof.pure_epsilon == pytest.approx(6 * 5 * report)


@pytest.mark.parametrize("name", sorted(PURE))
def test_pure_epsilon(found: dict[str, Finding], name: str) -> None:
    assert found[name].proof.pure_epsilon == pytest.approx(PURE[name], rel=2e-3)


@pytest.mark.parametrize("name", sorted(AT_THE_PROBE))
def test_counts_are_attacked_at_the_printed_scale(name: str) -> None:
    attack = next(case.attack for case in paper_claims() if case.name == name)
    assert attack is not None
    assert attack(runs=8).proved_epsilon == pytest.approx(AT_THE_PROBE[name])


@pytest.mark.parametrize("name", ["M1", "M3", "M4", "M4 B=5b", "M4'", "A4", "M0", "F"])
def test_no_pure_epsilon(found: dict[str, Finding], name: str) -> None:
    assert found[name].proof.pure_epsilon == math.inf


@pytest.mark.parametrize("name", sorted(EPSILON_AT_A_DELTA))
def test_epsilon_at_a_delta(found: dict[str, Finding], name: str) -> None:
    assert found[name].proof.epsilon == pytest.approx(EPSILON_AT_A_DELTA[name], rel=5e-3)


@pytest.mark.parametrize("name", sorted(DELTA))
def test_delta_at_the_claimed_epsilon(found: dict[str, Finding], name: str) -> None:
    assert found[name].proof.delta == pytest.approx(DELTA[name], rel=1e-2)


def test_brackets(found: dict[str, Finding]) -> None:
    for name, value in ATTAINED_DELTA.items():
        assert found[name].proof.attained_delta == pytest.approx(value, rel=1e-2)
    for name, value in ATTAINED_EPSILON.items():
        assert found[name].proof.attained_epsilon == pytest.approx(value, rel=1e-2)


def test_the_variance_formula_holds(page: ClaimsPage) -> None:
    (check,) = page.numbers
    assert check.holds
    assert check.printed == pytest.approx(1.2141, abs=1e-4)
    assert check.high - check.low < 0.05


def test_json(page: ClaimsPage) -> None:
    data = json.loads(json.dumps(page.to_dict(), allow_nan=False))
    assert data["confidence"] == 0.95
    assert {one["name"] for one in data["claims"]} == ALL
    assert set(data["distinct_claims"]) == DISTINCT
    assert data["claims"][0]["measured"]["confidence"] > 0.99
