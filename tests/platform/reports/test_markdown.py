"""Documents as Markdown: headings, tables, figures and cards."""

from __future__ import annotations

from dprl.platform.reports.documents.blocks import Block, Card, Facts, Heading, Paragraph, Section, Table
from dprl.platform.reports.documents.markdown import VERBATIM, markdown


def test_a_document_has_one_title_and_headings_below_it() -> None:
    blocks: list[Block] = [Heading("Title", 1), Heading("Other", 1), Heading("Small", 3), Paragraph("")]
    assert markdown("Title", blocks, "figures") == "# Title\n\n## Other\n\n### Small\n"


def test_tables_align_numbers_right_and_escape_bars() -> None:
    table = Table.of_texts(["name", "n"], [["a|b", "1"], ["c", "20"]], ["name"])
    assert markdown("T", [table], "") == "# T\n\n| name | n |\n| :-- | --: |\n| a\\|b | 1 |\n| c | 20 |\n"


def test_text_is_filled_unless_it_is_markdown_already() -> None:
    long = "word " * 40
    filled = markdown("T", [Paragraph(long, term="Note")], "").splitlines()[2:]
    assert filled[0].startswith("**Note.** word word")
    assert [len(line) <= 120 for line in filled] == [True, True]
    assert markdown("T", [Paragraph(long, VERBATIM)], "") == f"# T\n\n{long}\n"


def test_what_is_folded_has_a_heading_and_facts_are_a_list() -> None:
    folded = Section([Paragraph("text"), Paragraph("")], folded="More")
    facts = Facts("Title", [("a", "one"), ("b", "two")])
    card = Card("Central", "9\u00d7", "the regret", "[7, 11]", [], "")
    text = markdown("T", [folded, facts, Facts("", [("a", "one")]), card], "")
    assert "### More\n\ntext\n\n**Title**\n\n* **a**: one\n* **b**: two\n\n* **a**: one\n" in text
    assert text.endswith("\n\n* **Central**: 9\u00d7 [7, 11] the regret\n")
