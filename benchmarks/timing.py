"""How everything here is timed: process CPU time, the best of several blocks, compilation before the first."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version

from llvmlite import binding


@dataclass(frozen=True)
class Blocks:
    """How often to run what: `repeats` blocks of `episodes` episodes, of which the cheapest counts."""

    episodes: int
    repeats: int = 5


def microseconds_per_episode(run: Callable[[int], object], blocks: Blocks) -> float:
    """CPU microseconds per episode of the cheapest block; `run(n)` runs the next n episodes and must be warm.

    CPU time and the minimum: other processes on the machine can only add to a block, never make it cheaper.
    """
    seconds = []
    for _ in range(blocks.repeats):
        start = time.process_time()
        run(blocks.episodes)
        seconds.append(time.process_time() - start)
    return min(seconds) / blocks.episodes * 1e6


def machine() -> dict[str, str | int]:
    """What decides these figures: vector width, cores, compiler and library versions."""
    features = binding.get_host_cpu_features()
    vectors = "AVX-512" if features.get("avx512f") else "AVX2" if features.get("avx2") else "no AVX2"
    return {
        "vectors": vectors,
        "processor": binding.get_host_cpu_name(),
        "cores": os.cpu_count() or 0,
        "python": sys.version.split()[0],
        "numpy": version("numpy"),
        "numba": version("numba"),
    }
