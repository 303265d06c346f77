"""Sweeps as jobs of Ray's Jobs API: submit, follow and stop."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import secrets
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from ray.job_submission import JobStatus, JobSubmissionClient

from dprl.platform.environment_variables import EXPERIMENT_VARIABLE
from dprl.platform.errors import EXIT_BAD_INPUT, EXIT_DONE, EXIT_INTERRUPTED, EXIT_SOME_FAILED, UserError, first_line
from dprl.platform.submission.dashboard import Dashboard, Unreachable
from dprl.plugins import VARIABLE

_SWEEP_CODES = {EXIT_DONE, EXIT_SOME_FAILED, EXIT_BAD_INPUT, EXIT_INTERRUPTED}
_STOPPING = {"RAY_JOB_STOP_WAIT_TIME_S": "60"}
"""Time after SIGTERM in which the sweep writes its summary. A head that a script started would ignore SIGINT."""

_POLL_SECONDS, _PATIENCE_SECONDS = 1.0, 60.0
_CHECK_SECONDS = 10.0
"""Poll interval while a log is followed."""

_NO_AGENT = "No available agent"
"""Ray's error if no agent has seen the job: it can be submitted again."""

_RAY_LINE = re.compile(r"(\d{4}-\d\d-\d\d [\d:,]+\t(DEBUG|INFO|WARNING) |Running entrypoint for job )")
_ADDRESSES = ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS")
_CHATTY = ("ray.dashboard.modules.dashboard_sdk", "ray.dashboard.modules.job.sdk", "ray._private.runtime_env.packaging")


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
    client, (code, job) = _client(dashboard), shipped
    # Not in the job's runtime environment: Ray refuses variables that the driver also sets for its workers.
    named = {name: os.environ[name] for name in (VARIABLE, EXPERIMENT_VARIABLE) if os.environ.get(name)}
    start = ["env", *(f"{name}={value}" for name, value in named.items())] if named else []
    entrypoint = shlex.join([*start, "python3", "-m", "dprl.platform.submitted_job", *words])
    job_id = f"{name}-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
    deadline, told = time.monotonic() + _PATIENCE_SECONDS, False
    while True:
        try:
            return str(
                client.submit_job(
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
    """Show the lines of the job's log as they come, and return how it ended. Raises UserError, Unreachable."""
    contact = _Contact(dashboard, job_id)
    contact.look()
    client, log, ended = _client(dashboard), JobLog(show), False
    while True:
        complete = False
        with suppress(RuntimeError, OSError, aiohttp.ClientError):  # the connection, not the job, has ended
            complete = asyncio.run(_tail(client, job_id, log, contact))
        details = contact.look()
        if details is not None and _has_ended(details):
            # A broken connection may have lost the end of the log, so connect once more.
            if complete or ended:
                log.close()
                return end_of(details)
            ended = True
        time.sleep(_POLL_SECONDS)


def stop_job(dashboard: Dashboard, job_id: str) -> bool:
    """Stop the job and return whether it was running. Raises UserError."""
    try:
        dashboard.job(job_id)
        return bool(_client(dashboard).stop_job(job_id))
    except (RuntimeError, OSError, Unreachable) as error:
        raise UserError(f"--stop: {dashboard.url} must stop {job_id} ({first_line(error)}); try again") from None


def end_of(details: Mapping[str, object]) -> JobEnd:
    """Return the end of a job from Ray's record."""
    status, code = str(details["status"]), details.get("driver_exit_code")
    if status == JobStatus.STOPPED:
        return JobEnd(status, EXIT_INTERRUPTED, "")
    if status == JobStatus.SUCCEEDED:
        return JobEnd(status, EXIT_DONE, "")
    if isinstance(code, int) and code in _SWEEP_CODES:
        return JobEnd(status, code, "")
    return JobEnd(status, EXIT_SOME_FAILED, str(details.get("message") or "no message"))


class JobLog:
    """Passes on the lines of a log, without Ray's own lines and without repetitions after a reconnect."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._shown = 0
        self.told = 0
        """Number of characters received on this connection."""
        self._rest = ""

    def begin(self) -> None:
        """The next text starts at the beginning of the log."""
        self.told = 0

    def add(self, text: str) -> None:
        """Take the next piece of the log; it may end within a line."""
        begin, self.told = self.told, self.told + len(text)
        new = text[max(0, self._shown - begin) :]
        self._shown = max(self._shown, self.told)
        *lines, self._rest = (self._rest + new).split("\n")
        for line in lines:
            self._pass_on(line)

    def close(self) -> None:
        """Pass on a last line without a newline."""
        if self._rest:
            self._pass_on(self._rest)
            self._rest = ""

    def _pass_on(self, line: str) -> None:
        if not _RAY_LINE.match(line):
            self._show(line)


class _Contact:
    """Polls a job until nothing has answered for a minute."""

    def __init__(self, dashboard: Dashboard, job_id: str) -> None:
        self._dashboard = dashboard
        self._job_id = job_id
        self._last_answer = time.monotonic()

    def look(self) -> dict[str, Any] | None:
        """Return Ray's record of the job, None while nothing answers. Raises UserError, Unreachable."""
        try:
            details = self._dashboard.job(self._job_id)
        except Unreachable:
            if time.monotonic() - self._last_answer > _PATIENCE_SECONDS:
                raise
            return None
        self._last_answer = time.monotonic()
        return details


def _has_ended(details: Mapping[str, object]) -> bool:
    return bool(JobStatus(details["status"]).is_terminal())


async def _tail(client: JobSubmissionClient, job_id: str, log: JobLog, contact: _Contact) -> bool:
    """Pass on the job's log, and return whether it is complete. Raises errors of the connection and of `contact`.

    Ray's client waits forever, even for a head that has vanished, so the job is polled meanwhile. A connection is
    dropped if it is older than a period without answers, or silent when the job has ended.
    """
    reading = asyncio.create_task(_read(client, job_id, log))
    answered = True
    try:
        while True:
            before = log.told
            done, _ = await asyncio.wait({reading}, timeout=_CHECK_SECONDS)
            if done:
                reading.result()
                return True
            details = await asyncio.to_thread(contact.look)
            if details is None:
                answered = False
            elif not answered or (_has_ended(details) and log.told == before):
                return False
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def _read(client: JobSubmissionClient, job_id: str, log: JobLog) -> None:
    log.begin()
    async for text in client.tail_job_logs(job_id):
        log.add(text)


def _client(dashboard: Dashboard) -> JobSubmissionClient:
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)
    # They would override the address: job and token would go to another cluster.
    hidden = {name: os.environ.pop(name) for name in _ADDRESSES if name in os.environ}
    try:
        return JobSubmissionClient(dashboard.url, headers=dict(dashboard.headers))
    finally:
        os.environ.update(hidden)
