"""Calibration of linear statistics: the least noise of a kind, and the noise that [TH23] prints."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dprl.privacy.accounting.closed_forms import gaussian_mu
from dprl.privacy.counters.selection import CounterRequirements, calibrated_of
from dprl.privacy.mechanisms import GramMechanism
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.gradients import ClippedGaussian, ClippedLaplace
from dprl.privacy.mechanisms.gram import GramRelease
from dprl.privacy.mechanisms.gram_base import ROUNDING, RawGram, shape_of
from dprl.privacy.mechanisms.gram_laws import (
    GramBoundedLaplace,
    GramGaussian,
    GramLaplace,
    GramUniform,
    printed_gaussian_sigma,
    printed_laplace_scale,
    printed_uniform_bound,
)
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.queries.linear_statistics import (
    CountedStatistics,
    Rewards,
    StatisticsLayout,
    StatisticsQuery,
    correction_row,
    gram_row,
)

REWARD_SHARE = 0.1


@dataclass(frozen=True)
class StatisticsBudget:
    """The guarantee that the noise on one user's statistics must meet.

    Args:
        epsilon, delta: the guarantee. mechanism: a name of GRAMS.
        rewards: treatment of the corrections. reward_share: share of mu^2 (Gaussian) or of epsilon for noisy ones.
        reward_clip: G, the norm to which each correction is clipped.
        stage_scales: whether noise is in proportion to m_h^2; otherwise it is the same at all stages.
    """

    epsilon: float
    delta: float
    mechanism: str
    rewards: Rewards
    reward_share: float
    reward_clip: float
    stage_scales: bool


def counted_statistics(
    budget: StatisticsBudget, counter_name: str, layout: StatisticsLayout, n_users: int
) -> tuple[StatisticsQuery, str]:
    """Return the query with the counter of least noise, with the reason if it was chosen.

    Raises ValueError if no counter of that name can meet the budget.
    """
    release, node = layout.release(clipped=True), NODES[budget.mechanism]
    # A stage without user data has no noise, and its scale is never used.
    scales = tuple(scale or 1.0 for scale in shape_of(release, budget.stage_scales))
    row, reward_scale = gram_row(release, scales, node.norm), 0.0
    if budget.rewards == "noisy":
        unit, share = correction_row(layout, budget.reward_clip, 1.0, node.norm), budget.reward_share
        ratio = share / (1.0 - share)
        reward_scale = unit.l1 / (ratio * row.l1) if node.norm == "l1" else unit.l2 / (math.sqrt(ratio) * row.l2)
        row = row.beside(correction_row(layout, budget.reward_clip, reward_scale, node.norm))
    wanted = CounterRequirements(budget.epsilon, budget.delta, row, n_users, row.cells)
    counter, why = calibrated_of(counter_name, node, wanted)
    central = CountedStatistics(counter, scales, reward_scale)
    raw = RawGram(release)
    query = StatisticsQuery(layout, raw, budget.rewards, reward_clip=budget.reward_clip, central=central)
    worst = math.sqrt(counter.node.variance / node(1.0).variance) * counter.errors()[1] if counter.node else 0.0
    ratio = _noise_ratio([scale * worst for scale in scales], budget, layout)
    return replace(query, noise_ratio=ratio), why


def certified_statistics(budget: StatisticsBudget, layout: StatisticsLayout) -> StatisticsQuery:
    """Return the query with the least noise that meets the budget; raise ValueError if there is none."""
    mechanism, vector = CALIBRATED[budget.mechanism](budget, layout)
    ratio = _noise_ratio(mechanism.scales, budget, layout)
    return StatisticsQuery(layout, mechanism, budget.rewards, vector, budget.reward_clip, ratio)


def _noise_ratio(scales: Sequence[float], budget: StatisticsBudget, layout: StatisticsLayout) -> float:
    """Return the mean of scales float64[H] over the stages that are sent, in units of the printed scale."""
    printed = PRINTED[budget.mechanism].scale(budget, layout)
    sent = [scale / printed for scale, m in zip(scales, layout.release(clipped=True).bounds, strict=True) if m > 0]
    return math.fsum(sent) / len(sent)


_Noise = tuple[GramMechanism, ClippedGaussian | ClippedLaplace | None]


def _gaussian(budget: StatisticsBudget, layout: StatisticsLayout) -> _Noise:
    """Return Gaussian noise of both parts, of one mu^2."""
    release = layout.release(clipped=True)
    mu = gaussian_mu(budget.epsilon, budget.delta)
    if budget.rewards != "noisy":
        return GramGaussian.from_gdp(mu, release, budget.stage_scales), None
    # All corrections of a user are one vector, and none of them is longer than G.
    diameter = 2.0 * budget.reward_clip * math.sqrt(layout.n_agents * layout.horizon)
    scale = diameter / (mu * math.sqrt(budget.reward_share)) * (1.0 + ROUNDING)
    vector = ClippedGaussian.with_scale(scale, layout.n_corrections, diameter)
    rest = mu * math.sqrt(1.0 - budget.reward_share)
    return GramGaussian.from_gdp(rest, release, budget.stage_scales), vector


def _laplace(budget: StatisticsBudget, layout: StatisticsLayout) -> _Noise:
    """Return Laplace noise of both parts, which share epsilon."""
    release = layout.release(clipped=True)
    vector, epsilon = None, budget.epsilon
    if budget.rewards == "noisy":
        part = epsilon * budget.reward_share
        diameter = 2.0 * budget.reward_clip * layout.n_agents * layout.horizon
        vector = ClippedLaplace.calibrated(part, 0.0, layout.n_corrections, diameter)
        # Rounded down by more than the sum of both parts' rounding errors.
        epsilon = (epsilon - part) * (1.0 - ROUNDING)
    return GramLaplace.calibrated(epsilon, budget.delta, release, budget.stage_scales), vector


@dataclass(frozen=True)
class _PrintedNoise:
    """The noise that [TH23] prints for one mechanism: its scale, the theorem, and whether that claims delta = 0."""

    scale: Callable[[StatisticsBudget, StatisticsLayout], float]
    source: str
    pure: bool = False


def _laplace_scale(budget: StatisticsBudget, layout: StatisticsLayout) -> float:
    return printed_laplace_scale(layout.horizon, layout.dimension, budget.epsilon)


PRINTED: dict[str, _PrintedNoise] = {
    GramGaussian.name: _PrintedNoise(
        lambda budget, layout: printed_gaussian_sigma(layout.horizon, budget.epsilon, budget.delta), "[TH23] Theorem 1"
    ),
    GramLaplace.name: _PrintedNoise(_laplace_scale, "[TH23] Theorem 3", pure=True),
    GramUniform.name: _PrintedNoise(
        lambda budget, layout: printed_uniform_bound(layout.horizon, budget.delta),
        "[TH23] Theorem 5, which claims (0, delta), and so (epsilon, delta) for the requested epsilon",
    ),
    GramBoundedLaplace.name: _PrintedNoise(_laplace_scale, "[TH23] Theorem 7", pure=True),
}
OF_SCALES: dict[str, Callable[[GramRelease, tuple[float, ...]], GramMechanism]] = {
    kind.name: kind for kind in (GramGaussian, GramLaplace, GramUniform)
}
CALIBRATED: dict[str, Callable[[StatisticsBudget, StatisticsLayout], _Noise]] = {
    GramGaussian.name: _gaussian,
    GramLaplace.name: _laplace,
}
NODES: dict[str, type[Gaussian] | type[Laplace]] = {GramGaussian.name: Gaussian, GramLaplace.name: Laplace}
"""Noise of a trusted server's counter, by mechanism."""
