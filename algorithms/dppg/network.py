"""Multilayer perceptrons as functions of a parameter vector; acting does not need torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dprl.algorithms.base import Float64Array

LEAST_LOG, MOST_LOG = -5.0, 2.0
"""Bounds of log standard deviations."""


@dataclass(frozen=True)
class Network:
    """Multilayer perceptrons with tanh units, as functions of a parameter vector.

    sizes: of the policy's layers, from observations to logits, or means. continuous: whether actions are Gaussian, with
    one log standard deviation per action. critic: whether a value network with the same hidden layers is added.
    """

    sizes: tuple[int, ...]
    continuous: bool = False
    critic: bool = False

    @property
    def policy_layers(self) -> int:
        """Number of layers of the policy."""
        return len(self.sizes) - 1

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """Rows and columns of each layer, those of the policy first."""
        values = (*self.sizes[:-1], 1)
        both = [self.sizes, values] if self.critic else [self.sizes]
        return [shape for sizes in both for shape in zip(sizes[1:], sizes[:-1], strict=True)]

    @property
    def dimension(self) -> int:
        """d, the number of parameters."""
        return sum(rows * columns + rows for rows, columns in self.shapes) + (self.sizes[-1] if self.continuous else 0)

    def first(self, rng: np.random.Generator) -> Float64Array:
        """Return public initial parameters float64[d]: outputs near 0, biases and log standard deviations 0."""
        parts = list[Float64Array]()
        for i, (rows, columns) in enumerate(self.shapes):
            last = (i + 1) % self.policy_layers == 0
            weights = rng.standard_normal((rows, columns)) * (0.01 if last else 1.0) / math.sqrt(columns)
            parts += [weights.ravel(), np.zeros(rows)]
        return np.concatenate([*parts, np.zeros(self.sizes[-1] if self.continuous else 0)])

    def outputs(self, theta: Float64Array, seen: NDArray[np.float32]) -> tuple[Float64Array, Float64Array]:
        """Return logits or means [n, a] for observations [n, o], and log deviations [a] (none if discrete)."""
        at, found = 0, np.asarray(seen, dtype=np.float64)
        for i, (rows, columns) in enumerate(self.shapes[: self.policy_layers]):
            weights, at = theta[at : at + rows * columns].reshape(rows, columns), at + rows * columns
            found, at = found @ weights.T + theta[at : at + rows], at + rows
            if i < self.policy_layers - 1:
                found = np.tanh(found)
        return found, np.clip(
            theta[self.dimension - self.sizes[-1] :] if self.continuous else theta[:0], LEAST_LOG, MOST_LOG
        )

    def act(self, theta: Float64Array, seen: NDArray[np.float32], rng: np.random.Generator | None) -> NDArray[Any]:
        """Return actions for observations float32[n, o], drawn with `rng`, or the most probable ones."""
        found, logs = self.outputs(theta, seen)
        if self.continuous:
            noise = 0.0 if rng is None else np.exp(logs) * rng.standard_normal(found.shape)
            return np.asarray(found + noise, dtype=np.float32)
        drawn = found if rng is None else found + rng.gumbel(size=found.shape)
        return np.asarray(np.argmax(drawn, axis=1))
