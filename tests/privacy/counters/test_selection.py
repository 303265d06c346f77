"""Calibration and choice: the table of errors, the certified noise of each counter, refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dprl.privacy.counters import COUNTERS, BinaryTree, KaryTree
from dprl.privacy.counters.selection import CounterRequirements, calibrate, check_memory, choose, counter_class
from dprl.privacy.mechanisms import laws_for
from dprl.privacy.mechanisms.base import IDEALISED, INTEGER, NODE, Mechanism, Sensitivity
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.laplace import Laplace
from tests.privacy.laplace_losses import of_laplace_losses

# One family, H = 5: a user changes 10 cells by 1.
ROW = Sensitivity.of_cells(10)
PAIRS = [(name, m) for name in sorted(COUNTERS) for m in laws_for(NODE) if counter_class(name, m).place in m.places]


def errors(name: str, n_items: int) -> tuple[float, float]:
    """Root mean square and largest standard deviation of a prefix when sensitivity / mu is 1."""
    counter = COUNTERS[name](n_items).suited("l2")
    profile = counter.profile() * counter.sensitivity(Sensitivity.of_cells(1)).l2
    return float(np.sqrt(np.mean(profile**2))), float(profile.max())


@pytest.mark.parametrize(
    ("name", "n_items", "rms", "largest"),
    [
        ("binary_tree", 999, 7.03, 9.49),
        ("binary_tree", 99_999, 11.77, 16.49),
        ("kary_tree", 999, 5.16, 6.93),
        ("kary_tree", 99_999, 8.43, 10.95),
        ("normalized_square_root", 999, 2.9836, 3.0730),
        ("normalized_square_root", 99_999, 4.44, 4.53),
        ("buffered_toeplitz", 999, 2.98, 3.07),
        ("buffered_toeplitz", 99_999, 4.44, 4.53),
    ],
)
def test_error_multipliers_of_the_table(name: str, n_items: int, rms: float, largest: float) -> None:
    assert errors(name, n_items) == pytest.approx((rms, largest), rel=0.01)
    # The published lower bound of any factorisation, 0.701 + ln T / pi.
    assert rms > 0.701 + math.log(n_items) / math.pi


@pytest.mark.parametrize(
    ("n_items", "delta", "counter", "mechanism", "rms", "largest"),
    [
        # H = 5, epsilon 1.
        (999, 0.0, "binary_tree", "laplace", 314, 424),
        (999, 0.0, "kary_tree", "laplace", 131, 180),
        (999, 1e-6, "binary_tree", "gaussian", 94, 127),
        (999, 1e-6, "binary_tree", "laplace", 131, 177),
        (999, 1e-6, "normalized_square_root", "gaussian", 39.9, 41.1),
        (99_999, 0.0, "kary_tree", "laplace", 261, 362),
        (99_999, 1e-6, "binary_tree", "gaussian", 157, 220),
        (99_999, 1e-6, "binary_tree", "laplace", 221, 309),
        (99_999, 1e-6, "buffered_toeplitz", "gaussian", 59.3, 60.5),
    ],
)
def test_standard_deviations_at_the_same_guarantee(
    n_items: int, delta: float, counter: str, mechanism: str, rms: float, largest: float
) -> None:
    choice = choose(CounterRequirements(1.0, delta, ROW, n_items, 100))
    found = next(c for c in choice.candidates if (c.counter, c.mechanism) == (counter, mechanism))
    assert (found.rms, found.largest) == pytest.approx((rms, largest), rel=0.01)


@pytest.mark.parametrize(("name", "mechanism"), PAIRS)
@pytest.mark.parametrize("n_items", [1, 6, 300])
def test_calibrated_counters_prove_what_was_asked_and_little_more(
    name: str, mechanism: type[Mechanism], n_items: int
) -> None:
    for delta in (0.0, 1e-6):
        if delta == 0.0 and mechanism.norm == "l2":
            with pytest.raises(ValueError, match="delta must be above 0"):
                calibrate(counter_class(name, mechanism)(n_items), mechanism, 0.5, delta, ROW)
            continue
        counter = calibrate(counter_class(name, mechanism)(n_items), mechanism, 0.5, delta, ROW)
        assert counter.node is not None
        proved = counter.node.curve(counter.sensitivity(ROW))
        epsilon = proved.pure_epsilon if delta == 0.0 else proved.epsilon(delta)
        assert 0.5 * (1 - 1e-4) <= epsilon <= 0.5 * (1 + 1e-9)


@pytest.mark.parametrize(
    ("n_items", "first", "second", "of_first", "of_second"),
    [
        (999, "normalized_square_root", "buffered_toeplitz", "39.86", "39.87"),
        # The largest error of the second is smaller here.
        (300, "buffered_toeplitz", "normalized_square_root", "34.82", "34.83"),
    ],
)
def test_the_choice_is_the_smallest_of_all_pairs_and_says_why(
    n_items: int, first: str, second: str, of_first: str, of_second: str
) -> None:
    wanted = CounterRequirements(1.0, 1e-6, ROW, n_items, 100)
    choice = choose(wanted)
    assert sorted((c.counter, c.mechanism) for c in choice.candidates) == sorted((n, m.name) for n, m in PAIRS)
    assert [c.rms for c in choice.candidates] == sorted(c.rms for c in choice.candidates)
    best = choice.candidates[0]
    assert (choice.counter.name, choice.counter.node.name) == (best.counter, best.mechanism)  # type: ignore[union-attr]
    assert f"{first} with gaussian noise has the smallest root mean square error, {of_first}" in choice.reason
    assert f"next: {second} with gaussian noise, {of_second}" in choice.reason
    only = choose(wanted, counters=["binary_tree"], mechanisms=[Gaussian])
    assert only.counter == calibrate(BinaryTree(n_items), Gaussian, 1.0, 1e-6, ROW)
    assert only.reason.endswith("nothing else is possible here")


def test_pure_guarantees_get_pure_noise() -> None:
    choice = choose(CounterRequirements(1.0, 0.0, ROW, 99_999, 100))
    assert choice.counter == KaryTree(99_999, Laplace(40.0), 23)
    pure = {law.name for law in laws_for(NODE) if law.pure and law.arithmetic == IDEALISED}
    assert {c.mechanism for c in choice.candidates if math.isfinite(c.rms)} == pure


@pytest.mark.parametrize(
    ("delta", "n_items", "best"), [(0.0, 1000, "kary"), (1e-6, 5000, "kary"), (1e-6, 1000, "normalized")]
)
def test_exact_arithmetic_gets_integer_noise(delta: float, n_items: int, best: str) -> None:
    choice = choose(CounterRequirements(1.0, delta, ROW, n_items, 100, exact=True))
    possible = {c.counter for c in choice.candidates if math.isfinite(c.rms)}
    assert possible - {"normalized_square_root"} == {"binary_tree", "kary_tree"}
    assert choice.counter.name.startswith(best)
    assert choice.counter.node is not None
    assert choice.counter.node.arithmetic == INTEGER
    assert all(c.note for c in choice.candidates if not math.isfinite(c.rms))


def test_what_does_not_fit_in_memory_is_out_and_long_runs_are_quick() -> None:
    choice = choose(CounterRequirements(1.0, 1e-6, ROW, 1_000_000, 10_000))
    assert choice.counter.name == "buffered_toeplitz"
    out = {c.counter: c.note for c in choice.candidates if "needs" in c.note}
    assert sorted(out) == ["normalized_square_root"]
    small = choose(CounterRequirements(1.0, 1e-6, ROW, 1_000_000, 10), counters=["normalized_square_root"])
    assert {c.note for c in small.candidates if math.isfinite(c.rms)} == {"at most: the square root's error"}


def test_nothing_possible_is_refused_with_reasons() -> None:
    with pytest.raises(ValueError, match=r"counter must be one that can .* got none: .*needs 0\.8 GB") as error:
        choose(CounterRequirements(1.0, 1e-6, ROW, 10_000, 10_000, memory=10_000))
    assert "\n" not in str(error.value)
    large = "counter: normalized_square_root needs 96 GB of noise, more than 2 GiB; use buffered_toeplitz"
    with pytest.raises(ValueError, match=f"^{large}$"):
        choose(CounterRequirements(1.0, 1e-6, ROW, 10**8, 120), counters=["normalized_square_root"])
    with pytest.raises(ValueError, match=f"^{large}$"):
        check_memory(COUNTERS["normalized_square_root"](10**8), CounterRequirements(1.0, 1e-6, ROW, 10**8, 120))
    check_memory(COUNTERS["buffered_toeplitz"](10**6), CounterRequirements(1.0, 1e-6, ROW, 10**6, 120))
    with pytest.raises(
        ValueError, match=r"^counter: buffered_toeplitz takes gaussian noise only, which needs a delta above 0"
    ):
        choose(CounterRequirements(1.0, 0.0, ROW, 100, 10), counters=["buffered_toeplitz"], mechanisms=[Laplace])
    with pytest.raises(ValueError, match="normalized_square_root with gaussian: delta must be above 0"):
        choose(CounterRequirements(1.0, 0.0, ROW, 100, 10), counters=["normalized_square_root"])


def test_a_composed_tree_pays_for_a_users_nodes_of_a_cell_as_one() -> None:
    free = calibrate(KaryTree(999), Laplace, 1.0, 1e-6, ROW)
    assert isinstance(free, KaryTree)
    assert free.node is not None
    assert of_laplace_losses(ROW.cells, free.levels / free.node.scale, 1e-6) == pytest.approx(1.0, rel=1e-4)
    assert isinstance(pure := calibrate(KaryTree(999), Laplace, 1.0, 0.0, ROW), KaryTree)
    assert pure.k == 13
