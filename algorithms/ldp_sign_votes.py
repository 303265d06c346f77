"""LDP-SignVotes: one randomised bit from every user, on the sign of one number of theta; our baseline for MA-LDP.

What is to be learned of a linear mixture MDP with known features are the n (d-1) numbers of theta, which all stages and
states share. User k's device looks at one of them, in turns: the bit says whether its episode is more likely if that
number is a little above 0 than a little below. The server adds up the randomised bits; every agent's action follows the
signs of the sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from dprl.algorithms.base import REGRET, Float64Array, Int64Array, Metric, Releases
from dprl.algorithms.submitting import SubmittingLearner
from dprl.envs import Env, LinearMixtureMDP
from dprl.envs.network_mdp.base import action_vectors
from dprl.envs.network_mdp.dynamics import SuccessorLists, policy_value
from dprl.privacy import BitPrivacyConfig, BitPrivatizer, Streams
from dprl.privacy.bits import BitChannel, receive_bit, send_bit
from dprl.privacy.compiled import borrowing, inlined
from dprl.privacy.randomness.bits import fill_uniform

RIGHT_SIGNS = Metric("right_signs", "last", of="deployed", better="high", most=1.0)
"""The share of the n (d-1) numbers of theta whose sign the votes have right."""


class Device(NamedTuple):
    """What is on the user's side: the episode under way. Only `play` writes it, only `send_bit` may read the bit.

    uniforms float64[H + 1]: of the steps, and of a bit that nothing speaks for; coins float64[n (d-1)]: of votes that
    are even; vectors float64[n, d-1]: what the agents do; bit int64[1].
    """

    uniforms: Float64Array
    coins: Float64Array
    vectors: Float64Array
    bit: Int64Array

    def __repr__(self) -> str:
        # The generated one would print a user's data into a log.
        return f"Device({self.uniforms.shape[0] - 1} steps)"


class Users(NamedTuple):
    """The environment and its users as compiled loops see them.

    lists, theta float64[n, d-1], rewards float64[S]: the truth; start, optimal: the first state and V* there; episodes:
    K. directions float64[H, S, n]: 1 where an agent does well to go with theta, -1 against it. env_key, action_key
    uint64[5]. means float64[H, S, n], values float64[H + 1, S]: scratch.
    """

    lists: SuccessorLists
    theta: Float64Array
    rewards: Float64Array
    start: int
    optimal: float
    episodes: int
    directions: Float64Array
    env_key: np.ndarray
    action_key: np.ndarray
    means: Float64Array
    values: Float64Array
    device: Device

    def __repr__(self) -> str:
        return f"Users({self.episodes} episodes)"


def directions(mdp: LinearMixtureMDP) -> Float64Array:
    """Return which way each agent should push, float64[H, S, n]: the sign of what moving on adds to the value.

    By the values of theta = 0, which need no learning: rewards and features are public. On the network of [TH23] they
    are those of the optimal values.
    """
    values = mdp.uniform_value()
    slopes = np.stack([mdp.value_features(values[h + 1])[0] for h in range(mdp.horizon)])
    return np.where(slopes < 0.0, -1.0, 1.0)


@borrowing
def play(users: Users, votes: Int64Array, user: int) -> None:
    """User side: episode `user` under the signs of votes int64[n (d-1)]; leaves the bit in users.device.

    The bit is 1 if the derivative of the episode's log-likelihood by the number of theta whose turn it is, at theta =
    0, is above 0: the most powerful test of its sign near 0. A derivative of 0 says 0 or 1 by a coin.
    """
    own, (horizon, _, n) = users.device, users.directions.shape
    length = own.vectors.shape[1]
    fill_uniform(own.uniforms, users.env_key, np.uint64(user) * np.uint64(horizon + 1))
    fill_uniform(own.coins, users.action_key, np.uint64(user) * np.uint64(n * length))
    _fill_signs(votes, own.coins, own.vectors)
    turn = (user - 1) % (n * length)
    agent, number = turn // length, turn % length
    state, score = users.start, 0.0
    for h in range(horizon):
        entry = _next_entry(users, own.vectors, h, state, own.uniforms[h])
        chance = 0.0
        for i in range(n):
            chance += users.lists.constant[entry, i]
        push = users.directions[h, state, agent] * own.vectors[agent, number]
        # A step that is impossible at theta = 0 would have an infinite derivative.
        score += users.lists.sign[entry, agent] * push / max(chance, 1e-12)
        state = users.lists.state[entry]
    coin = 1 if own.uniforms[horizon] < 0.5 else 0
    own.bit[0] = 1 if score > 0.0 else 0 if score < 0.0 else coin


@inlined
def _fill_signs(votes: Int64Array, coins: Float64Array, vectors: Float64Array) -> None:
    """Fill vectors [n, d-1] with the signs of the votes; where they are even, a coin decides."""
    length = vectors.shape[1]
    for j in range(votes.shape[0]):
        sign = 1.0 if votes[j] > 0 or (votes[j] == 0 and coins[j] < 0.5) else -1.0
        vectors[j // length, j % length] = sign


@inlined
def _next_entry(users: Users, vectors: Float64Array, h: int, state: int, uniform: float) -> int:
    """Return the entry of the list of `state` that a uniform draw in [0, 1) picks."""
    lists, reached = users.lists, 0.0
    chosen = lists.first[state]
    for entry in range(lists.first[state], lists.first[state + 1]):
        share = 0.0
        for i in range(vectors.shape[0]):
            drift = 0.0
            for e in range(vectors.shape[1]):
                drift += vectors[i, e] * users.theta[i, e]
            share += lists.sign[entry, i] * users.directions[h, state, i] * drift + lists.constant[entry, i]
        if share > 1e-12:
            chosen = entry
            reached += share
            if uniform < reached:
                break
    return chosen


@borrowing
def regret(users: Users, votes: Int64Array) -> float:
    """Return V* - V^pi at the start, exact, of the signs of the votes; even ones are coins."""
    horizon, n_states, n = users.means.shape
    length = votes.shape[0] // n
    for i in range(n):
        drift = 0.0
        for e in range(length):
            drift += np.sign(votes[i * length + e]) * users.theta[i, e]
        for h in range(horizon):
            for s in range(n_states):
                users.means[h, s, i] = users.directions[h, s, i] * drift
    policy_value(users.lists, users.rewards, users.means, users.values)
    return users.optimal - users.values[0, users.start]


@borrowing
def run(users: Users, channel: BitChannel, votes: Int64Array, first: int, last: int) -> float:
    """Run episodes first..last (from 1 on, inclusive) of K; return the summed regret. Their users must be charged."""
    summed, current = 0.0, regret(users, votes)
    for k in range(first, last + 1):
        summed += current
        play(users, votes, k)
        if k < users.episodes:
            send_bit(channel, users.device.bit[0], k)
            turn = (k - 1) % votes.shape[0]
            before = votes[turn]
            votes[turn] += 2 * receive_bit(channel) - 1
            if np.sign(before) != np.sign(votes[turn]):
                current = regret(users, votes)
    return summed


@dataclass(frozen=True)
class LDPSignVotesConfig:
    """LDP-SignVotes, one randomised bit from every user on the sign of one number of theta: our baseline for MA-LDP."""

    name: ClassVar[str] = "ldp_sign_votes"
    plays: ClassVar[type[Env]] = LinearMixtureMDP
    releases: ClassVar[Releases] = "bits"
    unit: ClassVar[Literal["episode", "submission"]] = "episode"
    metrics: ClassVar[tuple[Metric, ...]] = (REGRET, RIGHT_SIGNS)

    @property
    def covered_by(self) -> str | None:
        """None: nothing is proved of its regret."""
        return None

    def privatizer(
        self, env: LinearMixtureMDP, privacy: BitPrivacyConfig, episodes: int, streams: Streams
    ) -> BitPrivatizer:
        """Return the privatizer of users 1..K-1; the last user's bit could serve no later policy."""
        del env
        return privacy.build(episodes - 1, streams)

    def build(
        self, env: LinearMixtureMDP, privatizer: BitPrivatizer, episodes: int, streams: Streams
    ) -> LDPSignVotesLearner:
        """Return a fresh learner."""
        return LDPSignVotesLearner(self, env, privatizer, episodes, streams)


class LDPSignVotesLearner(SubmittingLearner):
    """LDP-SignVotes on one linear mixture MDP, for a fixed number of episodes.

    *Formal guarantee.* (epsilon, 0)-LDP, exactly: a user sends one bit, by randomised response.
    """

    def __init__(
        self,
        config: LDPSignVotesConfig,
        env: LinearMixtureMDP,
        privatizer: BitPrivatizer,
        episodes: int,
        streams: Streams,
    ) -> None:
        self.privatizer = privatizer
        self._env = env
        self._users = _users(env, episodes, streams)
        arrays = (*env.lists, env.theta, env.rewards, self._users.env_key, self._users.action_key)
        super().__init__(config.name, privatizer, episodes, (f"{streams.seed} {streams.context} {env.start}", arrays))
        self._votes = np.zeros(env.theta.size, dtype=np.int64)

    @property
    def votes(self) -> Int64Array:
        """Randomised bits for a positive number less those against it, int64[n, d-1]; a copy."""
        return self._votes.reshape(self._env.theta.shape).copy()

    @property
    def policy(self) -> Float64Array:
        """The chances [H, S, n, A] with which agents take their actions, as deployed last."""
        signs, vectors = np.sign(self.votes), action_vectors(self._env.dimension)
        pushed = np.sign(self._users.directions)[..., None] * signs  # [H, S, n, d-1]
        fits = (pushed[..., None, :] * vectors >= 0.0).all(axis=-1).astype(np.float64)
        chances: Float64Array = fits / fits.sum(axis=-1, keepdims=True)
        return chances

    def _run(self, first: int, last: int) -> dict[str, float]:
        summed = run(self._users, self.privatizer.channel, self._votes, first, last)
        right = np.mean(np.sign(self.votes) == np.sign(self._env.theta))
        return {REGRET.name: summed, RIGHT_SIGNS.name: float(right)}

    def _arrays(self) -> dict[str, np.ndarray]:
        return {"votes": self._votes}


def _users(mdp: LinearMixtureMDP, episodes: int, streams: Streams) -> Users:
    horizon, n_states, n, length = mdp.horizon, mdp.n_states, mdp.n_agents, mdp.dimension - 1
    device = Device(np.zeros(horizon + 1), np.zeros(n * length), np.zeros((n, length)), np.zeros(1, dtype=np.int64))
    return Users(
        lists=mdp.lists,
        theta=mdp.theta,
        rewards=mdp.common_rewards,
        start=mdp.start,
        optimal=mdp.optimal_start_value(),
        episodes=episodes,
        directions=directions(mdp),
        env_key=streams.key("env"),
        action_key=streams.key("exploration", "even votes"),
        means=np.zeros((horizon, n_states, n)),
        values=np.zeros((horizon + 1, n_states)),
        device=device,
    )
