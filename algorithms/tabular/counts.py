"""Counts of the tabular algorithms, and the contribution of an episode to them."""

from __future__ import annotations

from dprl.algorithms.base import Float64Array, Int64Array
from dprl.compiled import inlined
from dprl.envs import FiniteMDP
from dprl.privacy import CountFamilies, CountFamily

TRANSITIONS, VISITS, REWARDS = range(3)
N_FAMILIES = 3


def visit_families(n_states: int, n_actions: int) -> tuple[CountFamily, CountFamily]:
    """Return N(h,s,a,s') and N(h,s,a), in the order in which planning reads them; a may be a pair of actions.

    Within a step, transitions come first, as [S', S, A]: planning then runs along (s, a) without gaps.
    """
    pairs = n_states * n_actions
    return (
        CountFamily("transitions", pairs * n_states, public_start_change=2),
        CountFamily("visits", pairs, public_start_change=0, marginal_of="transitions"),
    )


def count_families(mdp: FiniteMDP, losses: bool = False) -> CountFamilies:
    """Return N(h,s,a,s'), N(h,s,a) and R(h,s,a), in the order in which planning reads them; or losses in place of R.

    R is the sum of rewards where the paper has costs C; R = N - C, so sensitivity and noise are the same.

    Paper: [CZ22] sec. 3.
    """
    third = CountFamily(
        "losses" if losses else "rewards",
        mdp.n_states * mdp.n_actions,
        public_start_change=1,
        marginal_of="transitions",
        indicator=False,
    )
    return CountFamilies(mdp.horizon, (*visit_families(mdp.n_states, mdp.n_actions), third), paper="[CZ22]")


@inlined
def write_visits(
    states: Int64Array, actions: Int64Array, shape: tuple[int, int], cells: Int64Array, amounts: Float64Array
) -> None:
    """User side: turn a trajectory into one cell per step of `visit_families`, with an amount of 1 each.

    states int64[H+1], actions int64[H], shape: S, A; fills the first two columns of cells int64[H, F] and amounts
    float64[H, F].
    """
    n_states, n_actions = shape
    for h in range(actions.shape[0]):
        pair = states[h] * n_actions + actions[h]
        cells[h, TRANSITIONS] = states[h + 1] * (n_states * n_actions) + pair
        cells[h, VISITS] = pair
        amounts[h, TRANSITIONS] = 1.0
        amounts[h, VISITS] = 1.0


@inlined
def write_contribution(
    states: Int64Array, actions: Int64Array, rewards: Float64Array, cells: Int64Array, amounts: Float64Array
) -> None:
    """User side: turn a trajectory into one cell per step and family.

    states int64[H+1], actions int64[H], rewards (or losses) float64[H, S, A]; the user observes its own; fills
    cells int64[H, 3] and amounts float64[H, 3].
    """
    write_visits(states, actions, (rewards.shape[1], rewards.shape[2]), cells, amounts)
    for h in range(actions.shape[0]):
        cells[h, REWARDS] = cells[h, VISITS]
        amounts[h, REWARDS] = rewards[h, states[h], actions[h]]
