"""Cells that ask for privacy and prove none: every text and figure states this, and none of them disappears."""

from __future__ import annotations

import io

from dprl.platform.reports.tables import write_summary
from dprl.platform.reports.verdicts import verdict_line
from tests.platform.message_cases import LAPLACE, NO_CLIPS, NONE, PRINTED, cell
from tests.platform.reports.cases import page, records, reported, summary, tables_of


def test_the_table_names_them() -> None:
    stream = io.StringIO()
    write_summary(stream, summary([cell(PRINTED), cell(NO_CLIPS), cell(NONE), cell(LAPLACE)]))
    rows = stream.getvalue().splitlines()[1:5]
    assert ["NO PRIVACY" in row for row in rows] == [True, True, True, False]
    line = verdict_line(cell(NO_CLIPS).certificate().to_dict())
    assert line.startswith("NO PRIVACY: noise as printed proves no finite epsilon")


def test_the_page_shows_claims_that_prove_nothing() -> None:
    cells = [reported(one, records(one)) for one in (cell(NONE), cell(PRINTED), cell(NO_CLIPS), cell(LAPLACE))]
    rows = tables_of(page(cells))[-1]
    nothing = ("\u2298 NO PRIVACY", "\u221e")
    assert sorted((row["Claim"], row["Certified \u03b5"]) for row in rows) == [
        nothing,
        nothing,
        ("\u25cb NO PRIVACY", "\u221e"),
        ("\u2713 holds", "4"),
    ]
    assert {row["Claimed \u03b5"] for row in rows} == {"", "4"}
