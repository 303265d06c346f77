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
import logging
import statistics
import sys
import tempfile
import time
from typing import NamedTuple

import ray
from rich.console import Console

from benchmarks.harness import Row, command_line, show
from dprl.algorithms.pgc.base import Batch, Reply
from dprl.algorithms.pgc.on_rllib.env_runner import PrivateEnvRunner
from dprl.algorithms.pgc_a3c.on_rllib import PGC, PGCConfig
from dprl.privacy import ClientSpec, GradientQuery

RUNNERS = (0, 1, 2)
EPISODE_SECONDS = 1e-3


class PaddedRunner(PrivateEnvRunner):
    """A runner with episodes of at least 1 ms of CPU each."""

    def report(self, batch: Batch, spec: ClientSpec[GradientQuery]) -> Reply:
        end = time.thread_time() + EPISODE_SECONDS * len(batch.slots)
        reply = super().report(batch, spec)
        while time.thread_time() < end:
            pass
        return reply


class PaddedConfig(PGCConfig):
    """Settings of a run on padded runners; PGCConfig refuses them because it does not know them."""

    def validate(self) -> None:
        self.env_runner_cls = PrivateEnvRunner
        super().validate()
        self.env_runner_cls = PaddedRunner


class Case(NamedTuple):
    """Schedule, cost of an episode, and submissions of an iteration."""

    name: str
    free_running: bool
    padded: bool
    submissions: int


CASES = (
    Case("defaults, short episodes", False, False, 4_000),
    Case("defaults, 1 ms episodes", False, True, 1_000),
    Case("free-running, 200 a call, short episodes", True, False, 40_000),
)


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
    """Return a row for each number of runners, after an iteration that compiles: medians over the turns."""
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
        agents_per_call, staleness = built[runners].config.call_plan
        row = {"case": case.name, "runners": runners, "agents_per_call": agents_per_call, "staleness": staleness}
        ratios = [turn[runners][0] / turn[0][0] for turn in turns]
        rate, cpu = (statistics.median(turn[runners][i] for turn in turns) for i in range(2))
        row |= {"per_second": rate, "ratio": statistics.median(ratios), "least_ratio": min(ratios)}
        rows.append(row | {"driver_microseconds": cpu})
    return rows


def run(console: Console, options: argparse.Namespace) -> Row:
    ray.init(address="local", num_cpus=max(RUNNERS) + 1, include_dashboard=False, logging_level=logging.ERROR)
    rows: list[Row] = []
    try:
        for case in CASES:
            rows += measure(case, 3 if options.quick else 7)
            show(
                console,
                f"PGC-A3C on RLlib, {case.name}, clipped Laplace noise: medians",
                rows[-len(RUNNERS) :],
                "runners {runners} | a call {agents_per_call} | staleness {staleness} "
                "| submissions/s {per_second:,.0f} | of 0 runners {ratio:.2f} | least {least_ratio:.2f} "
                "| driver CPU, us {driver_microseconds:.1f}",
            )
    finally:
        ray.shutdown()
    return {"rows": rows}


if __name__ == "__main__":
    sys.exit(command_line(run, __doc__))
