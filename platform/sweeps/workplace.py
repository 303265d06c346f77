"""Where cells run: in this process, or on Ray, whose workers get ready while their driver does other things."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Literal

from dprl.platform.errors import counted
from dprl.platform.results.layout import SweepCell
from dprl.platform.sweeps.execution import Listener, TrialOptions, run_in_process

Executor = Literal["process", "tune"]


@dataclass(frozen=True)
class Workplace:
    """where: as people are told. run: brings cells to their end, and tells the listener of each."""

    where: str
    run: Callable[[Sequence[SweepCell], Listener], None]


@contextmanager
def workplace(
    executor: Executor, address: str | None, trials: TrialOptions, say: Callable[[str], None]
) -> Iterator[Workplace]:
    """Give the place until the context ends: with 'tune' Ray, at `address` or started on this machine.

    Raises UserError.
    """
    if executor == "process":
        yield Workplace("in this process", run_in_process)
        return
    # Loaded only here: importing Ray takes seconds, and needs its environment set before.
    from dprl.platform.sweeps.cluster import connected, run_on_ray  # noqa: PLC0415

    say(f"starting Ray {'on this machine' if address is None else f'at {address}'} ...")
    with connected(address) as cluster:
        yield Workplace(f"on {counted(cluster.n_cpus, 'CPU')}", partial(run_on_ray, cluster, trials))
