"""Trust models for gradients: settings that validate themselves, calibrate the noise, and build the privatizer."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal, Protocol

from dprl.privacy.accounting.closed_forms import largest_loss
from dprl.privacy.accounting.composition import repeat
from dprl.privacy.accounting.roots import quotient_down
from dprl.privacy.base import Guarantee, TrustModel
from dprl.privacy.certificate import PrivacyRequest
from dprl.privacy.ledger import Journal
from dprl.privacy.mechanisms.clipping import NORMS
from dprl.privacy.mechanisms.gradients import ClippedGaussian, ClippedLaplace, VectorMechanism
from dprl.privacy.mechanisms.privunit import PrivUnit
from dprl.privacy.mechanisms.projected_random_sign import (
    EPSILON_PER_PROJECTION,
    SCALINGS,
    ProjectedRandomSign,
    Scaling,
)
from dprl.privacy.mechanisms.randomized_response import LARGEST_EPSILON, RandomizedResponse
from dprl.privacy.mechanisms.vectors import RawVector
from dprl.privacy.privatizer import Privatizer
from dprl.privacy.queries.gradients import GradientQuery
from dprl.privacy.randomness.streams import Streams
from dprl.privacy.threat_models import GRADIENT_ADJACENCY
from dprl.privacy.validation import check_budget, check_choice

ClipNorm = Literal["none", "l1", "l2", "elementwise"]
ReleaseScores = Literal["simulator", "private", "none"]
SCORES = ("simulator", "private", "none")
_PAPER_CLIP, _PAPER_SIGN_CLIP = 0.01, 1.0
_TARGET_SCORE = 195.0

GradientPrivatizer = Privatizer[GradientQuery]


class GradientPrivacyConfig(Protocol):
    """Settings of a trust model for gradients."""

    model: ClassVar[TrustModel]

    @property
    def release_scores(self) -> str:
        """Who reads scores: 'simulator', 'private' (randomised bits are sent) or 'none'."""

    def build(
        self,
        dimension: int,
        n_submissions: int,
        streams: Streams,
        channels: tuple[str, ...] = (),
        journal: Journal | None = None,
    ) -> GradientPrivatizer:
        """Return the privatizer of `n_submissions` gradients float64[dimension]."""


@dataclass(frozen=True)
class NoGradientPrivacy:
    """No noise: the non-private algorithm, and an infinite epsilon on the certificate.

    Args:
        clip_norm: of the ball that gradients are shrunk into: 'l1', 'l2', 'elementwise', or 'none' for no clip.
        clip: C > 0, of a ball of radius C / 2, as with privacy.
        release_scores: 'simulator': raw scores are read; 'none': they are not.
    """

    clip_norm: ClipNorm = "l1"
    clip: float = _PAPER_CLIP
    release_scores: Literal["simulator", "none"] = "simulator"
    model: ClassVar[TrustModel] = "none"

    def __post_init__(self) -> None:
        check_choice("clip_norm", self.clip_norm, list(NORMS))
        _check_clip(self.clip)
        check_choice("release_scores", self.release_scores, ["simulator", "none"])

    def build(
        self,
        dimension: int,
        n_submissions: int,
        streams: Streams,
        channels: tuple[str, ...] = (),
        journal: Journal | None = None,
    ) -> GradientPrivatizer:
        """Return the privatizer that passes clipped gradients on; see `GradientPrivacyConfig`."""
        _check_submissions(n_submissions)
        law = RawVector(dimension, self.clip_norm, self.clip)
        query = GradientQuery(law, release_scores=self.release_scores, left_open=channels)
        request = PrivacyRequest(None, None, "none", "nothing is claimed")
        return Privatizer(query, request, n_submissions, streams, journal=journal)


@dataclass(frozen=True)
class LocalGradientPrivacy:
    """Local differential privacy: every agent randomises its gradients before they leave.

    *Formal guarantee.* (epsilon, delta)-LDP of all that one agent sends in `submissions` adaptive submissions, for any
    two environments and all their episodes. With delta = 0 each submission has epsilon / submissions exactly; with
    delta > 0 the largest budget whose composition holds. A bit on the score takes its epsilon out of this first.

    Args:
        epsilon: in [1e-9, 1e9]. delta: 0 or in [1e-15, 1).
        mechanism: the randomiser of a gradient.
        clip: C > 0; None for the paper's, 0.01, and 1 for projected_random_sign. privunit sends directions: no clip.
        scaling: of the estimate of projected_random_sign: 'paper' or 'unbiased'.
        submissions: T, how often one agent submits at most.
        release_scores: 'simulator': raw scores are read outside of the guarantee; 'private': a randomised bit
            1[score >= target_score] goes with each gradient; 'none': neither.
        score_epsilon: what the bits cost in all, part of epsilon. target_score: of the bit.

    Paper: [OT20] eqs. (19), (20), (21), (22), (23) and (24), Algorithms 2 and 3.
    """

    epsilon: float
    delta: float = 0.0
    mechanism: str = ClippedLaplace.name
    clip: float | None = None
    scaling: Scaling = "paper"
    submissions: int = 1
    release_scores: ReleaseScores = "simulator"
    score_epsilon: float = 0.0
    target_score: float = _TARGET_SCORE
    model: ClassVar[TrustModel] = "ldp"

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.delta)
        check_choice("mechanism", self.mechanism, list(_CALIBRATED))
        check_choice("scaling", self.scaling, list(SCALINGS))
        check_choice("release_scores", self.release_scores, list(SCORES))
        if self.clip is not None:
            _check_clip(self.clip)
        if self.clip is not None and self.mechanism == PrivUnit.name:
            raise ValueError(f"clip must be left out with privunit, got {self.clip!r}; it sends directions only")
        if self.scaling != "paper" and self.mechanism != ProjectedRandomSign.name:
            raise ValueError(
                f"scaling must be paper with {self.mechanism}, got {self.scaling!r}; "
                "only estimates of projected_random_sign can be scaled"
            )
        if self.delta == 0 and self.mechanism == ClippedGaussian.name:
            raise ValueError("delta must be above 0 with clipped_gaussian, got 0; set one, or use clipped_laplace")
        if self.delta != 0 and self.mechanism == PrivUnit.name and self.submissions == 1:
            raise ValueError(
                f"delta must be 0 with privunit, whose guarantee is pure, got {self.delta!r}; leave it out, or use "
                "clipped_gaussian"
            )
        if isinstance(self.submissions, bool) or not isinstance(self.submissions, int) or self.submissions < 1:
            raise ValueError(
                f"submissions must be a whole number from 1 on, got {self.submissions!r}; an agent submits once or more"
            )
        self._check_scores()

    def _check_scores(self) -> None:
        if self.release_scores != "private":
            if self.score_epsilon != 0:
                raise ValueError(
                    f"score_epsilon must be 0 with release_scores: {self.release_scores}, got {self.score_epsilon!r}; "
                    "write release_scores: private, or leave it out"
                )
        elif not 0 < self.score_epsilon < self.epsilon:
            raise ValueError(
                f"score_epsilon must be above 0 and below epsilon with release_scores: private, "
                f"got {self.score_epsilon!r}; it is a part of epsilon"
            )
        if not math.isfinite(self.target_score):
            raise ValueError(f"target_score must be finite, got {self.target_score!r}; name a score")

    def build(
        self,
        dimension: int,
        n_submissions: int,
        streams: Streams,
        channels: tuple[str, ...] = (),
        journal: Journal | None = None,
    ) -> GradientPrivatizer:
        """Return the privatizer of `n_submissions` gradients float64[dimension], by as few agents as can send them.

        channels: other channels that the algorithm leaves open, for the certificate. journal: where charges survive.

        Raises ValueError for settings that do not fit together.
        """
        _check_submissions(n_submissions)
        query = self._query(dimension, streams.noise.arithmetic == "exact", channels)
        guarantee = Guarantee(self.model, self.epsilon, self.delta, GRADIENT_ADJACENCY)
        source = "the requested guarantee, met by the certified noise"
        request = PrivacyRequest(guarantee, guarantee, "certified", source)
        n_agents = -(-n_submissions // self.submissions)
        return Privatizer(query, request, n_agents, streams, self.submissions, journal)

    def _query(self, dimension: int, exact: bool, channels: tuple[str, ...]) -> GradientQuery:
        budget = _Budget(_less(self.epsilon, self.score_epsilon), self.delta, self.submissions, dimension, exact)
        try:
            law = _CALIBRATED[self.mechanism](budget, self)
        except ValueError as error:
            if self.submissions == 1:
                raise
            raise ValueError(f"{error} (one of {self.submissions} submissions)") from error
        if self.release_scores != "private":
            return GradientQuery(law, release_scores=self.release_scores, left_open=channels)
        each = min(LARGEST_EPSILON, quotient_down(self.score_epsilon, self.submissions))
        return GradientQuery(law, RandomizedResponse(each), self.target_score, self.release_scores, channels)


@dataclass(frozen=True)
class _Budget:
    """The budget of all gradients of one agent: `submissions` times a vector of `dimension`."""

    epsilon: float
    delta: float
    submissions: int
    dimension: int
    exact: bool

    def each(self, losses: int = 1) -> float:
        """Return the largest loss of which each submission can have so many, rounded down."""
        return largest_loss(self.epsilon, self.delta, losses * self.submissions)


def _clipped_laplace(budget: _Budget, config: LocalGradientPrivacy) -> VectorMechanism:
    clip = _PAPER_CLIP if config.clip is None else config.clip
    return ClippedLaplace.calibrated(budget.each(), 0.0, budget.dimension, clip, budget.exact)


def _clipped_gaussian(budget: _Budget, config: LocalGradientPrivacy) -> VectorMechanism:
    """Return Gaussian noise for the diameter of all submissions together, sqrt(T) times that of one."""
    clip = _PAPER_CLIP if config.clip is None else config.clip
    wide = clip * math.sqrt(budget.submissions)
    while True:
        whole = ClippedGaussian.calibrated(budget.epsilon, budget.delta, budget.dimension, wide, budget.exact)
        found = ClippedGaussian(budget.dimension, clip, whole.additive, whole.grid)
        # Radii that are rounded down to the grid need not be sqrt(T) times each other.
        if repeat(found.curve(), budget.submissions).delta(budget.epsilon) <= budget.delta:
            return found
        wide *= 1.0 + 2.0**-12


def _signs(budget: _Budget, config: LocalGradientPrivacy) -> VectorMechanism:
    """Return as many bits as have 2.5 each, as the paper has it; one bit if that is more than there is."""
    low, high = 1, budget.dimension
    while low < high:
        middle = (low + high + 1) // 2
        if budget.each(middle) >= EPSILON_PER_PROJECTION:
            low = middle
        else:
            high = middle - 1
    clip = _PAPER_SIGN_CLIP if config.clip is None else config.clip
    bit = RandomizedResponse(min(LARGEST_EPSILON, budget.each(low)))
    return ProjectedRandomSign(budget.dimension, low, clip, bit, config.scaling)


def _privunit(budget: _Budget, config: LocalGradientPrivacy) -> VectorMechanism:
    del config
    return PrivUnit.calibrated(budget.each(), 0.0, budget.dimension, budget.exact)


_CALIBRATED: dict[str, Callable[[_Budget, LocalGradientPrivacy], VectorMechanism]] = {
    ClippedLaplace.name: _clipped_laplace,
    ProjectedRandomSign.name: _signs,
    PrivUnit.name: _privunit,
    ClippedGaussian.name: _clipped_gaussian,
}

GRADIENT_TRUST_MODELS: dict[str, type[NoGradientPrivacy] | type[LocalGradientPrivacy]] = {
    NoGradientPrivacy.model: NoGradientPrivacy,
    LocalGradientPrivacy.model: LocalGradientPrivacy,
}


def _less(whole: float, part: float) -> float:
    """Return whole - part, rounded down."""
    rest = whole - part
    while Fraction(rest) + Fraction(part) > Fraction(whole):
        rest = math.nextafter(rest, 0.0)
    return rest


def _check_clip(clip: object) -> None:
    if not (isinstance(clip, int | float) and not isinstance(clip, bool) and 0 < clip < math.inf):
        raise ValueError(f"clip must be a finite number above 0, got {clip!r}; gradients are shrunk to half of it")


def _check_submissions(n_submissions: int) -> None:
    if n_submissions < 1:
        raise ValueError(f"n_submissions must be at least 1, got {n_submissions}; run at least one")
