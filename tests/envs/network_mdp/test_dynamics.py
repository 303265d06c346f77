"""Next states and roll-outs are those of the dense MDP, compiled or not."""

from __future__ import annotations

import numpy as np
import pytest

from dprl.envs.dynamics import roll_out as roll_out_dense
from dprl.envs.network_mdp import LinearMixtureMDP, NetworkMDP
from dprl.envs.network_mdp.dynamics import SuccessorLists, next_state
from tests.envs.network_mdp.cases import SPECS, random_mixture

MDPS: dict[str, LinearMixtureMDP] = {
    **{name: NetworkMDP(**fields).build() for name, fields in SPECS.items()},
    "random": random_mixture(1, 2, 3, 4, 3),
}
every_mdp = pytest.mark.parametrize("mdp", MDPS.values(), ids=MDPS)


def roll_out(
    lists: SuccessorLists,
    drifts: np.ndarray,
    policy: np.ndarray,
    uniforms: np.ndarray,
    states: np.ndarray,
    actions: np.ndarray,
) -> None:
    """Run one episode of a deterministic policy [H, S, n] from states[0]; entry h of uniforms picks the next state."""
    actions[:] = 0
    for h in range(policy.shape[0]):
        actions[h] = policy[h, states[h]]
        states[h + 1] = next_state(lists, drifts, states[h], actions[h], uniforms[h])


@every_mdp
def test_a_draw_picks_the_state_where_the_sum_of_probabilities_passes_it(mdp: LinearMixtureMDP) -> None:
    rng, transitions, joint = np.random.default_rng(0), mdp.transitions(), mdp.joint_actions()
    for _ in range(2_000):
        state, action = int(rng.integers(mdp.n_states)), int(rng.integers(mdp.n_joint_actions))
        cdf = np.cumsum(transitions[state, action])
        possible = np.flatnonzero(transitions[state, action])
        # Draws just beside the steps of the distribution function, and between them.
        near = np.concatenate([cdf[possible] - 1e-9, cdf[possible[:-1]] + 1e-9, rng.random(1), [0.0]])
        uniform = float(rng.choice(near[near < 1.0]))
        found = next_state(mdp.lists, mdp.drifts, state, joint[action], uniform)
        assert found == int(np.searchsorted(cdf, uniform, side="right"))


@every_mdp
def test_episodes_are_those_of_the_dense_mdp(mdp: LinearMixtureMDP) -> None:
    rng, joint, actions = np.random.default_rng(1), mdp.joint(), mdp.joint_actions()
    states, taken = np.full(mdp.horizon + 1, mdp.start), np.empty((mdp.horizon, mdp.n_agents), np.int64)
    dense_states, dense_taken = np.empty_like(states), np.empty(mdp.horizon, np.int64)
    seen = set()
    for _ in range(300):
        policy = rng.integers(mdp.n_joint_actions, size=(mdp.horizon, mdp.n_states))
        uniforms = rng.random(mdp.horizon + 1)
        roll_out(mdp.lists, mdp.drifts, actions[policy], uniforms[1:], states, taken)
        roll_out_dense(joint.cdf, joint.start_cdf, policy, uniforms, dense_states, dense_taken)
        assert states.tolist() == dense_states.tolist()
        assert taken.tolist() == actions[dense_taken].tolist()
        seen |= set(states.tolist())
    assert len(seen) > 2


@pytest.mark.parametrize("uniform", [0.0, 0.5, np.nextafter(1.0, 0.0)])
def test_impossible_states_are_never_picked(uniform: float) -> None:
    """At the largest gap some probabilities are 0, but for rounding; going back is impossible with equal weights."""
    mdp = NetworkMDP().build()
    transitions, joint = mdp.transitions(), mdp.joint_actions()
    listed = np.zeros((9, 9), bool)
    listed[np.repeat(np.arange(9), np.diff(mdp.lists.first)), mdp.lists.state] = True
    assert ((transitions == 0.0) & listed[:, None]).sum() > 4
    for state in range(9):
        for action in range(4):
            assert transitions[state, action, next_state(mdp.lists, mdp.drifts, state, joint[action], uniform)] > 0.0


def test_a_gap_that_rounding_leaves_belongs_to_the_last_possible_state() -> None:
    """Ten times 0.1 sums to less than 1; the last two states have probability 0."""
    lists = SuccessorLists(
        np.array([0, 12]), np.arange(12), np.zeros((12, 1)), np.array([[0.1]] * 10 + [[0.0]] * 2, dtype=np.float64)
    )
    assert np.cumsum(lists.constant)[-1] < 1.0
    assert next_state(lists, np.zeros((1, 2)), 0, np.zeros(1, np.int64), np.nextafter(1.0, 0.0)) == 9
