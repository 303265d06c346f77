"""The Ray cluster that this process has started: watched while cells run, and ended."""

from __future__ import annotations

import _thread
import atexit
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import ray
from ray._private.node import Node

from dprl.platform.sweeps.execution import RayLost

_POLL_SECONDS = 0.5
_SERVERS = ("gcs_server", "raylet")
_SIGNAL = signal.SIGUSR1

_KEPT: list[RayLost] = []
"""Their tracebacks hold Ray's objects: when one is freed without a raylet, Ray's compiled part ends the process."""


class LocalRay:
    """The server processes of `node`, which this process has started."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._servers = [(name, one.process) for name in _SERVERS for one in node.all_processes.get(name, ())]

    @property
    def death(self) -> str:
        """Which server process has died and how, '' while all run."""
        for name, process in self._servers:
            code = process.poll()
            if code is not None:
                how = f"signal {-code}" if code < 0 else f"exit code {code}"
                return f"Ray's {name} (process {process.pid}) died with {how}"
        return ""

    @contextmanager
    def watched(self, tell: Callable[[str], None]) -> Iterator[None]:
        """Raise RayLost in the main thread within seconds after a server process has died.

        tell: is given the reason at once, in another thread. Elsewhere than in the main thread nothing is watched.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        over, reasons = threading.Event(), list[str]()

        def watch() -> None:
            while not over.wait(_POLL_SECONDS):
                if self.death:
                    reasons.append(self.death)
                    # While a GCS without raylet lives, Ray ends this process within ten seconds; without, in a minute.
                    self._kill()
                    tell(reasons[0])
                    _thread.interrupt_main(_SIGNAL)
                    return

        def interrupt(_: int, __: FrameType | None) -> None:
            raise RayLost(reasons[0])

        before = signal.signal(_SIGNAL, interrupt)
        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        except RayLost as error:
            _KEPT.append(error)
            raise
        finally:
            over.set()
            watcher.join()
            signal.signal(_SIGNAL, before)

    def stop(self) -> None:
        """Disconnect from Ray, and end its processes."""
        if not self.death:
            ray.shutdown()
            return
        self._kill()
        # It would wait for the servers that have died.
        atexit.unregister(ray.shutdown)

    def _kill(self) -> None:
        self._node.kill_all_processes(check_alive=False, allow_graceful=False)
