"""Local reports that are not additive noise: one bit per cell, of every step or of one step chosen by chance."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from dprl.privacy.accounting.curves import PrivacyCurve
from dprl.privacy.mechanisms.base import INTEGER, Sensitivity
from dprl.privacy.mechanisms.unary_encoding import OptimizedUnaryEncoding, SymmetricUnaryEncoding

UnaryEncoding = OptimizedUnaryEncoding | SymmetricUnaryEncoding
SAMPLED_PREFIX = "sampled_"


@dataclass(frozen=True)
class UnaryReport:
    """A user's one-hot rows as randomised bits.

    *Formal guarantee.* Every step's row is encoded with the encoding's epsilon, so H steps together are H * epsilon-LDP
    for any two trajectories. With `sampled` the user draws one step, whatever the data are, and sends that step and its
    row only: epsilon-LDP, exactly.

    Args:
        encoding: of one row. n_steps: H. sampled: whether one step is sent in place of all.

    Paper: Wang, Blocki, Li, Jha 2017, sec. 4; [CZ22] Remark 7.
    """

    encoding: UnaryEncoding
    n_steps: int
    sampled: bool
    arithmetic: ClassVar[str] = INTEGER

    @property
    def name(self) -> str:
        """The name in configs and certificates."""
        return (SAMPLED_PREFIX if self.sampled else "") + self.encoding.name

    @property
    def scale(self) -> float:
        """The standard deviation that one user adds to a cell without a one in it."""
        return float(self.variance**0.5)

    @property
    def rows_sent(self) -> int:
        """How many rows a user sends."""
        return 1 if self.sampled else self.n_steps

    @property
    def factor(self) -> float:
        """What (bit - q) is multiplied by to be unbiased."""
        return (self.n_steps if self.sampled else 1) / (self.encoding.p - self.encoding.q)

    @property
    def variance(self) -> float:
        """Variance that one user adds to a cell in which the user has no one, in counts squared."""
        q = self.encoding.q
        return q * (1.0 - q) * self.factor**2 / (self.n_steps if self.sampled else 1)

    def curve(self, sensitivity: Sensitivity) -> PrivacyCurve:
        """Return what the rows sent prove; `sensitivity` counts two changed bits for every row."""
        return self.encoding.curve(-(-sensitivity.cells // 2))

    def with_epsilon(self, epsilon: float) -> UnaryReport:
        """Return the report whose rows together are epsilon-LDP."""
        return replace(self, encoding=type(self.encoding)(epsilon / self.rows_sent))
