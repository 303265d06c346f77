"""What each command does, once its words are understood."""

from __future__ import annotations

import argparse
import json
import math
import os
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from dprl.platform.configs.config import load_cells
from dprl.platform.configs.experiment import Experiment, varying_keys
from dprl.platform.configs.sections import field_names
from dprl.platform.errors import EXIT_DONE, EXIT_INTERRUPTED, EXIT_SOME_FAILED, UserError, below, broken_rule, counted
from dprl.platform.program import command
from dprl.platform.reports.listing import listing, listing_text
from dprl.platform.reports.verdicts import certificate_text, verdict_line
from dprl.platform.tracking.store import TrackingStore, database_in, runs_page

HOME_VARIABLE = "DPRL_HOME"
_UI_HOST = "127.0.0.1"
_PROBE_SECONDS = 2.0
_STDOUT, _STDERR = 1, 2
_PAGE_SUFFIX = ".md"


def list_registered(options: argparse.Namespace) -> int:
    """Show what a config can name."""
    kinds = listing(options.kind)
    _say(_json(kinds) if options.json else listing_text(kinds))
    return EXIT_DONE


def run(options: argparse.Namespace) -> int:
    """Run every cell in this process."""
    if options.seeds is not None:
        options.set.append(f"seeds={options.seeds}")
    return _execute(options, "process")


def sweep(options: argparse.Namespace) -> int:
    """Run every cell as a Ray Tune trial, or with --dry-run only show what would run."""
    if not options.dry_run:
        return _execute(options, "tune")
    cells = _cells(options)
    certificates = _certificates(cells)
    if options.json:
        _say(_json(certificates))
        return EXIT_DONE
    for cell, label, certificate in zip(cells, _labels(cells), certificates, strict=True):
        _say(f"{cell.digest}  {label}: {verdict_line(certificate)}")
    seeds = sum(cell.seeds for cell in cells)
    episodes = sum(cell.seeds * cell.episodes for cell in cells)
    units = {cell.algorithm.unit for cell in cells}
    unit = units.pop() if len(units) == 1 else "episode"
    _say(f"{counted(len(cells), 'cell')}, {counted(seeds, 'seed')}, {counted(episodes, unit)}; nothing was run")
    return EXIT_DONE


def report(options: argparse.Namespace) -> int:
    """Write the cells of finished sweeps as one Markdown page."""
    home = _home(options.storage)
    if options.out is not None and not options.out.endswith(_PAGE_SUFFIX):
        rule, remedy = f"must be a Markdown file, its name ending in {_PAGE_SUFFIX}", "write e.g. --out report.md"
        raise broken_rule("--out", rule, options.out, remedy)
    # Only here: pandas takes time to load.
    from dprl.platform.reporting import PageRequest, report_page, summaries  # noqa: PLC0415
    from dprl.platform.sweeps.atomic_files import write_text  # noqa: PLC0415

    if options.json:
        _say(_json(summaries(home, options.sweeps).to_dict("records")))
        return EXIT_DONE
    compared = None if options.compare is None else (options.compare[0], options.compare[1])
    wanted = PageRequest(options.title, options.preface, compared, options.resume_command)
    text = report_page(home, options.sweeps, wanted)
    if options.out is None:
        _say(text.removesuffix("\n"))
        return EXIT_DONE
    file = Path(options.out)
    try:
        write_text(file, text)
    except OSError as error:
        rule = f"must be a file that can be written ({error.strerror})"
        raise broken_rule("--out", rule, options.out, "choose another") from None
    _say(f"report    {file}")
    return EXIT_DONE


def certify(options: argparse.Namespace) -> int:
    """Show every cell's planned certificate."""
    cells = _cells(options)
    certificates = _certificates(cells)
    if options.json:
        _say(_json(certificates))
    else:
        texts = map(certificate_text, _labels(cells), certificates)
        _say("\n\n".join(texts))
    return EXIT_DONE


def audit(options: argparse.Namespace) -> int:
    """Attack the noise of each cell, of one mechanism or of every paper's claims."""
    # Only here: its kernels take seconds to load.
    from dprl.platform.auditing import audit_command  # noqa: PLC0415

    answer = audit_command(options, _labels)
    _say(_json(answer.data) if options.json else answer.text)
    return EXIT_SOME_FAILED if answer.violated else EXIT_DONE


def ui(options: argparse.Namespace) -> int:
    """Become the MLflow UI on the store of this machine's sweeps."""
    port = int(options.port) if options.port.isdecimal() else 0
    if not 1 <= port <= 65535:
        rule = "must be a whole number from 1 to 65535"
        raise broken_rule("--port", rule, options.port, "write e.g. --port 5000")
    home = _home(None)
    database = database_in(home)
    if not database.is_file():
        raise UserError(
            f"{database}: must exist to be shown, got no such file; run `{command('sweep', 'smoke')}` first"
        )
    page = runs_page(database)
    _require_free(port)
    _say(f"MLflow UI  http://{_UI_HOST}:{port}{page}   (all sweeps; Ctrl-C ends it)")
    _say("           open the sweep with [+], tick cells, Compare; a metric's name shows its curves")
    # One worker and no job runners: each is a process of 200 MB, and looking at results needs neither.
    quiet = {
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_LOGGING_LEVEL": "WARNING",
        "PYTHONWARNINGS": "ignore",
    }
    # The server is a process of MLflow's, which would import from the current folder: a click.py there ends it.
    environment = quiet | os.environ | {"PYTHONSAFEPATH": "1"}
    words = ["-m", "mlflow", "ui", "--backend-store-uri", TrackingStore.choose(home, None).uri]
    words += ["--host", _UI_HOST, "--port", str(port), "--workers", "1"]
    # Uvicorn would tell every request, and end on Ctrl-C with a traceback.
    words += ["--uvicorn-opts", "--log-level warning --lifespan off"]
    os.execve(sys.executable, [sys.executable, "-P", *words], environment)


def reproduce(options: argparse.Namespace) -> int:
    """Run papers' experiments, as far as they are not finished, and write their numbers beside ours."""
    # Only here: pandas and the compiled loops take time to load.
    from dprl.platform.reports.tables import write_table  # noqa: PLC0415
    from dprl.platform.reproductions.papers import PAPERS, wanted  # noqa: PLC0415
    from dprl.platform.reproductions.request import Request  # noqa: PLC0415

    papers, request = wanted(options.paper), Request(_home(None), options.quick, options.resume_command)
    try:
        with _stdout_for_results():
            found = [PAPERS[paper](request) for paper in papers]
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED  # run_sweep has said how to resume
    if options.json:
        _say(_json({one.paper: {"page": one.page and str(one.page), **one.data} for one in found}))
    for one in found:
        if one.page is not None and not options.json:
            headers, *rows = one.verdicts
            write_table(sys.stdout, headers, rows)
            _say(f"page      {one.page}")
        for line in one.failed:
            sys.stderr.write(f"dprl: failed: {line}\n")
    return EXIT_SOME_FAILED if any(one.failed for one in found) else EXIT_DONE


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "list": list_registered,
    "run": run,
    "sweep": sweep,
    "report": report,
    "certify": certify,
    "audit": audit,
    "reproduce": reproduce,
    "ui": ui,
}


def _cells(options: argparse.Namespace) -> list[Experiment]:
    overrides = list(options.set)
    if getattr(options, "name", None) is not None:
        overrides.append(f"name={json.dumps(options.name)}")
    return load_cells(options.config, overrides)


def _labels(cells: Sequence[Experiment]) -> list[str]:
    """Return names of cells that say the trust model and epsilon first, also of a single cell."""
    keys = list(dict.fromkeys(["privacy.model", "privacy.epsilon", *varying_keys(cells)]))
    return [cell.label(keys) for cell in cells]


def _certificates(cells: Sequence[Experiment]) -> list[dict[str, Any]]:
    """Return every cell's planned certificate, with the cell that it is for.

    Raises UserError if the settings of a cell do not fit together; nothing has been written then.
    """
    found = []
    for cell, label in zip(cells, _labels(cells), strict=True):
        try:
            proved = cell.certificate().to_dict()
        except ValueError as error:
            raise UserError(f"{label}: {below('privacy', field_names(type(cell.privacy)), str(error))}") from None
        found.append({"cell": cell.digest, "parameters": cell.parameters(), **proved})
    return found


def _execute(options: argparse.Namespace, executor: Literal["process", "tune"]) -> int:
    cells = _cells(options)
    _certificates(cells)
    home = _home(getattr(options, "storage", None))
    # Only here: certifying and listing need not wait for pandas and MLflow.
    from dprl.platform.reports.tables import write_summary  # noqa: PLC0415
    from dprl.platform.sweeps.sweep import SweepOptions, run_sweep  # noqa: PLC0415

    how = SweepOptions(
        name=cells[0].name,
        home=home,
        executor=executor,
        address=getattr(options, "address", None),
        tracking_uri=getattr(options, "tracking_uri", None),
        fresh=options.fresh,
        command=options.resume_command,
    )
    try:
        with _stdout_for_results():
            result = run_sweep(cells, how)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED  # run_sweep has said how to resume
    if options.json:
        where = {"folder": str(result.folder), "tracking_uri": result.tracking_uri}
        rows = result.summary.to_dict("records")
        _say(_json({**where, "cells": rows, "failed": result.failed}))
    elif len(result.summary):
        write_summary(sys.stdout, result.summary)
    for line in result.failed:
        sys.stderr.write(f"dprl: failed: {line}\n")
    return EXIT_SOME_FAILED if result.failed else EXIT_DONE


@contextmanager
def _stdout_for_results() -> Iterator[None]:
    """Lead to standard error what anything prints meanwhile: Ray tells of a dead worker on standard output."""
    sys.stdout.flush()
    kept = os.dup(_STDOUT)
    os.dup2(_STDERR, _STDOUT)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, _STDOUT)
        os.close(kept)


def _home(storage: str | None) -> Path:
    """Return the folder of all results: --storage, $DPRL_HOME or ./dprl_runs. Raises UserError."""
    source = "--storage" if storage is not None else f"${HOME_VARIABLE}"
    text = storage if storage is not None else os.environ.get(HOME_VARIABLE) or "dprl_runs"
    path = text.removeprefix("file://")
    if not path or "://" in path:
        raise broken_rule(source, "must be a folder that every node sees", text, "mount it and give its path")
    home = Path(path).absolute()
    there = next(folder for folder in (home, *home.parents) if folder.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise broken_rule(source, "must be a folder that can be written", str(there), "choose another folder")
    return home


def _require_free(port: int) -> None:
    """Raise UserError if something listens at `port`, also where the system would let two servers share it."""
    try:
        socket.create_connection((_UI_HOST, port), timeout=_PROBE_SECONDS).close()
    except OSError:
        pass  # nobody answers
    else:
        raise broken_rule("--port", "must be free", port, "something listens there: choose another, e.g. --port 5001")
    with socket.socket() as probe:
        # As the server does; otherwise a port that was in use a minute ago would count as taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_UI_HOST, port))
        except OSError as error:
            raise UserError(
                f"--port: must be free, got {port} ({error.strerror}); choose another with --port"
            ) from None


def _json(data: object) -> str:
    return json.dumps(_json_ready(data), indent=2, allow_nan=False)


def _json_ready(value: object) -> object:
    """Return `value` as strict JSON: infinity as 'inf', NaN as null, NumPy numbers as plain ones."""
    if isinstance(value, Mapping):
        return {str(key): _json_ready(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_ready(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
