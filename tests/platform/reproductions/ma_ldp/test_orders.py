"""Orders found in made-up runs with a known answer, and the size of the printed bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from dprl.platform.reproductions import claims
from dprl.platform.reproductions.claims import Inequality, Key, PaperCell
from dprl.platform.reproductions.ma_ldp import (
    EPISODES,
    GAUSSIAN,
    LAPLACE,
    ORDERS,
    PRINTED,
    RUNS,
    Levels,
    printed_bound,
)
from dprl.platform.reproductions.ma_ldp_page import outcomes
from dprl.platform.reproductions.ma_ldp_proofs import episodes_needed
from tests.platform.reproductions.ma_ldp.cases import drawn, runs


def all_seen(found: dict[Key, PaperCell], orders: Sequence[Inequality] = ORDERS.claims) -> float:
    return claims.all_seen(orders, PRINTED, found, RUNS)


def cells(means: dict[tuple[str, float], float], count: int = 30) -> dict[Key, PaperCell]:
    return {(key := Key(PRINTED, *side)): drawn(key, mean, count) for side, mean in means.items()}


def sides(laplace: tuple[float, float], gaussian: tuple[float, float]) -> dict[tuple[str, float], float]:
    names = ((LAPLACE, 0.1), (LAPLACE, 0.2), (GAUSSIAN, 0.05), (GAUSSIAN, 0.2))
    return dict(zip(names, (*laplace, *gaussian), strict=True))


def test_the_orders_are_those_of_the_paper() -> None:
    assert [claim.order for claim in ORDERS.claims] == [
        "Laplace \u03b5=0.1 > Laplace \u03b5=0.2",
        "Gaussian \u03b5=0.05 > Gaussian \u03b5=0.2",
        "Gaussian \u03b5=0.2 > Laplace \u03b5=0.2",
    ]
    assert [claim.ratio for claim in ORDERS.claims] == pytest.approx([math.sqrt(2), 2.0, math.log(50) ** 0.25])


def test_a_clear_order_shows_and_chance_sees_it() -> None:
    found = cells(sides((5000.0, 3000.0), (6000.0, 4000.0)))
    assert [one.verdict for one in outcomes(PRINTED, found)] == ["holds"] * 3
    assert all(one.adjusted < 0.001 for one in outcomes(PRINTED, found))
    assert all_seen(found) > 0.99


def test_the_other_way_round_is_reversed() -> None:
    found = cells(sides((3000.0, 5000.0), (4000.0, 6000.0)))
    assert [one.verdict for one in outcomes(PRINTED, found)][:2] == ["fails"] * 2
    assert all(one.excluded for one in outcomes(PRINTED, found)[:2])


def test_equal_cells_do_not_show_and_are_in_order_as_often_as_chance_says() -> None:
    same = np.linspace(5000.0, 6000.0, 30)
    found = {key: runs(key, same) for key in cells(sides((1.0, 1.0), (1.0, 1.0)))}
    assert [one.verdict for one in outcomes(PRINTED, found)] == ["open"] * 3
    # Shares of 4000 resamples: 5 standard deviations are 0.034 and 0.026.
    assert all_seen(found, ORDERS.claims[:2]) == pytest.approx(0.25, abs=0.034)
    assert all_seen(found) == pytest.approx(0.125, abs=0.026)


def test_a_missing_cell_decides_nothing() -> None:
    found = cells({(LAPLACE, 0.1): 5000.0})
    assert outcomes(PRINTED, found) == ()


def test_bounds_are_the_products_of_table_1() -> None:
    common = 4**1.25 * 5**1.75 * 42_500**0.75 * math.log(4 * 42_500 / 0.1)
    assert printed_bound(LAPLACE, 0.25, EPISODES) == pytest.approx(2.0 * common)
    assert printed_bound(GAUSSIAN, 1.0, EPISODES) == pytest.approx(common * math.log(50) ** 0.25)


@pytest.mark.parametrize(("mechanism", "epsilon"), [(LAPLACE, 0.1), (GAUSSIAN, 0.05), (LAPLACE, 1e6)])
def test_from_the_stated_number_of_users_on_the_bound_says_something(mechanism: str, epsilon: float) -> None:
    levels = Levels.of(EPISODES)
    k = episodes_needed(mechanism, epsilon, levels, EPISODES)
    slope = levels.worst / EPISODES
    assert printed_bound(mechanism, epsilon, 0.9 * k) > slope * 0.9 * k
    assert printed_bound(mechanism, epsilon, 1.1 * k) < slope * 1.1 * k
