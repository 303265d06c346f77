"""`dprl submit`: a sweep as a job of a running Ray cluster."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprl.platform.commands.base import add_json, add_set, add_storage, as_json, overrides, say
from dprl.platform.commands.sweep import add_sweep_flags, asked, sweep_words
from dprl.platform.errors import EXIT_DONE, EXIT_INTERRUPTED, EXIT_SOME_FAILED, counted, print_error
from dprl.platform.program import command

if TYPE_CHECKING:
    from dprl.platform.submission.dashboard import Dashboard

HELP = "run a sweep as a job on a running Ray cluster, with this code, and follow it"
EXAMPLE = "submit smoke --address http://HOST:8265 --storage /shared/dprl --tracking-uri http://HOST:5000"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    job = parser.add_mutually_exclusive_group(required=True)
    job.add_argument("config", metavar="CONFIG", nargs="?", help="as for sweep: a YAML file on this machine")
    job.add_argument("--follow", metavar="JOB", help="show the log of a submitted job until it ends")
    job.add_argument("--stop", metavar="JOB", help="stop a job; submit the sweep again to resume it")
    parser.add_argument("--address", metavar="URL", required=True, help="URL of Ray's dashboard, http://HOST:8265")
    add_set(parser)
    add_sweep_flags(parser)
    parser.add_argument(
        "--tracking-uri",
        metavar="URI",
        help="URI at which the cluster's head node reaches MLflow (default: $MLFLOW_TRACKING_URI)",
    )
    add_storage(parser, "a folder for all results, at the same path on every node")
    parser.add_argument("--no-wait", action="store_true", help="return once the job is submitted")
    add_json(parser)
    parser.epilog = (
        f"{parser.epilog}\n\nThe exit code is the sweep's; 130 if the job was stopped, or is no longer followed."
        "\nWith token authentication, set RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH, or use ~/.ray/auth_token."
    )


def run(options: argparse.Namespace) -> int:
    """Submit a sweep and follow it, or follow or stop a submitted one."""
    from dprl.platform.submission.dashboard import Dashboard

    if options.follow is not None:
        return _follow(Dashboard(options.address), options.follow, {}, options)
    if options.stop is not None:
        return _stop(Dashboard(options.address), options.stop, options)
    return _submit(options)


def _submit(options: argparse.Namespace) -> int:
    from dprl.platform.configs.config import certificates_of, read_config
    from dprl.platform.environment_variables import tracking_uri
    from dprl.platform.plugins import environment_module
    from dprl.platform.results.home import home_folder
    from dprl.platform.submission.placement import check_tracking, storage_on
    from dprl.platform.submission.shipping import CONFIG_FILE, pack
    from dprl.sources import code_digest

    options.tracking_uri = tracking_uri(options.tracking_uri)
    cells = asked(options)[0]
    certificates_of(cells)
    # Imported only now, after bad input was refused: Ray takes seconds to load.
    from dprl.platform.submission.dashboard import Dashboard
    from dprl.platform.submission.jobs import submit_job

    dashboard = Dashboard(options.address)
    nodes = dashboard.alive_nodes()
    storage = storage_on(nodes, options.storage, partial(home_folder, None))
    check_tracking(nodes, storage, options.tracking_uri)
    with tempfile.TemporaryDirectory(prefix="dprl-job-") as folder:
        modules = [environment_module(cell.env) for cell in cells]
        shipped = pack(read_config(options.config, overrides(options)), Path(folder), modules)
        about = {"dprl_code_digest": code_digest(), "dprl_sweep": cells[0].name}
        words = [CONFIG_FILE, "--address", "auto", "--storage", storage, "--resume-command", options.resume_command]
        words += [] if options.tracking_uri is None else ["--tracking-uri", options.tracking_uri]
        words += sweep_words(options)
        job_id = submit_job(dashboard, cells[0].name, words, shipped, about, _tell(options))
    where = {"sweep": cells[0].name, "storage": storage, "tracking_uri": options.tracking_uri}
    _tell(options)(f"submitted  {job_id}: {counted(len(cells), 'cell')} on {counted(len(nodes), 'node')}")
    if options.no_wait:
        _tell(options)(f"follow     {_command(dashboard, '--follow', job_id)}")
        if options.json:
            say(as_json({"job": job_id, "address": dashboard.url, **where}))
        return EXIT_DONE
    return _follow(dashboard, job_id, where, options)


def _follow(dashboard: Dashboard, job_id: str, where: dict[str, Any], options: argparse.Namespace) -> int:
    """Show the job's log until it ends, and return its exit code."""
    from dprl.platform.submission.jobs import follow_job

    again = f"follow it again with `{_command(dashboard, '--follow', job_id)}`"
    try:
        end = follow_job(dashboard, job_id, _tell(options))
    except KeyboardInterrupt:
        stop = _command(dashboard, "--stop", job_id)
        print_error(f"\ndprl: the job is still running; {again}, stop it with `{stop}`")
        return EXIT_INTERRUPTED
    except ConnectionError as error:
        print_error(f"dprl: {dashboard.url} no longer answers ({error}); the job may still run: {again}")
        return EXIT_SOME_FAILED
    if end.cause:
        print_error(f"dprl: the job died: {end.cause.strip()}")
    if options.json:
        told = {"job": job_id, "address": dashboard.url, **where}
        say(as_json({**told, "status": end.status, "exit_code": end.exit_code}))
    return end.exit_code


def _stop(dashboard: Dashboard, job_id: str, options: argparse.Namespace) -> int:
    from dprl.platform.submission.jobs import stop_job

    stopped = stop_job(dashboard, job_id)
    _tell(options)(f"{'stopping' if stopped else 'had ended'}  {job_id}")
    if options.json:
        say(as_json({"job": job_id, "address": dashboard.url, "stopped": stopped}))
    return EXIT_DONE


def _tell(options: argparse.Namespace) -> Callable[[str], None]:
    """Return the function that prints progress: to standard output, or with --json to standard error."""
    return print_error if options.json else say


def _command(dashboard: Dashboard, flag: str, job_id: str) -> str:
    return command("submit", flag, job_id, "--address", dashboard.url)
