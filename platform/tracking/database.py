"""MLflow database of a new home, created in a separate process because MLflow takes seconds for its tables.

Run as: python -m dprl.platform.tracking.database PATH
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from dprl.platform.environment_variables import set_environment
from dprl.platform.results.lock import FolderLock
from dprl.platform.tracking.store import sqlite_uri

_PATIENCE_SECONDS = 300.0
"""Timeout: other processes may be creating it on a busy machine."""


@contextmanager
def in_the_making(database: Path | None) -> Iterator[None]:
    """Create `database` in another process, unless it exists or is None, while this process continues."""
    if database is None or _is_there(database):
        yield
        return
    command = [sys.executable, "-P", "-m", __name__, str(database)]
    maker = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        maker.terminate()
        maker.wait()


def only_maker(database: Path | None) -> AbstractContextManager[object]:
    """Return the lock that allows one process at a time to create the tables of `database`.

    Without a file, None, it locks nothing.
    """
    if database is None:
        return nullcontext()
    there = database.resolve()
    return FolderLock(there.with_name(f".{there.name}.lock"), _PATIENCE_SECONDS)


def make(database: Path) -> None:
    """Create `database` atomically: a killed process leaves no file."""
    there = database.resolve()
    with only_maker(there):
        if there.exists():
            return
        set_environment()
        # Imported here so that a second process waits for the lock only, not for these imports.
        from mlflow.tracking import MlflowClient  # noqa: PLC0415

        logging.getLogger("alembic").setLevel(logging.WARNING)
        unfinished = there.with_name(f".{there.name}.unfinished")
        unfinished.unlink(missing_ok=True)
        MlflowClient(sqlite_uri(unfinished)).search_experiments(max_results=1)
        try:
            # A link fails if the file exists, unlike a rename: other programs may ignore the lock.
            os.link(unfinished, there)
        except FileExistsError:
            pass
        except OSError:  # a file system without links
            unfinished.rename(there)
        unfinished.unlink(missing_ok=True)


def _is_there(database: Path) -> bool:
    """Return whether the file exists. If this is unknown, return True: MLflow then reports the error."""
    try:
        return database.exists()
    except OSError:
        return True


if __name__ == "__main__":
    make(Path(sys.argv[1]))
