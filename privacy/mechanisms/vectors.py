"""Randomized vectors: the contract of their mechanisms, the kernels of messages and estimates, and clipped noise.

The clip bounds the distance of any two vectors, so a message has a privacy curve without a further sensitivity. It
covers everything that affects the vector: environment, trajectory, its length. It does not cover whether and when a
message is sent: send one per round, with the zero vector if there is no other.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, NoReturn, Self

import numpy as np
import numpy.typing as npt

from dprl.compiled import no_alloc_kernel, shows_numbers
from dprl.privacy.accounting.amplification import SampledGaussianLoss
from dprl.privacy.accounting.closed_forms import PrivacyCurve, Unbounded
from dprl.privacy.base import Float64Array, LedgerError, Sensitivity, check_choice, check_positive
from dprl.privacy.mechanisms.base import IDEALISED, Mechanism
from dprl.privacy.mechanisms.clipping import ANY, L1, L2, NORMS, fill_clipped, fill_units
from dprl.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from dprl.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.mechanisms.privunit_kernels import fill_privunit
from dprl.privacy.mechanisms.random_sign_kernels import project_back, send_signs
from dprl.privacy.mechanisms.sampling import SILENT, Noise, fill_noise, silent
from dprl.privacy.randomness.bits import fill_bits

# Kinds of messages: the clipped vector without noise, with noise, with noise on a grid; randomized signs of
# projections; a direction inside or outside a cap.
RAW, CLIPPED, GRIDDED, SIGNS, CAP = range(5)
NO_ACCOUNT = "none"
_MOST_DRAWS = 2**53
GRID = "grid"
"""Integers times a power of two: every sum is exact in float64."""
_LARGEST_UNITS = 2.0**31


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
        send_signs(message, vector, noise.clip, table, key, first, seed[0], noise.numbers, noise.words)
    elif noise.kind == CAP:
        key, numbers, words = noise.noise.key, noise.numbers, noise.words
        fill_privunit(message, vector, noise.probability, noise.clip, key, first, numbers, words)
    else:
        raise ValueError("kind must be one of the codes in dprl.privacy.mechanisms.vectors")


@no_alloc_kernel
def fill_noisy(message: Float64Array, vector: Float64Array, noise: VectorNoise, first: np.uint64) -> None:
    """User side: write the clipped vector with noise to `message` float64[d], for the kinds CLIPPED and GRIDDED.

    first: the number of the first draw. Callers that need only these kinds compile seconds faster with this function.

    *Formal guarantee.* That of the mechanism that made `noise`, for any two vectors.
    """
    fill_noise(message, noise.noise, first)
    shrunk, unit = noise.numbers, noise.grid if noise.kind == GRIDDED else 1.0
    fill_shrunk(shrunk, vector, noise)
    for i in range(shrunk.shape[0]):
        # On a grid both are multiples of it, so that their sum is exact.
        message[i] = unit * message[i] + shrunk[i]


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
        """Return the kernels' form, no ball or grid, a factor of 1. sizes: of the workspace; draws: per submission."""
        draws = self.dimension if draws is None else draws
        numbers, words = np.zeros(sizes[0]), np.zeros(sizes[1], dtype=np.uint64)
        return VectorNoise(
            kind, self.dimension, self.message_length, ANY, clip, 0.0, 0.0, 1.0, draws, _MOST_DRAWS // draws,
            noise, numbers, words,
        )  # fmt: skip


@dataclass(frozen=True)
class RawVector(VectorMechanism):
    """The clipped vector without noise, for runs without privacy. No ledger accounts for it.

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
        check_choice("norm", self.norm, NORMS)

    @property
    def largest_norm(self) -> float:
        return 1.0 if self.norm == "none" else self.clip / 2.0

    def curve(self) -> PrivacyCurve:
        return Unbounded()

    def explain(self) -> str:
        return "no noise"

    def vector_noise(self, key: npt.NDArray[np.uint64]) -> VectorNoise:
        return self._for_kernels(RAW, self.clip / 2.0, silent(key), (0, 0), draws=1)._replace(norm=NORMS[self.norm])


def check_ball(dimension: int, clip: float) -> None:
    """Raise ValueError unless vectors of that dimension can be shrunk into a ball of radius clip / 2."""
    if dimension < 1:
        raise ValueError(f"dimension must be at least 1, got {dimension}; a message has at least one number")
    check_positive("clip", clip, "vectors are shrunk to half of it")


@dataclass(frozen=True)
class _Clipped(VectorMechanism):
    """A vector shrunk into a ball, with additive noise.

    Args:
        clip: C > 0; vectors are shrunk into the ball of radius C / 2, so that two of them differ by at most C.
        additive: the noise of one coordinate, in units of the grid if there is one.
        grid: 0, or the power of two that divides all numbers of the message.
    """

    dimension: int
    clip: float
    additive: Mechanism
    grid: float = 0.0
    norm: ClassVar[str]
    continuous: ClassVar[type[Laplace] | type[Gaussian]]
    discrete: ClassVar[type[DiscreteLaplace] | type[DiscreteGaussian]]
    grid_bits: ClassVar[int]
    """The noise scale is 2^n to 2^(n+1) units of the grid: a millionth of the noise, within the sampler's table."""

    def __post_init__(self) -> None:
        check_ball(self.dimension, self.clip)
        if self.grid and (math.frexp(self.grid)[0] != 0.5 or not 1 <= self.radius_units <= _LARGEST_UNITS):
            raise ValueError(f"grid must be a power of two from clip/2^32 to clip/2, got {self.grid} for {self.clip}")
        if (self.additive.arithmetic == IDEALISED) != (self.grid == 0.0):
            raise ValueError(f"grid must be 0 for continuous noise and above 0 for integer noise, got {self}")

    @classmethod
    def calibrated(cls, epsilon: float, delta: float, dimension: int, clip: float, exact: bool = False) -> Self:
        """Return the least noise that makes one message (epsilon, delta)-LDP; raise ValueError if none does."""
        check_positive("epsilon", epsilon, "nothing else is a guarantee")
        check_ball(dimension, clip)
        if cls.norm == "l2" and not 0.0 < delta < 1.0:
            raise ValueError(f"delta must lie in (0, 1) for Gaussian noise, got {delta}; use clipped_laplace for 0")
        whole = cls.continuous.calibrated(epsilon, delta, _of_ball(clip, cls.norm, dimension))
        if not exact:
            return cls(dimension, clip, whole)
        grid = _grid(whole.scale, cls.grid_bits)
        of_units = _of_ball(2.0 * math.floor(clip / 2.0 / grid), cls.norm, dimension)
        return cls(dimension, clip, cls.discrete.calibrated(epsilon, delta, of_units), grid)

    @property
    def radius_units(self) -> int:
        """The radius of the ball in units of the grid, rounded down."""
        return math.floor(self.clip / 2.0 / self.grid)

    @property
    def sensitivity(self) -> Sensitivity:
        """Largest distance of two clipped vectors: the diameter in `norm`, in units of the grid if there is one."""
        return _of_ball(2.0 * self.radius_units if self.grid else self.clip, self.norm, self.dimension)

    @property
    def largest_norm(self) -> float:
        return self.clip / 2.0

    @property
    def arithmetic(self) -> str:
        return GRID if self.grid else IDEALISED

    @property
    def scale(self) -> float:
        """The noise scale of a coordinate, in units of the vector."""
        return self.additive.scale * (self.grid or 1.0)

    @property
    def noise_norm(self) -> float:
        """sqrt(d * variance), with up to d * grid^2 more under the root for rounding; exact for an unclipped input."""
        unit = self.grid or 1.0
        return math.sqrt(self.dimension * (self.additive.variance * unit**2 + self.grid**2))

    def curve(self) -> PrivacyCurve:
        return self.additive.curve(self.sensitivity)

    def explain(self) -> str:
        grid = f", in units of the grid {self.grid:.6g}" if self.grid else ""
        ball = f"two vectors in the {self.norm.upper()} ball of radius C / 2 differ by at most C = {self.clip:.6g}"
        return f"{self.additive.explain(self.sensitivity)}{grid}; {ball}"

    def vector_noise(self, key: npt.NDArray[np.uint64]) -> VectorNoise:
        kind, radius = (GRIDDED, self.radius_units * self.grid) if self.grid else (CLIPPED, self.clip / 2.0)
        sizes, norm = (self.dimension, self.dimension if self.grid else 0), L2 if self.norm == "l2" else L1
        noise = self._for_kernels(kind, radius, self.additive.noise(key), sizes)
        return noise._replace(norm=norm, grid=self.grid)


@dataclass(frozen=True)
class ClippedLaplace(_Clipped):
    """g / max(1, |g|_1 / (C/2)) + Laplace(C/epsilon) on every coordinate.

    *Formal guarantee.* Any two clipped vectors differ by at most C in L1, so one message is (C/scale, 0)-LDP for any
    two vectors; g = (C/2) e_1 and -(C/2) e_1 attain this. Without a grid this is in real arithmetic. With a grid the
    clipped vector is rounded towards 0 to integers with an L1 norm of at most the ball's radius in units (checked in
    integers, so that float64 rounding cannot exceed it), and the noise is discrete Laplace: nothing is idealised.
    Paper: [OT20] eqs. (19), (20) and (21), Algorithm 2.
    """

    name: ClassVar[str] = "clipped_laplace"
    norm: ClassVar[str] = "l1"
    continuous: ClassVar[type[Laplace] | type[Gaussian]] = Laplace
    discrete: ClassVar[type[DiscreteLaplace] | type[DiscreteGaussian]] = DiscreteLaplace
    grid_bits: ClassVar[int] = 20


@dataclass(frozen=True)
class ClippedGaussian(_Clipped):
    """g / max(1, |g|_2 / (C/2)) + Normal(0, sigma^2) on every coordinate.

    *Formal guarantee.* The ball has radius C/2, so the L2 sensitivity is its diameter C (not the radius): one message
    is exactly mu-GDP with mu = C/sigma for any two vectors, in real arithmetic. With a grid the vector is
    rounded towards 0 to integers of L2 norm at most the radius in units (checked in integers), and the noise is
    discrete Gaussian with the curve of `additive`: nothing is idealised.
    Paper: Balle, Wang 2018, Theorem 8; Canonne, Kamath, Steinke 2020, Theorem 4.
    """

    name: ClassVar[str] = "clipped_gaussian"
    norm: ClassVar[str] = "l2"
    continuous: ClassVar[type[Laplace] | type[Gaussian]] = Gaussian
    discrete: ClassVar[type[DiscreteLaplace] | type[DiscreteGaussian]] = DiscreteGaussian
    grid_bits: ClassVar[int] = 13

    @classmethod
    def with_scale(cls, scale: float, dimension: int, clip: float, exact: bool = False) -> Self:
        """Return noise of a given standard deviation: one message is mu-GDP with mu = clip / scale.

        If `exact` it is (mu^2 / 2)-zCDP. Raises ValueError for a scale for which no grid is fine enough.
        """
        check_ball(dimension, clip)
        if not exact:
            return cls(dimension, clip, Gaussian(scale))
        grid = _grid(scale, cls.grid_bits)
        return cls(dimension, clip, DiscreteGaussian(scale / grid), grid)


def _of_ball(diameter: float, norm: str, dimension: int) -> Sensitivity:
    """Return the largest distance of two vectors in a ball of the L1 or the L2 norm."""
    l1 = diameter if norm == "l1" else diameter * math.sqrt(dimension)
    return Sensitivity(l1, diameter, diameter, dimension)


def _grid(scale: float, bits: int) -> float:
    """Return the power of two that makes the scale 2^bits to 2^(bits + 1) units."""
    return 2.0 ** (math.frexp(scale)[1] - 1 - bits)


@dataclass(frozen=True)
class SampledGaussian:
    """All sums of clipped vectors over users who join each round independently, at random and secretly.

    *Formal guarantee.* That of `SampledGaussianLoss`, under *addition or removal* of one user, who changes the sum of a
    round by one vector of norm at most clip / 2. Each round has fresh noise and fresh draws.

    law: clips a vector, and has the noise of one sum. rate: bound on the probability that a user joins a round.
    rounds: maximum number of rounds.
    """

    law: ClippedGaussian
    rate: float
    rounds: int
    name: ClassVar[str] = "sampled_gaussian"
    arithmetic: ClassVar[str] = IDEALISED

    def __post_init__(self) -> None:
        if self.law.arithmetic != IDEALISED:
            raise LedgerError(f"law must be continuous, got {self.law.arithmetic}; no bound is known for others")
        self.curve()  # raises for an impossible rate or number of rounds

    @property
    def scale(self) -> float:
        """Standard deviation of the noise on a coordinate of a sum."""
        return self.law.scale

    def explain(self) -> str:
        """Return the line that explains the scale."""
        norm = self.law.clip / 2.0
        return (
            f"sigma = z C / 2 = {self.scale / norm:.6g} * {norm:.6g} = {self.scale:.6g}: a user adds a vector of norm "
            f"up to C / 2 to a sum, and joins each of {self.rounds:,} rounds with probability {self.rate:.6g}"
        )

    def curve(self) -> SampledGaussianLoss:
        """Return the curve of all rounds together."""
        return SampledGaussianLoss(self.law.scale / (self.law.clip / 2.0), self.rate, self.rounds)
