"""Shuffled reports: a randomizer of messages, and a shuffler that permutes those of a block of users."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from dprl.privacy.accounting.composition import compose
from dprl.privacy.accounting.curves import PrivacyCurve
from dprl.privacy.accounting.shuffling import ShuffledLoss
from dprl.privacy.base import LedgerError
from dprl.privacy.mechanisms import GramMechanism, MessageMechanism
from dprl.privacy.mechanisms.base import IDEALISED, Mechanism, Sensitivity
from dprl.privacy.mechanisms.one_hot_encoding import OneHotEncoding, UnaryEncoder
from dprl.privacy.mechanisms.vectors import VectorMechanism


@dataclass(frozen=True)
class MessageInParts:
    """A message of several parts with separate noise, which stay together in the random order.

    *Formal guarantee.* That of all parts together.
    """

    parts: tuple[MessageMechanism, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.parts, tuple) or not self.parts:
            raise LedgerError(f"parts must be a tuple of at least one mechanism, got {self.parts!r}; give all of them")
        for part in self.parts:
            if not isinstance(part, VectorMechanism | GramMechanism):
                raise LedgerError(f"a part must bound its own sensitivity, got {part!r}; take a mechanism of messages")

    @property
    def name(self) -> str:
        """The name of the first part."""
        return self.parts[0].name

    @property
    def arithmetic(self) -> str:
        """Arithmetic of the noise: idealised if that of any part is."""
        found = [part.arithmetic for part in self.parts]
        return IDEALISED if IDEALISED in found else found[0]

    def curve(self) -> PrivacyCurve:
        """Return the curve of one message."""
        return compose([part.curve() for part in self.parts])


@dataclass(frozen=True)
class ShuffledReports:
    """Reports that a trusted shuffler permutes, in blocks of at least `users` reports, before anybody sees them.

    *Formal guarantee.* That of `ShuffledLoss` for the pure loss of one report.

    Args:
        report: randomizes one message. users: in the smallest block, at least 1.
    """

    report: Mechanism | OneHotEncoding | UnaryEncoder | MessageMechanism | MessageInParts
    users: int

    def __post_init__(self) -> None:
        if isinstance(self.report, ShuffledReports):
            raise LedgerError(f"report must not be shuffled already, got {self.report.name}; give the randomizer")
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

    def curve(self, sensitivity: Sensitivity | None = None) -> ShuffledLoss:
        """Return the curve of one report among the others of its block. Raises LedgerError if it has no pure loss.

        sensitivity: None for a mechanism of whole messages.
        """
        loss = self.report_curve(sensitivity).pure_epsilon
        if not 0.0 < loss < float("inf"):
            parts = self.report.parts if isinstance(self.report, MessageInParts) else (self.report,)
            named = ", ".join(part.name for part in parts)
            raise LedgerError(f"shuffled reports must have a pure epsilon, got {named}; use another law")
        return ShuffledLoss(loss, self.users)

    def report_curve(self, sensitivity: Sensitivity | None = None) -> PrivacyCurve:
        """Return the curve of one report before it is shuffled."""
        if sensitivity is None:
            return cast("MessageMechanism | MessageInParts", self.report).curve()
        return cast("Mechanism", self.report).curve(sensitivity)
