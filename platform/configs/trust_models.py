"""Privacy settings of a config: those of its algorithm's releases, by trust model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dprl.algorithms import ALGORITHMS
from dprl.platform.configs.sections import read_dataclass, refuse_removed, require_mapping, unknown_key
from dprl.platform.errors import UserError, broken_rule, nearest, suggestion
from dprl.privacy import PRIVACY_SETTINGS

COUNTS = "counts"
EXAMPLES = {
    "counts": "privacy: {model: jdp, epsilon: 1.0}, or {model: none} if no privacy is meant",
    "gradients": "privacy: {model: ldp, epsilon: 5.0, mechanism: privunit}, or {model: none} if no privacy is meant",
    "statistics": "privacy: {model: ldp, epsilon: 1.0, mechanism: gram_laplace}, or {model: none} if none is meant",
}


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


def class_of(flat: Mapping[str, Any]) -> tuple[str, object]:
    """Return the releases, by default counts, and the trust model of a cell's dotted settings."""
    config = ALGORITHMS.get(str(flat.get("algorithm.name")))
    return config.releases if config is not None else COUNTS, flat.get("privacy.model")
