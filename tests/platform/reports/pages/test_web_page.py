"""The HTML of a report: order, parts, and forbidden content."""

from __future__ import annotations

import dataclasses
import math
import re
from pathlib import Path

import pytest

from dprl.platform.reports.documents.blocks import Rich
from dprl.platform.reports.documents.stylesheet import colour_name, stylesheet
from dprl.platform.reports.documents.web_page import inline_figure
from dprl.platform.reports.figures.colours import HUES, colours_of
from dprl.platform.reports.inference.effects import Effect
from dprl.platform.reports.pages import cell_tables
from dprl.platform.reports.pages.markup import BADGES, Strips, effect_inline, with_grey_interval
from dprl.platform.reports.pages.writing import SweepReport


@pytest.fixture(scope="module")
def report(finished: Path) -> SweepReport:
    return SweepReport.of(finished, ["small"])


@pytest.fixture(scope="module")
def page(report: SweepReport, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("page")
    return report.write(folder, "dprl report small", "<b>&title")[0].read_text()


def test_the_answer_stands_before_its_figure_and_figures_before_tables(page: str) -> None:
    parts = ["<h1>", 'class="lead"', "<figure>", 'class="cards"', 'class="budgets"', 'id="curves"', 'id="claims"']
    places = [page.index(part) for part in [*parts, 'id="cells"', 'id="methods"']]
    assert places == sorted(places)
    assert "private_ucb_vi at certified" in re.findall(r"<h1>(.*?)</h1>", page)[0]
    assert "Not finished." not in page


def test_the_page_is_one_file_without_scripts_or_requests(page: str) -> None:
    assert "<script" not in page
    assert re.findall(r'(?:src|href)="(?!#|data:)([^"]*)"', page) == []
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)


def test_text_of_users_is_escaped(page: str) -> None:
    assert "<b>&title" not in page
    assert "&lt;b&gt;&amp;title" in page


def test_ids_are_unique_and_references_are_met(page: str) -> None:
    """Figures from one library have equal ids, and browsers would confuse them."""
    found = re.findall(r'\bid="([^"]*)"', page)
    assert len(found) == len(set(found))
    assert set(re.findall(r'(?:href="|url\()#([^")]*)', page)) <= set(found)
    markers = re.findall("<use [^>]*>", page)
    assert markers
    assert all(' href="#' in marker for marker in markers)


def test_verdicts_are_counted_and_failing_claims_named(report: SweepReport, page: str) -> None:
    for key in ("holds", "fails"):
        assert BADGES[key].inline.html in page
    claims = page[page.index('id="claims"') : page.index('id="cells"')]
    failing = sum(cell.row["verdict"] == "fails" for cell in report.cells)
    assert f"<b>{failing} cells:</b> private_ucb_vi, central, printed noise, certifies" in claims


def test_badges_differ_in_more_than_colour() -> None:
    badges = [badge for key, badge in BADGES.items() if key != "reference"]
    assert len({badge.icon for badge in badges}) == len({badge.words for badge in badges}) == len(badges)


def test_a_large_table_is_cut_and_says_so(report: SweepReport, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cell_tables, "_MOST_ROWS", 4)
    page = report.write(tmp_path, "a test")[0].read_text()
    table = page[page.index('<table class="all') :]
    assert table.count("<tr") == 1 + 4
    assert "4 further cells are in <code>report.csv</code>" in table


def test_a_note_of_all_cells_is_said_once(report: SweepReport, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cell_tables, "_note", lambda _: "covered by Theorem 0")
    page = report.write(tmp_path, "again")[0].read_text()
    assert page.count("covered by Theorem 0") == 1
    assert ">Note</th>" not in page


def test_every_colour_of_figures_has_a_counterpart_in_the_dark(report: SweepReport, page: str) -> None:
    used = set(re.findall(r"var\((--c[0-9A-F]{6})", page))
    light, dark = re.findall(r":root\{([^}]*)\}", page)[:2]
    for name in used:
        assert f"{name}:" in light
        assert f"{name}:" in dark
    assert used > {colour_name(colours_of(["private_ucb_vi"])["private_ucb_vi"].line)}


def test_the_style_sheet_has_a_class_for_each_algorithm() -> None:
    text = stylesheet(HUES, [])
    assert all(f".p{i}{{" in text for i in range(len(HUES)))


def test_figures_have_no_size_of_their_own(report: SweepReport) -> None:
    from dprl.platform.reports.figures.catalogue import report_charts  # noqa: PLC0415

    element = inline_figure(report_charts(report.cells)[0], "x")
    head = element[: element.index(">")]
    assert "viewBox" in head
    assert "width" not in head


def test_numbers_have_their_intervals_in_grey() -> None:
    assert str(with_grey_interval("0.01 [0, 1]")) == "0.01 [0, 1]"
    assert with_grey_interval("0.01 [0, 1]").html == '0.01 <span class="iv">[0, 1]</span>'
    assert with_grey_interval("<1").html == "&lt;1"
    found = effect_inline(Effect(58.0, 45.0, 75.0, math.nan, "log"))
    assert isinstance(found, Rich)
    assert str(found) == "58\u00d7 [45, 75]"
    assert found.html == '<b>58\u00d7</b> <span class="iv">[45, 75]</span>'


def test_strips_share_an_axis_and_leave_out_what_is_no_ratio() -> None:
    ratios = [Effect(10.0, 5.0, 20.0, math.nan, "log"), Effect(1000.0, math.nan, math.nan, math.nan, "log")]
    strips = Strips([*ratios, Effect(-3.0, -4.0, -2.0, math.nan, "linear"), None])
    assert strips.ticks == [10.0, 100.0, 1000.0]
    assert "1,000\u00d7" in strips.header().html
    assert 'class="grid"' in strips.strip(ratios[0], "p0").html
    assert strips.strip(None, "p0").html == ""
    assert Strips([ratios[1]]).strip(ratios[1], "p0").html == ""


def test_a_report_without_claims_asks_nothing_about_claims(report: SweepReport, tmp_path: Path) -> None:
    free = [dataclasses.replace(group, cells=tuple(c for c in group.cells if not c.private)) for group in report.groups]
    page = dataclasses.replace(report, groups=free).write(tmp_path, "a test")[0].read_text()
    assert "Do the claims hold?" not in page
    assert "Results without privacy" in page
