"""What passes between the aggregator and the agents of private gradient collection.

Any learner that turns parameters into a gradient on the agents' side fits in: it is a LocalAgents. Everything else, who
is asked when and what becomes of the messages, is the same for all of them.

Paper: [OT20] sec. 3.1.1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from dprl.algorithms.base import Float64Array, Int64Array
from dprl.privacy import Lease, PrivateMessages


@dataclass(frozen=True, eq=False)
class Batch:
    """Step 1, deliver: what a few agents get. All of it is public.

    Args:
        lease: whose submissions they are; charged already.
        slots: int64[k], consecutive: the places in the order of application that the messages will take, from 1 on.
        parameters: float64[v, d], the versions that these agents need.
        version: int64[k], the row of `parameters` that each of them starts from.
    """

    lease: Lease
    slots: Int64Array
    parameters: Float64Array = field(repr=False)
    version: Int64Array = field(repr=False)


@dataclass(frozen=True, eq=False)
class Reply:
    """Step 3, report: all that comes back from the agents of a batch.

    Args:
        messages: one for each submission of the lease, in its order.
        scores: float64[k], the raw scores, only where a simulation reads them; its certificate then says so.
    """

    messages: PrivateMessages
    scores: Float64Array | None = field(default=None, repr=False)


class Answer(NamedTuple):
    """What became of a batch: a reply, or None if it is lost.

    slots: int64[k], which places it was to fill.
    """

    slots: Int64Array
    reply: Reply | None


class LocalAgents(Protocol):
    """The agents' side of a learner: steps 2 and 3, local update and private report.

    *Formal guarantee.* That of the sender of which it is built; gradients and trajectories stay inside.
    """

    @property
    def n_parameters(self) -> int:
        """d, of the parameters and of the gradients."""

    def report(self, batch: Batch) -> Reply:
        """Let every agent of the batch update locally, and return their private messages."""


class Runners(Protocol):
    """Any number of places with agents, asked one batch at a time; what they send comes in any order, or is lost."""

    def free(self) -> dict[int, int]:
        """Return how many batches each runner with room for another one has, idle runners first."""

    def send(self, runner: int, batch: Batch) -> None:
        """Let a runner play a batch."""

    def answers(self) -> list[Answer]:
        """Wait until a batch is played or lost; return all that are, each batch once."""

    def restore(self) -> list[int]:
        """Take back runners that were started again, and return them."""

    def abandon(self) -> None:
        """Forget all batches that are under way: their replies will not be taken."""
