"""Cells that ask for privacy and prove none: every text and figure states this, and none of them disappears."""

from __future__ import annotations

import io

import pytest

from dprl.platform.configs.experiment import Experiment
from dprl.platform.reports.tables import write_summary
from dprl.platform.reports.verdicts import certificate_text, verdict_line
from tests.platform.message_cases import LAPLACE, NO_CLIPS, NONE, PRINTED, cell
from tests.platform.reports.cases import page, records, reported, summary, tables_of


@pytest.mark.parametrize(
    ("one", "line"),
    [
        (cell(PRINTED), "NO PRIVACY: something is released without noise, epsilon is infinite"),
        (cell(NO_CLIPS), "NO PRIVACY: noise as printed proves no finite epsilon, claimed 4"),
        (cell(NONE), "NO PRIVACY: something is released without noise, epsilon is infinite"),
        (cell(LAPLACE), "HOLDS in simulation (seeded, float64-idealised): certified noise proves 4, claimed 4"),
    ],
    ids=["open rewards", "no clips", "none", "laplace"],
)
def test_texts_say_what_is_proved(one: Experiment, line: str) -> None:
    told = one.certificate().to_dict()
    assert verdict_line(told) == line
    text = certificate_text("one", told)
    assert text.startswith(f"one: {line}")


def test_the_scales_of_all_stages_are_reported() -> None:
    text = certificate_text("one", cell(LAPLACE | {"rewards": "public"}).certificate().to_dict())
    assert "statistics: gram_laplace, scale 6.553 to 26.21, 56 numbers" in " ".join(text.split())


def test_the_table_names_them() -> None:
    stream = io.StringIO()
    write_summary(stream, summary([cell(PRINTED), cell(NO_CLIPS), cell(NONE), cell(LAPLACE)]))
    rows = stream.getvalue().splitlines()[1:5]
    assert ["NO PRIVACY" in row for row in rows] == [True, True, True, False]


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
