"""Guarantees of printed noise, against numbers computed independently."""

from __future__ import annotations

import itertools
import math

import pytest

from dprl.platform.reproductions.ma_ldp import BOUNDED, GAUSSIAN, LAPLACE, TABLE_1, UNIFORM
from dprl.platform.reproductions.ma_ldp_proofs import guarantee_data, proved, variance_share


@pytest.mark.parametrize(
    ("mechanism", "agents", "features", "verdict"),
    [
        (GAUSSIAN, 2, 2, "holds"),
        (GAUSSIAN, 10, 5, "holds"),
        (LAPLACE, 2, 2, "holds"),
        (LAPLACE, 10, 5, "holds_approximately"),
        (UNIFORM, 2, 2, "fails"),
        (BOUNDED, 2, 2, "fails"),
    ],
)
def test_which_claims_survive_the_clips(mechanism: str, agents: int, features: int, verdict: str) -> None:
    assert proved(mechanism, agents, features).white_box == verdict


def test_numbers_are_those_of_the_closed_forms() -> None:
    # mu = sqrt(4.5 n S4) / sigma is 0.0213 there; its epsilon at 1e-5 is 0.0629.
    assert proved(GAUSSIAN, 2, 2).proof.epsilon == pytest.approx(0.06286, abs=1e-5)
    laplace = proved(LAPLACE, 10, 5).proof
    assert (laplace.attained_epsilon, laplace.pure_epsilon) == pytest.approx((3.84, 3.96), abs=0.005)
    uniform = proved(UNIFORM, 2, 2).proof
    assert (uniform.attained_delta, uniform.delta) == pytest.approx((0.0946, 0.1007), abs=1e-4)
    bounded = proved(BOUNDED, 2, 2).proof
    assert (bounded.attained_delta, bounded.delta) == pytest.approx((0.1022, 0.1096), abs=1e-4)
    assert bounded.pure_epsilon == math.inf


def test_a_wider_bound_leaks_less_and_never_nothing() -> None:
    found = [proved(BOUNDED, 2, 2, 0.1, ratio) for ratio in (0.5, 1.0, 2.0, 5.0)]
    masses = [(one.proof.attained_delta or 0.0, one.proof.delta) for one in found]
    assert all(a > b and most > less for (a, most), (b, less) in itertools.pairwise(masses))
    assert all(0.0 < least <= most for least, most in masses)
    assert {one.white_box for one in found} == {"fails"}


@pytest.mark.parametrize("ratio", [0.5, 1.0, 2.0, 5.0, 20.0])
def test_bounded_noise_never_varies_more_than_laplace_noise(ratio: float) -> None:
    assert variance_share(ratio) == pytest.approx(1.0 - (ratio**2 + 2.0 * ratio) / math.expm1(ratio) / 2.0)
    assert variance_share(ratio) < 1.0


def test_every_row_of_table_1_is_proved_for_both_examples() -> None:
    found = guarantee_data({})
    assert not found["attacks"]
    sizes = [(one["mechanism"], one["agents"], one["features"]) for one in found["proofs"]]
    assert sizes == [(row.mechanism, *size) for row in TABLE_1 for size in ((2, 2), (10, 5))]
