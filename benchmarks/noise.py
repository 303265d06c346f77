"""Noise: ours with both generators against NumPy's, per draw, in one run.

Run from the repository's root: python -m benchmarks.noise [--quick] [--json PATH]
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Literal

import numpy as np

from benchmarks.harness import Blocks, Row, Run, command_line, microseconds_per_episode, repeated
from dprl.compiled import kernel
from dprl.privacy.base import Float64Array
from dprl.privacy.mechanisms.base import Mechanism
from dprl.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from dprl.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.mechanisms.sampling import Noise, fill_noise
from dprl.privacy.randomness.streams import NoiseConfig, Streams

Entropy = Literal["seed", "os"]
SIZES = (1_920, 35_200)  # H S A (S+2) counters of RiverSwim S=6 A=2 H=20 and of a random MDP S=20 A=4 H=20.
SCALE = 30.0
MECHANISMS: tuple[Mechanism, ...] = (Laplace(SCALE), Gaussian(SCALE), DiscreteLaplace(SCALE), DiscreteGaussian(SCALE))
GENERATORS: dict[Entropy, str] = {"seed": "SplitMix64", "os": "ChaCha20"}
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


def our_draws(mechanism: Mechanism, entropy: Entropy, size: int) -> Run:
    out = np.empty(size)
    noise = mechanism.noise(Streams(0, "benchmark", NoiseConfig(entropy=entropy)).key("user_noise"))
    return lambda n: draw_often(n, out, noise)


def measure(quick: bool) -> Iterator[tuple[str, list[Row]]]:
    """Time every law with both generators; NumPy is timed before and after, against drift."""
    rows, draws, rng = list[Row](), 400_000 if quick else 8_000_000, np.random.default_rng(0)
    for size, mechanism in product(SIZES, MECHANISMS):
        draw = rng.normal if "gaussian" in mechanism.name else rng.laplace
        theirs = repeated(partial(draw, 0.0, SCALE, size))
        before = nanoseconds(theirs, size, draws // 4)
        ours = {entropy: nanoseconds(our_draws(mechanism, entropy, size), size, draws) for entropy in GENERATORS}
        numpy = min(before, nanoseconds(theirs, size, draws // 4))
        for entropy, took in ours.items():
            row: Row = {"law": mechanism.name, "generator": GENERATORS[entropy], "numbers": size}
            rows.append(row | {"ours": took, "NumPy": numpy, "ratio": numpy / took})
    yield "CPU nanoseconds per number; NumPy's Generator.laplace, for the Gaussians Generator.normal", rows


if __name__ == "__main__":
    command_line(measure, __doc__)
