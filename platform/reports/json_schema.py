"""JSON schema of config files, for editors, made from the registries' classes, including those of plugins."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterable
from typing import Any

from pydantic import TypeAdapter

from dprl.algorithms import ALGORITHMS
from dprl.envs import ENVIRONMENTS
from dprl.platform.configs.experiment import CHOOSERS, Experiment
from dprl.platform.configs.grid import GRID
from dprl.platform.configs.sections import choices
from dprl.privacy import TRUST_MODELS, NoiseConfig

Schema = dict[str, Any]


def config_schema() -> Schema:
    """Return the schema, draft 2020-12, of names, keys, types and grids; `dprl certify` checks ranges."""
    classes: dict[str, list[type[Any]]] = {
        "algorithm": list(ALGORITHMS.values()),
        "env": list(ENVIRONMENTS.values()),
        "privacy": [model for models in TRUST_MODELS.values() for model in models.values()],
    }
    sections = {name: _section(found, CHOOSERS[name]) for name, found in classes.items()}
    keys = {name: _or_grid({"$ref": f"#/$defs/{name}"}) for name in sections}
    keys |= {"noise": _or_grid(_object(_keys(NoiseConfig)))}
    for name, hint in typing.get_type_hints(Experiment).items():
        if name not in (*keys, "algorithm_label"):
            keys[name] = _or_grid(TypeAdapter(hint).json_schema())
    keys[GRID] = {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/part"}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "dprl config",
        "$ref": "#/$defs/part",
        "$defs": {**sections, "part": _object(keys)},
    }


def _section(classes: Iterable[type[Any]], chooser: str) -> Schema:
    """Return the schema of a section: the keys of the class that it names, or of all classes in a grid of names."""
    label = {"label": _or_grid({"type": "string"})} if chooser == "name" else {}
    alternatives, names, shared = [], [], dict[str, list[Schema]]()
    for cls in classes:
        name, keys = getattr(cls, chooser), _keys(cls)
        required = [key for key, schema in keys.items() if "default" not in schema]
        first_line = (cls.__doc__ or "").strip().partition("\n")[0]
        named = {chooser: {"const": name, "description": first_line}}
        alternatives.append({**_object({**named, **keys, **label}), "required": [chooser, *required]})
        names += [] if name in names else [name]
        for key, schema in keys.items():
            shared.setdefault(key, []).append(schema)
    mixed = {chooser: _grid({"enum": names}), **{key: _any(schemas) for key, schemas in shared.items()}, **label}
    return _any([*alternatives, {**_object(mixed), "required": [chooser]}])


def _keys(cls: type[Any]) -> Schema:
    """Return the schemas of the values, or grids of values, that the fields of a dataclass may have."""
    hints, found = typing.get_type_hints(cls), dict[str, Schema]()
    for field in dataclasses.fields(cls):
        if field.init:
            names = choices(cls, field.name, hints[field.name])
            schema = _or_grid({"enum": names} if names else TypeAdapter(hints[field.name]).json_schema())
            default = {} if field.default is dataclasses.MISSING else {"default": field.default}
            found[field.name] = {**schema, **default}
    return found


def _object(properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _grid(schema: Schema) -> Schema:
    return {**_object({GRID: {"type": "array", "minItems": 1, "items": schema}}), "required": [GRID]}


def _or_grid(schema: Schema) -> Schema:
    """Return the schema of a value, or of a grid of values, which may hold grids in turn."""
    return _any([schema, _grid(_any([schema, _grid({})]))])


def _any(schemas: Iterable[Schema]) -> Schema:
    distinct: list[Schema] = []
    for schema in schemas:
        distinct += [] if schema in distinct else [schema]
    return distinct[0] if len(distinct) == 1 else {"anyOf": distinct}
