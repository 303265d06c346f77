"""Noise on gradients: what a config's `privacy` section says, and the least noise that meets it.

Read `GradientPrivacy.design` first. Then the laws of one submission: the least noise of each kind for which all
submissions of one agent together meet the guarantee.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Literal

from dprl.privacy.accounting.amplification import sampled_multiplier
from dprl.privacy.accounting.closed_forms import largest_loss
from dprl.privacy.accounting.composition import repeat
from dprl.privacy.accounting.root_finding import inside, largest
from dprl.privacy.base import TrustModel, check_positive, check_whole
from dprl.privacy.counters import COUNTERS, AnyCounter, BinaryTree
from dprl.privacy.counters.base import node_of
from dprl.privacy.counters.selection import calibrated_of
from dprl.privacy.designs.base import AUTO, COUNTER_NAMES, PrivacySettings
from dprl.privacy.mechanisms.base import NODE
from dprl.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.privunit import PrivUnit
from dprl.privacy.mechanisms.projected_random_sign import EPSILON_PER_PROJECTION, ProjectedRandomSign
from dprl.privacy.mechanisms.reports import LARGEST_EPSILON, RandomizedResponse
from dprl.privacy.mechanisms.vectors import ClippedGaussian, ClippedLaplace, RawVector, VectorMechanism
from dprl.privacy.noise_design import NoiseDesign
from dprl.privacy.queries.gradients import GradientLayout, GradientQuery
from dprl.privacy.queries.sampled_gradients import MOST_USERS, SampledGradientQuery
from dprl.privacy.randomness.streams import NoiseConfig
from dprl.privacy.threat_models import GRADIENT_ADJACENCY, SAMPLED_ADJACENCY

PAPER_CLIP, DEFAULT_CLIP, _SIGN_CLIP = 0.01, 2.0, 1.0
_MOST_SUBMISSIONS = 10**7
_MOST_ROUNDS = 10**7
_NO_COUNTER = "none"
_NOISY = ("mechanism", "clip", "submissions", "release_scores")
_LAWS: dict[TrustModel, tuple[str, ...]] = {
    "jdp": (ClippedLaplace.name, ClippedGaussian.name),
    "ldp": (ClippedLaplace.name, ProjectedRandomSign.name, PrivUnit.name),
}
# Loss by which noise is lowered at least; a smaller gain is rounding.
_WORTH = 1.0 + 1e-6
_LawOfLoss = Callable[[float], VectorMechanism]


@dataclass(frozen=True)
class GradientPrivacy(PrivacySettings[GradientLayout, GradientQuery]):
    """Privacy of gradients; neighbours differ in one agent's environment and all its episodes.

    *Formal guarantee.* `ldp`: every agent randomizes its gradients before they leave: (epsilon, delta)-LDP of
    everything that one agent sends in `submissions` adaptive submissions, for any two environments and all their
    episodes. With delta = 0 each submission has exactly epsilon / submissions; with delta > 0 all of them meet the
    request together.

    `jdp`: a trusted server adds noise to the sum of each update's clipped gradients: (epsilon, delta)-JDP of the same,
    by the billboard lemma: every submission is in one update and changes its sum by at most C, and updates have
    independent noise. The noise of an update is that of one message of the local model, so a mean of B gradients has
    1/sqrt(B) of the local model's. An incomplete last update is left out.

    `sampling: poisson`: (epsilon, delta)-JDP of all rounds together under *addition or removal* of one user, by
    `SampledGaussianLoss`. For each round, the server secretly draws each user of the population with probability B /
    population. A user changes a sum by at most C/2. This guarantee cannot be compared with that of replacement.

    `counter`: (epsilon, delta)-JDP of the running sums of all updates, by the counter's guarantee for rows that change
    by C in the L2 norm. The noise of an update is then that of a difference of releases, and partly cancels.

    Args:
        clip_norm: without noise: norm of the ball into which gradients are shrunk: 'l1', 'l2', 'elementwise', or 'none'
            for no clip. 'auto': 'l2', with algorithms of a paper the paper's 'l1'.
        mechanism: the noise of a gradient, or of an update's sum if a server adds it. 'auto': the least known, for
            algorithms of a paper the paper's, clipped_laplace.
        clip: C > 0; None for 2, for 0.01 with a paper's algorithms, for 1 with projected_random_sign; not for privunit.
        submissions: T, the maximum of submissions of one agent. If an update is summed, no agent is in it twice.
        release_scores: 'simulator': raw scores are read outside the guarantee; 'none': they are not read.
        sampling: 'one_pass': agents take part in turn; 'poisson': users of a fixed population join rounds at random.
        population: size of the population, with 'poisson'.
        counter: a counter's name: the server releases running sums of updates with correlated noise (DP-FTRL), for
            'clipped_gaussian', 'one_pass' and one submission. 'none': updates have independent noise. 'auto': the
            counter with the smallest error where this is possible, 'none' elsewhere.

    Examples:
        >>> each = GradientPrivacy("ldp", 2.0, submissions=4).design(GradientLayout(10), 100, NoiseConfig())
        >>> each.query.law.scale, each.submissions  # C / (epsilon / T) with the paper's C = 0.01
        (0.02, 4)

    Paper: [OT20] eqs. (19), (20), (21), (22), (23) and (24), Algorithms 2 and 3.
    """

    mechanism: str = AUTO
    clip: float | None = None
    submissions: int = 1
    release_scores: Literal["simulator", "none"] = "simulator"
    sampling: Literal["one_pass", "poisson"] = "one_pass"
    population: int | None = None
    counter: str = AUTO
    clip_norm: Literal["auto", "none", "l1", "l2", "elementwise"] = "auto"
    data: ClassVar[str] = "gradients"
    KEYS: ClassVar[dict[TrustModel, tuple[str, ...]]] = {
        "none": ("clip_norm", "clip", "release_scores"),
        "jdp": (*_NOISY, "sampling", "population", "counter"),
        "ldp": _NOISY,
    }

    @classmethod
    def names(cls, model: TrustModel) -> dict[str, Sequence[str]]:
        if model == "none":
            return {}
        found: dict[str, Sequence[str]] = {"mechanism": [*_LAWS[model], AUTO]}
        return {**found, "counter": [_NO_COUNTER, *COUNTER_NAMES]} if model == "jdp" else found

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("submissions", self.submissions, 1, _MOST_SUBMISSIONS, "write e.g. submissions: 1")
        if self.clip is not None:
            check_positive("clip", self.clip, "gradients are shrunk to half of it: write e.g. 2")
        self._check_clip(self.mechanism)
        if self.model == "jdp" and self.delta == 0 and self.mechanism == ClippedGaussian.name:
            raise ValueError("delta must be above 0 with clipped_gaussian, got 0; set one, or use clipped_laplace")
        self._check_sampling()
        if self.counter not in (_NO_COUNTER, AUTO):
            needed = {"mechanism": (ClippedGaussian.name,), "sampling": ("one_pass",), "submissions": (1,)}
            self._require(f"counter {self.counter}", "no other is proved: change it or leave counter out", **needed)

    def _check_clip(self, mechanism: str) -> None:
        if self.clip is not None and mechanism == PrivUnit.name:
            raise ValueError(f"clip must be left out with privunit, got {self.clip!r}; it sends directions only")

    def _check_sampling(self) -> None:
        size = self.population
        if self.sampling == "one_pass":
            if size is not None:
                rule = "population must be left out with sampling one_pass"
                raise ValueError(f"{rule}, got {size!r}; set the number of users by episodes")
            return
        self._require("sampling poisson", "no other is proved", mechanism=(ClippedGaussian.name, AUTO))
        if self.delta == 0:
            raise ValueError("delta must be above 0 with sampling poisson, got 0; its noise is Gaussian: set one")
        self._require("sampling poisson", "a user joins as many rounds as are drawn: leave it out", submissions=(1,))
        check_whole("population", size, 1, MOST_USERS, "with sampling poisson users are drawn from so many")

    @property
    def _adjacency(self) -> str:  # type: ignore[override]
        return GRADIENT_ADJACENCY if self.sampling == "one_pass" else SAMPLED_ADJACENCY

    def law_for(self, data: GradientLayout) -> str:
        """Return the name of the mechanism; 'auto' is the paper's for its algorithms, else the one of least noise."""
        if self.mechanism != AUTO:
            return self.mechanism
        if data.paper:
            return ClippedLaplace.name
        # Directions have less noise than any clipped vector with noise.
        least = ClippedGaussian.name if self.delta > 0.0 else ClippedLaplace.name
        return PrivUnit.name if self.model == "ldp" else least

    def design(
        self, data: GradientLayout, n_users: int, noise: NoiseConfig, growth: float = 0.0
    ) -> NoiseDesign[GradientQuery]:
        """Return the noise: none, on every message, or of a server on sums of messages."""
        del growth
        exact, origin = noise.arithmetic == "exact", dict[str, Any]()
        if self.model == "none":
            norm = self.clip_norm if self.clip_norm != "auto" else "l1" if data.paper else "l2"
            raw = RawVector(data.dimension, norm, clip_for(data, "", self.clip))
            query = GradientQuery(raw, release_scores=self.release_scores, left_open=data.left_open)
        elif self.model == "ldp":
            query, origin["choice"] = self._local(data, exact)
        elif self.population is not None:
            query = self._sampled(data, self.population, n_users, exact)
            origin["n_users"] = self.population
        else:
            query, origin["choice"] = self._central(data, n_users, exact)
        return self._designed(query, data, n_users, noise, **origin)

    def _local(self, data: GradientLayout, exact: bool) -> tuple[GradientQuery, str]:
        """Return the query with noise on every message."""
        name, why = self.law_for(data), ""
        if exact and self.mechanism == PrivUnit.name:
            raise ValueError(
                "mechanism must not be privunit with arithmetic: exact, got privunit; its guarantee is for real "
                "numbers: write mechanism: clipped_laplace, or arithmetic: fast"
            )
        if exact and name == PrivUnit.name:
            name, why = ClippedLaplace.name, "mechanism: clipped_laplace; privunit is proved for real numbers only"
        self._check_clip(name)
        return GradientQuery(self._law(name, data, exact), self.release_scores, data.left_open), why

    def _central(self, data: GradientLayout, n_users: int, exact: bool) -> tuple[GradientQuery, str]:
        """Return the query with noise on the sum of a window, or on running sums of windows."""
        if self.submissions > 1 and data.window > n_users:
            raise ValueError(
                f"messages of an update must be at most the number of agents with model jdp, {n_users}, got "
                f"{data.window}; an agent would be in an update twice: lower them, or submissions"
            )
        name, scores, window = self.law_for(data), self.release_scores, data.window
        correlates = name == ClippedGaussian.name and self.submissions == 1
        if self.counter == _NO_COUNTER or (self.counter == AUTO and not correlates):
            return GradientQuery(self._law(name, data, exact), scores, data.left_open, window), ""
        clip, updates = clip_for(data, name, self.clip), max(1, n_users // data.window)
        law, counter, why = counted_gradients(
            self.counter, self.epsilon, self.delta, data.dimension, clip, updates, exact
        )
        return GradientQuery(law, scores, data.left_open, window, counter), why

    def _law(self, name: str, data: GradientLayout, exact: bool) -> VectorMechanism:
        clip = clip_for(data, name, self.clip)
        return vector_law(name, self.epsilon, self.delta, self.submissions, data.dimension, clip, exact)

    def _sampled(self, data: GradientLayout, population: int, episodes: int, exact: bool) -> GradientQuery:
        """Return the query of full rounds with `episodes` expected episodes in all."""
        if not data.draws:
            rule = "sampling must be one_pass with this algorithm"
            raise ValueError(f"{rule}, got 'poisson'; its agents take part in turn, not by chance: take dppg")
        if exact:
            wrong = "arithmetic must be fast with sampling poisson, got exact"
            raise ValueError(f"{wrong}; the proof is for real numbers: write arithmetic: fast, or sampling: one_pass")
        if data.window > population:
            raise ValueError(f"population must be at least the users of an update, {data.window}, got {population}")
        rounds, rest = divmod(episodes, data.window)
        if rounds < 1 or rest:
            rule = f"episodes must be a multiple of the users of an update, {data.window}, with sampling poisson"
            raise ValueError(f"{rule}, got {episodes}; they are expected numbers")
        if rounds > _MOST_ROUNDS:
            raise ValueError(f"episodes must make at most {_MOST_ROUNDS} rounds, got {rounds}; take fewer")
        clip = clip_for(data, ClippedGaussian.name, self.clip)
        multiplier = sampled_multiplier(self.epsilon, self.delta, data.window / population, rounds)
        law, scores = ClippedGaussian.with_scale(multiplier * clip / 2.0, data.dimension, clip), self.release_scores
        return SampledGradientQuery(law, scores, data.left_open, data.window, population=population, rounds=rounds)


def clip_for(data: GradientLayout, mechanism: str, chosen: float | None) -> float:
    """Return the chosen clip, or the default one for a mechanism."""
    if chosen is not None:
        return chosen
    if mechanism == ProjectedRandomSign.name:
        return _SIGN_CLIP
    return PAPER_CLIP if data.paper else DEFAULT_CLIP


# ---- the least noise of one submission ----


@lru_cache(256, typed=True)
def vector_law(
    mechanism: str, epsilon: float, delta: float, submissions: int, dimension: int, clip: float, exact: bool
) -> VectorMechanism:
    """Return the least noise of one submission for which all of them meet the guarantee.

    mechanism: a name of VECTORS. clip: privunit has none. exact: whether only noise on a grid is allowed.

    *Formal guarantee.* For delta = 0 the losses of all submissions add up to at most epsilon. For delta > 0 the curve
    of all gradients together, the one of certificates, meets (epsilon, delta).
    Raises ValueError if there is none.
    """

    def each(losses: int = 1) -> float:
        """Return the largest loss that each submission can have `losses` times by any law, rounded down."""
        return largest_loss(epsilon, delta, losses * submissions)

    try:
        # A loss that meets the guarantee, and the law of a loss.
        law_of: _LawOfLoss
        if mechanism == ClippedLaplace.name:
            loss, law_of = each(), lambda e: ClippedLaplace.calibrated(e, 0.0, dimension, clip, exact)
        elif mechanism == PrivUnit.name:
            loss, law_of = each(), lambda e: PrivUnit.calibrated(e, 0.0, dimension)
        elif mechanism == ProjectedRandomSign.name:
            bits = _bits(each, dimension)
            loss = each(bits)
            law_of = lambda e: ProjectedRandomSign(  # noqa: E731
                dimension, bits, clip, RandomizedResponse(min(LARGEST_EPSILON, e))
            )
        else:
            loss, law_of = epsilon, lambda e: _gaussian(e, delta, submissions, dimension, clip, exact)
        law = law_of(loss)
        return law if delta <= 0.0 else _least_noise(epsilon, delta, submissions, law, loss, law_of)
    except ValueError as error:
        if submissions == 1:
            raise
        raise ValueError(f"{error} (one of {submissions} submissions)") from error


def _least_noise(
    epsilon: float, delta: float, submissions: int, law: VectorMechanism, loss: float, law_of: _LawOfLoss
) -> VectorMechanism:
    """Return the law with the largest loss that meets (epsilon, delta > 0), or `law`, of loss `loss`, if none gains."""
    inner_epsilon, inner_delta = inside(epsilon, delta)

    def delta_of(other: float) -> float:
        try:
            return repeat(law_of(other).curve(), submissions).delta(inner_epsilon)
        except ValueError:  # beyond the losses that the law can have
            return float(other >= loss)

    def holds(found: VectorMechanism) -> bool:
        return repeat(found.curve(), submissions).delta(epsilon) <= delta

    more = largest(delta_of, inner_delta, loss)
    if holds(law) and more <= loss * _WORTH:
        return law
    found = law_of(more)
    return found if holds(found) or not holds(law) else law


def _gaussian(
    epsilon: float, delta: float, submissions: int, dimension: int, clip: float, exact: bool
) -> ClippedGaussian:
    """Return Gaussian noise for the diameter of all submissions together, sqrt(T) times that of one."""
    wide = clip * math.sqrt(submissions)
    while True:
        whole = ClippedGaussian.calibrated(epsilon, delta, dimension, wide, exact)
        found = ClippedGaussian(dimension, clip, whole.additive, whole.grid)
        # Radii that are rounded down to the grid need not be sqrt(T) times each other.
        if repeat(found.curve(), submissions).delta(epsilon) <= delta:
            return found
        wide *= 1.0 + 2.0**-12


def _bits(each: Callable[[int], float], dimension: int) -> int:
    """Return the number of bits with a loss of 2.5 each, as in the paper, or one bit if the budget is smaller."""
    return 1 + bisect_left(range(2, dimension + 1), True, key=lambda bits: each(bits) < EPSILON_PER_PROJECTION)


def counted_gradients(
    counter: str, epsilon: float, delta: float, dimension: int, clip: float, rounds: int, exact: bool
) -> tuple[ClippedGaussian, AnyCounter, str]:
    """Return the law and the counter, by name or 'auto', with the least noise for `rounds` releases, and why.

    Raises ValueError if there is none, or no whole-number noise for it with exact arithmetic.
    """
    law, tree = ClippedGaussian.with_scale(1.0, dimension, clip), counter
    whole = tuple(name for name, kind in COUNTERS.items() if kind.place == NODE)
    if exact:
        if counter not in (*whole, AUTO):
            rule = f"counter must be one of {', '.join(whole)} with arithmetic: exact"
            raise ValueError(f"{rule}, got {counter!r}; other counters do not keep whole numbers")
        tree = BinaryTree.name if counter == AUTO else counter
    found, why = calibrated_of(tree, Gaussian, epsilon, delta, law.sensitivity, rounds, dimension)
    if exact:
        # Its grid is that of the continuous noise.
        law = ClippedGaussian.with_scale(node_of(found).scale, dimension, clip, exact=True)
        found, why = calibrated_of(counter, DiscreteGaussian, epsilon, delta, law.sensitivity, rounds, dimension, whole)
    return replace(law, additive=node_of(found)), found, why
