"""How many times fewer episodes one algorithm needs than another until its regret per episode has halved."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

from dprl.platform.reports.cell_texts import (
    Row,
    Scales,
    by_environment,
    delta_text,
    epsilon_text,
    scales,
    scales_text,
    settings_text,
    table,
    varying_settings,
)
from dprl.platform.reports.tables import episode_reached

_HEADERS = ("environment", "trust model", "proved \u03b5", "\u03b4", "noise")
_WIDTH = 120
_TEXTS = ("environment", "trust model", "noise")


def comparison(cells: Sequence[Row], one: str, other: str) -> str:
    """Return a section that compares algorithm `one` with `other` in every environment, or '' if nothing compares.

    Only private cells of equal trust model, proved epsilon, delta and scales are compared.
    """
    columns: list[Scales] = []
    rows: dict[tuple[str, ...], dict[Scales, list[str]]] = {}
    for environment, found in by_environment(cells).items():
        varying = varying_settings(found)
        private = [cell for cell in found if cell["privacy.model"] != "none" and "halved_at" in cell]
        others = [cell for cell in private if cell["algorithm.name"] == other]
        for cell in sorted((cell for cell in private if cell["algorithm.name"] == one), key=_rank):
            for rival in (rival for rival in others if _asked(rival) == _asked(cell)):
                noises = [settings_text(each, varying, ("privacy.", "noise.")) for each in (cell, rival)]
                noise = noises[0] if noises[0] == noises[1] else " against ".join(each or "default" for each in noises)
                key = (environment, cell["privacy.model"], epsilon_text(cell), delta_text(cell), noise)
                rows.setdefault(key, {}).setdefault(scales(cell), []).append(_ratio(cell, rival))
                if scales(cell) not in columns:
                    columns.append(scales(cell))
    if not rows:
        return ""
    lines = [[*key, *("; ".join(row.get(column, [])) for column in columns)] for key, row in rows.items()]
    headers = [*_HEADERS, *map(scales_text, columns)]
    return "\n\n".join([_heading(one, other), table(headers, lines, _TEXTS)])


def _heading(one: str, other: str) -> str:
    text = f"""\
Median episodes until halving of {other}, divided by those of {one}: above 1, {one} needs fewer. Both medians are in
brackets. `> x` where {other} had not halved when its run ended, `< x` where {one} had not. Trust model, proved \u03b5,
\u03b4 and scales are the same in both; a row that the other algorithm does not have is not compared."""
    return f"## {one} against {other}\n\n{textwrap.fill(' '.join(text.split()), _WIDTH)}"


def _asked(cell: Row) -> tuple[object, ...]:
    return cell["privacy.model"], epsilon_text(cell), delta_text(cell), scales(cell)


def _rank(cell: Row) -> tuple[object, ...]:
    return cell["privacy.model"], cell["proved_epsilon"], float(cell.get("claimed_delta", 0.0))


def _ratio(cell: Row, rival: Row) -> str:
    """Return the ratio of the medians, or on which side of a number it lies."""
    ours, theirs = float(cell["halved_at"]), float(rival["halved_at"])
    shown = " / ".join(episode_reached(each["halved_at"], int(each["episodes"])) for each in (rival, cell))
    if math.isinf(ours) and math.isinf(theirs):
        return f"neither ({shown})"
    sign = ">" if math.isinf(theirs) else "<" if math.isinf(ours) else ""
    most = [float(each["episodes"]) if math.isinf(each["halved_at"]) else each["halved_at"] for each in (rival, cell)]
    return f"{sign} {most[0] / most[1]:.3g} ({shown})".strip()
