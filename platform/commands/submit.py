"""`dprl submit`: a sweep as a job of a running Ray cluster."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from dprl.platform.commands.base import SweepFlags, json_text, say
from dprl.platform.errors import (
    EXIT_DONE,
    EXIT_INTERRUPTED,
    EXIT_SOME_FAILED,
    UserError,
    broken_rule,
    counted,
    print_error,
)
from dprl.platform.program import resume_command

_STORAGE, _TRACKING = "--storage", "tracking-uri"


def submit(
    config: Annotated[str, Parameter(help="as for sweep: a YAML file on this machine")],
    /,
    *,
    address: Annotated[str, Parameter(help="URL of Ray's dashboard, http://HOST:8265")],
    flags: SweepFlags | None = None,
    no_wait: Annotated[bool, Parameter(help="return once the job is submitted")] = False,
) -> int:
    """Run a sweep as a job on a running Ray cluster, with this code, and follow it.

    The exit code is the sweep's; 130 if the job was stopped, or is no longer followed. With token authentication, set
    RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH, or use ~/.ray/auth_token.
    """
    from dprl.platform.configs.config import certificates_of, read_config
    from dprl.platform.environment_variables import tracking_uri
    from dprl.platform.plugins import environment_module
    from dprl.platform.submission.shipping import CONFIG_FILE, pack
    from dprl.sources import code_digest

    flags = flags or SweepFlags()
    # Progress: on standard output, or with --json on standard error.
    uri, tell = tracking_uri(flags.tracking_uri), print_error if flags.as_json else say
    cells = flags.cells(config, here=False)
    certificates_of(cells)
    # Imported only now, after bad input was refused: Ray takes seconds to load.
    from dprl.platform.submission.jobs import Dashboard, exit_code_of, follow_job, submit_job

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
    where = {"job": job_id, "address": dashboard.url, "sweep": cells[0].name, "storage": storage, "tracking_uri": uri}
    tell(f"submitted  {job_id}: {counted(len(cells), 'cell')} on {counted(len(nodes), 'node')}")
    see, stop = (f"ray job {verb} --address {dashboard.url} {job_id}" for verb in ("logs --follow", "stop"))
    if no_wait:
        tell(f"follow     {see}")
        if flags.as_json:
            say(json_text(where))
        return EXIT_DONE
    try:
        end = follow_job(dashboard, job_id, tell)
    except KeyboardInterrupt:
        print_error(f"\ndprl: the job is still running; follow it again with `{see}`, stop it with `{stop}`")
        return EXIT_INTERRUPTED
    except ConnectionError as error:
        print_error(f"dprl: {dashboard.url} no longer answers ({error}); the job may still run: see `{see}`")
        return EXIT_SOME_FAILED
    code = exit_code_of(end)
    if code == EXIT_SOME_FAILED and end.driver_exit_code != code:
        cause = str(dict(end)["message"] or "no message").strip().partition(", last available logs")[0]
        print_error(f"dprl: the job died: {cause}; finished cells are kept, repeat this command to resume")
    if flags.as_json:
        say(json_text({**where, "status": end.status.value, "exit_code": code}))
    return code


def checked_storage(storage: str | None) -> str:
    """Return the results' folder on the nodes. The job checks there, before any cell, that they share it.

    Raises UserError.
    """
    if storage is None:
        remedy = f"name a folder that all nodes see, e.g. {_STORAGE} /shared/dprl"
        raise broken_rule(_STORAGE, "must be given for a cluster", storage, remedy)
    path = storage.removeprefix("file://")
    if not path or "://" in path:
        remedy = "mount it and give its path: ledgers and checkpoints need files that can be locked"
        raise broken_rule(_STORAGE, "must be a folder that every node sees", storage, remedy)
    if not path.startswith("/"):
        remedy = f"write e.g. {_STORAGE} /shared/dprl"
        raise broken_rule(_STORAGE, "must be an absolute path, the same on every node", storage, remedy)
    return path


def check_tracking(nodes: Sequence[str], storage: str, uri: str | None) -> None:
    """Raise UserError if runs cannot be tracked at `uri`, None for a database in `storage`, by a job on the nodes."""
    from dprl.platform.redaction import holds_secret
    from dprl.platform.tracking.store import TrackingStore

    if uri is not None and uri.startswith("sqlite:///") and not uri.startswith("sqlite:////"):
        remedy = "write sqlite:////absolute/path.db, with four slashes"
        raise broken_rule(_TRACKING, "must have an absolute path: the job's folder is removed", uri, remedy)
    try:
        secret = uri is not None and holds_secret(uri)
    except ValueError as error:
        raise broken_rule(_TRACKING, f"must be an address ({error})", uri, "write e.g. http://HOST:5000") from None
    if secret:
        raise UserError(
            f"{_TRACKING}: must have no user, password or token, because Ray's dashboard shows them; set "
            "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or the database's own password file, on the head "
            "before `ray start`"
        )
    TrackingStore.choose(Path(storage), uri).require_server_for(len(nodes))
