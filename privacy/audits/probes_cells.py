"""Probes of additive noise: the real samplers at neighbouring inputs, and the most telling score of what comes out."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dprl.privacy.audits.two_worlds import Key
from dprl.privacy.base import Float64Array
from dprl.privacy.mechanisms.base import (
    BOUNDED_LAPLACE,
    DISCRETE_GAUSSIAN,
    DISCRETE_LAPLACE,
    GAUSSIAN,
    LAPLACE,
    UNIFORM,
    Mechanism,
)
from dprl.privacy.mechanisms.sampling import fill_noise
from dprl.privacy.mechanisms.tabulated import TabulatedMechanism

_ULP_AT_ONE = 53
_NEAR_ZERO = 0.25


@dataclass(frozen=True)
class NoisyCells:
    """Numbers with independent noise of one mechanism: what a local report sends.

    Args:
        mechanism: the noise.
        ones, zeros: the numbers in world 1 and in world 0.
        label: for the description.
    """

    mechanism: Mechanism
    ones: tuple[float, ...]
    zeros: tuple[float, ...]
    label: str

    @property
    def description(self) -> str:
        """The configuration."""
        return f"{self.label}, scale {self.mechanism.scale:.4g}"

    def scores(self, world: int, runs: int, key: Key) -> Float64Array:
        """Return log likelihood ratios, float64[runs]."""
        y = np.empty((runs, len(self.ones)))
        fill_noise(y.reshape(-1), self.mechanism.noise(key), np.uint64(0))
        y += np.array(self.ones if world else self.zeros)
        return np.asarray(log_ratios(self.mechanism, y, np.array(self.ones), np.array(self.zeros)).sum(axis=1))


def log_ratios(mechanism: Mechanism, y: Float64Array, ones: Float64Array, zeros: Float64Array) -> Float64Array:
    """Return ln P(y | ones) / P(y | zeros) of every number, float64 as `y`; +-inf where only one world can print it.

    Raises ValueError for a law whose density is not known here.
    """
    scale = mechanism.scale
    if mechanism.law in (LAPLACE, DISCRETE_LAPLACE):
        return (np.abs(y - zeros) - np.abs(y - ones)) / scale
    if mechanism.law in (GAUSSIAN, DISCRETE_GAUSSIAN):
        return (ones - zeros) * (y - (ones + zeros) / 2.0) / scale**2
    if mechanism.law in (UNIFORM, BOUNDED_LAPLACE):
        radius = mechanism.bound if mechanism.law == BOUNDED_LAPLACE else mechanism.scale
        inside = 0.0 if mechanism.law == UNIFORM else (np.abs(y - zeros) - np.abs(y - ones)) / scale
        outside_zeros, outside_ones = np.abs(y - zeros) > radius, np.abs(y - ones) > radius
        return np.where(outside_zeros, math.inf, np.where(outside_ones, -math.inf, inside))
    if isinstance(mechanism, TabulatedMechanism):
        return _log_mass(mechanism, y - ones) - _log_mass(mechanism, y - zeros)
    raise ValueError(f"mechanism must be one whose density is known here, got {mechanism.name}; add its law")


def _log_mass(mechanism: TabulatedMechanism, z: Float64Array) -> Float64Array:
    """Return ln P(Z = z), -inf beyond the bound."""
    logs = np.append(np.log(mechanism.masses), -math.inf)
    sizes = np.minimum(np.abs(z), mechanism.bound + 1.0).astype(np.int64)
    return np.asarray(logs[sizes])


@dataclass(frozen=True)
class FloatingPointEvent:
    """A count with noise in float64: is y within 1/4 of zero, and no multiple of 2^-53?

    1 + z with z in [-1.25, -0.75] is a multiple of 2^-53 exactly, so a count of 1 never gives the event; a count of 0
    gives it about as often as the noise is that small. Noise on integers gives it in neither world.

    Paper: Mironov 2012, "On significance of the least significant bits".
    """

    mechanism: Mechanism

    @property
    def description(self) -> str:
        """The configuration."""
        return f"a count of 0 or 1, {self.mechanism.name}, scale {self.mechanism.scale:.4g}, low bits"

    def scores(self, world: int, runs: int, key: Key) -> Float64Array:
        """Return whether the event happened, float64[runs]; world 1 is the count of 0."""
        y = np.empty(runs)
        fill_noise(y, self.mechanism.noise(key), np.uint64(0))
        y += 0.0 if world else 1.0
        shifted = np.ldexp(y, _ULP_AT_ONE)
        return np.asarray(((np.abs(y) < _NEAR_ZERO) & (shifted != np.rint(shifted))).astype(np.float64))


def changed_cells(n: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the n cells that two users without a common cell change: the first half is one's, the rest the other's."""
    ones = tuple(1.0 if i < (n + 1) // 2 else 0.0 for i in range(n))
    return ones, tuple(1.0 - value for value in ones)
