"""Randomized vectors: the contract of their mechanisms, and the kernels of messages and estimates."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from dprl.compiled import no_alloc_kernel, shows_numbers
from dprl.privacy.accounting.closed_forms import PrivacyCurve, Unbounded
from dprl.privacy.base import Float64Array
from dprl.privacy.mechanisms.base import Noise
from dprl.privacy.mechanisms.clipping import ANY, NORMS, fill_clipped, fill_units
from dprl.privacy.mechanisms.privunit_kernels import send_direction
from dprl.privacy.mechanisms.random_sign_kernels import project_back, send_signs
from dprl.privacy.mechanisms.sampling import SILENT, fill_noise
from dprl.privacy.randomness.bits import fill_bits

# Kinds of messages: the clipped vector without noise, with noise, with noise on a grid; randomized signs of
# projections; a direction inside or outside a cap.
RAW, CLIPPED, GRIDDED, SIGNS, CAP = range(5)
NO_ACCOUNT = "none"
_MOST_DRAWS = 2**53


@shows_numbers
class VectorNoise(NamedTuple):
    """A vector mechanism for kernels, with their workspace. For one thread.

    kind: one of the codes above; dimension: d; message_length: numbers in a message; norm: of the ball into which
    vectors are shrunk, a code in clipping.py; clip: its radius, the clip of projections, or the threshold of the cap;
    probability: of the cap; grid: 0, or the unit of the message; factor: multiplies the estimate (signs) or divides it
    (caps); draws: number per submission; submissions: maximum per key; noise: of one number, or only the key and the
    table of the coins; numbers float64[n], words uint64[m]: the workspace; open_key uint64[5]: of the open part of a
    message, never drawn from the key of the noise.
    """

    kind: int
    dimension: int
    message_length: int
    norm: int
    clip: float
    probability: float
    grid: float
    factor: float
    draws: int
    submissions: int
    noise: Noise
    numbers: Float64Array
    words: npt.NDArray[np.uint64]
    open_key: npt.NDArray[np.uint64] = SILENT.key

    def __reduce__(self) -> NoReturn:
        raise TypeError("noise cannot be copied or pickled: its key must not be written down or used twice")


@no_alloc_kernel
def fill_message(message: Float64Array, vector: Float64Array, noise: VectorNoise, number: int) -> None:
    """User side: write the message float64[m] of submission `number` >= 0 for `vector` float64[d].

    Non-finite numbers count as 0. Submissions of different numbers share no bit of the key, but two messages of one
    number share their noise. Raises ValueError for other lengths, and for a number beyond the key's submissions.

    *Formal guarantee.* That of the mechanism that made `noise`, for any two vectors.
    """
    if message.shape[0] != noise.message_length or vector.shape[0] != noise.dimension:
        raise ValueError("message and vector must be as long as the mechanism says; flatten the vector")
    if number < 0 or number >= noise.submissions:
        raise ValueError("number must lie in what the key lasts for; start a new stream")
    first = np.uint64(number) * np.uint64(noise.draws)
    if noise.kind == RAW:
        fill_clipped(message, vector, noise.clip, noise.norm)
    elif noise.kind in (CLIPPED, GRIDDED):
        fill_noisy(message, vector, noise, first)
    elif noise.kind == SIGNS:
        key, table, seed = noise.noise.key, noise.noise.table, noise.words[:1]
        fill_bits(seed, noise.open_key, np.uint64(number))
        send_signs(message, vector, noise.clip, table, key, first, seed[0], (noise.numbers, noise.words))
    elif noise.kind == CAP:
        cap, workspace = (noise.probability, noise.clip), (noise.numbers, noise.words)
        send_direction(message, vector, cap, noise.noise.key, first, workspace)
    else:
        raise ValueError("kind must be one of the codes in dprl.privacy.mechanisms.vectors")


@no_alloc_kernel
def fill_noisy(message: Float64Array, vector: Float64Array, noise: VectorNoise, first: np.uint64) -> None:
    """User side: write the clipped vector with noise to `message` float64[d], for the kinds CLIPPED and GRIDDED.

    first: the number of the first draw. Callers that need only these kinds compile seconds faster with this function.

    *Formal guarantee.* That of the mechanism that made `noise`, for any two vectors.
    """
    fill_noise(message, noise.noise, first)
    shrunk = noise.numbers
    fill_clipped(shrunk, vector, noise.clip, noise.norm)
    if noise.kind == GRIDDED:
        units, radius = noise.words.view(np.int64), np.int64(noise.clip / noise.grid)
        fill_units(units, shrunk, radius, noise.grid, noise.norm)
        for i in range(shrunk.shape[0]):
            message[i] = noise.grid * (message[i] + np.float64(units[i]))
    else:
        for i in range(shrunk.shape[0]):
            message[i] += shrunk[i]


@no_alloc_kernel
def fill_shrunk(message: Float64Array, vector: Float64Array, noise: VectorNoise) -> None:
    """User side: write the clipped vector without noise to `message` float64[d], on the grid if there is one.

    It is for the kinds CLIPPED and GRIDDED, and a server that is trusted to add the noise.
    """
    fill_clipped(message, vector, noise.clip, noise.norm)
    if noise.kind == GRIDDED:
        units, radius = noise.words.view(np.int64), np.int64(noise.clip / noise.grid)
        fill_units(units, message, radius, noise.grid, noise.norm)
        for i in range(message.shape[0]):
            message[i] = noise.grid * np.float64(units[i])


@no_alloc_kernel
def fill_estimate(out: Float64Array, message: Float64Array, noise: VectorNoise) -> None:
    """Server side: write the estimate from a message float64[m] to `out` float64[d]; post-processing."""
    if message.shape[0] != noise.message_length or out.shape[0] != noise.dimension:
        raise ValueError("message and estimate must be as long as the mechanism says")
    if noise.kind == SIGNS:
        project_back(out, message, noise.factor, noise.numbers, noise.words)
    elif noise.kind == CAP:
        for i in range(out.shape[0]):
            out[i] = message[i] / noise.factor
    else:
        for i in range(out.shape[0]):
            out[i] = message[i]


class VectorMechanism(ABC):
    """Randomizes one vector per submission; `curve` is the guarantee of one message between any two vectors.

    Non-finite numbers count as 0, because an exception would reveal something about the data. A stream belongs to one
    mechanism; submissions of different numbers never share a bit of it.
    """

    name: ClassVar[str]

    if TYPE_CHECKING:  # a field, a class variable or a property

        @property
        def dimension(self) -> int:
            """d, of the vectors."""

        @property
        def arithmetic(self) -> str:
            """Assumption of the guarantee on numbers."""

        @property
        def noise_norm(self) -> float:
            """A bound on the root mean squared norm of the estimate's error (for an input that is not clipped)."""

    @property
    def message_length(self) -> int:
        """Number of entries of a message, for any data."""
        return self.dimension

    @property
    def largest_norm(self) -> float:
        """Radius of the ball into which vectors are shrunk; 1 for directions and where there is none."""
        return 1.0

    @abstractmethod
    def curve(self) -> PrivacyCurve:
        """Return the privacy curve of one message between any two inputs."""

    @abstractmethod
    def explain(self) -> str:
        """Return the one line that explains the noise: its formula with the numbers, and the reason."""

    @abstractmethod
    def vector_noise(self, key: npt.NDArray[np.uint64]) -> VectorNoise:
        """Return the kernels' form, drawing from the stream `key`."""

    def _for_kernels(
        self, kind: int, clip: float, noise: Noise, sizes: tuple[int, int], draws: int | None = None
    ) -> VectorNoise:
        """Return the kernels' form with a workspace of `sizes` numbers and words: no ball, no grid, a factor of 1.

        draws: of one submission; one per coordinate if not given.
        """
        draws = self.dimension if draws is None else draws
        numbers, words = np.zeros(sizes[0]), np.zeros(sizes[1], dtype=np.uint64)
        return VectorNoise(
            kind, self.dimension, self.message_length, ANY, clip, 0.0, 0.0, 1.0, draws, _MOST_DRAWS // draws,
            noise, numbers, words,
        )  # fmt: skip


@dataclass(frozen=True)
class RawVector(VectorMechanism):
    """The clipped vector without noise, for runs without privacy. No ledger accounts for it.

    Args:
        dimension: d, of the vector.
        norm: of the ball of radius clip / 2 into which it is shrunk: 'l1', 'l2' or 'elementwise'; 'none' for no clip.
        clip: C > 0.
    """

    dimension: int
    norm: Literal["none", "l1", "l2", "elementwise"]
    clip: float
    name: ClassVar[str] = "raw"
    arithmetic: ClassVar[str] = NO_ACCOUNT
    noise_norm: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        check_ball(self.dimension, self.clip)
        if self.norm not in NORMS:
            raise ValueError(f"norm must be one of {', '.join(NORMS)}, got {self.norm!r}; choose one of them")

    @property
    def largest_norm(self) -> float:
        """Radius of the ball into which vectors are shrunk; 1 where there is none."""
        return 1.0 if self.norm == "none" else self.clip / 2.0

    def curve(self) -> PrivacyCurve:
        """Return an unbounded curve: nothing is guaranteed."""
        return Unbounded()

    def explain(self) -> str:
        """Return that there is no noise."""
        return "no noise"

    def vector_noise(self, key: npt.NDArray[np.uint64]) -> VectorNoise:
        """Return the kernels' form; nothing is drawn from `key`."""
        silent = SILENT._replace(key=key)
        return self._for_kernels(RAW, self.clip / 2.0, silent, (0, 0), draws=1)._replace(norm=NORMS[self.norm])


def check_ball(dimension: int, clip: float) -> None:
    """Raise ValueError unless vectors of that dimension can be shrunk into a ball of radius clip / 2."""
    if dimension < 1:
        raise ValueError(f"dimension must be at least 1, got {dimension}; a message has at least one number")
    if not (math.isfinite(clip) and clip > 0):
        raise ValueError(f"clip must be finite and above 0, got {clip}; vectors are shrunk to half of it")
