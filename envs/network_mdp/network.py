"""Agents who travel along a row of nodes, from the first one to the goal: the environment of [TH23]."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product
from math import floor, gcd
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprl.envs.base import Env
from dprl.envs.checks import require_choice, require_integers, require_number, require_size
from dprl.envs.network_mdp.base import LinearMixtureMDP
from dprl.envs.network_mdp.dynamics import NOTHING, SuccessorLists

__all__ = ["NetworkMDP", "gap_conditions"]

# D22: printed is 1000 at the goal; a thousandth of it, so that rewards are at most 1.
_START_REWARD, _GOAL_REWARD = 5 / 1000, 1000 / 1000
_SIGNS = ("positive", "random")
# More do not fit in memory; powers that take minutes to write out are not to be tried.
_MOST_AGENTS, _MOST_DIMENSIONS = 8, 8


class _GapCondition(NamedTuple):
    """One transition's probability is at least 0 if the gap is at most a weighted sum of the other settings.

    The sum is (constant + start_forward * `start_forward` + ...) / divisor, with these numbers as weights.
    before, after: the nodes of all agents: 's' the first one, 'j' any in between, 'g' the goal. The same holds with the
    agents in any other order.
    """

    constant: int
    start_forward: int
    node_leave: int
    node_forward: int
    divisor: Fraction
    before: tuple[str, ...]
    after: tuple[str, ...]

    def limit(self, start_forward: float, node_leave: float, node_forward: float) -> Fraction:
        """Return the largest gap that this condition allows, exactly."""
        total = self.constant + self.start_forward * Fraction(start_forward)
        total += self.node_leave * Fraction(node_leave) + self.node_forward * Fraction(node_forward)
        return total / self.divisor

    def __str__(self) -> str:
        names, factor = ("", *self._fields[1:4]), self.divisor.denominator
        kept = [(weight, name) for weight, name in zip(self[:4], names, strict=True) if weight]
        times = factor if len(kept) == 1 else 1
        total = " ".join(_term(times * weight, name) for weight, name in kept).removeprefix("+ ")
        if len(kept) > 1:
            total = f"{factor} ({total})" if factor > 1 else f"({total})"
        return total if self.divisor.numerator == 1 else f"{total} / {self.divisor.numerator}"


def _term(weight: int, name: str) -> str:
    size = str(abs(weight)) if abs(weight) > 1 or not name else ""
    return " ".join(part for part in ("-" if weight < 0 else "+", size, name) if part)


@cache
def gap_conditions(n_agents: int) -> tuple[_GapCondition, ...]:
    """Return all conditions on the gap for n agents on any number of nodes and in any dimension, each once.

    The least probability of a step over all actions is w / (n alpha(s)) - gap m / n, with w the sum of the agents' base
    weights and m the number of those short of the goal who stay or go forward. So it depends only on the numbers of
    agents at each node and of their moves.
    Paper: [TH23] Lemma 4.
    """
    # D21: the paper asks for gap < delta only, and its Lemma 4 proves sums, no signs.
    found: dict[tuple[object, ...], _GapCondition] = {}
    for condition in _steps(n_agents):
        found.setdefault(condition[:5], condition)
    return tuple(found.values())


def _steps(n_agents: int) -> Iterator[_GapCondition]:
    """Yield the condition of every step, agents of one node taken together."""
    for at_start in range(n_agents + 1):
        for between in range(n_agents + 1 - at_start):
            at_goal = n_agents - at_start - between
            before = ("s",) * at_start + ("j",) * between + ("g",) * at_goal
            alpha = _alpha(at_start, between, at_goal)
            for waits, stays in product(range(at_start + 1), range(between + 1)):
                for moves in range(between + 1 - stays):
                    backs = between - stays - moves
                    signed = at_start + stays + moves
                    after = ("s",) * waits + ("1",) * (at_start - waits)
                    after += ("j",) * stays + ("j+1",) * moves + ("j-1",) * backs + ("g",) * at_goal
                    weights = (waits + stays + at_goal, at_start - 2 * waits, backs - stays, moves - backs)
                    if signed:
                        common = gcd(*weights)
                        constant, forward, leave, move = (weight // common for weight in weights)
                        yield _GapCondition(constant, forward, leave, move, alpha * signed / common, before, after)


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
    `largest_gap()`, the least of the limits of `gap_conditions`; printed is gap < delta only.

    >>> network = NetworkMDP(n_agents=2).build()
    >>> network.n_states, network.n_actions
    (9, 2)
    >>> round(network.optimal_start_value(), 3), float(network.uniform_value()[0, network.start].round(3))
    (1.792, 1.13)

    Paper: [TH23] sec. 8, eq. (62), Lemma 4.
    """

    name: ClassVar[str] = "network_mdp"
    builds: ClassVar[type[Env]] = LinearMixtureMDP

    n_agents: int = 2
    n_intermediate: int = 1
    dimension: int = 2
    horizon: int = 5
    gap: float = 1 / 6
    start_forward: float = 0.5
    node_leave: float = 0.5
    node_forward: float = 0.5
    signs: str = "positive"
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
            raise ValueError(
                f"node_forward must be at most node_leave = {self.node_leave:g}, got {self.node_forward:g}; lower it"
            )
        tightest = self._tightest()
        limit = tightest.limit(self.start_forward, self.node_leave, self.node_forward)
        if Fraction(self.gap) > limit + Fraction(NOTHING):
            fitting = floor(limit * 10**6) / 10**6
            raise ValueError(
                f"gap must be at most {tightest} = {fitting:.6g}, got {self.gap:.9g}: the step from "
                f"({', '.join(tightest.before)}) to ({', '.join(tightest.after)}) would have the probability "
                f"{self._least_probability(tightest):.6g}; lower gap, or change start_forward, node_leave, node_forward"
            )

    def largest_gap(self) -> float:
        """Return the largest gap without a negative probability; it does not depend on q, d and signs."""
        return float(self._tightest().limit(self.start_forward, self.node_leave, self.node_forward))

    def nodes(self) -> NDArray[np.int64]:
        """Return the node [S, n] of each agent in each state, 0 the first one and q + 1 the goal."""
        return np.array(list(product(range(self.n_intermediate + 2), repeat=self.n_agents)), dtype=np.int64)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """H, S, and the number of actions of all agents together: known before anything is built."""
        n_actions = 2 ** (int(self.n_agents) * (int(self.dimension) - 1))
        return int(self.horizon), (int(self.n_intermediate) + 2) ** int(self.n_agents), n_actions

    def build(self) -> LinearMixtureMDP:
        """Build the MDP: S = (q+2)^n states in the order of `nodes`; episodes start with all at the first node."""
        nodes = self.nodes()
        goal = self.n_intermediate + 1
        rewards = np.where(nodes == 0, _START_REWARD, np.where(nodes == goal, _GOAL_REWARD, 0.0)).T
        shares = (nodes[:, :, None] == np.arange(goal + 1)).mean(axis=1)
        signs = np.ones((self.n_agents, self.dimension - 1))
        if self.signs == "random":
            signs = np.random.default_rng(self.sign_seed).choice([-1.0, 1.0], size=signs.shape)
        theta = self.gap / (self.n_agents * (self.dimension - 1)) * signs
        return LinearMixtureMDP(self.name, int(self.horizon), self._lists(nodes), theta, rewards, 0, shares)

    def _lists(self, nodes: NDArray[np.int64]) -> SuccessorLists:
        goal, n_agents = self.n_intermediate + 1, int(self.n_agents)
        places = (goal + 1) ** np.arange(n_agents)[::-1]
        local = [self._moves(node) for node in range(goal + 1)]
        first, states, signs, constants = [0], [], [], []
        for here in nodes:
            moves = np.array(list(product(*(local[node] for node in here))))
            at_start, at_goal = int((here == 0).sum()), int((here == goal).sum())
            share = moves[:, :, 2] / float(n_agents * _alpha(at_start, n_agents - at_start - at_goal, at_goal))
            if at_goal == n_agents:
                share = np.eye(n_agents)[-1:]
            # The moves of `local` are sorted by their ends, so that products are sorted by states.
            states.append(moves[:, :, 0].astype(np.int64) @ places)
            signs.append(moves[:, :, 1])
            constants.append(share)
            first.append(first[-1] + len(moves))
        rows = np.concatenate(states), np.concatenate(signs), np.concatenate(constants)
        return SuccessorLists(np.array(first, dtype=np.int64), *rows)

    def _moves(self, node: int) -> list[tuple[int, int, float]]:
        """Return (next node, sign, base weight) of an agent's moves from a node, by next node."""
        if node == 0:
            # D19: the second row of the local features has g for node 1.
            return [(0, -1, 1.0 - self.start_forward), (1, 1, self.start_forward)]
        if node == self.n_intermediate + 1:
            return [(node, 0, 1.0)]
        return [
            (node - 1, 0, self.node_leave - self.node_forward),
            (node, -1, 1.0 - self.node_leave),
            (node + 1, 1, self.node_forward),
        ]

    def _tightest(self) -> _GapCondition:
        fields = (self.start_forward, self.node_leave, self.node_forward)
        return min(gap_conditions(int(self.n_agents)), key=lambda condition: condition.limit(*fields))

    def _least_probability(self, condition: _GapCondition) -> float:
        """Return the probability that a transition has at this gap under the actions that are worst for it."""
        n_signed = sum(old == "s" or (old == "j" and new != "j-1") for old, new in zip(*condition[-2:], strict=True))
        limit = condition.limit(self.start_forward, self.node_leave, self.node_forward)
        return float((limit - Fraction(self.gap)) * n_signed / int(self.n_agents))


def _alpha(at_start: int, between: int, at_goal: int) -> Fraction:
    """Return alpha(s): constants are divided by it so that a list sums to 1. Arguments: numbers of agents by place.

    Paper: [TH23] sec. 8.
    """
    # D20: 1 / alpha(s) is printed as a part of theta(s), so theta would differ between states, against Assumption 1.
    n_successors = 2**at_start * 3**between
    n_agents = at_start + between + at_goal
    return Fraction(n_successors, n_agents) * (Fraction(at_start, 2) + at_goal + Fraction(between, 3))
