"""The papers' claims: each row comes out as its table says, and the proofs have known numbers.

The page's bounds are wrong with probability 1e-6 at most; with this fixed seed they are not.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import pytest

from dprl.papers.claims import Audit, Row, audit_papers, audit_text, paper_claims
from dprl.privacy.audits.findings import Finding
from dprl.privacy.designs.counts import printed_scale

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
EPSILON_AT_DELTA = {"C1": 0.8468, "C2": 0.6836, "L1": 1.7740, "L2": 1.4827, "M1": 0.063, "M2": 0.234, "M2 n=10": 0.144}
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
def page() -> Audit:
    return audit_papers(seed=0)


@pytest.fixture(scope="module")
def found(page: Audit) -> dict[str, Finding]:
    return {one.finding.name: one.finding for one in page.claims}


def test_every_row_comes_out_as_its_table_says(page: Audit) -> None:
    rows = page.claims
    assert len({one.finding.name for one in rows}) == len(rows) == 21
    for one in rows:
        assert one.outcome == one.expected, one.finding.name
        assert one.finding.violated == (one.expected in {"refuted", "fails by proof"})
        # Sampling refutes nothing that the proof says holds.
        assert one.expected != "refuted" or one.finding.white_box != "holds"
    assert not page.wrong_proofs
    assert "NOT AS EXPECTED" not in audit_text(page, 3.2)
    other = page._replace(claims=[page.claims[0]._replace(expected="stands")])
    assert audit_text(other, 3.2).endswith("NOT AS EXPECTED: C1")


def test_the_page_ends_with_the_counts(page: Audit) -> None:
    summary = audit_text(page, 3.2).splitlines()[-1]
    assert summary == "21 rows: 13 refuted by sampling, 1 more by proof. 3 s"


def test_the_page_is_narrow_and_has_each_row(page: Audit) -> None:
    text = audit_text(page, 3.2)
    assert max(map(len, text.splitlines())) <= 124
    row = {line.split()[0]: re.split(r"  +", line) for line in text.splitlines()[6:27]}
    assert row["A4"][3:] == ["-", "inf", "(inf, 1)", "unbounded", "inf", "leaks"]
    assert row["M0"][3:] == ["1", "inf", "(inf, 1)", "unbounded", "inf", "refuted"]
    assert row["M3"][-2:] == ["delta 0.00528", "refuted"]


def test_the_note_on_m1_has_the_numbers_of_its_row(found: dict[str, Finding]) -> None:
    """At the claimed (1, 1e-5) mu may be 0.26805; the printed sigma gives sqrt(4.5 * 2 * 354) / 2649.4."""
    assert math.sqrt(4.5 * 2 * 354) / 2649.4 * 12.6 == pytest.approx(0.26805, rel=5e-3)
    assert "holds for n <= 316, here with 12.6 times" in found["M1"].note


def test_what_more_runs_could_raise_is_marked(found: dict[str, Finding]) -> None:
    measured = {name: one.measurement for name, one in found.items()}
    assert {name for name, one in measured.items() if one is not None and one.limited_by_runs} == {"C2'", "L2'"}


def test_nothing_measured_exceeds_what_is_proved_there(page: Audit) -> None:
    for finding in (one.finding for one in page.claims):
        assert not finding.contradicts_proof
        # Every check must be able to fail: only releases without noise have neither an epsilon nor a delta.
        if finding.measurement is not None and finding.name not in ("A4", "M0"):
            assert math.isfinite(finding.measurement.proved_epsilon) or finding.measurement.proof.delta < 0.75


@pytest.mark.parametrize("name", ["L1", "M3", "M4", "M4 B=5b", "M4'", "F"])
def test_a_wrong_proof_would_be_noticed(page: Audit, name: str) -> None:
    (finding,) = (one.finding for one in page.claims if one.finding.name == name)
    measured = finding.measurement
    assert measured is not None
    # Half of the proved epsilon is less than the measured one.
    half = measured.proved_epsilon / 2.0
    proof = replace(measured.proof, pure_epsilon=half, epsilon=half, delta=measured.proof.delta / 2.0)
    planted = replace(finding, measurement=replace(measured, proof=proof))
    assert planted.contradicts_proof
    wrong = page._replace(claims=[*page.claims, Row(planted, "refuted")])
    assert wrong.wrong_proofs == [name]
    assert f"THE PROOF IS WRONG: {name}" in audit_text(wrong, 3.2)


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
    attack = next(one.finding.attack for one in paper_claims() if one.finding.name == name)
    assert attack is not None
    assert attack(runs=8).proved_epsilon == pytest.approx(AT_THE_PROBE[name])


@pytest.mark.parametrize("name", ["M1", "M3", "M4", "M4 B=5b", "M4'", "A4", "M0", "F"])
def test_no_pure_epsilon(found: dict[str, Finding], name: str) -> None:
    assert found[name].proof.pure_epsilon == math.inf


@pytest.mark.parametrize("name", sorted(EPSILON_AT_DELTA))
def test_epsilon_at_a_delta(found: dict[str, Finding], name: str) -> None:
    assert found[name].proof.epsilon == pytest.approx(EPSILON_AT_DELTA[name], rel=5e-3)


@pytest.mark.parametrize("name", sorted(DELTA))
def test_delta_at_the_claimed_epsilon(found: dict[str, Finding], name: str) -> None:
    assert found[name].proof.delta == pytest.approx(DELTA[name], rel=1e-2)


def test_brackets(found: dict[str, Finding]) -> None:
    for name, value in ATTAINED_DELTA.items():
        assert found[name].proof.attained_delta == pytest.approx(value, rel=1e-2)
    for name, value in ATTAINED_EPSILON.items():
        assert found[name].proof.attained_epsilon == pytest.approx(value, rel=1e-2)


def test_json(page: Audit) -> None:
    data = json.loads(json.dumps(page.to_dict(), allow_nan=False))
    assert data["confidence"] == 1.0 - 1e-6
    assert [one["name"] for one in data["claims"]] == [one.finding.name for one in page.claims]
    assert data["claims"][0]["measured"]["confidence"] > 0.99
    assert data["claims"][0]["source"] == "[QW24] Lemma 5.1"
