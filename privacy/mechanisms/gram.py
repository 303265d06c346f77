"""Symmetric Gram matrix with its right-hand side: a user's share of a linear model's statistics.

At stage h the device of each of n agents sends (phi phi^T + W, phi V + w). It first shrinks phi to the norm m_h and
clips V to [0, m_h], with m_h = H - h. [TH23] cuts V from above only and assumes |phi| <= H (D7): without a lower cut no
finite guarantee exists. The noise is that of gram_laws.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dprl.compiled import kernel, no_alloc_kernel
from dprl.privacy.base import Float64Array
from dprl.privacy.mechanisms.base import Sensitivity
from dprl.privacy.mechanisms.clipping import L2, MOST, fill_clipped

JOINT_L2_SQUARED = 4.5
"""Squared L2 sensitivity of one message over m^4: the maximum of (2 - 2c) + (2 - 2c^2), at cosine c = -1/2."""
_MOST_EXACT = 12
# Relative; far above rounding.
_SLACK = 1.0 + 1e-9
# Few enough that every midpoint differs from both ends in float64.
_HALVINGS = 40


@lru_cache(maxsize=64)
def l1_upper(dimension: int) -> float:
    """Return c_hi: the joint L1 sensitivity of (upper triangle, right-hand side) over m^2, rounded up.

    It is exact up to D = 12 and an upper bound above. The proof takes m = 1: |phi| <= 1 and 0 <= V <= 1.

    The distance F = sum_{i<=j} |phi_i phi_j - phi'_i phi'_j| + sum_i |V phi_i - V' phi'_i| is convex in (V, V'), so
    they are 0 or 1. With both 1, phi' and -phi' together give at least 2 sum |phi_i| in the second sum, so for one of
    them F is at least its value at (1, 0). So both are 1.

    Exact: let u = phi - phi' >= 0 (flip coordinates) and v = phi + phi'. Then phi_i phi_j - phi'_i phi'_j has the sign
    of v_i / u_i + v_j / u_j, that of the larger ratio. So with coordinates ordered by decreasing |v_i / u_i| and s_i
    the sign of v_i, F is the largest value of phi^T M phi - phi'^T M phi' + sum_i (phi_i - phi'_i) over the 2^D
    matrices M_ii = s_i, M_ij = s_min(i, j) / 2, and for any other signs F is at least that form. Its maximum is
    g(M) + g(-M),

        g(M) = max_{|x| <= 1} x^T M x + sum_i x_i = min_{l > 0, l > M} l + 1^T (l - M)^-1 1 / 4.

    Every l gives an upper bound, so rounding in the minimisation is harmless; -s gives the same value as s.

    In large dimensions: for u v = 0 the first sum is at most (D / sqrt(2) + 1) |u| |v| / 2, as the matrix has Frobenius
    norm |u| |v| / sqrt(2) and a diagonal with an L1 norm of at most |u| |v|; the second is at most sqrt(D) |u|. With
    |u| = 2 cos(a / 2) and |v| = 2 sin(a / 2) this is (D / sqrt(2) + 1) sin a + 2 sqrt(D) cos(a / 2). If u v is not 0,
    |u|^2 + |v|^2 + 2 |u v| <= 4 makes it smaller for |u| >= 2/3, and for less |u| it is below its value at a right
    angle a.
    """
    # D9: the matrix's part grows like D; 2 sqrt(D), as printed, bounds an induced norm, not the sum of entries.
    if dimension > _MOST_EXACT:
        return _joint_bound(dimension) * _SLACK
    matrices = _threshold_matrices(dimension)
    return float((_largest_values(matrices) + _largest_values(-matrices)).max()) * _SLACK


def _joint_bound(dimension: int) -> float:
    """Return the maximum of (D / sqrt(2) + 1) sin a + 2 sqrt(D) cos(a / 2) over a."""
    matrix, root = dimension / math.sqrt(2.0) + 1.0, math.sqrt(dimension)
    half = math.asin((math.sqrt(dimension + 8.0 * matrix * matrix) - root) / (4.0 * matrix))
    return matrix * math.sin(2.0 * half) + 2.0 * root * math.cos(half)


def _threshold_matrices(dimension: int) -> Float64Array:
    """Return all M with s_D = 1, float64[2^(D-1), D, D]."""
    places = np.arange(dimension)
    signs = 1.0 - 2.0 * (np.arange(2 ** (dimension - 1))[:, None] >> places & 1)
    matrices = np.asarray(0.5 * signs[:, np.minimum(places[:, None], places)], dtype=np.float64)
    matrices[:, places, places] *= 2.0
    return matrices


def _largest_values(matrices: Float64Array) -> Float64Array:
    """Return upper bounds of g for matrices float64[n, D, D], exact up to rounding, float64[n]."""
    values, vectors = np.linalg.eigh(matrices)
    weights: Float64Array = 0.25 * vectors.sum(axis=1) ** 2
    low: Float64Array = np.maximum(values[:, -1], 0.0)
    high: Float64Array = low + (0.5 * math.sqrt(matrices.shape[1]) + 1e-6)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        rises = (weights / (middle[:, None] - values) ** 2).sum(axis=1) < 1.0
        low, high = np.where(rises, low, middle), np.where(rises, middle, high)
    bounds: Float64Array = high + (weights / (high[:, None] - values)).sum(axis=1)
    return bounds


def l1_lower(dimension: int) -> float:
    """Return c_lo: the L1 distance, in units of m^2, of the pair that `attaining_pair` returns, V = m."""
    if dimension == 1:
        return 2.0
    d = dimension - dimension % 2
    return (d + 1) / math.sqrt(2.0) + math.sqrt(2.0 * d) * math.cos(math.pi / 8.0)


def attaining_pair(dimension: int, bound: float) -> tuple[Float64Array, Float64Array]:
    """Return (phi, phi') of norm `bound` with Gram matrices that differ by sqrt(2) bound^2 / D in every entry, D even.

    The last coordinate of an odd dimension > 1 is 0.
    """
    half = dimension // 2
    size = bound / math.sqrt(half) if half else bound
    phi, other = np.zeros(dimension), np.zeros(dimension)
    cos, sin = math.cos(math.pi / 8.0), math.sin(math.pi / 8.0)
    phi[:half], phi[half : 2 * half] = size * cos, size * sin
    other[:half], other[half : 2 * half] = -size * sin, size * cos
    if dimension == 1:
        phi[0], other[0] = bound, -bound
    return phi, other


def gram_sensitivity(dimension: int, bound: float) -> Sensitivity:
    """Return the largest distance of two messages of one agent and stage: (upper triangle of phi phi^T, phi V).

    |phi| <= m and 0 <= V <= m for m = `bound`. L2 is sqrt(4.5) m^2 in joint, also where an off-diagonal entry counts
    twice (the Frobenius norm); L1 is at most c_hi m^2; a number of phi V changes by at most 2 m^2, one of the matrix by
    at most m^2. All D (D + 3) / 2 numbers can change.
    """
    square = bound * bound
    cells = dimension * (dimension + 3) // 2
    return Sensitivity(l1_upper(dimension) * square, math.sqrt(JOINT_L2_SQUARED) * square, 2.0 * square, cells)


@dataclass(frozen=True)
class GramRelease:
    """Messages of one user in an episode: one per agent at every stage, each with separate noise.

    Args:
        dimension: D, of phi (n d in [TH23]).
        bounds: m_h >= 0 for h = 1..H; a stage of bound 0 has no user data.
        n_messages: M per stage, all of which can change together: n, or 1 if all agents have the same V.
        clipped: whether the device clips phi to norm m_h and V to [0, m_h]. [TH23] does not (D7): then nothing bounds
            the change by a user, and no noise has a finite guarantee.
    """

    dimension: int
    bounds: tuple[float, ...]
    n_messages: int
    clipped: bool = True

    def __post_init__(self) -> None:
        if self.dimension < 1 or self.n_messages < 1:
            raise ValueError(f"dimension and n_messages must be at least 1, got {self}; pass the features' dimension")
        if not all(math.isfinite(m) and m >= 0 for m in self.bounds) or not any(self.bounds):
            raise ValueError(f"bounds must be finite, at least 0 and not all 0, got {self.bounds}; pass H - h")

    @classmethod
    def of_horizon(cls, horizon: int, dimension: int, n_messages: int, clipped: bool = True) -> GramRelease:
        """Return the release for values in [0, H - h] after stage h: m_h = H - h, 0 at the last stage."""
        return cls(dimension, tuple(float(horizon - h) for h in range(1, horizon + 1)), n_messages, clipped)

    def power_sum(self, power: int) -> float:
        """Return the sum of m_h^power over the stages: S2 and S4 for 2 and 4."""
        return math.fsum(m**power for m in self.bounds if m > 0)

    @property
    def message_length(self) -> int:
        """Numbers of one message: D (D + 3) / 2."""
        return self.dimension * (self.dimension + 3) // 2

    @property
    def sent_stages(self) -> int:
        """Number of stages with data of the user."""
        return sum(m > 0 for m in self.bounds)

    @property
    def n_numbers(self) -> int:
        """Numbers in all messages of an episode, without those that have no user data."""
        return self.n_messages * self.sent_stages * self.message_length


@no_alloc_kernel
def clip_features(out: Float64Array, phi: Float64Array, bound: float, clips: bool) -> None:
    """Fill `out` float64[D] with phi, shrunk to the norm `bound` if it `clips`; non-finite numbers count as 0.

    A bound of 0 gives zeros.
    """
    total = 0.0
    for i in range(out.shape[0]):
        x = phi[i] if bound > 0.0 and abs(phi[i]) < math.inf else 0.0
        out[i] = x
        total += x * x
    if clips and total > bound * bound:
        size = math.sqrt(total)
        if size < MOST:
            factor = bound / size
            for i in range(out.shape[0]):
                out[i] *= factor
        else:
            fill_clipped(out, phi, bound, L2)


@kernel
def clip_value(value: float, bound: float, clips: bool) -> float:
    """Return V, clipped to [0, bound] if it `clips`; 0 if V is not finite or the bound is 0."""
    if not abs(value) < math.inf or bound <= 0.0:
        return 0.0
    # D7
    return min(max(value, 0.0), bound) if clips else value


@no_alloc_kernel
def finish_gram(numbers: Float64Array, feature: Float64Array, target: float, ends: float, off_diagonal: float) -> None:
    """Turn draws `numbers` float64[D (D + 3) / 2] into the noisy message of feature float64[D] and target.

    numbers: the diagonal, the right-hand side, the upper triangle row by row. ends, off_diagonal: the factors of draws,
    on the diagonal and the right-hand side, and off the diagonal.

    *Formal guarantee.* None by itself; see the mechanism of the noise, on the features and target that it clips.
    """
    d = feature.shape[0]
    place = 2 * d
    for i in range(d):
        x = feature[i]
        numbers[i] = x * x + ends * numbers[i]
        numbers[d + i] = x * target + ends * numbers[d + i]
        for j in range(i + 1, d):
            numbers[place] = x * feature[j] + off_diagonal * numbers[place]
            place += 1


@no_alloc_kernel
def add_gram(matrix: Float64Array, vector: Float64Array, numbers: Float64Array) -> None:
    """Add a message float64[D (D + 3) / 2] to the upper triangle of `matrix` float64[D, D] and to `vector` float64[D].

    Post-processing.
    """
    d = vector.shape[0]
    place = 2 * d
    for i in range(d):
        matrix[i, i] += numbers[i]
        vector[i] += numbers[d + i]
        for j in range(i + 1, d):
            matrix[i, j] += numbers[place]
            place += 1
