"""Probes of messages: the real samplers of one mechanism at its worst pair, and the best score of their outputs.

If a law has densities, the score is the sum of the logs of their ratios.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dprl.compiled import kernel
from dprl.privacy.audits.distinguishing_attack import Key, Probe
from dprl.privacy.base import Float64Array
from dprl.privacy.mechanisms.base import Mechanism
from dprl.privacy.mechanisms.privunit import PrivUnit
from dprl.privacy.mechanisms.projected_random_sign import ProjectedRandomSign
from dprl.privacy.mechanisms.random_sign_kernels import SEED_NUMBERS, fill_projection
from dprl.privacy.mechanisms.sampling import fill_noise
from dprl.privacy.mechanisms.vectors import (
    ClippedGaussian,
    ClippedLaplace,
    SampledGaussian,
    VectorMechanism,
    VectorNoise,
    fill_message,
)
from dprl.privacy.queries.gradients import release_sum
from dprl.privacy.randomness.bits import fill_uniform
from dprl.privacy.randomness.streams import derived_key

_ULP_AT_ONE = 53
_NEAR_ZERO = 0.25
_ROUNDS = 50  # maximum of sampled rounds in one attack
Cells = tuple[float, ...]


def noisy_cells(mechanism: Mechanism, ones: Cells, zeros: Cells, label: str) -> Probe:
    """Return the probe of numbers with independent noise, as in local reports.

    ones, zeros: the numbers in world 1 and in world 0.
    """
    one, zero = np.array(ones), np.array(zeros)

    def scores(world: int, runs: int, key: Key) -> Float64Array:
        y = _noise(mechanism, runs, len(ones), key) + (one if world else zero)
        return np.asarray(mechanism.log_ratios(y, one, zero).sum(axis=1))

    return Probe(f"{label}, scale {mechanism.scale:.4g}", scores)


def floating_point_event(mechanism: Mechanism) -> Probe:
    """Return the probe of a count with noise in float64: is y within 1/4 of zero, and no multiple of 2^-53?

    World 1 is the count of 0. 1 + z with z in [-1.25, -0.75] is exactly a multiple of 2^-53, so a count of 1 never has
    the event; a count of 0 has it about as often as the noise is that small. Noise on integers has it in neither world.
    Paper: Mironov 2012, "On significance of the least significant bits".
    """

    def scores(world: int, runs: int, key: Key) -> Float64Array:
        y = _noise(mechanism, runs, 1, key)[:, 0] + (0.0 if world else 1.0)
        shifted = np.ldexp(y, _ULP_AT_ONE)
        return np.asarray((np.abs(y) < _NEAR_ZERO) & (shifted != np.rint(shifted)), dtype=np.float64)

    return Probe(f"a count of 0 or 1, {mechanism.name}, scale {mechanism.scale:.4g}, low bits", scores)


def _noise(mechanism: Mechanism, runs: int, cells: int, key: Key) -> Float64Array:
    noise = np.empty((runs, cells))
    fill_noise(noise.reshape(-1), mechanism.noise(key), np.uint64(0))
    return noise


def changed_cells(n: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the n cells that two users without a common cell change: half of them belong to each user."""
    ones = tuple(1.0 if i < (n + 1) // 2 else 0.0 for i in range(n))
    return ones, tuple(1.0 - value for value in ones)


def _messages(
    fill: Callable[..., None], mechanism: VectorMechanism, vector: Float64Array, runs: int, key: Key, kept: int = 1
) -> Float64Array:
    """Return the first `kept` numbers of `runs` messages for a vector, float64[runs, kept].

    fill: the client's sampler or the server's, `_randomize_all` or `_release_all`.
    """
    messages = np.empty((runs, kept))
    fill(messages, vector, mechanism.vector_noise(key), np.ones(runs))
    return messages


@kernel
def _randomize_all(messages: Float64Array, vector: Float64Array, noise: VectorNoise, _: Float64Array) -> None:
    message = np.empty(noise.message_length)
    for run in range(messages.shape[0]):
        fill_message(message, vector, noise, run)
        messages[run] = message[: messages.shape[1]]


@kernel
def _release_all(sums: Float64Array, vector: Float64Array, noise: VectorNoise, present: Float64Array) -> None:
    """Fill sums float64[runs, kept] with released sums of a vector, where present float64[runs] is 1, or of none."""
    total, message, out = np.zeros_like(vector), np.zeros_like(vector), np.zeros_like(vector)
    vectors = vector.reshape((1, vector.shape[0]))
    for run in range(sums.shape[0]):
        release_sum(total, message, noise, vectors[: int(present[run])], run, out)
        sums[run] = out[: sums.shape[1]]


def clipped_gradients(mechanism: ClippedLaplace | ClippedGaussian, summed: bool = False) -> Probe:
    """Return the probe of the two gradients that are furthest apart after clipping.

    summed: whether a trusted server adds the noise to their sum.
    """
    vector, fill = _first(mechanism) * mechanism.clip / 2.0, _release_all if summed else _randomize_all

    def scores(world: int, runs: int, key: Key) -> Float64Array:
        messages = _messages(fill, mechanism, vector if world else -vector, runs, key)
        return additive_ratios(mechanism.additive, mechanism.grid, messages, vector[:1], -vector[:1])

    return Probe(f"g = +-C/2 e_1, scale {mechanism.scale:.4g}", scores)


def _first(mechanism: VectorMechanism) -> Float64Array:
    """Return the first unit vector."""
    return np.append(1.0, np.zeros(mechanism.dimension - 1))


def sampled_gradients(mechanism: SampledGaussian) -> Probe:
    """Return the probe of a user who joins rounds at random, or is not there, in the first rounds of a run."""
    rounds, size, rate = min(mechanism.rounds, _ROUNDS), mechanism.law.clip / 2.0, mechanism.rate

    def scores(world: int, runs: int, key: Key) -> Float64Array:
        sums, coins = np.empty((runs * rounds, 1)), np.empty(runs * rounds)
        fill_uniform(coins, derived_key(key, "draws"), np.uint64(0))
        present = (world * (coins < rate)).astype(np.float64)
        _release_all(sums, size * _first(mechanism.law), mechanism.law.vector_noise(key), present)
        exponents = (sums.reshape(runs, rounds) - size / 2.0) * size / mechanism.scale**2
        return np.asarray(np.log1p(rate * np.expm1(exponents)).sum(axis=1))

    return Probe(f"present or absent in {rounds} rounds, scale {mechanism.scale:.4g}", scores)


def additive_ratios(
    noise: Mechanism, grid: float, messages: Float64Array, ones: Float64Array, zeros: Float64Array
) -> Float64Array:
    """Return the log likelihood ratios of vectors with independent noise, float64[runs]; grid: its unit, or 0."""
    unit = grid or 1.0
    return np.asarray(noise.log_ratios(messages / unit, ones / unit, zeros / unit).sum(axis=1))


def privunit_gradients(mechanism: PrivUnit) -> Probe:
    """Return the probe of two antipodal directions; the score is 1 in world 1's cap, -1 in world 0's cap, else 0."""
    vector = _first(mechanism)

    def scores(world: int, runs: int, key: Key) -> Float64Array:
        along = _messages(_randomize_all, mechanism, vector if world else -vector, runs, key)[:, 0]
        return (along >= mechanism.threshold).astype(np.float64) - (-along >= mechanism.threshold).astype(np.float64)

    return Probe(f"antipodal directions, cap {mechanism.threshold:.4g}", scores)


def sign_gradients(mechanism: ProjectedRandomSign) -> Probe:
    """Return the probe of opposite gradients so long that every projection is clipped.

    A score is the number of bits for world 1 minus that for world 0, given the public matrix.
    """
    # No non-empty sum of these numbers, with any signs, is 0.
    vector = np.ldexp(mechanism.clip, np.arange(1, mechanism.dimension + 1)).astype(np.float64)

    def scores(world: int, runs: int, key: Key) -> Float64Array:
        gradient, found = vector if world else -vector, np.zeros(runs)
        _signs_for(found, _messages(_randomize_all, mechanism, gradient, runs, key, mechanism.message_length), vector)
        return found

    return Probe(f"opposite gradients, {mechanism.projections} bits", scores)


@kernel
def _signs_for(scores: Float64Array, messages: Float64Array, gradient: Float64Array) -> None:
    row = np.empty(gradient.shape[0])
    bits = messages.shape[1] - SEED_NUMBERS
    for run in range(messages.shape[0]):
        seed = (np.uint64(messages[run, bits]) << np.uint64(32)) | np.uint64(messages[run, bits + 1])
        for i in range(bits):
            fill_projection(row, seed, i)
            projection = 0.0
            for j in range(row.shape[0]):
                projection += row[j] * gradient[j]
            scores[run] += (2.0 * messages[run, i] - 1.0) * np.sign(projection)


def gradient_messages(mechanism: object, summed: bool = False) -> Probe | None:
    """Return the probe of a gradient mechanism at its worst pair, None for other mechanisms.

    summed: whether a trusted server adds the noise to sums.
    """
    match mechanism:
        case ClippedLaplace() | ClippedGaussian():
            return clipped_gradients(mechanism, summed)
        case PrivUnit():
            return privunit_gradients(mechanism)
        case ProjectedRandomSign():
            return sign_gradients(mechanism)
        case SampledGaussian():
            return sampled_gradients(mechanism)
        case _:
            return None
