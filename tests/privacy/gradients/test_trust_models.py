"""Trust models of gradients: refused settings, and the joint guarantee for all submissions of an agent."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dprl.privacy import GradientLayout, GradientPrivacy, NoiseConfig, Streams
from dprl.privacy.accounting.composition import repeat
from dprl.privacy.designs.gradients import PAPER_CLIP, vector_law
from dprl.privacy.mechanisms.projected_random_sign import ProjectedRandomSign
from dprl.privacy.mechanisms.vectors import ClippedGaussian, ClippedLaplace

D = 112
EXACT = ["clipped_laplace", "projected_random_sign"]
CASES = [*((name, "fast") for name in [*EXACT, "privunit"]), *((name, "exact") for name in EXACT)]
"""Mechanisms by arithmetic."""


def mechanism_of(settings: GradientPrivacy, arithmetic: Any = "fast") -> Any:
    privatizer = settings.build(GradientLayout(D), 4, Streams(0, "x", NoiseConfig(arithmetic)))
    return privatizer.query.law


@pytest.mark.parametrize(
    ("mechanism", "epsilon", "delta", "submissions", "dimension", "exact"),
    [
        # Laws without a larger loss, and one for which the sum of the losses is rounded.
        ("privunit", 12.0, 1e-6, 2, 10, False),
        ("privunit", 60.0, 1e-6, 2, 10, False),
        ("clipped_laplace", 1800.0, 1e-6, 1, 10, True),
        ("clipped_laplace", 7.4554290068489635e-06, 1e-9, 1000, 100, False),
    ],
)
def test_no_law_is_beyond_its_budget_or_its_own_limits(
    mechanism: str, epsilon: float, delta: float, submissions: int, dimension: int, exact: bool
) -> None:
    settings = GradientPrivacy("ldp", epsilon, delta, mechanism, submissions=submissions)
    streams = Streams(0, "x", NoiseConfig("exact" if exact else "fast"))
    privatizer = settings.build(GradientLayout(dimension), 2, streams)
    expected = vector_law(mechanism, epsilon, delta, submissions, dimension, PAPER_CLIP, exact)
    assert privatizer.query.law == expected
    assert privatizer.planned_certificate("x").verdict == "holds"


def test_noise_does_not_depend_on_what_was_calibrated_before() -> None:
    """The noise's identity has the clip as it was written."""
    one, other = (mechanism_of(GradientPrivacy("ldp", 1.0, clip=clip)) for clip in (1.0, 1))
    assert (type(one.clip), type(other.clip)) == (float, int)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("submissions", [2, 5, 10])
def test_gaussian_noise_on_a_grid_meets_delta_for_all_submissions(epsilon: float, submissions: int) -> None:
    """The clip is rounded to the grid, so one submission need not have exactly 1/sqrt(T) of the total mu."""
    settings = GradientPrivacy("jdp", epsilon, 1e-6, "clipped_gaussian", 1.0, submissions=submissions, counter="none")
    curve = mechanism_of(settings, "exact").curve()
    assert 0.95e-6 < repeat(curve, submissions).delta(epsilon) <= 1e-6


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 7.3, 10.0])
@pytest.mark.parametrize("submissions", [1, 3, 7, 100])
def test_without_delta_submissions_share_epsilon_and_never_more(epsilon: float, submissions: int) -> None:
    laplace = mechanism_of(GradientPrivacy("ldp", epsilon, submissions=submissions))
    loss = Fraction(laplace.clip) / Fraction(laplace.scale) * submissions
    assert Fraction(epsilon) * (1 - Fraction(1, 2**51)) <= loss <= Fraction(epsilon)
    sign = mechanism_of(GradientPrivacy("ldp", epsilon, mechanism="projected_random_sign", submissions=submissions))
    loss = Fraction(sign.bit.epsilon) * sign.projections * submissions
    assert Fraction(epsilon) * (1 - Fraction(1, 2**51)) <= loss <= Fraction(epsilon)
    assert sign.projections == max(1, int(Fraction(epsilon) / submissions / Fraction(5, 2)))


@pytest.mark.parametrize("submissions", [1, 10, 300])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize(("mechanism", "arithmetic"), CASES)
def test_all_submissions_together_meet_the_guarantee_and_hardly_less(
    mechanism: str, delta: float, submissions: int, arithmetic: Any
) -> None:
    settings = GradientPrivacy("ldp", 1.0, delta, mechanism, submissions=submissions)
    certificate = settings.build(GradientLayout(D), 4, Streams(0, "x", NoiseConfig(arithmetic))).planned_certificate(
        "x"
    )
    assert certificate.verdict == "holds"
    proved = certificate.proved_epsilon
    # On the grid of Gaussian noise, rounding takes up to one unit from a small ball.
    assert 0.97 < proved <= 1.0 + 1e-9


@pytest.mark.parametrize(
    ("mechanism", "kind", "clip"),
    [("clipped_laplace", ClippedLaplace, 0.01), ("projected_random_sign", ProjectedRandomSign, 1.0)],
)
def test_clips_are_the_papers(mechanism: str, kind: type[ClippedLaplace | ProjectedRandomSign], clip: float) -> None:
    found = mechanism_of(GradientPrivacy("ldp", 1.0, mechanism=mechanism))
    assert type(found) is kind
    assert found.clip == clip
    assert mechanism_of(GradientPrivacy("ldp", 1.0, mechanism=mechanism, clip=3.0)).clip == 3.0


def test_arithmetic_chooses_the_sampler() -> None:
    assert mechanism_of(GradientPrivacy("ldp", 1.0), "exact").arithmetic == "grid"
    gaussian = mechanism_of(GradientPrivacy("jdp", 1.0, 1e-6, "clipped_gaussian", counter="none"), "exact")
    assert (type(gaussian), gaussian.arithmetic) == (ClippedGaussian, "grid")
    with pytest.raises(ValueError, match=r"^mechanism must not be privunit with arithmetic: exact, .*; its .*: write"):
        mechanism_of(GradientPrivacy("ldp", 1.0, mechanism="privunit"), "exact")
    ours = GradientPrivacy("ldp", 1.0).build(OURS, 100, Streams(0, "x", NoiseConfig("exact")))
    assert (ours.query.law.name, ours.query.law.arithmetic) == ("clipped_laplace", "grid")
    assert ours.design.choice == "mechanism: clipped_laplace; privunit is proved for real numbers only"
    assert mechanism_of(GradientPrivacy("ldp", 1.0, mechanism="projected_random_sign")).arithmetic == "integer"


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"delta": 1.0}, "delta must be 0 (pure differential privacy) or lie in"),
    ({"mechanism": "clipped_gaussian"}, "mechanism must be one of clipped_laplace, projected_random_sign, privunit"),
    ({"mechanism": "privunit", "clip": 0.01}, "clip must be left out with privunit, got 0.01"),
    ({"clip": 0.0}, "clip must be a finite number above 0, got 0.0"),
    ({"clip": True}, "clip must be a finite number above 0, got True"),
]


@pytest.mark.parametrize(("settings", "told"), REFUSED)
def test_what_does_not_fit_together_is_refused_in_one_line(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match="must") as refusal:
        GradientPrivacy("ldp", **({"epsilon": 1.0} | settings))
    assert str(refusal.value).startswith(told)
    assert "\n" not in str(refusal.value)
    assert ";" in str(refusal.value)


OURS = GradientLayout(D, window=2, paper=False)


@pytest.mark.parametrize(
    ("settings", "law", "clip"),
    [
        (GradientPrivacy("ldp", 1.0), "privunit", None),
        (GradientPrivacy("ldp", 1.0, 1e-6), "privunit", None),
        (GradientPrivacy("jdp", 1.0), "clipped_laplace", 2.0),
        (GradientPrivacy("jdp", 1.0, 1e-6), "clipped_gaussian", 2.0),
        (GradientPrivacy("none"), "raw", 2.0),
    ],
)
def test_settings_that_are_left_out_have_the_least_noise_of_all(settings: Any, law: str, clip: float | None) -> None:
    """Relative to the estimate of a gradient with equal entries; with algorithms of a paper they are the paper's."""
    found = settings.build(OURS, 100, Streams(0, "x")).query
    assert (found.law.name, getattr(found.law, "clip", None)) == (law, clip)
    paper = settings.build(GradientLayout(D, window=2), 100, Streams(0, "x")).query.law
    assert (paper.name, paper.clip) == ("raw" if law == "raw" else "clipped_laplace", 0.01)
    if law == "raw":
        assert (found.law.norm, paper.norm) == ("l2", "l1")
        return

    def noise_to_signal(found: Any) -> float:
        shrunk = np.sqrt(D) if getattr(found, "norm", "") == "l1" else 1.0
        return float(found.noise_norm * shrunk / found.largest_norm)

    names = settings.names(settings.model)["mechanism"]
    for other in {"clipped_laplace", "clipped_gaussian", "privunit"}.intersection(names):
        if other != "clipped_gaussian" or settings.delta > 0.0:
            rival = replace(settings, mechanism=other).build(OURS, 100, Streams(0, "x")).query.law
            assert noise_to_signal(found.law) <= noise_to_signal(rival) * (1.0 + 1e-9)


def test_a_clip_that_would_be_ignored_is_refused() -> None:
    with pytest.raises(ValueError, match=r"clip must be left out with privunit, got 2\.0"):
        GradientPrivacy("ldp", 1.0, clip=2.0).build(OURS, 100, Streams(0, "x"))


@pytest.mark.parametrize(
    ("epsilon", "submissions", "told"),
    [(1.0, 10**7, r" \(one of 10000000 submissions\)"), (1e-6, 2, r" \(one of 2 submissions\)"), (1e-7, 1, r"[^()]*")],
)
def test_a_budget_that_is_too_small_for_each_is_reported_with_the_number_of_submissions(
    epsilon: float, submissions: int, told: str
) -> None:
    settings = GradientPrivacy("ldp", epsilon, mechanism="privunit", submissions=submissions)
    with pytest.raises(ValueError, match=f"^epsilon must be finite and above 1e-6, [^()]*{told}$"):
        settings.build(GradientLayout(D), 1, Streams(0, "x"))
