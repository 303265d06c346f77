"""PGC-A3C on CartPole: the compiled agents with their noise, against torch and gymnasium, in one run and as ratios.

Run from the repository's root: python -m benchmarks.pgc [--quick] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from benchmarks.naive_pgc import NaivePGC
from benchmarks.tabular import verdict
from benchmarks.timing import Blocks, machine, microseconds_per_episode
from dprl.algorithms.pgc_a3c.crowd import GRAVITY, Crowd, advance, crowd, deliver, idle, local_update, tick
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
MOST_NANOSECONDS_A_STEP, MOST_MICROSECONDS_SHORT, LEAST_OVER_NAIVE = 50.0, 4.0, 2_000.0


@dataclass(frozen=True)
class Row:
    """Submissions of one policy: their mean length in steps, CPU microseconds each, ours and theirs (0: not run)."""

    policy: str
    lanes: int
    steps: float
    ours: float
    naive: float

    @property
    def nanoseconds_a_step(self) -> float:
        return self.ours / self.steps * 1000.0


def balancing() -> Float64Array:
    """A policy that pushes towards where the pole falls: its episodes are of full length."""
    theta = np.zeros(DIMENSION)
    theta[0:4], theta[4:8] = [0.1, 0.3, 1.0, 1.0], [-0.1, -0.3, -1.0, -1.0]
    theta[64 + 16], theta[64 + 1] = 1.0, 1.0
    return theta


def untrained(streams: Streams) -> Float64Array:
    """A policy as it is at first."""
    return initial_parameters("glorot", 1.0, streams.key("env", "theta"))


@kernel
def submit_often(
    n: int, lanes: Crowd, loss: LossTables, noise: VectorNoise, theta: Float64Array, exploration: float
) -> float:
    """Take n submissions, with noise and an update after each; its step is 0, so that the episodes stay as long.

    Return the mean length of an episode.
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
    lanes, tables, gradient = crowd(1, task, streams), loss_tables(LOSS, task.horizon), np.empty(DIMENSION)
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
    """Randomise a gradient n times, and read each message; return something of all, so that nothing is left out."""
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
    """Time ours before and after the naive program, so that drift of the machine shows as a larger minimum."""
    streams = Streams(0, "benchmark")
    theta, exploration = (balancing(), 0.0) if policy == "balancing" else (untrained(streams), 0.5)
    lanes, tables = crowd(n_lanes, task, streams), loss_tables(LOSS, task.horizon)
    noise = ClippedLaplace.calibrated(EPSILON, 0.0, DIMENSION, CLIP).vector_noise(streams.key("user_noise"))
    lengths = [submit_often(10, lanes, tables, noise, theta, exploration)]

    def run(n: int) -> None:
        lengths.append(submit_often(n, lanes, tables, noise, theta, exploration))

    before, theirs = microseconds_per_episode(run, blocks), 0.0
    if naive is not None:
        program = NaivePGC(theta, CLIP, EPSILON, learning_rate=0.0)
        program.submission(exploration)

        def submit(n: int) -> None:
            for _ in range(n):
                program.submission(exploration)

        theirs = microseconds_per_episode(submit, naive)
    return Row(policy, n_lanes, lengths[-1], min(before, microseconds_per_episode(run, blocks)), theirs)


def report(console: Console, rows: list[Row]) -> None:
    """One line for every policy and number of lanes; goals are for GOAL_LANES lanes."""
    table = Table(title="PGC-A3C: CPU time of a submission with gradient, noise and update (goals: AVX-512)")
    for heading in ("policy", "lanes", "steps", "ns a step", "goal", "us", "goal", "torch: us", "ratio", "goal"):
        table.add_column(heading, justify="left" if heading in {"policy", "goal"} else "right")
    for row in rows:
        full, judged, against = row.policy == "balancing", row.lanes == GOAL_LANES, row.naive > 0.0
        ratio = row.naive / row.ours
        table.add_row(
            row.policy,
            str(row.lanes),
            f"{row.steps:.0f}",
            f"{row.nanoseconds_a_step:.1f}",
            verdict(row.nanoseconds_a_step, MOST_NANOSECONDS_A_STEP, at_most=True) if full and judged else "",
            f"{row.ours:.2f}",
            verdict(row.ours, MOST_MICROSECONDS_SHORT, at_most=True) if judged and not full else "",
            f"{row.naive:.0f}" if against else "",
            f"{ratio:.0f}" if against else "",
            verdict(ratio, LEAST_OVER_NAIVE) if full and judged and against else "",
        )
    console.print(table)


def main() -> int:
    """Check that both agree, measure, print, and write JSON if asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pgc", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write all figures here")
    parser.add_argument("--quick", action="store_true", help="shorter blocks")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    console = Console(width=None if sys.stdout.isatty() else 180, highlight=False)
    here, worst = machine(), disagreement(4 if arguments.quick else 20)
    console.print(", ".join(f"{key} {value}" for key, value in here.items()))
    console.print(f"gradients of both programs on the same actions: relative difference at most {worst:.1e}")
    task, effort = CartPoleGravity().build(), 200 if arguments.quick else 2_000
    rows = [
        measure(
            policy,
            n_lanes,
            task,
            Blocks(effort if policy == "balancing" else 5 * effort, repeats=20),
            Blocks(2 if policy == "balancing" else 15, repeats=3) if n_lanes == GOAL_LANES else None,
        )
        for policy in ("balancing", "untrained")
        for n_lanes in LANES
    ]
    report(console, rows)
    alone = noise_alone(100 * effort)
    costs = ", ".join(f"{name} {microseconds:.2f}" for name, microseconds in alone.items())
    console.print(f"noise and estimate alone, us a submission: {costs}")
    if arguments.json:
        document = {
            "machine": here,
            "disagreement": worst,
            "submissions": [asdict(row) for row in rows],
            "noise": alone,
        }
        arguments.json.write_text(json.dumps(document, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
