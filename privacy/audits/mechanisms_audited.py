"""Every mechanism by name, audited at its worst pair of inputs: the cases of `dprl audit MECHANISM`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import cast

from dprl.privacy.audits.distinguishing_attack import measure
from dprl.privacy.audits.findings import NOTHING_PROVED, Claim, NoiseProof
from dprl.privacy.audits.message_probes import (
    clipped_gradients,
    floating_point_event,
    noisy_cells,
    privunit_gradients,
    sign_gradients,
)
from dprl.privacy.audits.page import AuditCase
from dprl.privacy.audits.privatizer_probes import local_reports, statistics_messages
from dprl.privacy.mechanisms import ADDITIVE, ENCODINGS, GramMechanism
from dprl.privacy.mechanisms.base import IDEALISED, Mechanism, Sensitivity
from dprl.privacy.mechanisms.bounded_laplace import BoundedLaplace
from dprl.privacy.mechanisms.gradients import ClippedGaussian, ClippedLaplace
from dprl.privacy.mechanisms.gram import gram_sensitivity, l1_upper
from dprl.privacy.mechanisms.gram_laws import GramBoundedLaplace, GramGaussian, GramLaplace, GramUniform
from dprl.privacy.mechanisms.one_hot_encoding import SAMPLED_PREFIX, UnaryEncoder
from dprl.privacy.mechanisms.privunit import PrivUnit
from dprl.privacy.mechanisms.projected_random_sign import ProjectedRandomSign
from dprl.privacy.mechanisms.uniform import Uniform
from dprl.privacy.queries.count_families import CountFamilies, CountFamily
from dprl.privacy.queries.linear_statistics import StatisticsLayout, StatisticsQuery
from dprl.privacy.randomness.streams import Streams
from dprl.privacy.trust_models.local import LocalPrivacy

EPSILON, DELTA = 1.0, 1e-5
DEFAULT_RUNS = 400_000
_SOURCE = "its calibration"
_PURE, _APPROXIMATE = Claim(EPSILON, 0.0, _SOURCE), Claim(EPSILON, DELTA, _SOURCE)
_DIMENSION, _CLIP = 8, 1.0
_ONE_NUMBER, _TWO_CELLS = Sensitivity.of_cells(1), CountFamilies(1, (CountFamily("cells", 2),))
_ONE_GRAM = StatisticsLayout(horizon=2, dimension=4, n_messages=1, n_agents=1, reward_dimension=1)


def mechanism_names() -> list[str]:
    """Return the names of all mechanisms that can be audited."""
    return [*ADDITIVE, *_OTHERS]


def mechanism_cases(name: str, runs: int = DEFAULT_RUNS) -> list[AuditCase]:
    """Return the audit of mechanism `name`, and that of its last bits if it adds float64 noise to numbers.

    Raises KeyError for an unknown name.
    """
    law = ADDITIVE.get(name)
    if law is None:
        return [replace(_OTHERS[name](name), runs=runs)]
    claim = Claim(0.0 if law is Uniform else EPSILON, 0.0 if law.pure else DELTA, _SOURCE)
    noise = law.calibrated(EPSILON, claim.delta, _ONE_NUMBER)
    probe = noisy_cells(noise, (1.0,), (0.0,), "one number, 0 or 1")
    subject = f"scale {noise.scale:.4g}" + (f", bound {noise.bound:.4g}" if noise.bound else "")
    case = replace(AuditCase.of_curve(law.name, subject, claim, noise.curve(_ONE_NUMBER), probe), runs=runs)
    return [case] if noise.arithmetic != IDEALISED or law is Uniform else [case, _last_bits(noise, claim, runs)]


def _last_bits(noise: Mechanism, claim: Claim, runs: int) -> AuditCase:
    """Return the audit of float64, which is a separate finding, because the claim is about real numbers."""
    nothing = Claim(math.inf, claim.delta, "nothing is claimed of float64")
    return AuditCase(
        f"{noise.name}, last bits",
        "the same on a whole number, in float64",
        nothing,
        partial(NoiseProof, math.inf, None, math.inf, 1.0, raw=True),
        partial(measure, floating_point_event(noise), nothing, NOTHING_PROVED),
        runs,
        note="for whole numbers use integer noise: arithmetic: exact",
    )


def _encoding(name: str) -> AuditCase:
    made = LocalPrivacy(EPSILON, mechanism=SAMPLED_PREFIX + name, families="one_hot").build(
        _TWO_CELLS, 1, Streams(0, "audit")
    )
    law = cast(UnaryEncoder, made.query.noise.law).encoding
    label = f"two cells, bits with probability {law.hot_probability:.4g} and {law.cold_probability:.4g}"
    curve, probe = made.planned_ledger().curve, local_reports(made, label)
    return AuditCase.of_curve(name, "one-hot vector", _PURE, curve, probe)


def _clipped(kind: type[ClippedLaplace] | type[ClippedGaussian], name: str) -> AuditCase:
    claim = _APPROXIMATE if kind is ClippedGaussian else _PURE
    mechanism = kind.calibrated(EPSILON, claim.delta, _DIMENSION, _CLIP)
    subject = f"clip C, scale {mechanism.scale:.4g} C"
    return AuditCase.of_curve(name, subject, claim, mechanism.curve(), clipped_gradients(mechanism))


def _sign(name: str) -> AuditCase:
    mechanism = ProjectedRandomSign.calibrated(EPSILON, 0.0, _DIMENSION, _CLIP)
    subject = f"{mechanism.projections} bits"
    return AuditCase.of_curve(name, subject, _PURE, mechanism.curve(), sign_gradients(mechanism))


def _privunit(name: str) -> AuditCase:
    mechanism = PrivUnit.calibrated(EPSILON, 0.0, _DIMENSION)
    subject = f"cap {mechanism.threshold:.4g}, probability {mechanism.probability:.4g}"
    return AuditCase.of_curve(name, subject, _PURE, mechanism.curve(), privunit_gradients(mechanism))


def _gram(kind: type[GramLaplace] | type[GramGaussian], name: str) -> AuditCase:
    claim = _PURE if kind is GramLaplace else _APPROXIMATE
    mechanism = kind.calibrated(EPSILON, claim.delta, _ONE_GRAM.release(clipped=True))
    return _of_gram(name, claim, mechanism, f"scale {mechanism.scales[0]:.4g}")


def _gram_uniform(name: str) -> AuditCase:
    """Return the case of uniform noise, which has no calibration, at the bound that it would have."""
    claim = Claim(0.0, DELTA, "the mass outside of the common support")
    bound = l1_upper(_ONE_GRAM.dimension) / (2.0 * DELTA)
    mechanism = GramUniform(_ONE_GRAM.release(clipped=True), (bound, 0.0))
    return _of_gram(name, claim, mechanism, f"bound {bound:.4g}")


def _gram_bounded_laplace(name: str) -> AuditCase:
    """Return the case of bounded Laplace noise, which has no calibration, at the scale and bound for one number."""
    noise = BoundedLaplace.calibrated(EPSILON, DELTA, gram_sensitivity(_ONE_GRAM.dimension, 1.0))
    mechanism = GramBoundedLaplace(_ONE_GRAM.release(clipped=True), (noise.scale, 0.0), (noise.bound, 0.0))
    return _of_gram(name, _APPROXIMATE, mechanism, f"scale {noise.scale:.4g}")


def _of_gram(name: str, claim: Claim, mechanism: GramMechanism, noise: str) -> AuditCase:
    """Return the case of the only Gram matrix that a user sends in two steps."""
    probe = statistics_messages(StatisticsQuery(_ONE_GRAM, mechanism, "public"), "the features that change most, V = m")
    exact, subject = isinstance(mechanism, GramGaussian), f"4 features of norm 1, {noise}"
    return AuditCase.of_curve(name, subject, claim, mechanism.curve(), probe, exact=exact)


_OTHERS: dict[str, Callable[[str], AuditCase]] = {
    **dict.fromkeys(ENCODINGS, _encoding),
    ClippedLaplace.name: partial(_clipped, ClippedLaplace),
    ClippedGaussian.name: partial(_clipped, ClippedGaussian),
    ProjectedRandomSign.name: _sign,
    PrivUnit.name: _privunit,
    GramLaplace.name: partial(_gram, GramLaplace),
    GramGaussian.name: partial(_gram, GramGaussian),
    GramBoundedLaplace.name: _gram_bounded_laplace,
    GramUniform.name: _gram_uniform,
}
