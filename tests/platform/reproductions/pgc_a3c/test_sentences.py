"""Which sentences hold, in made-up trials with a known answer."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dprl.platform.reproductions.claims import Key, Outcome, PaperCell, Sentence, Verdict, verdict_of
from dprl.platform.reproductions.claims import decide as decided
from dprl.platform.reproductions.pgc_a3c import ELEMENTWISE, LAPLACE, PROJECTED, RUNS, SENTENCES
from tests.platform.reproductions.pgc_a3c.cases import every_cell, trials

LAPLACE_FALLS, PROJECTED_SOONER, NON_PRIVATE, WEAK_PRIVACY = (SENTENCES[place] for place in (2, 3, 6, 15))


def decide(sentence: Sentence, reading: str, cells: dict[Key, PaperCell]) -> tuple[Outcome, ...]:
    return decided(sentence, reading, cells, RUNS)


def around(median: float, count: int = 100) -> PaperCell:
    """Trials whose first successes lie within 10 % of the median."""
    return trials(median * np.linspace(0.9, 1.1, count))


def falling(order: tuple[float, ...]) -> dict[Key, PaperCell]:
    medians = dict(zip((1.0, 2.0, 5.0, 10.0), order, strict=True))
    return {Key("R1", LAPLACE, epsilon, 1): around(median) for epsilon, median in medians.items()}


@pytest.mark.parametrize(
    ("order", "verdict"),
    [
        ((40_000, 30_000, 20_000, 10_000), "holds"),
        ((40_000, 30_000, 20_000, 20_000), "open"),
        ((40_000, 20_000, 30_000, 10_000), "fails"),
        ((math.inf, 30_000, 20_000, 10_000), "holds"),
    ],
)
def test_laplace_falls_only_if_each_step_falls(order: tuple[float, ...], verdict: Verdict) -> None:
    assert verdict_of(decide(LAPLACE_FALLS, "R1", falling(order))) == verdict


def test_a_sentence_about_cells_that_were_not_run_is_not_decided() -> None:
    found = decide(LAPLACE_FALLS, "literal", falling((4.0, 3.0, 2.0, 1.0)))
    assert found == ()
    assert verdict_of(found) == "not run"


def test_larger_areas_belong_to_earlier_successes() -> None:
    cells = {Key("R1", LAPLACE, 10.0, 1): around(30_000), Key("R1", PROJECTED, 10.0, 100): around(10_000)}
    found = decide(WEAK_PRIVACY, "R1", cells)
    assert verdict_of(found) == "fails"
    (comparison,) = (one.difference for one in found)
    assert comparison.difference == pytest.approx(-20_000 / 90_000)
    assert comparison.seen == 0.0


def test_earlier_medians_are_better_results() -> None:
    cells: dict[Key, PaperCell] = {}
    for epsilon in (2.0, 5.0):
        cells |= {Key("R1", LAPLACE, epsilon, 1): around(30_000), Key("R1", PROJECTED, epsilon, 100): around(10_000)}
    assert verdict_of(decide(PROJECTED_SOONER, "R1", cells)) == "holds"


@pytest.mark.parametrize(("failures", "verdict"), [(0, "holds"), (4, "open"), (40, "fails")])
def test_all_succeed_only_if_no_trial_fails(failures: int, verdict: Verdict) -> None:
    first = np.where(np.arange(100) < failures, math.inf, 1000.0)
    cells = {Key("R1", ELEMENTWISE, math.inf, size): trials(first) for size in (1, 100)}
    found = decide(NON_PRIVATE, "R1", cells)
    assert verdict_of(found) == verdict
    expected = (1 - failures / 100) ** 20
    assert [one.difference.seen for one in found] == pytest.approx([expected, expected])


def test_the_sweep_has_every_cell_that_a_sentence_is_about() -> None:
    cells = every_cell(3)
    assert all(decide(one, "R1", cells) for one in SENTENCES)
