"""Overhead of a sweep: 200 small cells on Ray Tune with MLflow, and a sweep that is killed repeatedly.

Run from the repository's root: python -m benchmarks.sweeps [--quick] [--seeds N] [--kills N] [--json PATH]

One run compares the total time with the cells' compute divided by the CPUs, and measures the overhead per cell with and
without reuse of worker processes; by default, Ray Tune does not reuse them.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml
from rich.console import Console

from benchmarks.harness import Row, command_line, show
from dprl.platform.results.layout import SweepLayout

_NAME = "many"
_TARGET_FACTOR, _TARGET_SECONDS = 1.5, 30.0
_EPSILONS = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]


def config(horizons: list[int], seeds: int) -> dict[str, object]:
    """A grid of 20 cells for each horizon."""
    return {
        "name": _NAME,
        "algorithm": {"name": "private_ucb_vi", "bonus_scale": 0.1, "precision_scale": 0.1},
        "env": {"name": "riverswim", "n_states": 3, "horizon": {"grid_search": horizons}},
        "privacy": {
            "grid_search": [
                {"model": "none"},
                {"model": "jdp", "epsilon": {"grid_search": _EPSILONS}},
                {"model": "ldp", "epsilon": {"grid_search": _EPSILONS[:9]}},
            ]
        },
        "episodes": 20_000,
        "seeds": seeds,
    }


def dprl(home: Path, *words: str) -> subprocess.Popen[bytes]:
    """Start the command in a separate process."""
    command = [sys.executable, "-P", "-m", "dprl.platform.command_line", *words]
    environment = os.environ | {"DPRL_HOME": str(home)}
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def timed(home: Path, file: Path) -> tuple[float, float]:
    """Run the sweep to its end; return its seconds and those of the cells' compute."""
    begin = time.perf_counter()
    if dprl(home, "sweep", str(file)).wait() != 0:
        raise RuntimeError(f"the sweep failed: {home}")
    seconds = time.perf_counter() - begin
    return seconds, sum(cell.results().seconds for cell in SweepLayout(home, _NAME).finished_cells())


def without_reuse(file: Path, n_cells: int) -> float:
    """Return the seconds per cell and process of the first cells, as Tune trials that each start a process."""
    words = ["-m", "benchmarks.naive_sweep", str(file)]
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run(
            [sys.executable, *words, home, str(n_cells)], capture_output=True, text=True, check=True, timeout=1800
        )
    line = next(line for line in done.stdout.splitlines() if line.startswith("seconds"))
    seconds, compute, cpus = map(float, line.split()[1:])
    return (seconds * cpus - compute) / n_cells


def killed(home: Path, file: Path, kills: int) -> int:
    """Kill the driver at `kills` random moments (seed 0) and restart it each time; return the number of kills."""
    moments, count, layout = random.Random(0), 0, SweepLayout(home, _NAME)
    while count < kills:
        driver = dprl(home, "sweep", str(file))
        known = len(layout.finished_cells())
        while driver.poll() is None and len(layout.finished_cells()) == known:
            time.sleep(0.05)
        try:
            driver.wait(moments.uniform(0.0, 5.0))
            break
        except subprocess.TimeoutExpired:
            driver.send_signal(signal.SIGKILL)
            driver.wait()
            count += 1
    timed(home, file)
    return count


def run(console: Console, options: argparse.Namespace) -> Row:
    cpus = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        file, home = Path(folder) / "many.yaml", Path(folder) / "home"
        file.write_text(yaml.safe_dump(config([5] if options.quick else list(range(3, 13)), options.seeds)))
        timed(Path(folder) / "warm", _one_cell(file))
        seconds, compute = timed(home, file)
        n_cells = len(SweepLayout(home, _NAME).finished_cells())
        # The time besides compute includes the start of Ray and MLflow, and the page at the end.
        overhead = (seconds * cpus - compute) / n_cells
        found = {
            "cells": n_cells,
            "seconds": seconds,
            "compute_seconds": compute,
            "allowed_seconds": _TARGET_FACTOR * compute / cpus + _TARGET_SECONDS,
            "overhead_a_cell": overhead,
            "overhead_a_cell_without_reuse": without_reuse(file, min(n_cells, 12)),
        }
        found["without reuse / with"] = found["overhead_a_cell_without_reuse"] / overhead
        if options.kills:
            other = Path(folder) / "killed"
            found["kills"] = killed(other, file, options.kills)
            tables = [SweepLayout(where, _NAME).summary_file.read_bytes() for where in (home, other)]
            found["same_table"] = float(tables[0] == tables[1])
    rows = [{"name": name, "value": value} for name, value in found.items()]
    show(console, f"{n_cells} cells on {cpus} CPUs", rows, "figure {name} | measured {value:.3g}")
    return found


def _one_cell(file: Path) -> Path:
    """A config of one cell; it compiles the kernels of the others."""
    content = yaml.safe_load(file.read_text())
    content["env"]["horizon"], content["privacy"] = 3, {"model": "jdp", "epsilon": 1.0}
    one = file.with_name("one.yaml")
    one.write_text(yaml.safe_dump(content))
    return one


FLAGS = {
    "--seeds": {"type": int, "default": 12, "help": "of a cell; a small cell computes for a second (12)"},
    "--kills": {"type": int, "default": 0, "help": "also kill the driver so often, and compare the tables"},
}


if __name__ == "__main__":
    sys.exit(command_line(run, __doc__, FLAGS))
