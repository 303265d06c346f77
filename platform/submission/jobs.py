"""Sweeps as jobs of Ray's Jobs API: submit, follow and stop."""

from __future__ import annotations

import os
import re
import secrets
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ray.job_submission import JobDetails, JobStatus

from dprl.platform.environment_variables import EXPERIMENT_VARIABLE
from dprl.platform.errors import (
    EXIT_BAD_INPUT,
    EXIT_DONE,
    EXIT_INTERRUPTED,
    EXIT_SOME_FAILED,
    UserError,
    broken_rule,
    first_line,
)
from dprl.platform.submission.dashboard import Dashboard
from dprl.sources import VARIABLE

_SWEEP_CODES = {EXIT_DONE, EXIT_SOME_FAILED, EXIT_BAD_INPUT, EXIT_INTERRUPTED}
_STOPPING = {"RAY_JOB_STOP_WAIT_TIME_S": "60"}
"""Time after SIGTERM in which the sweep writes its summary. A head that a script started would ignore SIGINT."""

_POLL_SECONDS, _PATIENCE_SECONDS = 2.0, 60.0

_NO_AGENT = "No available agent"
"""Ray's error if no agent has seen the job: it can be submitted again."""

_RAY_LINE = re.compile(r"(\d{4}-\d\d-\d\d [\d:,]+\t(DEBUG|INFO|WARNING) |Running entrypoint for job )")


@dataclass(frozen=True)
class JobEnd:
    """Outcome of a job.

    status: as named by Ray. exit_code: the sweep's; 1 if it died otherwise, 130 if it was stopped.
    cause: Ray's message on a job that died without an exit code of a sweep, else ''.
    """

    status: str
    exit_code: int
    cause: str


def submit_job(
    dashboard: Dashboard,
    name: str,
    words: Sequence[str],
    shipped: tuple[Path, Path],
    metadata: Mapping[str, str],
    tell: Callable[[str], None],
) -> str:
    """Submit a sweep with the words of its command line, and return the job's id. Raises UserError.

    shipped: the folders of `pack`; both take precedence over packages installed on the nodes.

    Ray's agent that starts jobs may come up after the head; wait for it and tell the user.
    """
    code, job = shipped
    # Not in the job's runtime environment: Ray refuses variables that the driver also sets for its workers.
    named = {name: os.environ[name] for name in (VARIABLE, EXPERIMENT_VARIABLE) if os.environ.get(name)}
    start = ["env", *(f"{name}={value}" for name, value in named.items())] if named else []
    entrypoint = shlex.join([*start, "python3", "-m", "dprl.platform.submitted_job", *words])
    job_id = f"{name}-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
    deadline, told = time.monotonic() + _PATIENCE_SECONDS, False
    while True:
        try:
            return str(
                dashboard.submit_job(
                    entrypoint=entrypoint,
                    submission_id=job_id,
                    runtime_env={"py_modules": [str(code)], "working_dir": str(job), "env_vars": _STOPPING},
                    metadata=dict(metadata),
                )
            )
        except (RuntimeError, OSError) as error:
            reason = first_line(error)
        if _NO_AGENT not in reason:
            raise UserError(f"--address: {dashboard.url} must take the job ({reason}); see the head's logs")
        if time.monotonic() > deadline:
            rule = f"--address: {dashboard.url} must have an agent that starts jobs, and has none"
            remedy = "another Ray on that machine may hold its port: see --dashboard-agent-listen-port of `ray start`"
            raise UserError(f"{rule}; {remedy}")
        if not told:
            tell(f"waiting    for {dashboard.url} to start the agent for jobs")
            told = True
        time.sleep(_POLL_SECONDS)


def follow_job(dashboard: Dashboard, job_id: str, show: Callable[[str], None]) -> JobEnd:
    """Show the lines of the job's log as they come, without Ray's own, and return how it ended.

    Raises UserError for an unknown job, ConnectionError if nothing answers for a minute.
    """
    _require_job(dashboard, job_id)
    log, shown, answered = "", 0, time.monotonic()
    while True:
        try:
            details = dashboard.get_job_info(job_id)
        except (RuntimeError, OSError) as error:
            # The head may be away for a while, and the job goes on.
            if time.monotonic() - answered > _PATIENCE_SECONDS:
                raise ConnectionError(first_line(error)) from None
            time.sleep(_POLL_SECONDS)
            continue
        answered, ended = time.monotonic(), details.status.is_terminal()
        with suppress(RuntimeError, OSError):  # the node of the job may be lost
            log = dashboard.get_job_logs(job_id)
        whole = len(log) if ended else log.rfind("\n") + 1
        for line in log[shown:whole].splitlines():
            if not _RAY_LINE.match(line):
                show(line)
        shown = max(shown, whole)
        if ended:
            return end_of(details)
        time.sleep(_POLL_SECONDS)


def stop_job(dashboard: Dashboard, job_id: str) -> bool:
    """Stop the job and return whether it was running. Raises UserError."""
    _require_job(dashboard, job_id)
    try:
        return bool(dashboard.stop_job(job_id))
    except (RuntimeError, OSError) as error:
        raise UserError(f"--stop: {dashboard.url} must stop {job_id} ({first_line(error)}); try again") from None


def end_of(details: JobDetails) -> JobEnd:
    """Return the end of a job from Ray's record."""
    status, code = details.status.value, details.driver_exit_code
    if status == JobStatus.STOPPED:
        return JobEnd(status, EXIT_INTERRUPTED, "")
    if status == JobStatus.SUCCEEDED:
        return JobEnd(status, EXIT_DONE, "")
    if code in _SWEEP_CODES:
        return JobEnd(status, code, "")
    return JobEnd(status, EXIT_SOME_FAILED, str(dict(details)["message"] or "no message"))


def _require_job(dashboard: Dashboard, job_id: str) -> None:
    """Raise UserError if the dashboard does not know the job."""
    try:
        dashboard.get_job_info(job_id)
    except (RuntimeError, OSError) as error:
        remedy = f"`ray job list --address {dashboard.url}` shows them"
        raise broken_rule("job", f"must be one of {dashboard.url} ({first_line(error)})", job_id, remedy) from None
