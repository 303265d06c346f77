"""LDP-SignVotes: settings, learner, and its loop: act by the signs of the fit, play, send a vote, and fit again."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from dprl.algorithms.base import REGRET, Float64Array, Int64Array, Metric, Releases, check_number
from dprl.algorithms.cholesky import inverted
from dprl.algorithms.ldp_sign_votes.sign_test import TIES, SignTests, sign_tests
from dprl.algorithms.learner import Learner
from dprl.compiled import kernel, no_alloc_kernel, shows_numbers
from dprl.envs import Env, LinearMixtureMDP
from dprl.envs.network_mdp.base import action_vectors
from dprl.envs.network_mdp.dynamics import NOTHING, SuccessorLists, policy_value
from dprl.privacy import BitPrivacyConfig, BitPrivatizer, Streams
from dprl.privacy.queries.bits import BitChannel, receive_bit, send_bit
from dprl.privacy.randomness.bits import fill_uniform

RIGHT_SIGNS = Metric(
    name="right_signs",
    over="last",
    short="signs",
    definition="the share of the n (d-1) numbers of theta whose sign the actions of the last episode have right",
    better="high",
    most=1.0,
    covered=True,
)
"""At 1 the actions are optimal, and regret no longer grows."""

_RIDGE = 1.0
"""Ridge of the Gram matrices, with the weight of one vote; it limits the weight of the first votes."""
_LOGISTIC_DEVIATION = math.pi / math.sqrt(3.0)


@shows_numbers
class _EpisodeBuffer(NamedTuple):
    """User's side: the current episode. Only `play` writes it, only `send_bit` may read the bit.

    uniforms float64[H + 1]: of the steps, and of the test's coin; bit int64[1].
    """

    uniforms: Float64Array
    bit: Int64Array


@shows_numbers
class _Users(NamedTuple):
    """The environment and its users for compiled loops.

    lists, theta float64[n, d-1], rewards float64[S]: the true environment; start, optimal: the first state and V*
    there; episodes: K. block: number of users in a row who vote on one agent. tests: the public tests behind votes.
    env_key uint64[5]. means float64[H, S, n], values float64[H + 1, S]: scratch.
    """

    lists: SuccessorLists
    theta: Float64Array
    rewards: Float64Array
    start: int
    optimal: float
    episodes: int
    block: int
    tests: SignTests
    env_key: np.ndarray
    means: Float64Array
    values: Float64Array
    device: _EpisodeBuffer


class _Votes(NamedTuple):
    """Sums over the votes on each agent: sums float64[n, d-1] of vote times action, gram float64[n, d-1, d-1]."""

    sums: Float64Array
    gram: Float64Array


class _Fit(NamedTuple):
    """Each agent's slopes float64[n, d-1], by least squares, and their standard deviations, spread float64[n, d-1].

    inverse, factor float64[d-1, d-1]: scratch.
    """

    slopes: Float64Array
    spread: Float64Array
    inverse: Float64Array
    factor: Float64Array


def no_votes(n_agents: int, length: int) -> tuple[_Votes, _Fit]:
    """Return the state before any vote."""
    square = (length, length)
    votes = _Votes(np.zeros((n_agents, length)), np.zeros((n_agents, *square)))
    return votes, _Fit(np.zeros((n_agents, length)), np.ones((n_agents, length)), np.zeros(square), np.zeros(square))


@shows_numbers
class _Server(NamedTuple):
    """Server state, computed from votes only.

    votes, fit: see `fit`. actions float64[n, d-1]: those of the current episode, reversed where the directions are -1.
    exploration: in standard deviations; key uint64[5], uniforms float64[n, d-1]: its random draws.
    """

    votes: _Votes
    fit: _Fit
    actions: Float64Array
    exploration: float
    key: np.ndarray
    uniforms: Float64Array


@no_alloc_kernel
def add_votes(votes: _Votes, agent: int, action: Float64Array, total: float, number: float) -> None:
    """Add the total of randomized votes, 1 or -1 each, on an agent's action float64[d-1], and their number."""
    for e in range(action.shape[0]):
        votes.sums[agent, e] += total * action[e]
        for g in range(action.shape[0]):
            votes.gram[agent, e, g] += number * (action[e] * action[g])


@no_alloc_kernel
def refit(votes: _Votes, agent: int, fit: _Fit) -> None:
    """Fit an agent's slopes again. The variance of a vote is at most 1."""
    inverted(votes.gram[agent], _RIDGE, fit.factor, fit.inverse)
    for e in range(fit.slopes.shape[1]):
        total = 0.0
        for g in range(fit.slopes.shape[1]):
            total += fit.inverse[e, g] * votes.sums[agent, g]
        fit.slopes[agent, e] = total
        fit.spread[agent, e] = math.sqrt(fit.inverse[e, e])


@no_alloc_kernel
def act(fit: _Fit, exploration: float, uniforms: Float64Array, actions: Float64Array) -> bool:
    """Fill actions float64[n, d-1] with the signs of slopes, perturbed by `exploration` deviations.

    uniforms float64[n, d-1] in [0, 1): of logistic perturbations; for a slope of 0 they alone decide the sign. Returns
    whether the actions changed.
    """
    changed = False
    for i in range(actions.shape[0]):
        for e in range(actions.shape[1]):
            uniform = min(max(uniforms[i, e], 1e-16), 1.0 - 1e-16)
            shift = math.log(uniform / (1.0 - uniform)) / _LOGISTIC_DEVIATION * fit.spread[i, e]
            slope = fit.slopes[i, e]
            sign = _sign(slope + exploration * shift if slope != 0.0 else shift)
            changed |= sign != actions[i, e]
            actions[i, e] = sign
    return changed


@kernel
def _sign(number: float) -> float:
    return 1.0 if number > 0.0 else -1.0


@no_alloc_kernel
def play(users: _Users, actions: Float64Array, user: int) -> None:
    """User side: play episode `user` with actions float64[n, d-1]; write the user's vote to users.device."""
    own, (horizon, _, n) = users.device, users.tests.directions.shape
    fill_uniform(own.uniforms, users.env_key, np.uint64(user) * np.uint64(horizon + 1))
    agent, state, score = _agent_of(users, user, n), users.start, 0.0
    for h in range(horizon):
        entry = _next_entry(users, actions, h, state, own.uniforms[h])
        score += users.tests.directions[h, state, agent] * users.tests.weights[entry, agent]
        state = users.lists.state[entry]
    off = score - users.tests.medians[agent]
    if abs(off) <= TIES:
        own.bit[0] = 1 if own.uniforms[horizon] < users.tests.coins[agent] else 0
    else:
        own.bit[0] = 1 if off > 0.0 else 0


@no_alloc_kernel
def _agent_of(users: _Users, user: int, n: int) -> int:
    """Return the agent in 0..n-1 that a user votes on: agents take turns, block by block."""
    return ((user - 1) // users.block) % n


@no_alloc_kernel
def _next_entry(users: _Users, actions: Float64Array, h: int, state: int, uniform: float) -> int:
    """Return the entry of the list of `state` that is chosen by a uniform draw in [0, 1)."""
    lists, reached = users.lists, 0.0
    chosen: int = lists.first[state]
    for entry in range(lists.first[state], lists.first[state + 1]):
        share = 0.0
        for i in range(actions.shape[0]):
            drift = users.tests.directions[h, state, i] * _drift(users, actions, i)
            share += lists.sign[entry, i] * drift + lists.constant[entry, i]
        if share > NOTHING:
            chosen = entry
            reached += share
            if uniform < reached:
                break
    return chosen


@no_alloc_kernel
def _drift(users: _Users, actions: Float64Array, agent: int) -> float:
    """Return <a_i, theta_i> of an agent with direction 1."""
    total = 0.0
    for e in range(actions.shape[1]):
        total += actions[agent, e] * users.theta[agent, e]
    return total


@no_alloc_kernel
def regret(users: _Users, actions: Float64Array) -> float:
    """Return V* - V^pi at the start, exact, of the actions float64[n, d-1]."""
    horizon, n_states, n = users.means.shape
    for i in range(n):
        drift = _drift(users, actions, i)
        for h in range(horizon):
            for s in range(n_states):
                users.means[h, s, i] = users.tests.directions[h, s, i] * drift
    policy_value(users.lists, users.rewards, users.means, users.values)
    found: float = users.optimal - users.values[0, users.start]
    return found


@no_alloc_kernel
def run(users: _Users, channel: BitChannel, server: _Server, first: int, last: int) -> float:
    """Run episodes first..last (from 1 on, inclusive) of K; return their total regret. Their users must be charged.

    Actions stay the same within a block of users, and the fit is a function of the votes of full blocks.
    """
    actions, uniforms = server.actions, server.uniforms
    draws = uniforms.reshape(uniforms.size)
    summed, current = 0.0, regret(users, actions)
    for k in range(first, last + 1):
        if (k - 1) % users.block == 0:
            fill_uniform(draws, server.key, np.uint64(k) * np.uint64(draws.shape[0]))
            if act(server.fit, server.exploration, uniforms, actions):
                current = regret(users, actions)
        summed += current
        play(users, actions, k)
        if k < users.episodes:
            agent = _agent_of(users, k, actions.shape[0])
            send_bit(channel, users.device.bit[0], k)
            ones = receive_bit(channel)
            if ones >= 0:
                add_votes(server.votes, agent, actions[agent], 2.0 * ones - users.block, np.float64(users.block))
                refit(server.votes, agent, server.fit)
    return summed


@dataclass(frozen=True)
class LDPSignVotesConfig:
    """LDP-SignVotes, one randomized bit from every user on the direction of an agent's action: our baseline for MA-LDP.

    Args:
        exploration: size of the perturbation of actions in standard deviations of the fit, at least 0. With d = 2 an
            agent has two opposite actions, a vote on one is a vote on the other, and there is no exploration.
    """

    exploration: float = 1.0
    name: ClassVar[str] = "ldp_sign_votes"
    plays: ClassVar[type[Env]] = LinearMixtureMDP
    releases: ClassVar[Releases] = "bits"
    unit: ClassVar[Literal["episode", "submission"]] = "episode"
    covered_by: ClassVar[str | None] = None
    """Nothing is proved of its regret."""
    metrics: ClassVar[tuple[Metric, ...]] = (REGRET, RIGHT_SIGNS)

    def __post_init__(self) -> None:
        check_number("exploration", self.exploration, 0.0)

    def privatizer(
        self, env: LinearMixtureMDP, privacy: BitPrivacyConfig, episodes: int, streams: Streams
    ) -> BitPrivatizer:
        """Return the privatizer of users 1..K-1; the last user's bit could serve no later policy."""
        del env
        return privacy.build(None, episodes - 1, streams)

    def build(
        self, env: LinearMixtureMDP, privatizer: BitPrivatizer, episodes: int, streams: Streams
    ) -> LDPSignVotesLearner:
        """Return a fresh learner."""
        return LDPSignVotesLearner(self, env, privatizer, episodes, streams)


class LDPSignVotesLearner(Learner):
    """LDP-SignVotes on one linear mixture MDP, for a fixed number of episodes.

    *Formal guarantee.* (epsilon, 0)-LDP, exactly: a user sends one bit, by randomized response. In the shuffle model
    the policies are functions of the numbers of ones of full blocks.
    """

    def __init__(
        self,
        config: LDPSignVotesConfig,
        env: LinearMixtureMDP,
        privatizer: BitPrivatizer,
        episodes: int,
        streams: Streams,
    ) -> None:
        super().__init__(config, privatizer, episodes, streams, env.identity())
        self._env = env
        self._users = _users(env, episodes, max(1, privatizer.query.block), streams)
        (n, length), exploration = env.theta.shape, config.exploration if env.dimension > 2 else 0.0
        key = streams.key("exploration", "actions")
        self._server = _Server(*no_votes(n, length), np.ones((n, length)), exploration, key, np.zeros((n, length)))

    @property
    def policy(self) -> Float64Array:
        """The chances [H, S, n, A], all 0 or 1, of the actions of the last episode."""
        chosen = self._users.tests.directions[..., None] * self._server.actions  # [H, S, n, d-1]
        vectors = action_vectors(self._env.dimension)
        return np.asarray((chosen[..., None, :] == vectors).all(axis=-1), dtype=np.float64)

    def _run(self, first: int, last: int) -> dict[str, float]:
        summed = run(self._users, self.privatizer.channel, self._server, first, last)
        right = np.mean(self._server.actions == np.sign(self._env.theta))
        return {REGRET.name: summed, RIGHT_SIGNS.name: float(right)}

    def _arrays(self) -> dict[str, np.ndarray]:
        votes, fit = self._server.votes, self._server.fit
        kept = {"sums": votes.sums, "gram": votes.gram, "slopes": fit.slopes, "spread": fit.spread}
        return kept | {"actions": self._server.actions}


def _users(mdp: LinearMixtureMDP, episodes: int, block: int, streams: Streams) -> _Users:
    horizon, n_states = mdp.horizon, mdp.n_states
    return _Users(
        lists=mdp.lists,
        theta=mdp.theta,
        rewards=mdp.common_rewards,
        start=mdp.start,
        optimal=mdp.optimal_start_value(),
        episodes=episodes,
        block=block,
        tests=sign_tests(mdp),
        env_key=streams.key("env"),
        means=np.zeros((horizon, n_states, mdp.n_agents)),
        values=np.zeros((horizon + 1, n_states)),
        device=_EpisodeBuffer(np.zeros(horizon + 1), np.zeros(1, dtype=np.int64)),
    )
