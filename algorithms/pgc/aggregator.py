"""Rules of private gradient collection, its messages, and the aggregator that turns messages into parameters.

An algorithm has a `LocalUpdate`; all else is the same for all algorithms. Messages are applied in the order of their
slots 1, 2, ... The agent of slot i starts from the parameters after the first max(0, i - 1 - staleness) messages, for
any number of workers and any order of finishing. This rule on public numbers makes parallel and sequential runs equal.

Paper: [OT20] sec. 3.1.1, eq. (22) and Algorithm 1.
"""

# [OT20] sec. 3.1.1, each step -> the function that does it, of this file if no other is named.
#  1  the aggregator delivers theta to agents      -> Aggregator.batch, by
#                                                     algorithms/pgc/collector.py::collect
#  2  an agent sets theta' = theta and updates it  -> LocalUpdate
#  3  it reports its gradient with noise           -> report, by privacy/messages.py::Client.send
#  4  the aggregator updates theta by reports only -> aggregate
#     each agent submits once                      -> privacy/privatizer.py::Privatizer.lease
#     until N submissions are received             -> algorithms/pgc/collector.py::collect

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from dprl.algorithms.base import Float64Array, Int64Array
from dprl.compiled import kernel, no_alloc_kernel
from dprl.envs.checks import require_integer, require_number
from dprl.privacy import Client, PrivateMessages, SubmissionRange
from dprl.privacy.privatizer import check_arrays

LARGEST_STALENESS, LARGEST_BUFFER = 10_000, 100_000
APPLIED, UPDATES = range(2)
_SMALLEST_SCALE = 1e-8


class CollectionRules(NamedTuple):
    """Rules of a collection, all public and fixed before the first message.

    Args:
        staleness: s, the number of messages before its own that an agent does not wait for; 8 with the paper's 9
            threads.
        buffer_size: |B|, messages per update.
        learning_rate: eta of eq. (22).
        halving: submissions until the step size has halved, eta / (1 + n / halving); 0 keeps it constant, as printed.
        summed: whether a trusted server adds up the messages of each update; they are then read all at once.
        momentum: share of the earlier mean in the running mean of gradients, 0 for none.
        scale_memory: the same for squared gradients, by the roots of which steps are divided (Adam); 0 for none.
    """

    staleness: int
    buffer_size: int
    learning_rate: float
    halving: float = 0.0
    summed: bool = False
    momentum: float = 0.0
    scale_memory: float = 0.0

    def checked(self) -> CollectionRules:
        """Return these rules; raise ValueError if a number is out of range."""
        require_integer("staleness", self.staleness, 0, LARGEST_STALENESS)
        require_integer("buffer_size", self.buffer_size, 1, LARGEST_BUFFER)
        require_number("learning_rate", self.learning_rate, 0.0)
        require_number("halving", self.halving, 0.0)
        return self


def require_update(key: str, size: int, episodes: int) -> None:
    """Raise ValueError unless a run of that many episodes makes an update. key: the setting of an update's size."""
    if size > episodes:
        rule = f"{key} must be at most the number of episodes"
        raise ValueError(f"{rule}, got {size} with {episodes}: no update would be made; lower it, or run longer")


@kernel
def version_of(rules: CollectionRules, slot: int) -> int:
    """Return the number of updates in the starting parameters of the agent of `slot`."""
    # D16: sec. 4 applies messages in the order in which nine threads finish; this reveals the lengths of episodes.
    return max(0, slot - 1 - rules.staleness) // rules.buffer_size


@kernel
def last_startable(rules: CollectionRules, applied: int) -> int:
    """Return the last slot that can start after the messages of slots 1..applied."""
    return rules.staleness + (applied // rules.buffer_size + 1) * rules.buffer_size


class AggregatorState(NamedTuple):
    """The aggregator for kernels: its rules, and its state, all of it post-processing of messages.

    versions float64[R, d]: the parameters after update u at row u mod R; buffer_sum float64[d]: the sum of the
    estimates in the buffer B; counts int64[2]: applied messages and updates. estimate float64[d]: workspace of a loop.
    moments float64[2, d]: running means of gradients and of their squares.
    """

    rules: CollectionRules
    versions: Float64Array
    buffer_sum: Float64Array
    counts: Int64Array
    estimate: Float64Array
    moments: Float64Array

    @classmethod
    def first(cls, rules: CollectionRules, parameters: Float64Array) -> AggregatorState:
        """Return the state before the first message, with the initial `parameters` float64[d]."""
        kept = -(-rules.staleness // rules.buffer_size) + 1  # versions that agents may still start from
        versions = np.tile(np.asarray(parameters, dtype=np.float64), (kept, 1))
        zeros = np.zeros((4, versions.shape[1]))
        return cls(rules, versions, zeros[0], np.zeros(2, dtype=np.int64), zeros[1], zeros[2:])

    @property
    def parameters(self) -> Float64Array:
        """The parameters float64[d] after the last update, a view."""
        version: Float64Array = self.versions[self.counts[UPDATES] % self.versions.shape[0]]
        return version

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays that change, by name; resuming writes into them."""
        return {name: getattr(self, name) for name in ("versions", "buffer_sum", "counts", "moments")}


@no_alloc_kernel
def aggregate(state: AggregatorState, estimate: Float64Array) -> None:
    """Add the estimate float64[d] of the next message to the buffer; if it is full, update and clear it.

    Paper: [OT20] eq. (22).
    """
    rules, counts, buffer_sum, versions = state.rules, state.counts, state.buffer_sum, state.versions
    for j in range(buffer_sum.shape[0]):
        buffer_sum[j] += estimate[j]
    counts[APPLIED] += 1
    if counts[APPLIED] % rules.buffer_size == 0:
        step = rules.learning_rate
        if rules.halving > 0.0:
            step /= 1.0 + counts[APPLIED] / rules.halving
        old, new = versions[counts[UPDATES] % versions.shape[0]], versions[(counts[UPDATES] + 1) % versions.shape[0]]
        counts[UPDATES] += 1
        first, second, m, v = state.moments[0], state.moments[1], rules.momentum, rules.scale_memory
        for j in range(buffer_sum.shape[0]):
            gradient = buffer_sum[j] / rules.buffer_size
            first[j] = m * first[j] + (1.0 - m) * gradient
            if v > 0.0:  # Adam, with its corrections of the first means
                second[j] = v * second[j] + (1.0 - v) * gradient**2
                scale = math.sqrt(second[j] / (1.0 - v ** counts[UPDATES])) + _SMALLEST_SCALE
                gradient = first[j] / (1.0 - m ** counts[UPDATES]) / scale
            elif m > 0.0:
                gradient = first[j]
            new[j] = old[j] - step * gradient
            buffer_sum[j] = 0.0


@kernel
def _aggregate_all(state: AggregatorState, estimates: Float64Array) -> None:
    """Aggregate the estimates float64[k, d] of the next k messages, one after the other."""
    for i in range(estimates.shape[0]):
        aggregate(state, estimates[i])


@dataclass(frozen=True, eq=False)
class Batch:
    """Step 1, deliver: public input of a few agents.

    Args:
        lease: their submissions, already charged.
        slots: int64[k], consecutive: positions of the messages in the order of application, from 1 on.
        parameters: float64[v, d], the versions that these agents start from.
        version: int64[k], the row of `parameters` of each agent.
        drawn: int64[k], the agents if a server draws them, 0 for nobody; None for those of the lease.
    """

    lease: SubmissionRange
    slots: Int64Array
    parameters: Float64Array = field(repr=False)
    version: Int64Array = field(repr=False)
    drawn: Int64Array | None = field(default=None, repr=False)

    @property
    def agents(self) -> Int64Array:
        """The agent of each slot, int64[k]."""
        return self.lease.agents if self.drawn is None else self.drawn


Reply = tuple[PrivateMessages, Float64Array | None]
"""Step 3, report: messages, one for each submission of the batch's lease, in its order; and raw scores and numbers of
steps float64[k, 2], only if a simulation reads them: its certificate then says so."""
LocalUpdate = Callable[[Batch], tuple[Float64Array, Float64Array]]
"""Step 2: every agent of the batch plays; gradients float64[k, d], and scores and numbers of steps float64[k, 2], 0 if
an environment failed. All of them stay on their side."""


def report(update: LocalUpdate, batch: Batch, client: Client, *, shows_scores: bool) -> Reply:
    """Let every agent of the batch update locally, and return their private messages.

    shows_scores: whether a simulation reads the raw scores; its certificate then says so.

    *Formal guarantee.* The client's: gradients and trajectories stay inside.
    """
    gradients, scores = update(batch)
    return client.send(batch.lease, gradients), scores if shows_scores else None


class Aggregator:
    """Step 4, aggregate: messages that arrive in batches, in any order, become parameters.

    Parameters depend on agents only through their messages. In a compiled loop the kernels above do the same.

    Args:
        rules: see `CollectionRules`. parameters: float64[d], the initial ones.
        accept: reads messages, each of them once; `Privatizer.accept`.
        on_scores: called with scores and steps float64[k, 2] of the next k slots in order, if agents report them.
    """

    def __init__(
        self,
        rules: CollectionRules,
        parameters: Float64Array,
        accept: Callable[..., Float64Array],
        on_scores: Callable[[Float64Array], None] | None = None,
    ) -> None:
        self.rules = rules
        self._accept, self._on_scores = accept, on_scores
        self.state = AggregatorState.first(rules, parameters)
        self.forget_waiting()

    def forget_waiting(self) -> None:
        """Drop the replies that wait for earlier slots or for the rest of their sum; they count as lost."""
        self._arrived = self.applied
        self._waiting: dict[int, tuple[int, Reply]] = {}  # first slot -> last slot, reply
        self._parts: list[PrivateMessages] = []

    @property
    def parameters(self) -> Float64Array:
        """The parameters after the last update, a copy float64[d]."""
        return self.state.parameters.copy()

    @property
    def applied(self) -> int:
        """Number of applied messages."""
        return int(self.state.counts[APPLIED])

    @property
    def updates(self) -> int:
        """Number of updates."""
        return int(self.state.counts[UPDATES])

    def batch(self, lease: SubmissionRange, slots: Int64Array) -> Batch:
        """Return the batch for the agents of a lease, for consecutive startable slots int64[k]."""
        versions = self.state.versions
        wanted = np.maximum(0, slots - 1 - self.rules.staleness) // self.rules.buffer_size
        needed = np.arange(wanted[0], wanted[-1] + 1)
        return Batch(lease, slots, versions[needed % versions.shape[0]], wanted - wanted[0])

    def receive(self, slots: Int64Array, reply: Reply) -> None:
        """Take the reply for consecutive slots int64[k]; apply all messages that are next, in order.

        Raises TypeError for anything but PrivateMessages, ValueError for a filled slot.
        """
        first, last, messages = int(slots[0]), int(slots[-1]), reply[0]
        if type(messages) is not PrivateMessages:
            raise TypeError(f"messages must be PrivateMessages, got {type(messages).__name__}; send them by a client")
        if not len(slots) == len(messages) == last - first + 1:
            raise ValueError(f"slots must be consecutive, one for each of {len(messages)} messages, got {len(slots)}")
        if first <= self._arrived or any(start <= last and first <= end for start, (end, _) in self._waiting.items()):
            raise ValueError(f"slots must be filled once, got one of {first}..{last} again; give each message its own")
        self._waiting[first] = last, reply
        while self._arrived + 1 in self._waiting:
            self._arrived, (messages, scores) = self._waiting.pop(self._arrived + 1)
            self._parts.append(messages)
            if not self.rules.summed or sum(map(len, self._parts)) == self.rules.buffer_size:
                parts, self._parts = self._parts, []
                _aggregate_all(self.state, self._accept(*parts))
            if self._on_scores is not None and scores is not None:
                self._on_scores(scores)

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return the state for resuming; waiting messages count as lost."""
        return {name: array.copy() for name, array in self.state.arrays.items()}

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        """Continue from `state_dict`. Raises ValueError if it is of another shape."""
        own = self.state.arrays
        check_arrays(state, own)
        for name, array in own.items():
            array[:] = state[name]
        self.forget_waiting()
