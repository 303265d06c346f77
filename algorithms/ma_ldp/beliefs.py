"""Agents' estimates of the mean reward: known, or learned by steps on released corrections and by consensus."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dprl.algorithms.base import Float64Array
from dprl.algorithms.ma_ldp.graphs import ConsensusMatrices, consensus, matrix_number
from dprl.algorithms.ma_ldp.joint_actions import padded
from dprl.algorithms.ma_ldp.rewards import RewardStep, correct, reward_step
from dprl.compiled import inlined, no_alloc_kernel
from dprl.envs.network_mdp import LinearMixtureMDP
from dprl.privacy.randomness.bits import fill_uniform


class Beliefs(NamedTuple):
    """Agents' reward weights and the rules of their updates.

    learned: 1, or 0 where rewards are public. weights float64[H, n, p]; believed float64[M, H, W]: <psi(s), w>, cut to
    [0, 1] if `cut` is 1. corrections float64[n, H, p]: as released. psi float64[S, p]. step, decay: of gamma_k.
    matrices float64[m, n, n], reached float64[m]: consensus matrices and the sums of their probabilities; cycled: 1 if
    they come in order. key uint64[5]: of their draws. draws float64[H], workspace float64[n, p], own float64[n, p]:
    scratch.
    """

    learned: int
    weights: Float64Array
    believed: Float64Array
    cut: int
    corrections: Float64Array
    psi: Float64Array
    step: float
    decay: float
    matrices: Float64Array
    reached: Float64Array
    cycled: int
    key: np.ndarray
    draws: Float64Array
    workspace: Float64Array
    own: Float64Array

    def __repr__(self) -> str:
        return f"Beliefs(learned={self.learned})"


def beliefs(
    mdp: LinearMixtureMDP,
    learned: bool,
    cut: bool,
    step: RewardStep,
    talks: tuple[ConsensusMatrices, bool, np.ndarray],
    n_messages: int,
) -> Beliefs:
    """Return the first estimates: the true ones if rewards are public, else zeros.

    talks: consensus matrices, whether they come in order, and the key of their draws.
    """
    (matrices, _), cycled, key = talks
    n, horizon, p = mdp.n_agents, mdp.horizon, mdp.reward_features.shape[1]
    believed = np.zeros((n_messages, horizon, padded(mdp.n_states)))
    if not learned:
        believed[..., : mdp.n_states] = mdp.common_rewards
    return Beliefs(
        learned=int(learned),
        weights=np.zeros((horizon, n, p)),
        believed=believed,
        cut=int(cut),
        corrections=np.zeros((n, horizon, p)),
        psi=mdp.reward_features,
        step=step.step,
        decay=step.decay,
        matrices=matrices,
        reached=talks[0].reached,
        cycled=int(cycled),
        key=key,
        draws=np.zeros(horizon),
        workspace=np.zeros((n, p)),
        own=np.zeros((n, p)),
    )


@no_alloc_kernel
def update(beliefs: Beliefs, user: int) -> None:
    """Step along the released corrections of user k, average with neighbours, and update the estimates.

    Paper: [TH23] Algorithm 1, lines 18 and 42.
    """
    n_stages, n, p = beliefs.weights.shape
    gamma = reward_step(beliefs.step, beliefs.decay, user)
    fill_uniform(beliefs.draws, beliefs.key, np.uint64(user) * np.uint64(n_stages))
    for h in range(n_stages):
        for i in range(n):
            for j in range(p):
                beliefs.own[i, j] = beliefs.corrections[i, h, j]
        correct(beliefs.weights[h], beliefs.own, gamma)
        turn = (user - 1) * n_stages + h
        number = matrix_number(beliefs.reached, beliefs.cycled == 1, turn, beliefs.draws[h])
        consensus(beliefs.weights[h], beliefs.matrices[number], beliefs.workspace)
    _believe(beliefs)


@inlined
def _believe(beliefs: Beliefs) -> None:
    for m in range(beliefs.believed.shape[0]):
        for h in range(beliefs.believed.shape[1]):
            for s in range(beliefs.psi.shape[0]):
                total = 0.0
                for j in range(beliefs.psi.shape[1]):
                    total += beliefs.psi[s, j] * beliefs.weights[h, m, j]
                # Rewards lie in [0, 1]; the paper does not use this.
                beliefs.believed[m, h, s] = min(max(total, 0.0), 1.0) if beliefs.cut == 1 else total


def mean_error(beliefs: Beliefs, rewards: Float64Array, reached: npt.NDArray[np.bool_]) -> float:
    """Return the mean of |believed - rewards| over agents and reachable pairs (h, s).

    rewards float64[S]: the mean reward. reached bool[H, S]: the reachable states at each stage.
    """
    errors = np.abs(beliefs.believed[..., : rewards.shape[0]] - rewards)
    return float(errors[:, reached].mean())
