"""Gradient collection on RLlib with 0, 1 and 2 runners in one run: submissions per second, and driver CPU.

Lane `compiled` is PGC-A3C on CartPole with gravity; `vectorised` is DPPG in the central model, 50 users per call, in
Gymnasium's CartPole with a module of 64 x 64 units. Episodes are padded to at least 0.1, 1 or 10 ms of CPU time of the
runner's thread: runners that sleep would look twice as fast on one core. Nothing is learned, and actions stay random,
so that episodes stay short. Iterations with 0, 1 and 2 runners take turns, so that other load affects them equally.

Then it compares steps per second of the vectorised lane, with gradients and noise, with RLlib's PPO, which samples the
same environment with the same module, runners and 50 environments each, and computes no gradient; and updates per
second on one CPU core with those on a GPU, where there is one.

Run from the repository's root: python -m benchmarks.pgc_on_rllib [--quick] [--json PATH]
"""

from __future__ import annotations

import logging
import statistics
import tempfile
import time
import timeit
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import ray
import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

from benchmarks.harness import Row, command_line
from dprl.algorithms.dppg.network import Network
from dprl.algorithms.dppg.on_rllib import DPPGConfig
from dprl.algorithms.dppg.updates import gradients
from dprl.algorithms.pgc.aggregator import Batch, Reply
from dprl.algorithms.pgc.on_rllib.algorithm import GradientCollection
from dprl.algorithms.pgc.on_rllib.config import GradientCollectionConfig
from dprl.algorithms.pgc.on_rllib.env_runner import PrivateEnvRunner
from dprl.algorithms.pgc_a3c.on_rllib import PGCConfig
from dprl.envs import Episodes
from dprl.privacy import Client

RUNNERS = (0, 1, 2)
USERS, AT_ONCE = 200, 50
SUBMISSIONS = {
    ("compiled", 0.1): 4_000,
    ("compiled", 1.0): 2_000,
    ("compiled", 10.0): 200,
    ("vectorised", 0.1): 4 * USERS,
    ("vectorised", 10.0): 2 * USERS,
}
"""Submissions of an iteration, by lane and by the shortest episodes, in milliseconds."""


class _PaddedRunner(PrivateEnvRunner):
    """A runner whose episodes take at least so many milliseconds of CPU each."""

    milliseconds = 0.0

    def report(self, batch: Batch, new_client: Callable[[], Client]) -> Reply:
        end = time.thread_time() + self.milliseconds / 1e3 * len(batch.slots)
        reply = super().report(batch, new_client)
        while time.thread_time() < end:
            pass
        return reply


class _Padded(GradientCollectionConfig):
    """Settings of a run on padded runners, which the normal validation would refuse as unknown."""

    _runner: type[PrivateEnvRunner] = PrivateEnvRunner

    def validate(self) -> None:
        self.env_runner_cls = PrivateEnvRunner
        super().validate()
        self.env_runner_cls = self._runner


def algorithm(lane: str, episodes: float, runners: int, iterations: int, folder: str) -> GradientCollection:
    """Return the algorithm of a run of `iterations` iterations."""
    each = SUBMISSIONS[lane, episodes]
    made: Any
    length = {"n_submissions": each * iterations, "submissions_per_iteration": each, "learning_rate": 0.0}
    if lane == "vectorised":
        made = type("_DPPG", (_Padded, DPPGConfig), {})().environment("CartPole-v1")
        made.training(users_per_update=USERS, **length)
        made.privacy(model="jdp", epsilon=1.0, delta=1e-6, mechanism="clipped_gaussian", clip=2.0)
    else:
        made = type("_PGC", (_Padded, PGCConfig), {})().privacy(model="ldp", epsilon=5.0, mechanism="clipped_laplace")
        made.training(exploration=1.0, exploration_floor=1.0, **length)
    made._runner = type("Padded", (_PaddedRunner,), {"milliseconds": episodes})
    made.env_runners(num_env_runners=runners).resources(num_cpus_for_main_process=0)
    found: GradientCollection = made.ledger(folder=f"{folder}/{runners}").build_algo()
    return found


def iteration(built: GradientCollection, submissions: int) -> Row:
    """Return submissions and steps per second, and the driver's CPU microseconds for one submission."""
    wall, used = time.perf_counter(), time.process_time()
    score = float(built.train()[built.results_key]["score"])
    rate, cpu = submissions / (time.perf_counter() - wall), (time.process_time() - used) / submissions * 1e6
    return {"submissions/s": rate, "steps/s": rate * score, "driver CPU, us": cpu}


def collection(lane: str, episodes: float, repeats: int) -> list[Row]:
    """Return a row for each number of runners, after an iteration that compiles: medians over the turns."""
    with tempfile.TemporaryDirectory() as folder:
        built = {runners: algorithm(lane, episodes, runners, repeats + 1, folder) for runners in RUNNERS}
        try:
            for each in built.values():
                each.train()
            turns = [{r: iteration(built[r], SUBMISSIONS[lane, episodes]) for r in RUNNERS} for _ in range(repeats)]
        finally:
            for each in built.values():
                each.stop()
    rows = []
    for runners in RUNNERS:
        medians = {key: statistics.median(turn[runners][key] for turn in turns) for key in turns[0][runners]}
        ratio = statistics.median(turn[runners]["submissions/s"] / turn[0]["submissions/s"] for turn in turns)
        rows.append({"runners": runners, **medians, "ratio to 0 runners": ratio})
    return rows


def ppo_steps(runners: int, repeats: int) -> float:
    """Return the steps per second that RLlib's PPO samples without learning, the median over repeats."""
    model = DefaultModelConfig(fcnet_hiddens=[64, 64], fcnet_activation="tanh")
    config = PPOConfig().environment("CartPole-v1").rl_module(model_config=model)
    config.env_runners(num_env_runners=runners, num_envs_per_env_runner=AT_ONCE)
    algorithm = config.resources(num_cpus_for_main_process=0).build_algo()
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


def updates(units: int, repeats: int) -> Row:
    """Return users' updates per second, of 500 steps each and two hidden layers, on the CPU and on CUDA, if present."""
    rng, network, shape = np.random.default_rng(0), Network((8, units, units, 4)), (USERS, 500)
    seen, actions, gains = rng.normal(size=(*shape, 8)).astype(np.float32), rng.integers(4, size=shape), np.ones(shape)
    episodes, theta = Episodes(seen, actions, gains, np.full(USERS, 500), np.full(USERS, True)), network.first(rng)

    def rate(device: str) -> float:
        run = partial(gradients, network, theta, episodes, gains, 0.0, device)
        return USERS / min(timeit.repeat(run, repeat=repeats, number=1))

    return {"units": units, "CPU": rate("cpu"), "CUDA": rate("cuda") if torch.cuda.is_available() else "no device"}


def measure(quick: bool) -> Iterator[tuple[str, list[Row]]]:
    ray.init(address="local", num_cpus=max(RUNNERS) + 1, include_dashboard=False, logging_level=logging.ERROR)
    repeats = 3 if quick else 7
    try:
        tables = {}
        for lane, episodes in SUBMISSIONS:
            tables[lane, episodes] = collection(lane, episodes, repeats)
            yield f"{lane}, episodes of {episodes} ms or more: medians", tables[lane, episodes]
        rows = []
        for row in tables["vectorised", 0.1]:
            ppo = ppo_steps(row["runners"], repeats)
            rows.append({"runners": row["runners"], "DPPG": row["steps/s"], "PPO": ppo, "ratio": row["steps/s"] / ppo})
        yield "steps per second in CartPole-v1 with 64 x 64 units, DPPG and PPO's sampler", rows
        yield "updates per second, episodes of 500 steps", [updates(units, repeats) for units in (64, 512)]
    finally:
        ray.shutdown()


if __name__ == "__main__":
    command_line(measure, __doc__)
