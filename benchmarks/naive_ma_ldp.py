"""MA-LDP in plain NumPy with the whole feature tensor, one call per agent, stage and formula."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dprl.envs import LinearMixture, LinearMixtureMDP, SignMixture
from dprl.envs.network_mdp.sparse import action_vectors

Floats = NDArray[np.float64]


def feature_tensor(env: LinearMixtureMDP) -> Floats:
    """Return phi(s' | s, a), float64[S, A^n, S', n d]."""
    if isinstance(env, LinearMixture):
        return env.features
    assert isinstance(env, SignMixture)
    n, d, joint, vectors = env.n_agents, env.length + 1, env.joint_actions(), action_vectors(env.length + 1)
    tensor = np.zeros((env.n_states, len(joint), env.n_states, n * d))
    for s in range(env.n_states):
        for entry in range(env.lists.first[s], env.lists.first[s + 1]):
            after = env.lists.state[entry]
            for i in range(n):
                tensor[s, :, after, i * d : i * d + d - 1] = env.lists.sign[entry, i] * vectors[joint[:, i]]
                tensor[s, :, after, i * d + d - 1] = env.lists.constant[entry, i]
    return tensor


class TensorPlanner:
    """Backward induction with phi_V as a product of the tensor and V.

    betas float64[H] of an episode; floor: the least optimistic value; joint: whether V is the best joint action's Q;
    centered: whether phi_V is of V minus the centre of its range.
    """

    def __init__(self, env: LinearMixtureMDP, floor: float, joint: bool = False, centered: bool = False) -> None:
        self.env, self.floor, self.joint, self.centered = env, floor, joint, centered
        self.tensor = feature_tensor(env)

    def plan(self, agent: int, theta: Floats, inverse: Floats, rewards: Floats, betas: Floats) -> tuple[Floats, ...]:
        """Return (phi_V [H, S, A^n, D], Q [H, S, A^n], V [H+1, S], maxmin values [H, S, A]) of one agent.

        theta [H, D], inverse [H, D, D], rewards [H, S] or [H, S A^n].
        """
        env, horizon = self.env, self.env.horizon
        n_joint, dimension = env.n_joint_actions, theta.shape[1]
        features = np.zeros((horizon, env.n_states, n_joint, dimension))
        q, values = np.zeros((horizon, env.n_states, n_joint)), np.zeros((horizon + 1, env.n_states))
        least = np.zeros((horizon, env.n_states, env.n_actions))
        for h in range(horizon - 1, -1, -1):
            centre = (values[h + 1].min() + values[h + 1].max()) / 2.0 if self.centered else 0.0
            features[h] = np.einsum("satd,t->sad", self.tensor, values[h + 1] - centre)
            form = np.einsum("sad,de,sae->sa", features[h], inverse[h], features[h])
            bonus = betas[h] * np.sqrt(np.maximum(form, 0.0))
            paid = rewards[h].reshape(env.n_states, -1) + centre
            q[h] = np.minimum(horizon - h, paid + features[h] @ theta[h] + bonus)
            q[h] = np.maximum(q[h], self.floor)
            by_agent = q[h].reshape((env.n_states,) + (env.n_actions,) * env.n_agents)
            own = np.moveaxis(by_agent, 1 + agent, 1).reshape(env.n_states, env.n_actions, -1)
            least[h] = own.min(axis=2)
            values[h] = q[h].max(axis=1) if self.joint else least[h].max(axis=1)
        return features, q, values, least


class NaiveMALDP:
    """MA-LDP with Laplace noise of scale b on statistics that the device clips, and public rewards.

    beta_rates float64[H]: beta_{k,h} / k^(1/4); shift_rates float64[H]: a stage's shift by the root of messages. Values
    are sent about the centres of their ranges.
    """

    def __init__(
        self, env: LinearMixtureMDP, beta_rates: Floats, shift_rates: Floats, scales: Floats, seed: int = 0
    ) -> None:
        self.env, self.beta_rates, self.shift_rates, self.scales = env, beta_rates, shift_rates, scales
        self.generator = np.random.default_rng(seed)
        self.bounds = np.arange(env.horizon - 1.0, -1.0, -1.0) / 2.0
        self.planner = TensorPlanner(env, floor=0.0, centered=True)
        self.transitions = env.transitions()[0]
        self.paid = env.joint().rewards[0]
        n, horizon, dimension = env.n_agents, env.horizon, env.dimension
        self.gram, self.sums = np.zeros((n, horizon, dimension, dimension)), np.zeros((n, horizon, dimension))
        self.rewards = np.broadcast_to(env.common_rewards, (horizon, env.common_rewards.size))
        self.optimal = env.optimal_start_value()
        self.episode = 0

    def run(self, episodes: int) -> float:
        """Run the next episodes; return the summed regret."""
        return sum(self.step() for _ in range(episodes))

    def step(self) -> float:
        """Run one episode; return its exact regret."""
        env, horizon, n = self.env, self.env.horizon, self.env.n_agents
        self.episode += 1
        plans = [self._plan(i) for i in range(n)]
        chosen = tuple(self._choose(plans[i][3]) for i in range(n))
        policy = np.ravel_multi_index(chosen, (env.n_actions,) * n)
        state = env.start
        for h in range(horizon - 1):
            action = policy[h, state]
            after = self.generator.choice(env.n_states, p=self.transitions[state, action])
            for i in range(n):
                self._report(h, i, plans[i][0][h, state, action], plans[i][2][h + 1], after)
            state = after
        return self.optimal - self._value(policy)

    def _plan(self, agent: int) -> tuple[Floats, ...]:
        horizon, dimension = self.sums.shape[1:]
        theta, inverse = np.zeros((horizon, dimension)), np.zeros((horizon, dimension, dimension))
        for h in range(horizon):
            shift = 1.0 + self.shift_rates[h] * math.sqrt(self.episode - 1)
            inverse[h] = np.linalg.inv(self.gram[agent, h] + shift * np.eye(dimension))
            theta[h] = inverse[h] @ self.sums[agent, h]
        betas = self.beta_rates * float(self.episode) ** 0.25
        return self.planner.plan(agent, theta, inverse, self.rewards, betas)

    def _choose(self, least: Floats) -> NDArray[np.intp]:
        """Return a maxmin action at every step and state, at random where there are several."""
        best = least == least.max(axis=2, keepdims=True)
        return np.asarray(np.argmax(best * self.generator.random(least.shape), axis=2))

    def _report(self, h: int, agent: int, feature: Floats, values: Floats, after: int) -> None:
        bound, dimension = self.bounds[h], feature.shape[0]
        half = (values.max() - values.min()) / 2.0
        stretch = bound / half if half > 1e-9 * bound else 1.0
        share = min(stretch, bound / max(float(np.linalg.norm(feature)), 1e-300))
        value = values[after] - (values.max() + values.min()) / 2.0
        noise = self.generator.laplace(0.0, self.scales[h], (dimension, dimension))
        symmetric = np.triu(noise) + np.triu(noise, 1).T
        self.gram[agent, h] += np.outer(share * feature, share * feature) + symmetric
        self.sums[agent, h] += share * feature * share * value + self.generator.laplace(0.0, self.scales[h], dimension)

    def _value(self, policy: NDArray[np.intp]) -> float:
        values, states = np.zeros(self.env.n_states), np.arange(self.env.n_states)
        for h in range(self.env.horizon - 1, -1, -1):
            values = self.paid[states, policy[h]] + self.transitions[states, policy[h]] @ values
        return float(values[self.env.start])
