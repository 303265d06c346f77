"""Agents in lanes: each is independent of the others and equals Gymnasium's CartPole."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from dprl.algorithms.pgc_a3c.agent_batch import (
    DRAW,
    GRAVITY,
    AgentBatch,
    advance,
    agent_batch,
    deliver,
    idle,
    is_idle,
    local_update,
    run_agents,
    tick,
)
from dprl.algorithms.pgc_a3c.gradient import ACTION, LossTables, loss_tables
from dprl.algorithms.pgc_a3c.network import DIMENSION, INPUTS, WIDTH, initial_parameters, probability_of_right
from dprl.envs.cartpole import CartPoleGravity
from dprl.privacy import Streams
from tests.algorithms.pgc_a3c.cases import forward, loss_of
from tests.without_compiler import printed_both_ways

TASK = CartPoleGravity().build()
STREAMS = Streams(0, "test")
LOSS = loss_of(0.99, 0.5, 0.01, "terminal", "discounted", False)
# |Z| > 5 for each of some tens of frequencies below: false alarm below 1e-4.
SIGMAS = 5.0


def theta(seed: int, scale: float = 1.0) -> np.ndarray:
    return initial_parameters("glorot", scale, Streams(seed, "test").key("env", "theta"))


def balancing() -> np.ndarray:
    """Push towards the falling side of the pole: it stands for 200 steps."""
    found = np.zeros(DIMENSION)
    found[0:4], found[4:8] = [0.1, 0.3, 1.0, 1.0], [-0.1, -0.3, -1.0, -1.0]
    found[64 + 16], found[64 + 1] = 1.0, 1.0
    return found


Orders = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def orders(k: int, parameters: np.ndarray, exploration: float = 0.2, agents: np.ndarray | None = None) -> Orders:
    """Return parameters, version, submissions, agents and explorations of `run_agents`."""
    numbers = np.arange(1, k + 1)
    version = (numbers * 7) % len(parameters)
    return parameters, version, numbers, numbers if agents is None else agents, np.full(k, exploration)


def played(lanes: AgentBatch, tables: LossTables, given: Orders) -> tuple[np.ndarray, np.ndarray]:
    k = len(given[1])
    gradients, scores = np.full((k, DIMENSION), np.nan), np.full(k, np.nan)
    run_agents(lanes, tables, *given, gradients, scores)
    return gradients, scores


def trajectory(lanes: AgentBatch, lane: int) -> tuple[np.ndarray, np.ndarray]:
    """Let the agent of a lane play to its end; return states [T + 1, 4] and actions [T]."""
    states, actions = [], []
    group, at = divmod(lane, WIDTH)
    while lanes.ended[lane] == 0:
        states.append(lanes.table[group, :INPUTS, at].copy())
        tick(lanes)
        actions.append(int(lanes.table[group, ACTION, at]))
    states.append(lanes.table[group, :INPUTS, at].copy())
    return np.array(states), np.array(actions)


def test_a_trajectory_is_gymnasiums_with_the_same_actions() -> None:
    """Rounding errors grow a millionfold over an episode, because the pole is unstable."""
    lanes, lengths = agent_batch(3, TASK, STREAMS), []
    for submission in range(1, 13):
        given = balancing() if submission % 3 else theta(submission)
        deliver(lanes, 1, given, submission, submission, 0.1)
        states, actions = trajectory(lanes, 1)
        env = gymnasium.make("CartPole-v1", max_episode_steps=200)
        env.reset(seed=0)
        cart = env.unwrapped
        cart.gravity, cart.state = lanes.table[0, GRAVITY, 1], states[0]  # type: ignore[attr-defined]
        assert cart.gravity in TASK.gravities  # type: ignore[attr-defined]
        for t, action in enumerate(actions):
            _, _, fell, over, _ = env.step(int(action))
            np.testing.assert_allclose(states[t + 1], cart.state, rtol=0, atol=1e-8)  # type: ignore[attr-defined]
            assert (fell or over) == (t + 1 == len(actions))
        lengths.append(len(actions))
    assert max(lengths) == 200
    assert min(lengths) < 40


def test_without_exploration_the_likelier_action_is_taken() -> None:
    lanes = agent_batch(1, TASK, STREAMS)
    for submission in range(1, 6):
        deliver(lanes, 0, theta(submission), submission, 1, 0.0)
        states, actions = trajectory(lanes, 0)
        preferred = [forward(theta(submission), state)[0] > 0.0 for state in states[:-1]]
        np.testing.assert_array_equal(actions, preferred)


@pytest.mark.parametrize("n_lanes", [1, 3, 8, 9, 17])
def test_neither_lanes_nor_neighbours_change_a_bit(n_lanes: int) -> None:
    tables, parameters = loss_tables(LOSS, TASK.horizon), np.stack([theta(1), balancing(), theta(2)])
    given = orders(25, parameters)
    expected = [
        played(agent_batch(8, TASK, STREAMS), tables, (parameters, *(a[j : j + 1] for a in given[1:])))  # type: ignore[arg-type]
        for j in range(25)
    ]
    gradients, scores = played(agent_batch(n_lanes, TASK, STREAMS), tables, given)
    assert gradients.tobytes() == b"".join(gradient.tobytes() for gradient, _ in expected)
    np.testing.assert_array_equal(scores, [score[0] for _, score in expected])
    assert scores.max() == 200.0
    assert scores.min() < 40.0


@pytest.mark.parametrize("sampled", [False, True])
def test_padded_agents_take_as_long_as_the_longest_and_do_the_same(sampled: bool) -> None:
    tables, given = loss_tables(LOSS, TASK.horizon), orders(12, np.stack([theta(1), balancing(), theta(2)]))
    plain, padded = (agent_batch(4, TASK, STREAMS, sampled=sampled, padded=padded) for padded in (False, True))
    expected, found = played(plain, tables, given), played(padded, tables, given)
    assert found[0].tobytes() == expected[0].tobytes()
    np.testing.assert_array_equal(found[1], expected[1])
    assert padded.clock[0] == 3 * TASK.horizon
    assert plain.clock[0] < padded.clock[0]


def test_gravities_are_equally_likely_and_an_agents_own() -> None:
    lanes, counts = agent_batch(8, TASK, STREAMS), dict.fromkeys(TASK.gravities, 0)
    for agent in range(1, 3001):
        deliver(lanes, agent % 8, theta(0), agent, agent, 0.0)
        first = lanes.table[0, GRAVITY, agent % 8]
        counts[first] += 1
        deliver(lanes, (agent + 3) % 8, theta(0), agent + 7, agent, 0.5)
        assert lanes.table[0, GRAVITY, (agent + 3) % 8] == first
    assert all(abs(found - 1000.0) < SIGMAS * np.sqrt(3000 * 2 / 9) for found in counts.values())


def test_first_states_are_uniform_and_a_submissions_own() -> None:
    lanes, found = agent_batch(8, TASK, STREAMS), np.empty((4000, INPUTS))
    for n in range(len(found)):
        deliver(lanes, n % 8, theta(0), n + 1, 1, 0.0)
        found[n] = lanes.table[0, :INPUTS, n % 8]
    assert (found >= -0.05).all()
    assert (found < 0.05).all()
    for row in ((found + 0.05) / 0.1).T:
        counts = np.histogram(row, bins=10, range=(0.0, 1.0))[0]
        assert (np.abs(counts - 400.0) < SIGMAS * np.sqrt(4000 * 0.09)).all()
    correlations = np.asarray(np.corrcoef(found.T))[np.triu_indices(INPUTS, 1)]
    assert np.abs(correlations).max() < SIGMAS / np.sqrt(len(found))


@pytest.mark.parametrize("exploration", [0.0, 0.1, 0.5, 1.0])
def test_exploration_happens_at_its_rate_and_either_way(exploration: float) -> None:
    """The balancing agent stands with any draws, so the numbers of steps and of draws are nearly equal."""
    others, steps, right = 0, 0, 0
    for n in range(1, 60):
        lanes = agent_batch(1, TASK, STREAMS)
        deliver(lanes, 0, theta(1), n, 1, exploration)
        states, actions = trajectory(lanes, 0)
        preferred = np.array([forward(theta(1), state)[0] > 0.0 for state in states[:-1]])
        others, steps, right = others + int((preferred != actions).sum()), steps + len(actions), right + actions.sum()
    chance = exploration / 2.0
    assert abs(others - chance * steps) <= SIGMAS * np.sqrt(steps * chance * (1.0 - chance))
    if exploration == 1.0:
        assert abs(right - steps / 2) < SIGMAS * np.sqrt(steps / 4)


@pytest.mark.parametrize("exploration", [0.0, 0.5])
@pytest.mark.parametrize("scale", [1.0, 10.0])
def test_sampled_actions_follow_the_policy(exploration: float, scale: float) -> None:
    """Of two policies: one that is nearly sure of its actions, and one that is not."""
    lanes, steps = agent_batch(1, TASK, STREAMS, sampled=True), 0
    given, excess, variance = theta(1, scale=scale), np.zeros(2), np.zeros(2)
    for n in range(1, 80):
        deliver(lanes, 0, given, n, 1, exploration)
        states, actions = trajectory(lanes, 0)
        policy = np.array([probability_of_right(forward(given, state)[0]) for state in states[:-1]])
        chances = exploration / 2.0 + (1.0 - exploration) * policy
        # Weighted, so that swapped actions do not average out; and not, so that too many pushes to one side do not.
        weights = np.stack([policy - 0.5, np.ones(len(actions))])
        excess += (weights * (actions - chances)).sum(axis=1)
        variance += (weights**2 * chances * (1.0 - chances)).sum(axis=1)
        steps += len(actions)
    assert steps > 500
    assert (np.abs(excess) < SIGMAS * np.sqrt(variance)).all()


def test_exploration_draws_of_submissions_do_not_overlap() -> None:
    """Draw number is submission * horizon + t."""
    lanes = agent_batch(2, TASK, STREAMS)
    deliver(lanes, 0, balancing(), 3, 1, 1.0)
    deliver(lanes, 1, balancing(), 4, 1, 1.0)
    first = lanes.table.view(np.uint64)[0, DRAW, :2].copy()
    assert first.tolist() == [3 * TASK.horizon, 4 * TASK.horizon]
    tick(lanes)
    assert (lanes.table.view(np.uint64)[0, DRAW, :2] - first).tolist() == [1, 1]


def test_an_episode_may_be_of_one_step_or_of_any_horizon() -> None:
    for horizon in (1, 2, 7, 8, 9, 130):
        task = CartPoleGravity(9.8, 9.8, 1, horizon)
        gradients, scores = played(
            agent_batch(3, task, STREAMS), loss_tables(LOSS, horizon), orders(5, balancing()[None], 0.0)
        )
        assert (scores == horizon).all()
        assert np.isfinite(gradients).all()
        assert np.abs(gradients).max(axis=1).min() > 0.0


def test_lanes_are_idle_until_an_agent_comes() -> None:
    lanes, gradient = agent_batch(2, TASK, STREAMS), np.empty(DIMENSION)
    assert is_idle(lanes, 0)
    assert advance(lanes) == 0
    deliver(lanes, 0, theta(1), 1, 1, 0.0)
    assert not is_idle(lanes, 0)
    assert is_idle(lanes, 1)
    assert advance(lanes) == 1
    assert lanes.ended.tolist()[:2] == [1, 0]
    assert not is_idle(lanes, 0)
    local_update(lanes, 0, loss_tables(LOSS, TASK.horizon), gradient)
    assert is_idle(lanes, 0)
    deliver(lanes, 0, theta(1), 2, 1, 0.0)
    idle(lanes, 0)
    assert advance(lanes) == 0


def test_an_update_that_comes_too_late_or_too_early_is_refused() -> None:
    lanes, tables, gradient = agent_batch(2, TASK, STREAMS), loss_tables(LOSS, TASK.horizon), np.empty(DIMENSION)
    deliver(lanes, 0, theta(1), 1, 1, 0.0)
    deliver(lanes, 1, balancing(), 2, 1, 0.0)
    with pytest.raises(ValueError, match=r"^lane must be one whose episode ended"):
        local_update(lanes, 1, tables, gradient)
    advance(lanes)
    tick(lanes)
    with pytest.raises(ValueError, match=r"^lane must be one whose episode ended"):
        local_update(lanes, 0, tables, gradient)


FINGERPRINT = """
import hashlib
import numpy as np
from dprl.algorithms.pgc_a3c.agent_batch import agent_batch, run_agents
from dprl.algorithms.pgc_a3c.algorithm import PGCA3CConfig
from dprl.algorithms.pgc_a3c.gradient import loss_tables
from dprl.algorithms.pgc_a3c.network import initial_parameters
from dprl.envs.cartpole import CartPoleGravity
from dprl.privacy import Streams
task, streams, digest = CartPoleGravity(horizon=12).build(), Streams(0, "bits"), hashlib.sha256()
theta = np.stack([initial_parameters("glorot", 1.0, streams.key("env", str(n))) for n in range(2)])
numbers = np.arange(1, 4)
given = theta, numbers % 2, numbers, numbers, np.full(3, 0.3)
for sampled, differentiate in ((False, False), (True, True)):
    gradients, scores = np.zeros((3, 112)), np.zeros(3)
    tables = loss_tables(PGCA3CConfig(bootstrap="printed", differentiate=differentiate), task.horizon)
    run_agents(agent_batch(2, task, streams, sampled=sampled), tables, *given, gradients, scores)
    digest.update(gradients.tobytes() + scores.tobytes())
print(digest.hexdigest())
"""


def test_plain_python_gives_the_same_bits_as_compiled_code() -> None:
    printed_both_ways(FINGERPRINT)
