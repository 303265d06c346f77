"""The network is the paper's, and its gap may grow until some probability is 0, and no further."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from dprl.envs.network_mdp import NetworkMDP
from dprl.envs.network_mdp.network import tightest_step
from tests.envs.network_mdp.cases import SPECS, printed

Point = tuple[float, float, float]


def network(point: Point, gap: float = 0.0, **fields: Any) -> NetworkMDP:
    start_forward, node_leave, node_forward = point
    return NetworkMDP(gap=gap, start_forward=start_forward, node_leave=node_leave, node_forward=node_forward, **fields)


def points(count: int, seed: int) -> list[Point]:
    """Points of the cube, some of them on its faces."""
    rng = np.random.default_rng(seed)
    found = []
    for delta, leave, share in rng.random((count, 3)) * 1.2 - 0.1:
        inside = np.clip([delta, leave, share], 0.0, 1.0)
        found.append((float(inside[0]), float(inside[1]), float(inside[1] * inside[2])))
    return found


def closed_form(point: Point) -> float:
    """The largest gap for two agents, with dl = delta, a = delta_jj, b = delta_j,j+1, worked out by hand."""
    dl, a, b = point
    return min(
        *(dl / 2, (1 - dl) / 2, 1 / 4, (1 - a) / 3, b / 3, a / 3, (1 - b) / 3, (1 - a + b) / 6),
        *(2 * (dl + a - b) / 5, 2 * (1 - dl + a - b) / 5, (dl + b) / 5, (2 - dl - a) / 5),
        *((dl + 1 - a) / 5, (1 - dl + b) / 5, (2 - a) / 2, (1 + b) / 2),
    )


def largest_gap(point: Point, n_agents: int = 2) -> float:
    return float(tightest_step(n_agents, *point)[0])


def bisected(point: Point, **fields: Any) -> float:
    """The largest gap at which the paper's dense formulas leave no probability negative."""
    spec = network(point, **fields)
    signs = np.ones((spec.n_agents, spec.dimension - 1))
    features, whole = printed(spec, signs)[:2]
    last = np.arange(whole.size) % spec.dimension == spec.dimension - 1
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        theta = np.where(last, 1.0, whole * middle / signs.size)
        low, high = (middle, high) if (features @ theta).min() >= -1e-12 else (low, middle)
    return low


def accepted(point: Point, gap: float, **fields: Any) -> bool:
    try:
        network(point, gap, **fields)
    except ValueError as error:
        return not str(error).startswith("gap must be at most ")
    return True


@pytest.mark.parametrize("fields", SPECS.values(), ids=SPECS)
def test_transitions_are_those_of_the_papers_formulas(fields: dict[str, Any]) -> None:
    spec = NetworkMDP(**fields)
    mdp = spec.build()
    np.testing.assert_allclose(mdp.transitions()[0], printed(spec, mdp.theta).transitions, atol=1e-14)
    assert (np.abs(mdp.theta) == spec.gap / (spec.n_agents * (spec.dimension - 1))).all()
    assert mdp.n_states == (spec.n_intermediate + 2) ** spec.n_agents
    assert (mdp.n_agents, mdp.horizon) == (len(mdp.rewards), spec.horizon)
    assert (mdp.n_actions, mdp.dimension) == (2 ** (spec.dimension - 1), spec.n_agents * spec.dimension)
    assert mdp.lists.state.size == (3 * spec.n_intermediate + 3) ** spec.n_agents


@pytest.mark.parametrize("fields", SPECS.values(), ids=SPECS)
def test_what_lemma_4_says(fields: dict[str, Any]) -> None:
    """Every row sums to 1 and agents at the goal stay there; beyond the lemma, no probability is negative."""
    spec = NetworkMDP(**fields)
    transitions = spec.build().transitions()[0]
    np.testing.assert_allclose(transitions.sum(axis=-1), 1.0, rtol=1e-12)
    assert transitions.min() >= 0.0
    assert (transitions[-1, :, -1] == 1.0).all()
    nodes, goal = spec.nodes(), spec.n_intermediate + 1
    for agent in range(spec.n_agents):
        arrived, left = nodes[:, agent] == goal, nodes[:, agent] != goal
        assert (transitions[np.ix_(arrived, range(transitions.shape[1]), left)] == 0.0).all()


def test_alpha_is_another_number_in_other_states() -> None:
    """As printed, with 1 / alpha(s) in theta(s), there is not one theta for all states."""
    alpha = printed(NetworkMDP(), NetworkMDP().build().theta).alpha
    assert np.unique(alpha).tolist() == [1.0, 1.5, 2.0, 2.5, 3.0]


def test_rewards_are_those_of_the_nodes() -> None:
    spec = NetworkMDP(n_agents=2, n_intermediate=2, gap=0.1)
    mdp, nodes = spec.build(), spec.nodes()
    worth = np.array([0.005, 0.0, 0.0, 1.0])
    np.testing.assert_array_equal(mdp.rewards, worth[nodes].T)
    np.testing.assert_array_equal(mdp.common_rewards, worth[nodes].mean(axis=1))
    assert nodes[mdp.start].tolist() == [0, 0]
    assert nodes.tolist() == [list(pair) for pair in itertools.product(range(4), repeat=2)]


@pytest.mark.parametrize("fields", SPECS.values(), ids=SPECS)
def test_shares_of_agents_at_the_nodes_give_the_mean_reward(fields: dict[str, Any]) -> None:
    spec = NetworkMDP(**fields)
    mdp, nodes = spec.build(), spec.nodes()
    worth = np.array([0.005, *np.zeros(spec.n_intermediate), 1.0])
    np.testing.assert_allclose(mdp.reward_features @ worth, mdp.common_rewards, rtol=0, atol=1e-15)
    for state, features in enumerate(mdp.reward_features):
        counts = [(nodes[state] == node).sum() for node in range(worth.size)]
        assert (features * spec.n_agents).tolist() == pytest.approx(counts, abs=1e-12)


def test_values_of_the_papers_network() -> None:
    mdp = NetworkMDP().build()
    found = (mdp.optimal_start_value(), mdp.uniform_value()[0, mdp.start], mdp.worst()[0][0, mdp.start])
    np.testing.assert_allclose(found, (1.7918, 1.1297, 0.4848), atol=5e-5)


def test_the_conditions_for_two_agents_are_those_worked_out_by_hand() -> None:
    for point in points(150, seed=0):
        assert largest_gap(point) == pytest.approx(closed_form(point), abs=1e-12)


@pytest.mark.parametrize("point", points(12, seed=1))
def test_bisection_and_constructor_find_the_same_largest_gap(point: Point) -> None:
    largest = closed_form(point)
    assert bisected(point) == pytest.approx(largest, abs=1e-8)
    assert accepted(point, largest)
    assert not accepted(point, largest + 1e-9)
    if largest > 0.0:
        assert network(point, largest).build().transitions().min() == 0.0


@pytest.mark.parametrize(
    "fields",
    [{"n_agents": 1}, {"n_intermediate": 2}, {"dimension": 3}, {"n_agents": 1, "dimension": 4, "n_intermediate": 3}],
)
@pytest.mark.parametrize("point", points(3, seed=2))
def test_other_sizes_have_their_largest_gap_too(point: Point, fields: dict[str, Any]) -> None:
    largest = largest_gap(point, fields.get("n_agents", 2))
    assert bisected(point, **fields) == pytest.approx(largest, abs=1e-8)
    assert accepted(point, largest, **fields)
    assert not accepted(point, largest + 1e-9, **fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"gap": 0.1, "start_forward": 0.1, "node_forward": 0.25},
            (
                r"^gap must be at most 0\.05, got 0\.1: the step from \(s, s\) to \(1, 1\) would "
                r"have the probability -0\.05; lower gap, or change start_forward, node_leave, node_forward$"
            ),
        ),
        (
            {"gap": 0.25, "start_forward": 0.4},
            (
                r"^gap must be at most 0\.16, got 0\.25: "
                r"the step from \(s, j\) to \(1, j-1\) would have the probability -0\.045; "
            ),
        ),
        ({"n_agents": 3}, r"^gap must be at most 0\.055555, got 0\.166666667: "),
        ({"node_forward": 0.6}, r"^node_forward must be at most node_leave = 0\.5, got 0\.6; lower it$"),
        ({"n_agents": 9}, r"^n_agents must be at most 8, got 9; lower n_agents$"),
        ({"dimension": 9}, r"^dimension must be at most 8, got 9; lower dimension$"),
        ({"dimension": 1}, r"^dimension must be an integer of at least 2, got 1; "),
        ({"n_intermediate": 0}, r"^n_intermediate must be an integer of at least 1, got 0; "),
        ({"n_intermediate": 10**8}, r"^network_mdp needs transitions of at most .*; lower horizon, n_agents, n_int"),
        ({"n_agents": 8, "gap": 0.0}, r"^network_mdp needs transitions of at most "),
    ],
)
def test_what_is_no_network_is_refused_in_one_line(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        NetworkMDP(**fields)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("point", [(0.37, 0.71, 0.29), (0.1, 0.5, 0.25), (0.4, 0.5, 0.5), (0.9, 0.2, 0.1)])
def test_the_step_that_is_named_has_the_probability_that_is_named(point: Point) -> None:
    """At the limit of two agents, the probability of the step is 0."""
    gap = 0.1
    transitions = printed(network(point), np.full((2, 1), gap / 2)).transitions
    states = {tuple(nodes): s for s, nodes in enumerate(network(point).nodes().tolist())}
    node = {"s": 0, "1": 1, "j": 1, "g": 2, "j+1": 2, "j-1": 0}
    limit, signed, *step = tightest_step(2, *point)
    before, after = (states[tuple(node[name] for name in names)] for names in step)
    assert transitions[before, :, after].min() == pytest.approx((float(limit) - gap) * signed / 2, abs=1e-14)
