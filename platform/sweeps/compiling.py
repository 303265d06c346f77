"""Compiling before the work is handed out, so that workers only load what is on the disk."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from dprl.platform.configs.experiment import Experiment
from dprl.platform.sweeps.execution import CELL_ERRORS
from dprl.privacy.compiled import prepared_folder

_NOTICED_SECONDS, _LOADING_SECONDS = 1.0, 5.0


def compile_kernels(experiments: Sequence[Experiment], say: Callable[[str], None]) -> None:
    """Compile here, once, what every worker then loads from the cache on disk."""
    cold = not _kernels_are_cached()
    if cold:
        say("compiling the learning loop (once per machine and code version) ...")
    begin = time.monotonic()
    for experiment in _one_of_each_kind(experiments):
        tiny = dataclasses.replace(experiment, episodes=2, seeds=1)
        try:
            tiny.build(0).learn(2)
        except CELL_ERRORS:
            # Its cell fails in the same way, and is then reported under its name.
            continue
    seconds = time.monotonic() - begin
    if cold or seconds > _NOTICED_SECONDS:
        # What was compiled may not have been the loop, but what a certificate needs.
        done = "compiled" if cold or seconds > _LOADING_SECONDS else "loaded compiled code"
        say(f"{done} in {seconds:.1f} s")


def _kernels_are_cached() -> bool:
    """Whether compiled code of this version is on the disk, so that nothing has to be waited for."""
    return next(Path(prepared_folder()).rglob("*.nbc"), None) is not None


def _one_of_each_kind(experiments: Sequence[Experiment]) -> list[Experiment]:
    """One experiment for each combination of named parts; sizes and scales do not need code of their own."""
    kinds: dict[frozenset[tuple[str, object]], Experiment] = {}
    for experiment in experiments:
        parts = frozenset(item for item in experiment.parameters().items() if isinstance(item[1], str))
        kinds.setdefault(parts, experiment)
    return list(kinds.values())
