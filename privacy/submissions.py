"""A ledger for agents that submit in any order, each up to a cap that is fixed before the first submission."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable, Iterable
from threading import Lock
from typing import NoReturn

import numpy as np

from dprl.privacy.base import Int64Array, LedgerError, Scope, TrustModel
from dprl.privacy.ledger import Account, Release

Journal = Callable[[int, int], None]
"""Called with (agent, number of the submission) before that submission is charged."""


class SubmissionLedger(Account):
    """All releases of agents 1..n_agents, who submit in any order, each at most `submissions` times.

    *Formal guarantee.* All submissions of one agent together, to every release each, are charged as `submissions` fold
    adaptive composition, whether the agent uses its cap or not. The cap is fixed beforehand, so it does not matter if
    data decide who submits when.

    A submission is charged before anything of it is released: `charge` first calls `journal`, then counts, then
    returns. If `journal` raises, nothing is counted and nothing may be released; the next attempt gets the same number,
    so journal what is told, (agent, number), and take the largest number of each agent when reading it back. A
    submission that was journaled and then lost stays charged.

    Args:
        trust_model: what the releases make it.
        releases: every submission takes part in each of them.
        scope: whom and what the guarantee speaks of.
        n_agents: how many agents there are.
        submissions: the cap T of each agent.
        journal: writes a charge to where it survives a crash, and returns when it does; it must not call this ledger.
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
        self._submitted = np.zeros(n_agents, dtype=np.int64)
        # Of two charges at the same time both could be the last one.
        self._lock = Lock()

    @property
    def n_agents(self) -> int:
        """How many agents there are."""
        return self._submitted.shape[0]

    @property
    def users_charged(self) -> int:
        """How many agents have been charged at least once."""
        return int(np.count_nonzero(self._submitted))

    @property
    def submitted(self) -> Int64Array:
        """How many submissions each agent has been charged for, a copy: int64[n_agents]."""
        return self._submitted.copy()

    def charge(self, agent: int) -> int:
        """Charge agent `agent` (1-based) for one submission, before it is released; return its number, from 1 on.

        An agent's numbers never repeat, so (agent, number) may name the noise of a submission.

        Raises:
            LedgerError: if the agent has submitted as often as it may. ValueError: if there is no such agent.
        """
        agent = operator.index(agent)
        if not 1 <= agent <= self.n_agents:
            raise ValueError(f"agent must lie in 1..{self.n_agents}, got {agent}; build the ledger for more agents")
        with self._lock:
            number = int(self._submitted[agent - 1]) + 1
            if number > self.submissions:
                raise LedgerError(f"agent {agent} cannot submit: all of its {self.submissions} submissions are charged")
            if self._journal is not None:
                self._journal(agent, number)
            self._submitted[agent - 1] = number
        return number

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return what was charged: 'submitted' int64[n_agents], and 'terms', a digest of what it was charged for."""
        return {"submitted": self.submitted, "terms": self._terms()}

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        """Continue from `state_dict`, in a ledger that has charged nothing yet; nothing is journaled.

        A state that is older than the last charge would let agents submit once more than they may, under the noise of
        earlier submissions: where there is a journal, raise 'submitted' to its numbers first.

        Raises:
            LedgerError: if this ledger has charged agents.
            ValueError: if the state is of other releases, another cap or other agents.
        """
        if self.users_charged:
            raise LedgerError(f"{self.users_charged} agents are charged here already; load into a new ledger")
        for key, ours in self.state_dict().items():
            if key not in state or state[key].shape != ours.shape or state[key].dtype != ours.dtype:
                raise ValueError(f"the state's {key!r} is missing or of another shape; resume with the same settings")
        if not np.array_equal(state["terms"], self._terms()):
            raise ValueError("the state is of other releases, scope or cap; resume with the same settings")
        submitted = state["submitted"]
        if submitted.min() < 0 or submitted.max() > self.submissions:
            raise ValueError(f"submitted must lie in 0..{self.submissions}, got {submitted}; start anew")
        self._submitted[:] = submitted

    def __reduce__(self) -> NoReturn:
        # Each of two copies would let every agent submit as often as it may.
        raise LedgerError("a ledger of submissions cannot be copied or pickled; continue from state_dict")

    def _terms(self) -> np.ndarray:
        terms = repr((self.trust_model, self.releases, self.scope, self.submissions))
        return np.frombuffer(hashlib.blake2b(terms.encode()).digest(), dtype=np.uint8)
