"""Shuffled reports: a randomizer of messages, and a shuffler that permutes those of a block of users."""

from __future__ import annotations

from dataclasses import dataclass

from dprl.privacy.accounting.amplification import ShuffledLoss
from dprl.privacy.base import LedgerError
from dprl.privacy.mechanisms.base import Mechanism, Sensitivity
from dprl.privacy.mechanisms.one_hot_encoding import UnaryEncoder


@dataclass(frozen=True)
class ShuffledReports:
    """Reports that a trusted shuffler permutes, in blocks of at least `users` reports, before anybody sees them.

    *Formal guarantee.* That of `ShuffledLoss` for the pure loss of one report.

    Args:
        report: randomizes one message. users: in the smallest block, at least 1.
    """

    report: Mechanism | UnaryEncoder
    users: int

    def __post_init__(self) -> None:
        report: object = self.report
        if isinstance(report, ShuffledReports):
            raise LedgerError(f"report must not be shuffled already, got {report.name}; give the randomizer")
        if not isinstance(self.users, int) or self.users < 1:
            raise LedgerError(f"users must be a whole number of at least 1, got {self.users}; give the smallest block")

    @property
    def name(self) -> str:
        """The name on certificates."""
        return f"shuffled_{self.report.name}"

    @property
    def scale(self) -> float | None:
        """Scale of the report, None if it has none."""
        return getattr(self.report, "scale", None)

    @property
    def arithmetic(self) -> str:
        """Arithmetic of the report."""
        return self.report.arithmetic

    def explain(self, sensitivity: Sensitivity) -> str:
        """Return the line that explains the report, and the size of its block."""
        return f"{self.report.explain(sensitivity)}; shuffled with the reports of at least {self.users - 1:,} others"

    def curve(self, sensitivity: Sensitivity) -> ShuffledLoss:
        """Return the curve of one report among the others of its block. Raises LedgerError if it has no pure loss."""
        loss = self.report.curve(sensitivity).pure_epsilon
        if not 0.0 < loss < float("inf"):
            raise LedgerError(f"shuffled reports must have a pure epsilon, got {self.report.name}; use another law")
        return ShuffledLoss(loss, self.users)
