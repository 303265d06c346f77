"""Orders found in made-up runs with a known answer, and the size of the printed bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dprl.platform.reproductions.claims import Key, PaperCell
from dprl.platform.reproductions.ma_ldp import (
    EPISODES,
    GAUSSIAN,
    LAPLACE,
    ORDERS,
    PAPER,
    PRINTED,
    at_random,
    levels,
    outcomes,
)
from tests.platform.reproductions.ma_ldp.cases import drawn, every_cell, runs


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
    assert min(one.difference.seen for one in outcomes(PRINTED, found)) > 0.99


def test_the_other_way_round_is_reversed() -> None:
    found = cells(sides((3000.0, 5000.0), (4000.0, 6000.0)))
    assert [one.verdict for one in outcomes(PRINTED, found)][:2] == ["fails"] * 2
    assert all(one.excluded for one in outcomes(PRINTED, found)[:2])


def test_equal_cells_do_not_show_and_are_in_order_as_often_as_chance_says() -> None:
    same = np.linspace(5000.0, 6000.0, 30)
    found = {key: runs(key, same) for key in cells(sides((1.0, 1.0), (1.0, 1.0)))}
    assert [one.verdict for one in outcomes(PRINTED, found)] == ["open"] * 3
    # Shares of 4000 resamples: 5 standard deviations are 0.04.
    assert [one.difference.seen for one in outcomes(PRINTED, found)] == pytest.approx([0.5] * 3, abs=0.04)


def test_a_missing_cell_decides_nothing() -> None:
    found = cells({(LAPLACE, 0.1): 5000.0})
    assert outcomes(PRINTED, found) == ()


def test_cells_at_the_level_of_random_actions_are_not_distinguished() -> None:
    key, level, cells = Key(PRINTED, LAPLACE, 0.1), levels(EPISODES)["uniform"], every_cell()
    assert at_random({**cells, key: runs(key, np.linspace(4000.0, 4200.0, 30))})[key] < 1e-6
    assert at_random({**cells, key: runs(key, np.full(30, level))})[key] == 1.0


@pytest.mark.parametrize("count", [2, 30])
def test_the_page_has_each_order_once_and_says_what_is_not_private(count: int) -> None:
    text = PAPER.page(every_cell(count), ["Made by a test."])
    rows = [line for line in text.splitlines() if "| Theorem " in line]
    assert len(rows) == 6 * 3
    assert sum("NOT PRIVATE" in row for row in rows) == 2 * 3
    assert f"{count} runs of 8,500 users" in text
    assert "nan" not in text
