"""Check that all nodes of a Ray cluster see a sweep's folder, honour its locks and run this code.

A folder's name does not show whether it is shared. Therefore this process holds a lock on a new file in it, and a task
on every node reads the file and tries to take the lock.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import ray
from ray.exceptions import GetTimeoutError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from dprl.platform.errors import UserError, broken_rule, shortened
from dprl.sources import code_digest

_ANSWER_SECONDS = 180.0
"""A node that runs its first task of a job has to fetch the code and to start a process."""


@dataclass(frozen=True)
class _NodeView:
    """View of one node: the token in the file ('' without a file), whether the file is locked, digest of its code."""

    token: str
    locked: bool
    digest: str


def require_shared(folder: Path) -> None:
    """Raise UserError, naming the node, unless all living nodes see `folder`, respect its locks and run this code.

    Ray must be connected. The folder is created if it does not exist, and removed again if the nodes do not share it.
    """
    with _made(folder), _locked_token(folder) as (file, token):
        for node, view in _views(file):
            _require(node, view, folder, token)


def _require(node: str, view: _NodeView | None, folder: Path, token: str) -> None:
    """Raise UserError if the node does not share folder, locks and code."""
    if view is None:
        rule = f"node {node} must run a task within {_ANSWER_SECONDS:.0f} s, got no answer"
        raise UserError(f"address: {rule}; look at `ray status` and at that node's logs")
    if view.token != token:
        rule = f"must be a folder that every node sees, and node {node} does not"
        raise broken_rule("--storage", rule, str(folder), "mount the same file system there, at the same path")
    if not view.locked:
        rule = f"must be on a file system whose locks hold between nodes, and on node {node} they do not"
        raise broken_rule("--storage", rule, str(folder), "mount it with locks (NFS without nolock or local_lock)")
    if view.digest != code_digest():
        rule = f"node {node} must run this code, sources {code_digest()}"
        raise broken_rule("address", rule, view.digest, "install the same dprl there, or use `dprl submit`")


def _views(file: Path) -> Iterator[tuple[str, _NodeView | None]]:
    """Ask all nodes at once and return their views by address; None for a node that does not answer."""
    on_node = ray.remote(num_cpus=0, max_retries=0)(view_of)
    asked = {
        node: on_node.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False)).remote(str(file))
        for node_id, node in living_nodes().items()
    }
    for node, answer in asked.items():
        try:
            view: _NodeView | None = ray.get(answer, timeout=_ANSWER_SECONDS)
        except GetTimeoutError:
            view = None
        except RayError as error:
            reason = next((line for line in reversed(str(error).splitlines()) if line.strip()), type(error).__name__)
            rule = f"node {node} must be able to run dprl, got {shortened(reason.strip())}"
            raise UserError(f"address: {rule}; install dprl there, or use `dprl submit`") from None
        yield node, view


def living_nodes() -> dict[str, str]:
    """Return the addresses of the living nodes by id, with the beginning of the id where two addresses are equal."""
    alive = [node for node in ray.nodes() if node["Alive"]]
    addresses = [node["NodeManagerAddress"] for node in alive]
    return {
        node["NodeID"]: address if addresses.count(address) == 1 else f"{address} ({node['NodeID'][:8]})"
        for node, address in zip(alive, addresses, strict=True)
    }


def view_of(file: str) -> _NodeView:
    """Return this node's view of the file."""
    try:
        descriptor = os.open(file, os.O_RDWR)
    except OSError:
        return _NodeView("", locked=False, digest=code_digest())
    try:
        token = os.read(descriptor, 100).decode(errors="replace")
        return _NodeView(token, _is_locked(descriptor), code_digest())
    finally:
        os.close(descriptor)


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # a file system without locks
    return False


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """Make the folder; remove it again after an error. Raises UserError."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        rule = f"must be a folder that can be made ({error.strerror})"
        raise broken_rule("--storage", rule, str(folder), "choose another folder") from None
    with ExitStack() as undo:
        for place in reversed(missing):
            undo.callback(_remove_empty, place)
        yield
        undo.pop_all()


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):  # another sweep has begun in it
        folder.rmdir()


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
