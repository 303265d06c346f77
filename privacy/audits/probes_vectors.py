"""Probes of messages that are not numbers with noise: randomised bits, and randomised vectors."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dprl.compiled import kernel
from dprl.privacy.audits.probes_cells import log_ratios
from dprl.privacy.audits.two_worlds import Key
from dprl.privacy.base import Float64Array
from dprl.privacy.mechanisms.base import Mechanism
from dprl.privacy.mechanisms.gradients import VectorMechanism
from dprl.privacy.mechanisms.projected_random_sign import ProjectedRandomSign, fill_projection, fill_signs
from dprl.privacy.mechanisms.randomized_response import RandomizedResponse, fill_responses
from dprl.privacy.mechanisms.unary_encoding import UnaryEncoding, fill_unary
from dprl.privacy.randomness.bits import fill_bits

_CELLS, _SEED_NUMBERS = 2, 2


@dataclass(frozen=True)
class Responses:
    """One bit by randomised response; the worlds are the bit's two values."""

    mechanism: RandomizedResponse

    @property
    def description(self) -> str:
        """The configuration."""
        return f"one bit, truth with probability {self.mechanism.truth:.4g}"

    def scores(self, world: int, runs: int, key: Key) -> Float64Array:
        """Return the responses, float64[runs]."""
        out = np.empty(runs)
        fill_responses(out, np.full(runs, float(world)), key, np.uint64(0), self.mechanism.table())
        return out


@dataclass(frozen=True)
class UnaryBits:
    """A one-hot vector of two cells by unary encoding; the worlds are its two cells."""

    encoding: UnaryEncoding

    @property
    def description(self) -> str:
        """The configuration."""
        p, q = self.encoding.hot_probability, self.encoding.cold_probability
        return f"two cells, bits with probability {p:.4g} and {q:.4g}"

    def scores(self, world: int, runs: int, key: Key) -> Float64Array:
        """Return log likelihood ratios, float64[runs]."""
        bits = np.empty((runs, _CELLS))
        _encode_all(bits, 1 - world, key, self.encoding.table())
        signs = np.array([1.0, -1.0])
        return unary_ratios(self.encoding, bits, np.broadcast_to(signs, bits.shape))


def unary_ratios(encoding: UnaryEncoding, bits: Float64Array, signs: Float64Array) -> Float64Array:
    """Return ln P(bits | world 1) / P(bits | world 0), float64[runs].

    bits float64[runs, n]; signs float64[runs, n]: 1 for world 1's hot cell, -1 for world 0's, 0 for all others.
    """
    p, q = encoding.hot_probability, encoding.cold_probability
    per_bit = bits * math.log(p / q) + (1.0 - bits) * math.log((1.0 - p) / (1.0 - q))
    return np.asarray((per_bit * signs).sum(axis=1))


@kernel
def _encode_all(bits: Float64Array, hot: int, key: np.ndarray, table: np.ndarray) -> None:
    for run in range(bits.shape[0]):
        fill_unary(bits[run], hot, key, np.uint64(run * bits.shape[1]), table)


VectorRatios = Callable[[Float64Array, Float64Array, Float64Array], Float64Array]
"""(messages float64[runs, m], world 1's vector, world 0's vector) -> scores float64[runs]."""


@dataclass(frozen=True)
class VectorMessages:
    """Randomised vectors: gradients.

    Args:
        mechanism: randomises one vector a submission.
        ones, zeros: the vectors in world 1 and in world 0, float64[d] as tuples.
        ratios: scores messages.
        label: for the description.
    """

    mechanism: VectorMechanism
    ones: tuple[float, ...]
    zeros: tuple[float, ...]
    ratios: VectorRatios
    label: str

    @property
    def description(self) -> str:
        """The configuration."""
        return self.label

    def scores(self, world: int, runs: int, key: Key) -> Float64Array:
        """Return the scores of `runs` submissions, float64[runs]."""
        vector = np.array(self.ones if world else self.zeros)
        messages = np.empty((runs, self.mechanism.message_length))
        for run in range(runs):
            messages[run] = self.mechanism.randomize(vector, key, run)
        return self.ratios(messages, np.array(self.ones), np.array(self.zeros))


def additive_ratios(noise: Mechanism, grid: float = 0.0) -> VectorRatios:
    """Return the log likelihood ratios of messages that are a vector plus independent noise; grid: its unit, or 0."""

    def ratios(messages: Float64Array, ones: Float64Array, zeros: Float64Array) -> Float64Array:
        unit = grid or 1.0
        return np.asarray(log_ratios(noise, messages / unit, ones / unit, zeros / unit).sum(axis=1))

    return ratios


def cap_ratios(threshold: float) -> VectorRatios:
    """Return 1 for messages in the cap of world 1's direction, -1 in that of world 0's, else 0: what PrivUnit tells."""

    def ratios(messages: Float64Array, ones: Float64Array, zeros: Float64Array) -> Float64Array:
        along_one = messages @ (ones / np.linalg.norm(ones)) >= threshold
        along_zero = messages @ (zeros / np.linalg.norm(zeros)) >= threshold
        return along_one.astype(np.float64) - along_zero.astype(np.float64)

    return ratios


@dataclass(frozen=True)
class SignMessages:
    """Gradients by projected random sign; those of the worlds are opposite and long, so every projection is clipped.

    Args:
        mechanism: of one submission.
    """

    mechanism: ProjectedRandomSign

    @property
    def description(self) -> str:
        """The configuration."""
        return f"opposite gradients, {self.mechanism.projections} bits"

    def scores(self, world: int, runs: int, key: Key) -> Float64Array:
        """Return how many bits speak for world 1 less those for world 0, float64[runs], M being public."""
        messages = np.empty((runs, self.mechanism.message_length))
        scores = np.zeros(runs)
        # No sum of some of these numbers, each with either sign, is 0 but the empty one.
        gradient = np.ldexp(self.mechanism.clip, np.arange(1, self.mechanism.dimension + 1)).astype(np.float64)
        vector = gradient if world else -gradient
        seeds = np.empty(runs, dtype=np.uint64)
        fill_bits(seeds, self.mechanism.vector_noise(key).open_key, np.uint64(0))
        _signs(messages, vector, self.mechanism.clip, self.mechanism.bit.table(), key, seeds)
        _signs_for(scores, messages, gradient)
        return scores


@kernel
def _signs(
    messages: Float64Array, vector: Float64Array, clip: float, table: np.ndarray, key: np.ndarray, seeds: np.ndarray
) -> None:
    draws = 2 * (messages.shape[1] - _SEED_NUMBERS)
    for run in range(messages.shape[0]):
        fill_signs(messages[run], vector, clip, table, key, np.uint64(run * draws), seeds[run])


@kernel
def _signs_for(scores: Float64Array, messages: Float64Array, gradient: Float64Array) -> None:
    row = np.empty(gradient.shape[0])
    bits = messages.shape[1] - _SEED_NUMBERS
    for run in range(messages.shape[0]):
        seed = (np.uint64(messages[run, bits]) << np.uint64(32)) | np.uint64(messages[run, bits + 1])
        for i in range(bits):
            fill_projection(row, seed, i)
            projection = 0.0
            for j in range(row.shape[0]):
                projection += row[j] * gradient[j]
            scores[run] += (2.0 * messages[run, i] - 1.0) * np.sign(projection)
