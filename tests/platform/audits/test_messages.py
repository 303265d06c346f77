"""`dprl audit` of a cell whose users send one message: attacks on whole messages."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from dprl.platform import audits
from dprl.platform.audits import STATISTICS_PROBES as PROBES
from dprl.platform.audits import attached_audit, audit_experiment, claim_of, statistics_privatizer
from dprl.platform.reports.audits import block
from dprl.privacy import Streams
from dprl.privacy.audits.privatizer_probes import statistics_messages, statistics_prefixes
from tests.platform.message_cases import GAUSSIAN, LAPLACE, NO_CLIPS, NONE, PRINTED, cell

RUNS = 20_000


@pytest.mark.parametrize(
    "privacy", [LAPLACE, LAPLACE | {"rewards": "public"}, GAUSSIAN], ids=["laplace", "public rewards", "gaussian"]
)
def test_certified_statistics_are_not_refuted_and_something_is_measured(privacy: dict[str, Any]) -> None:
    findings = audit_experiment(cell(privacy), RUNS)
    assert len(findings) == len(PROBES)
    assert [one.verdict for one in findings] == ["not refuted"] * len(findings)
    assert all(one.white_box == "holds" for one in findings)
    assert not any(one.contradicts_proof for one in findings)
    strongest = max(one.measurement.epsilon_lb for one in findings if one.measurement is not None)
    assert 1.0 < strongest < 4.0
    assert "NOT REFUTED" in block("one", findings)


@pytest.mark.parametrize(
    "noise", [{}, {"delta": 1e-5, "mechanism": "gram_gaussian", "counter": "buffered_toeplitz"}], ids=str
)
def test_releases_on_a_schedule_are_not_refuted_and_with_less_noise_they_are(
    noise: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plans at episodes 2 and 4 read the sums of 3 users twice; with a third of the noise the proof is refuted."""
    made = cell({"model": "jdp", "epsilon": 4.0, "counter": "binary_tree"} | noise, algorithm="ma_ldp")
    algorithm: Any = made.algorithm
    made = dataclasses.replace(made, algorithm=dataclasses.replace(algorithm, replan_growth=1.0))
    small = statistics_privatizer(made, (3, 2, 1))
    assert small.query.schedule is not None
    assert small.query.schedule.times.tolist() == [1, 3]
    findings = audit_experiment(made, RUNS)
    assert [one.verdict for one in findings] == ["not refuted"] * len(findings)
    assert not any(one.contradicts_proof for one in findings)
    strongest = max(one.measurement.epsilon_lb for one in findings if one.measurement is not None)
    assert 1.0 < strongest < 4.0
    build = statistics_prefixes

    def with_less_noise(parts: Any, label: str) -> Any:
        counter = parts.counter
        less = dataclasses.replace(counter, node=dataclasses.replace(counter.node, scale=counter.node.scale / 3.0))
        return build(dataclasses.replace(parts, counter=less), label)

    monkeypatch.setattr(audits, "statistics_prefixes", with_less_noise)
    findings = audit_experiment(made, 7000)
    assert any(one.verdict == "refuted" and one.contradicts_proof for one in findings)


def test_open_rewards_and_missing_clips_are_found() -> None:
    findings = audit_experiment(cell(PRINTED), 2000)
    assert [one.verdict for one in findings] == ["not refuted", "refuted"] * len(PROBES)
    assert all(one.white_box == "unbounded" and one.violated for one in findings)
    text = block("one", findings)
    assert text.startswith("one: REFUTED: claimed 4, measured epsilon >= ")
    assert "which the device does not cut" in " ".join(text.split())
    assert "reward corrections: no noise" in text
    # Without the rewards' corrections, only the missing clips are to blame.
    findings = audit_experiment(cell(NO_CLIPS), 2000)
    assert [one.verdict for one in findings] == ["not refuted", "refuted"] * len(PROBES)


def test_without_noise_nothing_is_sampled() -> None:
    findings = audit_experiment(cell(NONE), 1000)
    assert [one.verdict for one in findings] == ["not sampled"]
    assert "NO PRIVACY" in block("one", findings)


def test_a_claim_that_is_too_small_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audits, "claim_of", lambda made: dataclasses.replace(claim_of(made), epsilon=0.5))
    attack, *_ = audit_experiment(cell(LAPLACE), RUNS)
    assert attack.verdict == "refuted"


def test_scores_are_log_likelihood_ratios() -> None:
    """E[exp(score)] is 1 on the first data set, within five standard errors: a false alarm in a million seeds."""
    for sizes in PROBES:
        probe = statistics_messages(statistics_privatizer(cell(LAPLACE), sizes).query, "one")
        scores = probe.scores(0, RUNS, Streams(1, "x").key("user_noise"))
        ratios = np.exp(scores)
        assert abs(ratios.mean() - 1.0) < 5.0 * ratios.std() / np.sqrt(RUNS)
        assert scores.std() > 0.1
        assert np.abs(scores).max() <= 4.0


def test_a_run_keeps_the_most_telling_finding() -> None:
    assert attached_audit(cell({"model": "ldp", "epsilon": 2.0}))["verdict"] == "not refuted"
