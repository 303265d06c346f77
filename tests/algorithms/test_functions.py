"""Algorithms that are one Python function: its input, its possible results, and how changes of it are detected."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dprl.algorithms import ALGORITHMS
from dprl.algorithms.tabular.functions import PrivateCounts, algorithm_of
from dprl.envs import FiniteMDP
from dprl.platform.plugins import register_function
from dprl.privacy import CountPrivacy
from tests.algorithms.cases import TRUST, Learner, same_state

SEEN: list[PrivateCounts] = []
RETURNS: list[Any] = []


def wrong(counts: PrivateCounts) -> Any:
    return np.asarray(RETURNS[0](counts))


def tiny_ucb(counts: PrivateCounts, *, width: float = 0.03, mixed: bool = False) -> Any:
    """Optimistic value iteration in plain NumPy."""
    SEEN.append(counts)
    horizon, n_states, _, _ = counts.transitions.shape
    visits = np.maximum(1.0, counts.visits + 0.03 * counts.error)
    values, table = np.zeros(n_states), np.zeros(visits.shape)
    for h in reversed(range(horizon)):
        q = (counts.rewards[h] + counts.transitions[h] @ values) / visits[h] + width * horizon / np.sqrt(visits[h])
        table[h] = np.clip(q, 0.0, horizon - h)
        values = table[h].max(axis=1)
    actions = table.argmax(axis=2)
    return 0.9 * np.eye(visits.shape[2])[actions] + 0.1 / visits.shape[2] if mixed else actions


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    SEEN.clear()
    register_function(tiny_ucb)
    yield
    ALGORITHMS.pop("tiny_ucb")


@TRUST
def test_it_learns_from_released_counts_in_blocks(privacy: Any, learner: Learner, river: FiniteMDP) -> None:
    run: Any = learner(river, 10**8, privacy, name="tiny_ucb", width=0.3)
    assert run.privatizer.in_blocks
    first = run.learn(100)["regret"] / 100
    run.learn(10**8 - 200)
    # Sampled local reports leave it at 0.62 for any epsilon: rare counts of one step in H are too noisy for it.
    assert run.learn(100)["regret"] / 100 < 0.7 * first
    last = SEEN[-1]
    released = run.privatizer.release().values.reshape(river.horizon, river.n_states + 2, river.n_states, -1)
    assert np.array_equal(last.visits, released[:, river.n_states])
    assert np.array_equal(last.rewards, released[:, river.n_states + 1])
    assert np.array_equal(last.transitions[1, 2, 0], released[1, : river.n_states, 2, 0])
    assert last.error == max(run.privatizer.precision(0.05).values())


def at_random(counts: PrivateCounts) -> Any:
    return counts.generator.integers(0, 2, size=counts.visits.shape[:2])


@pytest.mark.parametrize("simulation", ["users", "blocks"])
def test_every_run_has_draws_of_its_own_and_a_resumed_one_goes_on_with_them(
    simulation: str, learner: Learner, river: FiniteMDP
) -> None:
    def fresh(seed: int) -> Any:
        return learner(river, 300, CountPrivacy("jdp", 5.0), name="at_random", seed=seed, simulation=simulation)

    register_function(at_random)
    try:
        first, same, cut, other = (fresh(seed) for seed in (0, 0, 0, 1))
        plans = []
        for run in (first, same, cut, other):
            plans.append([run.policy])
            for _ in range(3):
                run.learn(50)
                plans[-1].append(run.policy)
        resumed = fresh(0)
        resumed.load_state_dict({key: array.copy() for key, array in cut.state_dict().items()})
        for run in (first, resumed):
            run.learn(150)
        assert np.array_equal(plans[0], plans[1])
        assert len({plan.tobytes() for plan in (*plans[0], *plans[3])}) == 8
        assert same_state(first.state_dict(), resumed.state_dict())
    finally:
        ALGORITHMS.pop("at_random")


def test_settings_are_those_of_the_function() -> None:
    config: Any = ALGORITHMS["tiny_ucb"]
    assert config.__doc__ == "Optimistic value iteration in plain NumPy."
    made = config(width=0.5, replan_growth=0.1)
    assert (made.width, made.mixed, made.replan_growth, config().replan_growth) == (0.5, False, 0.1, 0.01)
    assert config().covered_by is None
    with pytest.raises(ValueError, match=r"^source must be [0-9a-f]{12}, .*, got 'x'; omit it$"):
        config(source="x")


@pytest.mark.parametrize(
    ("returned", "rule"),
    [
        (lambda c: c.visits[..., 0].astype(int) * 0 + 7, "must return actions from 0 to 1"),
        (lambda c: c.visits * 0.0, "or probabilities that sum to 1"),
        (lambda c: c.visits[0], r"must return actions, .* \(4, 3\), or probabilities, floats \(4, 3, 2\), got float64"),
        (lambda _: None, "must return actions, integers"),
    ],
)
def test_what_it_returns_is_checked(returned: Any, rule: str, learner: Learner, river: FiniteMDP) -> None:
    RETURNS[:] = [returned]
    register_function(wrong)
    try:
        with pytest.raises(ValueError, match=f"^wrong .*{rule}"):
            learner(river, 50, CountPrivacy("none"), name="wrong")
    finally:
        ALGORITHMS.pop("wrong")


def test_functions_that_do_not_fit_are_refused() -> None:
    def takes_nothing() -> None: ...

    def no_default(counts: PrivateCounts, width: float) -> None: ...

    def a_list(counts: PrivateCounts, widths: object = ()) -> None: ...

    def taken(counts: PrivateCounts, beta: float = 0.1) -> None: ...

    def pucb(counts: PrivateCounts) -> None: ...

    def enclosed(counts: PrivateCounts) -> Any:
        return taken

    refused: list[tuple[Any, str]] = [
        (takes_nothing, "must take the private counts first"),
        (no_default, "^width of no_default must have a name of its own and a default"),
        (a_list, "^widths of a_list must have a name"),
        (taken, "^beta of taken must have a name of its own"),
        (lambda counts: counts, "^an algorithm must be a named function, got '<lambda>'"),
        (enclosed, "^enclosed must not read variables of an enclosing function"),
        (pucb, "^algorithm pucb must have a unique name"),
    ]
    for function, rule in refused:
        with pytest.raises(ValueError, match=rule):
            register_function(function)


OWN = """
import math
scale = 2.0
table = [1.0, 2.0]
table.append(3.0)
def helper(x): return scale * math.sqrt(x)
def own(counts): return helper(table[0])
def other(): return 1
epsilons = [1.0]
sweep = (own, epsilons)
"""


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ("scale = 2.0", "scale  =  2.0  # twice", True),
        ("return 1\n", "return 2\n", True),
        ("epsilons = [1.0]", "epsilons = [1.0, 3.0]", True),
        ("table[0]", "table[1]", False),
        ("scale = 2.0", "scale = 3.0", False),
        ("append(3.0)", "append(4.0)", False),
        ("import math", "import cmath as math", False),
        ("return 1\n", "\n    global scale\n    scale = 1\n", False),
        ("return 1\n", "return globals()\n", False),
    ],
)
def test_another_version_of_what_it_reads_is_another_algorithm(
    tmp_path: Path, before: str, after: str, same: bool
) -> None:
    def source_of(text: str) -> Any:
        file = tmp_path / "own_version.py"
        file.write_text(text)
        spec = importlib.util.spec_from_file_location("own_version", file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
        spec.loader.exec_module(module)
        sys.dont_write_bytecode = before
        config: Any = algorithm_of(module.own)
        return config().source

    assert before in OWN
    assert (source_of(OWN) == source_of(OWN.replace(before, after))) is same
