"""Correlated noise for gradients: running sums have the counter's noise, and runs without a proof are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dprl.privacy import GradientLayout, GradientPrivacy, LedgerError, NoiseConfig, Streams
from dprl.privacy.counters import COUNTERS, BinaryTree, BufferedToeplitz
from dprl.privacy.journal import ChargeJournal
from dprl.privacy.mechanisms.vectors import ClippedGaussian, ClippedLaplace
from dprl.privacy.queries.gradients import GradientQuery, receive, submit

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
