"""Gaussian noise on sums over users who join each round at random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dprl.privacy.accounting.amplification import SampledGaussianLoss
from dprl.privacy.base import LedgerError
from dprl.privacy.mechanisms.base import IDEALISED
from dprl.privacy.mechanisms.gradients import ClippedGaussian


@dataclass(frozen=True)
class SampledGaussian:
    """All sums of clipped vectors over users who join each round independently, at random and secretly.

    *Formal guarantee.* That of `SampledGaussianLoss`, under *addition or removal* of one user, who changes the sum of a
    round by one vector of norm at most clip / 2. Each round has fresh noise and fresh draws.

    Args:
        law: clips a vector, and has the noise of one sum. rate: bound on the probability that a user joins a round.
        rounds: maximum number of rounds.
    """

    law: ClippedGaussian
    rate: float
    rounds: int
    name: ClassVar[str] = "sampled_gaussian"

    def __post_init__(self) -> None:
        if self.law.arithmetic != IDEALISED:
            raise LedgerError(
                f"law must have continuous noise, got {self.law.arithmetic}; no bound is known for others"
            )
        self.curve()  # raises for an impossible rate or number of rounds

    @property
    def scale(self) -> float:
        """Standard deviation of the noise on a coordinate of a sum."""
        return self.law.scale

    @property
    def arithmetic(self) -> str:
        """Assumption of the guarantee on numbers."""
        return self.law.arithmetic

    def explain(self) -> str:
        """Return the line that explains the scale."""
        norm = self.law.clip / 2.0
        return (
            f"sigma = z C / 2 = {self.scale / norm:.6g} * {norm:.6g} = {self.scale:.6g}: a user adds a vector of norm "
            f"up to C / 2 to a sum, and joins each of {self.rounds:,} rounds with probability {self.rate:.6g}"
        )

    def curve(self) -> SampledGaussianLoss:
        """Return the curve of all rounds together."""
        return SampledGaussianLoss(self.law.scale / (self.law.clip / 2.0), self.rate, self.rounds)
