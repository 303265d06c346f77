"""`dprl sweep`: the cells of a config as trials of Ray Tune."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dprl.platform.commands.base import (
    SWITCHES,
    add_config,
    add_naming,
    add_storage,
    as_json,
    exit_code,
    expanded_cells,
    interrupted,
    say,
    stdout_for_results,
    whole_number,
)
from dprl.platform.errors import EXIT_DONE, counted

if TYPE_CHECKING:
    from dprl.platform.configs.experiment import Experiment
    from dprl.platform.sweeps.executor import ExecutorName

HELP = "run every cell of a config as a Ray Tune trial; repeat the command to resume"
EXAMPLE = "sweep tune_configs/regret_vs_epsilon.yaml --name first_try"
_NUMBERS = ("--max-restarts", "--cpus")
_LIMITS = (
    ("--max-restarts", "max_restarts", (-1, 10**6), "write e.g. 20"),
    ("--cpus", "most_cpus", (1, 100_000), "write e.g. 4"),
)
"""Flags of whole numbers, with their options of a sweep, bounds and remedies."""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_config(parser)
    add_sweep_flags(parser)
    parser.add_argument("--address", metavar="ADDR", help="address of a running Ray cluster (default: this machine)")
    add_tracking(parser)
    storage = "a folder for all results, visible to every node of a cluster (default: $DPRL_HOME or ./dprl_runs)"
    add_storage(parser, storage)
    add_dry_run(parser)
    # The `dprl submit` command that the user typed, instead of the job's own command on the cluster.
    parser.add_argument("--resume-command", default=argparse.SUPPRESS, help=argparse.SUPPRESS)


def add_tracking(parser: argparse.ArgumentParser) -> None:
    """Add --tracking-uri."""
    parser.add_argument(
        "--tracking-uri",
        metavar="URI",
        help="URI of MLflow (default: $MLFLOW_TRACKING_URI, or a database in the results' folder)",
    )


def add_dry_run(parser: argparse.ArgumentParser) -> None:
    """Add the flag for `show_cells`."""
    parser.add_argument(
        "--dry-run", action="store_true", help="show the cells and the epsilons they would prove; run nothing"
    )


def add_sweep_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `sweep` that `submit` passes on by `sweep_words`."""
    add_naming(parser)
    restarts = "how often a cell restarts elsewhere after its worker or node is lost; -1: no limit (default: 3)"
    parser.add_argument(_NUMBERS[0], metavar="N", help=restarts)
    parser.add_argument(_NUMBERS[1], metavar="N", help="use at most N CPUs, at least one per cell (default: all CPUs)")
    parser.add_argument("--memory", metavar="GB", help="memory that Ray reserves per cell, like `memory` in the config")


def sweep_words(options: argparse.Namespace) -> list[str]:
    """Return the words that give another `dprl sweep` the flags of this call."""
    given = {flag: getattr(options, _attribute(flag)) for flag in SWITCHES}
    numbers = {flag: getattr(options, _attribute(flag)) for flag in _NUMBERS}
    words = [flag for flag, chosen in given.items() if chosen]
    return words + [word for flag, number in numbers.items() if number is not None for word in (flag, number)]


def asked(options: argparse.Namespace) -> tuple[list[Experiment], dict[str, Any]]:
    """Return the cells of the config and further `SweepOptions`; `run` has only cells. Raises UserError."""
    cells, numbers = expanded_cells(options), dict[str, Any]()
    for flag, key, bounds, remedy in _LIMITS:
        if (text := getattr(options, _attribute(flag), None)) is not None:
            numbers[key] = whole_number(flag, text, bounds, remedy)
    return cells, numbers


def _attribute(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")


def run(options: argparse.Namespace) -> int:
    """Run every cell as a Ray Tune trial, or with --dry-run only show the cells."""
    return show_cells(options) if options.dry_run else execute(options, "tune")


def show_cells(options: argparse.Namespace) -> int:
    """Print the cells of the config with the epsilons they would prove, and return the exit code."""
    from dprl.platform.configs.config import labels_of, planned_certificates
    from dprl.platform.reports.verdicts import verdict_line

    cells, _ = asked(options)
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
    say(f"{counted(len(cells), 'cell')}, {counted(seeds, 'seed')}, {counted(episodes, unit)}; nothing was run")
    return EXIT_DONE


def execute(options: argparse.Namespace, executor: ExecutorName) -> int:
    """Run the cells of the config, print the table of results and return the exit code."""
    from dprl.platform.configs.config import certificates_of
    from dprl.platform.environment_variables import tracking_uri
    from dprl.platform.results.home import home_folder

    cells, numbers = asked(options)
    certificates_of(cells)
    home = home_folder(getattr(options, "storage", None))
    from dprl.platform.reports.tables import write_summary
    from dprl.platform.sweeps.sweep import SweepOptions, run_sweep

    how = SweepOptions(
        name=cells[0].name,
        home=home,
        executor=executor,
        address=getattr(options, "address", None),
        tracking_uri=tracking_uri(getattr(options, "tracking_uri", None)),
        fresh=options.fresh,
        command=options.resume_command,
        quiet=options.quiet,
        **numbers,
    )
    try:
        with stdout_for_results(on_ray=executor == "tune"):
            result = run_sweep(cells, how)
    except KeyboardInterrupt as error:
        return interrupted(error, options)
    # A closed pipe does not change the exit code.
    with suppress(BrokenPipeError):
        if options.json:
            where = {"folder": str(result.folder), "tracking_uri": result.tracking_uri}
            rows = result.summary.to_dict("records")
            say(as_json({**where, "cells": rows, "failed": result.failed, "unwritten": result.unwritten}))
        elif len(result.summary):
            write_summary(sys.stdout, result.summary)
            sys.stdout.flush()
    return exit_code(result.failed, result.unwritten)
