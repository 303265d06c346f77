"""PGC-A3C on RLlib with 0, 1 and 2 runners in one run: submissions a second, as ratios to 0 runners, and driver CPU.

Two costs of an episode: short ones as the compiled lane plays them, where everything around them is seen, and episodes
padded to 1 ms of CPU. Padding burns CPU and does not sleep: runners that sleep would leave the cores to each other and
to the driver, and two of them would look twice as fast on one core. It counts the CPU time of the runner's thread, so
that a busy machine does not shorten it. Two schedules: the defaults, and free-running with many agents a call.

Nothing is learned, and all actions are drawn at random, so that episodes stay short. Iterations with 0, 1 and 2 runners
take turns, so that a machine that others use disturbs all of them alike.

Run from the repository's root: python -m benchmarks.pgc_on_rllib [--quick] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import ray
from rich.console import Console
from rich.table import Table

from benchmarks.timing import machine
from dprl.algorithms.pgc.base import Batch, Reply
from dprl.algorithms.pgc_a3c.on_rllib import PGC, PGCConfig
from dprl.algorithms.pgc_a3c.on_rllib.env_runner import PrivateEnvRunner
from dprl.privacy import SenderSpec

RUNNERS = (0, 1, 2)
EPISODE_SECONDS = 1e-3


class PaddedRunner(PrivateEnvRunner):
    """A runner whose episodes each take 1 ms of CPU at least."""

    def report(self, batch: Batch, spec: SenderSpec) -> Reply:
        end = time.thread_time() + EPISODE_SECONDS * len(batch.slots)
        reply = super().report(batch, spec)
        while time.thread_time() < end:
            pass
        return reply


class PaddedConfig(PGCConfig):
    """Settings of a run on padded runners, which PGCConfig refuses because it does not know them."""

    def validate(self) -> None:
        self.env_runner_cls = PrivateEnvRunner
        super().validate()
        self.env_runner_cls = PaddedRunner


class Case(NamedTuple):
    """What is measured: schedule, cost of an episode, and submissions of an iteration."""

    name: str
    free_running: bool
    padded: bool
    submissions: int


CASES = (
    Case("defaults, short episodes", False, False, 4_000),
    Case("defaults, 1 ms episodes", False, True, 1_000),
    Case("free-running, 200 a call, short episodes", True, False, 40_000),
)


class Row(NamedTuple):
    """One case: medians of submissions a second, of the ratio to 0 runners of the same turn, of driver CPU in us."""

    case: str
    runners: int
    agents_per_call: int
    staleness: int
    per_second: float
    ratio: float
    least_ratio: float
    driver_microseconds: float


def config(case: Case, runners: int, iterations: int, folder: str) -> PGCConfig:
    """Return a run of so many iterations."""
    made: PGCConfig = (
        (PaddedConfig() if case.padded else PGCConfig())
        .privacy(model="ldp", epsilon=5.0, mechanism="clipped_laplace")
        .training(learning_rate=0.0, exploration=1.0, exploration_floor=1.0)
        .training(n_submissions=case.submissions * iterations, submissions_per_iteration=case.submissions)
        .env_runners(num_env_runners=runners)
        .resources(num_cpus_for_main_process=0)
        .ledger(folder=f"{folder}/{runners}")
    )
    if case.free_running:
        made.schedule(deterministic=False).training(buffer_size=100).env_runners(agents_per_call=200)
    return made


def timed(algorithm: PGC, submissions: int) -> tuple[float, float]:
    """Return submissions a second and the driver's CPU microseconds for one, of one iteration."""
    wall, used = time.perf_counter(), time.process_time()
    algorithm.train()
    return submissions / (time.perf_counter() - wall), (time.process_time() - used) / submissions * 1e6


def measure(case: Case, repeats: int) -> list[Row]:
    """Return a row for each number of runners, after an iteration that compiles."""
    with tempfile.TemporaryDirectory() as folder:
        built = {runners: config(case, runners, repeats + 1, folder).build_algo() for runners in RUNNERS}
        try:
            for algorithm in built.values():
                algorithm.train()
            turns = [{r: timed(built[r], case.submissions) for r in RUNNERS} for _ in range(repeats)]
        finally:
            for algorithm in built.values():
                algorithm.stop()
    rows = []
    for runners in RUNNERS:
        ratios = [turn[runners][0] / turn[0][0] for turn in turns]
        rates, used = ([turn[runners][i] for turn in turns] for i in range(2))
        agents_per_call, staleness = built[runners].config.call_plan
        rate, ratio, cpu = (statistics.median(numbers) for numbers in (rates, ratios, used))
        rows.append(Row(case.name, runners, agents_per_call, staleness, rate, ratio, min(ratios), cpu))
    return rows


def report(console: Console, rows: list[Row]) -> None:
    """Print one line per number of runners of one case."""
    table = Table(title=f"PGC-A3C on RLlib, {rows[0].case}, clipped Laplace noise: medians")
    for heading in (
        "runners",
        "a call",
        "staleness",
        "submissions/s",
        "of 0 runners",
        "least",
        "driver CPU, us",
    ):
        table.add_column(heading, justify="right")
    for row in rows:
        numbers = (f"{row.per_second:,.0f}", f"{row.ratio:.2f}", f"{row.least_ratio:.2f}")
        plan = (str(row.runners), str(row.agents_per_call), str(row.staleness))
        table.add_row(*plan, *numbers, f"{row.driver_microseconds:.1f}")
    console.print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer iterations")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the rows as JSON, too")
    options = parser.parse_args()
    console = Console(width=120)
    console.print(" ".join(f"{key}={value}" for key, value in machine().items()))
    ray.init(address="local", num_cpus=max(RUNNERS) + 1, include_dashboard=False, logging_level=logging.ERROR)
    rows: list[Row] = []
    try:
        for case in CASES:
            found = measure(case, 3 if options.quick else 7)
            report(console, found)
            rows += found
    finally:
        ray.shutdown()
    if options.json is not None:
        options.json.write_text(json.dumps([row._asdict() for row in rows], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
