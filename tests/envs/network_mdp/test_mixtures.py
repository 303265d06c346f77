"""Linear mixture MDPs: valid arrays, exact values and roll-outs."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dprl.envs import NetworkMDP
from dprl.envs.network_mdp import SignMixture
from dprl.envs.network_mdp.dynamics import SuccessorLists, next_state, weigh
from dprl.envs.network_mdp.sparse import action_vectors
from tests.envs.network_mdp.cases import SPECS, printed, random_mixture, theta_star

# A linear mixture MDP is valid and immutable, and its exact values are those of enumeration and of dense arrays.

Floats = NDArray[np.float64]

# Agents, dimension, states, steps.
SIZES = [(1, 2, 2, 3), (2, 2, 2, 2), (2, 3, 4, 3), (3, 2, 5, 4), (3, 3, 3, 2), (1, 4, 6, 5)]
MDPS: dict[str, SignMixture] = {
    **{name: NetworkMDP(**fields).build() for name, fields in SPECS.items()},
    **{f"random_{'_'.join(map(str, size))}": random_mixture(7, *size) for size in SIZES},
}
every_mdp = pytest.mark.parametrize("mdp", MDPS.values(), ids=MDPS)


@every_mdp
def test_transitions_are_the_inner_product_of_features_and_theta(mdp: SignMixture) -> None:
    vectors, joint, dense = action_vectors(mdp.length + 1), mdp.joint_actions(), mdp.transitions()[0]
    total = np.zeros_like(dense)
    for state in range(mdp.n_states):
        for entry in range(*mdp.lists.first[state : state + 2]):
            local = [
                np.append(
                    mdp.lists.sign[entry, i] * vectors[joint[:, i]].T,
                    np.full((1, len(joint)), mdp.lists.constant[entry, i]),
                    axis=0,
                )
                for i in range(mdp.n_agents)
            ]
            total[state, :, mdp.lists.state[entry]] = theta_star(mdp) @ np.concatenate(local)
    np.testing.assert_allclose(dense, total, atol=1e-12)
    np.testing.assert_allclose(dense.sum(axis=-1), 1.0, rtol=1e-11)
    assert dense.min() >= 0.0


def test_actions_are_vectors_of_signs_in_order() -> None:
    assert action_vectors(2).tolist() == [[-1.0], [1.0]]
    assert action_vectors(3).tolist() == [[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]]
    mdp = NetworkMDP(dimension=3).build()
    assert mdp.joint_actions().tolist() == [list(pair) for pair in itertools.product(range(4), repeat=2)]
    np.testing.assert_allclose(mdp.drifts[0], np.array([-1, 0, 0, 1]) / 12)


@every_mdp
def test_exact_values_are_those_of_the_dense_mdp(mdp: SignMixture) -> None:
    """All four forms of a policy, the optimum and the least value."""
    rng, joint, actions = np.random.default_rng(1), mdp.joint(), mdp.joint_actions()
    places = (mdp.horizon, mdp.n_states)
    pure = rng.integers(mdp.n_joint_actions, size=places)
    mixed = rng.dirichlet(np.ones(mdp.n_joint_actions), size=places)
    alone = rng.dirichlet(np.ones(mdp.n_actions), size=(*places, mdp.n_agents))
    product = np.ones((*places, mdp.n_joint_actions))
    for i in range(mdp.n_agents):
        product *= alone[:, :, i, actions[:, i]]
    for given, dense in ((pure, pure), (actions[pure], pure), (mixed, mixed), (alone, product)):
        np.testing.assert_allclose(mdp.value(given), joint.value(dense), atol=1e-10)
    np.testing.assert_allclose(mdp.uniform_value(), joint.value(np.full_like(mixed, 1 / mdp.n_joint_actions)), 0, 1e-10)
    np.testing.assert_allclose(mdp.optimum()[0], joint.optimum()[0], atol=1e-10)
    assert mdp.optimal_start_value() == pytest.approx(joint.optimal_start_value(), abs=1e-10)
    assert mdp.start_value(pure) == pytest.approx(joint.start_value(pure), abs=1e-10)
    assert (mdp.worst()[0] <= mdp.value(pure) + 1e-12).all()
    assert (mdp.optimum()[0] >= mdp.value(mixed) - 1e-12).all()


@pytest.mark.parametrize("seed", range(4))
def test_no_policy_is_better_or_worse_than_the_extremes(seed: int) -> None:
    """All 256 deterministic policies of two agents, two states and two steps."""
    mdp = random_mixture(seed, 2, 2, 2, 2)
    policies = itertools.product(range(4), repeat=4)
    values = np.array([mdp.joint().value(np.reshape(policy, (2, 2))) for policy in policies])
    np.testing.assert_allclose(mdp.optimum()[0], values.max(axis=0), atol=1e-12)
    np.testing.assert_allclose(mdp.worst()[0], values.min(axis=0), atol=1e-12)
    assert np.ptp(values[:, 0]) > 0.0


@every_mdp
def test_extreme_policies_have_their_values_bit_for_bit(mdp: SignMixture) -> None:
    for values, policy in (mdp.optimum(), mdp.worst()):
        assert policy.shape == (mdp.horizon, mdp.n_states, mdp.n_agents)
        assert mdp.value(policy).tobytes() == values.tobytes()


@every_mdp
def test_agents_have_values_of_their_own_whose_mean_is_the_common_one(mdp: SignMixture) -> None:
    rng = np.random.default_rng(2)
    policy = rng.dirichlet(np.ones(mdp.n_actions), size=(mdp.horizon, mdp.n_states, mdp.n_agents))
    values = mdp.agent_values(policy)
    np.testing.assert_allclose(values.mean(axis=0), mdp.value(policy), rtol=1e-12)
    for own, rewards in zip(values, mdp.rewards, strict=True):
        alone = SignMixture("own", mdp.horizon, mdp.lists, mdp.theta, np.tile(rewards, (mdp.n_agents, 1)), 0)
        np.testing.assert_allclose(own, alone.value(policy), rtol=1e-12)


def test_ties_go_to_the_lowest_action() -> None:
    """Actions at the last step of the network change nothing."""
    optimal = NetworkMDP(gap=0.1).build().optimum()[1]
    assert (optimal[-1] == 0).all()
    assert (optimal[0, 0] == 1).all()


def value_features(mdp: SignMixture, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return c and k [S, n] of values V [S]: agent i's part of phi_V(s, a) is (c[s, i] a_i, k[s, i])."""
    slopes, levels = np.empty((2, mdp.n_states, mdp.n_agents))
    for state in range(mdp.n_states):
        weigh(mdp.lists, values, state, slopes[state], levels[state])
    return slopes, levels


@every_mdp
def test_features_of_values_are_sums_over_next_states(mdp: SignMixture) -> None:
    """For all actions, their inner product with theta* is the mean of V at the next state."""
    values = np.random.default_rng(3).random(mdp.n_states)
    slopes, levels = value_features(mdp, values)
    joint = mdp.joint_actions()
    found = levels.sum(axis=1)[:, None] + (slopes[:, None] * mdp.drifts[np.arange(mdp.n_agents), joint]).sum(axis=-1)
    np.testing.assert_allclose(found, mdp.transitions()[0] @ values, atol=1e-11)


def test_features_of_values_are_the_papers() -> None:
    spec = NetworkMDP(dimension=3, gap=0.1)
    mdp = spec.build()
    values = np.random.default_rng(4).random(9)
    expected = np.einsum("satf,t->saf", printed(spec, mdp.theta).features, values).reshape(9, 16, 2, 3)
    slopes, levels = value_features(mdp, values)
    vectors = action_vectors(3)[mdp.joint_actions()]
    np.testing.assert_allclose(expected[..., :2], slopes[:, None, :, None] * vectors, atol=1e-12)
    np.testing.assert_allclose(expected[..., 2], np.broadcast_to(levels[:, None], (9, 16, 2)), atol=1e-12)


def test_features_are_larger_than_the_paper_takes_for_granted() -> None:
    """15.9 at some corner, where the paper takes at most H = 5 for granted (D7)."""
    spec = NetworkMDP(gap=0.0)
    features = printed(spec, spec.build().theta).features[:, 0]
    corners = np.array(list(itertools.product([0.0, 5.0], repeat=9)))
    assert np.linalg.norm(np.einsum("stf,ct->scf", features, corners), axis=-1).max() == pytest.approx(15.9, abs=0.05)


def test_a_mixture_comes_back_from_a_pickle_and_cannot_be_changed() -> None:
    mdp = NetworkMDP().build()
    again = pickle.loads(pickle.dumps(mdp))
    for one, two in zip((*mdp.lists, *arrays(mdp)), (*again.lists, *arrays(again)), strict=True):
        assert one.tobytes() == two.tobytes()
        assert (one.dtype, one.shape) == (two.dtype, two.shape)
        assert two.flags.c_contiguous
        assert not two.flags.writeable
    assert (again.name, again.horizon, again.start) == ("network_mdp", 5, 0)
    with pytest.raises(ValueError, match="read-only"):
        mdp.rewards[0, 0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        mdp.lists.constant[0, 0] = 1.0


def arrays(mdp: SignMixture) -> list[Floats]:
    return [value for value in vars(mdp).values() if isinstance(value, np.ndarray)]


def parts(**changes: Any) -> dict[str, Any]:
    """Arguments of a valid mixture of one agent and two states, some of them changed; lists by their fields."""
    lists = {
        "first": np.array([0, 2, 3]),
        "state": np.array([0, 1, 1]),
        "sign": np.array([[-1.0], [1.0], [0.0]]),
        "constant": np.array([[0.5], [0.5], [1.0]]),
    }
    arguments: dict[str, Any] = {"horizon": 2, "theta": [[0.3]], "rewards": [[0.0, 1.0]], "start": 0}
    for key, value in changes.items():
        (lists if key in lists else arguments)[key] = value
    return {"name": "tiny", "lists": SuccessorLists(**lists), **arguments}


@every_mdp
def test_reward_features_are_small_and_independent(mdp: SignMixture) -> None:
    features = mdp.reward_features
    assert features.shape[0] == mdp.n_states
    assert features.min() >= 0.0
    assert features.sum(axis=1).max() <= 1.0 + 1e-12
    assert np.linalg.eigvalsh(features.T @ features)[0] > 1e-3
    assert (features.dtype.name, features.flags.c_contiguous, features.flags.writeable) == ("float64", True, False)


def test_reward_features_are_one_hot_unless_they_are_given() -> None:
    assert SignMixture(**parts()).reward_features.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    mdp = SignMixture(**parts(reward_features=[[0.25], [0.75]]))
    again = pickle.loads(pickle.dumps(mdp))
    assert again.reward_features.tolist() == mdp.reward_features.tolist() == [[0.25], [0.75]]
    assert not again.reward_features.flags.writeable


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reward_features": [0.5, 0.5]}, r"^reward_features must be a non-empty array of 2 dimensions"),
        ({"reward_features": [[1.0]]}, r"^reward_features must have one row for each of 2 rewards, got 1; "),
        ({"reward_features": [[-0.5], [1.0]]}, r"^reward_features must be at least 0, got -0\.5; "),
        ({"reward_features": [[0.6, 0.6], [0.0, 1.0]]}, r"^reward_features must sum to at most 1 .*, got 1\.2; "),
        (
            {"reward_features": [[0.2, 0.4], [0.3, 0.6]]},
            r"^reward_features must have full column rank 2, got rank 1; drop the columns",
        ),
        ({"reward_features": [[0.2, 0.3, 0.1], [0.5, 0.1, 0.1]]}, r"^reward_features must .* rank 3, got rank 2; "),
        ({"reward_features": [[0.0], [0.0]]}, r"^reward_features must have full column rank 1, got rank 0; "),
        ({"horizon": 0}, r"^horizon must be an integer of at least 1"),
        ({"start": -1}, r"^start must be an integer of at least 0"),
        ({"start": 2}, r"^start must be in 0\.\.1, got 2; "),
        ({"rewards": [[0.0, 1.5]]}, r"^rewards must lie in \[0, 1\], got 1\.5; "),
        ({"rewards": [[-0.5, 1.0]]}, r"^rewards must lie in \[0, 1\], got -0\.5; "),
        ({"rewards": [[0.0, np.nan]]}, r"^rewards must be finite"),
        ({"theta": [[0.1], [0.1]]}, r"^theta must have one row for each of 1 agents, got 2; "),
        ({"theta": [[0.6]]}, r"^theta must leave every probability at least 0, got -0\.1 for state 0 after 0; "),
        ({"theta": [[0.3, -0.3]]}, r"^theta must leave every probability at least 0, got -0\.1 for state 0 after 0; "),
        ({"first": np.array([0, 3])}, r"^lists\.first must have shape \(3,\), got \(2,\); "),
        ({"first": np.array([0, 0, 3])}, r"^lists\.first must rise from 0 to 3, got 0 to 3 with a least step of 0; "),
        ({"first": np.array([1, 2, 3])}, r"^lists\.first must rise from 0 to 3, got 1 to 3 "),
        ({"first": np.array([0.0, 2.0, 3.0])}, r"^lists\.first must be a non-empty row of whole numbers, got float64"),
        ({"state": np.array([0, 2, 1])}, r"^lists\.state must hold states in 0\.\.1, got 2; "),
        ({"state": np.array([-1, 1, 1])}, r"^lists\.state must hold states in 0\.\.1, got -1; "),
        ({"state": np.array([1, 0, 1])}, r"^lists\.state must rise within a list, got 0 at entry 1; "),
        ({"state": np.array([1, 1, 1])}, r"^lists\.state must rise within a list, got 1 at entry 1; "),
        ({"state": np.array([0, 1])}, r"^lists\.sign must have shape \(2, 1\), got \(3, 1\); "),
        ({"sign": [[-0.5], [0.5], [0.0]]}, r"^lists\.sign must hold -1, 0 and 1, got -0\.5; "),
        ({"sign": [[1.0], [1.0], [0.0]]}, r"^lists\.sign must sum to 0 over each list, got 2; "),
        ({"constant": [[0.5], [0.5]]}, r"^lists\.constant must have shape \(3, 1\), got \(2, 1\); "),
        ({"constant": [[0.5], [0.6], [1.0]]}, r"^lists\.constant must sum to 1 over each list, got a sum of 1\.1; "),
    ],
)
def test_arrays_that_are_no_mixture_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        SignMixture(**parts(**changes))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (np.zeros((5, 8), np.int64), r"^policy must .* \(5, 9\) or .*, got int64 \(5, 8\); pass one row per step$"),
        (np.zeros((5, 9)), r"^policy must have shape .*, got float64 \(5, 9\); "),
        (np.full((5, 9), 4), r"^policy must hold actions in 0\.\.3, got 4; pass action indices$"),
        (np.full((5, 9, 2), 2), r"^policy must hold actions in 0\.\.1, got 2; "),
        (np.full((5, 9, 2), (0, -1)), r"^policy must hold actions in 0\.\.1, got -1; "),
        (np.full((5, 9, 4), 0.5), r"^policy must sum to 1 over the last axis, got a sum of 2; "),
        (np.full((5, 9, 2, 2), -0.5), r"^policy must hold probabilities >= 0, got -0\.5; "),
        (np.full((5, 9, 4), "x"), r"^policy must be an array of numbers"),
    ],
)
def test_what_is_no_policy_is_refused(policy: Any, message: str) -> None:
    mdp = NetworkMDP().build()
    for ask in (mdp.value, mdp.agent_values, mdp.start_value):
        with pytest.raises(ValueError, match=message):
            ask(policy)


# Next states and roll-outs are those of the dense MDP, compiled or not.


@every_mdp
def test_a_draw_picks_the_state_where_the_sum_of_probabilities_passes_it(mdp: SignMixture) -> None:
    rng, transitions, joint = np.random.default_rng(0), mdp.transitions()[0], mdp.joint_actions()
    for _ in range(2_000):
        state, action = int(rng.integers(mdp.n_states)), int(rng.integers(mdp.n_joint_actions))
        cdf = np.cumsum(transitions[state, action])
        possible = np.flatnonzero(transitions[state, action])
        # Draws just beside the steps of the distribution function, and between them.
        near = np.concatenate([cdf[possible] - 1e-9, cdf[possible[:-1]] + 1e-9, rng.random(1), [0.0]])
        uniform = float(rng.choice(near[near < 1.0]))
        found = next_state(mdp.lists, mdp.drifts, state, joint[action], uniform)
        assert found == int(np.searchsorted(cdf, uniform, side="right"))


def test_a_gap_that_rounding_leaves_belongs_to_the_last_possible_state() -> None:
    """Ten times 0.1 sums to less than 1; the last two states have probability 0."""
    lists = SuccessorLists(
        np.array([0, 12]), np.arange(12), np.zeros((12, 1)), np.array([[0.1]] * 10 + [[0.0]] * 2, dtype=np.float64)
    )
    assert np.cumsum(lists.constant)[-1] < 1.0
    assert next_state(lists, np.zeros((1, 2)), 0, np.zeros(1, np.int64), np.nextafter(1.0, 0.0)) == 9
