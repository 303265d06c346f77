"""Loops and plans count no references to their arrays (see `no_alloc_kernel`): they must not leak memory."""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

from dprl.privacy import CountPrivacy
from dprl.privacy.counters import COUNTERS
from tests.algorithms.cases import GROWTHS, ONLINE, PRACTICAL, PRIVACY, Environments, Learner
from tests.grids import every_pair

# Numba's counts of allocations and frees in compiled code, which have no public name.
MEMORY: Any = importlib.import_module("numba.core.runtime._nrt_python")
SAMPLED = "sampled_optimized_unary_encoding"
# The other branches of the exchange: every counter and reports of bits.
OTHERS: list[Any] = [
    *(CountPrivacy("jdp", 20.0, delta=1e-6, counter=counter, families="one_hot") for counter in COUNTERS),
    CountPrivacy("ldp", 20.0, mechanism="sampled_direct_encoding", families="one_hot"),
    CountPrivacy("ldp", 20.0, mechanism=SAMPLED, families="one_hot"),
]


@pytest.fixture(autouse=True)
def _counted_allocations() -> Iterator[None]:
    MEMORY.memsys_enable_stats()
    gc.disable()  # it could free memory of other tests
    yield
    gc.enable()
    MEMORY.memsys_disable_stats()


def title(settings: Any) -> str:
    return " ".join(str(getattr(settings, name, "")) for name in ("model", "counter", "mechanism"))


def kept() -> tuple[int, int]:
    """Numbers of memory blocks and arrays that compiled code has allocated and not freed."""
    blocks = MEMORY.memsys_get_stats_alloc() - MEMORY.memsys_get_stats_free()
    return blocks, MEMORY.memsys_get_stats_mi_alloc() - MEMORY.memsys_get_stats_mi_free()


def arrays(part: Any) -> list[np.ndarray]:
    """The arrays of nested tuples, in order."""
    if isinstance(part, tuple):
        return [array for each in part for array in arrays(each)]
    return [part] if isinstance(part, np.ndarray) else []


def references(parts: tuple[Any, ...]) -> list[int]:
    return [sys.getrefcount(array) for array in arrays(parts)]


@pytest.mark.parametrize(
    ("name", "privacy", "growth"),
    [*every_pair(ONLINE, PRIVACY, GROWTHS), *product(["private_ucb_vi"], OTHERS, GROWTHS)],
    ids=lambda value: title(value) if hasattr(value, "model") else None,
)
def test_loops_and_plans_leave_no_memory_behind(
    privacy: Any, name: str, growth: float, learner: Learner, envs: Environments[Any]
) -> None:
    algorithm: Any = learner(envs.small, 2200, privacy, name=name, replan_growth=growth, **PRACTICAL)
    algorithm.learn(100)  # one-time allocations happen here
    lent = algorithm._simulator, algorithm.privatizer.channel, algorithm._bonus, algorithm._tables, algorithm._schedule
    assert len(arrays(lent)) > 20
    memory, counted = kept(), references(lent)
    algorithm.learn(2000)
    assert kept() == memory
    assert references(lent) == counted
    for _ in range(50):
        algorithm.plan(algorithm.privatizer.release())
        algorithm._plan(algorithm.privatizer.release(), algorithm._tables)
    assert kept() == memory
    assert references(lent) == counted
