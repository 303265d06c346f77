"""The page on where epsilon is spent: up to date, complete, and all of its symbols exist.

`DPRL_WRITE_GOLDEN=1 pytest tests/docs/test_where_epsilon_is_spent.py` rewrites it.
"""

from __future__ import annotations

import os
import re

import pytest

from dprl.privacy.counters import COUNTERS
from dprl.privacy.mechanisms import ADDITIVE, GRAMS, VECTORS
from dprl.privacy.mechanisms.sampled import SampledGaussian
from dprl.privacy.queries.count_calibration import report_names
from dprl.privacy.trust_models import TRUST_MODELS
from tests.docs.epsilon_page import PAGE, ROOT, file_of, page, resolved, rows, symbols


def test_the_page_is_up_to_date() -> None:
    found = page()
    if os.environ.get("DPRL_WRITE_GOLDEN") == "1":
        PAGE.write_text(found)
    assert PAGE.read_text() == found, "generate the page anew: see the docstring of this file"


def test_its_symbols_exist() -> None:
    for code, lemma in symbols().values():
        resolved(code)
        assert (ROOT / file_of(code)).is_file(), code
        assert lemma, code
    named = {name for name in re.findall(r"`([A-Za-z_.]+)`", PAGE.read_text()) if name[0].isupper()}
    assert named <= symbols().keys()


def test_a_symbol_that_does_not_exist_is_found() -> None:
    with pytest.raises(AttributeError):
        resolved("dprl.privacy.ledger:Ledger.forgive")


def test_everything_in_the_registries_is_on_it() -> None:
    for query, models in TRUST_MODELS.items():
        assert {row.model for row in rows(query)} == set(models), query
    text = " ".join(" ".join(row[:5]) for query in TRUST_MODELS for row in rows(query))
    laws = {law.name for law in ADDITIVE.values() if law.places}
    names = (*laws, *VECTORS, *GRAMS, *COUNTERS, *report_names(), SampledGaussian.name)
    assert {name for name in names if f"`{name}`" not in text} <= {"auto"}
