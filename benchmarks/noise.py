"""Noise: ours with either generator against NumPy's, per draw and per cell of one counter step, in one run.

Run from the repository's root: python -m benchmarks.noise [--quick] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.tabular import verdict
from benchmarks.timing import Blocks, machine, microseconds_per_episode
from dprl.privacy.base import Float64Array
from dprl.privacy.compiled import kernel
from dprl.privacy.counters.base import CounterState
from dprl.privacy.counters.binary_tree import BinaryTree
from dprl.privacy.counters.release import release_prefix
from dprl.privacy.mechanisms.base import Mechanism, Noise
from dprl.privacy.mechanisms.bounded_laplace import BoundedLaplace
from dprl.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from dprl.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.mechanisms.sampling import fill_noise
from dprl.privacy.mechanisms.uniform import Uniform
from dprl.privacy.randomness.settings import NoiseConfig
from dprl.privacy.randomness.streams import Streams

Entropy = Literal["seed", "os"]
# H S A (S+2) counters of RiverSwim S=6 A=2 H=20 and of a random MDP S=20 A=4 H=20.
SIZES = (1_920, 35_200)
SCALE = 30.0
MECHANISMS: tuple[Mechanism, ...] = (
    Laplace(SCALE),
    Gaussian(SCALE),
    DiscreteLaplace(SCALE),
    DiscreteGaussian(SCALE),
    Uniform(SCALE),
    BoundedLaplace(SCALE, 3.0 * SCALE),
)
GENERATORS: dict[Entropy, str] = {"seed": "SplitMix64", "os": "ChaCha20"}
# Nanoseconds, on AVX-512: a draw of the continuous laws, and a cell of a counter step.
MOST_A_DRAW: dict[tuple[str, Entropy], float] = {
    ("laplace", "seed"): 0.7,
    ("laplace", "os"): 1.8,
    ("gaussian", "seed"): 1.0,
    ("gaussian", "os"): 2.0,
}
MOST_A_CELL: dict[Entropy, float] = {"seed": 1.0, "os": 2.0}
_DRAWS_A_BLOCK, _QUICK_DRAWS_A_BLOCK = 8_000_000, 400_000
_REPEATS = 7


@dataclass(frozen=True)
class Row:
    """CPU nanoseconds per draw, or per cell of a counter step, ours and NumPy's for as many."""

    what: Literal["draw", "tree step"]
    law: str
    entropy: Entropy
    size: int
    ours: float
    numpy: float

    @property
    def most(self) -> float:
        """Our goal; infinite if there is none."""
        if self.what == "draw":
            return MOST_A_DRAW.get((self.law, self.entropy), math.inf)
        return MOST_A_CELL[self.entropy] if self.law == "laplace" else math.inf


@kernel
def draw_often(n: int, out: Float64Array, noise: Noise) -> None:
    """Fill `out` n times, each time with the next draws."""
    for i in range(n):
        fill_noise(out, noise, np.uint64(i) * np.uint64(out.shape[0]))


@kernel
def release_often(n: int, released: Float64Array, totals: Float64Array, state: CounterState) -> None:
    """Release prefixes 1..n."""
    for item in range(1, n + 1):
        release_prefix(released, totals, state, item)


def nanoseconds(run: Callable[[int], object], size: int, draws: int) -> float:
    """CPU nanoseconds per number of `run(n)`, which makes n times `size` numbers; about `draws` a block."""
    run(1)
    times = max(1, draws // size)
    return microseconds_per_episode(run, Blocks(times, _REPEATS)) * 1000.0 / size


def numpy_nanoseconds(law: str, size: int, draws: int) -> float:
    """CPU nanoseconds per draw of NumPy's Generator, called for `size` numbers: normal, or else laplace."""
    rng = np.random.default_rng(0)
    draw = rng.normal if "gaussian" in law else rng.laplace

    def run(n: int) -> None:
        for _ in range(n):
            draw(0.0, SCALE, size)

    return nanoseconds(run, size, draws // 4)


def time_draws(mechanism: Mechanism, entropy: Entropy, size: int, draws: int) -> float:
    """CPU nanoseconds per draw of ours."""
    out = np.empty(size)
    noise = mechanism.noise(Streams(0, "benchmark", NoiseConfig(entropy=entropy)).key("user_noise"))
    return nanoseconds(lambda n: draw_often(n, out, noise), size, draws)


def time_tree_steps(mechanism: Mechanism, entropy: Entropy, size: int, draws: int) -> float:
    """CPU nanoseconds per cell and step of the binary tree."""
    counter = BinaryTree(2**20, mechanism)
    state = counter.open(size, Streams(0, "benchmark", NoiseConfig(entropy=entropy)).key("server_noise"))
    released, totals = np.empty(size), np.zeros(size)
    return nanoseconds(lambda n: release_often(n, released, totals, state), size, draws)


def measure(draws: int) -> list[Row]:
    """Time every law with both generators, and tree steps; NumPy before and after, so that drift shows as a minimum."""
    rows = []
    for size in SIZES:
        for mechanism in MECHANISMS:
            before = numpy_nanoseconds(mechanism.name, size, draws)
            drawn = {e: time_draws(mechanism, e, size, draws) for e in GENERATORS}
            steps = {e: time_tree_steps(mechanism, e, size, draws) for e in GENERATORS if in_a_tree(mechanism)}
            numpy = min(before, numpy_nanoseconds(mechanism.name, size, draws))
            rows += [Row("draw", mechanism.name, e, size, took, numpy) for e, took in drawn.items()]
            rows += [Row("tree step", mechanism.name, e, size, took, numpy) for e, took in steps.items()]
    return rows


def in_a_tree(mechanism: Mechanism) -> bool:
    """Whether a tree's step is timed with this law: the two of the papers' counters and their integer versions."""
    return mechanism.name in {"laplace", "gaussian", "discrete_laplace", "discrete_gaussian"}


def report(console: Console, rows: list[Row]) -> None:
    """One line for every law, generator and size."""
    title = "CPU nanoseconds per number; NumPy's Generator.laplace, for the Gaussians Generator.normal"
    table = Table(title=f"{title} (goals: AVX-512)")
    for heading in ("what", "law", "generator", "numbers", "ours", "goal", "NumPy", "ratio"):
        table.add_column(heading, justify="left" if heading in {"what", "law", "generator"} else "right")
    for row in sorted(rows, key=lambda row: row.what):
        table.add_row(
            row.what,
            row.law,
            GENERATORS[row.entropy],
            f"{row.size:,}",
            f"{row.ours:.2f}",
            "" if math.isinf(row.most) else verdict(row.ours, row.most, at_most=True),
            f"{row.numpy:.2f}",
            f"{row.numpy / row.ours:.1f}",
        )
    console.print(table)


def main() -> int:
    """Measure, print, and write JSON if asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.noise", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write all figures here")
    parser.add_argument("--quick", action="store_true", help="shorter blocks")
    arguments = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    here = machine()
    console.print(", ".join(f"{key} {value}" for key, value in here.items()))
    rows = measure(_QUICK_DRAWS_A_BLOCK if arguments.quick else _DRAWS_A_BLOCK)
    report(console, rows)
    if arguments.json:
        document = {"machine": here, "rows": [asdict(row) for row in rows]}
        arguments.json.write_text(json.dumps(document, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
