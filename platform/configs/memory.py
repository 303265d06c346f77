"""Memory of a cell: estimated from its own sizes before it runs, and compared with the memory of the machine."""

from __future__ import annotations

import resource
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from dprl.algorithms.tabular.simulator import families_of_size
from dprl.envs import ControlTask
from dprl.platform.configs.experiment import Experiment, labels_of
from dprl.platform.errors import UserError, broken_rule
from dprl.privacy import CountPrivacy, Streams

GB = 1e9
_NUMBER = 8  # bytes
_PROCESS = 0.65 * GB  # memory of a worker process with its libraries and compiled kernels
_TABLES = 6  # arrays of the size of the stored transitions while an environment is built and played: two stay
_COUNTS = 8  # arrays with an entry for each count: sums, releases, a message, a checkpoint's copies; half without noise
_MIXTURE = 3  # copies of a mixture's successor lists, or of its features, while they are made


def build_bytes(cell: Experiment) -> float:
    """Estimate the bytes that a process needs to build the cell's environment and certify the cell."""
    env: Any = cell.env
    if not hasattr(env, "sizes"):  # a control task, or a plugin without sizes
        return _PROCESS
    horizon, n_states, n_actions = env.sizes
    if hasattr(env, "n_intermediate"):  # a network MDP: at most three moves per agent from a node
        moves = (3 * (env.n_intermediate + 2)) ** env.n_agents
        lists = _MIXTURE * moves * (1 + 2 * env.n_agents)
        return _PROCESS + float(_NUMBER * (lists + 2 * horizon * n_states * n_actions))
    layers = 1 if getattr(env, "stationary", False) else horizon
    features = _MIXTURE * getattr(env, "n_features", 0)  # of a linear mixture MDP
    return _PROCESS + float(_NUMBER * (_TABLES * layers + features) * n_states**2 * n_actions)


def run_bytes(cell: Experiment) -> float:
    """Estimate the bytes that a process needs to run the cell, one seed after another."""
    needed = build_bytes(cell)
    if cell.algorithm.releases == "gradients":
        return needed + 3.0 * _NUMBER * cell.episodes
    sizes = getattr(cell.env, "sizes", None)
    if sizes is None or cell.algorithm.releases != "counts":
        return needed
    horizon, n_states, n_actions = sizes
    layers = 1 if getattr(cell.algorithm, "stationary", False) else horizon
    known = getattr(cell.algorithm, "known_transitions", False)
    following = getattr(cell.env, "n_successors", n_states) if known else n_states
    n_cells = int(layers * n_states * n_actions * (following + 2))
    copies = _COUNTS if cell.privacy.model != "none" else _COUNTS // 2
    needed += _NUMBER * copies * n_cells
    if isinstance(cell.privacy, CountPrivacy):
        streams, schedule = Streams(cell.seed, "memory", cell.noise), getattr(cell.algorithm, "growth", None)
        growth = schedule(cell.episodes) if schedule else 0.0
        with suppress(ValueError):  # settings that do not fit together are refused elsewhere
            made = cell.privacy.build(families_of_size(*sizes), cell.episodes - 1, streams, growth=growth)
            needed += 2.0 * made.query.counter.memory(n_cells)
    return float(needed + _NUMBER * cell.seeds * horizon * n_states * n_actions)


def require_memory(cells: Sequence[Experiment], *, run: bool, here: bool = True) -> None:
    """Raise UserError for a cell that needs more memory than its `memory`, or than this machine if it runs `here`."""
    available = machine_bytes() if here else float("inf")
    for i, cell in enumerate(cells):
        needed = run_bytes(cell) if run else build_bytes(cell)
        if run and here and (cell.memory or 0.0) * GB > available:
            rule = f"must be at most {available / GB:.3g} GB, the free memory of this machine"
            raise broken_rule("memory", rule, cell.memory, "lower it, or free memory")
        limit = available if cell.memory is None else min(cell.memory * GB, available)
        if needed <= limit:
            continue
        limited = limit != available
        where = "its `memory` allows" if limited else "this machine has"
        more = "more `memory`" if limited else "a larger machine"
        raise UserError(
            f"{labels_of(cells)[i]}: memory: the cell needs about {needed / GB:.3g} GB, more than the "
            f"{limit / GB:.3g} GB that {where}; choose a smaller environment, another privacy.counter, fewer episodes "
            f"or {more}"
        )


def seeds_at_once(cell: Experiment, cpus: int) -> int:
    """Return how many seeds of a cell can learn at once on threads: at most one per CPU, and as many as memory allows.

    Only compiled loops run at once: plugins and Gymnasium environments are Python code that may share state. Seeds with
    noise from the operating system run one after another: a cell keeps the journal of one interrupted seed.
    """
    ours = type(cell.algorithm).__module__.startswith("dprl.") and not hasattr(cell.algorithm, "source")
    if not ours or cell.algorithm.plays is ControlTask or not cell.resumable:
        return 1
    limit = machine_bytes() if cell.memory is None else min(cell.memory * GB, machine_bytes())
    fitting = (limit - _PROCESS) // max(run_bytes(cell) - _PROCESS, 1.0)
    return max(1, min(cpus, cell.seeds, int(fitting)))


def machine_bytes() -> float:
    """Return the free bytes that a process can have on this machine, within container and ulimit."""
    found = [1024.0 * (_number(Path("/proc/meminfo"), "MemAvailable:", "kB") or 2.0**53)]
    allowed = resource.getrlimit(resource.RLIMIT_AS)[0]
    if allowed != resource.RLIM_INFINITY:
        found.append(float(allowed))
    group = Path("/sys/fs/cgroup")
    limit, used = (_number(group / name) for name in ("memory.max", "memory.current"))
    if limit is not None:
        # The container's file cache is freed when memory is needed.
        cached = _number(group / "memory.stat", "inactive_file") or 0.0
        found.append(limit - max((used or 0.0) - cached, 0.0))
    return min(found)


def _number(file: Path, key: str = "", unit: str = "") -> float | None:
    """Return the number between `key` and `unit` on a line of a file; None without one."""
    try:
        lines = file.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    for line in lines:
        value = line.removeprefix(key).removesuffix(unit).strip()
        if line.startswith(key) and value.isdigit():
            return float(value)
    return None
