"""Settings that distinguish cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dprl.algorithms import ALGORITHMS
from dprl.platform.configs.sections import COUNTS

_AUTO = "auto"
_GROWTH = "algorithm.replan_growth"


def needed_keys(cells: Sequence[Mapping[str, Any]], keys: Sequence[str], always: Sequence[str]) -> list[str]:
    """Return the `keys` that are needed, besides the settings `always`, to distinguish `cells`; earlier keys first.

    Settings determined by the algorithm or by another setting add nothing.
    """

    def told_apart(known: Sequence[str]) -> int:
        return len({tuple(cell.get(key) for key in (*always, *known)) for cell in cells})

    kept, count = list(keys), told_apart(keys)
    for key in reversed(keys):
        others = [other for other in kept if other != key]
        if told_apart(others) == count:
            kept = others
    return kept


def varies(key: str, flats: Sequence[Mapping[str, Any]]) -> bool:
    """Whether `key` differs; 'auto' in one trust model equals an explicit name in another.

    A key that only some algorithms, environments or trust models have is compared among these.
    """
    values = {flat[key] for flat in flats if key in flat}
    section = key.partition(".")[0]
    by_class: dict[object, set[Any]] = {}
    for flat in flats:
        chosen = flat.get(f"{section}.name") if section in ("algorithm", "env") else _class_of(flat)
        by_class.setdefault(chosen, set()).add(flat.get(key, _AUTO))
    return len(values - {_AUTO}) > 1 or any(len(found) > 1 for found in by_class.values())


def unequal_schedules(flats: Sequence[Mapping[str, Any]]) -> str:
    """Return a remark on algorithms whose counters have different noise because they plan on different schedules.

    flats: dotted settings of a config's cells. '' if there is nothing to remark on.
    """
    growths: dict[str, set[float]] = {}
    for flat in flats:
        counted = flat["privacy.model"] == "jdp" and flat.get("privacy.calibration") != "printed"
        if counted and _GROWTH in flat:
            growths.setdefault(str(flat["algorithm.name"]), set()).add(float(flat[_GROWTH]))
    if len(set(map(frozenset, growths.values()))) < 2:
        return ""
    named = ", ".join(f"{name} {', '.join(f'{g:g}' for g in sorted(found))}" for name, found in growths.items())
    return (
        f"{_GROWTH} differs between algorithms ({named}), and so does their noise under jdp; set the same value to "
        "compare them at equal noise"
    )


def _class_of(flat: Mapping[str, Any]) -> tuple[str, object]:
    """Return the releases, by default counts, and the trust model of a cell's dotted settings."""
    config = ALGORITHMS.get(str(flat.get("algorithm.name")))
    return config.releases if config is not None else COUNTS, flat.get("privacy.model")
