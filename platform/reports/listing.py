"""What `dprl list` shows: the registries and the configs that come with the project."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dprl.algorithms import ALGORITHMS
from dprl.envs import ENVIRONMENTS
from dprl.platform.configs.config import config_files, load_cells
from dprl.platform.errors import UserError
from dprl.privacy import COUNTERS, MECHANISMS, TRUST_MODELS

Entry = dict[str, Any]


def listing(kind: str | None = None) -> dict[str, list[Entry]]:
    """Return what a config can name: algorithms, envs, mechanisms (also trust models, counters), configs."""
    kinds: dict[str, Callable[[], list[Entry]]] = {
        "algorithms": lambda: _registered(ALGORITHMS),
        "envs": lambda: _registered(ENVIRONMENTS),
        "mechanisms": lambda: [
            *_registered(TRUST_MODELS, "trust model"),
            *_registered(COUNTERS, "counter"),
            *_registered(MECHANISMS, "mechanism"),
        ],
        "configs": lambda: [_config(name, path) for name, path in config_files().items()],
    }
    return {name: entries() for name, entries in kinds.items() if kind in (None, name)}


def _registered(registry: Mapping[str, type[Any]], role: str = "") -> list[Entry]:
    found = []
    for name, cls in registry.items():
        description = (cls.__doc__ or "").strip().split("\n", 1)[0]
        entry: Entry = {"name": name, "description": f"{role}: {description}" if role else description}
        # Counters and mechanisms are sized by their trust model: a config names them and sets nothing.
        if role not in ("counter", "mechanism"):
            entry["settings"] = ", ".join(_setting(field) for field in dataclasses.fields(cls))
        found.append(entry)
    return found


def _setting(field: dataclasses.Field[Any]) -> str:
    required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    return f"{field.name} (required)" if required else f"{field.name}={field.default}"


def _config(name: str, path: Path) -> Entry:
    """Return the config's leading comment and its number of cells; a broken one is listed with its error."""
    first = path.read_text(encoding="utf-8", errors="replace").split("\n", 1)[0]
    description = first.lstrip("# ").strip() if first.startswith("#") else ""
    try:
        cells = len(load_cells(path))
    except UserError as error:
        return {"name": name, "description": f"cannot be read: {error}", "path": str(path)}
    return {"name": name, "description": description, "cells": cells, "path": str(path)}


def listing_text(kinds: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Return what a config can name, kind by kind."""
    blocks = []
    for kind, entries in kinds.items():
        width = max((len(entry["name"]) for entry in entries), default=0)
        lines = [kind]
        for entry in entries:
            lines.append(f"  {entry['name']:<{width}}  {entry['description']}".rstrip())
            details = [entry[key] for key in ("settings", "path") if entry.get(key)]
            lines += [f"  {'':<{width}}  {detail}" for detail in details]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)
