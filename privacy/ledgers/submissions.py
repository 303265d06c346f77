"""A ledger for agents that submit in any order, each up to a cap that is fixed before the first submission.

Submission (r - 1) n_agents + a is the r-th submission of agent a. The ledger keeps ranges of these numbers: agents who
submit in turn cost no memory, and a lease on many submissions is charged as one range.
"""

from __future__ import annotations

import hashlib
import operator
from bisect import bisect_left
from collections.abc import Iterable
from threading import Lock
from typing import NoReturn, Protocol

import numpy as np
import numpy.typing as npt

from dprl.privacy.base import Int64Array, LedgerError, Scope, TrustModel
from dprl.privacy.ledgers.ledger import Account, Release
from dprl.privacy.ledgers.ranges import RangeSet
from dprl.privacy.randomness.streams import noise_identity
from dprl.privacy.states import check_arrays


class Journal(Protocol):
    """Where charges survive a crash; see journal.py for one in a file. It must not call the ledger."""

    def recorded(self, terms: str, n_agents: int) -> RangeSet:
        """Return the submissions that are in it; reads only.

        Raises LedgerError if it was written for other terms or agents.
        """

    def begin(self, terms: str, n_agents: int) -> RangeSet:
        """Take it for writing, before the first charge, and return what `recorded` does: others may have written."""

    def write(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Write that submissions first..last of each range are charged: all or nothing.

        Returns when it is where it survives; raises LedgerError if it is not.
        """


class SubmissionLedger(Account):
    """All releases of agents 1..n_agents, who submit in any order, each at most `submissions` times.

    *Formal guarantee.* All submissions of one agent together, to every release each, are charged as `submissions` fold
    adaptive composition, whether the agent uses its cap or not. The cap is fixed beforehand, so it does not matter if
    data decide who submits when.

    A submission is charged before anything of it is released: `charge_range` and `charge_all` first write to the
    journal, then count, then return. If the journal raises, nothing is counted and nothing may be released; the next
    attempt gets the same numbers. A submission that was journaled and then lost stays charged: with a journal the
    ledger starts from what is written there.

    Args:
        trust_model: what the releases make it.
        releases: every submission takes part in each of them.
        scope: whom and what the guarantee speaks of.
        n_agents: how many agents there are.
        submissions: the cap T of each agent.
        journal: where charges are written before they count; None for runs whose agents are simulated.
    """

    def __init__(
        self,
        trust_model: TrustModel,
        releases: Iterable[Release],
        scope: Scope,
        n_agents: int,
        submissions: int,
        journal: Journal | None = None,
    ) -> None:
        super().__init__(trust_model, releases, scope, operator.index(submissions))
        if n_agents < 1:
            raise LedgerError(f"n_agents must be at least 1, got {n_agents}; nobody needs no ledger")
        self._journal = journal
        self._writing = journal is None
        self._loadable = True
        self._n_agents = operator.index(n_agents)
        self._ranges = RangeSet()
        if journal is not None:
            self._include(journal.recorded(self.terms, n_agents))
        # Of two charges at the same time both could be the last one.
        self._lock = Lock()

    @property
    def n_agents(self) -> int:
        """How many agents there are."""
        return self._n_agents

    @property
    def users_charged(self) -> int:
        """How many agents have been charged at least once."""
        return sum(min(last, self._n_agents) - first + 1 for first, last in self.ranges if first <= self._n_agents)

    @property
    def charged(self) -> int:
        """How many submissions are charged in all."""
        return self._ranges.size

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """All charged submissions as ranges (first, last), ascending; one range from 1 on if agents submit in turn."""
        return self._ranges.ranges

    @property
    def submitted(self) -> Int64Array:
        """How many submissions each agent has been charged for, a copy: int64[n_agents]."""
        found = np.zeros(self._n_agents, dtype=np.int64)
        for first, last in self.ranges:
            (rounds, start), (end, stop) = divmod(first - 1, self._n_agents), divmod(last, self._n_agents)
            found += end - rounds
            found[:start] -= 1
            found[:stop] += 1
        return found

    @property
    def terms(self) -> str:
        """A digest of what agents are charged for: trust model, releases, neighbours, cap and number of agents."""
        return hashlib.blake2b(self._terms().tobytes() + str(self.n_agents).encode(), digest_size=16).hexdigest()

    def charge(self, agent: int) -> int:
        """Charge agent `agent` (1-based) for one submission, before it is released; return its number, from 1 on.

        An agent's numbers never repeat, so (agent, number) may name the noise of a submission.

        Raises:
            LedgerError: if the agent has submitted as often as it may, or the journal cannot be written.
            ValueError: if there is no such agent.
        """
        return int(self.charge_all(np.array([operator.index(agent)], dtype=np.int64))[0])

    def charge_all(self, agents: npt.ArrayLike) -> Int64Array:
        """Charge agents int64[k] (1-based, one may be there more than once) for a submission each: all or nobody.

        Returns the submissions' numbers int64[k]; see `charge`.
        """
        charged = np.asarray(agents)
        if charged.ndim != 1 or charged.dtype.kind not in "iu":
            raise ValueError(f"agents must be whole numbers in one row, got {charged.dtype} {charged.shape}; list them")
        charged = charged.astype(np.int64)
        if charged.shape[0] == 0:
            return charged
        wrong = charged[(charged < 1) | (charged > self.n_agents)]
        if wrong.shape[0]:
            raise ValueError(f"agent must lie in 1..{self.n_agents}, got {wrong[0]}; build the ledger for more agents")
        with self._lock:
            self._begin()
            numbers: Int64Array = np.array([self._count(agent) for agent in charged.tolist()]) + 1 + _earlier(charged)
            late = charged[numbers > self.submissions]
            if late.shape[0]:
                raise LedgerError(
                    f"agent {late[0]} cannot submit: all of its {self.submissions} submissions are charged"
                )
            self._write(_runs((numbers - 1) * self._n_agents + charged))
        return numbers

    def charge_range(self, first: int, last: int) -> None:
        """Charge submissions first..last (inclusive), before they are released: all or none of them.

        Raises:
            LedgerError: if one of them is charged already or exceeds the cap, an agent would leave out one of its
                numbers, or the journal cannot be written.
        """
        first, last = operator.index(first), operator.index(last)
        with self._lock:
            self._begin()
            if not 1 <= first <= last <= self._n_agents * self.submissions:
                raise LedgerError(
                    f"submissions {first}..{last} cannot be charged: {self._n_agents} agents submit {self.submissions} "
                    "times at most; build for more submissions"
                )
            again = self._ranges.first_common(first, last)
            if again is not None:
                raise LedgerError(f"submission {again} cannot be charged: it is charged already")
            if not self._ranges.covers(max(1, first - self._n_agents), min(first - 1, last - self._n_agents)):
                raise LedgerError(
                    f"submissions {first}..{last} cannot be charged: an agent would leave out an earlier one"
                )
            self._write([(first, last)])

    def begin(self) -> None:
        """Take the journal for writing and count what others have written there; done by the first charge otherwise."""
        with self._lock:
            self._begin()

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return what was charged: 'submitted' int64[n_agents], and 'terms', a digest of what it was charged for."""
        return {"submitted": self.submitted, "terms": self._terms()}

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        """Continue from `state_dict`, in a ledger that has charged nothing yet; nothing is journaled.

        A state that is older than the last charge would let agents submit once more than they may, under the noise of
        earlier submissions: with a journal, what is written there counts, too.

        Raises:
            LedgerError: if this ledger has charged agents.
            ValueError: if the state is of other releases, another cap or other agents.
        """
        if not self._loadable:
            raise LedgerError(f"{self.users_charged} agents are charged here already; load into a new ledger")
        check_arrays(state, self.state_dict())
        if not np.array_equal(state["terms"], self._terms()):
            raise ValueError("the state is of other releases, neighbours or cap; resume with the same settings")
        self._include(_first_submissions(state["submitted"], self.submissions))

    def __reduce__(self) -> NoReturn:
        # Each of two copies would let every agent submit as often as it may.
        raise LedgerError("a ledger of submissions cannot be copied or pickled; continue from state_dict")

    def _begin(self) -> None:
        self._require_own_process()
        if not self._writing and self._journal is not None:
            self._include(self._journal.begin(self.terms, self._n_agents))
            self._writing = True

    def _write(self, ranges: list[tuple[int, int]]) -> None:
        """Charge ranges: in the journal first, then here."""
        if self._journal is not None:
            self._journal.write(ranges)
        for first, last in ranges:
            self._ranges.add(first, last)
        self._loadable = False

    def _count(self, agent: int) -> int:
        """Return how many submissions an agent is charged for; they are its first ones."""
        rounds = range(self.submissions)
        return bisect_left(rounds, True, key=lambda r: not self._is_charged(r * self._n_agents + agent))

    def _is_charged(self, submission: int) -> bool:
        return self._ranges.covers(submission, submission)

    def _include(self, charged: RangeSet) -> None:
        """Count what was charged elsewhere, too."""
        most = self._n_agents * self.submissions
        if charged.last > most:
            raise ValueError(f"submissions must lie in 1..{most}, got {charged.last}; start anew")
        self._ranges.update(charged)

    def _terms(self) -> np.ndarray:
        # Not the rest of the scope: other words for the same must not part a run from its journal.
        releases = [
            noise_identity(release.channel, release.mechanism, release.sensitivity, release.cells, release.entropy)
            for release in self.releases
        ]
        terms = noise_identity(self.trust_model, *releases, self.scope.adjacency, self.submissions)
        return np.frombuffer(hashlib.blake2b(terms.encode()).digest(), dtype=np.uint8)


def _earlier(agents: Int64Array) -> Int64Array:
    """Return how often each agent is there before, int64[k]."""
    if agents.shape[0] == 1 or np.all(agents[1:] > agents[:-1]):
        return np.zeros(agents.shape[0], dtype=np.int64)
    order = np.argsort(agents, kind="stable")
    _, starts, counts = np.unique(agents[order], return_index=True, return_counts=True)
    earlier = np.empty_like(agents)
    earlier[order] = np.arange(agents.shape[0]) - np.repeat(starts, counts)
    return earlier


def _runs(submissions: Int64Array) -> list[tuple[int, int]]:
    """Return submissions as ranges, each as long as they follow one another."""
    breaks = np.flatnonzero(np.diff(submissions) != 1) + 1
    starts, stops = [0, *breaks.tolist()], [*breaks.tolist(), submissions.shape[0]]
    return [(int(submissions[i]), int(submissions[j - 1])) for i, j in zip(starts, stops, strict=True)]


def _first_submissions(submitted: Int64Array, cap: int) -> RangeSet:
    """Return the submissions of agents who have made so many each, int64[n_agents]."""
    if submitted.min() < 0 or submitted.max() > cap:
        raise ValueError(f"submitted must lie in 0..{cap}, got {submitted}; start anew")
    found = RangeSet()
    for number in range(int(submitted.max())):
        agents = np.flatnonzero(submitted > number) + 1
        for first, last in _runs(number * submitted.shape[0] + agents):
            found.add(first, last)
    return found
