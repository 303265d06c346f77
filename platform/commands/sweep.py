"""`dprl sweep`: the cells of a config as trials of Ray Tune; `dprl run`: in this process."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from dprl.platform.commands.base import RunFlags, SweepFlags, exit_code, interrupted, json_text, say, stdout_for_results
from dprl.platform.errors import EXIT_DONE, counted
from dprl.platform.program import resume_command

if TYPE_CHECKING:
    from dprl.platform.configs.experiment import Experiment

Config = Annotated[str, Parameter(help="a YAML file, or the name of one in tune_configs/")]
DryRun = Annotated[bool, Parameter(help="show the cells and the epsilons they would prove; run nothing")]


def run(
    config: Config,
    /,
    *,
    seeds: Annotated[str | None, Parameter(help="the same as --set seeds=N")] = None,
    flags: RunFlags | None = None,
    dry_run: DryRun = False,
) -> int:
    """Run every cell of a config in this process, without Ray."""
    flags = flags or RunFlags()
    if seeds is not None:
        flags.settings.append(f"seeds={seeds}")
    cells = flags.cells(config)
    return _show(cells, flags.as_json) if dry_run else _execute(cells, flags, resume_command())


def sweep(
    config: Config,
    /,
    *,
    flags: SweepFlags | None = None,
    address: Annotated[str | None, Parameter(help="address of a running Ray cluster (default: this machine)")] = None,
    dry_run: DryRun = False,
    command: Annotated[str | None, Parameter("--resume-command", show=False)] = None,
) -> int:
    """Run every cell of a config as a Ray Tune trial; repeat the command to resume.

    Parameters
    ----------
    command
        The `dprl submit` that the user typed, instead of the job's own command on the cluster.
    """
    flags = flags or SweepFlags()
    cells = flags.cells(config, here=address is None)
    return _show(cells, flags.as_json) if dry_run else _execute(cells, flags, command or resume_command(), address)


def _show(cells: Sequence[Experiment], as_json: bool) -> int:
    """Print the cells with the epsilons they would prove, and return the exit code."""
    from dprl.platform.configs.config import planned_certificates
    from dprl.platform.configs.experiment import labels_of
    from dprl.platform.reports.verdicts import verdict_line

    certificates = planned_certificates(cells)
    if as_json:
        say(json_text(certificates))
        return EXIT_DONE
    for cell, label, certificate in zip(cells, labels_of(cells), certificates, strict=True):
        say(f"{cell.digest}  {label}: {verdict_line(certificate)}")
    seeds = sum(cell.seeds for cell in cells)
    episodes = sum(cell.seeds * cell.episodes for cell in cells)
    units = {cell.algorithm.unit for cell in cells}
    unit = units.pop() if len(units) == 1 else "episode"
    say(f"{counted(len(cells), 'cell')}, {counted(seeds, 'seed')}, {counted(episodes, unit)}; nothing was run")
    return EXIT_DONE


def _execute(cells: Sequence[Experiment], flags: RunFlags, command: str, address: str | None = None) -> int:
    """Run the cells, on Ray with the flags of a sweep; print the table of results and return the exit code."""
    from dprl.platform.configs.config import certificates_of
    from dprl.platform.environment_variables import tracking_uri
    from dprl.platform.results.home import home_folder

    certificates_of(cells)
    on_ray = isinstance(flags, SweepFlags)
    home = home_folder(flags.storage if isinstance(flags, SweepFlags) else None)
    from dprl.platform.reports.tables import write_summary
    from dprl.platform.sweeps.sweep import DEFAULT_RESTARTS, SweepOptions, run_sweep

    restarts, cpus = (flags.max_restarts, flags.cpus) if isinstance(flags, SweepFlags) else (None, None)
    how = SweepOptions(
        name=cells[0].name,
        home=home,
        executor="tune" if on_ray else "process",
        address=address,
        tracking_uri=tracking_uri(flags.tracking_uri),
        fresh=flags.fresh,
        command=command,
        quiet=flags.quiet,
        max_restarts=DEFAULT_RESTARTS if restarts is None else restarts,
        most_cpus=cpus,
    )
    try:
        with stdout_for_results(on_ray):
            result = run_sweep(cells, how)
    except KeyboardInterrupt as error:
        return interrupted(error, command)
    # A closed pipe does not change the exit code.
    with suppress(BrokenPipeError):
        if flags.as_json:
            where = {"folder": str(result.folder), "tracking_uri": result.tracking_uri}
            rows = result.summary.to_dict("records")
            say(json_text({**where, "cells": rows, "failed": result.failed, "unwritten": result.unwritten}))
        elif len(result.summary):
            write_summary(sys.stdout, result.summary)
            sys.stdout.flush()
    return exit_code(result.failed, result.unwritten)
