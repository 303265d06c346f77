"""Messages and interfaces between the aggregator and the agents of private gradient collection.

A learner implements LocalAgents: it turns parameters into a gradient on the agents' side. Scheduling and aggregation
are the same for all learners.

Paper: [OT20] sec. 3.1.1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from dprl.algorithms.base import Float64Array, Int64Array
from dprl.privacy import PrivateMessages, SubmissionRange


@dataclass(frozen=True, eq=False)
class Batch:
    """Step 1, deliver: public input of a few agents.

    Args:
        lease: their submissions, already charged.
        slots: int64[k], consecutive: positions of the messages in the order of application, from 1 on.
        parameters: float64[v, d], the versions for these agents.
        version: int64[k], the row of `parameters` of each agent.
    """

    lease: SubmissionRange
    slots: Int64Array
    parameters: Float64Array = field(repr=False)
    version: Int64Array = field(repr=False)


@dataclass(frozen=True, eq=False)
class Reply:
    """Step 3, report: output of the agents of a batch.

    Args:
        messages: one for each submission of the lease, in its order.
        scores: float64[k], the raw scores, only if a simulation reads them; its certificate then says so.
    """

    messages: PrivateMessages
    scores: Float64Array | None = field(default=None, repr=False)


class Answer(NamedTuple):
    """Outcome of a batch: a reply, or None if it is lost.

    slots: int64[k], the slots of the batch.
    """

    slots: Int64Array
    reply: Reply | None


class LocalAgents(Protocol):
    """The agents' side of a learner: steps 2 and 3, local update and private report.

    *Formal guarantee.* That of its sender; gradients and trajectories stay inside.
    """

    @property
    def n_parameters(self) -> int:
        """d, of the parameters and of the gradients."""

    def report(self, batch: Batch) -> Reply:
        """Let every agent of the batch update locally, and return their private messages."""


class Runners(Protocol):
    """Any number of runners with agents, asked one batch at a time; replies come in any order, or are lost."""

    def free(self) -> dict[int, int]:
        """Return the number of batches of each runner with room for another one, idle runners first."""

    def send(self, runner: int, batch: Batch) -> None:
        """Let a runner play a batch."""

    def answers(self) -> list[Answer]:
        """Wait until a batch is played or lost; return all of these, each batch once."""

    def restore(self) -> list[int]:
        """Take back restarted runners, and return them."""

    def abandon(self) -> None:
        """Forget all batches under way and drop their replies."""
