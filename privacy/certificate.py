"""Certificate: the design of noise, the curve that it proves, and the charges, with a verdict on the claim."""

from __future__ import annotations

import copy
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import lru_cache
from typing import Any

from dprl import __version__
from dprl.privacy.accounting.closed_forms import PrivacyCurve
from dprl.privacy.accounting.composition import group_epsilon, repeat
from dprl.privacy.base import (
    APPROXIMATE_DELTA,
    Guarantee,
    LedgerError,
    Tightness,
    TrustModel,
    Verdict,
    field_types,
    in_json,
    verdict,
)
from dprl.privacy.ledger import Ledger
from dprl.privacy.mechanisms.base import IDEALISED
from dprl.privacy.mechanisms.vectors import SampledGaussian
from dprl.privacy.noise_design import SEEDED, NoiseDesign, Release, curve_of
from dprl.privacy.threat_models import NOISY_SIDES, SHUFFLE

SCHEMA = "dprl.certificate/6"
DELTAS = (1e-5, 1e-6)
EPISODES_PER_USER = (2, 5, 10)
NOT_ITS_OWN = ("cell", "parameters")
"""Keys that `dprl certify --json` adds, and that are not part of a certificate."""

_SEED = (
    "the random seed: whoever has it can remove the noise, and two runs that share it share their noise; the generator "
    "is not cryptographic: a few messages can be enough to compute the noise of everybody, without the seed (entropy: "
    "os has a cryptographic one)"
)
_ROUNDING = "the last bits of floating-point noise: the proof is for real numbers (arithmetic: exact has none)"
OPEN_CHANNELS = (_SEED, _ROUNDING)
"""Texts for channels that noise may leave open."""


@dataclass(frozen=True)
class Certificate:
    """A privacy certificate; `to_dict` gives the published fields.

    >>> import dprl
    >>> (found,) = dprl.certify(users=1000, horizon=5, epsilon=1.0)
    >>> found.verdict, round(found.proved_epsilon, 6), found.releases[0].mechanism.name
    ('holds', 1.0, 'laplace')

    Args:
        algorithm: its name. design: of the noise.
        users: number of users charged. attempts: number of attempts that charged a user. users_asked_again: number of
            users charged in more than one.
        pure_epsilon: the proved pure epsilon over all pairs of neighbours; may be infinite.
        tightness: 'exact' if a pair of neighbours attains it, 'upper' if it is only an upper bound; None if infinite.
        proved_epsilon: the epsilon to compare with the claim, at its delta; for delta 0 the pure one. May be infinite.
        epsilon_at_delta: delta -> epsilon, for DELTAS.
        delta_at_requested_epsilon: delta at the requested epsilon; None if there is none.
        method: how it was computed.
        verdict: on the claim. factor: the proved epsilon over the claimed one, at the claimed delta.
        simulation: 'users' or 'blocks'. composition: of composed runs. audit: the attached audit.
    """

    algorithm: str
    design: NoiseDesign[Any]
    users: int
    attempts: int
    users_asked_again: int
    pure_epsilon: float
    tightness: Tightness | None
    proved_epsilon: float
    epsilon_at_delta: dict[float, float]
    delta_at_requested_epsilon: float | None
    method: str
    verdict: Verdict
    factor: float | None
    simulation: str = "users"
    composition: Mapping[str, Any] | None = None
    audit: dict[str, Any] | None = None

    @property
    def trust_model(self) -> TrustModel:
        """The trust model."""
        return self.design.model

    @property
    def releases(self) -> tuple[Release, ...]:
        """The releases that one submission takes part in."""
        return self.design.releases

    def to_dict(self) -> dict[str, Any]:
        """Return the certificate as JSON-ready data; infinity is written as the string 'inf'."""
        design, threats = self.design, self.design.threat_model
        query = design.query
        summary = {} if design.settings is None else design.settings.summary(design)
        claim = {"source": design.source, "calibration": design.calibration}
        noisy = [release for release in design.releases if release.mechanism is not None]
        seeded = any(release.entropy == SEEDED for release in noisy)
        idealised = any(release.mechanism.arithmetic == IDEALISED for release in noisy if release.mechanism)
        certificate = {
            "schema": SCHEMA,
            "version": __version__,
            "algorithm": self.algorithm,
            "trust_model": design.model,
            "unit": threats.unit,
            "adjacency": threats.adjacency,
            "observer": threats.observer,
            "attained_by": threats.attained_by,
            "requested": _epsilon_and_delta(design.requested),
            "claimed": {**_epsilon_and_delta(design.claimed), **claim},
            "proved": {
                "pure_epsilon": in_json(self.pure_epsilon),
                "tightness": self.tightness,
                "epsilon_at_claimed_delta": in_json(self.proved_epsilon),
                "epsilon_at_delta": {f"{d:g}": in_json(e) for d, e in self.epsilon_at_delta.items()},
                "delta_at_requested_epsilon": self.delta_at_requested_epsilon,
                "method": self.method,
            },
            "noise": [release_in_json(release) for release in design.releases],
            "groups": [list(group) for group in design.groups] or None,
            "request": request_in_json(design),
            "users": self.users,
            "most_users": design.n_users,
            "submissions": design.submissions,
            "attempts": self.attempts,
            "users_asked_again": self.users_asked_again,
            "covered_channels": list(threats.covered),
            "excluded_channels": [*threats.excluded, *([_SEED] if seeded else []), *([_ROUNDING] if idealised else [])],
            "composition": self.composition,
            "choice": design.choice,
            "error": summary.get("error"),
            "releases": query.schedule.number if query is not None and query.schedule is not None else None,
            "simulation": self.simulation,
            "assumption": None if query is None else query.assumption,
            "best_available": summary.get("best_available"),
            "episodes_per_user": several_episodes(design, self.attempts),
            "verdict": self.verdict,
            "factor": None if self.factor is None else in_json(self.factor),
            "audit": self.audit,
        }
        # A copy, because parts of it are cached for other certificates.
        return sealed(copy.deepcopy(certificate))


def certify(
    ledger: Ledger, algorithm: str, simulation: str = "users", composition: Mapping[str, Any] | None = None
) -> Certificate:
    """Compute the certificate of a ledger; the claim is only compared with the result, never trusted.

    Verdicts: see `verdict`. Raises LedgerError for a claim of another trust model or other neighbours.
    """
    design, curve = ledger.design, ledger.curve
    claimed, threats = design.claimed, design.threat_model
    if claimed is not None and (claimed.trust_model, claimed.adjacency) != (design.model, threats.adjacency):
        rule = f"the claim must be of the ledger's trust model and neighbours ({design.model}, {threats.adjacency})"
        raise LedgerError(f"{rule}, got {claimed}; state the claim for this noise")
    pure, proved = curve.pure_epsilon, ledger.epsilon(0.0 if claimed is None else claimed.delta)
    told: Verdict = "unbounded"
    factor = None if claimed is None else math.inf
    if not design.has_raw_release:
        if claimed is None:
            raise ValueError("a request for noise must have a claim, got none; state the claimed guarantee")
        factor = proved / claimed.epsilon
        told = verdict(claimed.epsilon, claimed.delta, proved, ledger.delta(claimed.epsilon), raw=False)
    attained = f"attained by {threats.attained_by}" if design.attained else "an upper bound"
    return Certificate(
        algorithm,
        design,
        users=ledger.users_charged,
        attempts=ledger.attempts,
        users_asked_again=ledger.users_asked_again,
        pure_epsilon=pure,
        tightness=None if math.isinf(pure) else "exact" if design.attained else "upper",
        proved_epsilon=proved,
        epsilon_at_delta={delta: ledger.epsilon(delta) for delta in DELTAS},
        delta_at_requested_epsilon=None if design.requested is None else ledger.delta(design.requested.epsilon),
        method=f"{curve.method}; pure: {'no finite epsilon' if math.isinf(pure) else attained}",
        verdict=told,
        factor=factor,
        simulation=simulation,
        composition=composition,
    )


def _epsilon_and_delta(guarantee: Guarantee | None) -> dict[str, float | None]:
    if guarantee is None:
        return {"epsilon": None, "delta": 0.0}
    return {"epsilon": guarantee.epsilon, "delta": guarantee.delta}


# ---- in JSON ----


def sealed(certificate: Mapping[str, Any]) -> dict[str, Any]:
    """Return a certificate in JSON with the checksum of all its fields."""
    return {**certificate, "checksum": checksum(certificate)}


def checksum(certificate: Mapping[str, Any]) -> str:
    """Return the checksum of a certificate's own fields; it detects changes, but does not authenticate the author."""
    own = {key: value for key, value in certificate.items() if key not in ("checksum", *NOT_ITS_OWN)}
    return hashlib.blake2b(json.dumps(own, sort_keys=True).encode(), digest_size=8).hexdigest()


def release_in_json(release: Release) -> dict[str, Any]:
    """Return a release as JSON-ready data."""
    mechanism, counter = release.mechanism, release.counter
    unit = 1.0 if counter is None else counter.unit
    scale = 0.0 if mechanism is None else getattr(mechanism, "scale", None)
    parameters = {} if mechanism is None else _parameters(mechanism)
    return {
        "release": release.channel,
        "mechanism": "raw" if mechanism is None else mechanism.name,
        "scale": None if scale is None else scale * unit,
        "parameters": parameters if unit == 1.0 else {**parameters, "grid": unit},
        "sensitivity": None if release.sensitivity is None else asdict(release.sensitivity),
        "attainable": release.attainable,
        "nodes_per_user": 1 if counter is None else counter.levels,
        "times": release.times,
        "arithmetic": "none" if mechanism is None else mechanism.arithmetic,
        "cells": release.cells,
        "entropy": release.entropy,
        "explained": list(release.explain()),
    }


def request_in_json(design: NoiseDesign[Any]) -> dict[str, Any] | None:
    """Return everything that determines a design, in JSON; None if it was made by hand or composed."""
    if design.settings is None:
        return None
    return {
        "settings": design.settings.to_dict(),
        "kind": type(design.data).__name__,
        "data": json.loads(json.dumps(asdict(design.data))),  # lists, as in a file
        "users": design.users,
        "growth": design.growth,
        "noise": asdict(design.noise),
    }


def _parameters(owner: object) -> dict[str, Any]:
    """Return a dataclass's fields, those of a part `x` as 'x.field' and its name as 'x', without default texts."""
    found: dict[str, Any] = {}
    defaults = {entry.name: entry.default for entry in fields(owner)} if is_dataclass(owner) else {}
    for name, hint in field_types(type(owner)).items():  # type: ignore[arg-type]  # classes are hashable
        value = getattr(owner, name)
        if isinstance(value, str):
            found |= {} if value == defaults[name] else {name: value}
        elif isinstance(value, int | float):
            found[name] = in_json(value)
        elif isinstance(value, tuple) and all(isinstance(number, int | float) for number in value):
            found[name] = [in_json(number) for number in value]
        else:
            parts = {f"{name}.{i}": part for i, part in enumerate(value)} if isinstance(value, tuple) else {name: value}
            for key, part in parts.items():
                found |= {} if type(part) is hint else {key: part.name}
                found |= {f"{key}.{inner}": number for inner, number in _parameters(part).items()}
    return found


# ---- people who take part in several episodes ----


def several_episodes(design: NoiseDesign[Any], attempts: int) -> dict[str, Any] | None:
    """Return epsilon for each number of EPISODES_PER_USER, JSON-ready; None without noise."""
    if not any(NOISY_SIDES[design.model]) or design.claimed is None:
        return None
    times = design.submissions * attempts
    bounds, how = _bounds(design.model, design.releases, times, design.groups, design.claimed.delta)
    return {"relation": design.threat_model.adjacency, "bounds": bounds, "joint": how}


@lru_cache(maxsize=1024)  # most cells of a sweep and all seeds of a cell share them
def _bounds(
    model: str, releases: tuple[Release, ...], times: int, groups: tuple[tuple[int, ...], ...], delta: float
) -> tuple[list[dict[str, Any]], str]:
    bounds: list[dict[str, Any]] = []
    one = curve_of(releases, times, groups)
    for episodes in EPISODES_PER_USER:
        joint, how = _joint_curve(model, releases, times, groups, episodes)
        for at in sorted({delta, APPROXIMATE_DELTA}):
            group = group_epsilon(one, episodes, at)
            together = None if joint is None else joint.epsilon(at)
            composed = together is not None and together < group * (1.0 - 1e-9)
            bounds.append(
                {
                    "episodes": episodes,
                    "delta": at,
                    "epsilon": in_json(min(group, group if together is None else together)),
                    "by": how if composed else "group privacy",
                    "group": in_json(group),
                    "joint": None if together is None else in_json(together),
                }
            )
    return bounds, how


def _joint_curve(
    model: str, releases: tuple[Release, ...], times: int, groups: tuple[tuple[int, ...], ...], episodes: int
) -> tuple[PrivacyCurve | None, str]:
    """Return the curve of `episodes` episodes of one user by their joint distribution, and its name; None and a reason.

    *Formal guarantee.* Messages with separate noise are adaptive releases about one user, so they compose. Rows of a
    counter share nodes; together they change the noisy numbers by at most the sum of their changes, in every norm.
    """
    if model == SHUFFLE:
        return None, "none: several reports of a user may be in one block"
    if NOISY_SIDES[model][0]:
        return repeat(curve_of(releases, times, groups), episodes), "composition"
    if any(isinstance(release.mechanism, SampledGaussian) for release in releases):
        return None, "none: no bound is proved for several places of one user in the population"
    if any(release.row is None for release in releases):
        return None, "none: several messages of a user may be in one sum"
    return curve_of(releases, times, groups, rows=episodes), "joint sensitivity"
