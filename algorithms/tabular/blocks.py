"""Learning loop in blocks: users between two plans are drawn at once, at a cost that does not depend on K."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dprl.algorithms.base import Float64Array, Int64Array
from dprl.algorithms.tabular.simulator import ALL_STATES
from dprl.privacy import CountPrivatizer
from dprl.privacy.queries.count_blocks import UserBlock
from dprl.privacy.randomness.streams import block_generator
from dprl.privacy.schedule import next_plan


class BlockParts(NamedTuple):
    """Parts of a learning loop that `run_in_blocks` calls; see `learning_loop`."""

    plan: Callable[..., tuple[bool, float]]
    regret: Callable[..., float]
    draw_block: Callable[..., UserBlock]


def draw_visits(
    transitions: Float64Array,
    start: Float64Array,
    policy: Int64Array | Float64Array,
    users: int | Int64Array,
    generator: np.random.Generator,
    successors: Int64Array = ALL_STATES,
) -> Int64Array:
    """Draw the counts of transitions at each step of `users` episodes, int64[H, S' * S * A].

    With `successors` from `possible_successors`, R next states are counted instead of S': int64[H, R * S * A].

    Args:
        transitions: float64[H, S, A, S'], or [1, S, A, S'] for all steps. start: float64[S].
        policy: actions int64[H, S], or probabilities float64[H, S, A].
        users: m users who take all steps; or int64[H], the number of users at each step, each taking that step only.
    """
    horizon, (_, n_states, n_actions, _) = policy.shape[0], transitions.shape
    transitions = np.broadcast_to(transitions, (horizon, n_states, n_actions, n_states))
    layers, width, _ = successors.shape
    found = np.zeros((horizon, width if layers else n_states, n_states * n_actions), dtype=np.int64)
    states = np.arange(n_states)
    if policy.ndim == 2:
        pairs = states * n_actions + policy
        moves = transitions[np.arange(horizon)[:, None], states, policy]
    else:
        pairs = np.broadcast_to(np.arange(n_states * n_actions), (horizon, n_states * n_actions))
        moves = transitions.reshape(horizon, n_states * n_actions, n_states)
    law = start
    reached = generator.multinomial(np.sum(users), start)
    for h in range(horizon):
        # NumPy adds the rounding error to the last category: rank 0 comes last, because it is always possible.
        after = successors[h if layers > 1 else 0][::-1, pairs[h]].T if layers else None
        chances = moves[h] if after is None else np.take_along_axis(moves[h], after, axis=1) * (after >= 0)
        if isinstance(users, np.ndarray):
            entering = law if policy.ndim == 2 else (law[:, None] * policy[h]).reshape(-1)
            joint = entering[:, None] * chances
            drawn = generator.multinomial(users[h], (joint / joint.sum()).reshape(-1)).reshape(chances.shape)
            law = _arrivals(joint, after, n_states)
        else:
            entered = reached if policy.ndim == 2 else generator.multinomial(reached, policy[h]).reshape(-1)
            drawn = generator.multinomial(entered, chances)
            reached = _arrivals(drawn, after, n_states).astype(np.int64)
        found[h][:, pairs[h]] = (drawn if after is None else drawn[:, ::-1]).T
    return found.reshape(horizon, -1)


def _arrivals(leaving: Any, after: Int64Array | None, n_states: int) -> Any:  # noqa: ANN401 - integers or floats
    """Return how many users reach each state, [S], by how many take each transition; after int64[n, R]: next states."""
    if after is None:
        return leaving.sum(axis=0)
    # No user takes a rank without a state (-1).
    return np.bincount(np.maximum(after, 0).ravel(), weights=leaving.ravel(), minlength=n_states)


def draw_block(simulator: Any, policy: Int64Array | Float64Array, first: int, users: int) -> UserBlock:  # noqa: ANN401
    """Return the block of `users` users of an MDP, from `first` on, under `policy` int64[H, S] or float64[H, S, A]."""
    generator = block_generator(simulator.key, first)

    def draw(sizes: Int64Array | None) -> Int64Array:
        law = simulator.transitions, simulator.start
        return draw_visits(*law, policy, users if sizes is None else sizes, generator, simulator.successors)

    horizon, n_states, n_actions = simulator.rewards.shape
    return UserBlock(first, users, draw, simulator.observed.reshape(horizon, n_states * n_actions))


def run_in_blocks(
    parts: BlockParts,
    simulator: Any,  # noqa: ANN401
    privatizer: CountPrivatizer,
    state: tuple[Any, Any, Any],
    first: int,
    last: int,
) -> tuple[float, float]:
    """Run episodes first..last as the compiled loop of `learning_loop` does, equal to it in law.

    A block is drawn when its last user is due; the split of a run into calls does not matter. Users after the last
    release are not drawn, because nothing reads their messages.

    state: bonus, tables and schedule.
    """
    plan, regret, draw = parts
    bonus, tables, schedule = state
    summed, saturated, current, k = 0.0, 0.0, regret(simulator, tables.policy), first
    while k <= last:
        if k == schedule.planned[1]:
            counts = privatizer.release()._replace(new=int(k - schedule.planned[0]))
            changed, schedule.saturated[0] = plan(counts, bonus, tables)
            schedule.planned[0], schedule.planned[1] = k, next_plan(schedule.growth, schedule.block, k)
            if changed:
                current = regret(simulator, tables.policy)
        begun, following = (int(episode) for episode in schedule.planned)
        until = min(last, following - 1)
        summed += current * (until + 1 - k)
        saturated += schedule.saturated[0] * (until + 1 - k)
        if until == following - 1 and until < simulator.episodes:
            privatizer.add_block(draw(simulator, tables.policy, begun, following - begun))
        k = until + 1
    return float(summed), float(saturated)
