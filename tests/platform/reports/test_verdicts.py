"""The texts of a certificate: its facts, its attempts, its audit, and the lines that some certificates lack."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dprl.platform.reports.number_texts import number
from dprl.platform.reports.templates import sentence
from dprl.platform.reports.verdicts import certificate_facts, verdict_line
from tests.platform.reports.cases import NONE, cell, jdp

APPROXIMATE = jdp(1.0, delta=1e-6, counter="binary_tree", families="separate")


def told(privacy: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The planned certificate of these settings with other values of some fields."""
    return cell(privacy).certificate().to_dict() | changes


def facts(certificate: dict[str, Any], subject: str) -> list[str]:
    return [text for name, text in certificate_facts(certificate) if name == subject]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.123456, "0.1235"), (999.4, "999.4"), (1000.0, "1000"), (-34567.8, "-34568"), (math.inf, "inf")],
)
def test_numbers_have_four_digits_or_their_whole_part(value: float, text: str) -> None:
    assert number(value) == text
    assert number(value, "\u221e") == text.replace("inf", "\u221e")


def test_a_delta_that_allows_to_publish_a_record_is_noted() -> None:
    assert not facts(told(APPROXIMATE), "delta")
    (text,) = facts(told(jdp(1.0, delta=0.01)), "delta")  # 1000 episodes
    assert text.startswith("is above 1 / users")


def test_an_approximate_guarantee_is_told_with_its_delta() -> None:
    found = told(APPROXIMATE)
    assert facts(found, "protects") == [f"{found['unit']}; neighbours: {found['adjacency']}"]
    assert facts(found, "observer") == [f"jdp: {found['observer']}"]
    assert facts(found, "requested") == ["epsilon 1, delta 1e-06"]
    assert facts(found, "claimed")[0].startswith("epsilon 1, delta 1e-06, by the requested guarantee")
    at = "epsilon 0.8725 at delta 1e-05, epsilon 1 at delta 1e-06; delta 1e-06 at epsilon 1"
    assert facts(found, "proved") == [f"no pure epsilon; {at}"]
    transitions = "transitions: gaussian, scale 65.45, 72 numbers, a user is in up to 10 noisy sums of each"
    assert facts(found, "noise")[0] == f"{transitions}; float64-idealised, seeded"
    assert facts(found, "error") == [
        "one count of transitions: standard deviation 145.4 (rms over episodes), 196.3 at most"
    ]


def test_a_claim_that_fails_as_a_pure_one_is_told_with_what_holds_at_the_smallest_delta() -> None:
    found = told(jdp(1.0, calibration="printed")) | {"verdict": "holds_approximately"}
    found["proved"] |= {"epsilon_at_delta": {"1e-05": 0.75, "1e-06": 0.875, "0.001": 0.5}}
    line = verdict_line(found)
    assert line.startswith("HOLDS ONLY FOR DELTA > 0: noise as printed proves 2.896, claimed 1 (factor 2.896); ")
    assert line.endswith("; it proves 0.875 at delta 1e-06")


def test_a_pure_guarantee_is_told_without_delta() -> None:
    found = told(jdp(1.0, calibration="printed"))
    (proved,) = facts(found, "proved")
    assert proved.startswith("pure epsilon 2.896 (exact: some pair of neighbours attains it); epsilon ")
    bound = found["proved"] | {"tightness": "upper bound"}
    (shown,) = facts(found | {"proved": bound}, "proved")
    assert shown.startswith("pure epsilon 2.896 (an upper bound); epsilon ")


@pytest.mark.parametrize(
    ("privacy", "remedy"),
    [
        (APPROXIMATE, ": claim 3 times the epsilon and the delta, or run under another name with new users"),
        (jdp(1.0), ": claim 3 times the epsilon, or run under another name with new users"),
        (NONE, ""),
    ],
)
def test_another_attempt_is_told_with_what_it_costs(privacy: dict[str, Any], remedy: str) -> None:
    found = told(privacy, attempts=3, users_asked_again=7)
    cost = "3 with fresh noise each; users asked again: 7; the proof composes all attempts"
    assert facts(found, "attempts") == [cost + remedy]
    assert facts(told(privacy), "attempts") == []


def test_blocks_and_their_assumption_are_told() -> None:
    found = told(APPROXIMATE, releases=1234, simulation="blocks", assumption="users are independent")
    assert facts(found, "releases") == ["1,234, on the schedule of plans, which is fixed in advance"]
    assert facts(found, "simulated") == ["in blocks: users between two plans at once, distributed as if one by one"]
    assert facts(found, "assumed") == ["users are independent"]
    assert [facts(told(APPROXIMATE), subject) for subject in ("releases", "simulated", "assumed")] == [[], [], []]


def test_less_noise_that_is_known_is_named() -> None:
    found = told(APPROXIMATE, choice="the one with the least error")
    (line,) = facts(found, "best known")
    assert line == (
        "for epsilon 1, delta 1e-06: counter: buffered_toeplitz, mechanism: gaussian, families: one_hot; "
        "standard deviation 50.43, 2.884 times less noise"
    )
    assert facts(found, "chosen") == ["the one with the least error"]
    for ratio, same in ((1.004, True), (1.006, False)):
        other = found | {"best_available": found["best_available"] | {"ratio": ratio}}
        assert (facts(other, "best known") == ["this one"]) == same
    assert facts(told(NONE), "best known") == []


def test_runs_of_a_joint_certificate_are_named() -> None:
    of = [{"algorithm": "pucb", "users": 1234, "checksum": "ab"}, {"algorithm": "pgc", "users": 9, "checksum": "cd"}]
    runs = "pucb (1,234 users, checksum ab), pgc (9 users, checksum cd)"
    for kind, who in (("disjoint", "a user is in one of them"), ("together", "a user may be in all of them")):
        assert facts(told(APPROXIMATE, composition={"kind": kind, "of": of}), "composed") == [f"{who}: {runs}"]


def test_an_audit_is_told_with_its_confidence_and_claim() -> None:
    audit = {"verdict": "not refuted", "epsilon_lb": 0.51, "confidence": 0.99, "runs": 9, "method": "a test"}
    assert sentence("measured", audit) == "epsilon at least 0.51 (confidence 0.99, 9 runs, a test): not refuted"
    claimed = sentence("measured", audit | {"probe_claim": {"epsilon": 1.0}, "probe_config": "one bit"})
    how = "(confidence 0.99, 9 runs, a test)"
    assert claimed == f"epsilon at least 0.51, of a claim of 1 for one bit {how}: not refuted"
    assert sentence("measured", {"verdict": "not audited", "note": "no attack"}) == "not audited: no attack"
