"""Multilayer perceptrons as policies of a parameter vector; acting does not need torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dprl.algorithms.base import Float64Array
from dprl.envs.control import Act

LEAST_LOG, MOST_LOG = -5.0, 2.0
"""Bounds of log standard deviations."""


@dataclass(frozen=True)
class Network:
    """A multilayer perceptron with tanh units, as a function of a parameter vector.

    sizes: of the layers, from observations to logits, or means. continuous: whether actions are Gaussian, with one log
    standard deviation per action.
    """

    sizes: tuple[int, ...]
    continuous: bool = False

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """Rows and columns of each layer."""
        return list(zip(self.sizes[1:], self.sizes[:-1], strict=True))

    @property
    def dimension(self) -> int:
        """d, the number of parameters."""
        return sum(rows * columns + rows for rows, columns in self.shapes) + (self.sizes[-1] if self.continuous else 0)

    def first(self, rng: np.random.Generator) -> Float64Array:
        """Return public initial parameters float64[d]: outputs near 0, biases and log standard deviations 0."""
        parts = list[Float64Array]()
        for i, (rows, columns) in enumerate(self.shapes):
            last = i == len(self.shapes) - 1
            weights = rng.standard_normal((rows, columns)) * (0.01 if last else 1.0) / math.sqrt(columns)
            parts += [weights.ravel(), np.zeros(rows)]
        return np.concatenate([*parts, np.zeros(self.sizes[-1] if self.continuous else 0)])

    def outputs(self, theta: Any, seen: Any, tanh: Any = np.tanh) -> tuple[Any, Any]:  # noqa: ANN401
        """Return logits or means [..., a], and log deviations [a], none if discrete, for observations [..., o].

        theta [d], observations: arrays, or tensors if `tanh` is torch's.
        """
        at, found = 0, seen
        for i, (rows, columns) in enumerate(self.shapes):
            weights, at = theta[at : at + rows * columns].reshape(rows, columns), at + rows * columns
            found, at = found @ weights.T + theta[at : at + rows], at + rows
            if i < len(self.shapes) - 1:
                found = tanh(found)
        return found, theta[at:].clip(LEAST_LOG, MOST_LOG)

    def acting(self, theta: Float64Array, rng: np.random.Generator | None, *, tensors: bool = True) -> Act:
        """Return the policy: actions for observations float32[n, o], drawn with `rng`, or the most probable ones.

        tensors: whether to compute with torch, on its number of threads: NumPy takes all cores, and is slower.
        """
        point, tanh, given = theta, np.tanh, np.asarray
        if tensors:
            import torch  # noqa: PLC0415 - it takes seconds to load

            point, tanh, given = torch.as_tensor(theta), torch.tanh, torch.as_tensor  # type: ignore[assignment]

        def act(seen: NDArray[np.float32]) -> NDArray[Any]:
            found, logs = (np.asarray(part) for part in self.outputs(point, given(seen.astype(np.float64)), tanh))
            if self.continuous:
                noise = 0.0 if rng is None else np.exp(logs) * rng.standard_normal(found.shape)
                return np.asarray(found + noise, dtype=np.float32)
            return np.asarray(np.argmax(found if rng is None else found + rng.gumbel(size=found.shape), axis=1))

        return act

    def evaluate(self, theta: Any, seen: Any, actions: Any) -> tuple[Any, Any]:  # noqa: ANN401 - torch's tensors
        """Return log probabilities and entropies [...] of actions [...], or [..., k] if they are continuous."""
        import torch  # noqa: PLC0415 - it takes seconds to load

        found, logs = self.outputs(theta, seen, torch.tanh)
        if self.continuous:
            distance = (actions - found) * torch.exp(-logs)
            log = (-0.5 * distance**2 - logs - 0.5 * math.log(2.0 * math.pi)).sum(-1)
            return log, (logs + 0.5 * math.log(2.0 * math.pi * math.e)).sum(-1).expand(log.shape)
        logits = torch.log_softmax(found, -1)
        log = (logits * (torch.arange(logits.shape[-1]).to(actions) == actions[..., None])).sum(-1)
        return log, -(logits.exp() * logits).sum(-1)
