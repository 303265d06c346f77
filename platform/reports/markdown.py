"""Finished sweeps as one Markdown page: a table of cells for each environment."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from dprl.platform.configs.experiment import varies
from dprl.platform.reports.tables import VERDICTS, episode_reached
from dprl.platform.reports.verdicts import number

_HEADERS = (
    "algorithm",
    "trust model",
    "proved \u03b5",
    "\u03b4",
    "verdict",
    "constants",
    "halved at [95 %]",
    "seeds halved",
    "K",
    "regret / K [95 %]",
    "seconds",
)
_WITH_TEXT = ("algorithm", "trust model", "verdict", "constants")
_EXPLAINED = """\
`halved at`: episodes until the regret per episode has halved for good, median over seeds with its 95 % interval; >K
where so many seeds have not halved within K episodes. `regret / K`: mean over all episodes, with its 95 % band over
seeds. Constants: `printed` if every scale of the algorithm is 1, else the scales. The epsilon is what the noise proves
at that delta. All definitions: docs/metrics.md."""
# What has a column of its own, or is a heading.
_SHOWN = ("algorithm.name", "privacy.model", "privacy.epsilon", "privacy.delta", "episodes", "seeds")


Cell = Mapping[str, Any]


def page(title: str, summary: pd.DataFrame, made: Sequence[str]) -> str:
    """Return the page.

    summary: rows of `records.summary_row`, with seconds, of one sweep or several. made: lines on how it was made.
    """
    cells = [{str(key): value for key, value in row.items() if pd.notna(value)} for row in summary.to_dict("records")]
    keys = [key for key in map(str, summary.columns) if "." in key and key not in _SHOWN]
    varying = [key for key in keys if not key.endswith("_scale") and varies(key, cells)]
    parts = [f"# {title}", _EXPLAINED, "  \n".join(made)]
    by_environment: dict[str, list[Cell]] = {}
    for cell in sorted(cells, key=_rank):
        by_environment.setdefault(_environment(cell), []).append(cell)
    for environment in dict.fromkeys(map(_environment, cells)):
        rows = [_row(cell, varying) for cell in by_environment[environment]]
        parts += [f"## {environment}", _table(rows)]
    return "\n\n".join(parts) + "\n"


def _rank(cell: Cell) -> tuple[object, ...]:
    """Return what cells are sorted by: who asks for the same stands together, printed constants first."""
    epsilon, delta = (float(cell.get(f"privacy.{key}", 0.0)) for key in ("epsilon", "delta"))
    model = cell["privacy.model"]
    return model != "none", model, epsilon, cell["algorithm.name"], delta, bool(_changed_scales(cell))


def _environment(cell: Cell) -> str:
    settings = [f"{key[4:]}={_plain(cell[key])}" for key in cell if key.startswith("env.") and key != "env.name"]
    return f"{cell['env.name']} ({', '.join(settings)})"


def _changed_scales(cell: Cell) -> list[str]:
    scales = [key for key in cell if key.startswith("algorithm.") and key.endswith("_scale") and cell[key] != 1.0]
    return [f"{key.removeprefix('algorithm.')}={_plain(cell[key])}" for key in scales]


def _row(cell: Cell, varying: Sequence[str]) -> list[str]:
    delta = float(cell.get("claimed_delta", 0.0))
    algorithm = [_setting(key, cell[key]) for key in varying if key.startswith("algorithm.") and key in cell]
    noise = [_setting(key, cell[key]) for key in varying if key.startswith(("privacy.", "noise.")) and key in cell]
    return [
        " ".join([cell["algorithm.name"], *algorithm]),
        " ".join([cell["privacy.model"], *noise]),
        "\u221e" if math.isinf(cell["proved_epsilon"]) else number(cell["proved_epsilon"]),
        f"{delta:g}" if cell["privacy.model"] != "none" else "",
        VERDICTS.get(str(cell["verdict"]), str(cell["verdict"])),
        ", ".join(_changed_scales(cell)) or "printed",
        _halved(cell),
        f"{cell['halved_share']:.0%}",
        _plain(cell["episodes"]),
        _regret(cell),
        f"{cell['seconds']:.1f}",
    ]


def _halved(cell: Cell) -> str:
    """Return the median and its interval, open above where that many seeds have not halved."""
    episodes = int(cell["episodes"])
    ends = [episode_reached(cell[f"halved_at_{end}"], episodes) for end in _ends(cell, "halved_at")]
    return _with_ends(episode_reached(cell["halved_at"], episodes), ends)


def _regret(cell: Cell) -> str:
    ends = [number(cell[f"mean_regret_{end}"]) for end in _ends(cell, "mean_regret")]
    return _with_ends(number(cell["mean_regret"]), ends)


def _ends(cell: Cell, name: str) -> list[str]:
    """Return the ends that the interval has; few seeds have none."""
    return [end for end in ("lower", "upper") if f"{name}_{end}" in cell]


def _with_ends(value: str, ends: Sequence[str]) -> str:
    return f"{value} [{', '.join(ends)}]" if ends else value


def _setting(key: str, value: object) -> str:
    return value if isinstance(value, str) else f"{key.rpartition('.')[2]}={_plain(value)}"


def _plain(value: object) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _table(rows: Sequence[Sequence[str]]) -> str:
    rule = [":--" if header in _WITH_TEXT else "--:" for header in _HEADERS]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (_HEADERS, rule, *rows))
