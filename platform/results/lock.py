"""Lock that admits one writer at a time; the kernel releases it when its holder dies for any reason."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

from dprl.atomic_files import open_regular
from dprl.platform.errors import UserError

_POLL_SECONDS = 0.1


class FolderLock:
    """Holds `path` exclusively from `acquire` to `release`.

    A worker outlives a killed driver for a moment and may still write its checkpoint. Every writer of a cell holds its
    lock; the next run therefore waits for that worker instead of racing it.

    name: of the locked thing in error messages, by default that of the file.
    """

    def __init__(self, path: Path, patience: float = 0.0, name: str = "") -> None:
        self.path = path
        self.patience = patience
        self.name = name or path.stem
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock, waiting at most `patience` seconds. Raises UserError if another live process keeps it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, ours = self._opened()
        deadline = time.monotonic() + self.patience
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            if time.monotonic() >= deadline:
                holder = os.pread(descriptor, 200, 0).decode(errors="replace").strip() or "another process"
                os.close(descriptor)
                raise UserError(f"{self.name} is in use by {holder}: wait until it ends, or end it")
            time.sleep(_POLL_SECONDS)
        if ours:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"process {os.getpid()} on {os.uname().nodename}".encode(), 0)
        self._descriptor = descriptor

    def _opened(self) -> tuple[int, bool]:
        """Return a descriptor of the file, and whether it is writable: another user may have created it."""
        try:
            return open_regular(self.path, os.O_RDWR | os.O_CREAT, 0o644), True
        except PermissionError:
            return open_regular(self.path, os.O_RDONLY), False
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            rule = f"must be a file of its own, but {error.strerror}"
            raise UserError(f"{self.path}: {rule}; remove it") from None

    def release(self) -> None:
        """Release the lock; keep the file, because removing it would allow two holders."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> FolderLock:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
