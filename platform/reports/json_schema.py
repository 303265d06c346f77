"""JSON schema of config files, for editors: made from the registries, so plugins are in it."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dprl.platform.configs.experiment import Experiment
from dprl.platform.configs.grid import GRID
from dprl.platform.configs.sections import describe_type
from dprl.platform.reports.listing import listing
from dprl.privacy import NoiseConfig

Schema = dict[str, Any]

_TYPES: dict[str, Schema] = {
    "a whole number": {"type": "number", "multipleOf": 1},
    "a number": {"type": "number"},
    "text": {"type": "string"},
    "true or false": {"type": "boolean"},
    "null": {"type": "null"},
}
_LISTS = {"algorithm": ("algorithms", "name"), "env": ("envs", "name"), "privacy": ("trust_models", "model")}


def config_schema() -> Schema:
    """Return the schema, draft 2020-12, of names, keys, types and grids; `dprl certify` checks ranges."""
    definitions = {_place(words): _grid_or(schema) for words, schema in _TYPES.items()}
    for section, place in _LISTS.items():
        definitions[f"one_{section}"] = _section(*place)
        definitions[section] = _grid_or({"$ref": f"#/$defs/one_{section}"})
    hints = typing.get_type_hints(Experiment)
    keys: Schema = {section: {"$ref": f"#/$defs/{section}"} for section in _LISTS}
    for field in dataclasses.fields(Experiment):
        if field.name == "noise":
            keys["noise"] = _grid_or(_object(_keys_of(NoiseConfig)))
        elif field.name not in keys and field.name != "algorithm_label":
            keys[field.name] = _typed(describe_type(hints[field.name]), ())
    part = {"type": "object", "properties": keys, "additionalProperties": False}
    keys[GRID] = {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/part"}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "dprl config",
        "$ref": "#/$defs/part",
        "$defs": {**definitions, "part": part},
    }


def _section(kind: str, chooser: str) -> Schema:
    """Return the schema of a section: the keys of the name that it picks, or of all names that a grid picks from."""
    entries = listing(kind)[kind]
    alternatives, shared = [], dict[str, list[Schema]]()
    for entry in entries:
        keys = {key["key"]: _key(key) for key in entry["keys"]}
        required = [chooser, *(key["key"] for key in entry["keys"] if "default" not in key)]
        named = {chooser: {"const": entry["name"], "description": entry["description"]}}
        alternatives.append({**_object({**named, **keys, **_label(chooser)}), "required": required})
        for name, schema in keys.items():
            shared.setdefault(name, []).append(schema)
    names = list(dict.fromkeys(entry["name"] for entry in entries))
    grid = {chooser: _grid({"enum": names}), **{name: _any(schemas) for name, schemas in shared.items()}}
    mixed = {**_object({**grid, **_label(chooser)}), "required": [chooser]}
    return _any([*alternatives, mixed])


def _label(chooser: str) -> Schema:
    return {"label": _typed("text", ())} if chooser == "name" else {}


def _key(key: Mapping[str, Any]) -> Schema:
    found = _typed(key["type"], key.get("choices", ()))
    return {**found, "default": key["default"]} if "default" in key else found


def _keys_of(cls: type[Any]) -> Schema:
    hints = typing.get_type_hints(cls)
    return {field.name: _typed(describe_type(hints[field.name]), ()) for field in dataclasses.fields(cls)}


def _typed(words: str, choices: Sequence[str]) -> Schema:
    """Return the schema of a value that `describe_type` has described, or of a grid of such values."""
    if choices:
        return _grid_or({"enum": list(choices)})
    if words.startswith("one of "):
        return _grid_or({"enum": words.removeprefix("one of ").split(", ")})
    parts = words.split(" or ") if words not in _TYPES else [words]
    return _any([{"$ref": f"#/$defs/{_place(part)}"} if part in _TYPES else {} for part in parts])


def _place(words: str) -> str:
    """Return a name that an address may have."""
    return words.replace(" ", "_")


def _object(properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _grid(schema: Schema) -> Schema:
    return {**_object({GRID: {"type": "array", "minItems": 1, "items": schema}}), "required": [GRID]}


def _grid_or(schema: Schema) -> Schema:
    """Return the schema of a value, or of a grid of values, which may hold grids in turn."""
    return _any([schema, _grid(_any([schema, _grid({})]))])


def _any(schemas: Iterable[Schema]) -> Schema:
    distinct: list[Schema] = []
    for schema in schemas:
        distinct += [] if schema in distinct else [schema]
    return distinct[0] if len(distinct) == 1 else {"anyOf": distinct}
