"""Content of `dprl list`: the registries, with the keys of each class, and the configs that come with the project."""

from __future__ import annotations

import dataclasses
import inspect
import textwrap
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dprl.algorithms import ALGORITHMS
from dprl.envs import ENVIRONMENTS
from dprl.platform.configs.config import config_files, read_config
from dprl.platform.configs.experiment import read_experiment
from dprl.platform.configs.grid import expand
from dprl.platform.configs.sections import choices, describe_type
from dprl.platform.errors import UserError
from dprl.platform.program import command
from dprl.platform.reports.templates import text_template
from dprl.privacy import PRIVACY_SETTINGS
from dprl.privacy.counters import COUNTERS
from dprl.privacy.designs.base import AUTO
from dprl.privacy.mechanisms import MECHANISMS
from dprl.privacy.mechanisms.reports import SAMPLED_PREFIX

Entry = dict[str, Any]

_PLACES = {
    "algorithms": "algorithm.name",
    "envs": "env.name",
    "trust_models": "privacy.model",
    "counters": "privacy.counter, if the model has it",
    "mechanisms": "privacy.mechanism, if the model lists it",
    "configs": "CONFIG",
}
"""Keys of configs that name a part, by kind."""
_REGISTRIES: dict[str, Mapping[str, type[Any]]] = {
    "algorithms": ALGORITHMS,
    "envs": ENVIRONMENTS,
    "counters": COUNTERS,
    "mechanisms": MECHANISMS,
}
_TRUST = {
    "none": "No privacy: {} without noise.",
    "jdp": "Joint differential privacy: a trusted server keeps exact {} and releases noisy sums of them.",
    "shuffle": "Shuffle model: users randomize their {}, and a trusted shuffler permutes the reports of each block.",
    "ldp": "Local differential privacy: every user randomizes their {} before they leave.",
}
"""Trust models in a sentence."""
_WITHOUT_KEYS = ("counters", "mechanisms")  # kinds that a config names without settings; their use determines those
_SCREEN = 79


def listing(kind: str | None = None) -> dict[str, list[Entry]]:
    """Return the names for configs, by kind: name, description, and for each class the keys of its section."""
    return {name: [entry for entry, _ in _parts(name)] for name in _PLACES if kind in (None, name)}


def named(name: str) -> dict[str, list[Entry]]:
    """Return the parts with this name, by kind, each with the documentation of its class; {} if there are none."""
    found: dict[str, list[Entry]] = {}
    for kind in _PLACES:
        for entry, cls in _parts(kind):
            if entry["name"] in (name, name.removeprefix(SAMPLED_PREFIX)):
                told = {} if cls is None else {"documentation": _documentation(cls)}
                found.setdefault(kind, []).append(entry | told)
    return found


def _parts(kind: str) -> Iterator[tuple[Entry, type[Any] | None]]:
    """Yield the parts of a kind, each with its class; a config has none."""
    if kind == "configs":
        for name, path in config_files().items():
            first = path.read_text(encoding="utf-8", errors="replace").split("\n", 1)[0]
            told: Entry = {"description": first.lstrip("# ").strip() if first.startswith("#") else ""}
            try:
                points = expand(read_config(path))
                read_experiment(points[0])
                told |= {"cells": len(points)}
            except UserError as error:
                told = {"description": f"cannot be read: {error}"}
            yield {"name": name, **told, "path": str(path)}, None
        return
    if kind == "trust_models":
        for releases, settings in PRIVACY_SETTINGS.items():
            for model in settings.KEYS:
                told = {"name": model, "description": _TRUST[model].format(releases), "releases": releases}
                yield told | {"keys": _privacy_keys(settings, model)}, settings
        return
    for name, cls in _REGISTRIES[kind].items():
        entry = {"name": name, "description": (cls.__doc__ or "").strip().split("\n", 1)[0]}
        yield entry | ({} if kind in _WITHOUT_KEYS else _keys(cls)), cls


def _documentation(cls: type[Any]) -> str:
    """Return the docstring of a class, and from those of its bases the arguments."""
    texts = [inspect.cleandoc(each.__doc__ or "") for each in cls.__mro__ if each is not object]
    arguments = (text.partition("\nArgs:\n")[2].split("\n\n")[0] for text in texts[1:])
    inherited = "\n".join(dict.fromkeys(text for text in arguments if text))
    return texts[0] + (f"\n\nArgs of its bases:\n{inherited}" if inherited else "")


def _keys(cls: type[Any]) -> Entry:
    """Return the keys of a class's section, and its partners."""
    found: Entry = {"plays": cls.plays.kind} if hasattr(cls, "plays") else {}
    found |= {"releases": cls.releases} if hasattr(cls, "releases") else {}
    found |= {"kind": cls.builds.kind} if hasattr(cls, "builds") else {}
    hints = typing.get_type_hints(cls)
    return found | {"keys": [_key(field, hints[field.name]) for field in dataclasses.fields(cls) if field.init]}


def _privacy_keys(settings: type[Any], model: str) -> list[Entry]:
    """Return the keys of privacy settings under a trust model."""
    names, hints = settings.choices(model), typing.get_type_hints(settings)
    keys = []
    for field in (each for each in dataclasses.fields(settings) if each.name in settings.keys(model)):
        found: Entry = {"key": field.name, "type": "text" if field.name in names else describe_type(hints[field.name])}
        found |= {"choices": names[field.name]} if field.name in names else {}
        keys.append(found if field.name == "epsilon" else {**found, "default": field.default})
    return keys


def _key(field: dataclasses.Field[Any], hint: object) -> Entry:
    """Return one key of a section: its name, type, choices if there are few, and default if there is one."""
    names = choices(hint)
    kind: Entry = {"type": "text", "choices": names} if names else {"type": describe_type(hint)}
    return {"key": field.name, **kind, **({} if field.default is dataclasses.MISSING else {"default": field.default})}


def overview_text(kinds: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Return the names of each kind, each name once, and of configs their number: all kinds fit on a screen."""
    width = max(map(len, kinds)) + 2
    lines = []
    mechanisms = (key for entry in kinds["trust_models"] for key in entry["keys"] if key["key"] == "mechanism")
    accepted = dict.fromkeys(name for key in mechanisms for name in key["choices"] if name != AUTO)
    shown = {"mechanisms": accepted, "configs": [f"{len(kinds['configs'])} of them: {command('list', 'configs')}"]}
    for kind, entries in kinds.items():
        names = ", ".join(shown.get(kind, dict.fromkeys(entry["name"] for entry in entries)))
        head = f"{kind:<{width}}"
        lines += textwrap.wrap(names, _SCREEN, initial_indent=head, subsequent_indent=" " * width) or [head.rstrip()]
    told = f"Keys: `{command('list', 'envs')}`; text: `{command('list', 'riverswim')}`"
    lines += textwrap.wrap(told, _SCREEN)
    return "\n".join(lines)


def listing_text(kinds: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Return the names that a config can use, by kind, with all keys; parts that share a name are one entry."""
    together = {}
    for kind, entries in kinds.items():
        names = [entry["name"] for entry in entries]
        together[kind] = sorted(entries, key=lambda entry: names.index(entry["name"]))
    return text_template("listing.txt").render(kinds=together, places=_PLACES).rstrip()
