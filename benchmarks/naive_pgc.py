"""PGC-A3C as one would write it first: torch at every step, gymnasium's CartPole, one backward pass, Laplace noise."""

from __future__ import annotations

from dataclasses import dataclass, field

import gymnasium
import numpy as np
import numpy.typing as npt
import torch

Floats = npt.NDArray[np.float64]
GAMMA, LAMBDA, BETA, HORIZON = 0.99, 0.5, 0.01, 200


class Network(torch.nn.Module):
    """A shared layer of 16 rectified linear units, two logits and a value; no biases."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.hidden = torch.nn.Linear(4, 16, bias=False, dtype=dtype)
        self.policy = torch.nn.Linear(16, 2, bias=False, dtype=dtype)
        self.value = torch.nn.Linear(16, 1, bias=False, dtype=dtype)

    def forward(self, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        units = torch.relu(self.hidden(state))
        return self.policy(units), self.value(units).squeeze(-1)


@dataclass
class NaivePGC:
    """Agents in turn: play, differentiate, clip, add noise, update; the reward is at the end, -1 or 1."""

    theta: Floats
    clip: float = 0.01
    epsilon: float = 1.0
    learning_rate: float = 0.5
    seed: int = 0
    dtype: torch.dtype = torch.float32
    steps: int = 0
    network: Network = field(init=False)

    def __post_init__(self) -> None:
        torch.manual_seed(self.seed)
        self.rng = np.random.default_rng(self.seed)
        self.network = Network(self.dtype)
        flat = torch.as_tensor(self.theta, dtype=self.dtype)
        torch.nn.utils.vector_to_parameters(flat, self.network.parameters())
        self.env = gymnasium.make("CartPole-v1", max_episode_steps=HORIZON)
        self.cart = self.env.unwrapped

    def submission(self, exploration: float) -> None:
        """One agent's episode and private gradient, and the update."""
        self.cart.gravity = float(self.rng.choice([9.7, 9.8, 9.9]))  # type: ignore[attr-defined]
        self.env.reset(seed=int(self.rng.integers(2**31)))
        self.update(self.gradient(*self.episode(exploration)))

    def episode(self, exploration: float) -> tuple[list[torch.Tensor], list[torch.Tensor], list[torch.Tensor]]:
        """Play from the environment's state; return log chances of the actions, values (one more), and entropies."""
        chances: list[torch.Tensor] = []
        values: list[torch.Tensor] = []
        entropies: list[torch.Tensor] = []
        over = False
        while not over:
            logits, value = self.look()
            action = int(logits.argmax()) if self.rng.random() >= exploration else int(self.rng.integers(2))
            over = self.act(action, logits, value, (chances, values, entropies))
        values.append(self.look()[1])
        return chances, values, entropies

    def look(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the network's outputs at the environment's state."""
        state = np.asarray(self.cart.state)  # type: ignore[attr-defined]
        return self.network(torch.as_tensor(state, dtype=self.dtype))  # type: ignore[no-any-return]

    def act(
        self,
        action: int,
        logits: torch.Tensor,
        value: torch.Tensor,
        seen: tuple[list[torch.Tensor], list[torch.Tensor], list[torch.Tensor]],
    ) -> bool:
        """Take one step and keep the terms of the loss; return whether the episode is over."""
        log_policy = torch.log_softmax(logits, -1)
        seen[0].append(log_policy[action])
        seen[1].append(value)
        seen[2].append(-(log_policy.exp() * log_policy).sum())
        _, _, fell, late, _ = self.env.step(action)
        self.steps += 1
        return bool(fell or late)

    def gradient(
        self, chances: list[torch.Tensor], values: list[torch.Tensor], entropies: list[torch.Tensor]
    ) -> torch.Tensor:
        """The gradient of the loss, flat."""
        length = len(chances)
        last, final = (1.0 if length == HORIZON else -1.0), values[-1].item()
        returns = [GAMMA ** (length - 1 - t) * last + GAMMA ** (length - t) * final for t in range(length)]
        targets, seen = torch.tensor(returns, dtype=self.dtype), torch.stack(values[:-1])
        advantages = (targets - seen).detach()
        loss = -(torch.stack(chances) * advantages).sum() - BETA * torch.stack(entropies).sum()
        loss = loss + LAMBDA * ((targets - seen) ** 2).sum()
        self.network.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        return torch.cat([p.grad.flatten() for p in self.network.parameters() if p.grad is not None])

    def update(self, gradient: torch.Tensor) -> None:
        """Clip, add Laplace noise, and take a step."""
        clipped = gradient / max(1.0, float(gradient.abs().sum()) / (self.clip / 2.0))
        noise = torch.distributions.Laplace(0.0, self.clip / self.epsilon).sample(clipped.shape)
        with torch.no_grad():
            flat = torch.nn.utils.parameters_to_vector(self.network.parameters())
            flat -= self.learning_rate * (clipped + noise).to(self.dtype)
            torch.nn.utils.vector_to_parameters(flat, self.network.parameters())
