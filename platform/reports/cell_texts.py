"""Texts of a cell by its row of the summary."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from dprl.platform.configs.experiment import NEEDS_ITS_NAME
from dprl.platform.configs.varying import varies
from dprl.platform.reports.tables import episode_reached
from dprl.platform.reports.verdicts import number

Row = Mapping[str, Any]
Scales = tuple[tuple[str, float], ...]
_TRUST = {"jdp": "central", "shuffle": "shuffle", "ldp": "local"}

# Settings with a column of their own, or shown as a heading.
_SHOWN = ("algorithm.name", "privacy.model", "privacy.epsilon", "privacy.delta")


def rows_of(summary: pd.DataFrame) -> list[Row]:
    """Return the rows as mappings without missing values."""
    return [{str(key): value for key, value in row.items() if pd.notna(value)} for row in summary.to_dict("records")]


def trust_word(model: str) -> str:
    """Return a trust model in a word, e.g. 'central'."""
    return _TRUST.get(model, model)


def algorithm_name(cell: Row) -> str:
    """Return the config's label of the cell's algorithm, by default its name."""
    return str(cell.get("algorithm_label") or cell["algorithm.name"])


def by_environment(cells: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the cells by environment; keys describe it."""
    found: dict[str, list[Row]] = {}
    for cell in cells:
        settings = [f"{key[4:]}={plain(cell[key])}" for key in cell if key.startswith("env.") and key != "env.name"]
        found.setdefault(f"{cell['env.name']} ({', '.join(settings)})", []).append(cell)
    return found


def scales(cell: Row) -> Scales:
    """Return the scales of the algorithm's constants, by name."""
    keys = [key for key in cell if key.startswith("algorithm.") and key.endswith("_scale")]
    return tuple((key.removeprefix("algorithm."), float(cell[key])) for key in keys)


def scales_text(found: Scales) -> str:
    """Return 'scales 0.03' where all agree, else each with its name."""
    values = {value for _, value in found}
    if len(values) == 1:
        return f"scales {values.pop():g}"
    return ", ".join(f"{name} {value:g}" for name, value in found) or "no scales"


def varying_settings(cells: Sequence[Row]) -> list[str]:
    """Return the settings in which `cells` of one environment differ, without scales and those with own columns."""
    return [key for key in _settings(cells) if varies(key, cells)]


def shared_settings(cells: Sequence[Row]) -> list[str]:
    """Return, as words, every setting that all `cells` share."""
    first = cells[0]
    agreed = [key for key in first if "." in key and all(key in cell and cell[key] == first[key] for cell in cells)]
    return [f"{key.rpartition('.')[2]}={plain(first[key])}" for key in agreed]


def _settings(cells: Sequence[Row]) -> list[str]:
    keys = dict.fromkeys(key for cell in cells for key in cell)
    known = [key for key in keys if key.startswith(("algorithm.", "privacy.", "noise.")) and key not in _SHOWN]
    return [key for key in known if not key.endswith("_scale")]


def settings_text(cell: Row, keys: Sequence[str], sections: tuple[str, ...]) -> str:
    """Return the cell's values of those `keys` that lie in `sections`."""
    return " ".join(setting_text(key, cell[key]) for key in keys if key.startswith(sections) and key in cell)


def epsilon_text(cell: Row) -> str:
    """Return the proved epsilon; if it is infinite, with the claimed one to distinguish cells."""
    if math.isfinite(cell["proved_epsilon"]):
        return number(cell["proved_epsilon"])
    return "\u221e" + (f" (claimed {number(cell['claimed_epsilon'])})" if "claimed_epsilon" in cell else "")


def delta_text(cell: Row) -> str:
    """Return the claimed delta, empty where nothing is claimed."""
    return f"{float(cell.get('claimed_delta', 0.0)):g}" if cell["privacy.model"] != "none" else ""


def median_text(cell: Row, column: str) -> str:
    """Return a median episode with its interval; numbers beyond a run of K episodes are '>K', and alone if all are.

    '' if the cell's algorithm does not report it.
    """
    if column not in cell:
        return ""
    episodes, names = int(cell["episodes"]), [f"{column}{end}" for end in ("", "_lower", "_upper")]
    median, *ends = (episode_reached(cell[name], episodes) for name in names if name in cell)
    return median if {*ends} <= {f">{episodes}"} else f"{median} [{', '.join(ends)}]"


def plain(value: object) -> str:
    """Return a value in at most ten digits, without the '.0' that pandas adds to whole numbers in columns with gaps."""
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else f"{value:.10g}"
    return str(value)


def setting_text(key: str, value: object) -> str:
    """Return a setting as a short text, without its name if the value alone is clear."""
    alone = isinstance(value, str) and key not in NEEDS_ITS_NAME
    return str(value) if alone else f"{key.rpartition('.')[2]}={plain(value)}"


def short_setting(key: str, value: object) -> str:
    """Return a setting as a few words for labels and names: 'privunit', 'epsilon 10', 'buffer size 100'."""
    name = key.rpartition(".")[2].replace("_", " ")
    if isinstance(value, bool):
        return name if value else f"no {name}"
    if isinstance(value, str):
        return value if key not in NEEDS_ITS_NAME else f"{name} {value}"
    return f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
