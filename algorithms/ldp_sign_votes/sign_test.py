"""Test behind a vote: whether an episode is evidence for <a, theta_i> > 0 or for < 0.

Near theta = 0 the most powerful test uses the derivative of the episode's log-likelihood by <a, theta_i>: the sum over
its steps of sign / chance, with the public chance at theta = 0. Above its median at theta = 0 the vote is 1, below -1,
and at the median a coin makes both equally likely at theta = 0. Near 0, votes are right more often than wrong on either
side.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dprl.algorithms.base import Float64Array
from dprl.envs import LinearMixtureMDP

# Sums of reciprocals of chances that differ by less than TIES are the same score.
_DIGITS, TIES = 9, 1e-6
# Chances below it are rounding of 0, and halves within it are equal.
_ROUNDING = 1e-9
_MOST_SCORES = 200_000


class SignTests(NamedTuple):
    """One test for each agent.

    directions float64[H, S, n]: 1 where an agent gains by acting along theta, -1 where it gains by acting against it.
    weights float64[L, n]: the addend of a list's entry to the score of an agent with direction 1. medians, coins
    float64[n]: medians of the scores at theta = 0, and the chance of a vote of 1 there.
    """

    directions: Float64Array
    weights: Float64Array
    medians: Float64Array
    coins: Float64Array


def directions(mdp: LinearMixtureMDP) -> Float64Array:
    """Return the direction of each agent, float64[H, S, n]: the sign of the change in value when the state moves on.

    It uses the values at theta = 0, known in advance: rewards and features are public. On the network of [TH23] the
    signs are those of the optimal values.
    """
    values = mdp.uniform_value()
    slopes = np.stack([mdp.value_features(values[h + 1])[0] for h in range(mdp.horizon)])
    return np.where(slopes < 0.0, -1.0, 1.0)


def sign_tests(mdp: LinearMixtureMDP) -> SignTests:
    """Return the tests of all agents. Raises ValueError for a horizon with too many different scores."""
    pushed, chances = directions(mdp), mdp.lists.constant.sum(axis=1)
    # A step that is impossible at theta = 0 would have an infinite weight.
    weights = np.where(chances[:, None] > _ROUNDING, mdp.lists.sign / np.maximum(chances, _ROUNDING)[:, None], 0.0)
    found = [_median(_scores(mdp, pushed[..., i], weights[:, i], chances)) for i in range(mdp.n_agents)]
    medians, coins = (np.array(column) for column in zip(*found, strict=True))
    return SignTests(pushed, np.ascontiguousarray(weights), medians, coins)


def _scores(
    mdp: LinearMixtureMDP, pushed: Float64Array, weights: Float64Array, chances: Float64Array
) -> dict[float, float]:
    """Return the distribution of an agent's score at theta = 0: score -> chance."""
    reached: dict[tuple[int, float], float] = {(mdp.start, 0.0): 1.0}
    for h in range(mdp.horizon):
        following: dict[tuple[int, float], float] = {}
        for (state, score), chance in reached.items():
            for entry in range(mdp.lists.first[state], mdp.lists.first[state + 1]):
                if chances[entry] > _ROUNDING:
                    total = round(score + float(pushed[h, state] * weights[entry]), _DIGITS)
                    place = (int(mdp.lists.state[entry]), total)
                    following[place] = following.get(place, 0.0) + chance * float(chances[entry])
        if len(following) > _MOST_SCORES:
            raise ValueError(f"horizon must give at most {_MOST_SCORES} different scores, got {mdp.horizon}; lower it")
        reached = following
    scores: dict[float, float] = {}
    for (_, score), chance in reached.items():
        scores[score] = scores.get(score, 0.0) + chance
    return scores


def _median(scores: dict[float, float]) -> tuple[float, float]:
    """Return the median, and the chance of a 1 there that makes the chance of a 1 in all 1/2."""
    above = 0.0
    for score in sorted(scores, reverse=True):
        if above + scores[score] >= 0.5 - _ROUNDING:
            return score, min(max((0.5 - above) / scores[score], 0.0), 1.0)
        above += scores[score]
    raise ValueError("scores must have chances that sum to 1; check the lists")
