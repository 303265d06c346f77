"""Trust models that an algorithm supports: those of its users' releases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dprl.algorithms import ALGORITHMS
from dprl.platform.configs.sections import field_names
from dprl.platform.errors import broken_rule
from dprl.privacy import TRUST_MODELS

COUNTS = "counts"
_EXAMPLES = {
    "counts": "privacy: {model: jdp, epsilon: 1.0}, or {model: none} if no privacy is meant",
    "gradients": "privacy: {model: ldp, epsilon: 5.0, mechanism: privunit}, or {model: none} if no privacy is meant",
    "statistics": "privacy: {model: ldp, epsilon: 1.0, mechanism: gram_laplace}, or {model: none} if none is meant",
}


def example_for(releases: str) -> str:
    """Return example privacy settings for an error message."""
    return _EXAMPLES[releases]


def check_model(section: object, algorithm: str, releases: str) -> None:
    """Raise UserError if a privacy section is for algorithms with other releases."""
    ours, place = TRUST_MODELS[releases], "privacy.model"
    if not isinstance(section, dict):
        return
    model, at = section.get("model"), f"with algorithm {algorithm}, whose users release {releases}"
    others = {kind: models for kind, models in TRUST_MODELS.items() if kind != releases}
    if isinstance(model, str) and model not in ours and any(model in models for models in others.values()):
        remedy = "choose one of them, or another algorithm"
        raise broken_rule(place, f"must be one of {', '.join(sorted(ours))} {at}", model, remedy)
    own = {key for cls in ours.values() for key in field_names(cls)} | {"model"}
    for key, value in section.items():
        if key not in own and any(key in field_names(cls) for models in others.values() for cls in models.values()):
            raise broken_rule(f"privacy.{key}", f"does not belong {at}", value, "remove it")


def class_of(flat: Mapping[str, Any]) -> tuple[str, object]:
    """Return the trust model's class for the dotted settings of a cell: its releases, by default counts, and model."""
    config = ALGORITHMS.get(str(flat.get("algorithm.name")))
    return config.releases if config is not None else COUNTS, flat.get("privacy.model")
