"""Certificates of planned counts, from users, a horizon and privacy settings, without an experiment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dprl.algorithms.tabular.simulator import families_of_size
from dprl.platform.configs.sections import COUNTS, at_key, read_privacy
from dprl.platform.errors import UserError, broken_rule
from dprl.privacy import Certificate, Streams

_MOST = 10**9
_SIZES = {"users": None, "horizon": None, "states": 2, "actions": 2}
"""Settings that are no privacy settings, with their defaults; None: required."""


def planned_certificate(settings: Mapping[str, Any]) -> Certificate:
    """Return the certificate of counts of transitions, visits and rewards of an MDP, one episode per user.

    settings: `users`, `horizon` H, and optionally `states` and `actions` (2 by default) for the number of cells; the
    others are keys of a config's `privacy`, by default with `model: jdp`.

    Raises UserError.
    """
    sizes = {name: _size(name, settings.get(name, default)) for name, default in _SIZES.items()}
    section = {"model": "jdp"} | {key: value for key, value in settings.items() if key not in _SIZES}
    privacy = read_privacy(section, COUNTS)
    families = families_of_size(sizes["horizon"], sizes["states"], sizes["actions"])
    try:
        built = privacy.build(families, sizes["users"], Streams(0, "planned"))
    except ValueError as error:
        raise at_key(error, "privacy", section) from None
    found: Certificate = built.planned_certificate("planned counts")
    return found


def _size(name: str, value: object) -> int:
    if value is None:
        raise UserError(f"{name}: is required, got nothing; give a whole number from 1 to {_MOST}")
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if type(value) is not int or not 1 <= value <= _MOST:
        raise broken_rule(name, f"must be a whole number from 1 to {_MOST}", value, "choose one in that range")
    return value
