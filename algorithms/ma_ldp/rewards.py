"""Decreasing steps for learning the mean reward, and the updates of weights."""

from __future__ import annotations

from dataclasses import dataclass

from dprl.algorithms.base import Float64Array, check_number
from dprl.compiled import inlined, no_alloc_kernel

LARGEST_STEP = 2.0
"""Up to this step, with features of norm at most 1, the error at a state does not grow (it may change sign)."""


@dataclass(frozen=True)
class RewardStep:
    """Steps gamma_k = step k^(-decay) of episodes k = 1, 2, ..., the same at every stage.

    Args:
        step: gamma_1, above 0 and at most 2.
        decay: above 1/2, so that the squares of the steps have a finite sum, and at most 1, so that the steps have an
        infinite one.

    Each stage has its own weights, so these sums are over episodes.
    Paper: [TH23] sec. 2.1.
    """

    step: float = 1.0
    decay: float = 0.75

    def checked(self) -> RewardStep:
        """Return these steps; raise ValueError, in one line, if their numbers are out of range.

        The errors have the names of the config's fields, `reward_step` and `reward_decay`.
        """
        check_number("reward_step", self.step, 1e-12, LARGEST_STEP + 1e-9)
        check_number("reward_decay", self.decay, 0.0)
        if self.decay <= 0.5:
            raise ValueError(
                f"reward_decay must be above 1/2, got {self.decay:g}: the squares of the steps would have an infinite "
                "sum, and weights would never settle; set it to 0.75, for instance"
            )
        if self.decay > 1.0:
            raise ValueError(
                f"reward_decay must be at most 1, got {self.decay:g}: the steps would have a finite sum, and weights "
                "could stop on the way; set it to 0.75, for instance"
            )
        return self


@inlined
def reward_step(rule_step: float, rule_decay: float, k: int) -> float:
    """Return gamma_k of episode k = 1, 2, ..."""
    gamma: float = rule_step * float(k) ** -rule_decay
    return gamma


@no_alloc_kernel
def correct(weights: Float64Array, corrections: Float64Array, gamma: float) -> None:
    """Add gamma times corrections [n, p] to weights [n, p], one row for each agent.

    An agent's correction is (r^i - <psi(s), w^i>) psi(s), or its released version.
    Paper: [TH23] Algorithm 1, line 18.
    """
    for i in range(weights.shape[0]):
        for m in range(weights.shape[1]):
            weights[i, m] += gamma * corrections[i, m]
