"""Numbers and words for a group's cells that all tables of a page share."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from dprl.algorithms import Metric
from dprl.platform.configs.varying import varies
from dprl.platform.reports.cell_texts import (
    ENV_NAMING,
    Row,
    environment_keys,
    environment_name,
    environment_text,
    median_text,
    setting_text,
)
from dprl.platform.reports.comparing.groups import Group, naming_keys
from dprl.platform.reports.comparing.report_cells import ReportCell
from dprl.platform.reports.documents.blocks import Rich
from dprl.platform.reports.inference.effects import Estimate
from dprl.platform.reports.number_texts import estimate_text

_WORDS = {"riverswim": "RiverSwim", "cartpole_gravity": "CartPole with gravity"}


IN_CSV = Rich("report.csv.", Markup("<code>report.csv</code>."))
"""File with the rows that a page has no room for."""


def capital(text: str) -> str:
    """Return a text with a capital."""
    return text[:1].upper() + text[1:]


def shown(group: Group, cell: ReportCell) -> Estimate:
    """Return a cell's headline over seeds, per episode if it is a sum."""
    found = cell.estimate
    if group.metric is None or group.metric.over != "sum":
        return found
    value, lower, upper = (x / group.episodes for x in found[:3])
    return Estimate(value, lower, upper, found.scale)


def own_rewards(group: Group, cell: ReportCell) -> list[str]:
    """Return a cell's headline in the environment's own rewards, [] if these are not mapped or it is no reward."""
    metric, row = group.metric, cell.row
    if metric is None or metric.unit != "reward" or "derived_reward_high" not in row:
        return []
    low, high = float(row["derived_reward_low"]), float(row["derived_reward_high"])
    value = shown(group, cell).value * (high - low)
    if metric.better == "high":  # a value, not a difference of two
        value += float(row["env.horizon"]) * low
    return [f"{value:.3g} in own rewards"]


def value_label(group: Group) -> str:
    """Return the name of the number that `shown` returns, e.g. 'Regret per episode'."""
    if group.metric is None:
        return ""
    label = group.metric.label.capitalize()
    return f"{label} per {group.unit}" if group.metric.over == "sum" else label


def result_text(row: Row, metric: Metric) -> str:
    """Return a metric after the last episode with its interval, '' if the cell's algorithm does not report it."""
    if metric.unit == "episodes":
        return median_text(row, metric.name)
    return estimate_text(Estimate.of_row(row, metric.name)) if metric.name in row else ""


def settings_of(group: Group, cell: ReportCell) -> list[str]:
    """Return the settings that distinguish a cell from others of its algorithm, besides privacy."""
    same = [each for each in group.cells if each.row["algorithm.name"] == cell.row["algorithm.name"]]
    return [setting_text(key, cell.row[key]) for key in naming_keys(same) if key in cell.row]


def short_title(group: Group, groups: Sequence[Group]) -> str:
    """Return the settings that distinguish a group of the report, e.g. 'horizon 6', or its title if there are none."""
    rows = [each.cells[0].row for each in groups]
    return environment_text(group.cells[0].row, environment_keys(rows), _setting) or group.title


def environment_words(groups: Sequence[Group]) -> list[str]:
    """Return the settings that all groups share: the environment and its settings, and the number of episodes."""
    rows = [group.cells[0].row for group in groups]
    shared = [key for key in rows[0] if key.startswith("env.") and all(key in row for row in rows)]
    keys = [key for key in shared if key not in ENV_NAMING and not varies(key, rows)]
    names = {environment_name(row) for row in rows}
    words = [_WORDS.get(name, name) for name in names] if len(names) == 1 else []
    words += [_setting(key, rows[0][key]) for key in keys if rows[0][key] != ""]
    found = [", ".join(words)] if words else []
    units = {group.unit for group in groups}
    if not varies("episodes", rows):
        found.append(f"{groups[0].episodes:,} {units.pop() if len(units) == 1 else 'episode'}s")
    return found


def _setting(key: str, value: object) -> str:
    if key == "episodes" and isinstance(value, int | float):
        return f"{int(value):,} episodes"
    if key == "env.n_states":
        return f"{value:g} states"
    text = setting_text(key, value)
    return text.replace("_", " ").replace("=", " ")
