"""Executor of a sweep's cells: this process, or a Ray that starts while the driver does other work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Literal

from dprl.platform.errors import counted, missing_extra
from dprl.platform.results.layout import SweepCell
from dprl.platform.sweeps.execution import SweepObserver, TrialOptions, run_in_process

ExecutorName = Literal["process", "tune"]


@dataclass(frozen=True)
class Executor:
    """Executor of cells. where: its description for people. run: runs cells to their end and tells the observer."""

    where: str
    run: Callable[[Sequence[SweepCell], SweepObserver], None]


@contextmanager
def open_executor(
    name: ExecutorName, address: str | None, trials: TrialOptions, say: Callable[[str], None]
) -> Iterator[Executor]:
    """Open an executor for the duration of the context; 'tune' is Ray, at `address` or started on this machine.

    Raises UserError.
    """
    if name == "process":
        yield Executor("in this process", run_in_process)
        return
    # Imported only here: importing Ray takes seconds, and Ray's environment variables must be set before.
    try:
        from dprl.platform.sweeps.cluster import connected, run_on_ray  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise missing_extra(error) from None
    say("starting Ray on this machine ..." if address is None else f"joining Ray at {address} ...")
    with connected(address) as cluster:
        yield Executor(f"on {counted(cluster.n_cpus, 'CPU')}", partial(run_on_ray, cluster, trials))
