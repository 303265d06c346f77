"""Timer, table and command line of all benchmarks: process CPU time, minimum over blocks, without compilation."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

Row = dict[str, Any]
Run = Callable[[int], object]
TRUST_MODELS = {"none": "none", "jdp": "central", "ldp": "local"}


class Blocks(NamedTuple):
    """Length and number of the timed blocks: the cheapest of `repeats` blocks of `episodes` episodes counts."""

    episodes: int
    repeats: int = 5


def microseconds_per_episode(run: Run, blocks: Blocks) -> float:
    """CPU microseconds per episode of the cheapest block; `run(n)` runs the next n episodes and must be warm.

    It is CPU time and a minimum, because other processes on the machine can only make a block more expensive.
    """
    return min(cpu_seconds(run, blocks.episodes) for _ in range(blocks.repeats)) / blocks.episodes * 1e6


def cpu_seconds(run: Run, n: int) -> float:
    """Return the CPU seconds of `run(n)`."""
    start = time.process_time()
    run(n)
    return time.process_time() - start


def race(ours: Run, blocks: Blocks, others: Mapping[str, tuple[Run, Blocks]]) -> dict[str, float]:
    """Return CPU microseconds per episode of our program ('ours') and of others, by name; all must be warm.

    Ours is timed before and after the others, to limit the effect of drift of the machine.
    """
    before = microseconds_per_episode(ours, blocks)
    times = {name: microseconds_per_episode(*other) for name, other in others.items()}
    return {"ours": min(before, microseconds_per_episode(ours, blocks)), **times}


def repeated(step: Callable[[], object], warm: int = 1) -> Run:
    """Return run(n), which calls `step` n times; first call `step` `warm` times, untimed."""

    def run(n: int) -> None:
        for _ in range(n):
            step()

    run(warm)
    return run


def machine() -> dict[str, str | int]:
    """Return facts that determine the figures: vector width, cores, compiler and library versions."""
    facts = dict(re.findall(r"(?m)^(flags|model name)\s*: (.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8")))
    features = facts.get("flags", "").split()
    vectors = "AVX-512" if "avx512f" in features else "AVX2" if "avx2" in features else "no AVX2"
    return {
        "vectors": vectors,
        "processor": facts.get("model name", platform.machine()),
        "cores": os.cpu_count() or 0,
        "python": sys.version.split()[0],
        "numpy": version("numpy"),
        "numba": version("numba"),
    }


def show(console: Console, title: str, rows: Sequence[Row], columns: str) -> None:
    """Print a table with one line per row; columns: 'heading {field:.2f} | ...'. Numbers are aligned right."""
    parts = [column.strip().partition("{") for column in columns.split("|")]
    table = Table(title=title)
    texts = [[(brace + rest).format_map(row) for _, brace, rest in parts] for row in rows]
    for (heading, *_), column in zip(parts, zip(*texts, strict=True), strict=True):
        numbers = any(column) and all(text[:1] in "0123456789+-" for text in column)
        table.add_column(heading.strip(), justify="right" if numbers else "left")
    for line in texts:
        table.add_row(*line)
    console.print(table)


def command_line(
    measure: Callable[[Console, argparse.Namespace], Row],
    description: str | None,
    flags: Mapping[str, Mapping[str, Any]] | None = None,
) -> int:
    """Measure and print, and with --json write the machine and all figures. flags: further ones."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write all figures here")
    parser.add_argument("--quick", action="store_true", help="shorter runs, and fewer of them")
    for flag, settings in (flags or {}).items():
        parser.add_argument(flag, **settings)
    options = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 180, highlight=False)
    here = machine()
    console.print(", ".join(f"{key} {value}" for key, value in here.items()))
    document = {"machine": here, **measure(console, options)}
    if options.json:
        options.json.write_text(json.dumps(document, indent=2) + "\n")
    return 0
