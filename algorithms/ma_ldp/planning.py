"""Backward induction of MA-LDP without the feature tensor: optimistic values, then each agent's maxmin action.

An agent's part of phi_V(s, a) is (c[s, i] a_i, k[s, i]), linear in its action. So <theta, phi_V> is a sum with one term
per agent, and phi_V^T Sigma^-1 phi_V one with a term per agent and per pair of agents: tables over the actions of one
or two agents (`forms`), times factors of the state. Loops run over states, padded to whole vectors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dprl.algorithms.base import Float64Array
from dprl.algorithms.ma_ldp.joint_actions import (
    Bounds,
    Features,
    QuadraticForms,
    Rows,
    Worst,
    empty_forms,
    fill_forms,
    fill_worst,
    fill_worst_of_two,
    higher,
    padded,
    workspace,
)
from dprl.compiled import no_alloc_kernel, shows_numbers
from dprl.envs import LinearMixtureMDP
from dprl.envs.network_mdp.base import action_vectors
from dprl.envs.network_mdp.dynamics import SuccessorLists


@shows_numbers
class Rules(NamedTuple):
    """Public constants of a run.

    lists: the successors of each state. actions float64[A, d-1]: the vectors of one agent's actions; n_agents: n.
    floor: the least optimistic value, 0, or -inf as in the paper.
    """

    lists: SuccessorLists
    actions: Float64Array
    n_agents: int
    floor: float


@shows_numbers
class Plan(NamedTuple):
    """Result of one plan; M is 1 if all agents share one value function, else n; W is S, padded.

    values float64[M, H+1, W]: V_{k,h}. slopes, levels float64[M, H, n, W]: c and k of phi_V. chances float64[H, S, n,
    A]: probability of each agent's action; ties are broken at random.
    """

    values: Float64Array
    slopes: Float64Array
    levels: Float64Array
    chances: Float64Array


@shows_numbers
class Planning(NamedTuple):
    """Rules of planning, the deployed plan, and scratch."""

    rules: Rules
    plan: Plan
    forms: QuadraticForms
    rows: Rows
    worst: Worst


def planning(mdp: LinearMixtureMDP, floor: float, joint: bool, n_messages: int) -> Planning:
    """Return the rules for `mdp`, and the first plan: uniform actions.

    floor: see Rules. joint: whether V is the best joint action's Q instead of the maxmin of line 16. n_messages: M.
    """
    n, horizon, n_states, n_actions = mdp.n_agents, mdp.horizon, mdp.n_states, mdp.n_actions
    width = padded(n_states)
    plan = Plan(
        values=np.zeros((n_messages, horizon + 1, width)),
        slopes=np.zeros((n_messages, horizon, n, width)),
        levels=np.zeros((n_messages, horizon, n, width)),
        chances=np.full((horizon, n_states, n, n_actions), 1.0 / n_actions),
    )
    rules = Rules(mdp.lists, action_vectors(mdp.dimension), n, floor)
    return Planning(rules, plan, empty_forms(n, n_actions, mdp.dimension - 1), *workspace(n, n_actions, width, joint))


@no_alloc_kernel
def make_plan(
    planning: Planning, estimates: Float64Array, inverses: Float64Array, rewards: Float64Array, betas: Float64Array
) -> tuple[bool, int]:
    """Plan from estimates float64[M, H, D] and inverses of Sigma float64[M, H, D, D]; fill planning.plan.

    rewards float64[M, H, W]: the estimated mean reward. betas float64[H]: beta_{k,h}. Returns whether chances have
    changed, and the number of entries of Q with a bonus that are cut at H + 1 - h.

    Paper: [TH23] Algorithm 1, lines 8 to 17.
    """
    rules, plan, forms, rows, worst = planning
    n_messages, horizon = estimates.shape[0], estimates.shape[1]
    changed, cut = False, 0
    for m in range(n_messages):
        # An agent's own estimate decides its actions, a shared one those of all agents.
        agents = (0, rules.n_agents) if n_messages == 1 else (m, m + 1)
        _fill_last_stage(rewards[m, horizon - 1], rules.floor, plan.values[m, horizon - 1])
        for h in range(horizon - 2, -1, -1):
            features = Features(plan.slopes[m, h], plan.levels[m, h], rewards[m, h])
            bounds = Bounds(betas[h], float(horizon - h), rules.floor)
            _weigh(rules.lists, plan.values[m, h + 1], features.slopes, features.levels)
            fill_forms(rules.actions, estimates[m, h], inverses[m, h], forms)
            if rules.n_agents == 2:
                cut += fill_worst_of_two(forms, features, bounds, rows, worst, agents)
            else:
                cut += fill_worst(forms, features, bounds, rows, worst, agents)
            for i in range(agents[0], agents[1]):
                changed |= _decide(worst.least[i], i, plan.chances[h])
            _fill_values(worst, agents[0], plan.values[m, h])
    return changed, cut


@no_alloc_kernel
def _fill_last_stage(rewards: Float64Array, floor: float, values: Float64Array) -> None:
    """Fill V_H, which no action changes, because no value follows and rewards depend on the state only."""
    for s in range(values.shape[0]):
        values[s] = max(min(rewards[s], 1.0), floor)


@no_alloc_kernel
def _weigh(lists: SuccessorLists, after: Float64Array, slopes: Float64Array, levels: Float64Array) -> None:
    """Fill slopes and levels float64[n, W] with c and k of the values `after` float64[W], as `value_features` does."""
    n = slopes.shape[0]
    for s in range(lists.first.shape[0] - 1):
        # Two agents at a time, so that four independent sums can run in parallel.
        for i in range(0, n, 2):
            j = min(i + 1, n - 1)
            slope, level, other_slope, other_level = 0.0, 0.0, 0.0, 0.0
            for entry in range(lists.first[s], lists.first[s + 1]):
                value = after[lists.state[entry]]
                slope += lists.sign[entry, i] * value
                level += lists.constant[entry, i] * value
                other_slope += lists.sign[entry, j] * value
                other_level += lists.constant[entry, j] * value
            slopes[i, s], slopes[j, s] = slope, other_slope
            levels[i, s], levels[j, s] = level, other_level


@no_alloc_kernel
def _decide(least: Float64Array, agent: int, chances: Float64Array) -> bool:
    """Fill an agent's chances [S, n, A] from least float64[A, W]: uniform over maxmin actions; return whether they
    changed.

    Paper: [TH23] Algorithm 1, line 16.
    """
    n_actions = least.shape[0]
    changed = False
    for s in range(chances.shape[0]):
        best, ties = least[0, s], 1
        for a in range(1, n_actions):
            if least[a, s] > best:
                best, ties = least[a, s], 1
            elif least[a, s] == best:
                ties += 1
        share, own = 1.0 / ties, chances[s, agent]
        for a in range(n_actions):
            chance = share if least[a, s] == best else 0.0
            changed |= chance != own[a]
            own[a] = chance
    return changed


@no_alloc_kernel
def _fill_values(worst: Worst, agent: int, values: Float64Array) -> None:
    """Fill V float64[W]: Q of the best joint action, or the agent's maxmin value.

    Paper: [TH23] Algorithm 1, line 11.
    """
    if worst.joint == 1:
        for s in range(values.shape[0]):
            values[s] = worst.most[s]
        return
    values[:] = -np.inf
    for a in range(worst.least.shape[1]):
        higher(values, worst.least[agent, a])
