"""Trust models for statistics: settings that validate themselves, calibrate the noise, and build the privatizer."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

from dprl.privacy.base import Guarantee, TrustModel
from dprl.privacy.certificate import PrivacyRequest
from dprl.privacy.mechanisms import GRAMS, GramMechanism
from dprl.privacy.mechanisms.gradients import ClippedGaussian, ClippedLaplace
from dprl.privacy.mechanisms.gram import GramRelease
from dprl.privacy.mechanisms.gram_base import ROUNDING, RawGram
from dprl.privacy.mechanisms.gram_bounded import GramBoundedLaplace, GramUniform
from dprl.privacy.mechanisms.gram_gaussian import GramGaussian, budget_mu
from dprl.privacy.mechanisms.gram_laplace import GramLaplace
from dprl.privacy.mechanisms.gram_printed import (
    printed_gaussian_sigma,
    printed_laplace_scale,
    printed_uniform_bound,
)
from dprl.privacy.privatizer import Privatizer
from dprl.privacy.queries.linear_statistics import Rewards, StatisticsLayout, StatisticsQuery
from dprl.privacy.randomness.streams import Streams
from dprl.privacy.validation import check_budget, check_choice

Clipping = Literal["device", "none"]
_SCALED = "nobody, an illustration: {:g} times the noise of {} (noise_scale)"
_AUTO, _REWARD_SHARE = "auto", 0.1

StatisticsPrivatizer = Privatizer[StatisticsQuery]


class StatisticsPrivacyConfig(Protocol):
    """Settings of a trust model for statistics."""

    model: ClassVar[TrustModel]

    def build(self, layout: StatisticsLayout, n_users: int, streams: Streams) -> StatisticsPrivatizer:
        """Return the privatizer of users 1..n_users, who send what `layout` says."""


@dataclass(frozen=True)
class NoStatisticsPrivacy:
    """No noise: the non-private algorithm, and an infinite epsilon on the certificate.

    Args:
        rewards: 'open': their corrections are sent as they are; 'public': rewards are known, and none are sent.
        clipping: 'device': features and values are clipped as with privacy; 'none': as [TH23] has it.
    """

    rewards: Literal["public", "open"] = "open"
    clipping: Clipping = "none"
    model: ClassVar[TrustModel] = "none"

    def __post_init__(self) -> None:
        check_choice("rewards", self.rewards, ["public", "open"])
        check_choice("clipping", self.clipping, ["device", "none"])

    def build(self, layout: StatisticsLayout, n_users: int, streams: Streams) -> StatisticsPrivatizer:
        """Return the privatizer that passes statistics on."""
        request = PrivacyRequest(None, None, "none", "nothing is claimed")
        query = StatisticsQuery(layout, RawGram(layout.release(self.clipping == "device")), self.rewards)
        return Privatizer(query, request, n_users, streams)


@dataclass(frozen=True)
class LocalStatisticsPrivacy:
    """Local differential privacy: every user's device adds noise to its statistics before they leave.

    *Formal guarantee.* `certified`: (epsilon, delta)-LDP of all that one user sends, for any two inputs; the noise of
    the statistics and that of the rewards' corrections share the budget. `printed`: the scales of [TH23], of which the
    certificate says what they prove: nothing without the clips that the paper leaves out (D7), nor with open rewards
    (D6); otherwise less than is claimed from some number of agents on (D8, D9), and always less where the noise is
    bounded (D10, D11).

    Args:
        epsilon: in [1e-9, 1e9]. delta: 0 or in [1e-15, 1).
        mechanism: a Gram mechanism's name; gram_uniform only printed.
        calibration: whose scale.
        clipping: 'device' or 'none'; 'auto': device if certified, none if printed.
        rewards: 'public': rewards are known, nothing on them is sent; 'noisy'; 'open': corrections of their weights are
            sent as they are; 'auto': noisy if certified, open if printed.
        reward_share: of mu^2 (Gaussian) or of epsilon that noisy rewards get. reward_clip: G, the norm that each
            correction is clipped to.
        bound_ratio: B / b of the printed bounded Laplace law, which the paper leaves open.
        stage_scales: certified noise in proportion to m_h^2, m_h = H - h; else the same at all stages.
        noise_scale: multiplies printed scales, for illustrations of what less noise would learn.

    Paper: [TH23] Theorems 1, 3, 5 and 7.
    """

    epsilon: float
    delta: float = 0.0
    mechanism: str = GramLaplace.name
    calibration: Literal["certified", "printed"] = "certified"
    clipping: Literal["auto", "device", "none"] = "auto"
    rewards: Literal["auto", "public", "noisy", "open"] = "auto"
    reward_share: float = _REWARD_SHARE
    reward_clip: float = 1.0
    bound_ratio: float = 1.0
    stage_scales: bool = True
    noise_scale: float = 1.0
    model: ClassVar[TrustModel] = "ldp"

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.delta)
        check_choice("mechanism", self.mechanism, list(GRAMS))
        check_choice("calibration", self.calibration, ["certified", "printed"])
        check_choice("clipping", self.clipping, [_AUTO, "device", "none"])
        check_choice("rewards", self.rewards, [_AUTO, "public", "noisy", "open"])
        for key in ("reward_clip", "bound_ratio", "noise_scale"):
            _check_positive(key, getattr(self, key))
        share = self.reward_share
        if not (_is_number(share) and 0 < share < 1):
            raise ValueError(f"reward_share must lie in (0, 1), got {share!r}; without noisy rewards leave it out")
        if not isinstance(self.stage_scales, bool):
            raise ValueError(f"stage_scales must be true or false, got {self.stage_scales!r}; leave it out for true")
        self._check_delta()
        if self.bound_ratio != 1 and (self.mechanism, self.calibration) != (GramBoundedLaplace.name, "printed"):
            raise ValueError(
                f"bound_ratio must be 1 with {self.calibration} {self.mechanism}, got {self.bound_ratio!r}; "
                "only the printed gram_bounded_laplace leaves its bound open"
            )
        if self.reward_share != _REWARD_SHARE and self._rewards != "noisy":
            raise ValueError(
                f"reward_share must be left out with rewards {self._rewards}, got {share!r}; only noisy ones have one"
            )
        if self.calibration == "certified":
            self._check_certified()
        elif self.rewards == "noisy":
            raise ValueError(
                "rewards must be public or open with the printed calibration, got 'noisy'; the paper has no noise for "
                "them: use calibration: certified"
            )

    def _check_delta(self) -> None:
        needed = [GramGaussian.name, GramUniform.name if self.calibration == "printed" else GramBoundedLaplace.name]
        if self.delta == 0 and self.mechanism in needed:
            raise ValueError(
                f"delta must be above 0 with {self.calibration} {self.mechanism}, got 0; set one, or use gram_laplace"
            )

    def _check_certified(self) -> None:
        for key, allowed, remedy in (
            ("clipping", (_AUTO, "device"), "without clips no noise has a finite guarantee"),
            ("rewards", (_AUTO, "noisy", "public"), "corrections without noise have no finite guarantee"),
            ("mechanism", tuple(_CALIBRATED), "uniform noise for a usual delta would hide everything"),
            ("noise_scale", (1, 1.0), "less noise than certified proves less"),
        ):
            value = getattr(self, key)
            if value not in allowed:
                choices = " or ".join(str(choice) for choice in dict.fromkeys(allowed))
                raise ValueError(
                    f"{key} must be {choices} with the certified calibration, got {value!r}; {remedy}: use "
                    "calibration: printed to see what it does"
                )

    def build(self, layout: StatisticsLayout, n_users: int, streams: Streams) -> StatisticsPrivatizer:
        """Return the privatizer of users 1..n_users, who send what `layout` says.

        Raises ValueError for settings that do not fit together.
        """
        guarantee = Guarantee(self.model, self.epsilon, self.delta)
        if self.calibration == "printed":
            if streams.noise.arithmetic == "exact":
                raise ValueError(
                    "calibration must be certified with arithmetic: exact, got printed; papers print real numbers: "
                    "write arithmetic: fast, or calibration: certified"
                )
            printed = _PRINTED[self.mechanism]
            query, claimed = self._printed(layout), printed.claim(self)
            source = printed.source if self.noise_scale == 1 else _SCALED.format(self.noise_scale, printed.source)
        else:
            query, claimed = self._certified(layout, streams.noise.arithmetic == "exact"), guarantee
            source = "the requested guarantee, met by the certified noise"
        calibration = self.calibration if self.noise_scale == 1 else f"{self.noise_scale:g} times {self.calibration}"
        request = PrivacyRequest(guarantee, claimed, calibration, source, self._choice())
        return Privatizer(query, request, n_users, streams)

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

    def _printed(self, layout: StatisticsLayout) -> StatisticsQuery:
        release = layout.release(self._clips)
        scale = self.noise_scale * _PRINTED[self.mechanism].scale(self, layout)
        scales = tuple(scale if bound > 0 else 0.0 for bound in release.bounds)
        mechanism: GramMechanism
        if self.mechanism == GramBoundedLaplace.name:
            # D11: the bound is left open.
            mechanism = GramBoundedLaplace(release, scales, tuple(self.bound_ratio * b for b in scales))
        else:
            mechanism = _OF_SCALES[self.mechanism](release, scales)
        return StatisticsQuery(layout, mechanism, self._rewards, noise_ratio=self.noise_scale)

    def _certified(self, layout: StatisticsLayout, exact: bool) -> StatisticsQuery:
        if exact and self.mechanism == GramBoundedLaplace.name:
            raise ValueError(
                f"mechanism must be gram_gaussian or gram_laplace with arithmetic: exact, got {self.mechanism!r}; "
                "bounded noise has no exact sampler: write arithmetic: fast"
            )
        mechanism, vector = _CALIBRATED[self.mechanism](self, layout, exact)
        printed = _PRINTED[self.mechanism].scale(self, layout)
        sent = [s / printed for s, m in zip(mechanism.scales, mechanism.release.bounds, strict=True) if m > 0]
        ratio = math.fsum(sent) / len(sent)
        return StatisticsQuery(layout, mechanism, self._rewards, vector, self.reward_clip, ratio)


Calibrated = tuple[GramMechanism, ClippedGaussian | ClippedLaplace | None]


def _gaussian(config: LocalStatisticsPrivacy, layout: StatisticsLayout, exact: bool) -> Calibrated:
    """Return Gaussian noise of both parts, of one mu^2."""
    mu, release = budget_mu(config.epsilon, config.delta, exact), layout.release(clipped=True)
    if config._rewards != "noisy":
        return GramGaussian.with_mu(mu, release, config.stage_scales, exact, config.epsilon), None
    # All corrections of a user are one vector, of which none is longer than G.
    diameter = 2.0 * config.reward_clip * math.sqrt(layout.n_agents * layout.horizon)
    scale = diameter / (mu * math.sqrt(config.reward_share)) * (1.0 + ROUNDING)
    vector = ClippedGaussian.with_scale(scale, layout.n_corrections, diameter, exact)
    rest = mu * math.sqrt(1.0 - config.reward_share)
    return GramGaussian.with_mu(rest, release, config.stage_scales, exact, config.epsilon), vector


def _laplace(config: LocalStatisticsPrivacy, layout: StatisticsLayout, exact: bool) -> Calibrated:
    return _of_shared_epsilon(GramLaplace, config, layout, exact)


def _bounded_laplace(config: LocalStatisticsPrivacy, layout: StatisticsLayout, exact: bool) -> Calibrated:
    return _of_shared_epsilon(GramBoundedLaplace, config, layout, exact)


def _of_shared_epsilon(
    kind: type[GramLaplace] | type[GramBoundedLaplace],
    config: LocalStatisticsPrivacy,
    layout: StatisticsLayout,
    exact: bool,
) -> Calibrated:
    """Return Laplace noise for the corrections and noise of `kind` for the rest of epsilon."""
    release = layout.release(clipped=True)
    vector, epsilon = None, config.epsilon
    if config._rewards == "noisy":
        part = epsilon * config.reward_share
        diameter = 2.0 * config.reward_clip * layout.n_agents * layout.horizon
        vector = ClippedLaplace.calibrated(part, 0.0, layout.n_corrections, diameter, exact)
        # Rounded down by more than both parts can be rounded up.
        epsilon = (epsilon - part) * (1.0 - ROUNDING)
    return kind.calibrated(epsilon, config.delta, release, config.stage_scales, exact), vector


@dataclass(frozen=True)
class _Printed:
    """What [TH23] prints for one mechanism: its scale, the guarantee that it claims, and where."""

    scale: Callable[[LocalStatisticsPrivacy, StatisticsLayout], float]
    source: str
    pure: bool = False

    def claim(self, config: LocalStatisticsPrivacy) -> Guarantee:
        """Return what is claimed."""
        return Guarantee(config.model, config.epsilon, 0.0 if self.pure else config.delta)


def _laplace_scale(config: LocalStatisticsPrivacy, layout: StatisticsLayout) -> float:
    return printed_laplace_scale(layout.horizon, layout.dimension, config.epsilon)


_PRINTED: dict[str, _Printed] = {
    GramGaussian.name: _Printed(
        lambda config, layout: printed_gaussian_sigma(layout.horizon, config.epsilon, config.delta), "[TH23] Theorem 1"
    ),
    GramLaplace.name: _Printed(_laplace_scale, "[TH23] Theorem 3", pure=True),
    GramUniform.name: _Printed(
        lambda config, layout: printed_uniform_bound(layout.horizon, config.delta),
        "[TH23] Theorem 5, which claims (0, delta), and so (epsilon, delta) for the requested epsilon",
    ),
    GramBoundedLaplace.name: _Printed(_laplace_scale, "[TH23] Theorem 7", pure=True),
}
_OF_SCALES: dict[str, Callable[[GramRelease, tuple[float, ...]], GramMechanism]] = {
    kind.name: kind for kind in (GramGaussian, GramLaplace, GramUniform)
}
_CALIBRATED: dict[str, Callable[[LocalStatisticsPrivacy, StatisticsLayout, bool], Calibrated]] = {
    GramGaussian.name: _gaussian,
    GramLaplace.name: _laplace,
    GramBoundedLaplace.name: _bounded_laplace,
}

STATISTICS_TRUST_MODELS: dict[str, type[NoStatisticsPrivacy] | type[LocalStatisticsPrivacy]] = {
    NoStatisticsPrivacy.model: NoStatisticsPrivacy,
    LocalStatisticsPrivacy.model: LocalStatisticsPrivacy,
}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_positive(key: str, value: object) -> None:
    if not (isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf):
        raise ValueError(f"{key} must be a finite number above 0, got {value!r}; leave it out for 1")
