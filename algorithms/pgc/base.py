"""Messages and interfaces between the aggregator and the agents of private gradient collection.

An algorithm implements LocalAgents. Scheduling and aggregation are the same for all algorithms.

Paper: [OT20] sec. 3.1.1.
"""

# [OT20] sec. 3.1.1, each step -> the function that does it, of this file if no other is named.
#  1  the aggregator delivers theta to agents      -> algorithms/pgc/aggregator.py::Aggregator.batch, by
#                                                     algorithms/pgc/collector.py::Collector._dispatch
#  2  an agent sets theta' = theta and updates it  -> LocalAgents._gradients
#  3  it reports its gradient with noise           -> LocalAgents.report, by
#                                                     privacy/queries/gradient_client.py::GradientClient.send
#  4  the aggregator updates theta by reports only -> algorithms/pgc/aggregator.py::aggregate
#     each agent submits once                      -> privacy/privatizer.py::Privatizer.lease
#     until N submissions are received             -> algorithms/pgc/collector.py::Collector.until

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from dprl.algorithms.base import Float64Array, Int64Array
from dprl.privacy import GradientClient, PrivateMessages, SubmissionRange


@dataclass(frozen=True, eq=False)
class Batch:
    """Step 1, deliver: public input of a few agents.

    Args:
        lease: their submissions, already charged.
        slots: int64[k], consecutive: positions of the messages in the order of application, from 1 on.
        parameters: float64[v, d], the versions that these agents start from.
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


class BatchOutcome(NamedTuple):
    """Outcome of a batch: its slots int64[k], and the reply, or None if the batch is lost."""

    slots: Int64Array
    reply: Reply | None


class LocalAgents(ABC):
    """The agents' side of an algorithm: steps 2 and 3, local update and private report.

    *Formal guarantee.* The client's: gradients and trajectories stay inside.

    Args:
        client: turns gradients into private messages.
        shows_scores: whether a simulation reads the raw scores; its certificate then says so.
    """

    def __init__(self, client: GradientClient, *, shows_scores: bool) -> None:
        self._client, self._shows_scores = client, shows_scores

    @abstractmethod
    def _gradients(self, batch: Batch) -> tuple[Float64Array, Float64Array]:
        """Let every agent of the batch play; return gradients float64[k, d] and scores float64[k]."""

    def report(self, batch: Batch) -> Reply:
        """Let every agent of the batch update locally, and return their private messages."""
        gradients, scores = self._gradients(batch)
        return Reply(self._client.send(batch.lease, gradients), scores if self._shows_scores else None)


class Runners(Protocol):
    """Processes that play batches. Replies come in any order, and may be lost."""

    def free(self) -> dict[int, int]:
        """Return each runner with room for a batch and its number of queued batches, idle runners first."""

    def send(self, runner: int, batch: Batch) -> None:
        """Let a runner play a batch."""

    def outcomes(self) -> list[BatchOutcome]:
        """Wait until a batch is played or lost; return all such batches, each once."""

    def restore(self) -> list[int]:
        """Take back restarted runners, and return them."""

    def abandon(self) -> None:
        """Drop all pending batches and their replies."""
