"""Gradient collection on RLlib with 0, 1 and 2 runners in one run: submissions per second, as ratios, and driver CPU.

Lane `compiled` is PGC-A3C on CartPole with gravity; `vectorised` is DPPG in the central model, 50 users per call, in
Gymnasium's CartPole with a module of 64 x 64 units. Episodes are not padded, or padded to 1 or 10 ms of CPU time of the
runner's thread: runners that sleep would look twice as fast on one core. Nothing is learned, and actions stay random,
so that episodes stay short. Iterations with 0, 1 and 2 runners take turns, so that other load affects them equally.

Finally, it compares steps per second of the vectorised lane, with gradients and noise, with RLlib's PPO, which samples
the same environment with the same module, runners and 50 environments each, and computes no gradient.

Run from the repository's root: python -m benchmarks.pgc_on_rllib [--quick] [--json PATH]
"""

from __future__ import annotations

import argparse
import logging
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import ray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from rich.console import Console

from benchmarks.harness import Row, command_line, show
from dprl.algorithms.dppg.on_rllib import DPPGConfig
from dprl.algorithms.pgc.aggregator import Batch, Reply
from dprl.algorithms.pgc.on_rllib.algorithm import GradientCollection
from dprl.algorithms.pgc.on_rllib.config import GradientCollectionConfig
from dprl.algorithms.pgc.on_rllib.env_runner import PrivateEnvRunner
from dprl.algorithms.pgc_a3c.on_rllib import PGCConfig
from dprl.privacy import Client

RUNNERS = (0, 1, 2)
USERS, AT_ONCE = 200, 50


class _PaddedRunner(PrivateEnvRunner):
    """A runner with episodes of at least `milliseconds` of CPU each."""

    milliseconds = 1.0

    def report(self, batch: Batch, new_client: Callable[[], Client]) -> Reply:
        end = time.thread_time() + 1e-3 * self.milliseconds * len(batch.slots)
        reply = super().report(batch, new_client)
        while time.thread_time() < end:
            pass
        return reply


class _SlowRunner(_PaddedRunner):
    """A padded runner with 10 ms."""

    milliseconds = 10.0


class _Padded(GradientCollectionConfig):
    """Settings of a run on padded runners, which the normal validation would refuse as unknown."""

    _runner: type[PrivateEnvRunner] = PrivateEnvRunner

    def validate(self) -> None:
        self.env_runner_cls = PrivateEnvRunner
        super().validate()
        self.env_runner_cls = self._runner


class _PGCOnRunners(_Padded, PGCConfig):
    """PGC-A3C on padded runners."""


class _DPPGOnRunners(_Padded, DPPGConfig):
    """DPPG on padded runners."""


class Case(NamedTuple):
    """Lane, least milliseconds of an episode, and submissions of an iteration."""

    lane: str
    milliseconds: int
    submissions: int

    @property
    def name(self) -> str:
        """Name in the tables."""
        length = f"{self.milliseconds} ms episodes" if self.milliseconds else "short episodes"
        return f"{self.lane}, {length}"


CASES = (
    Case("compiled", 0, 4_000),
    Case("compiled", 1, 1_000),
    Case("compiled", 10, 200),
    Case("vectorised", 0, 4 * USERS),
    Case("vectorised", 1, 4 * USERS),
    Case("vectorised", 10, 2 * USERS),
)


def config(case: Case, runners: int, iterations: int, folder: str) -> GradientCollectionConfig:
    """Return the config of a run of `iterations` iterations."""
    length = {"n_submissions": case.submissions * iterations, "submissions_per_iteration": case.submissions}
    made: Any
    if case.lane == "vectorised":
        made = _DPPGOnRunners().environment("CartPole-v1").training(learning_rate=0.0, users_per_update=USERS, **length)
        made.privacy(model="jdp", epsilon=1.0, delta=1e-6, mechanism="clipped_gaussian", clip=2.0)
    else:
        made = _PGCOnRunners().privacy(model="ldp", epsilon=5.0, mechanism="clipped_laplace")
        made.training(learning_rate=0.0, exploration=1.0, exploration_floor=1.0, **length)
    made._runner = {0: PrivateEnvRunner, 1: _PaddedRunner, 10: _SlowRunner}[case.milliseconds]
    made.env_runners(num_env_runners=runners).resources(num_cpus_for_main_process=0)
    made.ledger(folder=f"{folder}/{runners}")
    found: GradientCollectionConfig = made
    return found


def timed(algorithm: GradientCollection, submissions: int) -> tuple[float, float, float]:
    """Return submissions per second, the driver's CPU microseconds for one, and the mean score of an iteration."""
    wall, used = time.perf_counter(), time.process_time()
    told = algorithm.train()[algorithm.results_key]
    seconds = time.perf_counter() - wall
    return submissions / seconds, (time.process_time() - used) / submissions * 1e6, float(told["score"])


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
        settings = built[runners].config
        agents_per_call, staleness = settings.call_size, getattr(settings.learning_config(), "staleness", 0)
        row = {"case": case.name, "runners": runners, "agents_per_call": agents_per_call, "staleness": staleness}
        rate, cpu, steps = (statistics.median(turn[runners][i] for turn in turns) for i in range(3))
        row |= {"per_second": rate, "steps_per_second": rate * steps, "driver_microseconds": cpu}
        for other in (0, 1):
            row[f"of_{other}"] = statistics.median(turn[runners][0] / turn[other][0] for turn in turns)
        rows.append(row)
    return rows


def ppo_steps(runners: int, repeats: int) -> float:
    """Return the steps per second that RLlib's PPO samples without learning, the median over repeats."""
    model = DefaultModelConfig(fcnet_hiddens=[64, 64], fcnet_activation="tanh")
    algorithm = (
        PPOConfig()
        .environment("CartPole-v1")
        .rl_module(model_config=model)
        .env_runners(num_env_runners=runners, num_envs_per_env_runner=AT_ONCE)
        .resources(num_cpus_for_main_process=0)
        .build_algo()
    )
    group, steps, rates = algorithm.env_runner_group, 20 * AT_ONCE, []
    try:
        for _ in range(repeats + 1):
            wall = time.perf_counter()
            group.foreach_env_runner(
                lambda runner: runner.sample(num_timesteps=steps) and None, local_env_runner=runners == 0
            )
            rates.append(max(1, runners) * steps / (time.perf_counter() - wall))
    finally:
        algorithm.stop()
    return statistics.median(rates[1:])


def run(console: Console, options: argparse.Namespace) -> Row:
    ray.init(address="local", num_cpus=max(RUNNERS) + 1, include_dashboard=False, logging_level=logging.ERROR)
    rows: list[Row] = []
    repeats = 3 if options.quick else 7
    try:
        for case in CASES:
            rows += measure(case, repeats)
            show(
                console,
                f"{case.name}: medians",
                rows[-len(RUNNERS) :],
                "runners {runners} | a call {agents_per_call} | staleness {staleness} "
                "| submissions/s {per_second:,.0f} | of 0 runners {of_0:.2f} | of 1 runner {of_1:.2f} "
                "| driver CPU, us {driver_microseconds:.1f}",
            )
        ours = {row["runners"]: row["steps_per_second"] for row in rows if row["case"] == CASES[3].name}
        peers = [{"runners": r, "ours": ours[r], "ppo": ppo_steps(r, repeats)} for r in RUNNERS]
        for peer in peers:
            peer["ratio"] = peer["ours"] / peer["ppo"]
        columns = "runners {runners} | DPPG {ours:,.0f} | PPO's sampler {ppo:,.0f} | ratio {ratio:.2f}"
        show(console, "steps a second, CartPole-v1, 64 x 64 units (goal: ratio 0.5)", peers, columns)
    finally:
        ray.shutdown()
    return {"rows": rows, "ppo": peers}


if __name__ == "__main__":
    sys.exit(command_line(run, __doc__))
