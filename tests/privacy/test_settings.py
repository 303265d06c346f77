"""Settings, states and refusals: each setting changes the query, and what describes nothing is refused."""

from __future__ import annotations

import fcntl
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from dprl.privacy import (
    PRIVACY_SETTINGS,
    CountFamilies,
    CountFamily,
    CountPrivacy,
    GradientLayout,
    LedgerError,
    NoiseConfig,
    NoiseDesign,
    Privatizer,
    StatisticsLayout,
    Streams,
)
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
from dprl.privacy.privatizer import check_arrays, digest_of
from dprl.privacy.threat_models import THREAT_MODELS
from tests.privacy.conftest import _families

# Every setting of every trust model changes the query: none is accepted and then ignored.

DATA: dict[str, Any] = {"counts": _families(4), "statistics": StatisticsLayout(4, 3, 2, 2, 2)}
DATA["gradients"] = GradientLayout(5, window=4, draws=True)
N_USERS, GROWTH = 40, 0.5
Changes = dict[str, tuple[dict[str, Any], Any]]


def changes(base: dict[str, Any], **values: Any) -> Changes:
    """Of each setting, others that fit it and another value."""
    return {name: (base, value) for name, value in values.items()}


PURE, BUDGET = {"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-6}
PRINTED, SHUFFLED = {**PURE, "calibration": "printed"}, {**BUDGET, "smallest_block": 10}
SIGNS = {**PURE, "mechanism": "projected_random_sign"}
GAUSSIAN = {**BUDGET, "mechanism": "clipped_gaussian"}
POISSON = {**GAUSSIAN, "sampling": "poisson", "population": 100}
BOUNDED = {**PRINTED, "delta": 1e-6, "mechanism": "gram_bounded_laplace"}
COUNTS = {"epsilon": 2.0, "delta": 1e-6, "precision": "printed", "families": "separate"}
GRAM = {"epsilon": 2.0, "rewards": "public", "reward_share": 0.3, "reward_clip": 2.0, "stage_scales": False}
VECTOR = {"epsilon": 2.0, "mechanism": "privunit", "clip": 3.0}
CHANGES: dict[tuple[str, str], Changes] = {
    ("counts", "none"): {},
    ("counts", "jdp"): {
        **changes(PURE, **COUNTS, mechanism="discrete_laplace", calibration="printed", releases="every_user"),
        **changes(BUDGET, counter="kary_tree"),
    },
    ("counts", "shuffle"): changes(SHUFFLED, epsilon=2.0, delta=1e-5, mechanism="discrete_laplace", smallest_block=20),
    ("counts", "ldp"): changes(PURE, **COUNTS, mechanism="discrete_laplace", calibration="printed"),
    ("gradients", "none"): changes({}, clip_norm="l2", clip=3.0, release_scores="none"),
    ("gradients", "jdp"): {
        **changes(BUDGET, epsilon=2.0, delta=1e-5, mechanism="clipped_gaussian", clip=3.0, release_scores="none"),
        **changes({**PURE, "clip": 3.0}, submissions=2),
        **changes(GAUSSIAN, counter="binary_tree"),
        **changes(POISSON, population=200),
    },
    ("gradients", "ldp"): {
        **changes(SIGNS, **VECTOR, submissions=2, release_scores="none"),
        **changes({**SIGNS, "delta": 1e-6}, delta=1e-5),
    },
    ("statistics", "none"): changes({}, rewards="public", clipping="device"),
    ("statistics", "jdp"): {
        **changes(BUDGET, **GRAM, delta=1e-5, mechanism="gram_laplace", counter="kary_tree", releases="every_user"),
        **changes(BUDGET, clipping="device"),
    },
    ("statistics", "ldp"): {
        **changes(BUDGET, **GRAM, mechanism="gram_laplace", calibration="printed"),
        **changes({**BUDGET, "mechanism": "gram_gaussian"}, delta=1e-5),
        **changes(PRINTED, clipping="device", noise_scale=0.1),
        **changes(BOUNDED, bound_ratio=2.0),
    },
}
NO_CHOICE = {("gradients", "jdp"): {"sampling"}}
"""Settings that admit one value only, or only one together with another setting."""


def placed(query: str, model: str, settings: dict[str, Any]) -> object:
    """The query, with the noise on either side."""
    return PRIVACY_SETTINGS[query](model, **settings).design(DATA[query], N_USERS, NoiseConfig(), GROWTH).query


def test_every_setting_has_a_case() -> None:
    own = {(query, model): {*kind.keys(model)} for query, kind in PRIVACY_SETTINGS.items() for model in kind.KEYS}
    assert own == {key: set(found) | NO_CHOICE.get(key, set()) for key, found in CHANGES.items()}


@pytest.mark.parametrize(("query", "model", "name"), [(*key, name) for key, found in CHANGES.items() for name in found])
def test_a_changed_setting_changes_the_query(query: str, model: str, name: str) -> None:
    settings, value = CHANGES[query, model][name]
    assert placed(query, model, {**settings, name: value}) != placed(query, model, settings)


@pytest.mark.parametrize(
    ("name", "limit", "beyond", "rule"),
    [
        ("epsilon", 1e-9, 0.9e-9, "lie between 1e-9 and 1e9"),
        ("epsilon", 1e9, 1.1e9, "lie between 1e-9 and 1e9"),
        ("delta", 1e-15, 0.9e-15, r"be 0 .* or lie in \[1e-15, 1\)"),
    ],
)
def test_the_limits_of_a_budget_are_part_of_it(name: str, limit: float, beyond: float, rule: str) -> None:
    settings: Any = partial(CountPrivacy, "jdp")
    assert getattr(settings(**{**PURE, name: limit}).requested, name) == limit
    with pytest.raises(ValueError, match=f"^{name} must {rule}, got "):
        settings(**{**PURE, name: beyond})


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, True])
def test_a_share_is_between_nothing_and_everything(share: float) -> None:
    with pytest.raises(ValueError, match=r"^reward_share must lie in \(0, 1\), got "):
        placed("statistics", "jdp", {**PURE, "reward_share": share})


# Errors that only our code can cause: each states what is wrong, and none is unreachable.

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


# Names, shapes and types of a state are checked before any of it is used.


def test_a_digest_tells_names_shapes_types_and_values_apart_and_no_order() -> None:
    arrays = {"a": np.zeros(2), "b": np.ones(2)}
    others: list[dict[str, np.ndarray]] = [
        {"a": np.ones(2), "b": np.zeros(2)},
        {"a": np.zeros(2), "c": np.ones(2)},
        {"a": np.zeros((2, 1)), "b": np.ones(2)},
        {"a": np.zeros(2, dtype=np.int64), "b": np.ones(2)},
        {"a": np.zeros(2)},
    ]
    found = {digest_of("words", some).tobytes() for some in (arrays, *others)} | {digest_of("word", arrays).tobytes()}
    assert len(found) == 7
    assert np.array_equal(digest_of("words", {name: arrays[name] for name in ("b", "a")}), digest_of("words", arrays))


@pytest.mark.parametrize(
    "array",
    [None, np.array(3), np.zeros(0, dtype=np.int64), np.ones((2, 2), dtype=np.int64), np.array([np.inf]), ["x"]],
)
def test_charges_in_another_mapping_are_reported_without_an_error(array: np.ndarray | None) -> None:
    assert Privatizer.charged_in({} if array is None else {"counts": array}) == -1
    assert Privatizer.charged_in({"counts": np.array([4, 5])}) == 4


@pytest.mark.parametrize("array", [None, np.zeros(4), np.zeros((3, 1)), np.zeros(3, dtype=np.float32)])
def test_a_state_of_other_arrays_is_refused_by_name(array: np.ndarray | None) -> None:
    own, state = {"a": np.zeros(3)}, {} if array is None else {"a": array}
    check_arrays({"a": np.ones(3), "b": np.ones(1)}, own)
    with pytest.raises(ValueError, match="the state's 'a' is missing or of another shape; resume with the same"):
        check_arrays(state, own)
