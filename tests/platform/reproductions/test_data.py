"""Data of both papers from made-up cells, against digests kept before the reproductions became data."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from dprl.platform.commands.base import json_text
from dprl.platform.reproductions import ma_ldp as ma_ldp_paper
from dprl.platform.reproductions import pgc_a3c as pgc_a3c_paper
from dprl.platform.reproductions.engine import Paper
from tests.platform.reproductions.ma_ldp import cases as ma_ldp
from tests.platform.reproductions.pgc_a3c import cases as pgc_a3c

KEPT = {
    "ma_ldp": {
        "levels": "299deb1e8955da88",
        "orders": "a4fed9f8b23a0b77",
        "cells": "f8e6470d38b73da8",
        "guarantees": "99e558cf99a479d4",
    },
    "pgc_a3c": {
        "tables": "3fc44b55777e78af",
        "sentences": "67cde51d05cd67eb",
        "cells": "fe22ae35bc7144eb",
    },
}
"""Digests by paper and entry; numbers are rounded to nine significant digits."""


def digest(found: object) -> str:
    return hashlib.sha256(json.dumps(_rounded(json.loads(json_text(found))), sort_keys=True).encode()).hexdigest()[:16]


def _rounded(found: Any) -> Any:
    if isinstance(found, dict):
        return {key: _rounded(value) for key, value in found.items()}
    if isinstance(found, list):
        return [_rounded(value) for value in found]
    return f"{found:.9g}" if isinstance(found, int | float) and not isinstance(found, bool) else found


@pytest.mark.parametrize(
    ("paper", "found"),
    [(ma_ldp_paper.PAPER, ma_ldp.every_cell), (pgc_a3c_paper.PAPER, pgc_a3c.every_cell)],
    ids=["ma_ldp", "pgc_a3c"],
)
def test_the_same_results_have_the_same_data(paper: Paper, found: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ma_ldp_paper, "attacked", dict)
    assert {name: digest(part) for name, part in paper.data(found(30)).items()} == KEPT[paper.name]
