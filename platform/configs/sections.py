"""Reader of mappings into frozen dataclasses: checks names and types; the dataclasses check ranges."""

from __future__ import annotations

import dataclasses
import math
import re
import types
import typing
from collections.abc import Hashable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import ConfigDict, TypeAdapter, ValidationError

from dprl.platform.errors import UserError, broken_rule, dotted, nearest, shown, suggestion
from dprl.privacy import PRIVACY_SETTINGS

T = TypeVar("T")

_TYPE_NAMES: dict[object, str] = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
GYMNASIUM_ID = re.compile(r"^[\w:./-]*-v\d+$")
_LIST_OF_NAMES = re.compile(r"must be one of (?P<names>[^;]*?), got")
COUNTS = "counts"
EXAMPLES = {
    "counts": "privacy: {model: jdp, epsilon: 1.0}, or {model: none} if no privacy is meant",
    "gradients": "privacy: {model: ldp, epsilon: 5.0, mechanism: privunit}, or {model: none} if no privacy is meant",
    "statistics": "privacy: {model: ldp, epsilon: 1.0, mechanism: gram_laplace}, or {model: none} if none is meant",
}


def require_mapping(value: object, path: str, example: str) -> dict[str, Any]:
    """Return `value` if it is a mapping with text keys. Raises UserError."""
    if not isinstance(value, dict):
        raise broken_rule(path, "must be a mapping", value, f"write e.g. {example}")
    for key in value:
        if not isinstance(key, str):
            raise broken_rule(path, "must have text keys", key, "quote it or remove it")
        if ":" in key and value[key] is None:
            raise broken_rule(path, "must have a space after every colon", key, f"write {key.replace(':', ': ', 1)}")
    return value


def read_registered(value: object, path: str, key: str, registry: Mapping[str, type[Any]]) -> object:
    """Return the settings that section `value` describes: a class of `registry`, chosen by `key`. Raises UserError."""
    names = sorted(registry)
    given, where = (value[key], f"{path}.{key}") if isinstance(value, dict) and key in value else (value, path)
    if path == "env" and isinstance(given, str) and GYMNASIUM_ID.search(given):
        remedy = f"write env: {{name: gymnasium, env_id: {given}}}, or name: control if it has no table of transitions"
        raise broken_rule(where, "must be a registered name, not an id of Gymnasium", given, remedy)
    if isinstance(value, dict):
        refuse_removed(value, path)
    example = f"{path}: {{{key}: <name>}}, where the name is one of {', '.join(names)}"
    section = dict(require_mapping(value, path, example))
    if key not in section:
        raise UserError(f"{path}.{key}: is required, got nothing; {suggestion('', names)}")
    chosen = section.pop(key)
    if not isinstance(chosen, str) or chosen not in registry:
        remedy = suggestion(chosen, names)
        if isinstance(chosen, str) and chosen.isidentifier() and Path(f"{chosen}.py").is_file():
            remedy = f"load {chosen}.py, which is here, by DPRL_PLUGINS={chosen}, or {remedy}"
        raise broken_rule(f"{path}.{key}", "must be a registered name", chosen, remedy)
    valid = field_names(registry[chosen])
    for name, setting in section.items():
        if name in valid:
            continue
        owners = sorted(other for other, other_cls in registry.items() if name in field_names(other_cls))
        if owners:
            remedy = f"remove it, or choose {key}: {' or '.join(owners)}"
            raise broken_rule(f"{path}.{name}", f"does not belong to {key} {chosen}", setting, remedy)
    return read_dataclass(section, path, registry[chosen], implied=(key,))


def read_privacy(value: object, releases: str, algorithm: str = "") -> Any:  # noqa: ANN401 - a kind of settings
    """Return the settings that a config's section `privacy` describes, for a kind of releases. Raises UserError."""
    kind, names = PRIVACY_SETTINGS[releases], sorted(PRIVACY_SETTINGS[releases].KEYS)
    others = [other for other in PRIVACY_SETTINGS.values() if other is not kind]
    at = f"with algorithm {algorithm}, whose users release {releases}"
    if isinstance(value, dict):
        refuse_removed(value, "privacy")
    example = f"privacy: {{model: <name>}}, where the name is one of {', '.join(names)}"
    section = require_mapping(value, "privacy", example)
    if "model" not in section:
        raise UserError(f"privacy.model: is required, got nothing; {suggestion('', names)}")
    model = section["model"]
    if not isinstance(model, str) or model not in names:
        if isinstance(model, str) and any(model in other.KEYS for other in others):
            remedy = "choose one of them, or another algorithm"
            raise broken_rule("privacy.model", f"must be one of {', '.join(names)} {at}", model, remedy)
        raise broken_rule("privacy.model", "must be a registered name", model, suggestion(model, names))
    own, choices = kind.keys(model), kind.choices(model)
    for key, setting in section.items():
        if key in choices and not isinstance(setting, list | dict) and setting not in choices[key]:
            close = nearest(setting, choices[key])
            remedy = f"did you mean {close!r}?" if close else "choose one of them"
            raise broken_rule(f"privacy.{key}", f"must be one of {', '.join(choices[key])}", setting, remedy)
        if key in own or key == "model":
            continue
        owners = [name for name in names if key in kind.keys(name)]
        if owners:
            remedy = "remove it" if model == "shuffle" else f"remove it, or choose model: {' or '.join(owners)}"
            raise broken_rule(f"privacy.{key}", f"does not belong to model {model}", setting, remedy)
        if any(key in other.keys(name) for other in others for name in other.KEYS):
            raise broken_rule(f"privacy.{key}", f"does not belong {at}", setting, "remove it")
        raise unknown_key(f"privacy.{key}", ["model", *own])
    if "epsilon" in own and "epsilon" not in section:
        raise UserError("privacy.epsilon: is required, got nothing; add epsilon: <a number>")
    return read_dataclass(section, "privacy", kind)


def refuse_removed(section: Mapping[str, Any], path: str) -> None:
    """Raise UserError for a key or a value of an earlier version."""
    for key, value in section.items():
        place = f"{path}.{key}" if path else key
        remedy = REMOVED.get(place) or REMOVED.get(f"{place}={value}")
        if remedy is not None:
            raise broken_rule(place, "is no longer supported", value, remedy)


def read_dataclass(section: Mapping[str, Any], path: str, cls: type[T], implied: tuple[str, ...] = ()) -> T:
    """Return cls(**section), every value's type checked; `implied` keys are valid names read elsewhere.

    Raises UserError on an unknown or missing key, a wrong type, or a value that the class refuses.
    """
    valid = field_names(cls)
    refuse_removed(section, path)
    for name in section:
        if name not in valid:
            raise unknown_key(dotted(path, name), [*implied, *valid])
    hints = _hints(cast("Hashable", cls))
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        if field.init and field.name not in section and field.default is field.default_factory is dataclasses.MISSING:
            what = describe_type(hints[field.name])
            raise UserError(f"{dotted(path, field.name)}: is required, got nothing; add {field.name}: <{what}>")
    places = {name: f"{path}.{name}" if path else name for name in section}
    values = {name: _typed(value, places[name], hints[name], cls) for name, value in section.items()}
    try:
        return cls(**values)
    except ValueError as error:
        raise UserError(placed(str(error), path, section)) from None


@cache  # computing these takes longer than reading a section
def _hints(cls: Hashable) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def unknown_key(path: str, valid: list[str]) -> UserError:
    """Return the error for an unknown key, with the nearest valid name."""
    return UserError(f"{path}: unknown key; {suggestion(path.rpartition('.')[2], valid)}")


def describe_type(hint: object) -> str:
    """Return the description of a value of type `hint` for a message."""
    if hint in _TYPE_NAMES:
        return _TYPE_NAMES[hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return "one of " + ", ".join(str(argument) for argument in arguments)
    if origin in (typing.Union, types.UnionType):
        return " or ".join("null" if part is type(None) else describe_type(part) for part in arguments)
    return str(hint).replace("typing.", "")


def choices(cls: type[Any], key: str, hint: object) -> list[str]:
    """Return the names that `key` of `cls` may have; none if it is a number or free text.

    A type may list them. Otherwise the class does: by convention, it refuses '' with a list of its choices.
    """
    if typing.get_origin(hint) is typing.Literal:
        return [str(name) for name in typing.get_args(hint)]
    if hint is not str or hasattr(cls, "names"):  # names that depend on the trust model
        return []
    required = [
        field.name
        for field in dataclasses.fields(cls)
        if field.init and field.default is field.default_factory is dataclasses.MISSING
    ]
    try:
        cls(**{**dict.fromkeys(required, 1), key: ""})
    except (ValueError, TypeError) as error:  # 1 may be of a wrong type
        listed = _LIST_OF_NAMES.search(str(error))
        return listed["names"].split(", ") if listed else []
    return []


def _typed(value: object, path: str, hint: object, cls: type[Any]) -> object:
    """Return `value` as type `hint`; an integer may be written as 1e5, but a number may not be text."""
    if dataclasses.is_dataclass(value):
        return value
    if isinstance(value, float) and not math.isfinite(value):
        raise broken_rule(path, f"must be {describe_type(hint)} that is finite", value, "give a finite number")
    if hint is int and isinstance(value, float) and value.is_integer():
        value = int(value)
    try:
        adapter: TypeAdapter[object] = TypeAdapter(cast(Any, hint), config=ConfigDict(strict=True))
        return adapter.validate_python(value)
    except ValidationError:
        remedy = {str: "put it in quotes", bool: "write true or false"}.get(hint, "correct or remove it")  # type: ignore[call-overload]
        if path == "seeds" and isinstance(value, list) and value:
            remedy = f"write their number, seeds: {len(value)}" + (f", and seed: {value[0]}" if value[0] else "")
        elif isinstance(value, list) and value:
            remedy = f"for several write {{grid_search: {shown(value)}}}"
        elif names := choices(cls, path.rpartition(".")[2], hint):
            close = nearest(value, names)
            remedy = f"did you mean {close!r}?" if close else "choose one of them"
            raise broken_rule(path, f"must be one of {', '.join(names)}", value, remedy) from None
        elif hint in (int, float):
            remedy = _number_remedy(value)
        raise broken_rule(path, f"must be {describe_type(hint)}", value, remedy) from None


def _number_remedy(value: object) -> str:
    """Return the remedy for a `value` that is not a number or not an integer."""
    if isinstance(value, float):
        low, high = math.floor(value), math.ceil(value)
        return f"write {low} or {high}" if low else f"write {high}"  # many keys do not accept 0
    try:
        number = float(value) if isinstance(value, str) else math.nan
    except ValueError:
        return "write a plain number"
    if isinstance(value, str) and not math.isfinite(number):
        return "give a finite number"
    if isinstance(value, str) and "_" in value:
        return f"write {value.replace('_', '')}"
    return "write it without quotes" if isinstance(value, str) else "write a plain number"


def placed(message: str, path: str, section: Mapping[str, Any]) -> str:
    """Return a package's message with the path of the key concerned and the nearest valid name.

    By convention the message begins with the field's name, and lists choices as 'must be one of a, b, got ...'.
    """
    first = message.partition(" ")[0]
    if first in section:
        path, message = dotted(path, first), message[len(first) :].lstrip()
        listed = _LIST_OF_NAMES.search(message)
        close = nearest(section[first], listed["names"].split(", ")) if listed else None
        if close:
            message = f"{message.partition(';')[0]}; did you mean {close!r}?"
    return f"{path or 'experiment'}: {message}"


def field_names(cls: type[Any]) -> list[str]:
    """Return the keys of a section that describes `cls`."""
    return [field.name for field in dataclasses.fields(cls) if field.init]


REMOVED: dict[str, str] = {
    "algorithm.name=best_ucb_vi": "write bernstein_vi",
    "env.name=pursuit": "take soccer",
    "env.version": "leave it out: the numbers are those of Osband, Russo and Van Roy",
    "env.after_goal": "leave it out: play restarts after a goal",
    "env.name=frozen_lake": "write name: gymnasium, env_id: FrozenLake-v1, horizon: 20",
    "env.env_id=Blackjack-v1": "take FrozenLake-v1, CliffWalking-v1 or Taxi-v3",
    "env.env_id=dprl/AcrobotMasses-v0": "write Acrobot-v1, without masses",
    "algorithm.visits_per_user": "leave it out: all visits are counted",
    "privacy.families=marginal": "write one_hot",
    "privacy.mechanism=symmetric_unary_encoding": "write sampled_optimized_unary_encoding, or auto",
    "privacy.mechanism=sampled_symmetric_unary_encoding": "write sampled_optimized_unary_encoding, or auto",
    "privacy.mechanism=optimized_unary_encoding": "write sampled_optimized_unary_encoding",
    "privacy.mechanism=direct_encoding": "write sampled_direct_encoding",
    **{
        f"privacy.counter={name}": "write counter: buffered_toeplitz"
        for name in ("honaker", "square_root", "normalized_square_root")
    },
    "algorithm.name=ldp_sign_votes": "take ma_ldp, the algorithm on linear mixture MDPs",
    "algorithm.success_memory": "leave it out: bits on scores are no longer sent, and halving lowers the step",
    "algorithm.success_full": "leave it out: bits on scores are no longer sent, and halving lowers the step",
    "privacy.release_scores=private": "write simulator, or none for real users",
    "privacy.score_epsilon": "leave it out: bits on scores are no longer sent",
    "privacy.scaling": "leave it out: the estimate is the paper's; scale the learning rate",
    "privacy.target_score": "leave it out: bits on scores are no longer sent",
    "algorithm.certify_policy": "leave it out: offline_vi gives a lower bound on the value of its policy",
    "algorithm.known_rewards": "leave it out: users count their losses",
    "algorithm.consistency": "leave it out: counts are made consistent where that is proved",
    "algorithm.graph=random_edges": "write complete, ring, star or line",
    "algorithm.graph=gossip": "write complete, ring, star or line",
    "algorithm.edge_probability": "leave it out: graphs are fixed",
    "algorithm.local_epochs": "leave it out: a user sends one gradient",
    "algorithm.local_rate": "leave it out: a user sends one gradient",
    "algorithm.ratio_clip": "leave it out: a user sends one gradient",
    "algorithm.gossip_over": "leave it out: graphs are fixed",
}
"""Remedies by 'section.key', or by 'section.key=value' if only that value is gone."""
