"""Projected random sign: a few random projections of a gradient, each sent as one randomised bit.

A message holds the bits and the seed of the projection, never the projection itself: the server draws it again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from dprl.privacy.accounting.curves import RandomizedResponses
from dprl.privacy.base import Float64Array
from dprl.privacy.compiled import kernel
from dprl.privacy.mechanisms.base import INTEGER
from dprl.privacy.mechanisms.gradients import checked_vector, without_nonfinite
from dprl.privacy.mechanisms.randomized_response import RandomizedResponse, fill_responses
from dprl.privacy.randomness.bits import SPLITMIX64, fill_bits
from dprl.privacy.randomness.exact import stochastic_round

Scaling = Literal["paper", "unbiased"]
SCALINGS = ("paper", "unbiased")
# [OT20] sec. 4: d_hat = floor(epsilon / 2.5), as the paper that it cites has it.
EPSILON_PER_PROJECTION = 2.5
_SQRT_3 = math.sqrt(3.0)
_SEED_NUMBERS = 2
_HALF_WORD = np.uint64(32)
_LOW_HALF = np.uint64(0xFFFFFFFF)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MOST_DRAWS = 2**53


@dataclass(frozen=True)
class ProjectedRandomSign:
    """u = M g with a sparse random M, clipped to [-C, C]; every u_i is sent as one bit of local loss epsilon / d_hat.

    M is d_hat x d with entries +sqrt(3), 0, -sqrt(3) of probabilities 1/6, 2/3, 1/6, fresh for every submission and
    independent of the data.

    *Formal guarantee.* For any two vectors of the user, whatever their norms are, one message (bits, seed of M) is
    (d_hat * bit.epsilon, 0)-LDP, also given M, so M may be public; the loss is attained by vectors with M g = C and -C
    in every projection. u_i is first rounded to -C or C by a coin of the user's own with mean u_i, in float64: that is
    preparation of the input. Then an exactly e^x-private coin tells or flips the bit. Together the law is that of
    eq. (24), P(+C) = 1/(e^x + 1) + (u + C)/(2C) (e^x - 1)/(e^x + 1), and the guarantee rests on the second coin alone,
    whatever float64 makes of u.

    Eq. (24) prints e^(epsilon/k) with an undefined k; only k = d_hat is epsilon-LDP as claimed.

    Args:
        dimension: d, of the vector.
        projections: d_hat, the bits of a message.
        clip: C > 0; a small one sends the projections' signs.
        bit: what tells or flips each bit.
        scaling: of the estimate: 'paper' is M^T u~, 'unbiased' divides it by d_hat tanh(bit.epsilon / 2).

    Paper: [OT20] eqs. (5), (23), (24), Algorithm 3.
    """

    dimension: int
    projections: int
    clip: float
    bit: RandomizedResponse
    scaling: Scaling = "paper"
    name: ClassVar[str] = "projected_random_sign"
    arithmetic: ClassVar[str] = INTEGER

    def __post_init__(self) -> None:
        if not 1 <= self.projections <= self.dimension:
            raise ValueError(f"projections must lie in 1..dimension, got {self.projections} for {self.dimension}")
        if not (math.isfinite(self.clip) and self.clip > 0):
            raise ValueError(f"clip must be finite and above 0, got {self.clip}; projections are clipped to it")
        if self.scaling not in SCALINGS:
            raise ValueError(f"scaling must be one of {', '.join(SCALINGS)}, got {self.scaling!r}; choose one")

    @classmethod
    def calibrated(
        cls, epsilon: float, delta: float, dimension: int, clip: float, scaling: Scaling = "paper"
    ) -> ProjectedRandomSign:
        """Return the paper's choice d_hat = max(1, min(d, floor(epsilon / 2.5))), epsilon / d_hat each bit.

        `delta` is not used: the bits are too few to gain from it.
        """
        del delta
        if not (math.isfinite(epsilon) and epsilon > 0):
            raise ValueError(f"epsilon must be finite and above 0, got {epsilon}; nothing else is a guarantee")
        projections = max(1, min(dimension, math.floor(epsilon / EPSILON_PER_PROJECTION)))
        # D4: k = d_hat where eq. (24) prints e^(epsilon/k) and leaves k undefined.
        each = epsilon / projections
        while each * projections > epsilon:
            each = math.nextafter(each, 0.0)
        return cls(dimension, projections, clip, RandomizedResponse(each), scaling)

    @property
    def epsilon(self) -> float:
        """The loss of one message."""
        return self.projections * self.bit.epsilon

    @property
    def factor(self) -> float:
        """What M^T u~ is multiplied by."""
        return 1.0 if self.scaling == "paper" else 1.0 / self._gain

    @property
    def _gain(self) -> float:
        # M^T u~ has the mean d_hat tanh(x/2) g, as the mean of M^T M is d_hat times the identity.
        return self.projections * math.tanh(self.bit.epsilon / 2.0)

    @property
    def noise_norm(self) -> float:
        """A bound on the root mean squared norm of the estimate less its mean: every row of M has squared norm d."""
        return self.factor * self.clip * math.sqrt(self.dimension * self.projections)

    @property
    def direction_noise_norm(self) -> float:
        """The same for an unbiased estimate of g / |g| in the limit of a small clip, M g taken as Gaussian."""
        gain = self._gain * math.sqrt(2.0 / math.pi)
        return math.sqrt(self.dimension * self.projections / gain**2 - 1.0 / self.projections)

    @property
    def message_length(self) -> int:
        """The bits, and two numbers for the seed of M."""
        return self.projections + _SEED_NUMBERS

    def curve(self) -> RandomizedResponses:
        """Return what one message proves between any two inputs."""
        return RandomizedResponses(self.projections, self.bit.epsilon)

    def randomize(self, vector: Float64Array, key: npt.NDArray[np.uint64], number: int) -> Float64Array:
        """Return submission `number` of the stream `key` for `vector` float64[d]: d_hat bits in {0, 1}, then the seed.

        *Formal guarantee.* See the class.
        """
        given = checked_vector(vector, self.dimension)
        draws = 2 * self.projections + 1
        if not 0 <= number < _MOST_DRAWS // draws:
            raise ValueError(f"number must lie in [0, 2^53 / {draws}), got {number}; start a new stream")
        message = np.empty(self.message_length)
        fill_signs(message, given, self.clip, _coins(self.bit), key, np.uint64(number * draws))
        return message

    def estimate(self, message: Float64Array) -> Float64Array:
        """Return factor * M^T u~, float64[d], u~ in {-C, C}: unbiased for an input that is not clipped if so scaled."""
        out = np.empty(self.dimension)
        fill_back_projection(out, message, self.factor * self.clip)
        return out


@lru_cache(maxsize=64)
def _coins(bit: RandomizedResponse) -> npt.NDArray[np.uint64]:
    """Return bit.table(): big-integer arithmetic that takes as long as all the rest of a message."""
    return bit.table()


@kernel
def fill_projection(row: np.ndarray, seed: np.uint64, number: int) -> None:
    """Fill `row` float64[d] with row `number` of the projection of `seed`. Public: no secret depends on it."""
    key = np.array([np.uint64(SPLITMIX64), seed, _GOLDEN, np.uint64(0), np.uint64(0)], dtype=np.uint64)
    words = np.empty(row.shape[0], dtype=np.uint64)
    fill_bits(words, key, np.uint64(number) * np.uint64(row.shape[0]))
    for j in range(row.shape[0]):
        side = ((words[j] >> _HALF_WORD) * np.uint64(6)) >> _HALF_WORD
        row[j] = _SQRT_3 * (np.float64(side == np.uint64(0)) - np.float64(side == np.uint64(1)))


@kernel
def fill_signs(
    message: np.ndarray, vector: np.ndarray, clip: float, table: np.ndarray, key: np.ndarray, first: np.uint64
) -> None:
    """Fill `message` float64[d_hat + 2] from draws first .. first + 2 d_hat: a seed, d_hat roundings, d_hat coins.

    table: of the coins, see RandomizedResponse.table.

    *Formal guarantee.* See ProjectedRandomSign.
    """
    n = message.shape[0] - _SEED_NUMBERS
    given, row = np.empty(vector.shape[0]), np.empty(vector.shape[0])
    largest = without_nonfinite(given, vector)
    # Relative to the largest coordinate no sum overflows.
    size = largest if largest > 0.0 else 1.0
    words = np.empty(n + 1, dtype=np.uint64)
    fill_bits(words, key, first)
    seed = words[0]
    bits = np.empty(n)
    for i in range(n):
        fill_projection(row, seed, i)
        relative = 0.0
        for j in range(given.shape[0]):
            relative += row[j] * (given[j] / size)
        u = min(max(relative * (size / clip), -1.0), 1.0)
        bits[i] = stochastic_round(0.5 + 0.5 * u, words[1 + i])
    fill_responses(message[:n], bits, key, first + np.uint64(n + 1), table)
    message[n] = np.float64(seed >> _HALF_WORD)
    message[n + 1] = np.float64(seed & _LOW_HALF)


@kernel
def fill_back_projection(out: np.ndarray, message: np.ndarray, scale: float) -> None:
    """Fill `out` float64[d] with scale * M^T (2 bits - 1), M drawn again from the message's seed."""
    n = message.shape[0] - _SEED_NUMBERS
    seed = (np.uint64(message[n]) << _HALF_WORD) | np.uint64(message[n + 1])
    row = np.empty(out.shape[0])
    out[:] = 0.0
    for i in range(n):
        fill_projection(row, seed, i)
        sign = scale * (2.0 * message[i] - 1.0)
        for j in range(out.shape[0]):
            out[j] += sign * row[j]
