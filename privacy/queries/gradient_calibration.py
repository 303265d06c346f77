"""Calibration of gradients: the least noise of a kind for all submissions of one agent together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dprl.privacy.accounting.closed_forms import largest_loss
from dprl.privacy.accounting.composition import repeat
from dprl.privacy.mechanisms.gradients import ClippedGaussian, ClippedLaplace, VectorMechanism
from dprl.privacy.mechanisms.privunit import PrivUnit
from dprl.privacy.mechanisms.projected_random_sign import (
    EPSILON_PER_PROJECTION,
    ProjectedRandomSign,
    Scaling,
)
from dprl.privacy.mechanisms.randomized_response import LARGEST_EPSILON, RandomizedResponse
from dprl.privacy.validation import check_choice, check_positive

PAPER_CLIP, _PAPER_SIGN_CLIP = 0.01, 1.0


def vector_law(
    mechanism: str, budget: GradientBudget, clip: float | None, scaling: Scaling = "paper"
) -> VectorMechanism:
    """Return the least noise of one submission for which all of them meet the budget.

    mechanism: a name of VECTOR_LAWS. clip: None for the paper's. scaling: of projected_random_sign.

    Raises ValueError if there is none.
    """
    try:
        return VECTOR_LAWS[mechanism](budget, clip, scaling)
    except ValueError as error:
        if budget.submissions == 1:
            raise
        raise ValueError(f"{error} (one of {budget.submissions} submissions)") from error


@dataclass(frozen=True)
class GradientLayout:
    """Sizes of gradients, and their use.

    Args:
        dimension: d, of the gradients. window: B >= 1, number of gradients per update.
        left_open: other channels that the algorithm leaves open, in words for the certificate.
        draws: whether the algorithm lets a server draw the users of each round, see `SampledGradientQuery`.
    """

    dimension: int
    window: int = 1
    left_open: tuple[str, ...] = ()
    draws: bool = False


@dataclass(frozen=True)
class GradientBudget:
    """The budget of all gradients of one agent: `submissions` times a vector of `dimension`."""

    epsilon: float
    delta: float
    submissions: int
    dimension: int
    exact: bool

    def each(self, losses: int = 1) -> float:
        """Return the largest loss that each submission can have `losses` times, rounded down."""
        return largest_loss(self.epsilon, self.delta, losses * self.submissions)


def _clipped_laplace(budget: GradientBudget, clip: float | None, scaling: Scaling) -> VectorMechanism:
    del scaling
    clip = PAPER_CLIP if clip is None else clip
    return ClippedLaplace.calibrated(budget.each(), 0.0, budget.dimension, clip, budget.exact)


def _clipped_gaussian(budget: GradientBudget, clip: float | None, scaling: Scaling) -> VectorMechanism:
    """Return Gaussian noise for the diameter of all submissions together, sqrt(T) times that of one."""
    del scaling
    clip = PAPER_CLIP if clip is None else clip
    wide = clip * math.sqrt(budget.submissions)
    while True:
        whole = ClippedGaussian.calibrated(budget.epsilon, budget.delta, budget.dimension, wide, budget.exact)
        found = ClippedGaussian(budget.dimension, clip, whole.additive, whole.grid)
        # Radii that are rounded down to the grid need not be sqrt(T) times each other.
        if repeat(found.curve(), budget.submissions).delta(budget.epsilon) <= budget.delta:
            return found
        wide *= 1.0 + 2.0**-12


def _signs(budget: GradientBudget, clip: float | None, scaling: Scaling) -> VectorMechanism:
    """Return the number of bits with a loss of 2.5 each, as in the paper, or one bit if the budget is smaller."""
    low, high = 1, budget.dimension
    while low < high:
        middle = (low + high + 1) // 2
        if budget.each(middle) >= EPSILON_PER_PROJECTION:
            low = middle
        else:
            high = middle - 1
    clip = _PAPER_SIGN_CLIP if clip is None else clip
    bit = RandomizedResponse(min(LARGEST_EPSILON, budget.each(low)))
    return ProjectedRandomSign(budget.dimension, low, clip, bit, scaling)


def _privunit(budget: GradientBudget, clip: float | None, scaling: Scaling) -> VectorMechanism:
    del clip, scaling
    return PrivUnit.calibrated(budget.each(), 0.0, budget.dimension, budget.exact)


VECTOR_LAWS: dict[str, Callable[[GradientBudget, float | None, Scaling], VectorMechanism]] = {
    ClippedLaplace.name: _clipped_laplace,
    ProjectedRandomSign.name: _signs,
    PrivUnit.name: _privunit,
    ClippedGaussian.name: _clipped_gaussian,
}


PURE_LAWS = [ClippedLaplace.name, ProjectedRandomSign.name, PrivUnit.name]
"""Names of laws with a pure guarantee."""


def check_vector_settings(mechanism: str, clip: float | None, scaling: str, laws: Sequence[str]) -> None:
    """Raise ValueError, in one line, unless the mechanism is one of `laws` and has such a clip and scaling."""
    check_choice("mechanism", mechanism, laws)
    if clip is not None:
        check_positive("clip", clip, "gradients are shrunk to half of it")
    if clip is not None and mechanism == PrivUnit.name:
        raise ValueError(f"clip must be left out with privunit, got {clip!r}; it sends directions only")
    if scaling != "paper" and mechanism != ProjectedRandomSign.name:
        raise ValueError(
            f"scaling must be paper with {mechanism}, got {scaling!r}; "
            "only estimates of projected_random_sign can be scaled"
        )


def less(whole: float, part: float) -> float:
    """Return whole - part, rounded down."""
    rest = whole - part
    while Fraction(rest) + Fraction(part) > Fraction(whole):
        rest = math.nextafter(rest, 0.0)
    return rest
