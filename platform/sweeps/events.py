"""Messages from the process that runs the cells of a sweep to the one that drives it."""

from __future__ import annotations

from typing import NamedTuple


class CellProgress(NamedTuple):
    """Progress of a cell. Episodes count over all its seeds; `seed_index` is the running one.

    restarted: reason why a part starts again instead of continuing an earlier process's work; '' if none does.
    """

    episodes_done: int
    episodes_total: int
    seed_index: int
    finished: bool
    restarted: str = ""

    @property
    def fraction(self) -> float:
        """The share of its episodes that the cell has done."""
        return self.episodes_done / self.episodes_total


class CellEvent(NamedTuple):
    """The cell with this digest has made progress or, if `progress` is None, met an error.

    cause: the error as one line. trace: the whole error if the cell has failed; '' if it goes on in another process.
    """

    cell: str
    progress: CellProgress | None = None
    cause: str = ""
    trace: str = ""


class RayLostError(Exception):
    """A server process of the local Ray has died, and no cell can continue."""


class Cluster(NamedTuple):
    """A Ray cluster: CPUs for cells, nodes, and the CPUs and the memory in GB of its largest node."""

    n_cpus: int
    n_nodes: int
    node_cpus: int
    node_memory: float


def ending(code: int) -> str:
    """Return how a process ended, from its exit code as in `subprocess.Popen`."""
    return f"signal {-code}" if code < 0 else f"exit code {code}"
