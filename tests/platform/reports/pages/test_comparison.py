"""`--compare` of two algorithms: ratios of their episodes to half regret, at equal noise only."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from dprl.platform.configs.experiment import read_experiment
from dprl.platform.reports.comparing.groups import groups_of
from dprl.platform.reports.comparing.report_cells import ReportCell
from dprl.platform.reports.documents.blocks import Heading, Paragraph, Section, Table
from dprl.platform.reports.pages.comparison import halving_comparison, no_ratio
from tests.platform.reports.cases import jdp, page, records, reported

OURS, OTHER = "private_ucb_vi", "bernstein_vi"
TITLE = f"{OURS} against {OTHER} at equal noise"
PRIVACY = jdp(1.0, delta=1e-6, families="separate", counter="binary_tree")
LESS = PRIVACY | {"families": "one_hot", "counter": "auto"}
SMALL: dict[str, Any] = {"bonus_scale": 0.03, "precision_scale": 0.03}


def cell(halved_at: float | None, name: str = OURS, privacy: dict[str, Any] = PRIVACY, **constants: Any) -> ReportCell:
    """A cell with the noise of its settings; all plan on one schedule if nothing else is said."""
    episodes = constants.pop("episodes", 1000)
    one = read_experiment(
        {
            "name": "try",
            "algorithm": {"name": name, "replan_growth": 0.1, "preset": "proved", **constants},
            "env": {"name": "riverswim", "n_states": 3, "horizon": 3},
            "privacy": privacy,
            "episodes": episodes,
            "seeds": 3,
        }
    )
    found = reported(one, records(one), halved_at=halved_at)
    return (
        found if halved_at is not None else replace(found, row={k: v for k, v in found.row.items() if k != "halved_at"})
    )


def compared(cells: list[ReportCell], one: str = OURS, other: str = OTHER) -> dict[str, list[dict[str, str]]]:
    """The rows of each table by header, for each heading."""
    found = {}
    for section in halving_comparison(groups_of(cells), one, other):
        if isinstance(section, Paragraph):
            continue
        assert isinstance(section, Section)
        heading, _, table = section.blocks
        assert isinstance(heading, Heading)
        assert isinstance(table, Table)
        columns, rows = table.plain()
        headers = [str(column.header) for column in columns]
        found[heading.text] = [dict(zip(headers, each, strict=True)) for each in rows]
    return found


def test_two_algorithms_are_compared_at_equal_privacy_and_scales() -> None:
    cells = [cell(50.0), cell(math.inf, OTHER), cell(240.0, OTHER, PRIVACY | {"delta": 0.0})]
    cells += [cell(60.0, episodes=900, **SMALL), cell(240.0, OTHER, episodes=900, **SMALL)]
    (line,) = compared(cells)[TITLE]
    assert line["environment"] == "riverswim (n_states=3, horizon=3, version=osband)"
    assert line["privacy"] == "jdp, certified \u03b5 = 1 at \u03b4 = 1e-06"
    assert (line["scales 1"], line["scales 0.03"]) == ("> 20 (>1000 / 50)", "4 (240 / 60)")
    (line,) = compared(cells, OTHER, OURS)[f"{OTHER} against {OURS} at equal noise"]
    assert (line["scales 1"], line["scales 0.03"]) == ("< 0.05 (50 / >1000)", "0.25 (60 / 240)")
    (line,) = compared([cell(math.inf), cell(math.inf, OTHER)])[TITLE]
    assert line["scales 1"] == "neither (>1000 / >1000)"


def test_a_ratio_never_mixes_algorithm_and_noise() -> None:
    found = compared([cell(200.0), cell(40.0, privacy=LESS), cell(20.0, OTHER, LESS)], OTHER, OURS)
    (line,) = found[f"{OTHER} against {OURS} at equal noise"]
    assert (line["noise"], line["scales 1"]) == ("one_hot auto", "2 (40 / 20)")
    (line,) = found["Effect of the noise at equal algorithms"]
    assert (line["algorithm"], line["scales 1"]) == (OURS, "0.2 (40 / 200)")
    assert line["noise: from, to"] == "one_hot auto, separate binary_tree"


def test_equal_settings_with_other_noise_are_in_no_ratio() -> None:
    """One that plans after every user needs more sums, and so more noise, than one with a schedule."""
    assert compared([cell(200.0, replan_growth=0.0), cell(20.0, OTHER)]) == {}


def test_a_ratio_never_mixes_settings_of_an_algorithm() -> None:
    cells = []
    for noise, halved_at in ((PRIVACY, 200.0), (LESS, 100.0)):
        cells += [cell(halved_at, privacy=noise), cell(0.4 * halved_at, privacy=noise, beta=0.2)]
        cells.append(cell(0.2 * halved_at, OTHER, noise))
    found = compared(cells)
    # The other algorithm has beta, too, and no cell with 0.2.
    assert {(line["settings"], line["noise"], line["scales 1"]) for line in found[TITLE]} == {
        ("beta=0.1", "separate binary_tree", "0.2 (40 / 200)"),
        ("beta=0.1", "one_hot auto", "0.2 (20 / 100)"),
    }
    noises = found["Effect of the noise at equal algorithms"]
    assert {(line["algorithm"], line["settings"], line["scales 1"]) for line in noises} == {
        (OURS, "beta=0.1", "0.5 (100 / 200)"),
        (OURS, "beta=0.2", "0.5 (40 / 80)"),
        (OTHER, "beta=0.1", "0.5 (20 / 40)"),
    }


def test_cells_without_regret_or_without_privacy_are_in_no_ratio() -> None:
    free = [cell(10.0, name, {"model": "none"}) for name in (OURS, OTHER)]
    assert compared(free) == {}
    optimal_from_the_start = [cell(None, name) for name in (OURS, OTHER)]
    assert compared(optimal_from_the_start) == {}


def labelled(found: ReportCell, label: str) -> ReportCell:
    return replace(found, row={**found.row, "algorithm_label": label})


def test_algorithms_may_be_named_by_their_labels() -> None:
    cells = [labelled(cell(50.0), "Ours"), labelled(cell(100.0, OTHER), "Theirs")]
    (line,) = compared(cells, "Ours", OTHER)[f"Ours against {OTHER} at equal noise"]
    assert line["scales 1"] == "2 (100 / 50)"
    (line,) = compared(cells, "Theirs", "Ours")["Theirs against Ours at equal noise"]
    assert line["scales 1"] == "0.5 (50 / 100)"


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        (
            [cell(10.0, name, {"model": "none"}) for name in (OURS, OTHER)],
            "no environment has cells of both with privacy",
        ),
        ([cell(None), cell(10.0, OTHER)], "no such pair of cells reports these episodes"),
        ([cell(200.0, replan_growth=0.0), cell(20.0, OTHER)], "no cells of both have the same privacy and noise"),
        (
            [cell(200.0), cell(20.0, OTHER, bonus_scale=0.1)],
            "at equal privacy and noise, constants of the algorithms differ (bonus_scale)",
        ),
    ],
)
def test_without_a_ratio_the_page_gives_the_reason(cells: list[ReportCell], why: str) -> None:
    told = f"No ratio of episodes to half regret of {OTHER} to {OURS}: {why}."
    assert no_ratio(groups_of(cells), OURS, OTHER) == told
    assert told in " ".join(page(cells, (OURS, OTHER)).replace("\\", "").split())


def test_two_cells_have_no_ratio_of_algorithms() -> None:
    cells = [cell(200.0), cell(20.0, OTHER)]
    assert no_ratio(groups_of(cells), OURS, OTHER) == ""
    assert no_ratio(groups_of(cells), OURS, "a label").endswith("this needs two algorithms, not cells.")


def test_cells_of_one_algorithm_with_other_noise_are_in_no_ratio() -> None:
    cells = [labelled(cell(200.0, replan_growth=0.0), "Each user"), labelled(cell(20.0), "Schedule")]
    assert compared(cells, "Each user", "Schedule") == {}
    assert no_ratio(groups_of(cells), "Each user", "Schedule").endswith("have the same privacy and noise.")
