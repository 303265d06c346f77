"""Certificates of printed and certified noise on a linear model's statistics, and refused settings."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dprl.privacy import LedgerError, NoiseConfig, StatisticsLayout, StatisticsPrivacy, StatisticsPrivatizer, Streams
from dprl.privacy.base import TrustModel
from dprl.privacy.certificate import Certificate
from dprl.privacy.mechanisms.gram import printed_gaussian_sigma
from dprl.privacy.threat_models import THREAT_MODELS, of_statistics

SMALL, LARGE = StatisticsLayout(5, 4, 2, 2, 3), StatisticsLayout(5, 50, 10, 10, 3)
EXACT = NoiseConfig(arithmetic="exact")
DELTA = 1e-5


def built(layout: StatisticsLayout = SMALL, noise: NoiseConfig | None = None, **settings: Any) -> StatisticsPrivatizer:
    config = StatisticsPrivacy("ldp", 1.0, **settings)
    return config.build(layout, 7, Streams(0, "certificates", noise or NoiseConfig()))


def certified(layout: StatisticsLayout = SMALL, noise: NoiseConfig | None = None, **settings: Any) -> Certificate:
    found = built(layout, noise, **settings).planned_certificate("x")
    written = found.to_dict()
    assert json.loads(json.dumps(written, allow_nan=False)) == written
    assert found.users == 7
    return found


def printed(mechanism: str, layout: StatisticsLayout = SMALL, **settings: Any) -> Certificate:
    defaults: dict[str, Any] = {"clipping": "device", "rewards": "public", "calibration": "printed"}
    return certified(layout, mechanism=mechanism, **(defaults | settings))


def test_what_the_printed_gaussian_scale_proves() -> None:
    found = printed("gram_gaussian", delta=DELTA)
    assert found.epsilon_at_delta[DELTA] == pytest.approx(0.0629, abs=5e-5)
    assert (found.verdict, found.design.source, found.tightness) == ("holds", "[TH23] Theorem 1", None)
    assert found.claimed_epsilon == 1.0


def test_what_the_printed_laplace_scale_proves() -> None:
    small, large = printed("gram_laplace"), printed("gram_laplace", LARGE)
    assert small.proved_epsilon == pytest.approx(0.3932, abs=1e-4)
    assert (small.verdict, small.design.source) == ("holds", "[TH23] Theorem 3")
    assert large.proved_epsilon == pytest.approx(3.9607, abs=1e-4)
    # The audit attains a loss of 3.84, so the claim fails by itself, not only by the upper bound.
    assert (large.verdict, large.tightness) == ("holds_approximately", "upper")
    # Theorem 3 claims no delta, even if one was requested.
    assert printed("gram_laplace", delta=DELTA).to_dict()["claimed"]["delta"] == 0.0


def test_what_the_printed_uniform_bound_proves() -> None:
    found = printed("gram_uniform", delta=DELTA)
    # The audit attains 0.0946; 0.125 bounds the sum of the masses, and their product is less.
    assert found.delta_at_requested_epsilon == pytest.approx(0.1007, abs=1e-4)
    assert found.proved_epsilon == found.proved_epsilon == math.inf
    assert (found.verdict, found.factor) == ("fails", math.inf)
    assert "[TH23] Theorem 5, which claims (0, delta)" in found.design.source


@pytest.mark.parametrize(("ratio", "least"), [(1.0, 0.102), (3.0, 0.0096), (5.0, 0.0013)])
def test_what_the_printed_bounded_laplace_scale_proves(ratio: float, least: float) -> None:
    found = printed("gram_bounded_laplace", bound_ratio=ratio)
    assert (found.verdict, found.pure_epsilon, found.design.source) == ("fails", math.inf, "[TH23] Theorem 7")
    delta = found.delta_at_requested_epsilon
    assert delta is not None
    assert least * 0.99 < delta < least * 1.7


@pytest.mark.parametrize("mechanism", ["gram_gaussian", "gram_laplace", "gram_uniform", "gram_bounded_laplace"])
@pytest.mark.parametrize("noise_scale", [1.0, 1e6])
def test_without_clips_no_noise_proves_anything_and_the_certificate_says_why(
    mechanism: str, noise_scale: float
) -> None:
    found = printed(mechanism, delta=DELTA, clipping="none", noise_scale=noise_scale)
    assert (found.verdict, found.pure_epsilon, found.factor) == ("fails", math.inf, math.inf)
    assert found.epsilon_at_delta[DELTA] == math.inf
    assert found.delta_at_requested_epsilon == 1.0
    assert "not cut from below" in found.method
    assert any("(D7)" in channel for channel in found.design.threat_model.excluded)


def test_open_rewards_prove_nothing_and_the_certificate_says_why() -> None:
    found = printed("gram_laplace", rewards="open")
    assert (found.verdict, found.pure_epsilon, found.epsilon_at_delta[DELTA]) == ("unbounded", math.inf, math.inf)
    assert any("(D6)" in channel for channel in found.design.threat_model.excluded)
    assert [release.channel for release in found.releases] == ["statistics", "reward corrections"]
    as_printed = certified(calibration="printed")
    assert as_printed.verdict == "unbounded"
    assert as_printed.design.choice == "clipping: none, rewards: open; what the paper has"
    public = printed("gram_laplace")
    assert any("assumed to be public" in channel for channel in public.design.threat_model.excluded)


@pytest.mark.parametrize(
    ("dimension", "settings", "attainable"),
    [
        (4, {"mechanism": "gram_gaussian", "delta": DELTA}, True),
        (3, {"mechanism": "gram_gaussian", "delta": DELTA}, False),
        (4, {}, False),
        (3, {"calibration": "printed", "clipping": "none", "rewards": "public"}, True),
    ],
)
def test_a_loss_is_called_exact_only_where_features_attain_it(
    dimension: int, settings: dict[str, Any], attainable: bool
) -> None:
    """Features with three entries have too few directions for the worst pair."""
    found = certified(StatisticsLayout(5, dimension, 2, 2, 3), **settings).releases
    assert [release.attainable for release in found] == [attainable, False][: len(found)]


@pytest.mark.parametrize("model", ["jdp", "ldp"])
@pytest.mark.parametrize("rewards", ["public", "noisy", "open"])
@pytest.mark.parametrize("clipped", [True, False])
def test_without_clips_or_with_open_rewards_no_channel_is_covered(
    model: TrustModel, rewards: str, clipped: bool
) -> None:
    found = of_statistics(model, rewards, clipped)
    assert (found.covered == ()) == (not clipped or rewards == "open")
    attained_by = THREAT_MODELS["statistics", model].attained_by
    if not clipped:
        attained_by = "users with ever longer features"
    if rewards == "open":
        attained_by = "any two different corrections"
    assert found.attained_by == attained_by
    assert any("(D7)" in channel for channel in found.excluded) == (not clipped)
    assert any("(D6)" in channel for channel in found.excluded) == (rewards == "open")


def test_nothing_is_claimed_without_noise() -> None:
    for config in (StatisticsPrivacy("none"), StatisticsPrivacy("none", rewards="public", clipping="device")):
        found = config.build(SMALL, 7, Streams(0, "x")).planned_certificate("x")
        assert (found.trust_model, found.verdict, found.pure_epsilon) == ("none", "unbounded", math.inf)


@pytest.mark.parametrize("layout", [SMALL, LARGE, StatisticsLayout(5, 4, 1, 2, 3)])
@pytest.mark.parametrize("stage_scales", [False, True])
def test_certified_noise_proves_what_was_asked_and_hardly_more(layout: StatisticsLayout, stage_scales: bool) -> None:
    for mechanism, delta in (("gram_gaussian", DELTA), ("gram_laplace", 0.0)):
        found = certified(layout, mechanism=mechanism, delta=delta, stage_scales=stage_scales, rewards="public")
        proved = found.proved_epsilon
        assert 0.99 < proved <= 1.0
        assert found.verdict == "holds"
        assert found.to_dict()["noise"][0]["arithmetic"] == "float64-idealised"


@pytest.mark.parametrize(
    ("mechanism", "delta", "share"),
    [
        ("gram_gaussian", DELTA, 0.1),
        ("gram_gaussian", DELTA, 0.7),
        ("gram_laplace", 0.0, 0.1),
        ("gram_laplace", 0.0, 0.7),
        ("gram_laplace", DELTA, 0.5),
    ],
)
def test_noisy_rewards_share_the_budget(mechanism: str, delta: float, share: float) -> None:
    privatizer = built(mechanism=mechanism, delta=delta, reward_share=share)
    found = privatizer.planned_certificate("x")
    assert found.verdict == "holds"
    assert 0.98 < found.proved_epsilon <= 1.0 or delta * (mechanism == "gram_laplace") > 0
    statistics, rewards = found.releases
    assert (statistics.cells, rewards.cells) == (2 * 4 * 14, 2 * 5 * 3)
    alone = built(mechanism=mechanism, delta=delta, rewards="public")
    more = alone.query.deviations[:4] / privatizer.query.deviations[:4]
    if mechanism == "gram_gaussian":
        assert more == pytest.approx(np.full(4, math.sqrt(1 - share)), rel=3e-3)
        mu = statistics.curve().delta(0.0), rewards.curve().delta(0.0)
        assert (mu[0] > mu[1]) == (share < 0.5)
    elif delta == 0.0:
        assert more == pytest.approx(np.full(4, 1 - share), rel=1e-2)
        assert rewards.curve().pure_epsilon == pytest.approx(share, rel=1e-4)


@pytest.mark.parametrize("kind", ["ldp", "jdp"])
def test_noise_is_compared_with_the_printed_scale_at_the_stages_with_data(kind: Any) -> None:
    query = (
        StatisticsPrivacy(kind, 1.0, DELTA, mechanism="gram_gaussian", rewards="public")
        .build(SMALL, 7, Streams(0, "x"))
        .query
    )
    expected = query.deviations[:4].mean() / printed_gaussian_sigma(5, 1.0, DELTA)
    assert query.noise_ratio == pytest.approx(expected)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"clipping": "none"}, "^clipping must be auto or device with the certified calibration, got 'none'"),
        ({"rewards": "open"}, "^rewards must be auto or noisy or public with the certified calibration, got 'open'"),
        ({"calibration": "printed", "rewards": "noisy"}, "^rewards must be auto or public or open with the printed"),
        ({"mechanism": "gram_gaussian"}, "^delta must be above 0 with certified gram_gaussian, got 0"),
        ({"mechanism": "gram_bounded_laplace"}, "^mechanism must be gram_gaussian or gram_laplace with the certified"),
        ({"mechanism": "gram_uniform", "calibration": "printed"}, "^delta must be above 0 with printed gram_uniform"),
        ({"mechanism": "gram_uniform", "delta": DELTA}, "^mechanism must be gram_gaussian or gram_laplace with the"),
        ({"noise_scale": 0.5}, "^noise_scale must be 1 .*with the certified calibration, got 0.5"),
        ({"bound_ratio": 2.0}, "^bound_ratio must be 1 with certified gram_laplace, got 2.0"),
        ({"reward_share": 1.0}, r"^reward_share must lie in \(0, 1\), got 1.0"),
        ({"reward_share": 0.0}, r"^reward_share must lie in \(0, 1\), got 0.0"),
        ({"reward_share": 0.2, "rewards": "public"}, "^reward_share must be 0.1 with rewards public, got 0.2"),
        ({"reward_clip": 2.0, "calibration": "printed"}, "^reward_clip must be 1.0 with rewards open, got 2.0"),
        ({"stage_scales": False, "calibration": "printed"}, "^stage_scales must be True with the printed"),
    ],
)
def test_settings_that_cannot_be_are_refused_in_one_line(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        StatisticsPrivacy("ldp", 1.0, **settings)
    assert "\n" not in str(error.value)
    assert ";" in str(error.value)


def test_settings_that_do_not_fit_the_arithmetic_or_the_layout_are_refused() -> None:
    refused_exact: list[dict[str, Any]] = [{}, {"calibration": "printed"}]
    for settings in refused_exact:
        with pytest.raises(ValueError, match=r"^arithmetic must be fast for statistics, got exact"):
            built(noise=EXACT, **settings)
    with pytest.raises(ValueError, match=r"^horizon must be at least 2, got 1"):
        StatisticsLayout(1, 4, 2, 2, 3)
    with pytest.raises(ValueError, match="1 or n_agents messages"):
        StatisticsLayout(5, 4, 3, 2, 3)
    for config in (StatisticsPrivacy("none"), StatisticsPrivacy("ldp", 1.0)):
        with pytest.raises(ValueError, match=r"^n_submissions must be at least 1, got 0"):
            config.build(SMALL, 0, Streams(0, "x"))
    with pytest.raises(ValueError, match=r"^n_users must be at most 80421421917329, got"):
        StatisticsPrivacy("ldp", 1.0).build(SMALL, 2**50, Streams(0, "x"))
    refused: list[dict[str, Any]] = [{"rewards": "noisy"}, {"clipping": "magic"}]
    for settings in refused:
        with pytest.raises(ValueError, match=f"^{next(iter(settings))} must be one of"):
            StatisticsPrivacy("none", **settings)


def test_noise_that_does_not_fit_what_is_sent_is_refused() -> None:
    noisy = built().query
    changes: list[tuple[dict[str, Any], str]] = [
        ({"rewards": "open"}, "rewards are noisy where there is noise"),
        ({"reward_law": None}, "rewards are noisy where there is noise"),
        ({"layout": replace(SMALL, dimension=3)}, "release must be the layout's"),
        ({"layout": replace(SMALL, reward_dimension=4)}, "for all corrections together"),
        ({"reward_clip": 2.0}, "for all corrections together"),
    ]
    for changed, message in changes:
        with pytest.raises(LedgerError, match=message):
            replace(noisy, **changed)
