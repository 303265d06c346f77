"""Local Ray cluster of this process: watches its servers while cells run, and stops them."""

from __future__ import annotations

import _thread
import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import ray
from ray._private.node import Node

from dprl.platform.errors import EXIT_INTERRUPTED, EXIT_SOME_FAILED
from dprl.platform.sweeps.execution import RayLost

_POLL_SECONDS = 0.5
_SERVERS = ("gcs_server", "raylet")
_INTERRUPT_SECONDS = 5.0
"""While a GCS without raylet lives, Ray ends this process within ten seconds; without a GCS, in a minute."""
_GRACE_SECONDS = 1.0
_SIGNAL = signal.SIGUSR2
"""Tune takes SIGUSR1 for itself."""

_KEPT: list[KeyboardInterrupt] = []
"""Their tracebacks hold Ray's objects: when one is freed without a raylet, Ray's compiled part ends the process."""


def _leave(code: int) -> None:
    """End this process without Ray's own shutdown: it would wait for dead servers, and then crash."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


class LocalRay:
    """Server processes of `node`, started by this process."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._servers = [(name, one.process) for name in _SERVERS for one in node.all_processes.get(name, ())]

    @property
    def death(self) -> str:
        """Name and exit code of the server process that has died, '' while all run."""
        for name, process in self._servers:
            code = process.poll()
            if code is not None:
                ending = f"signal {-code}" if code < 0 else f"exit code {code}"
                return f"Ray's {name} (process {process.pid}) died with {ending}"
        return ""

    @contextmanager
    def watched(self, tell: Callable[[str], None]) -> Iterator[None]:
        """Raise RayLost in the main thread within seconds after a server process has died.

        tell: called at once with the reason, in another thread. Outside the main thread, nothing is watched.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        over, interrupted, reasons = threading.Event(), threading.Event(), list[str]()

        def watch() -> None:
            while not over.wait(_POLL_SECONDS):
                if self.death:
                    reasons.append(self.death)
                    tell(reasons[0])
                    _thread.interrupt_main(_SIGNAL)
                    interrupted.wait(_INTERRUPT_SECONDS)
                    self._kill()
                    return

        def interrupt(_: int, __: FrameType | None) -> None:
            interrupted.set()
            # Ray's compiled part lets only this class through; Tune would catch any other.
            raise KeyboardInterrupt

        before = signal.signal(_SIGNAL, interrupt)
        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        except KeyboardInterrupt as error:
            # A SIGTERM to the whole process group ends the servers, too.
            _KEPT.append(error)
            if not interrupted.is_set():
                raise
            raise RayLost(reasons[0]) from error
        finally:
            over.set()
            watcher.join()
            signal.signal(_SIGNAL, before)

    def stop(self) -> None:
        """Disconnect from Ray, and end its processes."""
        if not self.death:
            # They do not hear the SIGTERM of Ray's shutdown, which would wait a second for each of them.
            ending = threading.Timer(_GRACE_SECONDS, self._end_all)
            ending.start()
            ray.shutdown()
            ending.cancel()
            return
        self._kill()
        # Handlers run in reverse order of registration. A SIGTERM may have gone to the servers, too.
        interrupted = isinstance(sys.exception(), KeyboardInterrupt)
        atexit.register(_leave, EXIT_INTERRUPTED if interrupted else EXIT_SOME_FAILED)

    def _end_all(self) -> None:
        for started in [one for each in list(self._node.all_processes.values()) for one in each]:
            started.process.kill()

    def _kill(self) -> None:
        self._node.kill_all_processes(check_alive=False, allow_graceful=False)
