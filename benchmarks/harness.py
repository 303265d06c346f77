"""Timer, learners and command line of all benchmarks: process CPU time, minimum over blocks, without compilation."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sys
import time
import timeit
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pandas as pd

from dprl.privacy import CountPrivacy, Streams

Row = dict[str, Any]
Run = Callable[[int], object]
Model = Literal["none", "jdp", "ldp"]
PRIVACY: dict[Model, str] = {"none": "none", "jdp": "central", "ldp": "local"}
PLANNED_EPISODES = 1_000_000


class Blocks(NamedTuple):
    """Length and number of the timed blocks: the cheapest of `repeats` blocks of `episodes` episodes counts."""

    episodes: int
    repeats: int = 5


def microseconds_per_episode(run: Run, blocks: Blocks) -> float:
    """CPU microseconds per episode of the cheapest block; `run(n)` runs the next n episodes and must be warm.

    It is CPU time and a minimum, because other processes on the machine can only make a block more expensive.
    """
    took = timeit.repeat(lambda: run(blocks.episodes), timer=time.process_time, repeat=blocks.repeats, number=1)
    return min(took) / blocks.episodes * 1e6


def race(ours: Run, blocks: Blocks, theirs: Run, their_blocks: Blocks) -> Row:
    """Return CPU microseconds per episode of our program and of a plain one, and their ratio; both must be warm.

    Ours is timed before and after the other, to limit the effect of drift of the machine.
    """
    before, plain = microseconds_per_episode(ours, blocks), microseconds_per_episode(theirs, their_blocks)
    took = min(before, microseconds_per_episode(ours, blocks))
    return {"ours": took, "plain": plain, "ratio": plain / took}


def repeated(step: Callable[[], object], warm: int = 1) -> Run:
    """Return run(n), which calls `step` n times; first call `step` `warm` times, untimed."""

    def run(n: int) -> None:
        for _ in range(n):
            step()

    run(warm)
    return run


def trust(model: Model, epsilon: float = 1.0) -> CountPrivacy:
    """The paper's mechanism, certified: the straightforward programs have no other."""
    if model == "none":
        return CountPrivacy("none")
    if model == "jdp":
        return CountPrivacy("jdp", epsilon, counter="binary_tree", families="separate")
    return CountPrivacy("ldp", epsilon, families="separate", mechanism="laplace")


def built(config: Any, env: Any, privacy: Any, episodes: int = PLANNED_EPISODES) -> Any:  # noqa: ANN401 - any algorithm
    """Return the learner of a config with its certified privatizer."""
    streams = Streams(0, "benchmark")
    return config.build(env, config.privatizer(env, privacy, episodes, streams), episodes, streams)


def machine() -> dict[str, str | int]:
    """Return facts that determine the figures: vector width, cores, compiler and library versions."""
    facts = dict(re.findall(r"(?m)^(flags|model name)\s*: (.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8")))
    features = facts.get("flags", "").split()
    return {
        "vectors": "AVX-512" if "avx512f" in features else "AVX2" if "avx2" in features else "no AVX2",
        "processor": facts.get("model name", platform.machine()),
        "cores": os.cpu_count() or 0,
        "python": sys.version.split()[0],
        "numpy": version("numpy"),
        "numba": version("numba"),
    }


def command_line(measure: Callable[[bool], Iterable[tuple[str, list[Row]]]], description: str | None) -> None:
    """Print each table as soon as it is measured, and with --json write the machine and all figures."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write all figures here")
    parser.add_argument("--quick", action="store_true", help="shorter runs, and fewer of them")
    options = parser.parse_args()
    document: Row = {"machine": machine()}
    print(", ".join(f"{key} {value}" for key, value in document["machine"].items()))
    for title, rows in measure(options.quick):
        document[title] = rows
        print(f"\n{title}\n{pd.DataFrame(rows).to_string(index=False, float_format='{:,.4g}'.format)}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(document, indent=2) + "\n")
