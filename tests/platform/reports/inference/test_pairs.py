"""Declared pairs of cells are significant if they differ, and rarely if they do not."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy.stats import binom, ttest_ind

from dprl.platform.reports.inference.effects import effect
from dprl.platform.reports.inference.pairs import LEVEL, Pair, family, holm


def pairs_of(cells: Sequence[np.ndarray]) -> list[tuple[int, int]]:
    return list(itertools.combinations(range(len(cells)), 2))


def all_pairs(cells: Sequence[np.ndarray], *, log: bool = False) -> list[Pair]:
    """All pairs of these cells."""
    return family(cells, pairs_of(cells), log=log)


def test_holm_is_that_of_the_definition() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_every_pair_has_welchs_test() -> None:
    generator = np.random.default_rng(0)
    cells = [generator.normal(size, size, n) for size, n in ((1, 4), (2, 6), (9, 5))]
    pairs = all_pairs(cells)
    assert [(pair.first, pair.second) for pair in pairs] == [(0, 1), (0, 2), (1, 2)]
    expected = [ttest_ind(cells[i], cells[j], equal_var=False).pvalue for i, j in ((0, 1), (0, 2), (1, 2))]
    assert [pair.p_value for pair in pairs] == pytest.approx(expected)
    assert [pair.adjusted for pair in pairs] == pytest.approx(holm(expected))
    assert pairs[1].effect == pytest.approx(effect(cells[0], cells[2], "linear"))
    at_level = pairs[0]._replace(adjusted=LEVEL)
    assert at_level.significant
    assert not at_level._replace(adjusted=1.001 * LEVEL).significant


@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_a_family_has_a_false_difference_in_a_twentieth_at_most(seeds: int) -> None:
    """Six equal means with unequal spreads. False-alarm rate of this test: 1e-3 at an exact level."""
    generator = np.random.default_rng(seeds)
    families = 400
    spreads = np.array([1.0, 1.0, 3.0, 3.0, 10.0, 10.0])
    wrong = 0
    for _ in range(families):
        cells = [generator.normal(0.0, spread, seeds) for spread in spreads]
        wrong += any(pair.significant for pair in all_pairs(cells))
    assert wrong <= binom.ppf(1 - 1e-3, families, LEVEL)


def test_what_differs_is_distinguished_among_many_equal_ones() -> None:
    generator = np.random.default_rng(1)
    cells = [generator.normal(0.0, 1.0, 6) for _ in range(9)] + [generator.normal(20.0, 1.0, 6)]
    apart = {(pair.first, pair.second) for pair in all_pairs(cells) if pair.significant}
    assert apart == {(i, 9) for i in range(9)}


def test_cells_of_two_seeds_are_in_no_test() -> None:
    values = np.array([1.0, 2.0, 3.0])
    one, *others = all_pairs([values, values + 10.0, values[:2]])
    assert one.adjusted == one.p_value
    assert all(math.isnan(pair.adjusted) and not pair.significant for pair in others)


def test_a_family_has_the_declared_pairs_only() -> None:
    cells = list(np.random.default_rng(6).lognormal(size=(5, 4)))
    found = family(cells, [(0, 3), (1, 2)], log=True)
    assert [(pair.first, pair.second) for pair in found] == [(0, 3), (1, 2)]
    assert [pair.adjusted for pair in found] == pytest.approx(holm([pair.p_value for pair in found]))
    assert found[0].effect.scale == "log"


def test_a_cell_with_a_seed_at_zero_is_compared_by_differences_and_keeps_the_seed() -> None:
    cells = [np.array([0.0, 1.0, 2.0]), np.array([3.0, 4.0, 5.0]), np.array([6.0, 7.0, 9.0])]
    zero, positive = family(cells, [(0, 1), (1, 2)], log=True)
    assert (zero.effect.scale, positive.effect.scale) == ("linear", "log")
    assert zero.effect.value == pytest.approx(-3.0)
