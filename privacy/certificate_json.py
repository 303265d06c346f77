"""Releases and ledgers as JSON, and back: the fields of a certificate that its numbers are computed from."""

from __future__ import annotations

import hashlib
import json
import typing
from collections.abc import Container, Mapping
from dataclasses import MISSING, asdict, fields, is_dataclass
from itertools import chain
from typing import Any

from dprl.privacy.base import LedgerError
from dprl.privacy.ledger import Charged, Ledger, LedgerSpec, ReleaseEvent
from dprl.privacy.mechanisms import MECHANISMS
from dprl.privacy.mechanisms.base import Sensitivity
from dprl.privacy.mechanisms.sampled import SampledGaussian
from dprl.privacy.mechanisms.shuffled import MessageInParts, ShuffledReports
from dprl.privacy.mechanisms.unary_encoding import UnaryEncoder
from dprl.privacy.threat_models import NOISY_SIDES, SAMPLED_ADJACENCY, ThreatModel
from dprl.privacy.verdicts import in_json

_AROUND: dict[str, type[Any]] = {
    "report": ShuffledReports,
    "encoding": UnaryEncoder,
    "law": SampledGaussian,
    "parts.0": MessageInParts,
}
"""Mechanisms around another one, by the parameter that only they have."""
_NOT_ITS_OWN = ("checksum", "cell", "parameters")
"""Keys that are not the certificate's: `dprl certify --json` adds the last two."""
_RAW, _GRID, _MOST_ATTEMPTS = "raw", "grid", 1_000_000


def sealed(certificate: Mapping[str, Any]) -> dict[str, Any]:
    """Return a certificate in JSON with the checksum of all its fields."""
    return {**certificate, "checksum": checksum(certificate)}


def checksum(certificate: Mapping[str, Any]) -> str:
    """Return the checksum of a certificate's own fields; it finds a change, and proves nothing about its author."""
    own = {key: value for key, value in certificate.items() if key not in _NOT_ITS_OWN}
    return hashlib.blake2b(json.dumps(own, sort_keys=True).encode(), digest_size=8).hexdigest()


def release_in_json(release: ReleaseEvent) -> dict[str, Any]:
    """Return a release as JSON-ready data; `release_from_json` builds the same one from it."""
    mechanism = release.mechanism
    scale = 0.0 if mechanism is None else getattr(mechanism, "scale", None)
    parameters = {} if mechanism is None else _parameters(mechanism)
    return {
        "release": release.channel,
        "mechanism": _RAW if mechanism is None else mechanism.name,
        "scale": None if scale is None else scale * release.unit,
        "parameters": parameters if release.unit == 1.0 else {**parameters, _GRID: release.unit},
        "sensitivity": _sensitivity(release.sensitivity),
        "sensitivity_public_start": _sensitivity(release.public_start),
        "attainable": release.attainable,
        "nodes_per_user": release.nodes_per_user,
        "times": release.times,
        "arithmetic": "none" if mechanism is None else mechanism.arithmetic,
        "cells": release.cells,
        "entropy": release.entropy,
    }


def release_from_json(found: Mapping[str, Any]) -> ReleaseEvent:
    """Return the release that `release_in_json` wrote.

    Raises LedgerError or ValueError for parameters that no release has, KeyError, TypeError or AttributeError for data
    of another form.
    """
    parameters, mechanism, unit = dict(found["parameters"]), None, 1.0
    if found["mechanism"] != _RAW:
        kind = _class_of(found["mechanism"], parameters)
        # A grid that is no parameter of the mechanism is the unit of the released numbers.
        if _GRID not in _hints(kind):
            unit = parameters.pop(_GRID, 1.0)
        mechanism = _built(kind, parameters)
    whole, start = (_read_sensitivity(found[key]) for key in ("sensitivity", "sensitivity_public_start"))
    attainable, nodes, cells = found["attainable"], found["nodes_per_user"], found["cells"]
    return ReleaseEvent(
        found["release"], mechanism, whole, start, attainable, nodes, cells, found["entropy"], unit, found["times"]
    )


def ledger_from_json(found: Mapping[str, Any], open_channels: Container[str]) -> Ledger:
    """Return the ledger of a certificate: its releases, threat model and charges.

    open_channels: excluded channels that follow from the noise. Raises as `release_from_json`.
    """
    releases = tuple(map(release_from_json, found["noise"]))
    threat_model = ThreatModel(
        found["unit"],
        found["adjacency"],
        found["observer"],
        tuple(found["covered_channels"]),
        tuple(channel for channel in found["excluded_channels"] if channel not in open_channels),
        found["attained_by"],
    )
    sampled = any(isinstance(release.mechanism, SampledGaussian) for release in releases)
    if sampled != (threat_model.adjacency == SAMPLED_ADJACENCY):
        raise LedgerError(f"adjacency must be {SAMPLED_ADJACENCY!r} with sampled_gaussian and with nothing else")
    if found["trust_model"] not in NOISY_SIDES:
        raise LedgerError(f"trust_model must be one of {', '.join(NOISY_SIDES)}, got {found['trust_model']}")
    groups = tuple(map(tuple, found["groups"] or ()))
    if groups and not (all(groups) and {*chain(*groups)} == {*range(len(releases))}):
        raise LedgerError("groups must have numbers of releases, from 0 on, and leave none out")
    users, submissions = found["users"], found["submissions"]
    spec = LedgerSpec(found["trust_model"], releases, threat_model, max(1, users), submissions, groups)
    return Ledger.of_charges(spec, _charges(users, found["users_asked_again"], found["attempts"]))


def _charges(users: int, again: int, attempts: int) -> Charged:
    """Return charges of as many attempts, with so many users in all and so many in more than one attempt."""
    if not (1 <= attempts <= _MOST_ATTEMPTS and 0 <= again <= users and (again > 0) == (attempts > 1)):
        raise LedgerError(f"users_asked_again must be above 0 with several attempts only, got {again} in {attempts}")
    return Charged(((again,) + (1,) * (attempts - 2)) if attempts > 1 else (), users)


def _sensitivity(found: Sensitivity | None) -> dict[str, Any] | None:
    if found is None:
        return None
    written = asdict(found)
    if found.groups == 1:
        del written["groups"]
    return written


def _read_sensitivity(found: Mapping[str, Any] | None) -> Sensitivity | None:
    return None if found is None else Sensitivity(**found)


def _hints(kind: type[Any]) -> dict[str, Any]:
    """Return the types of a dataclass's fields."""
    hints = typing.get_type_hints(kind)
    return {entry.name: hints[entry.name] for entry in fields(kind) if entry.init}


def _parameters(described: object) -> dict[str, Any]:
    """Return the parameters of a dataclass object by field; those of a part `x` as 'x.field'.

    The part's name is at `x` where the field admits several classes. Words are left out at their default.
    """
    found: dict[str, Any] = {}
    defaults = {entry.name: entry.default for entry in fields(described)} if is_dataclass(described) else {}
    for name, hint in _hints(type(described)).items():
        value = getattr(described, name)
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


def _class_of(name: str, parameters: Mapping[str, Any]) -> type[Any]:
    """Return the class of a mechanism by its name and by the parameters it has. Raises LedgerError."""
    around = [kind for key, kind in _AROUND.items() if key in parameters]
    if not around and name not in MECHANISMS:
        raise LedgerError(f"mechanism must be one that is registered, got {name}; load the plugin that defines it")
    return around[0] if around else MECHANISMS[name]


def _built(kind: type[Any], given: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any mechanism or part of one
    """Return the object with these parameters. Raises ValueError for one that is missing or unknown."""
    defaults = {entry.name for entry in fields(kind) if entry.default is not MISSING}
    unknown = {key.partition(".")[0] for key in given} - _hints(kind).keys()
    if unknown:
        raise ValueError(f"parameters of {kind.__name__} must be known, got {', '.join(sorted(unknown))}")
    values = {}
    for name, hint in _hints(kind).items():
        below = _below(name, given)
        if "0" in below:
            numbers = sorted(int(key) for key in below if "." not in key)
            values[name] = tuple(_part(below[str(i)], None, _below(str(i), below)) for i in numbers)
        elif below:
            values[name] = _part(given.get(name), hint, below)
        elif name in given:
            values[name] = _value(given[name])
        elif name not in defaults:
            raise ValueError(f"parameters of {kind.__name__} must have {name}")
    return kind(**values)


def _part(name: str | None, hint: type[Any] | None, given: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """Return a part of a mechanism, of the class with that name, or of the only one that its field admits."""
    return _built(hint if name is None and hint is not None else _class_of(str(name), given), given)


def _below(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    return {key.removeprefix(f"{name}."): value for key, value in given.items() if key.startswith(f"{name}.")}


def _value(found: Any) -> Any:  # noqa: ANN401 - a number, a word or a list of numbers
    if isinstance(found, list | tuple):
        return tuple(map(_value, found))
    return float(found) if found == "inf" else found
