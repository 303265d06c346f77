"""Probe of noisy Gram matrices: the real device's message for two feature vectors that are far apart."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dprl.privacy.audits.probes_cells import log_ratios
from dprl.privacy.audits.two_worlds import Key
from dprl.privacy.base import Float64Array
from dprl.privacy.mechanisms import GramMechanism
from dprl.privacy.mechanisms.base import Mechanism, Sensitivity
from dprl.privacy.mechanisms.gram import GramRelease, attaining_pair
from dprl.privacy.mechanisms.gram_gaussian import GramGaussian

_STAGE = 1


@dataclass(frozen=True)
class GramMessages:
    """The messages of stage 1; the value is m in both worlds, the features are those that change most.

    Args:
        mechanism: of an even dimension.
    """

    mechanism: GramMechanism

    @property
    def description(self) -> str:
        """The configuration."""
        return "the features that change most, V = m"

    def features(self) -> tuple[Float64Array, Float64Array]:
        """Return both worlds' features."""
        return furthest_features(self.mechanism, _STAGE)

    def scores(self, world: int, runs: int, key: Key) -> Float64Array:
        """Return log likelihood ratios, float64[runs]."""
        bound = self.mechanism.release.bounds[_STAGE - 1]
        ones, zeros = self.features()
        length = self.mechanism.release.message_length
        messages = np.empty((runs, length))
        for run in range(runs):
            messages[run] = _numbers(*self.mechanism.randomize(ones if world else zeros, bound, _STAGE, key, run))
        one, zero = (_numbers(np.outer(phi, phi), phi * bound) for phi in (ones, zeros))
        return gram_ratios(self.mechanism, _STAGE, messages, one, zero)


def furthest_features(mechanism: GramMechanism, stage: int) -> tuple[Float64Array, Float64Array]:
    """Return two features: at the cosine -1/2 for Gaussian noise, else those that nearly attain L1."""
    dimension, bound = mechanism.release.dimension, mechanism.release.bounds[stage - 1]
    if not isinstance(mechanism, GramGaussian):
        return attaining_pair(dimension, bound)
    first, second = np.zeros(dimension), np.zeros(dimension)
    first[0], second[0], second[1] = bound, -bound / 2.0, bound * math.sqrt(0.75)
    return first, second


def gram_ratios(
    mechanism: GramMechanism, stage: int, messages: Float64Array, one: Float64Array, zero: Float64Array
) -> Float64Array:
    """Return log likelihood ratios float64[runs] of messages float64[runs, D (D + 3) / 2] of a stage.

    one, zero: what they are without noise in world 1 and in world 0.
    """
    unit = mechanism.grid(stage) or 1.0
    ends, off_diagonal = mechanism.stage_mechanisms(stage)
    wide = 2 * mechanism.release.dimension
    y, one, zero = messages / unit, one / unit, zero / unit
    first = log_ratios(ends, y[:, :wide], one[:wide], zero[:wide]).sum(axis=1)
    return np.asarray(first + log_ratios(off_diagonal, y[:, wide:], one[wide:], zero[wide:]).sum(axis=1))


def _numbers(matrix: Float64Array, vector: Float64Array) -> Float64Array:
    """Return diagonal, vector and what is above the diagonal, float64[D (D + 3) / 2]."""
    return np.concatenate([np.diag(matrix), vector, matrix[np.triu_indices(vector.shape[0], 1)]])


def changed_numbers(release: GramRelease) -> Float64Array:
    """Return by how much a pair of neighbours changes each number of an episode's messages: it nearly attains L1."""
    changes = []
    rows, columns = np.triu_indices(release.dimension)
    for m in release.bounds:
        phi, other = attaining_pair(release.dimension, m)
        gram = np.outer(phi, phi) - np.outer(other, other)
        changes += [np.abs(gram[rows, columns]), np.abs(phi - other) * m]
    return np.tile(np.concatenate(changes), release.n_messages)


def mass_outside(mechanism: Mechanism, changes: Float64Array) -> float:
    """Return how likely noise of bounded support shows which neighbour it was: 1 - prod_j (1 - mass outside of j)."""
    size, count = np.unique(np.round(changes[changes > 0.0], 9), return_counts=True)
    inside = [1.0 - mechanism.curve(Sensitivity.of_cells(1, v)).delta(math.inf) for v in size.tolist()]
    return float(-np.expm1(np.sum(count * np.log(inside))))
