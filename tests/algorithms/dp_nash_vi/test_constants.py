"""Constants proved in docs/proofs/dp_nash_vi.md: page and code agree, and a config states whether it is covered."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dprl.algorithms import DPNashVIConfig
from dprl.algorithms.dp_nash_vi.algorithm import ALWAYS_ENOUGH, _Sizes, enough, least_scale
from dprl.envs import RandomGame
from dprl.envs.games import MarkovGame
from dprl.privacy import CountPrivacy, Streams

PAGE_BETA = 0.05


def sizes(n_states: int, horizon: int, pairs: int, episodes: float, e: float) -> _Sizes:
    iota = math.log(30.0 * horizon * n_states * pairs * episodes / PAGE_BETA)
    return _Sizes(n_states, horizon, int(episodes), e, iota)


def rows_of_the_page(root: Path) -> list[list[float]]:
    """The table of Corollary 3: S, H, A B, K, E, iota, least scale."""
    lines = (root / "docs/proofs/dp_nash_vi.md").read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if "least scale by" in line)
    cells = [line.strip("| ").split("|") for line in lines[start + 2 : start + 10]]
    return [[float(cell.strip().replace("10^", "1e")) for cell in row] for row in cells]


def test_least_scales_are_those_of_the_page(root: Path) -> None:
    rows = rows_of_the_page(root)
    assert len(rows) == 8
    for n_states, horizon, pairs, episodes, e, iota, scale in rows:
        found = sizes(int(n_states), int(horizon), int(pairs), episodes, e)
        assert found.iota == pytest.approx(iota, abs=0.05)
        assert least_scale(found) == pytest.approx(scale, abs=6e-4)


def random_sizes(seed: int) -> _Sizes:
    rng = np.random.default_rng(seed)
    n_states, horizon, pairs = (int(rng.integers(low, 30)) for low in (2, 2, 1))
    e = 0.0 if seed % 4 == 0 else float(10.0 ** rng.uniform(-3, 6))
    return sizes(n_states, horizon, pairs, 10.0 ** rng.uniform(0, 9), e)


@pytest.mark.parametrize("seed", range(200))
def test_what_is_enough_stays_enough_and_the_least_is_least(seed: int) -> None:
    found = random_sizes(seed)
    least = least_scale(found)
    assert 0.0 < least <= ALWAYS_ENOUGH
    for factor in (1.0, 1.01, 1.3, 2.0, 10.0):
        assert enough(factor * least, factor * least, found)
    assert not enough(0.999 * least, 0.999 * least, found)
    # Corollary 1 holds for all sizes, Corollary 2 with this much noise.
    assert enough(1.0, ALWAYS_ENOUGH, found)
    if found.episodes + found.e <= 11 * found.n_states**2 * found.e**2 * found.iota:
        assert enough(1.0, 1.0, found)


@pytest.mark.parametrize(("n_states", "horizon"), [(1, 5), (5, 1)])
def test_with_nothing_to_estimate_no_bonus_is_needed(n_states: int, horizon: int) -> None:
    assert least_scale(sizes(n_states, horizon, 4, 1e4, 10.0)) == 0.0
    assert enough(1e-9, 1e-9, sizes(n_states, horizon, 4, 1e4, 10.0))


def planned_numbers(**settings: Any) -> Any:
    game: MarkovGame = RandomGame(n_states=2, n_max_actions=2, n_min_actions=3, horizon=4).build()
    config, streams = DPNashVIConfig(**settings), Streams(0, "constants")
    privatizer = config.privatizer(game, CountPrivacy("jdp", 2.0), 500, streams)
    return config.bonus(game, privatizer, 500).bonus


def test_proved_constants_are_the_least_ones_for_the_noise_that_runs() -> None:
    given, proved = planned_numbers(), planned_numbers(constants="proved")
    iota = math.log(30.0 * 4 * 2 * 2 * 3 * 500 / 0.1)
    scale = least_scale(_Sizes(2, 4, 500, given.e, iota))
    assert proved.e == given.e > 0.0
    assert 0.0 < scale < 1.0
    for name in ("per_gap", "per_deviation", "per_count"):
        assert getattr(proved, name) == pytest.approx(scale * getattr(given, name), rel=1e-12)
    doubled = planned_numbers(constants="proved", precision_scale=2.0)
    assert doubled.e == pytest.approx(2.0 * given.e, rel=1e-12)
    assert 4 * doubled.per_gap == pytest.approx(least_scale(_Sizes(2, 4, 500, 2.0 * given.e, iota)), rel=1e-12)
    twice = planned_numbers(constants="proved", bonus_scale=2.0)
    assert twice.per_count == pytest.approx(2.0 * proved.per_count, rel=1e-12)


@pytest.mark.parametrize(
    ("settings", "covered"),
    [
        ({}, False),
        ({"c2": 1.42}, True),
        ({"bonus_scale": 1.42}, True),
        ({"bonus_scale": 0.5, "c1": 2.0, "c2": 3.0}, True),
        ({"c1": 0.9, "c2": 3.0}, False),
        ({"c2": 1.42, "precision_scale": 0.5}, False),
        ({"constants": "proved"}, True),
        ({"constants": "proved", "replan_growth": 0.1}, True),
        ({"constants": "proved", "bonus_scale": 0.9}, False),
        ({"constants": "proved", "bonus_scale": 0.5}, False),
        ({"constants": "proved", "precision_scale": 0.9}, False),
    ],
)
def test_a_config_says_whether_its_bounds_are_proved(settings: dict[str, Any], covered: bool) -> None:
    assert (DPNashVIConfig(**settings).covered_by is not None) == covered


@pytest.mark.parametrize("key", ["c1", "c2"])
def test_proved_constants_leave_nothing_to_choose(key: str) -> None:
    with pytest.raises(ValueError, match=rf"^{key} must be left out with constants proved, got 0.3; write") as caught:
        replace(DPNashVIConfig(constants="proved"), **{key: 0.3})  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "covered"),
    [
        ({}, True),  # Corollary 2: this much noise
        ({"bonus_scale": 0.95}, True),  # Corollary 3
        ({"bonus_scale": 0.01}, False),
        ({"c1": 0.0}, False),
        ({"precision_scale": 0.99}, False),
        ({"constants": "proved"}, True),
        ({"constants": "proved", "bonus_scale": 0.9}, False),
    ],
)
def test_a_run_is_covered_by_what_holds_for_its_noise(settings: dict[str, Any], covered: bool) -> None:
    game: MarkovGame = RandomGame(n_states=2, n_max_actions=2, n_min_actions=3, horizon=4).build()
    config, streams = DPNashVIConfig(**settings), Streams(0, "covered")
    privatizer = config.privatizer(game, CountPrivacy("jdp", 2.0), 500, streams)
    run = config.build(game, privatizer, 500, streams)
    assert (run.theorem is not None) == covered
    used = config.bonus(game, privatizer, 500).bonus
    assert run.derived["c1"] == pytest.approx(4 * used.per_gap, rel=1e-12)
    assert run.derived["e"] == used.e


def test_other_constants_are_refused_in_one_line() -> None:
    with pytest.raises(ValueError, match=r"^constants must be one of given, proved, got 'prooved'; choose") as caught:
        DPNashVIConfig(constants="prooved")  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
