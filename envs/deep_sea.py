"""Deep sea: one path of N moves leads to the reward, and every move along it costs a little."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dprl.envs.base import Env, FiniteMDP
from dprl.envs.checks import require_flag, require_integers, require_size

_MOVE_COST = 0.01  # The cost of an episode of moves to the right; each move costs 1 / N of it.


@dataclass(frozen=True)
class DeepSea:
    """DeepSea: the reward is found only by moving right at all of N steps, each at a small cost.

    A diver sinks through an N x N grid, one row per step, from the top left cell: the horizon is N, the step is the
    row, the state is the column from 0. One action moves a column to the left (it stays in column 0), the other one to
    the right (it stays in column N - 1). In the source, left gives 0, right gives -0.01 / N, and right in column N - 1,
    reached in the last row only, 1 more. Here 0.01 / N is added to every reward, so that they lie in [0, 1]: left gives
    0.01 / N, right 0, right in column N - 1 gives 1. The value of every policy is that of the source plus 0.01; regret
    and optimal policies are the same. The optimal value is 1 (0.99 in the source) where moves never fail.

    size: N, at least 2.
    deterministic: if false, right fails with probability 1 / N and leaves the column as it is. The source then adds
      N(0, 1) noise to the rewards of the last row in the first and the last column; here they have no noise.
    randomize_actions: whether action 0 or 1 is right, by a fair coin for each row and column; if false, action 1
      is right everywhere; the source calls it a mode for debugging.
    seed: of these coins, the source's mapping_seed, at least 0; the same seed gives the same MDP, bit for bit.
    Raises ValueError on other values. Numbers as in the public code of bsuite.
    Paper: Osband, Van Roy, Russo, Wen, 'Deep exploration via randomized value functions', JMLR 20(124), 2019;
    Osband et al., 'Behaviour suite for reinforcement learning', ICLR 2020.
    """

    name: ClassVar[str] = "deep_sea"
    builds: ClassVar[type[Env]] = FiniteMDP

    size: int = 10
    deterministic: bool = True
    randomize_actions: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        require_integers(self, size=2, seed=0)
        require_flag("deterministic", self.deterministic)
        require_flag("randomize_actions", self.randomize_actions)
        if self.seed >= 2**32:
            raise ValueError(f"seed must be below 2^32 = {2**32}, got {self.seed}; set a smaller seed")
        require_size(self.name, self.sizes, "size")

    @property
    def sizes(self) -> tuple[int, int, int]:
        """H, S, and the number of actions: known before anything is built."""
        return int(self.size), int(self.size), 2

    def build(self) -> FiniteMDP:
        """Build the grid as arrays: transitions [N, N, 2, N], rewards [N, N, 2], start [N]."""
        size, last = self.size, self.size - 1
        rows, columns = np.indices((size, size))
        right = np.ones((size, size), dtype=np.int64)  # the action that moves right, by row and column
        if self.randomize_actions:
            # The legacy generator: its streams are frozen, and its coins are those of the source.
            right = np.random.RandomState(self.seed).binomial(1, 0.5, (size, size)).astype(np.int64)
        success = 1.0 if self.deterministic else 1.0 - 1.0 / size
        transitions = np.zeros((size, size, 2, size))
        transitions[rows, columns, right, columns] = 1.0 - success
        # Added: in the last column both ends of the move are the same state.
        transitions[rows, columns, right, np.minimum(columns + 1, last)] += success
        transitions[rows, columns, 1 - right, np.maximum(columns - 1, 0)] = 1.0
        rewards = np.zeros((size, size, 2))
        rewards[rows, columns, 1 - right] = _MOVE_COST / size
        rewards[np.arange(size), last, right[:, last]] = 1.0
        return FiniteMDP(self.name, transitions, rewards, np.eye(size)[0])
