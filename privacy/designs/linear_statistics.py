"""Noise on statistics of a linear model: what a config's `privacy` section says, and the least noise that meets it.

Read `StatisticsPrivacy.design` first. Then the noise of a server's counter and of messages, and the scales of [TH23].
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, cast

from dprl.privacy.accounting.closed_forms import gaussian_mu
from dprl.privacy.base import Guarantee, TrustModel, check_positive
from dprl.privacy.counters.selection import calibrated_of
from dprl.privacy.designs.base import AUTO, COUNTER_NAMES, PrivacySettings, ReleaseTimes
from dprl.privacy.mechanisms import GRAMS, gram
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.gram import Gram, GramBoundedLaplace, GramGaussian, GramLaplace, GramUniform
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.mechanisms.vectors import ClippedGaussian, ClippedLaplace
from dprl.privacy.noise_design import NoiseDesign
from dprl.privacy.queries.linear_statistics import Rewards, StatisticsLayout, StatisticsQuery, correction_row, gram_row
from dprl.privacy.randomness.streams import NoiseConfig
from dprl.privacy.schedule import ReleaseSchedule

REWARD_SHARE = 0.1
CERTIFIED = (GramGaussian.name, GramLaplace.name)
"""Mechanisms that can be calibrated, on either side."""
_SOURCES = {
    GramGaussian.name: "[TH23] Theorem 1",
    GramLaplace.name: "[TH23] Theorem 3",
    GramUniform.name: "[TH23] Theorem 5, which claims (0, delta), and so (epsilon, delta) for the requested epsilon",
    GramBoundedLaplace.name: "[TH23] Theorem 7",
}
_PURE = (GramLaplace.name, GramBoundedLaplace.name)  # mechanisms whose theorem claims delta = 0
_CLIPS = ("device", "centered")
_NOISY = ("mechanism", "reward_share", "reward_clip", "stage_scales")


@dataclass(frozen=True)
class StatisticsPrivacy(PrivacySettings[StatisticsLayout, StatisticsQuery]):
    """Privacy of statistics; neighbours differ in one user's trajectory.

    *Formal guarantee.* `jdp`: a trusted server keeps exact sums of clipped statistics, and releases noisy ones:
    (epsilon, delta)-JDP by the counter's guarantee for rows that change by `StatisticsQuery.row`, and the billboard
    lemma. One counter has all Gram matrices and corrections.

    `ldp`: every user's device adds noise to its statistics before they leave. `certified`: (epsilon, delta)-LDP of
    everything that one user sends, for any two inputs; the noise of the statistics and that of the rewards' corrections
    share the budget. `printed`: the scales of [TH23], with a certificate of what they prove: nothing without the clips
    that the paper leaves out (D7), or with open rewards (D6); otherwise less than claimed from some number of agents on
    (D8, D9), and always less for bounded noise (D10, D11).

    Args:
        mechanism: a Gram mechanism's name; gram_uniform and gram_bounded_laplace are only for printed. 'auto':
            gram_gaussian with delta above 0, which has less noise, else gram_laplace.
        reward_share: share of epsilon, or of mu^2 with Gaussian noise, for noisy corrections of the rewards' weights.
        reward_clip: G, the norm to which each correction is clipped.
        stage_scales: whether noise is in proportion to m_h^2, m_h the bound of values; otherwise all stages' is equal.
        counter: a counter's name, or 'auto' for the one with the smallest error.
        rewards: 'public': rewards are known, no corrections are sent; 'noisy': corrections of their weights have noise;
            'open': they have none. 'auto': noisy if certified, open if printed or without privacy.
        releases: 'scheduled': the counter is built for only the releases that plans read (with `replan_growth` above
            0); 'every_user': for a release after every user.
        calibration: source of the scale.
        clipping: of features and values: 'device' to H - h; 'centered' to half of it, with values about the centre of
            their range and stretched to fill it, for a quarter of the noise; 'none'. 'auto': centered if certified,
            none if printed or without privacy.
        bound_ratio: B / b of the printed bounded Laplace law, which the paper leaves open.
        noise_scale: multiplies printed scales, to illustrate learning with less noise.

    Examples:
        >>> layout = StatisticsLayout(horizon=5, dimension=4, n_messages=2, n_agents=2, reward_dimension=3)
        >>> StatisticsPrivacy("ldp", 1.0, calibration="printed").design(layout, 100, NoiseConfig()).source
        '[TH23] Theorem 3'

    Paper: [TH23] Theorems 1, 3, 5 and 7.
    """

    mechanism: str = AUTO
    calibration: Literal["certified", "printed"] = "certified"
    clipping: str = AUTO
    rewards: str = AUTO
    counter: str = AUTO
    releases: ReleaseTimes = "scheduled"
    bound_ratio: float = 1.0
    noise_scale: float = 1.0
    reward_share: float = REWARD_SHARE
    reward_clip: float = 1.0
    stage_scales: bool = True
    data: ClassVar[str] = "statistics"
    KEYS: ClassVar[dict[TrustModel, tuple[str, ...]]] = {
        "none": ("rewards", "clipping"),
        "jdp": (*_NOISY, "counter", "clipping", "rewards", "releases"),
        "ldp": (*_NOISY, "calibration", "clipping", "rewards", "bound_ratio", "noise_scale"),
    }

    @classmethod
    def names(cls, model: TrustModel) -> dict[str, Sequence[str]]:
        if model == "none":
            return {"rewards": ["public", "open", AUTO], "clipping": [*_CLIPS, "none", AUTO]}
        if model == "jdp":
            found = {"mechanism": [*CERTIFIED, AUTO], "counter": COUNTER_NAMES, "clipping": [*_CLIPS, AUTO]}
            return {**found, "rewards": ["noisy", "public", AUTO]}
        found = {"mechanism": [*GRAMS, AUTO], "rewards": [AUTO, "public", "noisy", "open"]}
        return {**found, "clipping": [AUTO, *_CLIPS, "none"]}

    def __post_init__(self) -> None:
        super().__post_init__()
        # 'auto' becomes the one treatment that it stands for; in the local model that depends on the calibration.
        if self.model != "ldp" and self.rewards == AUTO:
            object.__setattr__(self, "rewards", "open" if self.model == "none" else "noisy")
        if self.model != "ldp" and self.clipping == AUTO:
            object.__setattr__(self, "clipping", "none" if self.model == "none" else "centered")
        if self.model == "none":
            return
        if self.mechanism == AUTO:
            object.__setattr__(self, "mechanism", GramGaussian.name if self.delta > 0.0 else GramLaplace.name)
        check_positive("reward_clip", self.reward_clip)
        share = self.reward_share
        if not (isinstance(share, int | float) and not isinstance(share, bool) and 0 < share < 1):
            raise ValueError(f"reward_share must lie in (0, 1), got {share!r}; without noisy rewards leave it out")
        if self.delta == 0 and self.mechanism in (GramGaussian.name, GramUniform.name):
            kind = f"{self.calibration} {self.mechanism}" if self.model == "ldp" else self.mechanism
            raise ValueError(f"delta must be above 0 with {kind}, got 0; set one, or use gram_laplace")
        if self.model == "ldp":
            self._check_local()
        unused = "it has no effect: leave it out"
        if self.treatment != "noisy":
            defaults = {"reward_share": (REWARD_SHARE,), "reward_clip": (1.0,)}
            self._require(f"rewards {self.treatment}", unused, **defaults)
        if self.model == "ldp" and self.calibration == "printed":
            self._require("the printed calibration", unused, stage_scales=(True,))

    def _check_local(self) -> None:
        for key in ("bound_ratio", "noise_scale"):
            check_positive(key, getattr(self, key))
        if (self.mechanism, self.calibration) != (GramBoundedLaplace.name, "printed"):
            where = f"{self.calibration} {self.mechanism}"
            only = "only gram_bounded_laplace with calibration: printed lets you choose it"
            self._require(where, only, bound_ratio=(1,))
        if self.calibration == "printed":
            otherwise = "the paper has no noise for them: use calibration: certified"
            self._require("the printed calibration", otherwise, rewards=(AUTO, "public", "open"))
            noise = "the paper's noise is for values from 0 to H - h: use clipping: device"
            self._require("the printed calibration", noise, clipping=(AUTO, "device", "none"))
            return
        for why, allowed in (
            ("without clips no noise has a finite guarantee", {"clipping": (AUTO, *_CLIPS)}),
            ("corrections without noise have no finite guarantee", {"rewards": (AUTO, "noisy", "public")}),
            ("noise of bounded support is larger, or hides everything", {"mechanism": CERTIFIED}),
            ("it sets the scale itself", {"noise_scale": (1,)}),
        ):
            remedy = f"{why}: use calibration: printed to see what it does"
            self._require("the certified calibration", remedy, **allowed)

    @property
    def clips(self) -> bool:
        """Whether the device clips features and values."""
        return self.clipping == "device" or self.centers

    @property
    def centers(self) -> bool:
        """Whether the device sends values as their distance from the centre of their range."""
        certified = self.calibration == "certified" and self.model != "none"
        return self.clipping == "centered" or (self.clipping == AUTO and certified)

    @property
    def treatment(self) -> Rewards:
        """Treatment of the rewards' corrections."""
        if self.rewards != AUTO:
            return cast("Rewards", self.rewards)
        return "noisy" if self.calibration == "certified" and self.model != "none" else "open"

    def design(
        self, data: StatisticsLayout, n_users: int, noise: NoiseConfig, growth: float = 0.0
    ) -> NoiseDesign[StatisticsQuery]:
        """Return the noise: none, of a server's counter, or of messages, calibrated or printed."""
        if self.model == "none":
            raw = StatisticsQuery(data, data.release(self.clips, self.centers), self.treatment)
            return self._designed(raw, data, n_users, noise)
        if noise.arithmetic == "exact":
            rule = "arithmetic must be fast for statistics"
            raise ValueError(f"{rule}, got exact; their noise is proved for real numbers: write arithmetic: fast")
        if self.model == "jdp":
            scheduled = growth != 0.0 and self.releases == "scheduled"
            schedule = ReleaseSchedule(growth, n_users) if scheduled else None
            query, why = self._central(data, n_users if schedule is None else schedule.number)
            return self._designed(replace(query, schedule=schedule), data, n_users, noise, growth, choice=why)
        if self.calibration == "certified":
            return self._designed(self._certified(data), data, n_users, noise, choice=self._choice())
        # The paper's scale is the same at all stages.
        release, scale = data.release(self.clips, self.centers), self.noise_scale * self.printed_scale(data)
        scales = tuple(scale if bound > 0 else 0.0 for bound in release.bounds)
        if self.mechanism == GramBoundedLaplace.name:
            # D11: the bound is left open.
            law: Gram = GramBoundedLaplace(release, scales, tuple(self.bound_ratio * b for b in scales))
        else:
            law = GRAMS[self.mechanism](release, scales)
        source, calibration = _SOURCES[self.mechanism], str(self.calibration)
        if self.noise_scale != 1:
            source = f"nobody, an illustration: {self.noise_scale:g} times the noise of {source} (noise_scale)"
            calibration = f"{self.noise_scale:g} times {calibration}"
        claimed = Guarantee(self.model, self.epsilon, 0.0 if self.mechanism in _PURE else self.delta)
        query = StatisticsQuery(data, law, self.treatment, noise_ratio=self.noise_scale)
        return self._designed(
            query, data, n_users, noise, claimed=claimed, source=source, calibration=calibration, choice=self._choice()
        )

    def _choice(self) -> str:
        chosen = [f"clipping: {'centered' if self.centers else 'none'}"] if self.clipping == AUTO else []
        chosen += [f"rewards: {self.treatment}"] if self.rewards == AUTO else []
        reason = "what the certified noise needs" if self.calibration == "certified" else "what the paper has"
        return f"{', '.join(chosen)}; {reason}" if chosen else ""

    def _central(self, layout: StatisticsLayout, n_items: int) -> tuple[StatisticsQuery, str]:
        """Return the query with the server's counter of least noise, with the reason if it was chosen."""
        release = layout.release(True, self.centers)
        node: type[Gaussian] | type[Laplace] = Gaussian if self.mechanism == GramGaussian.name else Laplace
        # A stage without user data has no noise, and its scale is never used.
        scales = tuple(scale or 1.0 for scale in gram.shape_of(release, self.stage_scales))
        row, reward_scale = gram_row(release, scales, node.norm), 0.0
        if self.treatment == "noisy":
            unit = correction_row(layout, self.reward_clip, 1.0, node.norm)
            ratio = self.reward_share / (1.0 - self.reward_share)
            reward_scale = unit.l1 / (ratio * row.l1) if node.norm == "l1" else unit.l2 / (math.sqrt(ratio) * row.l2)
            row = row.beside(correction_row(layout, self.reward_clip, reward_scale, node.norm))
        counter, why = calibrated_of(self.counter, node, self.epsilon, self.delta, row, n_items, row.cells)
        worst = math.sqrt(counter.node.variance / node(1.0).variance) * counter.errors()[1] if counter.node else 0.0
        query = StatisticsQuery(
            layout,
            release,
            self.treatment,
            reward_clip=self.reward_clip,
            noise_ratio=self._noise_ratio([scale * worst for scale in scales], layout),
            counter=counter,
            scales=scales,
            reward_scale=reward_scale,
        )
        return query, why

    def _certified(self, layout: StatisticsLayout) -> StatisticsQuery:
        """Return the query with the least noise on messages; raise ValueError if there is none."""
        release, noisy, share = layout.release(True, self.centers), self.treatment == "noisy", self.reward_share
        # All corrections of a user are one vector, and none of them is longer than G.
        rows = layout.n_agents * layout.horizon
        law: GramGaussian | GramLaplace
        vector: ClippedGaussian | ClippedLaplace | None = None
        if self.mechanism == GramGaussian.name:
            # Both parts have one mu^2.
            mu = gaussian_mu(self.epsilon, self.delta)
            if noisy:
                diameter = 2.0 * self.reward_clip * math.sqrt(rows)
                scale = diameter / (mu * math.sqrt(share)) * (1.0 + gram.ROUNDING)
                vector = ClippedGaussian.with_scale(scale, layout.n_corrections, diameter)
                mu *= math.sqrt(1.0 - share)
            law = GramGaussian.from_gdp(mu, release, self.stage_scales)
        else:
            epsilon = self.epsilon
            if noisy:
                # Both parts share epsilon.
                part, diameter = epsilon * share, 2.0 * self.reward_clip * rows
                vector = ClippedLaplace.calibrated(part, 0.0, layout.n_corrections, diameter)
                # Rounded down by more than the sum of both parts' rounding errors.
                epsilon = (epsilon - part) * (1.0 - gram.ROUNDING)
            law = GramLaplace.calibrated(epsilon, self.delta, release, self.stage_scales)
        ratio = self._noise_ratio(law.scales, layout)
        return StatisticsQuery(layout, law, self.treatment, vector, self.reward_clip, ratio)

    def _noise_ratio(self, scales: Sequence[float], layout: StatisticsLayout) -> float:
        """Return the mean of scales float64[H] over the stages that are sent, in units of the printed scale."""
        printed, bounds = self.printed_scale(layout), layout.release(clipped=True).bounds
        sent = [scale / printed for scale, m in zip(scales, bounds, strict=True) if m > 0]
        return math.fsum(sent) / len(sent)

    def printed_scale(self, layout: StatisticsLayout) -> float:
        """Return the scale that [TH23] prints for the mechanism."""
        if self.mechanism == GramGaussian.name:
            return gram.printed_gaussian_sigma(layout.horizon, self.epsilon, self.delta)
        if self.mechanism == GramUniform.name:
            return gram.printed_uniform_bound(layout.horizon, self.delta)
        return gram.printed_laplace_scale(layout.horizon, layout.dimension, self.epsilon)
