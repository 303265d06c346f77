"""A ledger of a few agents, and a journal in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dprl.privacy import NoiseDesign
from dprl.privacy.base import Sensitivity
from dprl.privacy.ledger import Ledger
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.noise_design import Release
from dprl.privacy.threat_models import ThreatModel

AGENTS = ThreatModel(
    unit="one agent, who submits in up to 3 rounds",
    adjacency="replace all of one agent's submissions",
    observer="the server and everyone else",
    covered=("the agent's messages",),
    excluded=("who submits when",),
    attained_by="an agent with opposite gradients in every round",
)
N_AGENTS, CAP = 5, 3


def laplace(epsilon: float = 1.0) -> Release:
    return Release("x", Laplace(4.0 / epsilon), Sensitivity.of_cells(4), True, 8, "os")


def agents(cap: int = CAP, epsilon: float = 1.0, threats: ThreatModel = AGENTS, journal: Any = None) -> Ledger:
    return Ledger(NoiseDesign("ldp", (laplace(epsilon),), threats, N_AGENTS, cap), journal)


class Notes:
    """A journal in memory; `act` is called with each entry before it is stored."""

    def __init__(self, act: Callable[[int, int], None] = lambda first, last: None) -> None:
        self.act = act
        self.attempts: list[int] = []
        self.began = 0

    def recorded(self, terms: str, users: int) -> list[int]:
        del terms, users
        return self.attempts or [0]

    def begin(self, terms: str, users: int) -> list[int]:
        self.began += 1
        found = self.recorded(terms, users)
        self.attempts = self.attempts or [0]
        return found

    def write(self, first: int, last: int) -> None:
        self.act(first, last)
        self.attempts[-1] = last
