"""Noise: ours with both generators against NumPy's, per draw, in one run.

Run from the repository's root: python -m benchmarks.noise [--quick] [--json PATH]
"""

from __future__ import annotations

import argparse
import sys
from itertools import product
from typing import Literal

import numpy as np
from rich.console import Console

from benchmarks.harness import Blocks, Row, Run, command_line, microseconds_per_episode, repeated, show
from dprl.compiled import kernel
from dprl.privacy.base import Float64Array
from dprl.privacy.mechanisms.base import Mechanism
from dprl.privacy.mechanisms.bounded import BoundedLaplace, Uniform
from dprl.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from dprl.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.mechanisms.sampling import Noise, fill_noise
from dprl.privacy.randomness.streams import NoiseConfig, Streams

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
_DRAWS_A_BLOCK, _QUICK_DRAWS_A_BLOCK = 8_000_000, 400_000
_REPEATS = 7


@kernel
def draw_often(n: int, out: Float64Array, noise: Noise) -> None:
    """Fill `out` n times, each time with the next draws."""
    for i in range(n):
        fill_noise(out, noise, np.uint64(i) * np.uint64(out.shape[0]))


def nanoseconds(run: Run, size: int, draws: int) -> float:
    """Return CPU nanoseconds per number of `run(n)`, which draws n times `size` numbers; about `draws` per block."""
    run(1)
    return microseconds_per_episode(run, Blocks(max(1, draws // size), _REPEATS)) * 1000.0 / size


def numpy_draws(law: str, size: int) -> Run:
    """Return draws of `size` numbers by NumPy's Generator: normal, or else laplace."""
    rng = np.random.default_rng(0)
    draw = rng.normal if "gaussian" in law else rng.laplace
    return repeated(lambda: draw(0.0, SCALE, size))


def our_draws(mechanism: Mechanism, entropy: Entropy, size: int) -> Run:
    out = np.empty(size)
    noise = mechanism.noise(Streams(0, "benchmark", NoiseConfig(entropy=entropy)).key("user_noise"))
    return lambda n: draw_often(n, out, noise)


def measure(draws: int) -> list[Row]:
    """Time every law with both generators; NumPy is timed before and after, against drift."""
    rows: list[Row] = []
    for size, mechanism in product(SIZES, MECHANISMS):
        law = mechanism.name
        before = nanoseconds(numpy_draws(law, size), size, draws // 4)
        ours = {e: nanoseconds(our_draws(mechanism, e, size), size, draws) for e in GENERATORS}
        numpy = min(before, nanoseconds(numpy_draws(law, size), size, draws // 4))
        for entropy, took in ours.items():
            row: Row = {"law": law, "entropy": entropy, "size": size, "ours": took, "numpy": numpy}
            rows.append(row | {"generator": GENERATORS[entropy], "ratio": numpy / took})
    return rows


def run(console: Console, options: argparse.Namespace) -> Row:
    """Time everything and print one line for every law, generator and size."""
    rows = measure(_QUICK_DRAWS_A_BLOCK if options.quick else _DRAWS_A_BLOCK)
    title = "CPU nanoseconds per number; NumPy's Generator.laplace, for the Gaussians Generator.normal"
    show(
        console,
        title,
        rows,
        "law {law} | generator {generator} | numbers {size:,} | ours {ours:.2f} "
        "| NumPy {numpy:.2f} | ratio {ratio:.1f}",
    )
    return {"rows": rows}


if __name__ == "__main__":
    sys.exit(command_line(run, __doc__))
