"""Sweeps as jobs of Ray's Jobs API: submit, follow and stop."""

from __future__ import annotations

import logging
import os
import re
import secrets
import shlex
import socket
import time
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ray.exceptions import AuthenticationError
from ray.job_submission import JobDetails, JobStatus, JobSubmissionClient

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
from dprl.platform.ray_token import MODE_VARIABLE, WHERE_TOKENS_ARE, user_token
from dprl.sources import VARIABLE

_CONNECT_SECONDS = 10.0
_ANSWER_SECONDS = 60.0  # timeout of a request. Ray's own client would wait forever for a head that has vanished
_POLL_SECONDS, _PATIENCE_SECONDS = 2.0, 60.0
# They would override the address, or send the token to any server.
_VARIABLES = ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS", MODE_VARIABLE)
_CHATTY = ("ray.dashboard.modules.dashboard_sdk", "ray.dashboard.modules.job.sdk", "ray._private.runtime_env.packaging")
_STOPPING = {"RAY_JOB_STOP_WAIT_TIME_S": "60"}
"""Time after SIGTERM in which the sweep writes its summary. A head that a script started would ignore SIGINT."""
_NO_AGENT = "No available agent"  # Ray's error if no agent has seen the job: it can be submitted again
_RAY_LINE = re.compile(r"(\d{4}-\d\d-\d\d [\d:,]+\t(DEBUG|INFO|WARNING) |Running entrypoint for job )")


class Dashboard(JobSubmissionClient):
    """Client of the dashboard at `address`, checked to accept our requests. Raises UserError within seconds.

    The token is never shown, and sent only to a server that asks for one.
    """

    def __init__(self, address: str) -> None:
        self.url = _checked(address)
        for name in _CHATTY:
            logging.getLogger(name).setLevel(logging.WARNING)
        remedy = "check host and port; Ray's dashboard has 8265 unless `ray start --dashboard-port` says otherwise"
        hidden = {name: os.environ.pop(name) for name in _VARIABLES if name in os.environ}
        try:
            parts = urllib.parse.urlsplit(self.url)
            port = parts.port or {"http": 80, "https": 443}[parts.scheme]
            socket.create_connection((str(parts.hostname), port), timeout=_CONNECT_SECONDS).close()
            try:
                super().__init__(self.url)
            except AuthenticationError:
                token = user_token(f"--address: {self.url}")
                super().__init__(self.url, headers={"Authorization": f"Bearer {token}"})
        except AuthenticationError:
            rule = f"{self.url} refuses the token, which must be that of the cluster"
            raise UserError(f"--address: {rule}; {WHERE_TOKENS_ARE}") from None
        except (RuntimeError, OSError, ValueError, LookupError, TypeError) as error:
            # Another server may answer anything.
            raise broken_rule("--address", f"must be Ray's dashboard ({first_line(error)})", address, remedy) from None
        finally:
            os.environ.update(hidden)

    def alive_nodes(self) -> list[str]:
        """Return the addresses of the cluster's living nodes, one per node. Raises UserError."""
        try:
            answer = self._do_request("GET", "/api/v0/nodes?limit=10000")
            if not answer.ok:
                self._raise_error(answer)
            rows = answer.json()["data"]["result"]["result"]
        except (RuntimeError, OSError, LookupError) as error:
            raise UserError(f"--address: {self.url} must list its nodes ({first_line(error)}); try again") from None
        return [str(row["node_ip"]) for row in rows if row.get("state") == "ALIVE"]

    def _do_request(self, *words: Any, **options: Any) -> Any:  # noqa: ANN401 - as Ray declares it
        return super()._do_request(*words, timeout=_ANSWER_SECONDS, **options)


def _checked(address: str) -> str:
    """Return the address without a slash at its end. Raises UserError."""
    rule = "must be the address of Ray's dashboard, http://HOST:PORT"
    remedy = "write e.g. --address http://HOST:8265"
    try:
        parts = urllib.parse.urlsplit(address)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise broken_rule("--address", f"{rule} ({error})", address, remedy) from None
    if parts.username is not None:
        raise broken_rule("--address", f"{rule}, without a password", host, "remove the part before the @")
    if parts.scheme not in {"http", "https"} or not host or parts.path.strip("/") or parts.query or parts.fragment:
        raise broken_rule("--address", rule, address, remedy)
    return f"{parts.scheme}://{parts.netloc}"


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
    request: dict[str, Any] = {
        "entrypoint": shlex.join([*start, "python3", "-m", "dprl.platform.submitted_job", *words]),
        "submission_id": f"{name}-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}",
        "runtime_env": {"py_modules": [str(code)], "working_dir": str(job), "env_vars": _STOPPING},
        "metadata": dict(metadata),
    }
    deadline, told = time.monotonic() + _PATIENCE_SECONDS, False
    while True:
        try:
            return str(dashboard.submit_job(**request))
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


def follow_job(dashboard: Dashboard, job_id: str, show: Callable[[str], None]) -> JobDetails:
    """Show the lines of the job's log as they come, without Ray's own, and return Ray's record of how it ended.

    Raises ConnectionError if nothing answers for a minute.
    """
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
            return details
        time.sleep(_POLL_SECONDS)


def exit_code_of(details: JobDetails) -> int:
    """Return the exit code of the sweep; 130 if its job was stopped, and 1 if it died otherwise."""
    codes = {JobStatus.STOPPED: EXIT_INTERRUPTED, JobStatus.SUCCEEDED: EXIT_DONE}
    code = codes.get(details.status, details.driver_exit_code)
    return code if code in {EXIT_DONE, EXIT_BAD_INPUT, EXIT_INTERRUPTED} else EXIT_SOME_FAILED
