"""Every mechanism by name, audited at the pair of inputs that is worst for it: what `dprl audit MECHANISM` runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from dprl.privacy.accounting.curves import PrivacyCurve
from dprl.privacy.audits.findings import NOTHING_PROVED, Claim, NoiseProof, ProbeProof, proof_of
from dprl.privacy.audits.page import AuditCase
from dprl.privacy.audits.probes_cells import FloatingPointEvent, NoisyCells
from dprl.privacy.audits.probes_gram import GramMessages
from dprl.privacy.audits.probes_vectors import (
    Responses,
    SignMessages,
    UnaryBits,
    VectorMessages,
    additive_ratios,
    cap_ratios,
)
from dprl.privacy.audits.two_worlds import Probe, measure
from dprl.privacy.mechanisms import ADDITIVE
from dprl.privacy.mechanisms.base import DISCRETE_LAPLACE, IDEALISED, LAPLACE, UNIFORM, Mechanism, Sensitivity
from dprl.privacy.mechanisms.gradients import ClippedGaussian, ClippedLaplace
from dprl.privacy.mechanisms.gram import GramRelease, l1_upper
from dprl.privacy.mechanisms.gram_bounded import GramBoundedLaplace, GramUniform
from dprl.privacy.mechanisms.gram_gaussian import GramGaussian
from dprl.privacy.mechanisms.gram_laplace import GramLaplace
from dprl.privacy.mechanisms.privunit import PrivUnit
from dprl.privacy.mechanisms.projected_random_sign import ProjectedRandomSign
from dprl.privacy.mechanisms.randomized_response import RandomizedResponse
from dprl.privacy.mechanisms.unary_encoding import OptimizedUnaryEncoding, SymmetricUnaryEncoding

EPSILON, DELTA = 1.0, 1e-5
DEFAULT_RUNS = 400_000
_SOURCE = "its calibration"
_DIMENSION, _CLIP = 8, 1.0
_ONE_NUMBER, _ONE_HOT = Sensitivity.of_cells(1), Sensitivity.of_cells(2)
_ONE_GRAM = GramRelease(4, (1.0,), 1)
# Their samplers are called once a run, not compiled in a loop.
_SLOW = 20


@dataclass(frozen=True)
class _Sampler:
    """One mechanism at its worst pair: what it is, what is claimed, what its own curve says, how it is attacked."""

    subject: str
    claim: Claim
    curve: PrivacyCurve
    exact: bool
    probe: Probe
    slow: bool = False
    noise: Mechanism | None = None


def mechanism_names() -> list[str]:
    """Return the names of all mechanisms that can be audited."""
    return [*ADDITIVE, *_OTHERS]


def mechanism_entries(name: str, runs: int = DEFAULT_RUNS) -> list[AuditCase]:
    """Return the audit of mechanism `name`, and that of its last bits where it adds float64 noise to numbers.

    Raises KeyError for an unknown name.
    """
    law = ADDITIVE.get(name)
    sampler = _OTHERS[name]() if law is None else _additive(law)
    proved = ProbeProof.of(sampler.curve, sampler.claim)
    entry = AuditCase(
        # One law may have two names; it is one audit.
        name if law is None else law.name,
        sampler.subject,
        sampler.claim,
        partial(proof_of, sampler.curve, sampler.claim, sampler.exact),
        partial(measure, sampler.probe, sampler.claim, proved),
        max(1, runs // _SLOW) if sampler.slow else runs,
    )
    noise = sampler.noise
    if noise is None or noise.arithmetic != IDEALISED or noise.law == UNIFORM:
        return [entry]
    return [entry, _last_bits(noise, sampler.claim.delta, runs)]


def _last_bits(noise: Mechanism, delta: float, runs: int) -> AuditCase:
    """Return the audit of float64: a finding of its own, since the claim is on real numbers. epsilon is at `delta`."""
    nothing = Claim(math.inf, delta, "nothing is claimed of float64")
    return AuditCase(
        f"{noise.name}, last bits",
        "the same on a whole number, in float64",
        nothing,
        lambda: NoiseProof(math.inf, None, math.inf, 1.0, raw=True),
        partial(measure, FloatingPointEvent(noise), nothing, NOTHING_PROVED),
        runs,
        note="for whole numbers use integer noise: arithmetic: exact",
    )


def _additive(law: type[Mechanism]) -> _Sampler:
    """Return noise on one whole number that changes by 1."""
    pure = law.law in (LAPLACE, DISCRETE_LAPLACE)
    claim = Claim(0.0 if law.law == UNIFORM else EPSILON, 0.0 if pure else DELTA, _SOURCE)
    noise = law.calibrated(EPSILON, claim.delta, _ONE_NUMBER)
    probe = NoisyCells(noise, (1.0,), (0.0,), "one number, 0 or 1")
    bound = f", bound {noise.bound:.4g}" if noise.bound else ""
    return _Sampler(f"scale {noise.scale:.4g}{bound}", claim, noise.curve(_ONE_NUMBER), True, probe, noise=noise)


def _response() -> _Sampler:
    claim = Claim(EPSILON, source=_SOURCE)
    mechanism = RandomizedResponse.calibrated(EPSILON, 0.0, _ONE_NUMBER)
    return _Sampler("one bit", claim, mechanism.curve(_ONE_NUMBER), True, Responses(mechanism))


def _encoding(kind: type[OptimizedUnaryEncoding] | type[SymmetricUnaryEncoding]) -> _Sampler:
    claim, encoding = Claim(EPSILON, source=_SOURCE), kind.calibrated(EPSILON, 0.0, _ONE_HOT)
    return _Sampler("one-hot vector", claim, encoding.curve(_ONE_HOT), True, UnaryBits(encoding))


def _clipped(kind: type[ClippedLaplace] | type[ClippedGaussian]) -> _Sampler:
    claim = Claim(EPSILON, DELTA if kind is ClippedGaussian else 0.0, _SOURCE)
    mechanism = kind.calibrated(EPSILON, claim.delta, _DIMENSION, _CLIP)
    probe = clipped_probe(mechanism)
    return _Sampler(f"clip C, scale {mechanism.scale:.4g} C", claim, mechanism.curve(), True, probe, slow=True)


def _sign() -> _Sampler:
    claim = Claim(EPSILON, source=_SOURCE)
    mechanism = ProjectedRandomSign.calibrated(EPSILON, 0.0, _DIMENSION, _CLIP)
    return _Sampler(f"{mechanism.projections} bits", claim, mechanism.curve(), True, SignMessages(mechanism))


def _privunit() -> _Sampler:
    claim = Claim(EPSILON, source=_SOURCE)
    mechanism = PrivUnit.calibrated(EPSILON, 0.0, _DIMENSION)
    subject = f"cap {mechanism.threshold:.4g}, probability {mechanism.probability:.4g}"
    return _Sampler(subject, claim, mechanism.curve(), True, privunit_probe(mechanism), slow=True)


def _gram(kind: type[GramLaplace] | type[GramGaussian] | type[GramBoundedLaplace]) -> _Sampler:
    claim = Claim(EPSILON, 0.0 if kind is GramLaplace else DELTA, _SOURCE)
    mechanism = kind.calibrated(EPSILON, claim.delta, _ONE_GRAM)
    curve = mechanism.curve()
    subject = f"4 features of norm 1, scale {mechanism.scales[0]:.4g}"
    return _Sampler(subject, claim, curve, kind is GramGaussian, GramMessages(mechanism), slow=True)


def _gram_uniform() -> _Sampler:
    """Return the one without a calibration, at the bound that it would have."""
    claim = Claim(0.0, DELTA, "the mass outside of the common support")
    mechanism = GramUniform(_ONE_GRAM, (l1_upper(_ONE_GRAM.dimension) / (2.0 * DELTA),))
    subject = f"4 features of norm 1, bound {mechanism.scales[0]:.4g}"
    return _Sampler(subject, claim, mechanism.curve(), False, GramMessages(mechanism), slow=True)


def opposite(dimension: int, size: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return size * e_1 and its opposite."""
    rest = (0.0,) * (dimension - 1)
    return (size, *rest), (-size, *rest)


def clipped_probe(mechanism: ClippedLaplace | ClippedGaussian) -> VectorMessages:
    """Return the probe of the two gradients that are furthest apart after clipping."""
    ones, zeros = opposite(mechanism.dimension, mechanism.clip / 2.0)
    ratios = additive_ratios(mechanism.additive, mechanism.grid)
    return VectorMessages(mechanism, ones, zeros, ratios, f"g = +-C/2 e_1, scale {mechanism.scale:.4g}")


def privunit_probe(mechanism: PrivUnit) -> VectorMessages:
    """Return the probe of two antipodal directions."""
    ones, zeros = opposite(mechanism.dimension, 1.0)
    label = f"antipodal directions, cap {mechanism.threshold:.4g}"
    return VectorMessages(mechanism, ones, zeros, cap_ratios(mechanism.threshold), label)


_OTHERS: dict[str, Callable[[], _Sampler]] = {
    RandomizedResponse.name: _response,
    SymmetricUnaryEncoding.name: partial(_encoding, SymmetricUnaryEncoding),
    OptimizedUnaryEncoding.name: partial(_encoding, OptimizedUnaryEncoding),
    ClippedLaplace.name: partial(_clipped, ClippedLaplace),
    ClippedGaussian.name: partial(_clipped, ClippedGaussian),
    ProjectedRandomSign.name: _sign,
    PrivUnit.name: _privunit,
    GramLaplace.name: partial(_gram, GramLaplace),
    GramGaussian.name: partial(_gram, GramGaussian),
    GramBoundedLaplace.name: partial(_gram, GramBoundedLaplace),
    GramUniform.name: _gram_uniform,
}
