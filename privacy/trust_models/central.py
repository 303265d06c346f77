"""Trust model jdp: a trusted server keeps exact sums, and releases them with noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, cast

from dprl.privacy.accounting.amplification import sampled_multiplier
from dprl.privacy.base import Guarantee, TrustModel
from dprl.privacy.counters.binary_tree import BinaryTree
from dprl.privacy.mechanisms.gradients import ClippedGaussian, ClippedLaplace
from dprl.privacy.mechanisms.gram_laws import GramGaussian
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.queries.correlated_gradients import CorrelatedGradientQuery, counted_gradients
from dprl.privacy.queries.count_calibration import AUTO, calibrated_counter, counter_names
from dprl.privacy.queries.count_encoding import CountEncoding
from dprl.privacy.queries.count_families import CountFamilies
from dprl.privacy.queries.count_precision import NoiseSpec
from dprl.privacy.queries.counts import CountQuery
from dprl.privacy.queries.gradient_calibration import GradientBudget, GradientLayout, vector_law
from dprl.privacy.queries.gradients import GradientQuery
from dprl.privacy.queries.linear_statistics import StatisticsLayout, StatisticsQuery
from dprl.privacy.queries.sampled_gradients import MOST_USERS, SampledGradientQuery
from dprl.privacy.queries.statistics_calibration import NODES, counted_statistics
from dprl.privacy.randomness.streams import Streams
from dprl.privacy.schedule import ReleaseSchedule
from dprl.privacy.threat_models import SAMPLED_ADJACENCY
from dprl.privacy.trust_models.base import NoisyGradientSettings, Placed, Q, StatisticsSettings, TrustModelSettings
from dprl.privacy.trust_models.counts import CountSettings
from dprl.privacy.validation import check_choice

_NO_COUNTER = "none"
ReleaseTimes = Literal["scheduled", "every_user"]


@dataclass(frozen=True)
class CentralPrivacy(CountSettings):
    """Joint differential privacy: a trusted server keeps exact counts and releases noisy running counts.

    *Formal guarantee.* `certified`: (epsilon, delta)-JDP under replacement of one user's trajectory, by the counter's
    guarantee and the billboard lemma; for the binary tree with Laplace noise and delta = 0, the node scale is
    2 H F L / epsilon (H steps, F released families, L = ceil(log2 K)). `printed`: the paper's node scale, which proves
    only 2 L / log K * epsilon.

    Args:
        counter: a counter's name, or 'auto' for the one with the smallest error; printed noise has binary_tree.
        releases: 'scheduled': the counter is built for only the releases that plans read (with `replan_growth` above 0
            and certified noise), so L = floor(log2 n) + 1 for n releases; 'every_user': for a release after every user.

    Paper: [CZ22] Lemma 3.
    """

    counter: str = AUTO
    releases: ReleaseTimes = "scheduled"
    model: ClassVar[TrustModel] = "jdp"

    def __post_init__(self) -> None:
        super().__post_init__()
        counters, laws = counter_names()
        check_choice("counter", self.counter, counters)
        check_choice("mechanism", self.mechanism, laws)
        if self.calibration == "printed" and (
            self.counter not in (AUTO, BinaryTree.name) or self.mechanism not in (AUTO, Laplace.name)
        ):
            raise ValueError(
                f"calibration must be certified with counter {self.counter} and mechanism {self.mechanism}, "
                "got 'printed'; the papers print a scale for binary_tree with laplace only"
            )

    def place(self, data: CountFamilies, n_users: int, streams: Streams, growth: float) -> Placed[CountQuery]:
        """Return the query with the calibrated or the printed noise; a printed scale is for a release per user."""
        planned = growth if self.calibration == "certified" else 0.0
        place = super().place
        return _scheduled(lambda n: place(data, n, streams, growth), n_users, planned, self.releases)

    def _noise(self, encoding: CountEncoding, n_users: int, streams: Streams) -> tuple[NoiseSpec, str]:
        name = BinaryTree.name if self.printed and self.counter == AUTO else self.counter
        counter, why = calibrated_counter(name, self._law_name, self._budget(encoding, n_users, streams))
        return NoiseSpec(None, counter), why


@dataclass(frozen=True)
class CentralGradientPrivacy(NoisyGradientSettings):
    """Joint differential privacy: a trusted server adds noise to the sum of each update's clipped gradients.

    *Formal guarantee.* (epsilon, delta)-JDP of everything that one agent sends in `submissions` adaptive submissions,
    for any two environments and all their episodes, by the billboard lemma: every submission is in one update and
    changes its sum by at most C, and updates have independent noise. The noise of an update is that of one message of
    the local model, so a mean of B gradients has 1/sqrt(B) of the local model's. An incomplete last update is left out.

    `sampling: poisson`: (epsilon, delta)-JDP of all rounds together under *addition or removal* of one user, by
    `SampledGaussianLoss`. For each round, the server secretly draws each user of the population with probability B /
    population. A user changes a sum by at most C/2. This guarantee cannot be compared with that of replacement.

    `counter`: (epsilon, delta)-JDP of the running sums of all updates, by the counter's guarantee for rows that change
    by C in the L2 norm. The noise of an update is then that of the difference of two releases, and partly cancels in
    the parameters.

    Args:
        release_scores: 'simulator': raw scores are read outside the guarantee; 'none': they are not read.
        sampling: 'one_pass': agents take part in turn; 'poisson': users of a fixed population join rounds at random.
        population: size of the population, with 'poisson'.
        counter: a counter's name: the server releases running sums of updates with correlated noise (DP-FTRL), for
            'clipped_gaussian', 'one_pass' and one submission. 'none': updates have independent noise. 'auto': the
            counter with the smallest error where this is possible, 'none' elsewhere.
    """

    release_scores: Literal["simulator", "none"] = "simulator"
    sampling: Literal["one_pass", "poisson"] = "one_pass"
    population: int | None = None
    counter: str = AUTO
    laws: ClassVar[Sequence[str]] = (ClippedLaplace.name, ClippedGaussian.name)
    model: ClassVar[TrustModel] = "jdp"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.delta == 0 and self.mechanism == ClippedGaussian.name:
            raise ValueError("delta must be above 0 with clipped_gaussian, got 0; set one, or use clipped_laplace")
        self._check_sampling()
        self._check_counter()

    def _check_counter(self) -> None:
        check_choice("counter", self.counter, [_NO_COUNTER, *counter_names()[0]])
        if self.counter in (_NO_COUNTER, AUTO):
            return
        for key, value, needed in (
            ("mechanism", self.mechanism, ClippedGaussian.name),
            ("sampling", self.sampling, "one_pass"),
            ("submissions", self.submissions, 1),
        ):
            if value != needed:
                raise ValueError(
                    f"{key} must be {needed} with counter {self.counter}, got {value!r}; no other is proved: change it "
                    "or leave counter out"
                )

    def _check_sampling(self) -> None:
        size = self.population
        if self.sampling == "one_pass":
            if size is not None:
                raise ValueError(
                    f"population must be left out with sampling one_pass, got {size!r}; set the number of users by "
                    "episodes"
                )
            return
        if self.mechanism not in (AUTO, ClippedGaussian.name):
            raise ValueError(
                f"mechanism must be clipped_gaussian with sampling poisson, got {self.mechanism!r}; no other is proved"
            )
        if self.delta == 0:
            raise ValueError("delta must be above 0 with sampling poisson, got 0; its noise is Gaussian: set one")
        if self.submissions > 1:
            raise ValueError(
                f"submissions must be left out with sampling poisson, got {self.submissions}; a user joins as many "
                "rounds as are drawn"
            )
        if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= MOST_USERS:
            raise ValueError(
                f"population must be a whole number from 1 to {MOST_USERS} with sampling poisson, got {size!r}; write "
                "the number of users who can be drawn"
            )

    @property
    def requested(self) -> Guarantee:
        """The guarantee that was asked for."""
        if self.sampling == "one_pass":
            return super().requested
        return Guarantee(self.model, self.epsilon, self.delta, SAMPLED_ADJACENCY)

    def place(self, data: GradientLayout, n_users: int, streams: Streams, growth: float) -> Placed[GradientQuery]:
        """Return the query with noise on the sum of a window."""
        del growth
        if self.population is not None:
            return self._sampled(data, self.population, n_users, streams)
        if self.submissions > 1 and data.window > n_users:
            raise ValueError(
                f"messages of an update must be at most the number of agents with model jdp, {n_users}, got "
                f"{data.window}; an agent would be in an update twice: lower them, or submissions"
            )
        budget = GradientBudget(
            self.epsilon, self.delta, self.submissions, data.dimension, streams.noise.arithmetic == "exact"
        )
        name = self.law_for(data)
        clip, counts = data.clip(name, self.clip), name == ClippedGaussian.name and self.submissions == 1
        if self.counter != _NO_COUNTER and (self.counter != AUTO or counts):
            return self._counted(data, budget, clip, max(1, n_users // data.window))
        law = vector_law(name, budget, clip)
        query = GradientQuery(law, release_scores=self.release_scores, left_open=data.left_open, window=data.window)
        return Placed(query)

    @property
    def _least(self) -> str:
        return ClippedGaussian.name if self.delta > 0.0 else ClippedLaplace.name

    def _counted(
        self, data: GradientLayout, budget: GradientBudget, clip: float, updates: int
    ) -> Placed[GradientQuery]:
        """Return the query with a counter for `updates` updates."""
        law, counter, why = counted_gradients(self.counter, budget, clip, updates)
        query = CorrelatedGradientQuery(
            law, release_scores=self.release_scores, left_open=data.left_open, window=data.window, counter=counter
        )
        return Placed(query, choice=why)

    def _sampled(self, data: GradientLayout, population: int, episodes: int, streams: Streams) -> Placed[GradientQuery]:
        """Return the query of full rounds with `episodes` expected episodes in all."""
        if not data.draws:
            raise ValueError(
                "sampling must be one_pass with this algorithm, got 'poisson'; its agents take part in turn, not by "
                "chance: take dppg"
            )
        if streams.noise.arithmetic == "exact":
            raise ValueError(
                "arithmetic must be fast with sampling poisson, got exact; the proof is for real numbers: write "
                "arithmetic: fast, or sampling: one_pass"
            )
        if data.window > population:
            raise ValueError(f"population must be at least the users of an update, {data.window}, got {population}")
        rounds, rest = divmod(episodes, data.window)
        if rounds < 1 or rest:
            raise ValueError(
                f"episodes must be a multiple of the users of an update, {data.window}, with sampling poisson, got "
                f"{episodes}; they are expected numbers"
            )
        clip = data.clip(ClippedGaussian.name, self.clip)
        multiplier = sampled_multiplier(self.epsilon, self.delta, data.window / population, rounds)
        query = SampledGradientQuery(
            ClippedGaussian.with_scale(multiplier * clip / 2.0, data.dimension, clip),
            release_scores=self.release_scores,
            left_open=data.left_open,
            window=data.window,
            population=population,
            rounds=rounds,
        )
        return Placed(query, users=population)


@dataclass(frozen=True)
class CentralStatisticsPrivacy(StatisticsSettings):
    """Joint differential privacy: a trusted server keeps exact sums of clipped statistics, and releases noisy ones.

    *Formal guarantee.* (epsilon, delta)-JDP under replacement of one user's trajectory, by the counter's guarantee for
    rows that change by `StatisticsQuery.row`, and the billboard lemma. One counter has all Gram matrices and
    corrections.

    Args:
        mechanism: 'gram_laplace' or 'gram_gaussian'; 'auto': the latter with delta above 0.
        counter: a counter's name, or 'auto' for the one with the smallest error.
        rewards: 'noisy': corrections are counted, too, and reward_share is their share in the squared L2 norm
            (Gaussian) or the L1 norm of a user's row; 'public': rewards are known, and no corrections are sent.
        releases: 'scheduled': the counter is built for only the releases that plans read (with `replan_growth` above
            0); 'every_user': for a release after every user.
    """

    counter: str = AUTO
    rewards: Literal["noisy", "public"] = "noisy"
    releases: ReleaseTimes = "scheduled"
    model: ClassVar[TrustModel] = "jdp"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("mechanism", self.mechanism, list(NODES))
        check_choice("counter", self.counter, counter_names()[0])
        if self.delta == 0 and self.mechanism == GramGaussian.name:
            raise ValueError("delta must be above 0 with gram_gaussian, got 0; set one, or use gram_laplace")

    def place(self, data: StatisticsLayout, n_users: int, streams: Streams, growth: float) -> Placed[StatisticsQuery]:
        """Return the query with a counter on the server's side."""
        budget = self._budget(self.rewards, streams)

        def counted(n_items: int) -> Placed[StatisticsQuery]:
            query, why = counted_statistics(budget, self.counter, data, n_items)
            return Placed(query, choice=why)

        return _scheduled(counted, n_users, growth, self.releases)


def _scheduled(place: Callable[[int], Placed[Q]], n_users: int, growth: float, releases: ReleaseTimes) -> Placed[Q]:
    """Return the query that `place` makes for a counter of n items: one for each release that plans read, or user."""
    if growth <= 0.0 or releases == "every_user":
        return place(n_users)
    schedule = ReleaseSchedule(growth, n_users)
    placed = place(schedule.number)
    return placed._replace(query=replace(cast("Any", placed.query), schedule=schedule))


CENTRAL_PRIVACY: dict[str, type[TrustModelSettings[Any, Any]]] = {
    CountQuery.name: CentralPrivacy,
    GradientQuery.name: CentralGradientPrivacy,
    StatisticsQuery.name: CentralStatisticsPrivacy,
}
"""Settings by query."""
