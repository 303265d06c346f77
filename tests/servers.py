"""Servers for tests: on free ports, polled until they answer, killed with their children."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

_START_SECONDS, _END_SECONDS = 600.0, 60.0
_ATTEMPTS = 3
_LOWEST_PORT, _PORT_BEYOND = 7000, 10000
"""Below the system's ephemeral ports, and below 10002, where the ports of Ray's workers begin."""

_RESERVED: list[socket.socket] = []


class EndedEarlyError(Exception):
    """A process ended too early."""


def free_ports(number: int) -> list[int]:
    """Return free ports that no other test of this machine receives while this process lives."""
    found: list[int] = []
    for port in range(_LOWEST_PORT, _PORT_BEYOND):
        # Reserve a name until the process ends, because the server binds the port later, perhaps repeatedly.
        name = socket.socket(socket.AF_UNIX)
        try:
            name.bind(f"\0dprl-tests-port-{port}")
            with socket.socket() as probe:
                probe.bind(("", port))
        except OSError:
            name.close()
            continue
        _RESERVED.append(name)
        found.append(port)
        if len(found) == number:
            return found
    raise RuntimeError("no free ports")


@contextmanager
def again_if_it_ends(start: Callable[[], AbstractContextManager[T]]) -> Iterator[T]:
    """Enter the result of `start`; try again if the process ends early, because its port may have been taken."""
    with ExitStack() as stack:
        for attempt in range(_ATTEMPTS):
            try:
                entered = stack.enter_context(start())
            except EndedEarlyError:
                if attempt == _ATTEMPTS - 1:
                    raise
            else:
                break
        yield entered


@contextmanager
def server(
    command: Callable[[int], Sequence[str]],
    log: Path,
    environment: Mapping[str, str],
    port: int | None = None,
    **options: Any,
) -> Iterator[int]:
    """Start an HTTP server, on a port of its own if none is given, and give the port when it answers `/health`."""

    @contextmanager
    def on(chosen: int) -> Iterator[int]:
        with running(command(chosen), log, environment, **options) as process:
            wait_for(lambda: answers(f"http://127.0.0.1:{chosen}/health"), log, process)
            yield chosen

    with again_if_it_ends(lambda: on(port if port is not None else free_ports(1)[0])) as answering:
        yield answering


@contextmanager
def mlflow_server(
    folder: Path, environment: Mapping[str, str], port: int | None = None, database: str | None = None
) -> Iterator[int]:
    """Start MLflow's server on a database, one in the folder if none is given, as `server` does."""
    quiet = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true", "PYTHONSAFEPATH": "1"}
    command = [sys.executable, "-P", "-m", "mlflow", "server", "--host", "127.0.0.1", "--workers", "1"]
    database = database or f"sqlite:///{folder}/server.db"
    command += ["--backend-store-uri", database, "--artifacts-destination", str(folder / "kept")]
    with server(
        lambda chosen: [*command, "--port", str(chosen)], folder / "server.log", {**environment, **quiet}, port
    ) as answering:
        yield answering


@contextmanager
def running(
    command: Sequence[str], log: Path, environment: Mapping[str, str], gently: bool = False, **options: Any
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process in a session of its own, whose output goes to `log`; kill it with its group.

    gently: it is asked to end first, and given a minute.
    """
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, env=dict(environment), start_new_session=True, **options
        )
    try:
        yield process
    finally:
        if gently:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(_END_SECONDS)
        kill_group(process)


def kill_group(process: subprocess.Popen[Any]) -> None:
    """Kill a process that has a session of its own, and all that it has left in its group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_for(happened: Callable[[], bool], log: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait for the condition. Raises EndedEarlyError if the process ends before, and TimeoutError."""
    deadline = time.monotonic() + _START_SECONDS
    while not happened():
        if process.poll() is not None:
            raise EndedEarlyError(log.read_text()[-3000:])
        if time.monotonic() > deadline:
            raise TimeoutError(log.read_text()[-3000:])
        time.sleep(0.2)


def answers(url: str, refusing: bool = False) -> bool:
    """Whether the page is served, or, if `refusing` is allowed, whether there is a server."""
    try:
        urllib.request.urlopen(url, timeout=5).close()
    except urllib.error.HTTPError:
        return refusing
    except OSError:
        return False
    return True
