"""Calibration and choice: the table of errors, the certified noise of each counter, refusals."""

from __future__ import annotations

import math

import pytest

from dprl.privacy.base import Sensitivity
from dprl.privacy.counters import COUNTERS, EXACT_COUNTERS, AnyCounter, BinaryTree, KaryTree
from dprl.privacy.counters.selection import calibrate, calibrated_of, choose
from dprl.privacy.mechanisms import laws_for
from dprl.privacy.mechanisms.base import INTEGER, NODE, Mechanism
from dprl.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from dprl.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.laplace import Laplace
from tests.privacy.laplace_losses import of_laplace_losses

# One family, H = 5: a user changes 10 cells by 1.
ROW = Sensitivity.of_cells(10)
REAL = (Laplace, Gaussian)
NAMES = tuple(COUNTERS)


def counter_class(name: str, mechanism: type[Mechanism]) -> type[AnyCounter]:
    return (EXACT_COUNTERS if mechanism.arithmetic == INTEGER else COUNTERS)[name]


PAIRS = [(name, m) for name in sorted(COUNTERS) for m in laws_for(NODE) if counter_class(name, m).place in m.places]


@pytest.mark.parametrize(
    ("n_items", "delta", "counter", "mechanism", "rms", "largest"),
    [
        # H = 5, epsilon 1.
        (999, 0.0, "binary_tree", "laplace", 314, 424),
        (999, 0.0, "kary_tree", "laplace", 131, 180),
        (999, 1e-6, "binary_tree", "gaussian", 94, 127),
        (999, 1e-6, "binary_tree", "laplace", 131, 177),
        (999, 1e-6, "buffered_toeplitz", "gaussian", 39.9, 41.1),
        (99_999, 0.0, "kary_tree", "laplace", 261, 362),
        (99_999, 1e-6, "binary_tree", "gaussian", 157, 220),
        (99_999, 1e-6, "binary_tree", "laplace", 221, 309),
        (99_999, 1e-6, "buffered_toeplitz", "gaussian", 59.3, 60.5),
    ],
)
def test_standard_deviations_at_the_same_guarantee(
    n_items: int, delta: float, counter: str, mechanism: str, rms: float, largest: float
) -> None:
    laws = tuple(law for law in REAL if law.name == mechanism)
    chosen, error, _ = choose((counter,), laws, 1.0, delta, ROW, n_items, 100)
    assert error == pytest.approx(rms, rel=0.01)
    assert chosen.node is not None
    assert math.sqrt(chosen.node.variance) * chosen.errors()[1] == pytest.approx(largest, rel=0.01)


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


def test_the_choice_is_the_smallest_of_all_pairs_and_says_why() -> None:
    wanted = (1.0, 1e-6, ROW, 999, 100)
    *choice, reason = choose(NAMES, REAL, *wanted)
    each = [choose((name,), (law,), *wanted) for name, law in PAIRS if law in REAL]
    assert len(each) > 3
    assert tuple(choice) == min(each, key=lambda one: one[1])[:2]
    assert "buffered_toeplitz with gaussian noise has the smallest root mean square error, 39.87" in reason
    assert "next: kary_tree with gaussian noise, 68.86" in reason
    only, _, reason = choose(("binary_tree",), (Gaussian,), *wanted)
    assert only == calibrate(BinaryTree(999), Gaussian, 1.0, 1e-6, ROW)
    assert reason.endswith("nothing else is possible here")


def test_pure_guarantees_get_pure_noise() -> None:
    counter, _, _ = choose(NAMES, REAL, 1.0, 0.0, ROW, 99_999, 100)
    assert counter == KaryTree(99_999, Laplace(40.0), 23)
    assert counter.node is not None
    assert counter.node.pure
    with pytest.raises(ValueError, match=r"got none: .*with gaussian: delta must be above 0"):
        choose(NAMES, (Gaussian,), 1.0, 0.0, ROW, 99_999, 100)


@pytest.mark.parametrize(("delta", "n_items", "best"), [(0, 1000, "kary"), (1e-6, 5000, "kary"), (1e-6, 1000, "buff")])
def test_exact_arithmetic_gets_integer_noise(delta: float, n_items: int, best: str) -> None:
    counter, _, _ = choose(NAMES, (DiscreteLaplace, DiscreteGaussian), 1.0, delta, ROW, n_items, 100)
    assert counter.name.startswith(best)
    assert counter.node is not None
    assert counter.node.arithmetic == INTEGER


def test_what_does_not_fit_in_memory_is_refused_with_reasons() -> None:
    with pytest.raises(ValueError, match=r"counter must be one that can .* got none: .*needs 5\.6 GB") as error:
        choose(NAMES, REAL, 1.0, 1e-6, ROW, 10_000, 10**8)
    assert "\n" not in str(error.value)
    large = "counter: buffered_toeplitz takes 1 to 10,000,000 releases, got 1,000,000,000; use kary_tree"
    with pytest.raises(ValueError, match=f"^{large}$"):
        choose(("buffered_toeplitz",), REAL, 1.0, 1e-6, ROW, 10**9, 120)
    with pytest.raises(ValueError, match=f"^{large}$"):
        calibrated_of("buffered_toeplitz", Gaussian, 1.0, 1e-6, ROW, 10**9, 120)


def test_nothing_possible_is_refused_with_reasons() -> None:
    with pytest.raises(
        ValueError, match=r"^counter: buffered_toeplitz takes gaussian noise only, which needs a delta above 0"
    ):
        choose(("buffered_toeplitz",), (Laplace,), 1.0, 0.0, ROW, 100, 10)
    with pytest.raises(ValueError, match="buffered_toeplitz with gaussian: delta must be above 0"):
        choose(("buffered_toeplitz",), REAL, 1.0, 0.0, ROW, 100, 10)


def test_a_composed_tree_pays_for_a_users_nodes_of_a_cell_as_one() -> None:
    free = calibrate(KaryTree(999), Laplace, 1.0, 1e-6, ROW)
    assert isinstance(free, KaryTree)
    assert free.node is not None
    assert of_laplace_losses(ROW.cells, free.levels / free.node.scale, 1e-6) == pytest.approx(1.0, rel=1e-4)
    assert isinstance(pure := calibrate(KaryTree(999), Laplace, 1.0, 0.0, ROW), KaryTree)
    assert pure.base == 13
