"""PGC-A3C on RLlib with short episodes: submissions a second with 0, 1 and 2 runners, and what of it is the driver's.

Wall time, as it is about processes that wait for each other: the best iteration counts. Nothing is learned, and all
actions are drawn evenly, so that episodes stay short and what surrounds them is seen.

Run from the repository's root: python -m benchmarks.pgc_on_rllib [--quick]
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from typing import NamedTuple

import ray
from rich.console import Console
from rich.table import Table

from benchmarks.tabular import verdict
from benchmarks.timing import machine
from dprl.algorithms.pgc_a3c.on_rllib import PGCConfig

RUNNERS = (0, 1, 2)
GOAL_RUNNERS, LEAST_PER_SECOND = 2, 30_000.0


class Row(NamedTuple):
    """An iteration: submissions a second, and the share of the time in which the driver did not wait for replies."""

    runners: int
    per_second: float
    driver_share: float


def config(runners: int, submissions: int, iterations: int, folder: str) -> PGCConfig:
    """Return a run of so many iterations of so many submissions each."""
    made: PGCConfig = (
        PGCConfig()
        .privacy(model="ldp", epsilon=5.0, mechanism="clipped_laplace")
        .training(buffer_size=100, learning_rate=0.0, exploration=1.0, exploration_floor=1.0)
        .training(n_submissions=submissions * iterations, submissions_per_iteration=submissions)
        .schedule(deterministic=False)
        .env_runners(num_env_runners=runners, agents_per_call=200)
        .resources(num_cpus_for_main_process=0)
        .ledger(folder=f"{folder}/{runners}")
    )
    return made


def measure(runners: int, submissions: int, repeats: int) -> Row:
    """Return the best of `repeats` iterations, after one that compiles."""
    with tempfile.TemporaryDirectory() as folder:
        algorithm = config(runners, submissions, repeats + 1, folder).build_algo()
        try:
            found = [algorithm.train()["pgc"] for _ in range(repeats + 1)][1:]
        finally:
            algorithm.stop()
    best = max(found, key=lambda told: float(told["submissions_per_s"]))
    return Row(runners, float(best["submissions_per_s"]), float(best["driver_share"]))


def report(console: Console, rows: list[Row]) -> None:
    """Print a line for each number of runners."""
    table = Table(title="PGC-A3C on RLlib, free-running, 200 short episodes a call, clipped Laplace noise")
    for heading in ("runners", "submissions/s", "driver's share", f"goal ({GOAL_RUNNERS} runners)"):
        table.add_column(heading, justify="left" if heading.startswith("goal") else "right")
    for row in rows:
        goal = verdict(row.per_second, LEAST_PER_SECOND) if row.runners == GOAL_RUNNERS else ""
        table.add_row(str(row.runners), f"{row.per_second:,.0f}", f"{row.driver_share:.0%}", goal)
    console.print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter iterations")
    submissions, repeats = (5_000, 2) if parser.parse_args().quick else (50_000, 4)
    console = Console()
    console.print(" ".join(f"{key}={value}" for key, value in machine().items()))
    ray.init(address="local", num_cpus=max(RUNNERS), include_dashboard=False, logging_level=logging.ERROR)
    try:
        report(console, [measure(runners, submissions, repeats) for runners in RUNNERS])
    finally:
        ray.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
