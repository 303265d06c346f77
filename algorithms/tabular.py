"""What the tabular algorithms share: the layout of their counts, and how a trajectory becomes a contribution."""

from dprl.algorithms.base import Float64Array, Int64Array
from dprl.envs import FiniteMDP
from dprl.privacy import CountFamilies, CountFamily, kernel

TRANSITIONS, VISITS, REWARDS = range(3)
N_FAMILIES = 3


def count_families(mdp: FiniteMDP) -> CountFamilies:
    """Return N(h,s,a,s'), N(h,s,a) and R(h,s,a), in the order in which planning reads them.

    Within a step, transitions come first, as [S', S, A]: planning then runs along (s, a) without gaps. R is the sum of
    rewards where the paper has costs C; R = N - C, so sensitivity and noise are the same.

    Paper: [CZ22] sec. 3.
    """
    pairs = mdp.n_states * mdp.n_actions
    return CountFamilies(
        n_steps=mdp.horizon,
        families=(
            CountFamily("transitions", pairs * mdp.n_states, public_start_change=2),
            CountFamily("visits", pairs, public_start_change=0),
            CountFamily("rewards", pairs, public_start_change=1),
        ),
    )


@kernel
def write_contribution(
    states: Int64Array, actions: Int64Array, rewards: Float64Array, index: Int64Array, value: Float64Array
) -> None:
    """User side: turn a trajectory into one cell per step and family.

    states int64[H+1], actions int64[H], rewards float64[H, S, A] (the user observes its own entries); fills
    index int64[H, 3] and value float64[H, 3].
    """
    n_states, n_actions = rewards.shape[1], rewards.shape[2]
    for h in range(actions.shape[0]):
        pair = states[h] * n_actions + actions[h]
        index[h, TRANSITIONS] = states[h + 1] * (n_states * n_actions) + pair
        index[h, VISITS] = pair
        index[h, REWARDS] = pair
        value[h, TRANSITIONS] = 1.0
        value[h, VISITS] = 1.0
        value[h, REWARDS] = rewards[h, states[h], actions[h]]
