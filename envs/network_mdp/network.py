"""Agents who travel along a row of nodes, from the first one to the goal: the environment of [TH23]."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product
from math import floor
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dprl.envs.base import Env
from dprl.envs.checks import require_choice, require_integers, require_number, require_size
from dprl.envs.linear_mixture import NOTHING
from dprl.envs.network_mdp.dynamics import SuccessorLists
from dprl.envs.network_mdp.sparse import SignMixture

# D22: printed is 1000 at the goal; a thousandth of it, so that rewards are at most 1.
_START_REWARD, _GOAL_REWARD = 5 / 1000, 1000 / 1000
_SIGNS = ("positive", "random")
# More do not fit in memory; powers that take minutes to write out are not to be tried.
_MOST_AGENTS, _MOST_DIMENSIONS = 8, 8


@cache
def tightest_step(
    n_agents: int, start_forward: float, node_leave: float, node_forward: float
) -> tuple[Fraction, int, tuple[str, ...], tuple[str, ...]]:
    """Return the largest gap that leaves every probability at least 0, exactly, and the step that limits it first.

    The least probability of a step over all actions is w / (n alpha(s)) - gap m / n, with w the sum of the agents' base
    weights and m the number of those short of the goal who stay or go forward. So it depends only on the numbers of
    agents at each node and of their moves, on any number of nodes and in any dimension. The step is m and the nodes of
    all agents before and after: 's' the first one, 'j' any in between, 'g' the goal.
    Paper: [TH23] Lemma 4.
    """
    # D21: the paper asks for gap < delta only, and its Lemma 4 proves sums, no signs.
    ahead, leave, move = Fraction(start_forward), Fraction(node_leave), Fraction(node_forward)
    found = []
    for at_start, between in product(range(n_agents + 1), repeat=2):
        at_goal = n_agents - at_start - between
        if at_goal < 0:
            continue
        alpha, before = _alpha(at_start, between, at_goal), ("s",) * at_start + ("j",) * between + ("g",) * at_goal
        for waits, stays, moves in product(range(at_start + 1), range(between + 1), range(between + 1)):
            backs, signed = between - stays - moves, at_start + stays + moves
            if backs >= 0 and signed:
                weight = at_goal + waits * (1 - ahead) + (at_start - waits) * ahead
                weight += stays * (1 - leave) + moves * move + backs * (leave - move)
                after = ("s",) * waits + ("1",) * (at_start - waits) + ("j",) * stays + ("j+1",) * moves
                after += ("j-1",) * backs + ("g",) * at_goal
                found.append((weight / (alpha * signed), signed, before, after))
    return min(found, key=lambda step: step[0])


@dataclass(frozen=True)
class NetworkMDP:
    """Network MDP: agents travel along a row of nodes to a goal, and learn the actions that take them forward.

    n agents start at the first of q + 2 nodes and try to reach the last one, the goal, where they stay. In the first
    node an agent stays or goes forward, in between it stays, goes forward or goes back. Each acts by a vector a in
    {-1, 1}^(d-1): its product with theta_i is weight that goes forward instead of staying, most for the signs of
    theta_i. Weights of all agents add up to the probability of where all go, so agents are not independent.
    An agent's reward is 0.005 in the first node, 1 at the goal and 0 in between; all want the mean over agents. The
    reward features of a state are the shares of agents at each node, so the nodes' rewards are the w of the mean.

    n_agents: n, 1 to 8. n_intermediate: q, nodes between the first one and the goal, at least 1. dimension: d, 2 to 8.
    horizon: steps of an episode, at least 1.
    gap: Delta >= 0; every coordinate of theta_i is Delta / (n (d-1)) or minus that.
    start_forward: delta in [0, 1], base weight of going forward from the first node; that of staying is 1 - delta.
    node_leave: delta_jj in [0, 1], of not staying in a node in between; the same for all of them.
    node_forward: delta_j,j+1 in [0, node_leave], of going forward from there; that of going back is the rest.
    signs: of theta: positive, or random with equal chances, drawn from sign_seed, at least 0.
    Raises ValueError on other values, and unless every probability is at least 0: the gap must be at most
    that of `tightest_step`, which does not depend on q, d and signs; printed is gap < delta only.

    >>> network = NetworkMDP(n_agents=2).build()
    >>> network.n_states, network.n_actions
    (9, 2)
    >>> round(network.optimal_start_value(), 3), float(network.uniform_value()[0, network.start].round(3))
    (1.792, 1.13)

    Paper: [TH23] sec. 8, eq. (62), Lemma 4.
    """

    name: ClassVar[str] = "network_mdp"
    builds: ClassVar[type[Env]] = SignMixture

    n_agents: int = 2
    n_intermediate: int = 1
    dimension: int = 2
    horizon: int = 5
    gap: float = 1 / 6
    start_forward: float = 0.5
    node_leave: float = 0.5
    node_forward: float = 0.5
    signs: Literal["positive", "random"] = "positive"
    sign_seed: int = 0

    def __post_init__(self) -> None:
        require_integers(self, n_agents=1, n_intermediate=1, dimension=2, horizon=1, sign_seed=0)
        for key, most in (("n_agents", _MOST_AGENTS), ("dimension", _MOST_DIMENSIONS)):
            if getattr(self, key) > most:
                raise ValueError(f"{key} must be at most {most}, got {getattr(self, key)}; lower {key}")
        for key in ("gap", "start_forward", "node_leave", "node_forward"):
            require_number(key, getattr(self, key), 0.0, 1.0)
        require_choice("signs", self.signs, _SIGNS)
        require_size(self.name, self.sizes, "horizon, n_agents, n_intermediate or dimension")
        if self.node_forward > self.node_leave:
            rule = f"node_forward must be at most node_leave = {self.node_leave:g}"
            raise ValueError(f"{rule}, got {self.node_forward:g}; lower it")
        chances = self.start_forward, self.node_leave, self.node_forward
        limit, signed, before, after = tightest_step(int(self.n_agents), *chances)
        if Fraction(self.gap) > limit + Fraction(NOTHING):
            least = float((limit - Fraction(self.gap)) * signed / int(self.n_agents))
            raise ValueError(
                f"gap must be at most {floor(limit * 10**6) / 10**6:.6g}, got {self.gap:.9g}: the step from "
                f"({', '.join(before)}) to ({', '.join(after)}) would have the probability {least:.6g}; lower gap, or "
                "change start_forward, node_leave, node_forward"
            )

    def nodes(self) -> NDArray[np.int64]:
        """Return the node [S, n] of each agent in each state, 0 the first one and q + 1 the goal."""
        return np.array(list(product(range(self.n_intermediate + 2), repeat=self.n_agents)), dtype=np.int64)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """H, S, and the number of actions of all agents together: known before anything is built."""
        n_actions = 2 ** (int(self.n_agents) * (int(self.dimension) - 1))
        return int(self.horizon), (int(self.n_intermediate) + 2) ** int(self.n_agents), n_actions

    def build(self) -> SignMixture:
        """Build the MDP: S = (q+2)^n states in the order of `nodes`; episodes start with all at the first node."""
        nodes, goal, n_agents = self.nodes(), self.n_intermediate + 1, int(self.n_agents)
        rewards = np.where(nodes == 0, _START_REWARD, np.where(nodes == goal, _GOAL_REWARD, 0.0)).T
        shares = (nodes[:, :, None] == np.arange(goal + 1)).mean(axis=1)
        signs = np.ones((self.n_agents, self.dimension - 1))
        if self.signs == "random":
            signs = np.random.default_rng(self.sign_seed).choice([-1.0, 1.0], size=signs.shape)
        theta = self.gap / (self.n_agents * (self.dimension - 1)) * signs
        places = (goal + 1) ** np.arange(n_agents)[::-1]
        local = [self._moves(node) for node in range(goal + 1)]
        first, states, moved, constants = [0], [], [], []
        for here in nodes:
            moves = np.array(list(product(*(local[node] for node in here))))
            at_start, at_goal = int((here == 0).sum()), int((here == goal).sum())
            share = moves[:, :, 2] / float(n_agents * _alpha(at_start, n_agents - at_start - at_goal, at_goal))
            if at_goal == n_agents:
                share = np.eye(n_agents)[-1:]
            # The moves of `local` are sorted by their ends, so that products are sorted by states.
            states.append(moves[:, :, 0].astype(np.int64) @ places)
            moved.append(moves[:, :, 1])
            constants.append(share)
            first.append(first[-1] + len(moves))
        rows = map(np.concatenate, (states, moved, constants))
        lists = SuccessorLists(np.array(first, dtype=np.int64), *rows)
        return SignMixture(self.name, int(self.horizon), lists, theta, rewards, 0, shares)

    def _moves(self, node: int) -> list[tuple[int, int, float]]:
        """Return (next node, sign, base weight) of an agent's moves from a node, by next node."""
        if node == 0:
            # D19: the second row of the local features has g for node 1.
            return [(0, -1, 1.0 - self.start_forward), (1, 1, self.start_forward)]
        if node == self.n_intermediate + 1:
            return [(node, 0, 1.0)]
        back, stay = self.node_leave - self.node_forward, 1.0 - self.node_leave
        return [(node - 1, 0, back), (node, -1, stay), (node + 1, 1, self.node_forward)]


def _alpha(at_start: int, between: int, at_goal: int) -> Fraction:
    """Return alpha(s): constants are divided by it so that a list sums to 1. Arguments: numbers of agents by place.

    Paper: [TH23] sec. 8.
    """
    # D20: 1 / alpha(s) is printed as a part of theta(s), so theta would differ between states, against Assumption 1.
    n_successors = 2**at_start * 3**between
    n_agents = at_start + between + at_goal
    return Fraction(n_successors, n_agents) * (Fraction(at_start, 2) + at_goal + Fraction(between, 3))
