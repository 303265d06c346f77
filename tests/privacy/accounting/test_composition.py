"""Composition and group privacy: properties, numbers computed beforehand, and comparison with dp-accounting."""

from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as peer
from hypothesis import given, settings
from hypothesis import strategies as st

from dprl.privacy.accounting.amplification import SampledGaussianLoss, ShuffledLoss
from dprl.privacy.accounting.closed_forms import (
    ZCDP,
    ChosenCurve,
    GaussianDP,
    PrivacyCurve,
    RandomizedResponses,
    Unbounded,
    composed_epsilon,
)
from dprl.privacy.accounting.composition import _ComposedLoss, compose, group_epsilon, repeat
from dprl.privacy.accounting.discrete_gaussians import DiscreteGaussianLoss, RoundedGaussianLoss
from dprl.privacy.accounting.losses import LaplaceLoss

# Composition: its properties, numbers computed beforehand, and comparison with dp-accounting.

SMALL = st.floats(1e-3, 2.0)
CURVES = st.one_of(
    SMALL.map(partial(RandomizedResponses, 1)),
    st.builds(RandomizedResponses, st.integers(1, 40), st.sampled_from([0.01, 0.1, 0.3])),
    st.builds(partial(RandomizedResponses, informative=0.5), st.integers(1, 20), st.sampled_from([0.05, 0.2])),
    SMALL.map(GaussianDP),
    st.floats(1e-4, 0.5).map(ZCDP),
    st.builds(DiscreteGaussianLoss, st.integers(1, 9), st.floats(0.3, 50.0)),
    st.builds(lambda e, d: RandomizedResponses(1, e, lost=d), st.floats(0.01, 1.0), st.sampled_from([1e-9, 1e-7])),
)
LISTS = st.lists(CURVES, min_size=2, max_size=4)
DELTAS = (1e-9, 1e-6, 1e-3)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(LISTS, st.randoms(use_true_random=False))
def test_order_and_grouping_do_not_matter(curves: list[PrivacyCurve], random: object) -> None:
    together = compose(curves)
    assert compose(curves[::-1]) == together
    grouped = compose([compose(curves[:1]), compose(curves[1:])])
    for delta in DELTAS:
        assert grouped.epsilon(delta) == pytest.approx(together.epsilon(delta), rel=1e-9)


SHUFFLED = ShuffledLoss(1.5, 1000)
SAMPLED = SampledGaussianLoss(2.0, 0.1, 30)
NARROW, WIDE = RoundedGaussianLoss(0.5, 1.75, 10), RoundedGaussianLoss(30.0, 100.0, 1)
MANY = LaplaceLoss(((201, 0.005), (9, 0.1)), 1.905)
EITHER = ChosenCurve((RandomizedResponses(1, 0.8), GaussianDP(0.3)))


@pytest.mark.parametrize(
    "curves",
    [
        [SHUFFLED, SHUFFLED],
        [SHUFFLED, ShuffledLoss(3.0, 500)],
        [SHUFFLED, GaussianDP(0.2), RandomizedResponses(9, 0.02)],
        [ShuffledLoss(7.31, 755), DiscreteGaussianLoss(6, 295.0), RandomizedResponses(1, 0.8, lost=1e-9)],
        [SAMPLED, GaussianDP(0.2)],
        [NARROW, RandomizedResponses(1, 0.5)],
        [NARROW, WIDE, GaussianDP(0.3)],
        [WIDE, ZCDP(0.01)],
        [MANY, GaussianDP(0.2)],
        [DiscreteGaussianLoss(2, 3e4), GaussianDP(1e-3)],
        [EITHER, ZCDP(0.02), ChosenCurve((RandomizedResponses(1, 0.1), GaussianDP(0.5)))],
    ],
    ids=repr,
)
def test_all_kinds_of_loss_cost_at_most_basic_composition(curves: list[PrivacyCurve]) -> None:
    together, k = compose(curves), len(curves)
    for delta in (1e-8, 1e-3):
        found = together.epsilon(delta)
        for uneven in range(-1, k):
            shares = [1.0 / k if uneven < 0 else 0.99 if i == uneven else 0.01 / (k - 1) for i in range(k)]
            basic = sum(curve.epsilon(delta * share) for curve, share in zip(curves, shares, strict=True))
            assert found <= basic * 1.001
        assert found >= max(curve.epsilon(delta) for curve in curves) * (1.0 - 1e-6)
        assert together.delta(found) <= delta * (1.0 + 1e-12)


@pytest.mark.parametrize(
    "curves",
    [
        [GaussianDP(0.4), GaussianDP(0.3)],
        [GaussianDP(0.4), RandomizedResponses(30, 0.05)],
        [RandomizedResponses(2, 1.0), RandomizedResponses(30, 0.05)],
    ],
    ids=repr,
)
def test_a_curve_whose_law_is_unknown_costs_what_the_law_does(curves: list[PrivacyCurve]) -> None:
    """A minimum of one curve twice hides the law: its loss is rebuilt from epsilons and deltas alone."""
    hidden = _ComposedLoss(tuple(ChosenCurve((curve, curve)) for curve in curves))
    for delta in (1e-12, 1e-6, 1e-3):
        known = compose(curves).epsilon(delta)
        assert known * (1.0 - 1e-9) <= hidden.epsilon(delta) <= known * 1.001


def test_equal_runs_cost_their_joint_loss() -> None:
    assert compose([SHUFFLED, SHUFFLED]) == ShuffledLoss(1.5, 1000, 2)
    assert compose([SAMPLED, SAMPLED]) == SampledGaussianLoss(2.0, 0.1, 60)
    assert compose([WIDE, WIDE]).epsilon(1e-6) == pytest.approx(GaussianDP(0.3 * math.sqrt(2)).epsilon(1e-6), rel=2e-3)
    with_gaussian = compose([WIDE, GaussianDP(0.3)]).epsilon(1e-6)
    assert with_gaussian == pytest.approx(GaussianDP(0.3 * math.sqrt(2.0)).epsilon(1e-6), rel=2e-3)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(CURVES, st.integers(1, 6))
def test_repeating_is_composing_equals(curve: PrivacyCurve, times: int) -> None:
    repeated, composed = repeat(curve, times), compose([curve] * times)
    for delta in DELTAS:
        assert repeated.epsilon(delta) == pytest.approx(composed.epsilon(delta), rel=1e-9)


def test_repeating_a_composition_repeats_its_parts_and_its_probability_without_a_guarantee() -> None:
    parts = [RandomizedResponses(1, 0.5, lost=1e-3), GaussianDP(0.2)]
    repeated = repeat(compose(parts), 3)
    assert repeated == compose(parts * 3)
    assert repeated.delta(math.inf) == pytest.approx(3e-3)


def test_one_kind_stays_of_that_kind() -> None:
    assert compose([GaussianDP(3.0), GaussianDP(4.0)]) == GaussianDP(5.0)
    assert compose([ZCDP(0.25), ZCDP(0.5)]) == ZCDP(0.75)
    assert compose([RandomizedResponses(1, 0.5)] * 4) == RandomizedResponses(4, 0.5, 2.0)
    joined = compose([RandomizedResponses(3, 0.5, 1.25), RandomizedResponses(5, 0.5)])
    assert joined == RandomizedResponses(8, 0.5, 3.75)
    assert compose([DiscreteGaussianLoss(3, 5.0), DiscreteGaussianLoss(4, 5.0)]) == DiscreteGaussianLoss(7, 5.0)
    encodings = [RandomizedResponses(3, 0.5, informative=0.5), RandomizedResponses(4, 0.5, informative=0.5)]
    assert compose(encodings) == RandomizedResponses(7, 0.5, informative=0.5)
    assert compose([]) == RandomizedResponses(1, 0.0)
    assert compose([GaussianDP(1.0), RandomizedResponses(1, 0.0)]) == GaussianDP(1.0)
    assert repeat(GaussianDP(1.0), 4) == GaussianDP(2.0)
    with pytest.raises(ValueError, match=r"^times must be at least 1, got 0"):
        repeat(RandomizedResponses(1, 1.0), 0)


def test_a_raw_release_spoils_everything() -> None:
    assert compose([RandomizedResponses(1, 1.0), Unbounded(), GaussianDP(1.0)]) == Unbounded()
    assert repeat(Unbounded(), 3) == Unbounded()
    assert compose([RandomizedResponses(1, 0.1, lost=0.6)] * 2).epsilon(0.999) == math.inf


class Unheard(PrivacyCurve):
    """A curve that nobody knows how to add up."""

    pure_epsilon, method = 1.0, "unheard of"

    def epsilon(self, delta: float) -> float:
        return self.pure_epsilon - delta

    def delta(self, epsilon: float) -> float:
        return self.pure_epsilon - epsilon


def test_unknown_curves_are_refused() -> None:
    lists: list[list[PrivacyCurve]] = [[Unheard()], [Unbounded(), Unheard()], [GaussianDP(1.0), Unheard()]]
    for curves in lists:
        with pytest.raises(ValueError, match=r"^curves must be of a known kind to be added up, got Unheard"):
            compose(curves)


def listed_delta(epsilon: float, kinds: list[tuple[int, float]]) -> float:
    """Return delta by listing every outcome of every response."""
    losses = [e for n, e in kinds for _ in range(n)]
    total = 0.0
    for signs in itertools.product((1, -1), repeat=len(losses)):
        loss = sum(s * e for s, e in zip(signs, losses, strict=True))
        p = math.prod(1 / (1 + math.exp(-s * e)) for s, e in zip(signs, losses, strict=True))
        total += p * max(0.0, 1 - math.exp(epsilon - loss))
    return total


def test_unequal_responses_are_exact_if_few() -> None:
    curve = compose([RandomizedResponses(4, 0.3), RandomizedResponses(5, 0.11), RandomizedResponses(1, 0.7)])
    for epsilon in (0.0, 0.5, 1.0, 2.0):
        assert curve.delta(epsilon) == pytest.approx(listed_delta(epsilon, [(4, 0.3), (5, 0.11), (1, 0.7)]), rel=3e-9)


def test_a_gaussian_on_the_grid_costs_what_it_costs() -> None:
    for mu in (0.01, 0.2367, 3.0):
        with_trace = compose([GaussianDP(mu), RandomizedResponses(1, mu * 1e-9)])
        alone = GaussianDP(mu).epsilon(1e-6)
        assert alone <= with_trace.epsilon(1e-6) <= alone * (1 + 1e-4)


STEP = 1e-5


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (RandomizedResponses(20, 0.1), peer.from_discrete_laplace_mechanism(0.1, 1, True, STEP)),
        (
            repeat(RandomizedResponses(1, 0.1), 20),
            peer.from_randomized_response(2 / (1 + math.exp(0.1)), 2, value_discretization_interval=STEP),
        ),
        (repeat(GaussianDP(0.05), 20), peer.from_gaussian_mechanism(20.0, value_discretization_interval=1e-4)),
        (
            DiscreteGaussianLoss(20, 20.0),
            peer.from_discrete_gaussian_mechanism(20.0, value_discretization_interval=STEP),
        ),
    ],
    ids=["discrete Laplace", "randomized response", "Gaussian", "discrete Gaussian"],
)
def test_twenty_releases_agree_with_dp_accounting(ours: PrivacyCurve, theirs: peer.PrivacyLossDistribution) -> None:
    composed = theirs.self_compose(20)
    for delta in (1e-9, 1e-6, 1e-3):
        known = composed.get_epsilon_for_delta(delta)
        # dp-accounting rounds losses up to its grid and adds up to 20 steps of it.
        assert ours.epsilon(delta) <= known * (1 + 1e-6)
        assert ours.epsilon(delta) == pytest.approx(known, abs=21 * STEP, rel=1e-6)


def test_deltas_of_points_add_up() -> None:
    curve = repeat(RandomizedResponses(1, 0.01, lost=1e-9), 100)
    assert curve.epsilon(0.99e-7) == math.inf
    assert curve.epsilon(1e-7) == pytest.approx(1.0)
    assert curve.epsilon(1e-6) == pytest.approx(composed_epsilon(0.9e-6, 100, 0.01), rel=1e-6)


@pytest.mark.parametrize("mu", [0.02, 0.2, 1.5])
@pytest.mark.parametrize("other", [RandomizedResponses(1, 0.8), RandomizedResponses(40, 0.05), GaussianDP(0.3)])
def test_zcdp_bounds_what_has_it(mu: float, other: PrivacyCurve) -> None:
    # A Gaussian is mu^2/2-zCDP, so the bound for all mu^2/2-zCDP mechanisms must exceed its exact curve.
    known, bound = compose([other, GaussianDP(mu)]), compose([other, ZCDP(mu * mu / 2)])
    for delta in DELTAS:
        assert known.epsilon(delta) <= bound.epsilon(delta) * (1 + 1e-5)
    for epsilon in (0.0, 0.3, 1.0):
        assert known.delta(epsilon) <= bound.delta(epsilon) * (1 + 1e-5)


def test_unary_encodings_beside_others_cost_what_listing_says() -> None:
    n, epsilon_0, other = 3, 0.4, 0.7
    curve = compose([RandomizedResponses(n, epsilon_0, informative=0.5), RandomizedResponses(1, other)])
    q = 1 / (1 + math.exp(epsilon_0))
    one = [(epsilon_0, (1 - q) / 2), (0.0, 0.5), (-epsilon_0, q / 2)]
    last = [(other, 1 / (1 + math.exp(-other))), (-other, 1 / (1 + math.exp(other)))]
    for epsilon in (0.0, 0.4, 1.0):
        listed = sum(
            math.prod(p for _, p in outcome) * max(0.0, 1 - math.exp(epsilon - sum(loss for loss, _ in outcome)))
            for outcome in itertools.product(one, one, one, last)
        )
        assert curve.delta(epsilon) == pytest.approx(listed, rel=3e-9)


def test_discrete_gaussians_that_are_not_listed_count_with_their_rho() -> None:
    together = compose([DiscreteGaussianLoss(4, 1.0), DiscreteGaussianLoss(9, 2.0)])
    assert isinstance(together, _ComposedLoss)
    assert together.rho == 4 / 2 + 9 / 8
    assert together.epsilon(1e-6) == pytest.approx(15.3, abs=0.05)


@pytest.mark.parametrize(("times", "informative"), [(7, 1.0), (2, 0.5)])
def test_many_kinds_cost_between_the_smallest_and_the_largest(times: int, informative: float) -> None:
    shares, scales = (1.0, informative), 0.01 + 1e-7 * np.arange(150)
    curve = compose([RandomizedResponses(times, float(e), informative=shares[i % 2]) for i, e in enumerate(scales)])
    first = float(scales[0])
    least = compose([RandomizedResponses(75 * times, first, informative=share) for share in shares]).epsilon(1e-6)
    most = composed_epsilon(1e-6, 150 * times, scales[-1])
    assert least <= curve.epsilon(1e-6) <= most * (1 + 1e-5)


def test_two_bounds_on_one_release_add_up_side_by_side() -> None:
    one = ChosenCurve((RandomizedResponses(1, 3.0), ZCDP(0.01)))
    assert one.epsilon(0.0) == 3.0
    assert one.epsilon(1e-6) == ZCDP(0.01).epsilon(1e-6) < 3.0
    assert one.delta(3.0) == 0.0
    for three in (repeat(one, 3), compose([one, one, one])):
        assert three.pure_epsilon == pytest.approx(9.0)
        assert three.epsilon(1e-6) == pytest.approx(ZCDP(0.03).epsilon(1e-6))
    mixed = compose([one, GaussianDP(0.1)])
    assert mixed.pure_epsilon == math.inf
    assert mixed.epsilon(1e-6) >= ZCDP(0.01).epsilon(1e-6)


def test_a_pure_bound_survives_composition_with_others() -> None:
    both = compose([ChosenCurve((RandomizedResponses(1, 0.1), ZCDP(10.0))), RandomizedResponses(1, 0.1)])
    assert both.pure_epsilon == pytest.approx(0.2)
    assert both.epsilon(1e-6) <= 0.2
    assert repeat(both, 3).pure_epsilon == pytest.approx(0.6)
    assert compose([both, Unbounded()]).epsilon(0.1) == math.inf


def test_a_nearly_constant_loss_beside_another_has_a_finite_bound() -> None:
    composed = compose([ShuffledLoss(25.0, 100), GaussianDP(1.0)])
    assert 25.0 < composed.epsilon(1e-6) < 1.001 * (25.0 + GaussianDP(1.0).epsilon(1e-6))


# Group privacy, against exact laws and composition.


@pytest.mark.parametrize("size", [2, 5, 10])
def test_group_privacy(size: int) -> None:
    assert group_epsilon(RandomizedResponses(1, 0.3), size, 0.0) == pytest.approx(0.3 * size)
    assert group_epsilon(GaussianDP(0.2), size, 1e-6) == pytest.approx(GaussianDP(0.2 * size).epsilon(1e-6), rel=1e-6)
    # Gaussian noise has this zCDP, and its group loses exactly this much.
    gaussian = GaussianDP(size * math.sqrt(2.0 * 0.01)).epsilon(1e-6)
    assert gaussian <= group_epsilon(ZCDP(0.01), size, 1e-6) <= ZCDP(0.01 * size**2).epsilon(1e-6) * (1.0 + 1e-6)
    # A group of sampled users loses at least as much as one user.
    sampled = SampledGaussianLoss(2.0, 0.01, 20)
    epsilon = group_epsilon(sampled, size, 1e-5)
    assert sampled.epsilon(1e-5) < epsilon < math.inf
    # Composition has fresh noise for every record, so it loses at most as much as a group.
    responses = RandomizedResponses(100, 0.02)
    assert repeat(responses, size).epsilon(1e-6) <= group_epsilon(responses, size, 1e-6) * (1.0 + 1e-9)


def test_a_group_of_one_is_the_curve() -> None:
    for curve in (RandomizedResponses(1, 1.0), GaussianDP(1.0), RandomizedResponses(20, 0.1)):
        assert group_epsilon(curve, 1, 1e-5) == pytest.approx(curve.epsilon(1e-5), rel=1e-6)
    with pytest.raises(ValueError, match="size must be at least 1"):
        group_epsilon(RandomizedResponses(1, 1.0), 0, 1e-5)
