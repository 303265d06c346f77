"""Sections of a config: pydantic checks keys, types and names, and the packages' own dataclasses check ranges."""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Container, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, create_model

from dprl.platform.errors import UserError, broken_rule, dotted, fits_into_text, nearest, suggestion
from dprl.privacy import PRIVACY_SETTINGS

T = TypeVar("T")

GYMNASIUM_ID = re.compile(r"^[\w:./-]*-v\d+$")
COUNTS = "counts"
EXAMPLES = {
    "algorithm": "algorithm: {name: private_ucb_vi}",
    "env": "env: {name: riverswim, n_states: 6, horizon: 20}",
    "privacy": "privacy: {model: ldp, epsilon: 1.0}, or {model: none} if no privacy is meant",
    "noise": "noise: {arithmetic: exact, entropy: os}",
}
_TYPE_NAMES: dict[object, str] = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
_REMEDIES: dict[object, str] = {int: "write a plain whole number", float: "write a plain number"}
_REMEDIES |= {str: "put it in quotes", bool: "write true or false"}


def _whole(value: object) -> object:
    """Return 1e5 as the whole number that it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


_Whole = Annotated[int, BeforeValidator(_whole)]
_STRICT = ConfigDict(
    strict=True, extra="forbid", allow_inf_nan=False, arbitrary_types_allowed=True, protected_namespaces=()
)


class Keys:
    """Keys of a section: their types, by name, and those that must be given."""

    def __init__(self, hints: Mapping[str, Any], required: Iterable[str]) -> None:
        self.hints, self.required = dict(hints), set(required)
        whole = {int: _Whole, int | None: _Whole | None}
        fields: dict[str, Any] = {
            name: (whole.get(hint, hint), ... if name in self.required else None) for name, hint in self.hints.items()
        }
        self._model: type[BaseModel] = create_model("Section", __config__=_STRICT, **fields)

    def check(self, section: Mapping[str, Any], path: str) -> dict[str, Any]:
        """Return the section with every value of its type. Raises UserError for the first mistake."""
        try:
            valid = self._model.model_validate(dict(section))
            return {key: getattr(valid, key) for key in section}
        except ValidationError as error:
            found = min(error.errors(), key=lambda each: each["type"] != "extra_forbidden")
        key = str(found["loc"][0])
        place, hint, value = dotted(path, key), self.hints.get(key), section.get(key)
        if found["type"] == "extra_forbidden":
            raise UserError(f"{place}: unknown key; {suggestion(key, list(self.hints))}")
        if found["type"] == "missing":
            rule = f"{place}: is required"
            raise UserError(f"{rule}, got nothing; add {EXAMPLES.get(place, f'{key}: <{describe_type(hint)}>')}")
        what, names = describe_type(hint), choices(hint)
        remedy = _REMEDIES.get(hint, "choose one of them" if names else "correct or remove it")
        if close := nearest(value, names):
            remedy = f"did you mean {close!r}?"
        if found["type"] == "finite_number":
            what = f"{what} that is finite"
        elif isinstance(value, list | dict) and value:
            remedy = "for several values write {grid_search: [...]}" if key != "seeds" else "write the number of seeds"
        raise broken_rule(place, f"must be {what}", value, remedy) from None


@cache  # pydantic takes a millisecond for a class
def keys_of(cls: Any, *more: str) -> Keys:  # noqa: ANN401 - a dataclass
    """Return the keys of a section that describes `cls`, and `more` keys of text."""
    hints, fields = typing.get_type_hints(cls), [field for field in dataclasses.fields(cls) if field.init]
    required = [each.name for each in fields if each.default is each.default_factory is dataclasses.MISSING]
    return Keys({field.name: hints[field.name] for field in fields} | dict.fromkeys(more, str), required)


@cache
def _privacy_keys(releases: str, model: str) -> Keys:
    """Return the keys of a trust model for a kind of releases."""
    kind = PRIVACY_SETTINGS[releases]
    hints = typing.get_type_hints(kind)
    names = {key: Literal[tuple(listed)] for key, listed in kind.choices(model).items()}
    return Keys({key: hints[key] for key in kind.keys(model)} | names, {"epsilon"} & set(kind.keys(model)))


def read_registered(value: object, path: str, registry: Mapping[str, type[T]], *more: str) -> tuple[T, dict[str, Any]]:
    """Return the settings that section `value` describes, a class of `registry`, and the values of `more` keys of text.

    Raises UserError.
    """
    name: Any = value.get("name") if isinstance(value, dict) else value
    if isinstance(name, str) and path == "env" and GYMNASIUM_ID.search(name):
        remedy = f"write env: {{name: gymnasium, env_id: {name}}}, or name: control if it has no table of transitions"
        raise broken_rule("env", "must have a registered name, not an id of Gymnasium", name, remedy)
    section = require_mapping(value, path)
    if isinstance(name, str) and name not in registry and name.isidentifier() and Path(f"{name}.py").is_file():
        remedy = f"load {name}.py, which is here, by DPRL_PLUGINS={name}"
        raise broken_rule(f"{path}.name", "must be a registered name", name, remedy)
    options = {each: keys_of(cls, *more) for each, cls in sorted(registry.items())}  # type: ignore[arg-type]
    found = _chosen(section, path, "name", options)
    others = {key: found.pop(key) for key in more if key in found}
    return made(registry[found.pop("name")], found, path), others


def read_privacy(value: object, releases: str) -> Any:  # noqa: ANN401 - a kind of settings
    """Return the settings that a config's section `privacy` describes, for a kind of releases. Raises UserError."""
    section, kind = require_mapping(value, "privacy"), PRIVACY_SETTINGS[releases]
    options = {model: _privacy_keys(releases, model) for model in sorted(kind.KEYS)}
    return made(kind, _chosen(section, "privacy", "model", options, f" for {releases}"), "privacy")


def _chosen(
    section: dict[str, Any], path: str, chooser: str, options: Mapping[str, Keys], of: str = ""
) -> dict[str, Any]:
    """Return a section with every value of its type; its key `chooser` selects the keys that it may have."""
    if chooser not in section:
        raise UserError(f"{path}.{chooser}: is required, got nothing; {suggestion('', list(options))}")
    name = section[chooser]
    if not isinstance(name, str) or name not in options:
        rule = f"must be a registered {chooser}{of}"
        raise broken_rule(f"{path}.{chooser}", rule, name, suggestion(name, list(options)))
    own = {key: setting for key, setting in section.items() if key != chooser}
    for key, setting in own.items():
        owners = [other for other, keys in options.items() if key in keys.hints]
        if owners and name not in owners:
            remedy = f"remove it, or choose {chooser}: {' or '.join(owners)}"
            raise broken_rule(f"{path}.{key}", f"does not belong to {chooser} {name}", setting, remedy)
    return {chooser: name, **options[name].check(own, path)}


def made(cls: type[T], values: Mapping[str, Any], path: str) -> T:
    """Return cls(**values). Raises UserError, placed at its section, for values that the class refuses."""
    try:
        return cls(**values)
    except ValueError as error:
        raise at_key(error, path, values) from None


def at_key(error: ValueError, path: str, keys: Container[str]) -> UserError:
    """Return the error of a class whose settings are section `path`; by convention its text begins with the key."""
    key, _, rule = str(error).partition(" ")
    key = key.rstrip(":")
    return UserError(f"{dotted(path, key)}: {rule}" if key in keys else f"{path or 'config'}: {error}")


def require_mapping(value: object, path: str) -> dict[str, Any]:
    """Return `value` if it is a mapping with text keys, none of an earlier version. Raises UserError."""
    if not isinstance(value, dict):
        remedy = f"write e.g. {EXAMPLES.get(path, EXAMPLES['env'])}"
        raise broken_rule(path or "config", "must be a mapping", value, remedy)
    for key, setting in value.items():
        if not isinstance(key, str) or not fits_into_text(key):
            raise broken_rule(path or "config", "must have text keys", key, "quote it or remove it")
        if ":" in key and setting is None:
            remedy = f"write {key.replace(':', ': ', 1)}"
            raise broken_rule(path or "config", "must have a space after every colon", key, remedy)
        place = dotted(path, key)
        if instead := REMOVED.get(place) or REMOVED.get(f"{place}={setting}"):
            raise broken_rule(place, "is no longer supported", setting, instead)
    return value


def describe_type(hint: object) -> str:
    """Return the description of a value of type `hint` for a message."""
    if hint in _TYPE_NAMES:
        return _TYPE_NAMES[hint]
    if names := choices(hint):
        return f"one of {', '.join(names)}"
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return " or ".join("null" if part is type(None) else describe_type(part) for part in typing.get_args(hint))
    return str(hint).replace("typing.", "")


def choices(hint: object) -> list[str]:
    """Return the names that a value of type `hint` may have; none if it is a number or free text."""
    return [str(name) for name in typing.get_args(hint)] if typing.get_origin(hint) is Literal else []


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
    "privacy.counter=honaker": "write counter: buffered_toeplitz",
    "privacy.counter=square_root": "write counter: buffered_toeplitz",
    "privacy.counter=normalized_square_root": "write counter: buffered_toeplitz",
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
