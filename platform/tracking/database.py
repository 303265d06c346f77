"""The database of a new home, made in a process of its own: MLflow takes seconds for its tables.

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
from urllib.parse import quote

from dprl.platform.environment_variables import set_environment
from dprl.platform.results.lock import FolderLock

_PATIENCE_SECONDS = 300.0
"""Others, too, may be making it, on a machine that is busy."""


@contextmanager
def in_the_making(database: Path | None) -> Iterator[None]:
    """Let another process make `database`, unless it is there or None, while this one does other things."""
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
    """Return the lock of who may make the tables of `database`, which two processes at once cannot do.

    It is nobody's if there is no such file.
    """
    if database is None:
        return nullcontext()
    there = database.resolve()
    return FolderLock(there.with_name(f".{there.name}.lock"), _PATIENCE_SECONDS)


def make(database: Path) -> None:
    """Make `database`, whole or not at all: a process that is killed leaves none."""
    there = database.resolve()
    with only_maker(there):
        if there.exists():
            return
        set_environment()
        # Only here: who comes second waits for the lock, and not for this one's imports.
        from mlflow.tracking import MlflowClient  # noqa: PLC0415

        logging.getLogger("alembic").setLevel(logging.WARNING)
        unfinished = there.with_name(f".{there.name}.unfinished")
        unfinished.unlink(missing_ok=True)
        MlflowClient(f"sqlite:///{quote(str(unfinished))}").search_experiments(max_results=1)
        try:
            # Unlike a new name, a second one takes nobody's place: others may know nothing of the lock.
            os.link(unfinished, there)
        except FileExistsError:
            pass
        except OSError:  # a file system without links
            unfinished.rename(there)
        unfinished.unlink(missing_ok=True)


def _is_there(database: Path) -> bool:
    """Return whether the file is there, also if it cannot be told: MLflow then says what is wrong."""
    try:
        return database.exists()
    except OSError:
        return True


if __name__ == "__main__":
    make(Path(sys.argv[1]))
