"""`dprl run` and `dprl sweep`: the cells of a config, in this process or on Ray."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from dprl.platform.commands.base import (
    as_json,
    expanded_cells,
    interrupted,
    labels_of,
    planned_certificates,
    restarts_asked,
    say,
    stages_asked,
    stdout_for_results,
)
from dprl.platform.environment_variables import tracking_uri
from dprl.platform.errors import EXIT_DONE, EXIT_SOME_FAILED, complain, counted
from dprl.platform.reports.verdicts import verdict_line
from dprl.platform.results.home import home_folder

if TYPE_CHECKING:
    from dprl.platform.sweeps.workplace import Executor


def run(options: argparse.Namespace) -> int:
    """Run every cell in this process."""
    if options.seeds is not None:
        options.set.append(f"seeds={options.seeds}")
    return _execute(options, "process")


def sweep(options: argparse.Namespace) -> int:
    """Run every cell as a Ray Tune trial, or with --dry-run only show what would run."""
    if not options.dry_run:
        return _execute(options, "tune")
    cells = expanded_cells(options)
    stages = stages_asked(cells, options)
    restarts_asked(options)
    certificates = planned_certificates(cells)
    if options.json:
        say(as_json(certificates))
        return EXIT_DONE
    for cell, label, certificate in zip(cells, labels_of(cells), certificates, strict=True):
        say(f"{cell.digest}  {label}: {verdict_line(certificate)}")
    seeds = sum(cell.seeds for cell in cells)
    episodes = sum(cell.seeds * cell.episodes for cell in cells)
    units = {cell.algorithm.unit for cell in cells}
    unit = units.pop() if len(units) == 1 else "episode"
    more = "" if stages is None else f", in at most {counted(stages.most, 'stage')} of so many seeds"
    say(f"{counted(len(cells), 'cell')}, {counted(seeds, 'seed')}, {counted(episodes, unit)}{more}; nothing was run")
    return EXIT_DONE


def _execute(options: argparse.Namespace, executor: Executor) -> int:
    cells = expanded_cells(options)
    stages = stages_asked(cells, options) if executor == "tune" else None
    max_restarts = restarts_asked(options)
    planned_certificates(cells)
    home = home_folder(getattr(options, "storage", None))
    # Only here: certifying and listing need not wait for pandas and MLflow.
    from dprl.platform.reports.tables import write_summary  # noqa: PLC0415
    from dprl.platform.sweeps.adaptive import run_adaptive  # noqa: PLC0415
    from dprl.platform.sweeps.sweep import SweepOptions, run_sweep  # noqa: PLC0415

    how = SweepOptions(
        name=cells[0].name,
        home=home,
        executor=executor,
        address=getattr(options, "address", None),
        tracking_uri=tracking_uri(getattr(options, "tracking_uri", None)),
        fresh=options.fresh,
        command=options.resume_command,
        quiet=options.quiet,
        max_restarts=max_restarts,
    )
    try:
        with stdout_for_results(on_ray=executor == "tune"):
            result = run_sweep(cells, how) if stages is None else run_adaptive(cells, how, stages)
    except KeyboardInterrupt as error:
        return interrupted(error, options)
    # A reader who goes away changes nothing about how the sweep went.
    with suppress(BrokenPipeError):
        if options.json:
            where = {"folder": str(result.folder), "tracking_uri": result.tracking_uri}
            rows = result.summary.to_dict("records")
            say(as_json({**where, "cells": rows, "failed": result.failed, "unwritten": result.unwritten}))
        elif len(result.summary):
            write_summary(sys.stdout, result.summary)
            sys.stdout.flush()
    for line in result.failed:
        complain(f"dprl: failed: {line}")
    for line in result.unwritten:
        complain(f"dprl: not written: {line}")
    return EXIT_SOME_FAILED if result.failed or result.unwritten else EXIT_DONE
