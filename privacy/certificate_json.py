"""Queries and releases as JSON: the fields of a certificate from which its numbers are computed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from typing import Any

from dprl.privacy.ledger import ReleaseEvent
from dprl.privacy.validation import field_types
from dprl.privacy.verdicts import in_json

NOT_ITS_OWN = ("cell", "parameters")
"""Keys that `dprl certify --json` adds, and that are not part of a certificate."""
_RAW, _GRID = "raw", "grid"


def sealed(certificate: Mapping[str, Any]) -> dict[str, Any]:
    """Return a certificate in JSON with the checksum of all its fields."""
    return {**certificate, "checksum": checksum(certificate)}


def checksum(certificate: Mapping[str, Any]) -> str:
    """Return the checksum of a certificate's own fields; it detects changes, but does not authenticate the author."""
    own = {key: value for key, value in certificate.items() if key not in ("checksum", *NOT_ITS_OWN)}
    return hashlib.blake2b(json.dumps(own, sort_keys=True).encode(), digest_size=8).hexdigest()


def release_in_json(release: ReleaseEvent) -> dict[str, Any]:
    """Return a release as JSON-ready data."""
    mechanism = release.mechanism
    scale = 0.0 if mechanism is None else getattr(mechanism, "scale", None)
    parameters = {} if mechanism is None else _parameters(mechanism)
    return {
        "release": release.channel,
        "mechanism": _RAW if mechanism is None else mechanism.name,
        "scale": None if scale is None else scale * release.unit,
        "parameters": parameters if release.unit == 1.0 else {**parameters, _GRID: release.unit},
        "sensitivity": None if release.sensitivity is None else asdict(release.sensitivity),
        "attainable": release.attainable,
        "nodes_per_user": release.nodes_per_user,
        "times": release.times,
        "arithmetic": "none" if mechanism is None else mechanism.arithmetic,
        "cells": release.cells,
        "entropy": release.entropy,
    }


def described(value: Any) -> Any:  # noqa: ANN401 - a part of a query
    """Return a query or a part of it as JSON-ready data: its class and its fields; functions are null."""
    if is_dataclass(value) or hasattr(value, "_fields"):
        names = value._fields if hasattr(value, "_fields") else [each.name for each in fields(value) if each.init]
        parts = {name: getattr(value, name) for name in names}
        return {"class": type(value).__name__} | {
            name: None if callable(part) else described(part) for name, part in parts.items()
        }
    if isinstance(value, tuple):
        return [described(each) for each in value]
    return in_json(value) if isinstance(value, float) else value


def _parameters(owner: object) -> dict[str, Any]:
    """Return the parameters of a dataclass object by field; those of a part `x` as 'x.field'.

    If the field admits several classes, `x` has the part's name. Texts equal to their default are left out.
    """
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
