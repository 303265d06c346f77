"""PGC-A3C as one would write it first: torch at every step, gymnasium's CartPole, one backward pass, Laplace noise."""

from __future__ import annotations

from functools import partial

import gymnasium
import numpy as np
import numpy.typing as npt
import torch
from torch.nn.utils import parameters_to_vector, vector_to_parameters

GAMMA, LAMBDA, BETA, HORIZON = 0.99, 0.5, 0.01, 200


class NaivePGC:
    """Agents in turn: play, differentiate, clip, add noise, update; the reward is at the end, -1 or 1.

    The network is a shared layer of 16 rectified linear units, two logits and a value, without biases. seen: of each
    step of the episode, the log chance of the action, the value and the entropy.
    """

    def __init__(
        self,
        theta: npt.NDArray[np.float64],
        clip: float = 0.01,
        epsilon: float = 1.0,
        learning_rate: float = 0.5,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        torch.manual_seed(0)
        self.clip, self.epsilon, self.learning_rate, self.dtype = clip, epsilon, learning_rate, dtype
        self.rng = np.random.default_rng(0)
        layer = partial(torch.nn.Linear, bias=False, dtype=dtype)
        self.hidden, self.policy, self.value = layer(4, 16), layer(16, 2), layer(16, 1)
        self.parameters = [each.weight for each in (self.hidden, self.policy, self.value)]
        vector_to_parameters(torch.as_tensor(theta, dtype=dtype), self.parameters)
        self.env = gymnasium.make("CartPole-v1", max_episode_steps=HORIZON)
        self.cart = self.env.unwrapped
        self.seen: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []

    def submission(self, exploration: float) -> None:
        """One agent's episode and private gradient, and the update."""
        self.cart.gravity = float(self.rng.choice([9.7, 9.8, 9.9]))  # type: ignore[attr-defined]
        self.env.reset(seed=int(self.rng.integers(2**31)))
        self.seen, over = [], False
        while not over:
            logits, value = self.look()
            action = int(logits.argmax()) if self.rng.random() >= exploration else int(self.rng.integers(2))
            over = self.act(action, logits, value)
        self.update(self.gradient())

    def look(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return logits and value at the environment's state."""
        state = np.asarray(self.cart.state)  # type: ignore[attr-defined]
        units = torch.relu(self.hidden(torch.as_tensor(state, dtype=self.dtype)))
        return self.policy(units), self.value(units).squeeze(-1)

    def act(self, action: int, logits: torch.Tensor, value: torch.Tensor) -> bool:
        """Take one step and keep the terms of the loss; return whether the episode is over."""
        log_policy = torch.log_softmax(logits, -1)
        self.seen.append((log_policy[action], value, -(log_policy.exp() * log_policy).sum()))
        _, _, fell, late, _ = self.env.step(action)
        return bool(fell or late)

    def gradient(self) -> torch.Tensor:
        """Return the flat gradient of the episode's loss."""
        length, (chances, values, entropies) = len(self.seen), map(torch.stack, zip(*self.seen, strict=True))
        last, final = (1.0 if length == HORIZON else -1.0), self.look()[1].item()
        returns = [GAMMA ** (length - 1 - t) * last + GAMMA ** (length - t) * final for t in range(length)]
        missed = torch.tensor(returns, dtype=self.dtype) - values
        loss = LAMBDA * (missed**2).sum() - (chances * missed.detach()).sum() - BETA * entropies.sum()
        return torch.cat([each.flatten() for each in torch.autograd.grad(loss, self.parameters)])

    def update(self, gradient: torch.Tensor) -> None:
        """Clip, add Laplace noise, and take a step."""
        clipped = gradient / max(1.0, float(gradient.abs().sum()) / (self.clip / 2.0))
        noise = torch.distributions.Laplace(0.0, self.clip / self.epsilon).sample(clipped.shape)
        with torch.no_grad():
            flat = parameters_to_vector(self.parameters) - self.learning_rate * (clipped + noise).to(self.dtype)
            vector_to_parameters(flat, self.parameters)
