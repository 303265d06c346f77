"""PGC-A3C on CartPole: compiled agents with their noise against torch with gymnasium, as ratios within one run.

Run from the repository's root: python -m benchmarks.pgc [--quick] [--json PATH]
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from benchmarks.harness import Blocks, Row, command_line, race, repeated
from benchmarks.naive_pgc import NaivePGC
from dprl.algorithms.pgc_a3c.agent_batch import AgentBatch, advance, agent_batch, deliver, idle, local_update
from dprl.algorithms.pgc_a3c.algorithm import PGCA3CConfig
from dprl.algorithms.pgc_a3c.gradient import LossTables, loss_tables
from dprl.algorithms.pgc_a3c.network import DIMENSION, initial_parameters
from dprl.compiled import kernel
from dprl.envs.cartpole import CartPoleGravity
from dprl.privacy import Streams
from dprl.privacy.base import Float64Array
from dprl.privacy.mechanisms.vectors import ClippedLaplace, VectorNoise, fill_estimate, fill_message

LOSS = PGCA3CConfig()
CLIP, EPSILON = 0.01, 1.0
LANES = 8


def balancing() -> Float64Array:
    """Return a policy that pushes in the direction of the fall, and has episodes of full length."""
    theta = np.zeros(DIMENSION)
    theta[0:4], theta[4:8] = [0.1, 0.3, 1.0, 1.0], [-0.1, -0.3, -1.0, -1.0]
    theta[64 + 16], theta[64 + 1] = 1.0, 1.0
    return theta


def untrained(streams: Streams) -> Float64Array:
    """Return an initial policy."""
    return initial_parameters("glorot", 1.0, streams.key("env", "theta"))


@kernel
def submit_often(
    n: int, lanes: AgentBatch, loss: LossTables, noise: VectorNoise, theta: Float64Array, exploration: float
) -> float:
    """Take n submissions, with noise and an update after each, and return the mean length of an episode.

    The step of updates is 0, so that the length of episodes does not change.
    """
    gradient, message, estimate = np.empty(DIMENSION), np.empty(noise.message_length), np.empty(DIMENSION)
    begun, done, steps = 0, 0, 0.0
    for lane in range(lanes.n_lanes):
        idle(lanes, lane)
        if begun < n:
            begun += 1
            deliver(lanes, lane, theta, begun, begun, exploration)
    while done < n:
        advance(lanes)
        for lane in range(lanes.n_lanes):
            if lanes.ended[lane] == 0:
                continue
            steps += local_update(lanes, lane, loss, gradient)
            fill_message(message, gradient, noise, done)
            fill_estimate(estimate, message, noise)
            for k in range(DIMENSION):
                theta[k] -= 0.0 * estimate[k]
            done += 1
            if begun < n:
                begun += 1
                deliver(lanes, lane, theta, begun, begun, exploration)
    return steps / n


def submissions(policy: str, task: CartPoleGravity, blocks: Blocks, naive: Blocks) -> Row:
    """Return the mean length in steps and the CPU microseconds of one policy's submissions, ours and theirs."""
    streams = Streams(0, "benchmark")
    theta, exploration = (balancing(), 0.0) if policy == "balancing" else (untrained(streams), 0.5)
    lanes, tables = agent_batch(LANES, task, streams), loss_tables(LOSS, task.horizon)
    noise = ClippedLaplace.calibrated(EPSILON, 0.0, DIMENSION, CLIP).vector_noise(streams.key("user_noise"))
    steps = submit_often(1000, lanes, tables, noise, theta, exploration)
    program = NaivePGC(theta, CLIP, EPSILON, learning_rate=0.0)
    times = race(
        lambda n: submit_often(n, lanes, tables, noise, theta, exploration),
        blocks,
        repeated(lambda: program.submission(exploration)),
        naive,
    )
    return {"policy": policy, "steps": steps, **times}


def measure(quick: bool) -> Iterator[tuple[str, list[Row]]]:
    torch.set_num_threads(1)
    task, effort = CartPoleGravity().build(), 200 if quick else 2_000
    rows = [
        submissions("balancing", task, Blocks(effort, 20), Blocks(2, 3)),
        submissions("untrained", task, Blocks(5 * effort, 20), Blocks(15, 3)),
    ]
    yield f"PGC-A3C, {LANES} lanes: CPU microseconds of a submission with gradient, noise and update; torch", rows


if __name__ == "__main__":
    command_line(measure, __doc__)
