"""Growth of time and memory with every size, compared with the expected growth and with the machine's limits.

Run from the repository's root: python -m benchmarks.scaling [--quick] [--json PATH]
"""

from __future__ import annotations

import argparse
import sys
import tracemalloc
from typing import NamedTuple

import numpy as np
from rich.console import Console

import dprl
from benchmarks.harness import Blocks, Row, command_line, cpu_seconds, microseconds_per_episode, repeated, show
from benchmarks.noise import draw_often
from benchmarks.subjects import PLANNED_EPISODES
from dprl.platform.configs.experiment import Experiment
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.randomness.settings import NoiseConfig
from dprl.privacy.randomness.streams import Streams

JDP, LDP = {"model": "jdp", "epsilon": 1.0}, {"model": "ldp", "epsilon": 1.0}


class Axis(NamedTuple):
    """One size of an experiment, named as in its config, with its values and the exponent expected of time."""

    algorithm: str
    size: str
    values: tuple[int, ...]
    expected: str
    reason: str


# Environment, algorithm and privacy, with their default sizes; `actions` are those of each player.
SETTINGS: dict[str, tuple[Row, Row, Row]] = {
    "private_ucb_vi": (
        {"name": "random_mdp", "n_states": 10, "n_actions": 4, "horizon": 20},
        {"bonus_scale": 0.01, "precision_scale": 0.01},
        JDP,
    ),
    "dp_nash_vi": (
        {"name": "random_game", "n_states": 5, "actions": 3, "horizon": 5},
        {"bonus_scale": 0.0001, "precision_scale": 0.01},
        {"model": "jdp", "epsilon": 100.0},
    ),
    "ma_ldp": (
        {"name": "network_mdp", "n_agents": 2, "dimension": 2, "gap": 0.01},
        {"value": "maxmin"},
        {**LDP, "mechanism": "gram_laplace", "rewards": "public"},
    ),
    "pgc_a3c": ({"name": "cartpole_gravity"}, {"learning_rate": 0.0}, {**LDP, "mechanism": "clipped_laplace"}),
}
AXES = (
    Axis("private_ucb_vi", "episodes", (2_000, 8_000, 32_000), "1", "one draw a cell and episode"),
    Axis("private_ucb_vi", "horizon", (10, 20, 40, 80), "1", "H S A (S+2) cells"),
    Axis("private_ucb_vi", "n_states", (10, 20, 40, 80), "2", "H S A (S+2) cells"),
    Axis("private_ucb_vi", "n_actions", (4, 8, 16, 32), "1", "H S A (S+2) cells"),
    Axis("dp_nash_vi", "n_states", (5, 10, 20, 40), "2", "H S A B (S+1) cells"),
    Axis("dp_nash_vi", "actions", (2, 4, 8), "2 to 4", "cells: 2; a simplex of (A+B) x AB: 4"),
    Axis("ma_ldp", "n_agents", (2, 3, 4), "", "3^n states with 2^(n (d-1)) joint actions"),
    Axis("ma_ldp", "dimension", (2, 3, 4), "", "3^n states with 2^(n (d-1)) joint actions"),
    Axis(
        "pgc_a3c",
        "episodes",
        (2_000, 8_000, 32_000),
        "1",
        "one gradient an agent; no updates, so that episodes stay alike",
    ),
)


def experiment(algorithm: str, episodes: int = PLANNED_EPISODES, **sizes: int) -> Experiment:
    """Return the experiment of an algorithm at given sizes."""
    [found] = dprl.experiments(_config(algorithm, episodes, **sizes))
    return found


def _config(algorithm: str, episodes: int, **sizes: int) -> Row:
    env, settings, privacy = SETTINGS[algorithm]
    env = env | sizes
    if "actions" in env:
        env["n_max_actions"] = env["n_min_actions"] = env.pop("actions")
    found = {"name": "scaling", "algorithm": {"name": algorithm, **settings}, "env": env, "privacy": privacy}
    return {**found, "episodes": episodes, "seeds": 1}


def cost(subject: Experiment, seconds: float) -> tuple[float, float]:
    """Return CPU microseconds per episode, and the peak number of bytes of its arrays."""
    subject.build(0).learn(1)  # imports, compiles and fills caches
    tracemalloc.start()
    learner = subject.build(0)
    learner.learn(1)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    block = max(20, int(20 * seconds / 5 / max(cpu_seconds(learner.learn, 20), 1e-6)))
    return microseconds_per_episode(learner.learn, Blocks(min(block, PLANNED_EPISODES // 10))), float(most)


def whole_run(subject: Experiment) -> float:
    """Return CPU microseconds of a run of all its episodes."""
    return cpu_seconds(subject.build(0).learn, subject.episodes) * 1e6


def exponent(sizes: tuple[int, ...], costs: list[float]) -> float:
    """Return the least-squares slope of the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


def along(axis: Axis, seconds: float) -> Row:
    """Measure along one axis; other sizes are the defaults of `SETTINGS`."""
    if axis.size == "episodes":
        experiment(axis.algorithm, 100).build(0).learn(100)
        costs = [min(whole_run(experiment(axis.algorithm, n)) for _ in range(3)) for n in axis.values]
        bytes_used = [cost(experiment(axis.algorithm, n), 0.0)[1] for n in axis.values]
    else:
        found = [cost(experiment(axis.algorithm, **{axis.size: n}), seconds) for n in axis.values]
        costs, bytes_used = map(list, zip(*found, strict=True))
    memory, megabytes = exponent(axis.values, bytes_used), " / ".join(f"{each / 1e6:.2g}" for each in bytes_used)
    return {**_growth(axis, costs), "bytes": bytes_used, "memory": memory, "megabytes": megabytes}


def _growth(axis: Axis, costs: list[float]) -> Row:
    return {
        **axis._asdict(),
        "costs": costs,
        "measured": exponent(axis.values, costs),
        "last": exponent(axis.values[-2:], costs[-2:]),
        "shown": " / ".join(f"{each:.3g}" for each in costs),
        "sizes": " / ".join(f"{each:,}" for each in axis.values),
    }


def of_cells(numbers: tuple[int, ...]) -> Row:
    """Return CPU microseconds to plan and certify a sweep of n cells, each with different noise."""

    def certify(number: int) -> None:
        epsilons = {"grid_search": [1.0 + i / 1e5 for i in range(number)]}
        dprl.certify({**_config("private_ucb_vi", 1000), "privacy": {**JDP, "epsilon": epsilons}})

    axis = Axis("dprl certify", "cells", numbers, "1", "one curve a cell")
    return _growth(axis, [cpu_seconds(certify, number) * 1e6 for number in numbers])


class _Machine(NamedTuple):
    """Rates of this core: nanoseconds per draw of Laplace noise, bytes and floating-point operations per second."""

    nanoseconds_a_draw: float
    bytes_a_second: float
    operations_a_second: float


def rates() -> _Machine:
    """Measure the rates: draws of 35,200 numbers, a copy of 256 MB (read and written), a product of matrices."""
    noise, out = Laplace(30.0).noise(Streams(0, "scaling", NoiseConfig()).key("server_noise")), np.empty(35_200)
    draw_often(1, out, noise)
    draw = microseconds_per_episode(lambda n: draw_often(n, out, noise), Blocks(20)) * 1e3 / out.size
    source, target = np.ones(2**25), np.empty(2**25)
    copy = microseconds_per_episode(repeated(lambda: np.copyto(target, source)), Blocks(1))
    matrix = np.ones((400, 400))
    product = microseconds_per_episode(repeated(lambda: matrix @ matrix), Blocks(3))
    return _Machine(draw, 2 * source.nbytes / copy * 1e6, 2 * 400**3 / product * 1e6)


class _Work(NamedTuple):
    """Minimum work of an episode: draws of noise, bytes read or written, floating-point operations.

    Tabular: each cell has a draw and 5 numbers: a tree row, read and written, a true and a released count, and an
    estimate. MA-LDP: pairs of agents are added for each joint action and state, with a root, a sum and a maximum.
    PGC-A3C: a forward and a backward pass of 4-16-2 per step, and noise on 114 numbers.
    """

    name: str
    algorithm: str
    sizes: dict[str, int]
    draws: float
    moved: float
    operations: float


def works() -> list[_Work]:
    """Return the work of an episode of each algorithm, at the sizes of `SETTINGS` and larger ones."""
    found = []
    for s in (10, 40):
        cells = 20 * s * 4 * (s + 2)
        found.append(_Work(f"S={s} A=4 H=20", "private_ucb_vi", {"n_states": s}, cells, 40 * cells, 2 * cells))
    for s in (5, 20):
        cells = 5 * s * 9 * (s + 1)
        found.append(_Work(f"S={s} A=B=3 H=5", "dp_nash_vi", {"n_states": s}, cells, 40 * cells, 4 * cells))
    for n in (2, 4):
        actions = 5 * 3**n * 2**n
        found.append(_Work(f"n={n} d=2 H=5", "ma_ldp", {"n_agents": n}, 0, 0, actions * (n * (n - 1) / 2 + 4)))
    steps = experiment("pgc_a3c").build(0).learn(2_000).metrics["score"]
    found.append(_Work(f"{steps:.0f} steps", "pgc_a3c", {}, 114, 0, steps * 3 * 2 * (4 * 16 + 16 * 2)))
    return found


def from_limit(here: _Machine, work: _Work, seconds: float) -> Row:
    """Compare an episode with this core's time for each of its kinds of work alone."""
    took, _ = cost(experiment(work.algorithm, **work.sizes), seconds)
    limits = {
        "draws": work.draws * here.nanoseconds_a_draw / 1e3,
        "bytes": work.moved / here.bytes_a_second * 1e6,
        "operations": work.operations / here.operations_a_second * 1e6,
    }
    limit = max(limits, key=limits.__getitem__)
    return {
        **work._asdict(),
        "took": took,
        **{f"us_{k}": v for k, v in limits.items()},
        "limit": limit,
        "times": took / limits[limit],
    }


def run(console: Console, options: argparse.Namespace) -> Row:
    """Measure all axes, then the distance to the limits."""
    seconds = 0.2 if options.quick else 1.0
    rows = [along(axis, seconds) for axis in AXES]
    show(
        console,
        "CPU microseconds an episode (along episodes: of the whole run), and megabytes of arrays",
        rows,
        "algorithm {algorithm} | size {size} | values {sizes} | CPU {shown} | exponent {measured:.2f} "
        "| last step {last:.2f} | expected {expected} | {reason} | MB {megabytes} | exponent {memory:.2f}",
    )
    cells = of_cells((10, 40, 160) if options.quick else (10, 100, 1000))
    columns = "program {algorithm} | size {size} | values {sizes} | CPU us {shown} | exponent {measured:.2f}"
    show(console, "Sweeps", [cells], columns + " | last step {last:.2f}")
    here = rates()
    limits = [from_limit(here, work, seconds) for work in works()]
    show(
        console,
        f"CPU microseconds an episode beside those of its parts at {here.nanoseconds_a_draw:.2f} ns a draw, "
        f"{here.bytes_a_second / 1e9:.1f} GB/s, {here.operations_a_second / 1e9:.0f} Gflop/s",
        limits,
        "algorithm {algorithm} | sizes {name} | episode {took:.1f} | draws {us_draws:.2f} | bytes {us_bytes:.2f} "
        "| operations {us_operations:.2f} | largest {limit} | times {times:.1f}",
    )
    return {"axes": rows, "cells": cells, "machine_rates": here._asdict(), "limits": limits}


if __name__ == "__main__":
    sys.exit(command_line(run, __doc__))
