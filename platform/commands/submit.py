"""`dprl submit`: a sweep as a job of a running Ray cluster."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from dprl.platform.commands.base import as_json, expanded_cells, planned_certificates, restarts_asked, say, stages_asked
from dprl.platform.configs.config import read_config
from dprl.platform.environment_variables import tracking_uri
from dprl.platform.errors import EXIT_DONE, EXIT_INTERRUPTED, EXIT_SOME_FAILED, counted
from dprl.platform.program import command
from dprl.platform.results.home import home_folder
from dprl.platform.submission.dashboard import Dashboard
from dprl.platform.submission.placement import check_plugins, check_tracking, storage_on
from dprl.platform.submission.shipping import CONFIG_FILE, pack
from dprl.platform.sweep_flags import sweep_words
from dprl.privacy import source_digest


def submit(options: argparse.Namespace) -> int:
    """Hand in a sweep and follow it, or follow or stop one that was handed in before."""
    if options.follow is not None:
        return _follow(Dashboard(options.address), options.follow, {}, options)
    if options.stop is not None:
        return _stop(Dashboard(options.address), options.stop, options)
    check_plugins(os.environ)
    options.tracking_uri = tracking_uri(options.tracking_uri)
    cells = expanded_cells(options)
    stages_asked(cells, options)
    restarts_asked(options)
    planned_certificates(cells)
    dashboard = Dashboard(options.address)
    nodes = dashboard.alive_nodes()
    storage = storage_on(nodes, options.storage, partial(home_folder, None))
    check_tracking(nodes, storage, options.tracking_uri)
    # Only here: Ray takes seconds to load, and a slip has been told by now.
    from dprl.platform.submission.jobs import submit_job  # noqa: PLC0415

    overrides = [*options.set, *([] if options.name is None else [f"name={json.dumps(options.name)}"])]
    with tempfile.TemporaryDirectory(prefix="dprl-job-") as folder:
        shipment = pack(read_config(options.config, overrides), Path(folder))
        about = {"dprl_source_digest": source_digest(), "dprl_sweep": cells[0].name}
        words = _words(options, storage)
        job_id = submit_job(dashboard, cells[0].name, words, shipment, about, _tell(options))
    where = {"sweep": cells[0].name, "storage": storage, "tracking_uri": options.tracking_uri}
    _tell(options)(f"submitted  {job_id}: {counted(len(cells), 'cell')} on {counted(len(nodes), 'node')}")
    if options.no_wait:
        _tell(options)(f"follow     {_command(dashboard, '--follow', job_id)}")
        if options.json:
            say(as_json({"job": job_id, "address": dashboard.url, **where}))
        return EXIT_DONE
    return _follow(dashboard, job_id, where, options)


def _words(options: argparse.Namespace, storage: str) -> list[str]:
    """Return the words of the sweep's command line on the cluster."""
    words = [CONFIG_FILE, "--address", "auto", "--storage", storage, "--resume-command", options.resume_command]
    if options.tracking_uri is not None:
        words += ["--tracking-uri", options.tracking_uri]
    return [*words, *sweep_words(options)]


def _follow(dashboard: Dashboard, job_id: str, where: dict[str, Any], options: argparse.Namespace) -> int:
    """Show the job's log until it ends, and return its exit code."""
    from dprl.platform.submission.jobs import LostContact, follow_job  # noqa: PLC0415

    again = f"follow it again with `{_command(dashboard, '--follow', job_id)}`"
    try:
        end = follow_job(dashboard, job_id, _tell(options))
    except KeyboardInterrupt:
        stop = _command(dashboard, "--stop", job_id)
        sys.stderr.write(f"\ndprl: the job goes on; {again}, stop it with `{stop}`\n")
        return EXIT_INTERRUPTED
    except LostContact as error:
        sys.stderr.write(f"dprl: {dashboard.url} no longer answers ({error}); the job may go on: {again}\n")
        return EXIT_SOME_FAILED
    if end.cause:
        sys.stderr.write(f"dprl: the job died: {end.cause.strip()}\n")
    if options.json:
        told = {"job": job_id, "address": dashboard.url, **where}
        say(as_json({**told, "status": end.status, "exit_code": end.exit_code}))
    return end.exit_code


def _stop(dashboard: Dashboard, job_id: str, options: argparse.Namespace) -> int:
    from dprl.platform.submission.jobs import stop_job  # noqa: PLC0415

    stopped = stop_job(dashboard, job_id)
    _tell(options)(f"{'stopping' if stopped else 'had ended'}  {job_id}")
    if options.json:
        say(as_json({"job": job_id, "address": dashboard.url, "stopped": stopped}))
    return EXIT_DONE


def _tell(options: argparse.Namespace) -> Callable[[str], None]:
    """Return what shows a line for people: on standard output, unless a program reads that."""
    return _complain if options.json else say


def _complain(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def _command(dashboard: Dashboard, flag: str, job_id: str) -> str:
    return command("submit", flag, job_id, "--address", dashboard.url)
