"""The papers' refuted formulas: as printed, with the stated guarantees, and refuted by audits."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats

from dprl.papers.claims import paper_claims
from dprl.papers.refuted_formulas import (
    PrintedRandomSign,
    printed_bounded_laplace,
    printed_bounded_laplace_delta,
    printed_bounded_laplace_probe,
)
from dprl.privacy.audits.distinguishing_attack import audit_page, measure
from dprl.privacy.audits.findings import Claim, Finding, NoiseProof
from dprl.privacy.audits.message_probes import noisy_cells
from dprl.privacy.base import Sensitivity
from dprl.privacy.mechanisms.bounded import BoundedLaplace, Uniform
from dprl.privacy.mechanisms.gram import printed_uniform_bound
from dprl.privacy.mechanisms.laplace import Laplace

N_DRAWS = 100_000
NAMES = ("A2 k=1", "A4", "M0", "M4 B=5b", "M4'")


def named(name: str) -> Finding:
    return next(one.finding for one in paper_claims() if one.finding.name == name)


def printed_distribution(x: np.ndarray, scale: float, bound: float) -> np.ndarray:
    """[TH23] eq. (74) with q = e^(-B/b)."""
    q = math.exp(-bound / scale)
    inside = np.clip(x, -scale * math.log(2.0 - q), bound)
    return np.asarray((2.0 - q - np.exp(-inside / scale)) / (2.0 * (1.0 - q)))


def true_distribution(x: np.ndarray, scale: float, bound: float) -> np.ndarray:
    return np.asarray(0.5 + 0.5 * np.sign(x) * np.expm1(-np.abs(x) / scale) / np.expm1(-bound / scale))


@pytest.mark.parametrize("bound", [1.0, 3.0, 30.0])
def test_equation_78_draws_another_law_than_bounded_laplace(bound: float) -> None:
    # Kolmogorov-Smirnov at a fixed seed; false-alarm rate of the acceptance 1e-3.
    x = printed_bounded_laplace(np.random.default_rng(1).random(N_DRAWS), 1.0, bound)
    assert stats.kstest(x, lambda y: printed_distribution(y, 1.0, bound)).pvalue > 1e-3
    assert stats.kstest(x, lambda y: true_distribution(y, 1.0, bound)).pvalue < 1e-100
    assert x.min() >= -math.log(2 - math.exp(-bound)) - 1e-12
    assert x.max() <= bound + 1e-12


def test_equation_78_is_a_shifted_exponential_for_large_bounds() -> None:
    # Moments by integration over u: mean 1 - ln 2, variance 1 in place of 0 and 2.
    def moment(power: int) -> float:
        return float(integrate.quad(lambda u: float(printed_bounded_laplace(np.array(u), 1.0, 40.0)) ** power, 0, 1)[0])

    assert moment(1) == pytest.approx(1 - math.log(2), abs=1e-4)
    assert moment(2) - moment(1) ** 2 == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize(("bound", "change"), [(1.0, 0.1), (3.0, 0.7), (30.0, 0.1)])
def test_delta_of_equation_78_is_the_integral_at_every_epsilon(bound: float, change: float) -> None:
    left = -math.log(2 - math.exp(-bound))
    edges = np.linspace(left, bound + change, 400_001)
    middles, width = (edges[1:] + edges[:-1]) / 2, edges[1] - edges[0]

    def density(x: np.ndarray) -> np.ndarray:
        return np.where((x >= left) & (x <= bound), np.exp(-x) / (2 * -math.expm1(-bound)), 0.0)

    for epsilon in (0.0, 0.05, 2.0):
        deltas = [
            float(np.maximum(0.0, density(a) - math.exp(epsilon) * density(b)).sum() * width)
            for a, b in ((middles, middles - change), (middles - change, middles))
        ]
        assert max(deltas) == pytest.approx(printed_bounded_laplace_delta(change, 1.0, bound), rel=2e-3)


def test_test_vectors_of_the_specification() -> None:
    assert printed_bounded_laplace_delta(0.1, 1.0, 30.0) == pytest.approx(0.0952, abs=5e-5)
    assert printed_bounded_laplace_delta(0.1, 1.0, math.inf) == pytest.approx(-math.expm1(-0.1))
    assert PrintedRandomSign(5.0, 2, 1).pure_epsilon == pytest.approx(9.70, abs=0.005)
    assert PrintedRandomSign(10.0, 4, 1).pure_epsilon == pytest.approx(39.3, abs=0.05)
    # H = 5: one number of stage 1 changes by 2 (H - 1)^2 = 32.
    uniform = Uniform(printed_uniform_bound(5, 1e-5)).curve(Sensitivity.of_cells(1, 32.0))
    assert uniform.delta(0.0) == pytest.approx(8.6e-3, rel=2e-3)
    bounded = BoundedLaplace(1.0, 1.0).curve(Sensitivity.of_cells(1, 0.1))
    assert bounded.delta(0.1) == pytest.approx(0.0306, abs=5e-5)


@pytest.mark.parametrize("epsilon", [0.5, 5.0, 10.0])
@pytest.mark.parametrize("dimension", [1, 2, 4])
def test_random_sign_is_as_private_as_claimed_for_k_of_the_dimension_only(epsilon: float, dimension: int) -> None:
    sign = PrintedRandomSign(epsilon, dimension, dimension)
    assert sign.pure_epsilon == pytest.approx(epsilon)
    assert sign.delta(epsilon) < 1e-12
    for k in range(1, dimension):
        assert PrintedRandomSign(epsilon, dimension, k).pure_epsilon > epsilon * 1.01
        assert PrintedRandomSign(epsilon, dimension, k).delta(epsilon) > 0.0


@pytest.mark.parametrize("name", NAMES)
def test_every_formula_is_refuted_and_never_beyond_what_it_gives(name: str) -> None:
    # Bounds at 1 - 1e-4: the second half of this test fails by chance with a probability below 1e-4 each.
    found = named(name).audit(seed=0, alpha=1e-4)
    # A4 claims nothing, so its leak is shown but refutes nothing.
    claims = name != "A4"
    assert found.verdict == ("refuted" if claims else "not refuted")
    assert found.violated == claims
    assert not found.contradicts_proof
    assert found.measurement is not None
    assert found.measurement.proof.delta == found.proof.delta
    assert claims or found.measurement.epsilon_lb == math.inf


def test_they_make_a_page() -> None:
    page = audit_page([replace(named(name), runs=20_000) for name in ("A4", "M0", "M4'")])
    assert [finding.name for finding in page] == ["A4", "M0", "M4'"]
    assert [finding.verdict for finding in page] == ["not refuted", "refuted", "refuted"]
    assert [finding.violated for finding in page] == [False, True, True]
    assert [finding.white_box for finding in page] == ["unbounded", "unbounded", "fails"]


def test_the_same_attacks_do_not_refute_what_is_right() -> None:
    # Controls, at 1 - 1e-4 each.
    sign = PrintedRandomSign(5.0, 2, 2)
    assert not measure(sign.probe, Claim(5.0), NoiseProof(5.0, None, 5.0, 0.0), alpha=1e-4).refutes
    laplace = noisy_cells(Laplace(1.0), (1.0,), (0.0,), "one cell")
    assert not measure(laplace, Claim(1.0), NoiseProof(1.0, None, 1.0, 0.0), alpha=1e-4).refutes
    noise = BoundedLaplace(1.0, math.log1p(math.expm1(1.0) / 0.02))
    proved = NoiseProof(1.0, None, 1.0, 0.01)
    bounded = noisy_cells(noise, (1.0,), (0.0,), "one cell")
    assert not measure(bounded, Claim(1.0, 0.01), proved, alpha=1e-4).refutes
    assert measure(bounded, Claim(1.0, 0.005), proved, alpha=1e-4).refutes


def test_a_probe_is_a_function_of_its_key() -> None:
    probe, key = printed_bounded_laplace_probe(1.0, 3.0, 0.5), np.arange(5, dtype=np.uint64)
    key[0] = 0
    assert np.array_equal(probe.scores(1, 500, key), probe.scores(1, 500, key))
    assert not np.array_equal(probe.scores(1, 500, key), probe.scores(0, 500, key))
