"""`dprl submit`: a sweep as a job of a running Ray cluster."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from dprl.platform.commands.base import SweepFlags, json_text, say
from dprl.platform.errors import (
    EXIT_DONE,
    EXIT_INTERRUPTED,
    EXIT_SOME_FAILED,
    UserError,
    counted,
    first_line,
    print_error,
)
from dprl.platform.program import command, resume_command

if TYPE_CHECKING:
    from dprl.platform.submission.jobs import Dashboard


def submit(
    config: Annotated[str | None, Parameter(help="as for sweep: a YAML file on this machine")] = None,
    /,
    *,
    address: Annotated[str, Parameter(help="URL of Ray's dashboard, http://HOST:8265")],
    follow: Annotated[str | None, Parameter(help="show the log of a submitted job until it ends")] = None,
    stop: Annotated[str | None, Parameter(help="stop a job; submit the sweep again to resume it")] = None,
    flags: SweepFlags | None = None,
    no_wait: Annotated[bool, Parameter(help="return once the job is submitted")] = False,
) -> int:
    """Run a sweep as a job on a running Ray cluster, with this code, and follow it.

    The exit code is the sweep's; 130 if the job was stopped, or is no longer followed. With token authentication, set
    RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH, or use ~/.ray/auth_token.
    """
    from dprl.platform.submission.jobs import Dashboard

    flags = flags or SweepFlags()
    if sum(given is not None for given in (config, follow, stop)) != 1:
        rule = "CONFIG: exactly one of CONFIG, --follow JOB and --stop JOB must be given"
        raise UserError(f"{rule}; see `{command('submit', '--help')}`")
    if follow is not None:
        return _follow(Dashboard(address), follow, {}, flags.as_json)
    if stop is not None:
        return _stop(Dashboard(address), stop, flags.as_json)
    return _submit(str(config), address, flags, no_wait)


def _submit(config: str, address: str, flags: SweepFlags, no_wait: bool) -> int:
    from dprl.platform.configs.config import certificates_of, read_config
    from dprl.platform.environment_variables import tracking_uri
    from dprl.platform.plugins import environment_module
    from dprl.platform.submission.placement import check_tracking, checked_storage
    from dprl.platform.submission.shipping import CONFIG_FILE, pack
    from dprl.sources import code_digest

    uri, tell = tracking_uri(flags.tracking_uri), _tell(flags.as_json)
    cells = flags.cells(config, here=False)
    certificates_of(cells)
    # Imported only now, after bad input was refused: Ray takes seconds to load.
    from dprl.platform.submission.jobs import Dashboard, submit_job

    storage = checked_storage(flags.storage)
    dashboard = Dashboard(address)
    nodes = dashboard.alive_nodes()
    check_tracking(nodes, storage, uri)
    with tempfile.TemporaryDirectory(prefix="dprl-job-") as folder:
        modules = [environment_module(cell.env) for cell in cells]
        shipped = pack(read_config(config, flags.overrides), Path(folder), modules)
        about = {"dprl_code_digest": code_digest(), "dprl_sweep": cells[0].name}
        words = [CONFIG_FILE, "--address", "auto", "--storage", storage, "--resume-command", resume_command()]
        words += [*([] if uri is None else ["--tracking-uri", uri]), *flags.words]
        job_id = submit_job(dashboard, cells[0].name, words, shipped, about, tell)
    where = {"sweep": cells[0].name, "storage": storage, "tracking_uri": uri}
    tell(f"submitted  {job_id}: {counted(len(cells), 'cell')} on {counted(len(nodes), 'node')}")
    if no_wait:
        tell(f"follow     {_command(dashboard, '--follow', job_id)}")
        if flags.as_json:
            say(json_text({"job": job_id, "address": dashboard.url, **where}))
        return EXIT_DONE
    return _follow(dashboard, job_id, where, flags.as_json)


def _follow(dashboard: Dashboard, job_id: str, where: dict[str, Any], as_json: bool) -> int:
    """Show the job's log until it ends, and return its exit code."""
    from dprl.platform.submission.jobs import exit_code_of, follow_job

    again = f"follow it again with `{_command(dashboard, '--follow', job_id)}`"
    dashboard.require_job(job_id)
    try:
        end = follow_job(dashboard, job_id, _tell(as_json))
    except KeyboardInterrupt:
        stop = _command(dashboard, "--stop", job_id)
        print_error(f"\ndprl: the job is still running; {again}, stop it with `{stop}`")
        return EXIT_INTERRUPTED
    except ConnectionError as error:
        print_error(f"dprl: {dashboard.url} no longer answers ({error}); the job may still run: {again}")
        return EXIT_SOME_FAILED
    code = exit_code_of(end)
    if code == EXIT_SOME_FAILED and end.driver_exit_code != code:
        print_error(f"dprl: the job died: {str(dict(end)['message'] or 'no message').strip()}")
    if as_json:
        about = {"job": job_id, "address": dashboard.url, **where}
        say(json_text({**about, "status": end.status.value, "exit_code": code}))
    return code


def _stop(dashboard: Dashboard, job_id: str, as_json: bool) -> int:
    dashboard.require_job(job_id)
    try:
        stopped = bool(dashboard.stop_job(job_id))
    except (RuntimeError, OSError) as error:
        raise UserError(f"--stop: {dashboard.url} must stop {job_id} ({first_line(error)}); try again") from None
    _tell(as_json)(f"{'stopping' if stopped else 'had ended'}  {job_id}")
    if as_json:
        say(json_text({"job": job_id, "address": dashboard.url, "stopped": stopped}))
    return EXIT_DONE


def _tell(as_json: bool) -> Callable[[str], None]:
    """Return the function that prints progress: to standard output, or with --json to standard error."""
    return print_error if as_json else say


def _command(dashboard: Dashboard, flag: str, job_id: str) -> str:
    return command("submit", flag, job_id, "--address", dashboard.url)
