"""Sampled rounds: everybody is charged first, users are drawn as the proof requires, and anything else is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dprl.privacy import (
    GradientLayout,
    GradientPrivacy,
    LedgerError,
    NoiseConfig,
    Privatizer,
    Streams,
)
from dprl.privacy.journal import ChargeJournal
from dprl.privacy.mechanisms.vectors import ClippedGaussian, ClippedLaplace
from dprl.privacy.queries.sampled_gradients import SampledGradientQuery, draw_users, release_round
from dprl.privacy.threat_models import GRADIENT_ADJACENCY, SAMPLED_ADJACENCY
from tests.privacy.by_hand import design_of

POPULATION, WINDOW, ROUNDS, CLIP = 500, 20, 40, 2.0
SETTINGS: dict[str, Any] = {
    "mechanism": "clipped_gaussian",
    "clip": CLIP,
    "sampling": "poisson",
    "population": POPULATION,
}
LAYOUT = GradientLayout(3, WINDOW, draws=True)


def privatizer(seed: int = 0, noise: NoiseConfig | None = None, rounds: int = ROUNDS, **changes: Any) -> Any:
    privacy = GradientPrivacy("jdp", 1.0, 1e-6, **{**SETTINGS, **changes})
    return privacy.build(LAYOUT, WINDOW * rounds, Streams(seed, "sampled", noise or NoiseConfig()))


def charged(seed: int = 0, **changes: Any) -> Any:
    made = privatizer(seed, **changes)
    made.charge(1, POPULATION)
    return made


def one_round(made: Any, value: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    users, out = draw_users(made.channel), np.empty(3)
    release_round(made.channel, np.full((users.size, 3), value), out)
    return users, out


def test_the_certificate_is_that_of_addition_and_removal() -> None:
    made = charged(rounds=5)
    told = made.certificate("dppg").to_dict()
    assert told["adjacency"] == SAMPLED_ADJACENCY
    assert told["users"] == POPULATION
    assert told["submissions"] == 1
    assert told["verdict"] == "holds"
    assert told["proved"]["epsilon_at_claimed_delta"] == pytest.approx(1.0, rel=1e-4)
    assert told["noise"][0]["parameters"]["rate"] == WINDOW / POPULATION
    assert told["noise"][0]["parameters"]["rounds"] == 5
    assert "each of 500 joins each of 5 rounds with probability 0.04" in told["assumption"]
    assert "adding and removing" in told["proved"]["method"]
    assert any("who joins a round" in channel for channel in told["excluded_channels"])
    assert not any("whether an agent takes part" in channel for channel in told["excluded_channels"])


def test_a_claim_of_replacement_is_not_compared_with_it() -> None:
    made, other = privatizer(), GradientPrivacy("jdp", 1.0, 1e-6, "clipped_gaussian")
    assert other.requested is not None
    assert other.requested.adjacency == GRADIENT_ADJACENCY
    mixed = Privatizer(design_of(made.query, POPULATION, other.requested), Streams(0, "sampled"))
    with pytest.raises(LedgerError, match="neighbours"):
        mixed.planned_certificate("dppg")


def test_nobody_is_drawn_before_all_are_charged() -> None:
    made = privatizer()
    with pytest.raises(LedgerError, match="whole population is charged"):
        draw_users(made.channel)
    made.charge(1, POPULATION - 1)
    with pytest.raises(LedgerError, match="whole population is charged"):
        draw_users(made.channel)
    made.charge(POPULATION, POPULATION)
    assert 1 <= draw_users(made.channel).min() <= draw_users(made.channel).max() <= POPULATION


def test_rounds_beyond_the_charge_are_refused() -> None:
    made = charged()
    for _ in range(ROUNDS):
        one_round(made)
    with pytest.raises(LedgerError, match="at most 40 rounds"):
        draw_users(made.channel)
    with pytest.raises(ValueError, match="at most 500 submissions"):
        made.charge(POPULATION + 1, POPULATION + 1)


def test_a_round_has_the_gradients_of_those_drawn_once() -> None:
    made, out = charged(), np.empty(3)
    for undrawn in (0, 1, WINDOW):
        with pytest.raises(LedgerError, match="who were drawn"):
            release_round(made.channel, np.zeros((undrawn, 3)), out)
    users = draw_users(made.channel)
    with pytest.raises(LedgerError, match="who were drawn"):
        release_round(made.channel, np.zeros((users.size + 1, 3)), out)
    release_round(made.channel, np.zeros((users.size, 3)), out)
    with pytest.raises(LedgerError, match="who were drawn"):
        release_round(made.channel, np.zeros((users.size, 3)), out)


def test_each_user_joins_each_round_with_the_rate_of_the_proof() -> None:
    """240,000 coins of 12 runs: totals, users and pairs of rounds lie within 6 standard deviations."""
    joins = np.zeros((12, ROUNDS, POPULATION))
    for run in range(len(joins)):
        made = charged(run)
        for number in range(ROUNDS):
            joins[run, number, one_round(made)[0] - 1] = 1.0
    rate = WINDOW / POPULATION
    one = np.sqrt(rate * (1.0 - rate))
    assert abs(joins.mean() - rate) < 6.0 * one / np.sqrt(joins.size)
    assert np.abs(joins.mean(axis=(0, 1)) - rate).max() < 6.0 * one / np.sqrt(12 * ROUNDS)
    sizes = joins.sum(axis=2)
    assert sizes.std() == pytest.approx(np.sqrt(POPULATION) * one, rel=6.0 / np.sqrt(2 * sizes.size))
    both = (joins[:, 1:] * joins[:, :-1]).mean()
    assert abs(both - rate**2) < 6.0 * rate / np.sqrt(joins[:, 1:].size)


@pytest.mark.parametrize("wrong", [1.0, 2.0 / 3.0, 1.5])
def test_sums_have_clipped_gradients_and_the_noise_of_the_law(wrong: float) -> None:
    """Gradients are far beyond the clip: each adds norm C/2. Noise of 4,800 sums; 2/3 and 3/2 of it are rejected."""
    noise, scale = [], privatizer().query.law.scale
    for seed in range(40):
        made = charged(seed)
        for _ in range(ROUNDS):
            users, out = one_round(made, 100.0)
            noise.append(out - users.size * CLIP / 2.0 / np.sqrt(3.0))
    deviation = float(np.std(noise))
    assert (abs(deviation / (wrong * scale) - 1.0) < 6.0 / np.sqrt(2 * len(noise) * 3)) == (wrong == 1.0)
    assert abs(np.mean(noise)) < 6.0 * scale / np.sqrt(3 * len(noise))


def test_draws_of_the_operating_system_are_other_ones_every_time() -> None:
    one, other = (charged(noise=NoiseConfig(entropy="os")) for _ in range(2))
    assert not np.array_equal(one_round(one)[0], one_round(other)[0])
    assert not np.array_equal(one.channel.coins[1:], other.channel.coins[1:])
    with pytest.raises(LedgerError, match="secret"):
        one.state_dict()


def test_a_journal_with_charges_starts_no_second_half(tmp_path: Path) -> None:
    """After a crash the number of released rounds is unknown, so all of them count, and another attempt is composed."""
    secret = NoiseConfig(entropy="os")
    first = privatizer(noise=secret)
    first.persist(ChargeJournal(tmp_path / "charges"))
    first.charge(1, POPULATION)
    one_round(first)
    first._journal.close()
    again = privatizer(noise=secret)
    again.persist(ChargeJournal(tmp_path / "charges"))
    with pytest.raises(LedgerError, match="begin another attempt"):
        again.charge(1, POPULATION)


def test_another_attempt_is_composed_round_by_round(tmp_path: Path) -> None:
    secret = NoiseConfig(entropy="os")
    for _ in range(2):
        made = privatizer(noise=secret)
        journal = ChargeJournal(tmp_path / "charges", continues=False)
        made.persist(journal)
        made.charge(1, POPULATION)
        one_round(made)
        told = made.certificate("dppg")
        journal.close()
    assert (told.attempts, told.users_asked_again, told.verdict) == (2, POPULATION, "fails")
    assert made.ledger.curve.n == 2 * ROUNDS


def test_nothing_is_shown_of_those_who_joined() -> None:
    made = charged()
    users = draw_users(made.channel)
    assert str(users.size) not in repr(made.channel).replace("3 numbers", "")


def test_clients_in_other_processes_are_refused() -> None:
    made = privatizer()
    with pytest.raises(LedgerError, match="gradients with model: jdp come from the compiled loop"):
        made.lease(1)
    assert made.charged == 0
    with pytest.raises(LedgerError, match="no clients"):
        made.new_client()


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"sampling": "one_pass"}, "population must be left out"),
        ({"mechanism": "clipped_laplace"}, "mechanism must be clipped_gaussian"),
        ({"submissions": 2}, "submissions must be 1 with sampling poisson"),
        ({"population": None}, "population must be a whole number"),
        ({"population": WINDOW - 1}, "population must be at least"),
    ],
)
def test_careless_settings_are_refused_in_one_line(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=rf"^{complaint}[^\n]*$"):
        privatizer(**changes)


@pytest.mark.parametrize(
    ("layout", "episodes", "noise", "complaint"),
    [
        (GradientLayout(3, WINDOW), WINDOW, NoiseConfig(), "sampling must be one_pass with this algorithm"),
        (LAYOUT, WINDOW + 1, NoiseConfig(), "episodes must be a multiple"),
        (LAYOUT, WINDOW - 1, NoiseConfig(), "episodes must be a multiple"),
        (LAYOUT, WINDOW, NoiseConfig("exact", "os"), "arithmetic must be fast"),
    ],
)
def test_runs_without_a_proof_are_refused(
    layout: GradientLayout, episodes: int, noise: NoiseConfig, complaint: str
) -> None:
    with pytest.raises(ValueError, match=rf"^{complaint}[^\n]*$"):
        GradientPrivacy("jdp", 1.0, 1e-6, **SETTINGS).build(layout, episodes, Streams(0, "sampled", noise))


def test_other_queries_of_sampled_rounds_are_refused() -> None:
    good: dict[str, Any] = {"law": ClippedGaussian.with_scale(1.0, 3, 1.0), "window": 5, "population": 9, "rounds": 2}
    query = SampledGradientQuery(**good)
    query.check_run(9, 1)
    for users, submissions in ((8, 1), (10, 1), (9, 2)):
        with pytest.raises(LedgerError, match="n_users and submissions"):
            query.check_run(users, submissions)
    for wrong in (
        {"law": ClippedLaplace.calibrated(1.0, 0.0, 3, 1.0)},
        {"law": ClippedGaussian.with_scale(1.0, 3, 1.0, exact=True)},
        {"window": 0},
        {"window": 10},
        {"rounds": 0},
        {"rounds": 2**52},
    ):
        with pytest.raises(LedgerError):
            SampledGradientQuery(**{**good, **wrong}).events("seeded")
