"""A privatizer is attacked through the kernels that a run would use."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from dprl.privacy import CountFamilies, CountFamily, CountPrivacy, CountPrivatizer, Streams
from dprl.privacy.audits.distinguishing_attack import Probe, measure
from dprl.privacy.audits.findings import Claim, Measurement, proof_of
from dprl.privacy.audits.privatizer_probes import (
    canary,
    central_prefixes,
    filler_user,
    local_reports,
    probe_families,
    sent_row,
)
from dprl.privacy.counters import COUNTERS
from dprl.privacy.queries.base import MESSAGES, SENT

RUNS, ALPHA = 20_000, 1e-4


def families(steps: int) -> CountFamilies:
    """A tabular learner of 2 states and 2 actions."""
    return CountFamilies(
        steps,
        (
            CountFamily("transitions", 8),
            CountFamily("visits", 4, marginal_of="transitions"),
            CountFamily("rewards", 4, marginal_of="transitions", indicator=False),
        ),
        paper="[CZ22]",
    )


def build(config: CountPrivacy, steps: int = 1, episodes: int = 3) -> CountPrivatizer:
    return config.build(families(steps), episodes - 1, Streams(0, "replays"))


def attacked(config: CountPrivacy, claim: Claim, steps: int = 1, episodes: int = 3, runs: int = RUNS) -> Measurement:
    privatizer = build(config, steps, episodes)
    probe = central_prefixes if privatizer.trust_model == "jdp" else local_reports
    proved = proof_of(privatizer.planned_ledger().curve, claim)
    return measure(probe(privatizer, f"{config}"), claim, proved, runs=runs, seed=0, alpha=ALPHA)


SAMPLED = {"families": "one_hot", "mechanism": "sampled_optimized_unary_encoding"}
DIRECT = {"families": "one_hot", "mechanism": "sampled_direct_encoding"}


@pytest.mark.parametrize("settings", [SAMPLED, DIRECT, {"families": "one_hot", "mechanism": "laplace"}])
def test_certified_reports_are_not_refuted_and_two_thirds_of_the_noise_are(settings: dict[str, str]) -> None:
    """False alarm of a sound report: below 1e-4."""
    sound = attacked(CountPrivacy("ldp", 1.0, **settings), Claim(1.0))  # type: ignore[arg-type]
    assert not sound.refutes
    assert 0.6 < sound.epsilon_lb <= 1.0
    planted = attacked(CountPrivacy("ldp", 1.5, **settings), Claim(1.0))  # type: ignore[arg-type]
    assert planted.refutes
    assert planted.epsilon_lb <= 1.5


@pytest.mark.parametrize("steps", [1, 2])
def test_printed_reports_are_refuted(steps: int) -> None:
    measured = attacked(CountPrivacy("ldp", 1.0, calibration="printed"), Claim(1.0), steps, runs=100_000)
    assert measured.refutes
    assert measured.epsilon_lb <= measured.proved_epsilon == pytest.approx(2.0)
    assert not measured.contradicts_proof


@pytest.mark.parametrize(("steps", "episodes"), [(1, 3), (2, 5)])
def test_printed_counters_are_refuted(steps: int, episodes: int) -> None:
    measured = attacked(CountPrivacy("jdp", 1.0, calibration="printed"), Claim(1.0), steps, episodes, runs=60_000)
    assert measured.refutes
    assert not measured.contradicts_proof


def test_a_sampled_step_tells_no_more_than_its_own_row() -> None:
    measured = attacked(CountPrivacy("ldp", 1.0, **SAMPLED), Claim(1.0), steps=2)  # type: ignore[arg-type]
    assert 0.8 < measured.epsilon_lb <= 1.0


@pytest.mark.parametrize("counter", sorted(COUNTERS))
def test_no_certified_counter_is_refuted(counter: str) -> None:
    """False alarm: below 1e-4 a counter."""
    delta = 1e-6
    measured = attacked(CountPrivacy("jdp", 1.0, delta, families="one_hot", counter=counter), Claim(1.0, delta))
    assert not measured.refutes
    assert 0.15 < measured.epsilon_lb <= 1.0


def test_a_counter_with_a_quarter_of_the_noise_is_refuted() -> None:
    """This holds also for the linear score, used for all counters but the binary tree."""
    config = CountPrivacy("jdp", 4.0, families="one_hot", counter="kary_tree")
    measured = attacked(config, Claim(1.0))
    assert measured.refutes
    assert 1.5 < measured.epsilon_lb <= 4.0


@pytest.mark.parametrize("kind", ["separate", "one_hot"])
def test_two_canaries_share_no_cell_and_fill_every_row(kind: str) -> None:
    privatizer = build(CountPrivacy("jdp", 1.0, families=kind), steps=2)
    ones, zeros = (sent_row(privatizer, canary(privatizer.query.families, world)) for world in (1, 0))
    sent = len(privatizer.query.encoding.released.families) * 2
    assert not (ones * zeros).any()
    assert ones.sum() == zeros.sum() == sent
    assert sent_row(privatizer, filler_user(privatizer.query.families)).sum() == sent


def joined(families: CountFamilies) -> dict[str, str]:
    return {family.name: family.marginal_of for family in families.families}


GAME = CountFamilies(
    7,
    (
        CountFamily("transitions", 3 * 5 * 6 * 4),
        CountFamily("visits", 5 * 6, marginal_of="transitions"),
        CountFamily("costs", 5 * 6, marginal_of="transitions", indicator=False),
        CountFamily("starts", 5, marginal_of="visits"),
        CountFamily("messages", 1000),
        CountFamily("ends", 1, marginal_of="messages"),
    ),
    paper="somebody's",
)


def test_a_probe_has_the_families_of_the_run_in_small() -> None:
    small = probe_families(GAME, 2)
    assert (small.n_steps, small.paper) == (2, GAME.paper)
    assert joined(small) == joined(GAME)
    widths = {family.name: family.width for family in small.families}
    assert widths == {"transitions": 16, "visits": 8, "costs": 4, "starts": 4, "messages": 2, "ends": 1}
    for before, after in zip(GAME.families, small.families, strict=True):
        assert before.indicator == after.indicator


def test_narrow_families_stay_as_they_are() -> None:
    assert probe_families(families(5), 1) == families(1)


@pytest.mark.parametrize(
    ("config", "probe"), [(CountPrivacy("jdp", 1.0), central_prefixes), (CountPrivacy("ldp", 1.0), local_reports)]
)
def test_nobody_is_sent_back_in_a_probe(config: CountPrivacy, probe: Callable[[CountPrivatizer, str], Probe]) -> None:
    privatizer = build(config)
    probe(privatizer, "a").scores(1, 7, Streams(0, "runs").key("user_noise"))
    users = privatizer.channel.cursor
    assert users[SENT] == users[MESSAGES] == (7 if probe is local_reports else privatizer.n_users)


def test_runs_are_independent_and_repeatable() -> None:
    key = Streams(0, "runs").key("user_noise")
    first, again = (central_prefixes(build(CountPrivacy("jdp", 50.0)), "a").scores(1, 5000, key) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert np.unique(first).shape[0] > 4900
    # The runs come in two batches; correlation between batches would show (limit: 6 standard errors).
    assert abs(np.corrcoef(first[:2500], first[2500:])[0, 1]) < 6 / np.sqrt(2500)
    assert abs(np.corrcoef(first[:-1], first[1:])[0, 1]) < 6 / np.sqrt(5000)
