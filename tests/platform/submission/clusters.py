"""A real Ray cluster of two nodes on this machine, with token authentication, and an MLflow server."""

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
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

TOKEN = "a-token-of-these-tests-0123456789"
_START_SECONDS = 600.0
_LOWEST_PORT, _PORT_BEYOND = 7000, 10000
"""Ray gives workers the ports from 10002 on, and refuses to start if another part of it is told to have one of them."""


@dataclass(frozen=True)
class TwoNodes:
    """Where the cluster and the MLflow server are.

    token_file: holds what the cluster asks a client for. shared: a folder that both nodes see. unshared: one that is
    another folder on the second node, or None where this machine does not let us mount one.
    """

    dashboard: str
    tracking: str
    token_file: Path
    shared: Path
    unshared: Path | None

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a client that may use the cluster."""
        return {**plain_environment(), "RAY_AUTH_TOKEN_PATH": str(self.token_file)}


def plain_environment() -> dict[str, str]:
    """Return this process's environment without what would lead to another cluster, token, store or folder."""
    leading = ("RAY_AUTH", "RAY_ADDRESS", "RAY_API", "MLFLOW_TRACKING", "DPRL_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(leading)}
    return {**kept, "NUMBA_DISABLE_JIT": "1"}  # compiled or not, the same bits; the cells are small


def free_ports(number: int) -> list[int]:
    """Return ports that nobody has now."""
    found: list[int] = []
    for port in range(_LOWEST_PORT + os.getpid() % 2000, _PORT_BEYOND):
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == number:
            return found
    raise RuntimeError("no free ports")


@contextmanager
def two_nodes(folder: Path) -> Iterator[TwoNodes]:
    """Start an MLflow server, a head and a second node below `folder`, a short path; end them by their numbers.

    Each node has a temporary folder of its own, as on a machine of its own: Ray keeps shipped code there.
    """
    token_file = folder / "token"
    token_file.write_text(TOKEN)
    environment = {
        **plain_environment(),
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token_file),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_raylet_start_wait_time_s": "500",  # a busy machine starts slowly
        "RAY_worker_niceness": "0",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(_broken_dprl(folder / "installed")),
    }
    shared, unshared = folder / "shared", folder / "unshared"
    shared.mkdir()
    unshared.mkdir()
    apart = _mounting_over(unshared)
    gcs, dashboard, client, tracking, head_agent, node_agent = free_ports(6)
    head = ["--head", f"--port={gcs}", "--include-dashboard=true", f"--dashboard-port={dashboard}"]
    # Two of one machine, or any other Ray there, would have the same port; who comes second starts no jobs.
    head += [f"--dashboard-agent-listen-port={head_agent}"]
    head += [f"--ray-client-server-port={client}", f"--temp-dir={folder}/h"]
    url = f"http://127.0.0.1:{dashboard}"
    with ExitStack() as stack:
        server = stack.enter_context(_mlflow(folder, tracking, environment))
        stack.enter_context(_ray(folder / "head.log", head, environment))
        wait_for(lambda: _answers(f"{url}/api/version"), folder / "head.log")
        node = [f"--address={own_address()}:{gcs}", f"--dashboard-agent-listen-port={node_agent}"]
        node += [f"--temp-dir={folder}/n"]
        stack.enter_context(_ray(folder / "node.log", node, environment, apart))
        yield TwoNodes(url, server, token_file, shared, unshared if apart else None)


def _broken_dprl(folder: Path) -> Path:
    """Return a folder with a dprl that cannot be imported: what the nodes have installed, and nobody may run."""
    for file in ("privacy/__init__.py", "envs/__init__.py", "algorithms/__init__.py", "platform/errors.py"):
        (folder / "dprl" / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / "dprl" / file).write_text("raise RuntimeError('this is not the code that was shipped')\n")
    return folder


def _mounting_over(folder: Path) -> list[str]:
    """Return what a command is prefixed with to have an empty folder there; [] where that is not allowed."""
    prefix = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs tmpfs "$0" && exec "$@"', str(folder)]
    try:
        allowed = subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        allowed = False
    return prefix if allowed else []


def own_address() -> str:
    """Return the address by which Ray calls this machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing
        return str(probe.getsockname()[0])


def wait_for(happened: Callable[[], bool], log: Path) -> None:
    """Wait until it has happened."""
    deadline = time.monotonic() + _START_SECONDS
    while not happened():
        if time.monotonic() > deadline:
            raise TimeoutError(log.read_text()[-3000:])
        time.sleep(0.5)


@contextmanager
def _ray(log: Path, words: Sequence[str], environment: Mapping[str, str], prefix: Sequence[str] = ()) -> Iterator[None]:
    command = [*prefix, sys.executable, "-P", "-m", "ray.scripts.scripts", "start", "--num-cpus=1", "--block", *words]
    with _running(command, log, environment):
        wait_for(lambda: "Ray runtime started" in log.read_text(), log)
        yield


@contextmanager
def _mlflow(folder: Path, port: int, environment: Mapping[str, str]) -> Iterator[str]:
    quiet = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
    command = [sys.executable, "-P", "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--workers", "1"]
    command += ["--artifacts-destination", str(folder / "artifacts")]
    url, log = f"http://127.0.0.1:{port}", folder / "mlflow.log"
    with _running(command, log, {**environment, **quiet}):
        wait_for(lambda: _answers(f"{url}/health"), log)
        yield url


@contextmanager
def _running(command: Sequence[str], log: Path, environment: Mapping[str, str]) -> Iterator[None]:
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=dict(environment))
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True
