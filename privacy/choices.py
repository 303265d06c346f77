"""Which noise meets a guarantee: what a config can name, the least noise of that kind, and the best of all kinds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dprl.privacy.base import CountFamilies, TrustModel
from dprl.privacy.counters import COUNTERS
from dprl.privacy.counters.base import Counter
from dprl.privacy.counters.selection import Candidate, calibrate, candidates
from dprl.privacy.layouts import RELEASED_FAMILIES, Layout
from dprl.privacy.mechanisms.base import Mechanism, Sensitivity
from dprl.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from dprl.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.mechanisms.unary_encoding import OptimizedUnaryEncoding, SymmetricUnaryEncoding
from dprl.privacy.reports import SAMPLED_PREFIX, UnaryReport

AUTO = "auto"
_ADDITIVE: dict[str, type[Mechanism]] = {law.name: law for law in (Laplace, DiscreteLaplace, Gaussian, DiscreteGaussian)}
_WHOLE: dict[str, type[Mechanism]] = {Laplace.name: DiscreteLaplace, Gaussian.name: DiscreteGaussian}
_UNARY = {encoding.name: encoding for encoding in (SymmetricUnaryEncoding, OptimizedUnaryEncoding)}


@dataclass(frozen=True)
class Budget:
    """What the noise of a run has to meet.

    epsilon, delta: the guarantee. layout: what is released. n_users: T. arithmetic: 'fast' or 'exact'.
    """

    epsilon: float
    delta: float
    layout: Layout
    n_users: int
    arithmetic: str

    @property
    def exact(self) -> bool:
        """Whether only whole-number noise is allowed."""
        return self.arithmetic == "exact"

    @property
    def row(self) -> Sensitivity:
        """How much replacing one user changes all that this user adds to the sums."""
        released = self.layout.released
        return Sensitivity.of_cells(released.changed_cells() * len(released.families))

    def laws(self, name: str) -> list[type[Mechanism]]:
        """Return the additive mechanisms that a config's `mechanism` stands for, under this arithmetic and delta."""
        names = list(_ADDITIVE) if name == AUTO else [name]
        laws = [_WHOLE.get(law, _ADDITIVE[law]) if self.exact else _ADDITIVE[law] for law in names]
        if name == AUTO:
            wanted = (DiscreteLaplace, DiscreteGaussian) if self.exact else (Laplace, Gaussian)
            laws = [law for law in wanted if self.delta > 0 or law.norm != "l2"]
        return laws


def counter_names() -> tuple[list[str], list[str]]:
    """Return what `counter` and `mechanism` of the central model can be."""
    return [*COUNTERS, AUTO], [*_ADDITIVE, AUTO]


def report_names() -> list[str]:
    """Return what `mechanism` of the local model can be."""
    return [*_ADDITIVE, *_UNARY, *(SAMPLED_PREFIX + name for name in _UNARY), AUTO]


def calibrated_counter(counter: str, mechanism: str, budget: Budget) -> tuple[Counter, str]:
    """Return the counter with the least noise that meets the budget, and why it was chosen.

    Raises ValueError if none of that kind can.
    """
    if mechanism in ("gaussian", "discrete_gaussian") and budget.delta <= 0.0:
        raise ValueError(f"mechanism must be laplace or discrete_laplace with delta 0, got {mechanism!r}; give a delta")
    found = _fitting(counter, mechanism, budget)
    best = min(found, key=lambda candidate: candidate.rms)
    if AUTO not in (counter, mechanism) or len(found) == 1:
        return best.counter, ""
    others = ", ".join(
        f"{other.counter.name} with {_law(other)} {other.rms:.4g}" for other in sorted(found, key=lambda c: c.rms)[1:4]
    )
    return best.counter, f"{best.counter.name} with {_law(best)}: rms error {best.rms:.4g} a cell, against {others}"
