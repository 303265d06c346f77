"""Calibration of gradients: the least noise of a kind for all submissions of one agent together."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from dprl.privacy.accounting.closed_forms import PrivacyCurve, largest_loss
from dprl.privacy.accounting.composition import repeat
from dprl.privacy.accounting.root_finding import inside, largest
from dprl.privacy.mechanisms.gradients import ClippedGaussian, ClippedLaplace, VectorMechanism
from dprl.privacy.mechanisms.privunit import PrivUnit
from dprl.privacy.mechanisms.projected_random_sign import EPSILON_PER_PROJECTION, ProjectedRandomSign
from dprl.privacy.mechanisms.randomized_response import LARGEST_EPSILON, RandomizedResponse

PAPER_CLIP, DEFAULT_CLIP, _SIGN_CLIP = 0.01, 2.0, 1.0
# Loss by which noise is lowered at least; a smaller gain is rounding.
_WORTH = 1.0 + 1e-6
_REMEMBERED = 256


@lru_cache(_REMEMBERED, typed=True)
def vector_law(mechanism: str, budget: GradientBudget, clip: float) -> VectorMechanism:
    """Return the least noise of one submission for which all of them meet the budget.

    mechanism: a name of VECTORS. clip: privunit has none.

    *Formal guarantee.* For delta = 0 the losses of all submissions add up to at most epsilon. For delta > 0 the curve
    of all gradients together, the one of certificates, meets (epsilon, delta).

    Raises ValueError if there is none.
    """
    try:
        least, law_of = VECTOR_LAWS[mechanism](budget, clip)
        law = law_of(least)
        return law if budget.delta <= 0.0 else _least_noise(budget, law, least, law_of)
    except ValueError as error:
        if budget.submissions == 1:
            raise
        raise ValueError(f"{error} (one of {budget.submissions} submissions)") from error


def _least_noise(
    budget: GradientBudget, law: VectorMechanism, loss: float, law_of: Callable[[float], VectorMechanism]
) -> VectorMechanism:
    """Return the law with the largest loss that meets a budget with delta > 0, or `law`, of loss `loss`, if none gains.

    A law whose losses are rarely the largest leaves room for less noise.
    """
    epsilon, delta = inside(budget.epsilon, budget.delta)

    def delta_of(other: float) -> float:
        try:
            return budget.curve(law_of(other)).delta(epsilon)
        except ValueError:  # beyond the losses that the law can have
            return float(other >= loss)

    def holds(found: VectorMechanism) -> bool:
        return budget.curve(found).delta(budget.epsilon) <= budget.delta

    more = largest(delta_of, delta, loss)
    if holds(law) and more <= loss * _WORTH:
        return law
    found = law_of(more)
    return found if holds(found) or not holds(law) else law


@dataclass(frozen=True)
class GradientLayout:
    """Sizes of gradients, and their use.

    Args:
        dimension: d, of the gradients. window: B >= 1, number of gradients per update.
        left_open: other channels that the algorithm leaves open, in words for the certificate.
        draws: whether the algorithm lets a server draw the users of each round, see `SampledGradientQuery`.
        paper: whether settings that are left out are those of [OT20]; otherwise the least noise known.
    """

    dimension: int
    window: int = 1
    left_open: tuple[str, ...] = ()
    draws: bool = False
    paper: bool = True

    def clip(self, mechanism: str, chosen: float | None) -> float:
        """Return the chosen clip, or the default one for a mechanism."""
        if chosen is not None:
            return chosen
        if mechanism == ProjectedRandomSign.name:
            return _SIGN_CLIP
        return PAPER_CLIP if self.paper else DEFAULT_CLIP


@dataclass(frozen=True)
class GradientBudget:
    """The budget of everything that one agent sends: `submissions` times a vector of `dimension`."""

    epsilon: float
    delta: float
    submissions: int
    dimension: int
    exact: bool

    def each(self, losses: int = 1) -> float:
        """Return the largest loss that each submission can have `losses` times by any law, rounded down."""
        return largest_loss(self.epsilon, self.delta, losses * self.submissions)

    def curve(self, law: VectorMechanism) -> PrivacyCurve:
        """Return the curve of all submissions with a law."""
        return repeat(law.curve(), self.submissions)


_Law = tuple[float, Callable[[float], VectorMechanism]]
"""A loss that meets the budget, and the law of a loss."""


def _clipped_laplace(budget: GradientBudget, clip: float) -> _Law:
    return budget.each(), lambda loss: ClippedLaplace.calibrated(loss, 0.0, budget.dimension, clip, budget.exact)


def _clipped_gaussian(budget: GradientBudget, clip: float) -> _Law:
    """Return Gaussian noise for the diameter of all submissions together, sqrt(T) times that of one."""

    def law_of(epsilon: float) -> ClippedGaussian:
        wide = clip * math.sqrt(budget.submissions)
        while True:
            whole = ClippedGaussian.calibrated(epsilon, budget.delta, budget.dimension, wide, budget.exact)
            found = ClippedGaussian(budget.dimension, clip, whole.additive, whole.grid)
            # Radii that are rounded down to the grid need not be sqrt(T) times each other.
            if repeat(found.curve(), budget.submissions).delta(epsilon) <= budget.delta:
                return found
            wide *= 1.0 + 2.0**-12

    return budget.epsilon, law_of


def _signs(budget: GradientBudget, clip: float) -> _Law:
    """Return the number of bits with a loss of 2.5 each, as in the paper, or one bit if the budget is smaller."""
    low, high = 1, budget.dimension
    while low < high:
        middle = (low + high + 1) // 2
        if budget.each(middle) >= EPSILON_PER_PROJECTION:
            low = middle
        else:
            high = middle - 1

    def law_of(loss: float) -> ProjectedRandomSign:
        bit = RandomizedResponse(min(LARGEST_EPSILON, loss))
        return ProjectedRandomSign(budget.dimension, low, clip, bit)

    return budget.each(low), law_of


def _privunit(budget: GradientBudget, clip: float) -> _Law:
    del clip
    return budget.each(), lambda loss: PrivUnit.calibrated(loss, 0.0, budget.dimension)


VECTOR_LAWS: dict[str, Callable[[GradientBudget, float], _Law]] = {
    ClippedLaplace.name: _clipped_laplace,
    ProjectedRandomSign.name: _signs,
    PrivUnit.name: _privunit,
    ClippedGaussian.name: _clipped_gaussian,
}
