"""Names of lines by the labels of a config: of cells, of algorithms, and shared ones."""

from __future__ import annotations

import pytest

from dprl.platform.reports.charts import Chart, colours_of, report_charts
from dprl.platform.results.cells import Cell, told_apart
from tests.platform.reports.cases import NONE, jdp
from tests.platform.reports.chart_cases import LDP, chart, labelled, of, report_cell


def labels(found: Chart) -> list[str]:
    return [line.label for line in found.lines]


def test_lines_have_the_labels_that_a_config_gives_its_cells() -> None:
    cells = [report_cell(of("bernstein_vi", jdp(e))) for e in (1.0, 4.0)]
    named = [labelled(cell, cell_label=label) for cell, label in zip(cells, ("first", "second"), strict=True)]
    found = chart("curves", *named)
    assert labels(found) == ["first", "second"]


def test_cells_that_share_a_label_are_told_apart_by_what_differs() -> None:
    privacies = [NONE, jdp(1.0), jdp(4.0), LDP]
    cells = [labelled(report_cell(of("bernstein_vi", privacy)), cell_label="mine") for privacy in privacies]
    found = chart("frontier", *cells)
    assert sorted(labels(found)) == ["mine, central", "mine, local", "mine, no privacy"]
    curves = chart("curves", *cells)
    told = ["mine, central, \u03b5 = 1", "mine, central, \u03b5 = 4", "mine, local, \u03b5 = 1", "mine, no privacy"]
    assert sorted(labels(curves)) == told
    others = [labelled(report_cell(of("pucb", jdp(e))), cell_label="mine") for e in (1.0, 4.0)]
    both = chart("frontier", *told_apart([*cells[1:3], *others]))
    assert sorted(labels(both)) == ["mine (bernstein_vi)", "mine (pucb)"]


def test_the_label_of_an_algorithm_is_in_all_figures_also_alone() -> None:
    cells = [
        labelled(report_cell(of("bernstein_vi", privacy, horizon)), algorithm_label="Ours")
        for privacy in (NONE, jdp(1.0))
        for horizon in (3, 4)
    ]
    names = [one.name for one in report_charts(cells)]
    assert names == ["frontier", "horizon", "curves"]
    for one in report_charts(cells):
        for panel in one.panels:
            assert all(line.label.startswith("Ours") for line in panel.lines), one.name


def with_labels(**labels: str) -> list[Cell]:
    """Cells of two algorithms at three levels of privacy; those of pucb have twice the regret."""
    return [
        labelled(report_cell(of(name, privacy), [factor, 1.1 * factor, 1.2 * factor]), **labels)
        for name, factor in (("bernstein_vi", 1.0), ("pucb", 2.0))
        for privacy in (NONE, jdp(1.0), jdp(4.0))
    ]


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        ({"algorithm_label": "Ours"}, ("Ours (bernstein_vi)", "Ours (pucb)")),
        ({"algorithm_label": "pucb"}, ("pucb (bernstein_vi)", "pucb")),
        ({"cell_label": "mine", "algorithm_label": "Ours"}, ("mine (bernstein_vi)", "mine (pucb)")),
    ],
)
def test_algorithms_that_share_a_label_have_their_own_lines(labels: dict[str, str], names: tuple[str, str]) -> None:
    cells = told_apart(with_labels(**labels))
    found = chart("frontier", *cells)
    private = [line for line in found.lines if not line.free]
    assert [line.x.tolist() for line in private] == [[1.0, 4.0]] * 2
    assert private[1].y == pytest.approx(2.0 * private[0].y)
    assert [line.algorithm for line in private] == ["bernstein_vi", "pucb"]
    assert found.colours == colours_of(cells)
    texts = {line.label.replace(", central", "") for line in private}
    assert texts == {*names}
    assert len({line.label for line in found.lines}) == len(found.lines) == 4
    curves = chart("curves", *cells)
    assert len({line.label for line in curves.lines}) == len(curves.lines) == 6


def test_a_cell_and_an_algorithm_that_share_a_label_have_different_names() -> None:
    ours = labelled(report_cell(of("bernstein_vi", jdp(1.0))), cell_label="Ours")
    theirs = labelled(report_cell(of("pucb", jdp(1.0))), algorithm_label="Ours")
    found = chart("frontier", *told_apart([ours, theirs]))
    assert labels(found) == ["Ours (bernstein_vi)", "Ours (pucb)"]
