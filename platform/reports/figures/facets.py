"""How many curves share a panel, and how they are told apart: colour, dashes and markers, in grey too."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from dprl.platform.reports.cell_texts import setting_text
from dprl.platform.reports.comparing.groups import cell_name, naming_keys
from dprl.platform.reports.comparing.report_cells import ReportCell
from dprl.platform.reports.figures.drawing import COLOURS
from dprl.platform.reports.verdicts import privacy_text

_T = TypeVar("_T")
MOST_CURVES = 8
"""In a panel."""
MOST_PANELS = 8
"""Of cells that prove the same."""
_DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (7, 1.5, 1.2, 1.5)))
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_FREE = "#555555"
_FREE_DASHES: tuple[Any, ...] = ((0, (3, 1)), (0, (1, 1)), (0, (8, 2)), (0, (8, 2, 1, 2)))


class Facet(NamedTuple):
    """A panel: what all its cells share in words, the cells, and the settings that their names need."""

    title: str
    cells: list[ReportCell]
    keys: list[str]

    def name(self, cell: ReportCell) -> str:
        """Return what the legend calls a cell."""
        return cell_name(cell, self.keys)

    def styles(self) -> list[dict[str, Any]]:
        """Return how the curves of its cells are drawn, in their order.

        Those that were not asked to be private are grey and have no markers; hollow markers say that a claim fails.
        """
        found: list[dict[str, Any]] = []
        private = free = 0
        for cell in self.cells:
            if not cell.private:
                found.append({"color": _FREE, "ls": _FREE_DASHES[free % len(_FREE_DASHES)], "lw": 1.8})
                free += 1
                continue
            colour = COLOURS[private % len(COLOURS)]
            inside = colour if cell.row["verdict"] == "holds" else "white"
            look = {"ls": _DASHES[private % len(_DASHES)], "marker": _MARKERS[private % len(_MARKERS)]}
            found.append({"color": colour, "mfc": inside, "ms": 5.0, "lw": 1.5, **look})
            private += 1
        return found


def facets_of(cells: Sequence[ReportCell]) -> list[Facet]:
    """Return panels of at most 8 of `cells`, which are comparable: all in one if they are few.

    More are split by algorithm and its settings, then by trust model. A split off part of the private cells keeps the
    cells without privacy of its algorithm for comparison. Where a panel has more, it shows some from small to large
    epsilon, the ends among them, and says so: forty panels of curves are read by nobody, and the table has all cells.
    """
    ordered = sorted(cells, key=rank)
    varying = naming_keys(ordered)
    algorithm = [key for key in varying if key.startswith("algorithm.")]
    parts = _split([ordered], lambda cell: _values(cell, ["algorithm.name", *algorithm]))
    return [_facet(part, varying) for whole in parts for part in _by_model(whole)]


def facets_at_equal_privacy(cells: Sequence[ReportCell]) -> list[Facet]:
    """Return panels of those of `cells` that prove the same, where some do: algorithms or mechanisms, side by side.

    None where all cells share a panel of `facets_of`. At most 8, from small to large epsilon, the ends among them; each
    with a few cells without privacy.
    """
    if len(cells) <= MOST_CURVES:
        return []
    alike: dict[str, list[ReportCell]] = {}
    for cell in sorted(cells, key=lambda cell: (cell.row["privacy.model"], cell.proved, rank(cell))):
        if cell.private and math.isfinite(cell.proved):
            alike.setdefault(privacy_text(cell.certificate), []).append(cell)
    several = [(text, part) for text, part in alike.items() if len(part) > 1]
    free = [cell for cell in sorted(cells, key=rank) if not cell.private]
    shown = evenly(several, MOST_PANELS)
    left_out = f" ({len(shown)} of {len(several)})" if len(shown) < len(several) else ""
    return [Facet(text + left_out, _spread([*free, *part]), naming_keys([*free, *part])) for text, part in shown]


def rank(cell: ReportCell) -> tuple[Any, ...]:
    """Return what cells are sorted by: algorithm, trust model, proved epsilon."""
    settings = sorted((key, str(value)) for key, value in cell.row.items() if key.startswith("algorithm."))
    return cell.row["algorithm.name"], settings, cell.private, cell.row["privacy.model"], cell.proved


def _values(cell: ReportCell, keys: Sequence[str]) -> tuple[Any, ...]:
    return tuple(cell.row.get(key) for key in keys)


def _split(parts: Sequence[list[ReportCell]], key: Callable[[ReportCell], tuple[Any, ...]]) -> list[list[ReportCell]]:
    """Return `parts`, those that are too large split by `key`."""
    found = []
    for part in parts:
        if len(part) <= MOST_CURVES:
            found.append(part)
            continue
        by_key: dict[tuple[Any, ...], list[ReportCell]] = {}
        for cell in part:
            by_key.setdefault(key(cell), []).append(cell)
        found += by_key.values()
    return found


def _by_model(part: list[ReportCell]) -> list[list[ReportCell]]:
    """Return `part`, if it is too large split by trust model, each split with the few cells without privacy."""
    free = [cell for cell in part if not cell.private]
    if len(part) <= MOST_CURVES or len(free) > MOST_CURVES // 2:
        return [part]
    private = [cell for cell in part if cell.private]
    splits: dict[object, list[ReportCell]] = {}
    for cell in private:
        splits.setdefault(cell.row["privacy.model"], []).append(cell)
    return [[*free, *split] for split in splits.values()]


def _spread(cells: list[ReportCell]) -> list[ReportCell]:
    """Return at most 8 of `cells`: a few without privacy, and private ones evenly spread, the ends among them."""
    if len(cells) <= MOST_CURVES:
        return cells
    free = [cell for cell in cells if not cell.private]
    private = [cell for cell in cells if cell.private]
    kept = min(len(private), max(MOST_CURVES // 2, MOST_CURVES - len(free)))
    return [*free[: MOST_CURVES - kept], *evenly(private, kept)]


def evenly(values: Sequence[_T], most: int) -> list[_T]:
    """Return at most so many of `values`, evenly spread, the ends among them."""
    wanted = np.linspace(0, len(values) - 1, min(len(values), most)).round().astype(int)
    return [values[i] for i in wanted]


def _facet(cells: list[ReportCell], varying: Sequence[str]) -> Facet:
    """Return the panel of some of `cells`; its title says what they share and others lack, and how many there are."""
    own = naming_keys(cells)
    shared = [key for key in varying if key not in own and any(key in cell.row for cell in cells)]
    words = []
    for key in ("algorithm.name", *shared):
        values = {cell.row[key] for cell in cells if key in cell.row}
        if len(values) == 1:
            words.append(setting_text(key, values.pop()))
    models = {str(cell.row["privacy.model"]) for cell in cells if cell.private}
    if len(models) == 1:
        words.append(models.pop())
    shown = _spread(cells)
    left_out = f", {len(shown)} of {len(cells)}" if len(shown) < len(cells) else ""
    return Facet(" ".join(words) + left_out, shown, own)
