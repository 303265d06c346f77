"""A ledger of a few agents, and a journal in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dprl.privacy import (
    Release,
    Scope,
    SubmissionLedger,
)
from dprl.privacy.ledgers.ranges import RangeSet
from dprl.privacy.mechanisms.base import Sensitivity
from dprl.privacy.mechanisms.laplace import Laplace

AGENTS = Scope(
    unit="one agent, who submits in up to 3 rounds",
    adjacency="replace all of one agent's submissions",
    observer="the server and everyone else",
    covered=("the agent's messages",),
    excluded=("who submits when",),
    attained_by="an agent with opposite gradients in every round",
)
N_AGENTS, CAP = 5, 3


def laplace(epsilon: float = 1.0) -> Release:
    return Release("x", Laplace(4.0 / epsilon), Sensitivity.of_cells(4), None, True, 1, 8, "os")


def agents(cap: int = CAP, epsilon: float = 1.0, scope: Scope = AGENTS, **settings: Any) -> SubmissionLedger:
    return SubmissionLedger("ldp", [laplace(epsilon)], scope, N_AGENTS, cap, **settings)


class Notes:
    """A journal in memory of (agent, number); `act` is called with what is written, before it is kept."""

    def __init__(self, act: Callable[[list[tuple[int, int]]], None] = lambda pairs: None) -> None:
        self.act = act
        self.lines: list[tuple[int, int]] = []
        self.began = 0

    def recorded(self, terms: str, n_agents: int) -> RangeSet:
        found = RangeSet()
        for agent, number in self.lines:
            for turn in range(number):
                found.add(turn * n_agents + agent, turn * n_agents + agent)
        return found

    def begin(self, terms: str, n_agents: int) -> RangeSet:
        self.began += 1
        return self.recorded(terms, n_agents)

    def write(self, ranges: Iterable[tuple[int, int]]) -> None:
        submissions = [n - 1 for first, last in ranges for n in range(first, last + 1)]
        pairs = [(n % N_AGENTS + 1, n // N_AGENTS + 1) for n in submissions]
        self.act(pairs)
        self.lines += pairs
