"""Storage and tracking of a submitted sweep, checked before anything is sent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dprl.platform.errors import UserError, broken_rule
from dprl.platform.redaction import holds_secret
from dprl.platform.tracking.store import TrackingStore

_STORAGE, _TRACKING = "--storage", "tracking-uri"


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
