"""Step 4, aggregate: messages become parameters.

Parameters depend on agents only through their messages.

Paper: [OT20] eq. (22) and Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from dprl.algorithms.base import Float64Array, Int64Array, check_number
from dprl.algorithms.pgc.base import Batch
from dprl.algorithms.pgc.schedule import Schedule, last_startable
from dprl.compiled import kernel, no_alloc_kernel
from dprl.privacy import PrivateMessages, SubmissionRange
from dprl.privacy.checkpoints import check_arrays
from dprl.privacy.ranges import RangeSet

_T = TypeVar("_T")
_Accept = Callable[..., Float64Array]

APPLIED, UPDATES = range(2)


class StepRule(NamedTuple):
    """Step size of an update, computed from public numbers.

    Args:
        learning_rate: eta of eq. (22).
        halving: submissions until the step size has halved, eta / (1 + n / halving); 0 keeps it constant, as printed.
    """

    learning_rate: float
    halving: float = 0.0

    def checked(self) -> StepRule:
        """Return this rule; raise ValueError if its numbers are out of range."""
        check_number("learning_rate", self.learning_rate, 0.0)
        check_number("halving", self.halving, 0.0)
        return self


class AggregatorState(NamedTuple):
    """The aggregator for kernels: its settings, and its state, all of it post-processing of messages.

    versions float64[R, d]: the parameters after update u at row u mod R; buffer_sum float64[d]: the sum of the
    estimates in the buffer B; counts int64[2]: applied messages and updates. estimate float64[d]: workspace of a loop.
    """

    schedule: Schedule
    step: StepRule
    versions: Float64Array
    buffer_sum: Float64Array
    counts: Int64Array
    estimate: Float64Array

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays that change, by name; resuming writes into them."""
        return {name: getattr(self, name) for name in ("versions", "buffer_sum", "counts")}


def aggregator_state(schedule: Schedule, step: StepRule, parameters: Float64Array) -> AggregatorState:
    """Return the state before the first message, with the initial `parameters` float64[d]."""
    versions = np.tile(np.asarray(parameters, dtype=np.float64), (schedule.versions_kept, 1))
    buffer_sum, estimate = np.zeros_like(versions[0]), np.zeros_like(versions[0])
    return AggregatorState(schedule, step, versions, buffer_sum, np.zeros(2, dtype=np.int64), estimate)


def latest_parameters(state: AggregatorState) -> Float64Array:
    """Return the parameters float64[d] after the last update, a view."""
    version: Float64Array = state.versions[state.counts[UPDATES] % state.versions.shape[0]]
    return version


@no_alloc_kernel
def _step_size(state: AggregatorState) -> float:
    """Return the step size of the update that the last applied message completes."""
    rule = state.step
    step = rule.learning_rate
    if rule.halving > 0.0:
        step /= 1.0 + state.counts[APPLIED] / rule.halving
    return step


@no_alloc_kernel
def aggregate(state: AggregatorState, estimate: Float64Array) -> None:
    """Add the estimate float64[d] of the next message to the buffer; if it is full, update and clear it.

    Paper: [OT20] eq. (22).
    """
    schedule = state.schedule
    counts, buffer_sum, versions = state.counts, state.buffer_sum, state.versions
    for j in range(buffer_sum.shape[0]):
        buffer_sum[j] += estimate[j]
    counts[APPLIED] += 1
    if counts[APPLIED] % schedule.buffer_size == 0:
        step = _step_size(state)
        old, new = versions[counts[UPDATES] % versions.shape[0]], versions[(counts[UPDATES] + 1) % versions.shape[0]]
        for j in range(buffer_sum.shape[0]):
            new[j] = old[j] - step * (buffer_sum[j] / schedule.buffer_size)
            buffer_sum[j] = 0.0
        counts[UPDATES] += 1


@kernel
def _aggregate_all(state: AggregatorState, estimates: Float64Array) -> None:
    """Aggregate the estimates float64[k, d] of the next k messages, one after the other."""
    for i in range(estimates.shape[0]):
        aggregate(state, estimates[i])


class ReorderBuffer(Generic[_T]):
    """Buffer that releases blocks of consecutive slots in order.

    Args:
        taken: slots 1..taken were released before.
    """

    def __init__(self, taken: int = 0) -> None:
        self.taken = taken
        self._filled = RangeSet()
        self._filled.add(1, taken)
        self._waiting: dict[int, tuple[int, _T]] = {}

    def has(self, first: int, last: int) -> bool:
        """Return whether one of the slots first..last was filled before."""
        return self._filled.first_common(first, last) is not None

    def put(self, first: int, last: int, block: _T) -> list[_T]:
        """Fill slots first..last with a block; return all blocks that are next, in order."""
        self._filled.add(first, last)
        self._waiting[first] = last, block
        ready: list[_T] = []
        while self.taken + 1 in self._waiting:
            self.taken, following = self._waiting.pop(self.taken + 1)
            ready.append(following)
        return ready


@dataclass(frozen=True)
class AggregatorConfig:
    """Settings of an aggregator, all public and fixed before the first message.

    Args:
        schedule: the starting parameters of each agent.
        step: the step size of updates.
        summed: whether a trusted server adds up the messages of each update; they are then read all at once.
    """

    schedule: Schedule
    step: StepRule
    summed: bool = False


class Aggregator:
    """Aggregator of messages that arrive in batches, in any order.

    It accepts PrivateMessages only. In a compiled loop the kernels above do the same.

    Args:
        rules: see `AggregatorConfig`. parameters: float64[d], the initial ones.
        accept: reads messages, each of them once; `Privatizer.accept`.
    """

    def __init__(self, rules: AggregatorConfig, parameters: Float64Array, accept: _Accept) -> None:
        self.rules = rules
        self._accept = accept
        self._state = aggregator_state(rules.schedule, rules.step, parameters)
        self._clear(0)

    def _clear(self, applied: int) -> None:
        """Drop the messages that wait for earlier slots or for the rest of their sum."""
        self._arrived: ReorderBuffer[PrivateMessages] = ReorderBuffer(applied)
        self._parts: list[PrivateMessages] = []

    @property
    def parameters(self) -> Float64Array:
        """The parameters after the last update, a copy float64[d]."""
        return latest_parameters(self._state).copy()

    @property
    def applied(self) -> int:
        """Number of applied messages."""
        return int(self._state.counts[APPLIED])

    @property
    def updates(self) -> int:
        """Number of updates."""
        return int(self._state.counts[UPDATES])

    def startable(self, begun: int) -> int:
        """Return how many slots can begin after slots 1..begun."""
        return last_startable(self.rules.schedule, self.applied) - begun

    def batch(self, lease: SubmissionRange, slots: Int64Array) -> Batch:
        """Return the batch for the agents of a lease, for consecutive startable slots int64[k]."""
        schedule, versions = self.rules.schedule, self._state.versions
        wanted = np.maximum(0, slots - 1 - schedule.staleness) // schedule.buffer_size
        needed = np.arange(wanted[0], wanted[-1] + 1)
        return Batch(lease, slots, versions[needed % versions.shape[0]], wanted - wanted[0])

    def receive(self, slots: Int64Array, messages: PrivateMessages) -> None:
        """Take the messages for consecutive slots int64[k]; apply the next ones in order.

        Raises TypeError for anything but PrivateMessages, ValueError for a filled slot.
        """
        if type(messages) is not PrivateMessages:
            raise TypeError(f"messages must be PrivateMessages, got {type(messages).__name__}; send them by a client")
        first, last = int(slots[0]), int(slots[-1])
        if not len(slots) == len(messages) == last - first + 1:
            raise ValueError(f"slots must be consecutive, one for each of {len(messages)} messages, got {len(slots)}")
        if self._arrived.has(first, last):
            raise ValueError(f"slots must be filled once, got one of {first}..{last} again; give each message its own")
        for block in self._arrived.put(first, last, messages):
            self._parts.append(block)
            if not self.rules.summed or sum(map(len, self._parts)) == self.rules.schedule.buffer_size:
                parts, self._parts = self._parts, []
                _aggregate_all(self._state, self._accept(*parts))

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return the state for resuming; waiting messages count as lost."""
        return {name: array.copy() for name, array in self._state.arrays.items()}

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        """Continue from `state_dict`. Raises ValueError if it is of another shape."""
        own = self._state.arrays
        check_arrays(state, own)
        for name, array in own.items():
            array[:] = state[name]
        self._clear(self.applied)
