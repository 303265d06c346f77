"""Random MDPs with sparse rewards and time-dependent dynamics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dprl.envs.base import Env, FiniteMDP, stationary
from dprl.envs.checks import require_flag, require_integers, require_size

CONCENTRATION = 0.1
ZERO_REWARD = 0.85
_SMALLEST_SUM = 1e-100  # Below this sum of gamma variables, a row would be computed from underflowed numbers.


@dataclass(frozen=True)
class RandomMDP:
    """Random MDP: Dirichlet(0.1) transitions and rewards that are 0 with probability 0.85.

    The transitions of every (h, s, a) are an independent draw of Dirichlet(0.1, ..., 0.1), its reward is 0
    with probability 0.85 and else uniform on [0, 1]. Episodes start in state 0, our choice.

    n_states, n_actions, horizon: at least 1. seed: at least 0; the same seed gives the same MDP, bit for bit.
    stationary: one draw for each (s, a) is used at every step. Raises ValueError on other values.

    >>> mdp = RandomMDP(n_states=5, n_actions=3, horizon=10, seed=1).build()
    >>> values, policy = mdp.optimum()
    >>> values.shape, policy.shape
    ((11, 5), (10, 5))
    >>> mdp.start_value(policy) == mdp.optimal_start_value()
    True

    Paper: Dann, Lattimore, Brunskill, 'Unifying PAC and regret: uniform PAC bounds for episodic reinforcement
    learning', NeurIPS 2017, experiments (S = 5, A = 3, H = 10).
    """

    name: ClassVar[str] = "random_mdp"
    builds: ClassVar[type[Env]] = FiniteMDP

    n_states: int = 5
    n_actions: int = 3
    horizon: int = 10
    seed: int = 0
    stationary: bool = False

    def __post_init__(self) -> None:
        require_flag("stationary", self.stationary)
        require_integers(self, n_states=1, n_actions=1, horizon=1, seed=0)
        require_size(self.name, self.sizes, "horizon, n_states or n_actions")

    @property
    def sizes(self) -> tuple[int, int, int]:
        """H, S, and the number of actions: known before anything is built."""
        return int(self.horizon), int(self.n_states), int(self.n_actions)

    def build(self) -> FiniteMDP:
        """Draw the MDP: transitions [H, S, A, S], rewards [H, S, A], start [S]."""
        shape = (1 if self.stationary else self.horizon, self.n_states, self.n_actions)
        generator = np.random.default_rng(self.seed)
        transitions = dirichlet_rows(generator, CONCENTRATION, (*shape, self.n_states))
        rewards = generator.random(shape)
        rewards[generator.random(shape) < ZERO_REWARD] = 0.0
        if self.stationary:
            return FiniteMDP(self.name, *stationary(self.horizon, transitions[0], rewards[0], start=0))
        return FiniteMDP(self.name, transitions, rewards, np.eye(self.n_states)[0])


def dirichlet_rows(generator: np.random.Generator, concentration: float, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Draw an array of the given shape whose last axis is Dirichlet(concentration, ..., concentration).

    Small concentrations make gamma variables underflow, up to rows that are all 0. They are drawn again, with the same
    distribution: the direction of a vector of independent gamma variables of one scale is independent of its sum.
    """
    rows = generator.standard_gamma(concentration, size=shape)
    sums = rows.sum(axis=-1)
    lost = sums < _SMALLEST_SUM
    while lost.any():
        rows[lost] = generator.standard_gamma(concentration, size=(int(lost.sum()), shape[-1]))
        sums = rows.sum(axis=-1)
        lost = sums < _SMALLEST_SUM
    probabilities: NDArray[np.float64] = rows / sums[..., None]
    # Subnormal probabilities change no value, and arithmetic on them is slow on many processors.
    probabilities[probabilities < np.finfo(np.float64).tiny] = 0.0
    return probabilities
