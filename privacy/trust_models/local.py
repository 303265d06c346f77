"""Trust model ldp: every user's device randomizes its messages, and nobody is trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from dprl.privacy.base import Guarantee, TrustModel
from dprl.privacy.counters import ExactCounter
from dprl.privacy.mechanisms import GRAMS, GramMechanism
from dprl.privacy.mechanisms.gradients import ClippedLaplace
from dprl.privacy.mechanisms.gram_laws import GramBoundedLaplace, GramGaussian, GramUniform
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.mechanisms.privunit import PrivUnit
from dprl.privacy.mechanisms.projected_random_sign import ProjectedRandomSign
from dprl.privacy.queries.count_calibration import AUTO, calibrated_report, report_names
from dprl.privacy.queries.count_encoding import CountEncoding
from dprl.privacy.queries.count_precision import NoiseSpec
from dprl.privacy.queries.counts import CountQuery
from dprl.privacy.queries.gradient_calibration import GradientBudget, GradientLayout, vector_law
from dprl.privacy.queries.gradients import GradientQuery
from dprl.privacy.queries.linear_statistics import Rewards, StatisticsLayout, StatisticsQuery
from dprl.privacy.queries.statistics_calibration import (
    CALIBRATED,
    OF_SCALES,
    PRINTED,
    REWARD_SHARE,
    certified_statistics,
)
from dprl.privacy.randomness.streams import Streams
from dprl.privacy.trust_models.base import NoisyGradientSettings, Placed, StatisticsSettings, TrustModelSettings
from dprl.privacy.trust_models.counts import CountSettings
from dprl.privacy.validation import check_choice, check_positive

_SCALED = "nobody, an illustration: {:g} times the noise of {} (noise_scale)"
_AUTO = "auto"


@dataclass(frozen=True)
class LocalPrivacy(CountSettings):
    """Local differential privacy: every user randomizes their report before it leaves.

    *Formal guarantee.* `certified`: (epsilon, delta)-LDP for any two trajectories; with Laplace noise and delta = 0,
    the scale is 2 H F / epsilon (H steps, F released families). `printed`: the paper's scale 3 H / epsilon, which
    proves exactly 2 epsilon.

    Paper: [CZ22] Lemma 4.
    """

    model: ClassVar[TrustModel] = "ldp"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("mechanism", self.mechanism, report_names())
        if self.calibration == "printed" and self.mechanism not in (AUTO, Laplace.name):
            raise ValueError(
                f"calibration must be certified with mechanism {self.mechanism}, got 'printed'; "
                "the papers print a scale for laplace only"
            )

    def _noise(self, encoding: CountEncoding, n_users: int, streams: Streams) -> tuple[NoiseSpec, str]:
        report, why = calibrated_report(self._law_name, self._budget(encoding, n_users, streams))
        return NoiseSpec(report, ExactCounter(n_users)), why


@dataclass(frozen=True)
class LocalGradientPrivacy(NoisyGradientSettings):
    """Local differential privacy: every agent randomizes its gradients before they leave.

    *Formal guarantee.* (epsilon, delta)-LDP of everything that one agent sends in `submissions` adaptive submissions,
    for any two environments and all their episodes. With delta = 0 each submission has exactly epsilon / submissions;
    with delta > 0 all of them meet the request together.

    Args:
        release_scores: 'simulator': raw scores are read outside the guarantee; 'none': they are not read.

    Paper: [OT20] eqs. (19), (20), (21), (22), (23) and (24), Algorithms 2 and 3.
    """

    release_scores: Literal["simulator", "none"] = "simulator"
    laws: ClassVar[Sequence[str]] = (ClippedLaplace.name, ProjectedRandomSign.name, PrivUnit.name)
    model: ClassVar[TrustModel] = "ldp"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_clip(self.mechanism)

    def _check_clip(self, mechanism: str) -> None:
        if self.clip is not None and mechanism == PrivUnit.name:
            raise ValueError(f"clip must be left out with privunit, got {self.clip!r}; it sends directions only")

    @property
    def _least(self) -> str:
        """Name of the mechanism with the least noise: directions have less than any clipped vector with noise."""
        return PrivUnit.name

    def place(self, data: GradientLayout, n_users: int, streams: Streams, growth: float) -> Placed[GradientQuery]:
        """Return the query with noise on every message."""
        del n_users, growth
        exact, name, why = streams.noise.arithmetic == "exact", self.law_for(data), ""
        if exact and self.mechanism == PrivUnit.name:
            raise ValueError(
                "mechanism must not be privunit with arithmetic: exact, got privunit; its guarantee is for real "
                "numbers: write mechanism: clipped_laplace, or arithmetic: fast"
            )
        if exact and name == PrivUnit.name:
            name, why = ClippedLaplace.name, "mechanism: clipped_laplace; privunit is proved for real numbers only"
        self._check_clip(name)
        budget = GradientBudget(self.epsilon, self.delta, self.submissions, data.dimension, exact)
        law = vector_law(name, budget, data.clip(name, self.clip))
        return Placed(GradientQuery(law, self.release_scores, data.left_open), choice=why)


@dataclass(frozen=True)
class LocalStatisticsPrivacy(StatisticsSettings):
    """Local differential privacy: every user's device adds noise to its statistics before they leave.

    *Formal guarantee.* `certified`: (epsilon, delta)-LDP of everything that one user sends, for any two inputs; the
    noise of the statistics and that of the rewards' corrections share the budget. `printed`: the scales of [TH23], with
    a certificate of what they prove: nothing without the clips that the paper leaves out (D7), or with open rewards
    (D6); otherwise less than claimed from some number of agents on (D8, D9), and always less for bounded noise (D10,
    D11).

    Args:
        mechanism: a Gram mechanism's name; gram_uniform and gram_bounded_laplace are only for printed.
        calibration: source of the scale.
        clipping: 'device' or 'none'; 'auto': device if certified, none if printed.
        rewards: 'public': rewards are known, and no corrections are sent; 'noisy'; 'open': corrections of their weights
            are sent without noise; 'auto': noisy if certified, open if printed.
        bound_ratio: B / b of the printed bounded Laplace law, which the paper leaves open.
        noise_scale: multiplies printed scales, to illustrate learning with less noise.

    Paper: [TH23] Theorems 1, 3, 5 and 7.
    """

    calibration: Literal["certified", "printed"] = "certified"
    clipping: Literal["auto", "device", "none"] = "auto"
    rewards: Literal["auto", "public", "noisy", "open"] = "auto"
    bound_ratio: float = 1.0
    noise_scale: float = 1.0
    model: ClassVar[TrustModel] = "ldp"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("mechanism", self.mechanism, list(GRAMS))
        for key in ("bound_ratio", "noise_scale"):
            check_positive(key, getattr(self, key))
        self._check_delta()
        if self.bound_ratio != 1 and (self.mechanism, self.calibration) != (GramBoundedLaplace.name, "printed"):
            raise ValueError(
                f"bound_ratio must be 1 with {self.calibration} {self.mechanism}, got {self.bound_ratio!r}; "
                "only gram_bounded_laplace with calibration: printed lets you choose it"
            )
        if self.reward_share != REWARD_SHARE and self._rewards != "noisy":
            raise ValueError(
                f"reward_share must be left out with rewards {self._rewards}, got {self.reward_share!r}; only noisy "
                "ones have one"
            )
        if self.calibration == "certified":
            self._check_certified()
        elif self.rewards == "noisy":
            raise ValueError(
                "rewards must be public or open with the printed calibration, got 'noisy'; the paper has no noise for "
                "them: use calibration: certified"
            )

    def _check_delta(self) -> None:
        if self.delta == 0 and self.mechanism in (GramGaussian.name, GramUniform.name):
            raise ValueError(
                f"delta must be above 0 with {self.calibration} {self.mechanism}, got 0; set one, or use gram_laplace"
            )

    def _check_certified(self) -> None:
        for key, allowed, remedy in (
            ("clipping", (_AUTO, "device"), "without clips no noise has a finite guarantee"),
            ("rewards", (_AUTO, "noisy", "public"), "corrections without noise have no finite guarantee"),
            ("mechanism", tuple(CALIBRATED), "noise of bounded support is larger, or hides everything"),
            ("noise_scale", (1, 1.0), "it sets the scale itself"),
        ):
            value = getattr(self, key)
            if value not in allowed:
                choices = " or ".join(str(choice) for choice in dict.fromkeys(allowed))
                raise ValueError(
                    f"{key} must be {choices} with the certified calibration, got {value!r}; {remedy}: use "
                    "calibration: printed to see what it does"
                )

    def place(self, data: StatisticsLayout, n_users: int, streams: Streams, growth: float) -> Placed[StatisticsQuery]:
        """Return the query with the calibrated or the printed noise."""
        del n_users, growth
        budget = self._budget(self._rewards, streams)
        if self.calibration == "certified":
            return Placed(certified_statistics(budget, data), choice=self._choice())
        printed, scaled = PRINTED[self.mechanism], self.noise_scale
        claimed = Guarantee(self.model, self.epsilon, 0.0 if printed.pure else self.delta)
        source = printed.source if scaled == 1 else _SCALED.format(scaled, printed.source)
        calibration = self.calibration if scaled == 1 else f"{scaled:g} times {self.calibration}"
        scale = scaled * printed.scale(budget, data)
        query = StatisticsQuery(data, self._printed(data, scale), self._rewards, noise_ratio=scaled)
        return Placed(query, source, calibration, claimed, self._choice())

    def _printed(self, layout: StatisticsLayout, scale: float) -> GramMechanism:
        """Return the mechanism with the same scale at all stages."""
        release = layout.release(self._clips)
        scales = tuple(scale if bound > 0 else 0.0 for bound in release.bounds)
        if self.mechanism == GramBoundedLaplace.name:
            # D11: the bound is left open.
            return GramBoundedLaplace(release, scales, tuple(self.bound_ratio * b for b in scales))
        return OF_SCALES[self.mechanism](release, scales)

    @property
    def _clips(self) -> bool:
        return self.clipping == "device" or (self.clipping == _AUTO and self.calibration == "certified")

    @property
    def _rewards(self) -> Rewards:
        if self.rewards == "auto":
            return "noisy" if self.calibration == "certified" else "open"
        return self.rewards

    def _choice(self) -> str:
        chosen = [f"clipping: {'device' if self._clips else 'none'}"] if self.clipping == _AUTO else []
        chosen += [f"rewards: {self._rewards}"] if self.rewards == _AUTO else []
        reason = "what the certified noise needs" if self.calibration == "certified" else "what the paper has"
        return f"{', '.join(chosen)}; {reason}" if chosen else ""


LOCAL_PRIVACY: dict[str, type[TrustModelSettings[Any, Any]]] = {
    CountQuery.name: LocalPrivacy,
    GradientQuery.name: LocalGradientPrivacy,
    StatisticsQuery.name: LocalStatisticsPrivacy,
}
"""Settings by query."""
