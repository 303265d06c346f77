"""Local reports that are not additive noise: one bit per cell, of every step or of one step chosen by chance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from dprl.privacy.accounting.curves import PrivacyCurve
from dprl.privacy.mechanisms.base import INTEGER, Sensitivity
from dprl.privacy.mechanisms.unary_encoding import UnaryEncoding

SAMPLED_PREFIX = "sampled_"


@dataclass(frozen=True)
class UnaryReport:
    """A user's one-hot rows as randomised bits.

    *Formal guarantee.* Every step's row is encoded with the encoding's epsilon, so H steps together are H * epsilon-LDP
    for any two trajectories. With `sampled` the user draws one step, whatever the data are, and sends that step and its
    row only: epsilon-LDP, exactly.

    Args:
        encoding: of one row. n_steps: H. width: cells of a row. sampled: whether one step is sent in place of all.

    Paper: Wang, Blocki, Li, Jha 2017, sec. 4; [CZ22] Remark 7.
    """

    encoding: UnaryEncoding
    n_steps: int
    width: int
    sampled: bool
    arithmetic: ClassVar[str] = INTEGER

    @property
    def name(self) -> str:
        """The name in configs and certificates."""
        return (SAMPLED_PREFIX if self.sampled else "") + self.encoding.name

    @property
    def scale(self) -> float:
        """The standard deviation that one user adds to a cell, in the mean over a row."""
        return math.sqrt(self.variance)

    @property
    def rows_sent(self) -> int:
        """How many rows a user sends."""
        return 1 if self.sampled else self.n_steps

    @property
    def factor(self) -> float:
        """What (bit - q) is multiplied by to be unbiased."""
        return (self.n_steps if self.sampled else 1) / self.encoding.gap

    @property
    def variance(self) -> float:
        """Variance that one user adds to a cell, in counts squared: the mean over a row, one cell of which is hot."""
        steps = self.n_steps if self.sampled else 1
        hot, cold = (self.encoding.variance(hot=hot, steps=steps) for hot in (True, False))
        return cold + (hot - cold) / self.width

    @property
    def sensitivity(self) -> Sensitivity:
        """How much replacing the user changes what is encoded: two cells of every row that is sent."""
        return Sensitivity.of_cells(2 * self.rows_sent)

    def curve(self, sensitivity: Sensitivity) -> PrivacyCurve:
        """Return what the rows that are sent prove."""
        return self.encoding.curve(sensitivity)
