"""The HTML of a report: order, parts, and forbidden content."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dprl.platform.reports.report import SweepReport
from dprl.platform.reports.verdicts import VERDICTS, badge


@pytest.fixture(scope="module")
def page(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("page")
    report = SweepReport.of(finished, ["small"])
    return report.write(folder, "dprl report small", "<b>&title")[0].read_text()


def test_the_answer_stands_before_its_figure_and_figures_before_tables(page: str) -> None:
    parts = ["<h1>", "<figure>", 'id="budgets"', 'id="curves"', 'id="claims"']
    places = [page.index(part) for part in [*parts, 'id="cells"', 'id="methods"']]
    assert places == sorted(places)
    assert "Not finished." not in page
    for key in ("holds", "fails"):
        assert badge(key) in page


def test_the_page_is_one_file_without_scripts_or_requests(page: str) -> None:
    assert "<script" not in page
    assert re.findall(r'(?:src|href)="(?!#|data:)([^"]*)"', page) == []
    assert not re.search(r"@import|url\(", page)


def test_text_of_users_is_escaped(page: str) -> None:
    assert "<b>&title" not in page
    assert "&lt;b&gt;&amp;title" in page


def test_badges_differ_in_more_than_colour() -> None:
    assert len({verdict.badge[0] for verdict in VERDICTS.values()}) == len(VERDICTS)
