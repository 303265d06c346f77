"""Texts of a cell by its row of the summary."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from dprl.platform.configs.experiment import NEEDS_ITS_NAME
from dprl.platform.configs.varying import needed_keys
from dprl.platform.reports.number_texts import episode_reached

Row = Mapping[str, Any]
Settings = tuple[tuple[str, str], ...]
"""Some settings of a cell with their values, for comparisons of cells."""
EPISODES = "episodes"
PRIVACY = ("privacy.model", "privacy.epsilon", "privacy.delta")
NAMED = ("algorithm.name", *PRIVACY)
"""Settings that are part of every cell's name in other words."""
NOISE = ("privacy.", "noise.")
"""Sections with the settings of the noise."""
ENV_NAME, _ENV_ID = "env.name", "env.env_id"
DIGESTS = {"env.table", "env.source"}
"""Settings that follow from an environment's id and arguments, unless its code has changed."""
ENV_NAMING = {ENV_NAME, _ENV_ID, *DIGESTS}
"""Settings of an environment that its name in reports contains, or that follow from it."""
SIZES = {"env.horizon": "H", "env.n_states": "S", "env.n_actions": "A", EPISODES: "K"}
"""Symbols of sizes."""


def rows_of(summary: pd.DataFrame) -> list[Row]:
    """Return the rows as mappings without missing values."""
    return [{str(key): value for key, value in row.items() if pd.notna(value)} for row in summary.to_dict("records")]


def settings_in(row: Row, keys: Iterable[str]) -> Settings:
    """Return those of the settings `keys` that the row has, in this order."""
    return tuple((key, plain(row[key])) for key in keys if key in row)


def algorithm_name(cell: Row) -> str:
    """Return the config's label of the cell's algorithm, by default its name."""
    return str(cell.get("algorithm_label") or cell["algorithm.name"])


def environment_name(cell: Row) -> str:
    """Return the name of the cell's environment: its id in Gymnasium, or its name here."""
    return str(cell.get(_ENV_ID) or cell[ENV_NAME])


def environment_keys(cells: Sequence[Row], besides: str = "") -> list[str]:
    """Return the settings that distinguish the cells' environments and lengths: sizes that differ, and others needed.

    besides: a setting to leave out.
    """
    every = dict.fromkeys(key for cell in cells for key in cell if key.startswith("env.") or key == "episodes")
    keys = [key for key in every if key != besides and len({plain(cell.get(key)) for cell in cells}) > 1]
    always = [key for key in keys if key in {ENV_NAME, _ENV_ID, *SIZES}]
    others = sorted((key for key in keys if key not in always), key=lambda key: key in DIGESTS)
    needed = {*always, *needed_keys(cells, others, always)}
    return [key for key in keys if key in needed]


def environment_text(cell: Row, keys: Sequence[str], word: Callable[[str, Any], str]) -> str:
    """Return the settings `keys` of a cell's environment, each by `word`; the name comes first."""
    names = [environment_name(cell)] if {ENV_NAME, _ENV_ID} & {*keys} else []
    shown = [key for key in keys if key not in {ENV_NAME, _ENV_ID} and cell.get(key, "") != ""]
    return ", ".join([*names, *(word(key, cell[key]) for key in shown)])


def shared_settings(cells: Sequence[Row]) -> list[str]:
    """Return, as words, every setting that all `cells` share."""
    first = cells[0]
    agreed = [key for key in first if "." in key and all(key in cell and cell[key] == first[key] for cell in cells)]
    return [f"{key.removesuffix('.name').rpartition('.')[2]}={plain(first[key])}" for key in agreed]


def median_text(cell: Row, column: str) -> str:
    """Return a median episode with its interval; numbers beyond a run of K episodes are '>K', and alone if all are.

    '' if the cell's algorithm does not report it.
    """
    if column not in cell:
        return ""
    episodes, names = int(cell["episodes"]), [f"{column}{end}" for end in ("", "_lower", "_upper")]
    median, *ends = (episode_reached(cell[name], episodes, ",") for name in names if name in cell)
    return median if {*ends} <= {f">{episodes:,}"} else f"{median} [{', '.join(ends)}]"


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
    """Return a setting as a few words for labels and names: 'privunit', 'epsilon 10', 'lazy', 'lazy false'."""
    name = key.rpartition(".")[2].replace("_", " ")
    if isinstance(value, bool):
        return name if value else f"{name} false"
    if isinstance(value, str):
        return value if key not in NEEDS_ITS_NAME else f"{name} {value}"
    return f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
