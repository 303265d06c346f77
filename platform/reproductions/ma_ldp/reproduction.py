"""The reproduction of [TH23]: its sweep, the page with its figures, and the same for a terminal and for programs."""

from __future__ import annotations

import math
from typing import Any

from dprl.platform.reports.verdicts import standing
from dprl.platform.reproductions.ma_ldp.figures import cells_figure, regret_figure
from dprl.platform.reproductions.ma_ldp.guarantees import Guarantees
from dprl.platform.reproductions.ma_ldp.orders import all_seen, outcomes
from dprl.platform.reproductions.ma_ldp.page import AS_RUN, FIGURES, page
from dprl.platform.reproductions.ma_ldp.published import EPISODES, ORDERS, RUNS
from dprl.platform.reproductions.ma_ldp.runs import (
    ILLUSTRATION,
    ILLUSTRATION_MAXMIN,
    ILLUSTRATIONS,
    Key,
    Levels,
    Runs,
    runs_by_key,
)
from dprl.platform.reproductions.ma_ldp.tables import Found, at_random, standard_error
from dprl.platform.reproductions.request import Reproduced, Request
from dprl.platform.reproductions.resampling import estimate, mean
from dprl.platform.reproductions.running import run_cells, write_page

CONFIG = "ma_ldp_mechanisms"
NAME = "ma_ldp"
PAGE = "reproduction_ma_ldp.md"
TESTED = (*AS_RUN, *ILLUSTRATIONS)
_HEADERS = {ILLUSTRATION: "NOT PRIVATE", ILLUSTRATION_MAXMIN: "NOT PRIVATE, maxmin"}


def reproduce(request: Request) -> Reproduced:
    """Run what is not finished of the sweep, and write the page into <home>/reproductions/ma_ldp[_quick].

    Raises UserError if the sweep cannot start; no page is written while cells are missing.
    """
    ran = run_cells(request, CONFIG, NAME, RUNS)
    if not ran.complete:
        return Reproduced(NAME, None, ran.folder, [], {}, ran.failed)
    runs = runs_by_key(ran.cells)
    levels = Levels.of(max((cell.episodes for cell in runs.values()), default=EPISODES))
    found = Found(runs, levels, Guarantees.found(), ran.made)
    drawn = {FIGURES[0]: regret_figure(runs, levels), FIGURES[1]: cells_figure(runs, levels)}
    written = write_page(ran.page_folder, PAGE, page(found), drawn)
    return Reproduced(NAME, written, ran.folder, _verdicts(found), _data(found), ran.failed)


def _verdicts(found: Found) -> list[list[str]]:
    """Return a table for a terminal: which orders show. The first row are headers."""
    by_group = {group: {one.order: one for one in outcomes(group, found.runs)} for group in TESTED}
    shown = {group: results for group, results in by_group.items() if results}
    rows = [["", *(_HEADERS.get(group, group) for group in shown)]]
    for order in ORDERS:
        results = (by_order[order] for by_order in shown.values())
        rows.append([f"{order.theorem}: {order.label}", *(f"{one.verdict}, p {one.adjusted:.3f}" for one in results)])
    return rows


def _data(found: Found) -> dict[str, Any]:
    """Return all numbers of the page as plain data."""
    judged = at_random(found)
    orders = [
        {
            "group": group,
            "theorem": one.order.theorem,
            "order": one.order.label,
            "ratio_printed": one.order.ratio,
            "ratio": one.ratio._asdict(),
            "difference": one.difference._asdict(),
            "p": one.p,
            "p_holm": one.adjusted,
            "verdict": one.verdict,
        }
        for group in TESTED
        for one in outcomes(group, found.runs)
    ]
    cells = [{**_cell(key, cell), "p_not_random_holm": judged.get(key)} for key, cell in found.runs.items()]
    return {
        "levels": found.levels._asdict(),
        "orders": orders,
        "all_seen_in_10_runs": {group: all_seen(group, found.runs) for group in TESTED},
        "cells": cells,
        "guarantees": found.guarantees.to_dict(),
    }


def _cell(key: Key, cell: Runs) -> dict[str, Any]:
    stands = standing(cell.certificate)
    return {
        **key._asdict(),
        "epsilon": None if math.isinf(key.epsilon) else key.epsilon,
        "runs": cell.count,
        "episodes": cell.episodes,
        "regret": estimate(cell.regret, mean)._asdict(),
        "standard_error": standard_error(cell),
        "saturated": cell.saturated,
        "indefinite": cell.indefinite,
        "verdict": stands.verdict,
        "proved_epsilon": stands.proved,
    }
