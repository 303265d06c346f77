"""Compilation before the cells run, so that workers only load kernels from the disk."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence

from dprl.compiled import cache_is_empty, compilations
from dprl.platform.configs.experiment import Experiment
from dprl.platform.sweeps.execution import CELL_ERRORS

_NOTICED_SECONDS = 1.0


def compile_kernels(experiments: Sequence[Experiment], say: Callable[[str], None]) -> None:
    """Compile the kernels of all experiments once; every worker then loads them from the cache on disk."""
    begin, before = time.monotonic(), compilations()
    if cache_is_empty():
        say("compiling the learning loop (once per machine and code version) ...")
    for experiment in _one_of_each_kind(experiments):
        _compile(experiment)
    seconds = time.monotonic() - begin
    if compilations() > before:
        say(f"compiled in {seconds:.1f} s")
    elif seconds > _NOTICED_SECONDS:
        say(f"loaded compiled code in {seconds:.1f} s")


def _compile(experiment: Experiment) -> None:
    try:
        dataclasses.replace(experiment, episodes=2, seeds=1).build(0).learn(2)
    except CELL_ERRORS:
        # Its cell will fail in the same way and is then reported by name.
        return


def _one_of_each_kind(experiments: Sequence[Experiment]) -> list[Experiment]:
    """Return one experiment for each combination of named parts; sizes and scales need no separate code."""
    kinds: dict[frozenset[tuple[str, object]], Experiment] = {}
    for experiment in experiments:
        parts = frozenset(item for item in experiment.parameters().items() if isinstance(item[1], str))
        kinds.setdefault(parts, experiment)
    return list(kinds.values())
