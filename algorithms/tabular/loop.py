"""Learning loop of all tabular algorithms: plan, play and send, once per user."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple, cast

from dprl.algorithms.base import Float64Array, Int64Array
from dprl.algorithms.tabular.blocks import BlockParts
from dprl.algorithms.tabular.blocks import draw_block as draw_mdp_block
from dprl.algorithms.tabular.simulator import clear_device, play, play_stochastic, regret
from dprl.compiled import JIT_DISABLED, no_alloc_kernel
from dprl.privacy.queries.count_blocks import UserBlock
from dprl.privacy.queries.count_kernels import (
    CountChannel,
    Released,
    released_counts,
    send_and_aggregate,
    send_and_release,
)
from dprl.privacy.schedule import next_plan
from dprl.sources import is_ours, tree_or_bytes

Run = Callable[..., tuple[float, float]]
_PLAY = play


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


# The names `plan`, `play` and `regret` of this function are those of the algorithm, see `learning_loop`.
def plan(counts: Released, bonus: Any, tables: Any) -> tuple[bool, float]:  # noqa: ANN401 - each has its own
    """Write tables.policy; return (did it change, share of saturated cells)."""
    raise NotImplementedError


def _loop(
    simulator: Any,  # noqa: ANN401
    channel: CountChannel,
    bonus: Any,  # noqa: ANN401
    tables: Any,  # noqa: ANN401
    schedule: PlanSchedule,
    first: int,
    last: int,
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
            if k + 1 == schedule.planned[1]:  # the next plan reads the release
                send_and_release(channel, simulator.device.cells, simulator.device.amounts, k)
            else:
                send_and_aggregate(channel, simulator.device.cells, simulator.device.amounts, k)
    return summed, saturated


def parts_for_blocks(run: Run) -> BlockParts | None:
    """Return the parts of a loop of `learning_loop` that draw users in blocks; None if it has none."""
    names = getattr(run, "py_func", run).__globals__
    return BlockParts(names["plan"], names["regret"], names["draw_block"]) if names.get("draw_block") else None


def _file(part: Callable[..., object]) -> Path:
    return Path(cast("Any", getattr(part, "py_func", part)).__code__.co_filename)


def _identity(part: Callable[..., object]) -> str:
    """Return a kernel's name, with a digest of its file if `source_digest` does not cover that file."""
    function: Any = getattr(part, "py_func", part)
    name, file = f"{function.__module__}.{function.__qualname__}", _file(part)
    if is_ours(file):
        return name
    try:
        source = tree_or_bytes(file.name, file.read_bytes())
    except OSError:  # typed in, not in a file
        source = function.__code__.co_code + repr(function.__code__.co_consts).encode()
    return f"{name}.{hashlib.sha256(source).hexdigest()[:8]}"


def learning_loop(
    plan: Callable[..., tuple[bool, float]],
    play: Callable[..., None] = play,
    regret: Callable[..., float] = regret,
    draw_block: Callable[..., UserBlock] | None = None,
) -> Run:
    """Return the compiled loop of an algorithm, run(simulator, channel, bonus, tables, schedule, first, last).

    plan(counts, bonus, tables) is as `TabularConfig.plan`; play(simulator, policy, user) leaves the contribution of one
    episode in `cells` and `amounts` of simulator.device, a NamedTuple of arrays that are all cleared before every call,
    see `EpisodeBuffer`; regret(simulator, policy) is exact, computed on the known environment.

    It plays episodes first..last (1-based, inclusive) of K and returns the summed regret and the summed share of
    saturated cells. Before an episode of the schedule, `plan` writes `tables.policy` from the released counts; then the
    user plays it and sends their contribution. The user of episode K sends nothing: no later policy could use it.
    Counts are released before a plan only.

    draw_block(simulator, policy, first, users) draws the contributions of many users at once, with the law of `play`;
    by default it fits an MDP with the default `play`. Without it users are simulated one by one.

    The loop is a `no_alloc_kernel`, and `plan` should be one: it may then slice and reshape its arguments, but not
    allocate arrays. A plan that allocates arrays is a `kernel`. If `plan` is not compiled, neither is the loop.

    The parts are bound by name, as if the loop were in the algorithm's file, because kernels passed as arguments are
    compiled anew in every process.
    """
    parts = {"plan": plan, "play": play, "regret": regret}
    if draw_block is None and play in (_PLAY, play_stochastic):
        draw_block = draw_mdp_block
    run = FunctionType(_loop.__code__, _loop.__globals__ | parts | {"draw_block": draw_block}, "run")
    run.__qualname__ = f"run-{'-'.join(_identity(part) for part in parts.values())}"  # the on-disk cache looks at it
    run.__module__ = plan.__module__
    compiled = JIT_DISABLED or hasattr(plan, "py_func")
    return cast("Run", no_alloc_kernel(run) if compiled else run)
