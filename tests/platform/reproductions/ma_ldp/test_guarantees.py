"""Guarantees of printed noise, against numbers computed independently."""

from __future__ import annotations

import math

import pytest

from dprl.platform.reproductions.ma_ldp import BOUNDED, GAUSSIAN, LAPLACE, UNIFORM, proved


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
