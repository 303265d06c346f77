"""Rounds of a trusted server for gradients: correlated noise of a counter, and sampled users."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dprl.privacy import GradientLayout, GradientPrivacy, LedgerError, NoiseConfig, Privatizer, Streams
from dprl.privacy.counters import COUNTERS, BinaryTree, BufferedToeplitz
from dprl.privacy.journal import ChargeJournal
from dprl.privacy.mechanisms.vectors import ClippedGaussian, ClippedLaplace
from dprl.privacy.queries.gradients import GradientQuery, receive, submit
from dprl.privacy.queries.sampled_gradients import SampledGradientQuery, draw_users, release_round
from dprl.privacy.threat_models import GRADIENT_ADJACENCY, SAMPLED_ADJACENCY
from tests.privacy.by_hand import design_of

# Correlated noise for gradients: running sums have the counter's noise, and runs without a proof are refused.

D, WINDOW, ROUNDS, CLIP = 400, 3, 13, 2.0
N = WINDOW * ROUNDS + 1
ALL = [(name, "fast") for name in COUNTERS] + [("binary_tree", "exact"), ("kary_tree", "exact")]
EVERY_COUNTER = pytest.mark.parametrize(("counter", "arithmetic"), ALL)


def privatizer(counter: str = "buffered_toeplitz", noise: NoiseConfig | None = None, **changes: Any) -> Any:
    settings = {"epsilon": 1.0, "delta": 1e-6, "mechanism": "clipped_gaussian", "clip": CLIP, "counter": counter}
    privacy = GradientPrivacy("jdp", **{**settings, **changes})
    return privacy.build(GradientLayout(D, WINDOW), N, Streams(0, "correlated", noise or NoiseConfig()))


def updates(made: Any, first: int = 1, last: int = N, value: float = 0.0) -> np.ndarray:
    """Return the updates of full windows, float64[n, D], of users with equal gradients."""
    made.charge(first, last)
    out, found = np.empty(D), list[np.ndarray]()
    for user in range(first, last + 1):
        submit(made.channel, np.full(D, value), user)
        receive(made.channel, out)
        if user % WINDOW == 0:
            found.append(out.copy())
        else:
            assert not out.any()
    return np.array(found)


@EVERY_COUNTER
@pytest.mark.parametrize("wrong", [1.0, 2.0 / 3.0, 1.5])
def test_running_sums_have_the_noise_of_the_counter(counter: str, arithmetic: Any, wrong: float) -> None:
    """All D numbers of 13 running sums lie within 5.5 standard deviations: false alarm below 1e-6 per counter."""
    made = privatizer(counter, NoiseConfig(arithmetic))
    sums = np.cumsum(updates(made), axis=0)
    theory = made.query.counter.profile() * made.query.law.scale
    assert sums.shape == (ROUNDS, D)
    off = np.sqrt((sums**2).mean(axis=1)) / (wrong * theory) - 1.0
    assert (np.abs(off) < 5.5 / np.sqrt(2 * D)).all() == (wrong == 1.0)
    norm = np.sqrt((sums**2).sum(axis=1).mean())
    assert made.query.noise_norm == pytest.approx(norm, rel=0.2)


@EVERY_COUNTER
def test_sums_are_those_of_clipped_gradients(counter: str, arithmetic: Any) -> None:
    """Equal noise with and without gradients far beyond the clip: each adds norm C/2, up to its grid."""
    noise = NoiseConfig(arithmetic)
    with_users, without = (updates(privatizer(counter, noise), value=value) for value in (100.0, 0.0))
    grid = privatizer(counter, noise).query.law.grid
    each = CLIP / 2.0 / np.sqrt(D)
    assert with_users - without == pytest.approx(np.full((ROUNDS, D), WINDOW * each), abs=WINDOW * grid + 1e-9)


@EVERY_COUNTER
def test_the_certificate_is_the_request_and_names_the_counter(counter: str, arithmetic: Any) -> None:
    made = privatizer(counter, NoiseConfig(arithmetic))
    updates(made)
    told = made.certificate("dppg").to_dict()
    assert told["verdict"] == "holds"
    assert told["proved"]["epsilon_at_claimed_delta"] == pytest.approx(1.0, rel=1e-6)
    assert told["covered_channels"][0] == (
        f"running sums of gradients after each of {ROUNDS} updates, by the counter {counter}"
    )


@pytest.mark.parametrize("counter", list(COUNTERS))
def test_sigma_is_the_largest_column_norm_times_that_of_one_sum(counter: str) -> None:
    made, one = privatizer(counter).query, privatizer("none").query
    row = one.law.sensitivity
    assert made.law.scale / one.law.scale == pytest.approx(made.counter.sensitivity(row).l2 / row.l2)


def test_auto_takes_the_counter_with_the_smallest_error() -> None:
    made = privatizer("auto")
    assert made.query.noise_norm == min(privatizer(name).query.noise_norm for name in COUNTERS)
    assert made.planned_certificate("dppg").to_dict()["choice"].startswith(made.query.counter.name)


def test_noise_of_the_operating_system_continues_with_a_counter_of_its_own(tmp_path: Path) -> None:
    """Users before the crash are only in the first counter, users after it only in the second."""
    secret, cut = NoiseConfig("exact", "os"), 4 * WINDOW
    made = privatizer("kary_tree", secret)
    made.persist(ChargeJournal(tmp_path / "charges"))
    updates(made, 1, cut, value=0.1)
    with pytest.raises(LedgerError, match="secret"):
        made.state_dict()
    made._journal.close()
    again = privatizer("kary_tree", secret)
    again.persist(ChargeJournal(tmp_path / "charges"))
    found = updates(again, cut + 1, value=0.1)
    assert len(found) == ROUNDS - 4
    assert again.certificate("dppg").to_dict()["verdict"] == "holds"


def sums_of_clients(made: Any, rounds: int, value: float) -> np.ndarray:
    """Return the updates of the next windows, float64[rounds, D], of users in other processes."""
    client, found = made.new_client(), []
    for _ in range(rounds):
        sent = client.send(made.lease(WINDOW), np.full((WINDOW, D), value))
        found.append(made.accept(sent)[-1])
    return np.array(found)


@EVERY_COUNTER
def test_clients_in_other_processes_get_the_noise_of_the_loop(counter: str, arithmetic: Any) -> None:
    noise = NoiseConfig(arithmetic)
    expected = updates(privatizer(counter, noise), value=0.1)
    assert sums_of_clients(privatizer(counter, noise), ROUNDS, 0.1) == pytest.approx(expected, abs=1e-9)


@EVERY_COUNTER
def test_after_a_crash_no_item_of_the_counter_is_released_again(counter: str, arithmetic: Any, tmp_path: Path) -> None:
    """The noise of the updates after it is that of the same items in a whole run, although users were lost."""
    noise, before = NoiseConfig(arithmetic), 4
    whole = updates(privatizer(counter, noise))
    made = privatizer(counter, noise)
    made.persist(ChargeJournal(tmp_path / "charges"))
    first = sums_of_clients(made, before, 0.0)
    made.lease(WINDOW - 1)  # lost: they are charged, and no item has them
    made._journal.close()
    again = privatizer(counter, noise)
    again.persist(ChargeJournal(tmp_path / "charges"))
    rest = sums_of_clients(again, ROUNDS - before - 1, 0.0)
    # Users 15, 16 and 17 are the first sum after it: item 5, which nobody was in before.
    assert np.concatenate([first, rest]) == pytest.approx(whole[: ROUNDS - 1], abs=1e-9)


def test_sums_out_of_order_are_refused() -> None:
    made = privatizer()
    client = made.new_client()
    one, two = (client.send(made.lease(WINDOW), np.zeros((WINDOW, D))) for _ in range(2))
    made.accept(two)
    with pytest.raises(LedgerError, match="sums are released in the order of their users, got item 1 after 2"):
        made.accept(one)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"mechanism": "clipped_laplace"}, "mechanism must be clipped_gaussian with counter"),
        ({"sampling": "poisson", "population": 100}, "sampling must be one_pass with counter"),
        ({"submissions": 2}, "submissions must be 1 with counter"),
        ({"noise": NoiseConfig("exact", "os")}, "counter must be one of binary_tree, kary_tree with arithmetic: exact"),
    ],
)
def test_settings_without_a_proof_are_refused_in_one_line(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=rf"^{complaint}[^\n]*$"):
        privatizer(**changes)


def test_other_queries_with_a_counter_are_refused() -> None:
    law = ClippedGaussian.with_scale(1.0, 3, 1.0)
    good: dict[str, Any] = {"law": law, "window": 5, "counter": BinaryTree(4, law.additive)}
    query = GradientQuery(**good)
    query.check_run(24, 1)
    with pytest.raises(ValueError, match="n_users must be at most 24"):
        query.check_run(25, 1)
    with pytest.raises(LedgerError, match="submissions must be 1"):
        query.check_run(20, 2)
    grid = ClippedGaussian.with_scale(1.0, 3, 1.0, exact=True)
    for wrong in (
        {"law": ClippedLaplace.calibrated(1.0, 0.0, 3, 1.0)},
        {"counter": BinaryTree(4)},
        {"counter": BinaryTree(4, grid.additive)},
        {"law": grid, "counter": BinaryTree(2**40, grid.additive)},
        {"counter": BufferedToeplitz(4)},
        {"window": 0},
    ):
        with pytest.raises(LedgerError):
            GradientQuery(**{**good, **wrong})


# Sampled rounds: everybody is charged first, users are drawn as the proof requires, and anything else is refused.

POPULATION, BATCH, N_ROUNDS = 500, 20, 40
SETTINGS: Any = {"mechanism": "clipped_gaussian", "clip": CLIP, "sampling": "poisson", "population": POPULATION}
LAYOUT = GradientLayout(3, BATCH, draws=True)


def sampled(seed: int = 0, noise: NoiseConfig | None = None, rounds: int = N_ROUNDS, **changes: Any) -> Any:
    privacy = GradientPrivacy("jdp", 1.0, 1e-6, **{**SETTINGS, **changes})
    return privacy.build(LAYOUT, BATCH * rounds, Streams(seed, "sampled", noise or NoiseConfig()))


def charged(seed: int = 0, **changes: Any) -> Any:
    made = sampled(seed, **changes)
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
    assert told["noise"][0]["parameters"]["rate"] == BATCH / POPULATION
    assert told["noise"][0]["parameters"]["rounds"] == 5
    assert "each of 500 joins each of 5 rounds with probability 0.04" in told["assumption"]
    assert "adding and removing" in told["proved"]["method"]
    assert any("who joins a round" in channel for channel in told["excluded_channels"])
    assert not any("whether an agent takes part" in channel for channel in told["excluded_channels"])


def test_a_claim_of_replacement_is_not_compared_with_it() -> None:
    made, other = sampled(), GradientPrivacy("jdp", 1.0, 1e-6, "clipped_gaussian")
    assert other.requested is not None
    assert other.requested.adjacency == GRADIENT_ADJACENCY
    mixed = Privatizer(design_of(made.query, POPULATION, other.requested), Streams(0, "sampled"))
    with pytest.raises(LedgerError, match="neighbours"):
        mixed.planned_certificate("dppg")


def test_nobody_is_drawn_before_all_are_charged() -> None:
    made = sampled()
    with pytest.raises(LedgerError, match="whole population is charged"):
        draw_users(made.channel)
    made.charge(1, POPULATION - 1)
    with pytest.raises(LedgerError, match="whole population is charged"):
        draw_users(made.channel)
    made.charge(POPULATION, POPULATION)
    assert 1 <= draw_users(made.channel).min() <= draw_users(made.channel).max() <= POPULATION


def test_rounds_beyond_the_charge_are_refused() -> None:
    made = charged()
    for _ in range(N_ROUNDS):
        one_round(made)
    with pytest.raises(LedgerError, match="at most 40 rounds"):
        draw_users(made.channel)
    with pytest.raises(ValueError, match="at most 500 submissions"):
        made.charge(POPULATION + 1, POPULATION + 1)


def test_a_round_has_the_gradients_of_those_drawn_once() -> None:
    made, out = charged(), np.empty(3)
    for undrawn in (0, 1, BATCH):
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
    joins = np.zeros((12, N_ROUNDS, POPULATION))
    for run in range(len(joins)):
        made = charged(run)
        for number in range(N_ROUNDS):
            joins[run, number, one_round(made)[0] - 1] = 1.0
    rate = BATCH / POPULATION
    one = np.sqrt(rate * (1.0 - rate))
    assert abs(joins.mean() - rate) < 6.0 * one / np.sqrt(joins.size)
    assert np.abs(joins.mean(axis=(0, 1)) - rate).max() < 6.0 * one / np.sqrt(12 * N_ROUNDS)
    sizes = joins.sum(axis=2)
    assert sizes.std() == pytest.approx(np.sqrt(POPULATION) * one, rel=6.0 / np.sqrt(2 * sizes.size))
    both = (joins[:, 1:] * joins[:, :-1]).mean()
    assert abs(both - rate**2) < 6.0 * rate / np.sqrt(joins[:, 1:].size)


@pytest.mark.parametrize("wrong", [1.0, 2.0 / 3.0, 1.5])
def test_sums_have_clipped_gradients_and_the_noise_of_the_law(wrong: float) -> None:
    """Gradients are far beyond the clip: each adds norm C/2. Noise of 4,800 sums; 2/3 and 3/2 of it are rejected."""
    noise, scale = [], sampled().query.law.scale
    for seed in range(40):
        made = charged(seed)
        for _ in range(N_ROUNDS):
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
    first = sampled(noise=secret)
    first.persist(ChargeJournal(tmp_path / "charges"))
    first.charge(1, POPULATION)
    one_round(first)
    first._journal.close()
    again = sampled(noise=secret)
    again.persist(ChargeJournal(tmp_path / "charges"))
    with pytest.raises(LedgerError, match="begin another attempt"):
        again.charge(1, POPULATION)


def test_another_attempt_is_composed_round_by_round(tmp_path: Path) -> None:
    secret = NoiseConfig(entropy="os")
    for _ in range(2):
        made = sampled(noise=secret)
        journal = ChargeJournal(tmp_path / "charges", continues=False)
        made.persist(journal)
        made.charge(1, POPULATION)
        one_round(made)
        told = made.certificate("dppg")
        journal.close()
    assert (told.attempts, told.users_asked_again, told.verdict) == (2, POPULATION, "fails")
    assert made.ledger.curve.n == 2 * N_ROUNDS


def test_nothing_is_shown_of_those_who_joined() -> None:
    made = charged()
    users = draw_users(made.channel)
    assert str(users.size) not in repr(made.channel).replace("3 numbers", "")


def test_clients_are_not_leased_to_and_those_of_the_server_only_clip() -> None:
    made = sampled()
    with pytest.raises(LedgerError, match="gradients with model: jdp come from the compiled loop"):
        made.lease(1)
    assert made.charged == 0
    with pytest.raises(LedgerError, match="only sampled rounds of a charged population"):
        made.clipped_by_runners(1, 1)
    made = charged()
    message = made.new_client().send(made.clipped_by_runners(1, 1), np.full((1, 3), 9.0))
    assert np.linalg.norm(message.values) == pytest.approx(made.query.law.largest_norm)
    with pytest.raises(LedgerError, match="lease it first"):
        made.accept(message)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"sampling": "one_pass"}, "population must be left out"),
        ({"mechanism": "clipped_laplace"}, "mechanism must be clipped_gaussian"),
        ({"submissions": 2}, "submissions must be 1 with sampling poisson"),
        ({"population": None}, "population must be a whole number"),
        ({"population": BATCH - 1}, "population must be at least"),
    ],
)
def test_careless_settings_are_refused_in_one_line(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=rf"^{complaint}[^\n]*$"):
        sampled(**changes)


@pytest.mark.parametrize(
    ("layout", "episodes", "noise", "complaint"),
    [
        (GradientLayout(3, BATCH), BATCH, NoiseConfig(), "sampling must be one_pass with this algorithm"),
        (LAYOUT, BATCH + 1, NoiseConfig(), "episodes must be a multiple"),
        (LAYOUT, BATCH - 1, NoiseConfig(), "episodes must be a multiple"),
        (LAYOUT, BATCH, NoiseConfig("exact", "os"), "arithmetic must be fast"),
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
