"""`dprl report --compare A B` declares one more comparison."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dprl.platform.errors import UserError
from dprl.platform.results.cells import Cell, told_apart
from dprl.platform.results.compare import groups_of, with_comparison
from tests.platform.results.cases import report_cell

SCALE = "algorithm.bonus_scale"
CELLS = [
    report_cell([10.0, 11.0, 12.0], **dict[str, Any]({SCALE: 1.0})),
    report_cell([30.0, 31.0, 32.0], claimed=3.0, proved=3.0, algorithm="pucb", **dict[str, Any]({SCALE: 0.1})),
    report_cell([40.0, 41.0, 42.0], algorithm="pucb", **dict[str, Any]({SCALE: 1.0})),
    report_cell([50.0, 51.0, 52.0], algorithm="pucb", **dict[str, Any]({SCALE: 0.1})),
]


def test_two_cells_are_compared_whatever_they_differ_in() -> None:
    (group,) = groups_of(CELLS)
    first, second = (str(CELLS[i].row["cell"]) for i in (0, 1))
    (asked,) = with_comparison([group], first, second[:8])
    added = asked.comparisons.keys() - group.comparisons.keys()
    assert {asked.comparisons[pair].kind for pair in added} == {"compare"}
    assert {frozenset(asked.cells[i].row["cell"] for i in pair) for pair in added} == {frozenset({first, second})}
    assert len(asked.comparisons) == len(group.comparisons) + 1


def test_two_cells_are_named_by_their_labels() -> None:
    cells = [replace(cell, row={**cell.row, "label": f"cell {i}"}) for i, cell in enumerate(CELLS)]
    (asked,) = with_comparison(groups_of(cells), "cell 0", "cell 3")
    ((one, other),) = asked.asked
    assert [asked.cells[i].row["label"] for i in (one, other)] == ["cell 0", "cell 3"]


def test_two_algorithms_are_compared_at_the_same_privacy_and_noise() -> None:
    (group,) = groups_of(CELLS)
    (asked,) = with_comparison([group], "private_ucb_vi", "pucb")
    (pair,) = asked.comparisons.keys() - group.comparisons.keys()
    assert {round(float(asked.cells[i].finals[0])) for i in pair} == {10, 50}


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (("private_ucb_vi", "pucbb"), "--compare: must be algorithms, labels or digests of cells, got 'pucbb'"),
        (("private_ucb_vi", "private_ucb_vi"), "--compare: must have cells of the same environment, privacy and noise"),
    ],
)
def test_what_cannot_be_compared_is_refused(names: tuple[str, str], told: str) -> None:
    with pytest.raises(UserError, match=told):
        with_comparison(groups_of(CELLS), *names)


def labelled(*labels: str) -> list[Cell]:
    cells = zip(CELLS, labels, strict=True)
    return [replace(cell, row={**cell.row, "algorithm_label": label}) for cell, label in cells]


def test_two_algorithms_are_named_by_their_labels() -> None:
    cells = labelled("Ours", "Paper", "Paper", "Paper")
    (asked,) = with_comparison(groups_of(cells), "Paper", "Ours")
    (by_name,) = with_comparison(groups_of(cells), "pucb", "private_ucb_vi")
    assert asked.asked == by_name.asked != ()


def test_labels_distinguish_settings_of_one_algorithm() -> None:
    cells = labelled("Ours", "Slow", "Slow", "Fast")
    (asked,) = with_comparison(groups_of(cells), "Ours", "Fast")
    ((one, other),) = asked.asked
    assert [asked.cells[i].row["algorithm_label"] for i in (one, other)] == ["Ours", "Fast"]


@pytest.mark.parametrize(("label", "known"), [("Both", "Both (pucb)"), ("pucb", "pucb")])
def test_a_label_of_two_algorithms_names_neither_of_them(label: str, known: str) -> None:
    groups = groups_of(told_apart(labelled(label, label, label, label)))
    names = {"pucb": known, "private_ucb_vi": f"{label} (private_ucb_vi)"}
    assert all(cell.row["algorithm_label"] == names[cell.row["algorithm.name"]] for cell in groups[0].cells)
    (asked,) = with_comparison(groups, *names.values())
    assert asked.asked
    if label != known:
        with pytest.raises(UserError, match=rf"got '{label}'; .*Both \(private_ucb_vi\), Both \(pucb\)"):
            with_comparison(groups, label, "pucb")


def test_a_misspelt_label_is_suggested() -> None:
    with pytest.raises(UserError, match="Paper"):
        with_comparison(groups_of(labelled("Ours", "Paper", "Paper", "Paper")), "Papr", "Ours")
