"""Batch of agents in lanes: each balances its own pole with its own copy of the parameters.

One tick is one step of every lane. An agent's actions and gradient depend only on the parameters, its number, the
submission's number, the exploration rate and the seed. They are bit-equal for any number and state of the other lanes.

Paper: [OT20] Algorithm 1, the local process.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dprl.algorithms.base import Float64Array, Int64Array
from dprl.algorithms.pgc_a3c.gradient import ACTION, DIFFERENCE, PREDICTED, TRACE, LossTables, columns, write_gradient
from dprl.algorithms.pgc_a3c.network import DIMENSION, INPUTS, POLICY, UNITS, VALUE, WIDTH, probability_of_right
from dprl.compiled import no_alloc_kernel, shows_numbers
from dprl.envs.cartpole import CartPoleGravity, fallen, first_state, step_lanes
from dprl.privacy import Streams
from dprl.privacy.mechanisms.logarithm import one_to_two
from dprl.privacy.randomness.bits import fill_uniform, splitmix64

UInt64Array = npt.NDArray[np.uint64]

# Rows of a group: those of a trace; other data of an agent; theta, and the differences of its rows of p. They are in
# one array at constant distances, because compilers would not vectorise loops over lanes otherwise.
GRAVITY, _EXPLORATION = TRACE, TRACE + 1
DRAW = TRACE + 2
"""The number of the next exploration draw, as an unsigned integer."""
_STEPS, _LEFT, _STANDING, _OVER = TRACE + 3, TRACE + 4, TRACE + 5, TRACE + 6
"""Steps taken, ticks to the horizon, whether the pole stands, and whether the episode ended with this tick."""
_COLUMN = TRACE + 7  # the column of the trace for the next step, as an integer; without an agent, one of no step
_THETA = TRACE + 8
_DIFFERENCES = _THETA + DIMENSION
_ROWS = _DIFFERENCES + UNITS


@shows_numbers
class AgentBatch(NamedTuple):
    """Agents' side: the current episodes, in groups of WIDTH lanes; lane l is in group l // WIDTH.

    lanes float64[G, rows * WIDTH]: all state of the agents, row by row; table float64[G, rows, WIDTH]: the same memory;
    traces float64[lanes, 7, columns]: of the current episodes, one column per step; begin int64[lanes]: the tick of the
    first step; ended int64[lanes]: whether an episode has ended and its gradient is pending; order int64[lanes]: the
    caller's number of the lane's agent; clock int64[1]: ticks so far; sampled, padded: see `agent_batch`.
    """

    lanes: Float64Array
    table: Float64Array
    traces: Float64Array
    begin: Int64Array
    ended: Int64Array
    order: Int64Array
    clock: Int64Array
    theta: Float64Array
    uniforms: Float64Array
    gravities: Float64Array
    first_state_key: UInt64Array
    gravity_key: UInt64Array
    exploration_key: UInt64Array
    n_lanes: int
    horizon: int
    sampled: bool
    padded: bool


def agent_batch(
    n_lanes: int, task: CartPoleGravity, streams: Streams, *, sampled: bool = False, padded: bool = False
) -> AgentBatch:
    """Return `n_lanes` idle lanes.

    sampled: whether agents that do not explore draw from the policy; else they take the most probable action, as in the
    paper. padded: whether every agent computes as long as for the longest episode; the results are the same.
    """
    groups = -(-n_lanes // WIDTH)
    table = np.zeros((groups, _ROWS, WIDTH))
    table[:, GRAVITY] = task.gravities[0]
    lanes = groups * WIDTH
    return AgentBatch(
        lanes=table.reshape(groups, _ROWS * WIDTH),
        table=table,
        traces=np.zeros((lanes, TRACE, columns(task.horizon))),
        begin=np.zeros(lanes, dtype=np.int64),
        ended=np.zeros(lanes, dtype=np.int64),
        order=np.zeros(lanes, dtype=np.int64),
        clock=np.zeros(1, dtype=np.int64),
        theta=np.zeros(DIMENSION),
        uniforms=np.zeros(INPUTS),
        gravities=np.array(task.gravities),
        first_state_key=streams.key("env"),
        gravity_key=streams.key("env", "gravity"),
        exploration_key=streams.key("exploration"),
        n_lanes=n_lanes,
        horizon=task.horizon,
        sampled=sampled,
        padded=padded,
    )


@no_alloc_kernel
def deliver(batch: AgentBatch, lane: int, theta: Float64Array, submission: int, agent: int, exploration: float) -> None:
    """Let `agent` begin an episode in a lane, with a copy of theta float64[112]; drop the lane's current episode.

    exploration: alpha in [0, 1], the probability of a random action.
    """
    at = lane & (WIDTH - 1)
    lanes = batch.lanes[lane // WIDTH]
    for k in range(DIMENSION):
        lanes[(_THETA + k) * WIDTH + at] = theta[k]
    for i in range(UNITS):
        lanes[(_DIFFERENCES + i) * WIDTH + at] = theta[POLICY + UNITS + i] - theta[POLICY + i]
    word = splitmix64(batch.gravity_key, np.uint64(agent))
    lanes[GRAVITY * WIDTH + at] = batch.gravities[np.int64(word % np.uint64(batch.gravities.shape[0]))]
    fill_uniform(batch.uniforms, batch.first_state_key, np.uint64(submission) * np.uint64(INPUTS))
    first_state(batch.table[lane // WIDTH, :INPUTS], at, batch.uniforms)
    lanes[_EXPLORATION * WIDTH + at] = exploration
    lanes.view(np.uint64)[DRAW * WIDTH + at] = np.uint64(submission) * np.uint64(batch.horizon)
    lanes[_STEPS * WIDTH + at], lanes[_STANDING * WIDTH + at] = 0.0, 1.0
    lanes[_LEFT * WIDTH + at] = batch.horizon
    lanes.view(np.int64)[_COLUMN * WIDTH + at] = 0
    batch.begin[lane], batch.ended[lane] = batch.clock[0], 0


@no_alloc_kernel
def idle(batch: AgentBatch, lane: int) -> None:
    """Empty a lane and drop its current episode."""
    batch.table[lane // WIDTH, _LEFT, lane & (WIDTH - 1)] = 0.0
    batch.ended[lane] = 0


@no_alloc_kernel
def is_idle(batch: AgentBatch, lane: int) -> bool:
    """Return whether a lane has neither a current episode nor a pending gradient."""
    return bool(batch.ended[lane] == 0 and batch.table[lane // WIDTH, _LEFT, lane & (WIDTH - 1)] == 0.0)


@no_alloc_kernel
def tick(batch: AgentBatch) -> int:
    """Let every agent take one step; mark ended episodes in batch.ended and return their number."""
    ended = 0
    for g in range(batch.lanes.shape[0]):
        lanes, table = batch.lanes[g], batch.table[g]
        _evaluate_networks(lanes)
        _choose_actions(lanes, batch.exploration_key, batch.sampled)
        _record_step(batch.traces[g * WIDTH : (g + 1) * WIDTH], lanes)
        step_lanes(table[:INPUTS], table[ACTION], table[GRAVITY])
        over = _count_step(lanes, np.float64(batch.horizon), batch.padded)
        if over > 0:
            for at in range(WIDTH):
                batch.ended[g * WIDTH + at] |= np.int64(lanes[_OVER * WIDTH + at])
        ended += over
    batch.clock[0] += 1
    return ended


@no_alloc_kernel
def advance(batch: AgentBatch) -> int:
    """Tick until an episode ends; return how many ended, 0 if no lane has an episode."""
    under_way, ended = False, 0
    for lane in range(batch.n_lanes):
        under_way |= not is_idle(batch, lane)
    while under_way and ended == 0:
        ended = tick(batch)
    return ended


@no_alloc_kernel
def _evaluate_networks(lanes: Float64Array) -> None:
    """Write the outputs of the networks of a group for the states of their lanes."""
    for at in range(WIDTH):
        lanes[DIFFERENCE * WIDTH + at] = 0.0
        lanes[PREDICTED * WIDTH + at] = 0.0
    for i in range(0, UNITS, 4):
        for at in range(WIDTH):
            d, v = (_DIFFERENCES + i) * WIDTH + at, (_THETA + VALUE + i) * WIDTH + at
            h0, h1 = _unit(lanes, i, at), _unit(lanes, i + 1, at)
            h2, h3 = _unit(lanes, i + 2, at), _unit(lanes, i + 3, at)
            lanes[DIFFERENCE * WIDTH + at] += (lanes[d] * h0 + lanes[d + WIDTH] * h1) + (
                lanes[d + 2 * WIDTH] * h2 + lanes[d + 3 * WIDTH] * h3
            )
            lanes[PREDICTED * WIDTH + at] += (lanes[v] * h0 + lanes[v + WIDTH] * h1) + (
                lanes[v + 2 * WIDTH] * h2 + lanes[v + 3 * WIDTH] * h3
            )


@no_alloc_kernel
def _unit(lanes: Float64Array, i: int, at: int) -> float:
    c = (_THETA + INPUTS * i) * WIDTH + at
    h = (lanes[c] * lanes[at] + lanes[c + WIDTH] * lanes[WIDTH + at]) + (
        lanes[c + 2 * WIDTH] * lanes[2 * WIDTH + at] + lanes[c + 3 * WIDTH] * lanes[3 * WIDTH + at]
    )
    return h if h > 0.0 else 0.0


@no_alloc_kernel
def _choose_actions(lanes: Float64Array, key: UInt64Array, sampled: bool) -> None:
    """Choose the action of every lane of a group: one draw decides whether to explore, and the action."""
    draws, words = lanes.view(np.uint64), (key[0], key[1], key[2])
    for at in range(WIDTH):
        bits = splitmix64(words, draws[DRAW * WIDTH + at])  # type: ignore[arg-type]  # three words are all it takes
        uniform, coin = one_to_two(bits) - 1.0, np.float64(np.int64(bits & np.uint64(1)))
        preference, exploration = lanes[DIFFERENCE * WIDTH + at], lanes[_EXPLORATION * WIDTH + at]
        own = 1.0 if preference > 0.0 else 0.0
        if sampled:
            # If it does not explore, the draw is uniform in [alpha, 1).
            share = (1.0 - exploration) * probability_of_right(preference)
            own = 1.0 if uniform - exploration < share else 0.0
        lanes[ACTION * WIDTH + at] = coin if uniform < exploration else own


@no_alloc_kernel
def _record_step(traces: Float64Array, lanes: Float64Array) -> None:
    """Copy the start of a step into the traces of a group; without an agent, into an unused column."""
    places = lanes.view(np.uint64)
    for at in range(WIDTH):
        trace, t = traces[at], places[_COLUMN * WIDTH + at]
        for row in range(TRACE):
            trace[row, t] = lanes[row * WIDTH + at]


@no_alloc_kernel
def _count_step(lanes: Float64Array, horizon: float, padded: bool) -> int:
    """Count the step of every lane of a group; return how many episodes ended."""
    ends, total = 0.0 if padded else 1.0, 0
    draws, places = lanes.view(np.uint64), lanes.view(np.int64)
    # Not range(WIDTH): a compiler would unroll a short loop of known length into eight single steps.
    for at in range(lanes.shape[0] // _ROWS):
        left, standing = lanes[_LEFT * WIDTH + at], lanes[_STANDING * WIDTH + at]
        down = 1.0 if fallen(lanes[at], lanes[2 * WIDTH + at]) else 0.0
        running = 1.0 if left > 0.0 else 0.0
        remaining = (left - running) * (1.0 - ends * down)
        over = running if remaining == 0.0 else 0.0
        lanes[_STEPS * WIDTH + at] += running * standing
        lanes[_STANDING * WIDTH + at] = standing * (1.0 - down)
        lanes[_LEFT * WIDTH + at] = remaining
        lanes[_OVER * WIDTH + at] = over
        places[_COLUMN * WIDTH + at] = np.int64(horizon - remaining)
        draws[DRAW * WIDTH + at] += np.uint64(1)
        total += int(over)
    return total


@no_alloc_kernel
def local_update(batch: AgentBatch, lane: int, loss: LossTables, gradient: Float64Array) -> float:
    """Write the raw gradient float64[112] of the episode that has ended in a lane, and leave it idle; return its score.

    Raises ValueError if no episode ended there with the last tick, because later ticks overwrite its state.
    """
    at = lane & (WIDTH - 1)
    lanes = batch.lanes[lane // WIDTH]
    steps = int(lanes[_STEPS * WIDTH + at])
    taken = batch.horizon if batch.padded else steps
    if batch.ended[lane] == 0 or batch.begin[lane] + taken != batch.clock[0]:
        raise ValueError("lane must be one whose episode ended with the last tick; update before the next one")
    trace = batch.traces[lane]
    for m in range(INPUTS):
        trace[m, steps] = lanes[m * WIDTH + at]
    for k in range(DIMENSION):
        batch.theta[k] = lanes[(_THETA + k) * WIDTH + at]
    write_gradient(gradient, batch.theta, trace, steps, loss, batch.padded)
    idle(batch, lane)
    return np.float64(steps)


@no_alloc_kernel
def run_agents(
    batch: AgentBatch,
    loss: LossTables,
    parameters: Float64Array,
    version: Int64Array,
    submissions: Int64Array,
    agents: Int64Array,
    explorations: Float64Array,
    gradients: Float64Array,
    scores: Float64Array,
) -> None:
    """Let k agents play, each as soon as a lane is free; write gradients float64[k, 112] and scores float64[k].

    Agent j starts from parameters[version[j]]: parameters float64[v, 112]; version, submissions, agents int64[k];
    explorations float64[k], in [0, 1]. Current episodes of the batch are dropped.
    """
    begun, reported = 0, 0
    for lane in range(batch.n_lanes):
        idle(batch, lane)
    while reported < version.shape[0]:
        for lane in range(batch.n_lanes):
            if is_idle(batch, lane) and begun < version.shape[0]:
                theta = parameters[version[begun]]
                deliver(batch, lane, theta, submissions[begun], agents[begun], explorations[begun])
                batch.order[lane] = begun
                begun += 1
        if advance(batch) > 0:
            for lane in range(batch.n_lanes):
                if batch.ended[lane] == 1:
                    j = batch.order[lane]
                    scores[j] = local_update(batch, lane, loss, gradients[j])
                    reported += 1
