"""Check that all nodes of a Ray cluster see a sweep's folder, honour its locks and run this code.

A folder's name does not show whether it is shared. Therefore this process holds a lock on a new file in it, and a task
on every node reads the file and tries to take the lock.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import ray
from ray.exceptions import GetTimeoutError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from dprl.platform.errors import UserError, broken_rule, shortened
from dprl.sources import code_digest

_ANSWER_SECONDS = 180.0  # a node that runs its first task of a job has to fetch the code and to start a process


class NodeView(NamedTuple):
    """View of one node: the token in the file ('' without a file), whether the file is locked, digest of its code."""

    token: str
    locked: bool
    digest: str


def require_shared(folder: Path) -> None:
    """Raise UserError, naming the node, unless all living nodes see `folder`, respect its locks and run this code.

    Ray must be connected. A folder that is to be made is shared if the one above it is.
    """
    there = next(place for place in (folder, *folder.parents) if place.exists())
    with _locked_token(there) as (file, token):
        for node, view in _views(file):
            if view is None:
                rule = f"node {node} must run a task within {_ANSWER_SECONDS:.0f} s, got no answer"
                raise UserError(f"address: {rule}; look at `ray status` and at that node's logs")
            if view.token != token:
                rule = f"must be a folder that every node sees, and node {node} does not"
                raise broken_rule("--storage", rule, str(folder), "mount the same file system there, at the same path")
            if not view.locked:
                rule = f"must be on a file system whose locks hold between nodes, and on node {node} they do not"
                remedy = "mount it with locks (NFS without nolock or local_lock)"
                raise broken_rule("--storage", rule, str(folder), remedy)
            if view.digest != code_digest():
                rule = f"node {node} must run this code, sources {code_digest()}"
                raise broken_rule("address", rule, view.digest, "install the same dprl there, or use `dprl submit`")


def _views(file: Path) -> Iterator[tuple[str, NodeView | None]]:
    """Ask all living nodes at once and yield their views by address; None for a node that does not answer."""
    on_node = ray.remote(num_cpus=0, max_retries=0)(view_of)
    asked = [
        (node, on_node.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)))
        for node in ray.nodes()
        if node["Alive"]
    ]
    # Several nodes of one address have different ids.
    answers = [(f"{node['NodeManagerAddress']} ({node['NodeID'][:8]})", task.remote(str(file))) for node, task in asked]
    for node, answer in answers:
        try:
            view: NodeView | None = ray.get(answer, timeout=_ANSWER_SECONDS)
        except GetTimeoutError:
            view = None
        except RayError as error:
            reason = next((line for line in reversed(str(error).splitlines()) if line.strip()), type(error).__name__)
            rule = f"node {node} must be able to run dprl, got {shortened(reason.strip())}"
            raise UserError(f"address: {rule}; install dprl there, or use `dprl submit`") from None
        yield node, view


def view_of(file: str) -> NodeView:
    """Return this node's view of the file."""
    token, locked = "", False
    with suppress(OSError), Path(file).open("r+", errors="replace") as there:
        token = there.read()
        try:
            fcntl.flock(there, fcntl.LOCK_EX | fcntl.LOCK_NB)  # another OSError on a file system without locks
        except BlockingIOError:
            locked = True
    return NodeView(token, locked, code_digest())


@contextmanager
def _locked_token(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield a locked file in the folder and its random token; only processes that see the file can know the token."""
    token = secrets.token_hex(16)
    file = folder / f".shared-{token[:8]}"
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        rule = f"must be a folder that can be written ({error.strerror})"
        raise broken_rule("--storage", rule, str(folder), "choose another folder") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.write(descriptor, token.encode())
        os.fsync(descriptor)
        yield file, token
    finally:
        os.close(descriptor)
        file.unlink(missing_ok=True)
