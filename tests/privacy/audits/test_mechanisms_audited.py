"""Every mechanism is audited by name at its worst pair: none is refuted, the pure ones nearly reach their epsilon."""

from __future__ import annotations

import math

import pytest

from dprl.privacy.audits.findings import Finding
from dprl.privacy.audits.mechanisms_audited import mechanism_cases, mechanism_names
from dprl.privacy.audits.page import audit_page
from dprl.privacy.mechanisms import MECHANISMS

RUNS, ALPHA = 100_000, 1e-3
NEARLY_REACHED = {
    "laplace": 0.95,
    "discrete_laplace": 0.95,
    "bounded_laplace": 0.9,
    "optimized_unary_encoding": 0.9,
    "direct_encoding": 0.9,
    "clipped_laplace": 0.75,
    "projected_random_sign": 0.95,
    "privunit": 0.75,
    "gaussian": 0.3,
    "discrete_gaussian": 0.3,
    "gram_laplace": 0.4,
    "gram_gaussian": 0.4,
}


def audited(name: str) -> list[Finding]:
    return audit_page(mechanism_cases(name, RUNS), seed=1, alpha=ALPHA)


@pytest.mark.parametrize("name", mechanism_names())
def test_no_mechanism_is_refuted(name: str) -> None:
    """False alarm: below 1e-3 a mechanism."""
    first = audited(name)[0]
    assert (first.white_box, first.verdict, first.violated) == ("holds", "not refuted", False)
    assert first.measurement is not None
    assert NEARLY_REACHED.get(name, 0.0) <= first.measurement.epsilon_lb <= 1.0


@pytest.mark.parametrize("name", ["laplace", "gaussian", "bounded_laplace"])
def test_float64_noise_shows_a_whole_number_by_its_last_bits(name: str) -> None:
    last_bits = audited(name)[1]
    assert last_bits.claim.epsilon == math.inf
    assert not last_bits.violated
    assert last_bits.measurement is not None
    assert last_bits.measurement.epsilon_lb > 5.0
    assert last_bits.claim.delta == last_bits.measurement.claim.delta == audited(name)[0].claim.delta


@pytest.mark.parametrize("name", ["discrete_laplace", "discrete_gaussian"])
def test_integer_noise_has_no_last_bits_to_show(name: str) -> None:
    assert len(audited(name)) == 1


def test_every_mechanism_can_be_audited_under_its_name() -> None:
    assert sorted(mechanism_names()) == sorted(MECHANISMS)
    assert all(mechanism_cases(name)[0].name == name for name in MECHANISMS)


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(KeyError):
        mechanism_cases("laplac")
