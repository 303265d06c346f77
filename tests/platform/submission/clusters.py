"""A real Ray cluster of two nodes on this machine, with token authentication, and an MLflow server."""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.servers import again_if_it_ends, answers, free_ports, mlflow_server, running, wait_for

TOKEN = "a-token-of-these-tests-0123456789"


@dataclass(frozen=True)
class TwoNodes:
    """Where the cluster and the MLflow server are.

    token_file: holds the token of clients. shared: a folder that both nodes see. unshared: a folder that is
    another one on the second node, or None if this machine does not allow mounts.
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
    """Return this process's environment without variables of another cluster, token, store or folder."""
    leading = ("RAY_AUTH", "RAY_ADDRESS", "RAY_API", "MLFLOW_TRACKING", "DPRL_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(leading)}
    return {**kept, "NUMBA_DISABLE_JIT": "1"}  # compiled or not, the same bits; the cells are small


@contextmanager
def two_nodes(folder: Path) -> Iterator[TwoNodes]:
    """Start an MLflow server, a head and a second node below `folder`, a short path; end them by their process ids.

    Each node has its own temporary folder, as on separate machines: Ray stores shipped code there.
    """
    attempts = itertools.count()
    with again_if_it_ends(lambda: _two_nodes(folder / str(next(attempts)))) as nodes:
        yield nodes


@contextmanager
def _two_nodes(folder: Path) -> Iterator[TwoNodes]:
    folder.mkdir()
    token_file = folder / "token"
    token_file.write_text(TOKEN)
    environment = {
        **plain_environment(),
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token_file),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",  # as in an activated environment
        "RAY_raylet_start_wait_time_s": "500",  # a busy machine starts slowly
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(_broken_dprl(folder / "installed")),
    }
    shared, unshared = folder / "shared", folder / "unshared"
    shared.mkdir()
    unshared.mkdir()
    apart = _mounting_over(unshared)
    gcs, dashboard, client, head_agent, node_agent = free_ports(5)
    head = ["--head", f"--port={gcs}", "--include-dashboard=true", f"--dashboard-port={dashboard}"]
    # Two nodes on one machine would use the same port, and the second one could not start jobs.
    head += [f"--dashboard-agent-listen-port={head_agent}"]
    head += [f"--ray-client-server-port={client}", f"--temp-dir={folder}/h"]
    url = f"http://127.0.0.1:{dashboard}"
    with ExitStack() as stack:
        tracking = stack.enter_context(mlflow_server(folder, environment))
        # A shell lets what a script starts in the background ignore Ctrl-C, and a job inherits that.
        by_script = ["env", "--ignore-signal=INT"]
        process = stack.enter_context(_ray(folder / "head.log", head, environment, by_script))
        wait_for(lambda: answers(f"{url}/api/version", refusing=True), folder / "head.log", process)
        node = [f"--address={own_address()}:{gcs}", f"--dashboard-agent-listen-port={node_agent}"]
        node += [f"--temp-dir={folder}/n"]
        stack.enter_context(_ray(folder / "node.log", node, environment, apart))
        yield TwoNodes(url, f"http://127.0.0.1:{tracking}", token_file, shared, unshared if apart else None)


def _broken_dprl(folder: Path) -> Path:
    """Return a folder with a dprl that cannot be imported, as installed on the nodes; jobs must not use it."""
    for file in ("privacy/__init__.py", "envs/__init__.py", "algorithms/__init__.py", "platform/errors.py"):
        (folder / "dprl" / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / "dprl" / file).write_text("raise RuntimeError('this is not the code that was shipped')\n")
    return folder


def _mounting_over(folder: Path) -> list[str]:
    """Return a command prefix that mounts an empty folder there; [] if mounts are not allowed."""
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


@contextmanager
def _ray(
    log: Path, words: Sequence[str], environment: Mapping[str, str], prefix: Sequence[str] = ()
) -> Iterator[subprocess.Popen[bytes]]:
    command = [*prefix, sys.executable, "-P", "-m", "ray.scripts.scripts", "start", "--num-cpus=1", "--block", *words]
    with running(command, log, environment, gently=True) as process:
        wait_for(lambda: "Ray runtime started" in log.read_text(), log, process)
        yield process
