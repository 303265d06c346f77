"""Users' updates, in torch.

An update depends on its user's episode and on public parameters only. The updates of a round are computed together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.func import grad, vmap

from dprl.algorithms.base import Float64Array
from dprl.algorithms.dppg.network import LEAST_LOG, MOST_LOG, Network
from dprl.algorithms.pgc.user_code import one_thread
from dprl.envs import Episodes

Evaluate = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor, torch.Tensor]]
"""Log probabilities, entropies and values [T] of parameters [d], observations [T, o] and actions [T] or [T, k]."""
_CHUNK = 50
"""Users whose updates are computed together; it bounds the memory."""


def _outputs(
    network: Network, theta: torch.Tensor, seen: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return logits or means [..., a], values [...] (zeros without a critic) and log deviations [a]."""
    at, layers = 0, list[tuple[torch.Tensor, torch.Tensor]]()
    for rows, columns in network.shapes:
        weights, at = theta[at : at + rows * columns].reshape(rows, columns), at + rows * columns
        bias, at = theta[at : at + rows], at + rows
        layers.append((weights, bias))
    policy, values = layers[: network.policy_layers], layers[network.policy_layers :]
    value = _forward(values, seen)[..., 0] if values else seen.new_zeros(seen.shape[:-1])
    return _forward(policy, seen), value, theta[at:].clamp(LEAST_LOG, MOST_LOG)


def log_probabilities(
    network: Network, theta: torch.Tensor, seen: torch.Tensor, actions: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return log probabilities, entropies and values [...] of actions [...], or [..., k] if they are continuous."""
    found, values, logs = _outputs(network, theta, seen)
    if network.continuous:
        distance = (actions - found) * torch.exp(-logs)
        log = (-0.5 * distance**2 - logs - 0.5 * math.log(2.0 * math.pi)).sum(-1)
        return log, (logs + 0.5 * math.log(2.0 * math.pi * math.e)).sum(-1).expand(log.shape), values
    logits = torch.log_softmax(found, -1)
    log = (logits * (torch.arange(logits.shape[-1]) == actions[..., None])).sum(-1)
    return log, -(logits.exp() * logits).sum(-1), values


def _forward(layers: list[tuple[torch.Tensor, torch.Tensor]], seen: torch.Tensor) -> torch.Tensor:
    for i, (weights, bias) in enumerate(layers):
        seen = seen @ weights.T + bias
        if i < len(layers) - 1:
            seen = torch.tanh(seen)
    return seen


def returns_to_go(episodes: Episodes, discount: float) -> Float64Array:
    """Return the discounted sums of the rewards from each step on, float64[n, T].

    If a time limit truncated an episode, it is taken to continue with its mean reward.
    """
    n, steps = episodes.rewards.shape
    mean = episodes.scores / episodes.lengths
    tail = np.where(episodes.ended | (discount == 1.0), 0.0, mean / max(1.0 - discount, 1e-12))
    found = np.zeros((n, steps))
    for t in reversed(range(steps)):
        inside = t < episodes.lengths
        tail = np.where(inside, episodes.rewards[:, t] + discount * tail, tail)
        found[:, t] = np.where(inside, tail, 0.0)
    return found


def updates(evaluate: Evaluate, theta: Float64Array, episodes: Episodes, config: Any) -> Float64Array:  # noqa: ANN401
    """Return each user's unclipped update, the gradient of their loss, float64[n, d].

    config: a `DPPGConfig`. evaluate: the policy as a function of parameters, as `partial(log_probabilities, network)`.
    """
    steps = episodes.rewards.shape[1]
    inside = np.arange(steps) < episodes.lengths[:, None]
    returns = returns_to_go(episodes, config.discount)
    if config.critic == "device":  # the user's mean, which is never sent
        returns = np.where(inside, returns - returns.sum(axis=1, keepdims=True) / episodes.lengths[:, None], 0.0)
    weights = inside / episodes.lengths[:, None]
    data = (
        torch.as_tensor(episodes.observations),
        torch.as_tensor(episodes.actions),
        torch.as_tensor(returns, dtype=torch.float32),
        torch.as_tensor(weights, dtype=torch.float32),
    )
    start = torch.as_tensor(theta, dtype=torch.float32)

    def loss_of(
        point: torch.Tensor, seen: torch.Tensor, actions: torch.Tensor, gains: torch.Tensor, weight: torch.Tensor
    ) -> torch.Tensor:
        log, entropy, values = evaluate(point, seen, actions)
        advantage = gains - values.detach() if config.critic == "joint" else gains
        gain = log * advantage + config.entropy_weight * entropy
        total: torch.Tensor = (weight * (config.value_weight * (values - gains) ** 2 - gain)).sum()
        return total

    with one_thread():
        found = vmap(partial(grad(loss_of), start), chunk_size=_CHUNK)(*data)
    out: Float64Array = found.double().numpy()
    return out
