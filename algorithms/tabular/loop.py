"""Learning loop of all tabular algorithms: plan, play and send, once per user; or for blocks of users at once.

Users between two plans share a policy, so their counts can be drawn together, at a cost independent of their number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dprl.algorithms.base import Float64Array, Int64Array
from dprl.algorithms.tabular.simulator import ALL_STATES, clear_device, play, play_stochastic, regret
from dprl.compiled import JIT_DISABLED, no_alloc_kernel
from dprl.privacy import CountPrivatizer
from dprl.privacy.queries.counts import CountChannel, release, released_counts, send_and_aggregate
from dprl.privacy.randomness.streams import block_generator
from dprl.privacy.schedule import next_plan

Own = Any
"""NamedTuple of arrays that differs between algorithms: the simulator, the bonus or the tables."""
Run = Any
"""Loop of `learning_loop`, a function with its parts as attributes: `plan`, `play`, `regret`, `add_block` or None."""
_PLAYS_OF_MDPS = play, play_stochastic


class PlanSchedule(NamedTuple):
    """Schedule of plans, fixed in advance and independent of users.

    growth: a plan made before episode k is used until the number of episodes has grown by this share; 0 plans before
    every episode. block: least number of episodes per plan. planned int64[2]: the episodes of the last and of the next
    plan; saturated float64[1]: the last plan's share of saturated cells.
    """

    growth: float
    block: int
    planned: Int64Array
    saturated: Float64Array


def learning_loop(
    plan: Callable[..., tuple[bool, float]],
    play: Callable[..., None] = play,
    regret: Callable[..., float] = regret,
    add_block: Callable[..., None] | None = None,
) -> Run:
    """Return the compiled loop of an algorithm, run(simulator, channel, bonus, tables, schedule, first, last).

    plan(counts, bonus, tables) is as `TabularConfig.plan`; play(simulator, policy, user) leaves the contribution of one
    episode in `cells` and `amounts` of simulator.device, a NamedTuple of arrays that are all cleared before every call,
    see `EpisodeBuffer`; regret(simulator, policy) is exact, computed on the known environment.

    It plays episodes first..last (1-based, inclusive) of K and returns the summed regret and the summed share of
    saturated cells. Before an episode of the schedule, counts are released and `plan` writes `tables.policy`; then the
    user plays it and sends their contribution. The user of episode K sends nothing: no later policy could use it.

    add_block(privatizer, simulator, policy, first, users) adds many users at once to the privatizer's `add_block`, with
    the law of `play`; by default it fits an MDP with the default `play`. Without it users are simulated one by one.

    The loop is a `no_alloc_kernel`, and `plan` should be one: it may then slice and reshape its arguments, but not
    allocate arrays. A plan that allocates arrays is a `kernel`. If `plan` is not compiled, neither is the loop.
    """

    def run(
        simulator: Own, channel: CountChannel, bonus: Own, tables: Own, schedule: PlanSchedule, first: int, last: int
    ) -> tuple[float, float]:
        summed, saturated, current = 0.0, 0.0, regret(simulator, tables.policy)
        for k in range(first, last + 1):
            if k == schedule.planned[1]:
                counts = released_counts(channel, k - schedule.planned[0])
                changed, schedule.saturated[0] = plan(counts, bonus, tables)
                schedule.planned[0], schedule.planned[1] = k, next_plan(schedule.growth, schedule.block, k)
                if changed:
                    current = regret(simulator, tables.policy)
            summed += current
            saturated += schedule.saturated[0]
            clear_device(simulator)
            play(simulator, tables.policy, k)
            if k < simulator.episodes:
                send_and_aggregate(channel, simulator.device.cells, simulator.device.amounts, k)
                if k + 1 == schedule.planned[1]:  # the next plan reads the release
                    release(channel)
        return summed, saturated

    # Names a file of the cache on disk: loops that share one could overwrite each other's.
    parts: list[Any] = [getattr(part, "py_func", part) for part in (plan, play, regret)]
    run.__qualname__ = f"run-{'-'.join(f'{part.__module__}.{part.__qualname__}' for part in parts)}"
    run.__module__ = plan.__module__
    loop: Run = no_alloc_kernel(run) if JIT_DISABLED or hasattr(plan, "py_func") else run
    loop.plan, loop.play, loop.regret = plan, play, regret
    loop.add_block = add_mdp_block if add_block is None and play in _PLAYS_OF_MDPS else add_block
    return loop


def run_in_blocks(
    run: Run, simulator: Own, privatizer: CountPrivatizer, state: tuple[Own, Own, PlanSchedule], first: int, last: int
) -> tuple[float, float]:
    """Run episodes first..last as the compiled loop `run` of `learning_loop` does, equal to it in law.

    A block is drawn when its last user is due; the split of a run into calls does not matter. Users after the last
    release are not drawn, because nothing reads their messages. state: bonus, tables and schedule.
    """
    bonus, tables, schedule = state
    summed, saturated, current, k = 0.0, 0.0, run.regret(simulator, tables.policy), first
    while k <= last:
        if k == schedule.planned[1]:
            counts = privatizer.release()._replace(new=int(k - schedule.planned[0]))
            changed, schedule.saturated[0] = run.plan(counts, bonus, tables)
            schedule.planned[0], schedule.planned[1] = k, next_plan(schedule.growth, schedule.block, k)
            if changed:
                current = run.regret(simulator, tables.policy)
        begun, following = (int(episode) for episode in schedule.planned)
        until = min(last, following - 1)
        summed += current * (until + 1 - k)
        saturated += schedule.saturated[0] * (until + 1 - k)
        if until == following - 1 and until < simulator.episodes:
            run.add_block(privatizer, simulator, tables.policy, begun, following - begun)
        k = until + 1
    return float(summed), float(saturated)


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


def add_mdp_block(
    privatizer: CountPrivatizer, simulator: Own, policy: Int64Array | Float64Array, first: int, users: int
) -> None:
    """Add `users` users of an MDP to a privatizer, from `first` on, under `policy` int64[H, S] or float64[H, S, A]."""
    generator = block_generator(simulator.key, first)

    def draw(sizes: Int64Array | None) -> Int64Array:
        law = simulator.transitions, simulator.start
        return draw_visits(*law, policy, users if sizes is None else sizes, generator, simulator.successors)

    horizon, n_states, n_actions = simulator.rewards.shape
    privatizer.add_block(first, users, draw, simulator.observed.reshape(horizon, n_states * n_actions))
