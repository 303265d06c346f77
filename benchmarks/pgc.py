"""PGC-A3C on CartPole: compiled agents with their noise against torch with gymnasium, and JAX with gymnax, as ratios.

Run from the repository's root: python -m benchmarks.pgc [--quick] [--no-peers] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial

import numpy as np
import torch
from rich.console import Console

from benchmarks.harness import (
    Blocks,
    Row,
    Run,
    command_line,
    microseconds_per_episode,
    race,
    repeated,
    show,
    verdict,
)
from benchmarks.naive_pgc import NaivePGC
from benchmarks.peer_rlberry import NO_PEERS, PEERS, PeerUnavailableError, install, run_command
from dprl.algorithms.pgc_a3c.agent_batch import (
    GRAVITY,
    AgentBatch,
    advance,
    agent_batch,
    deliver,
    idle,
    local_update,
    tick,
)
from dprl.algorithms.pgc_a3c.gradient import ACTION, Loss, LossTables, loss_tables
from dprl.algorithms.pgc_a3c.network import DIMENSION, INPUTS, initial_parameters
from dprl.envs.cartpole import CartPole, CartPoleGravity
from dprl.privacy import Streams, kernel
from dprl.privacy.base import Float64Array
from dprl.privacy.mechanisms.gradients import ClippedGaussian, ClippedLaplace, VectorMechanism
from dprl.privacy.mechanisms.privunit import PrivUnit
from dprl.privacy.mechanisms.projected_random_sign import ProjectedRandomSign
from dprl.privacy.mechanisms.vectors import VectorNoise, fill_estimate, fill_message

LOSS = Loss(0.99, 0.5, 0.01, "terminal", "discounted", False)
CLIP, EPSILON = 0.01, 1.0
LANES = (1, 8, 9, 16)
GOAL_LANES = 8
LEAST_OVER_NAIVE = 2_000.0


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


def disagreement(submissions: int) -> float:
    """The largest relative difference between our gradients and the naive program's on the same actions."""
    task, streams, worst = CartPoleGravity().build(), Streams(1, "agreement"), 0.0
    lanes, tables, gradient = agent_batch(1, task, streams), loss_tables(LOSS, task.horizon), np.empty(DIMENSION)
    for n in range(1, submissions + 1):
        theta = balancing() if n % 2 else untrained(Streams(n, "agreement"))
        theirs = NaivePGC(theta, dtype=torch.float64)
        deliver(lanes, 0, theta, n, n, 0.1)
        theirs.env.reset(seed=0)
        theirs.cart.state = lanes.table[0, :INPUTS, 0].copy()  # type: ignore[attr-defined]
        theirs.cart.gravity = lanes.table[0, GRAVITY, 0]  # type: ignore[attr-defined]
        seen: tuple[list[torch.Tensor], list[torch.Tensor], list[torch.Tensor]] = ([], [], [])
        over = False
        while not over:
            logits, value = theirs.look()
            ended = tick(lanes)
            over = theirs.act(int(lanes.table[0, ACTION, 0]), logits, value, seen)
            if over != bool(ended):
                raise ValueError(f"episodes must end together, not so in submission {n}")
        seen[1].append(theirs.look()[1])
        expected = theirs.gradient(*seen).numpy()
        local_update(lanes, 0, tables, gradient)
        worst = max(worst, float(np.abs(gradient - expected).max() / np.abs(expected).max()))
    return worst


@kernel
def send_often(n: int, gradient: Float64Array, noise: VectorNoise) -> float:
    """Randomize a gradient n times, and read each message; return a sum over all, so that none is optimised away."""
    message, estimate, total = np.empty(noise.message_length), np.empty(DIMENSION), 0.0
    for number in range(n):
        fill_message(message, gradient, noise, number)
        fill_estimate(estimate, message, noise)
        total += estimate[number % DIMENSION]
    return total


def noise_alone(repetitions: int) -> dict[str, float]:
    """Return the CPU microseconds of a message and its estimate, by mechanism, at epsilon 1 (PrivUnit: 5)."""
    gradient = np.linspace(-0.01, 0.01, DIMENSION)
    mechanisms: dict[str, VectorMechanism] = {
        "clipped_laplace": ClippedLaplace.calibrated(EPSILON, 0.0, DIMENSION, CLIP),
        "clipped_gaussian": ClippedGaussian.calibrated(EPSILON, 1e-6, DIMENSION, CLIP),
        "projected_random_sign": ProjectedRandomSign.calibrated(EPSILON, 0.0, DIMENSION, 1.0),
        "privunit": PrivUnit.calibrated(5.0, 0.0, DIMENSION),
    }
    found = {}
    for name, mechanism in mechanisms.items():
        noise = mechanism.vector_noise(Streams(0, "benchmark").key("user_noise"))
        send_often(10, gradient, noise)
        run = partial(send_often, gradient=gradient, noise=noise)
        found[name] = microseconds_per_episode(run, Blocks(repetitions))
    return found


def measure(policy: str, n_lanes: int, task: CartPole, blocks: Blocks, naive: Blocks | None) -> Row:
    """Return the mean length in steps and the CPU microseconds of one policy's submissions, ours and theirs (or 0)."""
    streams = Streams(0, "benchmark")
    theta, exploration = (balancing(), 0.0) if policy == "balancing" else (untrained(streams), 0.5)
    lanes, tables = agent_batch(n_lanes, task, streams), loss_tables(LOSS, task.horizon)
    noise = ClippedLaplace.calibrated(EPSILON, 0.0, DIMENSION, CLIP).vector_noise(streams.key("user_noise"))
    lengths = [submit_often(10, lanes, tables, noise, theta, exploration)]

    def submit(n: int) -> None:
        lengths.append(submit_often(n, lanes, tables, noise, theta, exploration))

    others: dict[str, tuple[Run, Blocks]] = {}
    if naive is not None:
        program = NaivePGC(theta, CLIP, EPSILON, learning_rate=0.0)
        others["naive"] = repeated(lambda: program.submission(exploration)), naive
    times = {"naive": 0.0} | race(submit, blocks, others)
    return {"policy": policy, "lanes": n_lanes, "steps": lengths[-1], **times}


def judged(row: Row) -> Row:
    """Return a row of `measure` with ratios; the goal is for full episodes in GOAL_LANES lanes."""
    full, ours, ratio = row["policy"] == "balancing", row["ours"], row["naive"] / row["ours"]
    return row | {
        "ns_a_step": ours / row["steps"] * 1000.0,
        "torch": f"{row['naive']:.0f}" if ratio else "",
        "ratio": f"{ratio:.0f}" if ratio else "",
        "least": verdict(ratio, LEAST_OVER_NAIVE if full and ratio else None),
    }


def report(console: Console, rows: list[Row]) -> None:
    """Print one line for every policy and number of lanes."""
    show(
        console,
        "PGC-A3C: CPU time of a submission with gradient, noise and update",
        [judged(row) for row in rows],
        "policy {policy} | lanes {lanes} | steps {steps:.0f} | ns a step {ns_a_step:.1f} "
        "| us {ours:.2f} | torch: us {torch} | ratio {ratio} | goal {least}",
    )


def beside_gymnax(console: Console, ours: float) -> dict[str, float]:
    """Time gymnax's episode of 200 steps with a gradient, by lanes, beside our submission, or print the reason."""
    try:
        command = [str(install("gymnax", PEERS / "gymnax.txt")), "-I", str(PEERS / "gymnax_cartpole.py")]
        found: dict[str, float] = json.loads(run_command([*command, json.dumps(balancing().tolist())], 600))
    except PeerUnavailableError as error:
        console.print(f"gymnax not measured: {error}", soft_wrap=True)
        return {}
    listed = ", ".join(f"{lanes} {took:.0f} ({took / ours:.1f})" for lanes, took in found.items())
    console.print(f"gymnax, float32, us an episode by lanes (over ours of {GOAL_LANES} lanes): {listed}")
    return found


def run(console: Console, options: argparse.Namespace) -> Row:
    """Check that both programs agree, then measure and print."""
    torch.set_num_threads(1)
    worst = disagreement(4 if options.quick else 20)
    console.print(f"gradients of both programs on the same actions: relative difference at most {worst:.1e}")
    task, effort, rows = CartPoleGravity().build(), 200 if options.quick else 2_000, []
    for policy, ours, theirs in (("balancing", effort, Blocks(2, 3)), ("untrained", 5 * effort, Blocks(15, 3))):
        for lanes in LANES:
            rows.append(measure(policy, lanes, task, Blocks(ours, 20), theirs if lanes == GOAL_LANES else None))
    report(console, rows)
    alone = noise_alone(100 * effort)
    costs = ", ".join(f"{name} {microseconds:.2f}" for name, microseconds in alone.items())
    console.print(f"noise and estimate alone, us a submission: {costs}")
    full = next(row for row in rows if row["policy"] == "balancing" and row["lanes"] == GOAL_LANES)
    gymnax = {} if options.no_peers else beside_gymnax(console, full["ours"])
    return {"disagreement": worst, "submissions": rows, "noise": alone, "gymnax": gymnax}


if __name__ == "__main__":
    sys.exit(command_line(run, __doc__, NO_PEERS))
