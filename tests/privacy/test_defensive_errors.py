"""Errors that only our code can cause: each states what is wrong, and none is unreachable."""

from __future__ import annotations

import fcntl
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pytest

from dprl.privacy import CountFamilies, CountFamily, CountPrivacy, LedgerError, NoiseDesign, Streams
from dprl.privacy.accounting.closed_forms import gaussian_mu
from dprl.privacy.base import Sensitivity
from dprl.privacy.certificate import certify
from dprl.privacy.counters import KaryTree
from dprl.privacy.counters.error import weighted_sum_bound
from dprl.privacy.journal import ChargeJournal
from dprl.privacy.ledger import Ledger
from dprl.privacy.mechanisms.bounded import Uniform
from dprl.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from dprl.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.gram import GramBoundedLaplace, GramGaussian, GramLaplace, GramRelease
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.mechanisms.privunit import PrivUnit
from dprl.privacy.mechanisms.projected_random_sign import ProjectedRandomSign
from dprl.privacy.mechanisms.reports import DirectEncoding, OptimizedUnaryEncoding, RandomizedResponse, UnaryEncoder
from dprl.privacy.mechanisms.vectors import ClippedGaussian, ClippedLaplace, RawVector
from dprl.privacy.noise_design import Release
from dprl.privacy.threat_models import THREAT_MODELS

VISITS = CountFamily("visits", 6)
ONE, RELEASE = Sensitivity.of_cells(1), GramRelease.of_horizon(5, 4, 2)
NO_EPSILONS = (0.0, -1.0, 101.0, math.inf, math.nan)


def of_families(*families: CountFamily, steps: int = 2) -> CountFamilies:
    return CountFamilies(steps, families)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Sensitivity(0.0, 1.0, 1.0, 1), "finite and above 0 in every norm"),
        (lambda: Sensitivity(1.0, 1.0, float("inf"), 1), "finite and above 0 in every norm"),
        (lambda: Sensitivity(1.0, 1.0, 1.0, 0), "finite and above 0 in every norm"),
        (lambda: CountFamily("visits", 0), "width must be at least 1"),
        (lambda: of_families(VISITS, steps=0), "must have a step and different names"),
        (lambda: of_families(VISITS, VISITS), "two would share their cells"),
        (lambda: of_families(VISITS, CountFamily("rewards", 4, marginal_of="visits")), "a multiple of 4 cells"),
        (lambda: of_families(CountFamily("rewards", 4, marginal_of="visits")), "marginal_of must name a family"),
        (lambda: gaussian_mu(1.0, 0.0), "delta must be above 0 and below 1"),
        (lambda: KaryTree(1000, DiscreteGaussian(1.0)), r"at least sqrt\(3 h\) in a kary_tree of h = "),
        (lambda: Uniform(1.0).envelope, "law must be one with a known error bound, got uniform"),
        (lambda: weighted_sum_bound(10, Laplace(1.0), 2, 0.1), "law must be one with a known moment .*, got laplace"),
        (lambda: GramRelease(0, (1.0,), 1), "dimension and n_messages must be at least 1"),
        (lambda: GramRelease(2, (0.0, 0.0), 1), "at least 0 and not all 0"),
        (lambda: RawVector(0, "l2", 1.0), "dimension must be at least 1"),
        (lambda: RawVector(2, "l3", 1.0), "norm must be one of none, l1, l2"),  # type: ignore[arg-type]
        (lambda: RawVector(2, "l2", float("nan")), "clip must be a finite number above 0"),
        (lambda: DiscreteLaplace(9e-4), "scale must lie in"),
        (lambda: DiscreteLaplace(2.0**41), "scale must lie in"),
        (lambda: DiscreteGaussian(0.06), "scale must lie in"),
        (lambda: DiscreteGaussian(2.0**15 + 1), "scale must lie in"),
        (lambda: Gaussian.calibrated(1.0, 0.0, ONE), "delta must be above 0 for Gaussian noise, got 0.0; .*laplace"),
        (lambda: DiscreteGaussian.calibrated(1.0, 0.0, ONE), "delta must be above 0 .* use discrete Laplace"),
        *((lambda e=e: RandomizedResponse(e), "epsilon must be above 0 and at most 100") for e in NO_EPSILONS),
        *((lambda e=e: OptimizedUnaryEncoding(e), "epsilon must be above 0 and at most 100") for e in NO_EPSILONS),
        (lambda: DirectEncoding(1.0, 0), r"width must be at least 1 and below 2\^32, got 0"),
        (lambda: DirectEncoding(1.0, 2**32), r"width must be at least 1 and below 2\^32"),
        (lambda: UnaryEncoder(DirectEncoding(1.0, 4), 3, 5), "width must be that of the encoding, got 5"),
        (lambda: PrivUnit.calibrated(1.0, 0.0, 1), "dimension must be at least 2, got 1"),
        (lambda: PrivUnit(3, 1.0, 0.5), r"probability must lie in \[0\.5, 1\)"),
        (lambda: PrivUnit(3, 0.7, 1.0), r"threshold must lie in \[0, 1\)"),
        (lambda: PrivUnit.calibrated(0.0, 0.0, 3), "epsilon must be finite and above"),
        (lambda: PrivUnit(5000, 0.7, 0.9), "leaves a cap of mass below"),
        (lambda: ProjectedRandomSign(3, 4, 1.0, RandomizedResponse(1.0)), r"projections must lie in 1\.\.dimension"),
        (lambda: ProjectedRandomSign(3, 1, math.nan, RandomizedResponse(1.0)), "clip must be a finite number above 0"),
        (lambda: ClippedLaplace.calibrated(1.0, 0.0, 3, 0.0), r"clip must be a finite number above 0, got 0\.0"),
        (lambda: ClippedLaplace.calibrated(math.inf, 0.0, 3, 1.0), "epsilon must be a finite number above 0"),
        (lambda: ClippedGaussian.calibrated(1.0, 0.0, 3, 1.0), r"delta must lie in \(0, 1\) for Gaussian noise"),
        (lambda: ClippedLaplace.calibrated(1.0, 0.0, 0, 1.0), "dimension must be at least 1"),
        (lambda: ClippedLaplace(3, 1.0, Laplace(1.0), 2.0**-10), "grid must be 0 for continuous noise"),
        (lambda: ClippedLaplace(3, 1.0, Laplace(1.0), 0.3), "grid must be a power of two"),
        (lambda: GramLaplace(RELEASE, (1.0,)), "scales must have one entry per stage, 5, got 1"),
        (lambda: GramGaussian(RELEASE, (1.0, 1.0, 0.0, 1.0, 1.0)), "scales must be finite and above 0"),
        (lambda: GramGaussian.calibrated(1.0, 0.0, RELEASE), r"delta must lie in \(0, 1\) for Gaussian noise"),
        (lambda: GramLaplace.calibrated(0.0, 0.0, RELEASE), "epsilon must be a finite number above 0"),
        (lambda: GramRelease(4, (0.0, 0.0), 1), "bounds must be finite"),
        *(
            (lambda limits=limits: GramBoundedLaplace(RELEASE, (1.0,) * 5, limits), "limits must be the same multiple")
            for limits in ((), (1.0, 1.0, 0.0, 1.0, 1.0), (1.0, 1.0, 2.0, 1.0, 1.0))
        ),
    ],
)
def test_what_describes_nothing_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_counts_of_no_paper_have_no_printed_noise() -> None:
    with pytest.raises(ValueError, match="no paper prints one for these counts"):
        CountPrivacy("ldp", 1.0, calibration="printed").build(of_families(VISITS), 3, Streams(0, "no paper"))


@pytest.mark.parametrize(
    ("families", "message"),
    [
        ((VISITS, CountFamily("other", 6)), "not all are marginals of the first"),
        (
            (VISITS, *(CountFamily(name, 6, marginal_of="visits", indicator=False) for name in ("one", "two"))),
            "two of them hold values",
        ),
    ],
)
def test_families_that_cannot_be_released_together_are_refused(families: tuple[CountFamily, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CountPrivacy("ldp", 1.0, families="one_hot").build(of_families(*families), 3, Streams(0, "families"))


def test_noise_without_a_claim_is_refused() -> None:
    release = Release("visits", Laplace(10.0), Sensitivity.of_cells(4), True, 8, "seeded")
    ledger = Ledger(NoiseDesign("jdp", (release,), THREAT_MODELS["counts", "jdp"], 1))
    with pytest.raises(ValueError, match="a request for noise must have a claim"):
        certify(ledger, "x")


def failing(*arguments: Any) -> NoReturn:
    raise OSError(5, "Input/output error")


@pytest.mark.parametrize(
    ("broken", "done"), [((fcntl, "flock"), "locked"), ((os, "fsync"), "written"), ((Path, "stat"), "found")]
)
def test_a_disk_that_fails_is_named_and_nothing_is_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: tuple[object, str], done: str
) -> None:
    journal = ChargeJournal(tmp_path / "charges")
    with monkeypatch.context() as patched:
        patched.setattr(*broken, failing)
        with pytest.raises(LedgerError, match=rf"cannot be {done} \(Input/output error\); nothing is charged"):
            journal.begin("terms", 3)
    with pytest.raises(LedgerError, match="is not open for writing"):
        journal.write(1, 1)
    assert journal.begin("terms", 3) == [0]
    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(LedgerError, match=r"cannot be written \(Input/output error\)"):
        journal.write(1, 1)
    assert ChargeJournal(tmp_path / "charges").recorded("terms", 3) == [0]


def test_a_subclass_widens_no_setting() -> None:
    @dataclass(frozen=True)
    class Wide(CountPrivacy):
        calibration: str = "certified"  # type: ignore[assignment]

    with pytest.raises(ValueError, match="calibration must be one of certified, printed, got 'junk'"):
        Wide("ldp", 1.0, calibration="junk")
