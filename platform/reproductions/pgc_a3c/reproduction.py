"""The reproduction of [OT20]: its sweep, the page with its figures, and the same for a terminal and for programs."""

from __future__ import annotations

import math
from typing import Any

from dprl.algorithms.pgc_a3c.random_search import first_successes
from dprl.envs import CartPole, CartPoleGravity
from dprl.platform.reports.verdicts import standing
from dprl.platform.reproductions.pgc_a3c.best import best_cells
from dprl.platform.reproductions.pgc_a3c.figures import scores_figure, success_figure
from dprl.platform.reproductions.pgc_a3c.page import FIGURE_READINGS, FIGURES, Material, Search, page
from dprl.platform.reproductions.pgc_a3c.published import TARGET, TRIALS
from dprl.platform.reproductions.pgc_a3c.results import TABLES, inside
from dprl.platform.reproductions.pgc_a3c.sentences import SENTENCES
from dprl.platform.reproductions.pgc_a3c.trials import Key, Trials, trials_by_key
from dprl.platform.reproductions.request import Reproduced, Request
from dprl.platform.reproductions.resampling import Estimate, estimate, mean, median, share
from dprl.platform.reproductions.running import run_cells, write_page
from dprl.privacy import Streams

CONFIG = "pgc_a3c_table"
NAME = "pgc_a3c"
PAGE = "reproduction_pgc_a3c.md"
SEARCHES = 400


def reproduce(request: Request) -> Reproduced:
    """Run what is not finished of the sweep, and write the page into <home>/reproductions/pgc_a3c[_quick].

    Raises UserError if the sweep cannot start; no page is written while cells are missing.
    """
    ran = run_cells(request, CONFIG, NAME, TRIALS)
    if not ran.complete:
        return Reproduced(NAME, None, ran.folder, [], {}, ran.failed)
    search = _search(CartPoleGravity().build(), request.searches or SEARCHES)
    material = Material(trials_by_key(ran.cells), search, best_cells(request.home.resolve()), ran.made)
    readings = [reading for reading in FIGURE_READINGS if reading in material.readings]
    drawn = {
        FIGURES[0]: scores_figure(material.trials, readings),
        FIGURES[1]: success_figure(material.trials, readings),
    }
    written = write_page(ran.page_folder, PAGE, page(material), drawn)
    return Reproduced(NAME, written, ran.folder, _verdicts(material), _data(material), ran.failed)


def _search(env: CartPole, runs: int) -> Search:
    """Run the random searches; their draws are the same in every reproduction."""
    streams = Streams(0, "random search")
    greedy = first_successes(env, runs, streams, TARGET)
    return Search(greedy, first_successes(env, runs, streams, TARGET, exploring=True))


def _verdicts(material: Material) -> list[list[str]]:
    """Return a table for a terminal: what of the paper comes out, by reading. The first row are headers."""
    readings = material.readings
    rows = [["", *readings]]
    for one in TABLES:
        counts = (inside(one.entries(reading, material.trials)) for reading in readings)
        rows.append([f"Table {one.number}: inside our range", *(f"{hits} of {asked}" for hits, asked in counts)])
    for sentence, by_reading in zip(SENTENCES, material.findings, strict=True):
        shown = {"not run": "-"}
        verdicts = (shown.get(finding.verdict, finding.verdict) for finding in by_reading.values())
        rows.append([sentence.quote.text, *verdicts])
    return rows


def _data(material: Material) -> dict[str, Any]:
    """Return all numbers of the page as plain data."""
    entries = [
        {
            "table": one.number,
            **_named(entry.key),
            "published": entry.published,
            "ours": _interval(entry.ours),
            "first_20": entry.first,
            "range_of_20": list(entry.spread),
            "inside": entry.inside,
        }
        for one in TABLES
        for reading in material.readings
        for entry in one.entries(reading, material.trials)
    ]
    sentences = [
        {
            "sentence": sentence.quote.text,
            "place": sentence.quote.place,
            "verdicts": {reading: finding.verdict for reading, finding in by_reading.items()},
            "comparisons": {
                reading: {label: one._asdict() for label, one in finding.comparisons.items()}
                for reading, finding in by_reading.items()
            },
        }
        for sentence, by_reading in zip(SENTENCES, material.findings, strict=True)
    ]
    search = {
        name: {"runs": len(found), "first_success": _interval(estimate(found, median))}
        for name, found in (("greedy", material.search.greedy), ("exploring", material.search.exploring))
    }
    cells = [_cell(key, cell) for key, cell in material.trials.items()]
    return {"tables": entries, "sentences": sentences, "cells": cells, "random_search": search}


def _cell(key: Key, cell: Trials) -> dict[str, Any]:
    stands = standing(cell.certificate)
    return {
        **_named(key),
        "trials": cell.count,
        "submissions": cell.submissions,
        "first_success": _interval(estimate(cell.first_success, median)),
        "success": _interval(share(cell.succeeded)),
        "area": _interval(estimate(cell.area, mean)),
        "mean_score": _interval(estimate(cell.mean_score, mean)),
        "final_score": _interval(estimate(cell.final_score, mean)),
        "verdict": stands.verdict,
        "proved_epsilon": stands.proved,
    }


def _named(key: Key) -> dict[str, Any]:
    epsilon = None if math.isinf(key.epsilon) else key.epsilon
    return {**key._asdict(), "epsilon": epsilon}


def _interval(found: Estimate) -> dict[str, float]:
    return found._asdict()
