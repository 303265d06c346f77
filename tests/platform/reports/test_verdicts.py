"""The texts of a certificate: its facts, its attempts, its audit, and the lines that some certificates lack."""

from __future__ import annotations

from typing import Any

import pytest

from dprl.platform.reports.verdicts import certificate_facts, verdict_line
from tests.platform.reports.cases import NONE, cell, jdp

APPROXIMATE = jdp(1.0, delta=1e-6, counter="binary_tree", families="separate")


def told(privacy: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The planned certificate of these settings with other values of some fields."""
    return cell(privacy).certificate().to_dict() | changes


def facts(certificate: dict[str, Any], subject: str) -> list[str]:
    return [text for name, text in certificate_facts(certificate) if name == subject]


def test_a_delta_that_allows_to_publish_a_record_is_noted() -> None:
    assert not facts(told(APPROXIMATE), "delta")
    (text,) = facts(told(jdp(1.0, delta=0.01)), "delta")  # 1000 episodes
    assert text.startswith("is above 1 / users")


def test_a_claim_that_fails_as_a_pure_one_is_told_with_what_holds_at_the_smallest_delta() -> None:
    found = told(jdp(1.0, calibration="printed")) | {"verdict": "holds_approximately"}
    found["proved"] |= {"epsilon_at_delta": {"1e-05": 0.75, "1e-06": 0.875, "0.001": 0.5}}
    line = verdict_line(found)
    assert line.startswith("HOLDS ONLY FOR DELTA > 0: noise as printed proves 2.896, claimed 1 (factor 2.896); ")
    assert line.endswith("; it proves 0.875 at delta 1e-06")


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
