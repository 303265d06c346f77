"""Users' side of DPPG: vectorised episodes and their updates, for any policy; evaluations without users.

An update depends on its user's episode and on public parameters only. The updates of a call are computed together.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dprl.algorithms.base import Float64Array
from dprl.algorithms.pgc.user_code import error_barrier, one_thread
from dprl.envs import ControlTask, Episodes
from dprl.envs.control import Act

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

_LARGEST_SEED = 2**31 - 1
_CHUNK = 50  # users whose updates are computed together; it bounds the memory


class Policy(Protocol):
    """A policy as a function of parameters float64[d]: a `Network`, or a module of RLlib."""

    def acting(self, theta: Float64Array, rng: np.random.Generator | None) -> Act:
        """Return actions for observations float32[n, o], drawn with `rng`, or the most probable ones."""

    def evaluate(self, theta: Any, seen: Any, actions: Any) -> tuple[Any, Any]:  # noqa: ANN401 - torch's tensors
        """Return log probabilities and entropies [T] for theta [d], observations [T, o] and actions [T, ...]."""


class Rollout:
    """Episodes of a task under a policy, a number of them at once.

    Users and evaluations have environments of their own. If the environment of a user raises, the user's update is 0
    and the length of the episode is 0; a vectorised environment has no such protection, and its errors are raised.

    config: a `DPPGConfig`, its losses and `padded`. radius: norm of updates.
    """

    torch_device = "cpu"  # of updates

    def __init__(self, task: ControlTask, policy: Policy, config: Any, radius: float = 1.0) -> None:  # noqa: ANN401
        self.task, self.policy, self.config, self.radius = task, policy, config, radius
        self._vectors: dict[tuple[int, bool], VectorEnv[Any, Any, Any]] = {}

    def play(
        self,
        n: int,
        theta: Float64Array,
        rng: np.random.Generator,
        *,
        sampled: bool,
        users: bool,
        agents: list[int] | None = None,
    ) -> Episodes:
        """Return n episodes; all draws come from `rng`.

        sampled: whether actions are drawn from the policy. users: whether users play; else errors are raised. agents:
        numbers of users, for environments that take them.
        """
        if (n, users) not in self._vectors:
            barrier = error_barrier if users else None
            self._vectors[n, users] = self.task.vector(n, padded=self.config.padded, barrier=barrier)
        seed, act = int(rng.integers(_LARGEST_SEED)), self.policy.acting(theta, rng if sampled else None)
        options = None if agents is None else {"agents": agents}
        vector, padded = self._vectors[n, users], self.config.padded and users
        with one_thread():
            return self.task.play(vector, act, seed, padded=padded, checked=not users, options=options)

    def report(
        self, n: int, theta: Float64Array, rng: np.random.Generator, agents: list[int] | None = None
    ) -> tuple[Float64Array, Float64Array]:
        """Let n users play; return their updates float64[n, d], and returns and numbers of steps float64[n, 2]."""
        episodes = self.play(n, theta, rng, sampled=True, users=True, agents=agents)
        return self.updates(theta, episodes), np.stack([episodes.scores, episodes.lengths], axis=1)

    def updates(self, theta: Float64Array, episodes: Episodes) -> Float64Array:
        """Return each user's update, the gradient of their loss scaled to norm `radius`, float64[n, d]."""
        weight = self.config.entropy_weight
        found = gradients(self.policy, theta, episodes, self.gains(episodes), weight, self.torch_device)
        norms: Float64Array = np.linalg.norm(found, axis=1, keepdims=True)
        return found * (self.radius / np.where(norms > 0.0, norms, 1.0))

    def gains(self, episodes: Episodes) -> Float64Array:
        """Return the factor of each step's log probability, float64[n, T]."""
        return advantages(episodes, self.config.discount, centered=self.config.critic == "device")

    def close(self) -> None:
        """Close the environments."""
        for vector in self._vectors.values():
            vector.close()


def returns_to_go(episodes: Episodes, discount: float) -> Float64Array:
    """Return the discounted sums of the rewards from each step on, float64[n, T].

    If a time limit truncated an episode, it is taken to continue with its mean reward.
    """
    n, steps = episodes.rewards.shape
    mean = episodes.scores / np.maximum(episodes.lengths, 1)
    tail = np.where(episodes.ended | (discount == 1.0), 0.0, mean / max(1.0 - discount, 1e-12))
    found = np.zeros((n, steps))
    for t in reversed(range(steps)):
        inside = t < episodes.lengths
        tail = np.where(inside, episodes.rewards[:, t] + discount * tail, tail)
        found[:, t] = np.where(inside, tail, 0.0)
    return found


def advantages(episodes: Episodes, discount: float, *, centered: bool) -> Float64Array:
    """Return the returns to go float64[n, T], less the user's mean, which is never sent, if `centered`."""
    returns, inside = returns_to_go(episodes, discount), inside_of(episodes)
    if centered:
        means = returns.sum(axis=1) / np.maximum(episodes.lengths, 1)
        returns = np.where(inside, returns - means[:, None], 0.0)
    return returns


def inside_of(episodes: Episodes) -> NDArray[np.bool_]:
    """Return which steps belong to their episode, bool[n, T]."""
    found: NDArray[np.bool_] = np.arange(episodes.rewards.shape[1]) < episodes.lengths[:, None]
    return found


def gradients(
    policy: Policy, theta: Float64Array, episodes: Episodes, gains: Float64Array, entropy: float, device: str = "cpu"
) -> Float64Array:
    """Return the gradient of each user's loss, float64[n, d]: zeros for an episode of length 0.

    The loss is the mean over steps of -(gain log pi(a_t | s_t) + `entropy` times that of pi); gains float64[n, T].
    """
    import torch  # noqa: PLC0415 - it takes seconds to load
    from torch.func import grad, vmap  # noqa: PLC0415

    if not len(gains):  # nobody joined
        return np.zeros((0, theta.size))
    floats = partial(torch.as_tensor, dtype=torch.float32, device=device)
    data = [torch.as_tensor(part, device=device) for part in (episodes.observations, episodes.actions)]
    data += [floats(gains), floats(inside_of(episodes) / np.maximum(episodes.lengths, 1)[:, None])]
    start = floats(theta)

    def loss_of(
        point: torch.Tensor, seen: torch.Tensor, actions: torch.Tensor, gains: torch.Tensor, weight: torch.Tensor
    ) -> torch.Tensor:
        log, entropies = policy.evaluate(point, seen, actions)
        total: torch.Tensor = -(weight * (log * gains + entropy * entropies)).sum()
        return total

    validated = torch.distributions.Distribution._validate_args
    torch.distributions.Distribution.set_default_validate_args(False)  # it reads values, and vmap cannot
    try:
        with one_thread():
            found = vmap(partial(grad(loss_of), start), chunk_size=_CHUNK)(*data)
    finally:
        torch.distributions.Distribution.set_default_validate_args(validated)
    return np.asarray(found.cpu().double())
