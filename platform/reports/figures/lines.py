"""Assigns comparable cells to named lines with a look."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from dprl.platform.configs.varying import needed_keys
from dprl.platform.errors import first_of
from dprl.platform.reports.cell_texts import (
    EPISODES,
    NAMED,
    NOISE,
    SIZES,
    Row,
    algorithm_name,
    environment_keys,
    environment_text,
    plain,
    short_setting,
)
from dprl.platform.reports.comparing.report_cells import ReportCell
from dprl.platform.reports.figures.charts import Fill, Line, LineName
from dprl.platform.reports.figures.colours import MARKER_WORDS, Look, Palette, Shades, look
from dprl.platform.reports.number_texts import epsilon_text, power_text
from dprl.platform.reports.verdicts import trust_word

_EPSILON = "privacy.epsilon"
_MOST_NOISES = 4
"""Kinds of noise that a caption names."""
_CALIBRATION = "privacy.calibration"
_PRINTED = ("printed", "separate", "binary_tree")
"""Values of settings for noise as the papers print it."""
MODEL_TITLES = {"jdp": "Central (JDP)", "shuffle": "Shuffle", "ldp": "Local (LDP)"}
_FILLS: dict[str, Fill] = {"holds": "full", "holds_approximately": "left"}


def algorithm_of(cell: ReportCell) -> str:
    """Return the registered name of a cell's algorithm, which determines its colour."""
    return str(cell.row["algorithm.name"])


def model_of(cell: ReportCell) -> str:
    """Return a cell's trust model."""
    return str(cell.row["privacy.model"])


def label_of(cell: ReportCell) -> str:
    """Return the config's label of a cell, '' without one."""
    return str(cell.row.get("cell_label", ""))


def certified(cell: ReportCell) -> bool:
    """Whether a cell's noise certifies a finite epsilon."""
    return cell.private and math.isfinite(cell.proved)


def fill_of(cell: ReportCell) -> Fill:
    """Return the fill of a cell's marker, by the verdict on its claim."""
    return _FILLS.get(str(cell.row["verdict"]), "none")


def delta_text(delta: float) -> str:
    """Return a delta as 0, 10\u207b\u2076 or 2\u00b710\u207b\u2076."""
    return "0" if delta == 0.0 else power_text(delta, short=True)


@dataclass(frozen=True)
class Lines:
    """Assignment of cells of one or several environments, with the same headline, to lines.

    cells: all of a chart. palette: of the whole report. over: the setting that varies along a line, epsilon or the
    horizon.
    """

    cells: Sequence[ReportCell]
    palette: Palette
    over: str = _EPSILON

    @cached_property
    def _needed(self) -> dict[_Family, list[str]]:
        """The settings that distinguish cells of an algorithm, trust model and label, besides those of every line.

        The calibration is one of them wherever it varies: a line never joins certified and printed noise.
        """
        found = {}
        for key in dict.fromkeys(map(_family, self.cells)):
            rows = [cell.row for cell in self.cells if _family(cell) == key]
            always = [*NAMED, EPISODES, *(name for name in rows[0] if name.startswith("env."))]
            names = dict.fromkeys(name for row in rows for name in row if name.startswith(("algorithm.", *NOISE)))
            varying = [name for name in names if name not in always and len({row.get(name) for row in rows}) > 1]
            kinds = [name for name in varying if name == _CALIBRATION]
            needed = {*kinds, *needed_keys(rows, varying, [*always, *kinds])}
            found[key] = [name for name in varying if name in needed]
        return found

    @cached_property
    def _noises(self) -> dict[str, list[tuple[str, ...]]]:
        """The kinds of noise of each trust model, the best available first, the printed one last."""
        found: dict[str, set[tuple[str, ...]]] = {}
        for cell in self.cells:
            if cell.private:
                found.setdefault(model_of(cell), set()).add(_noise_of(cell.row))
        return {
            model: sorted(kinds, key=lambda noise: (sum(word in _PRINTED for word in noise), noise))
            for model, kinds in found.items()
        }

    @cached_property
    def _mixed(self) -> dict[_Family, set[float]]:
        """The deltas of each algorithm, trust model and label."""
        found: dict[_Family, set[float]] = {}
        for cell in filter(certified, self.cells):
            found.setdefault(_family(cell), set()).add(cell.delta)
        return found

    @property
    def deltas(self) -> set[float]:
        """All deltas of cells that certify an epsilon."""
        return set().union(*self._mixed.values()) if self._mixed else set()

    def by_name(self, cells: Iterable[ReportCell], *, along: bool = True) -> dict[LineName, list[ReportCell]]:
        """Return cells by line.

        along: whether a line joins cells of several epsilons; if not, each has its own line, named with epsilon.
        """
        found: dict[LineName, list[ReportCell]] = {}
        for cell in cells:
            found.setdefault(self.name(cell, along=along), []).append(cell)
        return found

    @cached_property
    def _labelled(self) -> dict[str, list[ReportCell]]:
        """The cells of each label of the config."""
        found: dict[str, list[ReportCell]] = {}
        for cell in self.cells:
            found.setdefault(label_of(cell), []).append(cell)
        return found

    def name(self, cell: ReportCell, *, along: bool = True) -> LineName:
        """Return the name of a cell's line: its label if it has one, and the words that distinguish it from others."""
        row, given, free = cell.row, label_of(cell), not cell.private
        alike = self._labelled[given] if given else []
        words = [short_setting(key, row[key]) for key in self._needed[_family(cell)] if key in row and key != self.over]
        if not free:
            if not along and (not given or len({other.proved for other in alike if other.private}) > 1):
                words.append(f"\u03b5 = {epsilon_text(cell.proved, 3)}")
            words += self._delta_words(cell)
            if not math.isfinite(cell.proved):
                words.append("NO PRIVACY")
        model, registered = "" if free else trust_word(model_of(cell)), algorithm_of(cell)
        if not given:
            name, labelled = algorithm_name(row), "algorithm_label" in row
            return LineName(name, model, tuple(words), free, labelled=labelled, registered=registered)
        shared = (model or "no privacy") if len({model_of(other) for other in alike}) > 1 else ""
        return LineName(given, shared, tuple(words), free, given=True, registered=registered)

    def _delta_words(self, cell: ReportCell) -> list[str]:
        """Return delta if a label needs it: the algorithm has several, or the chart has and this one is not 0."""
        several = len(self.deltas) > 1 and cell.delta > 0.0 and not label_of(cell)
        if len(self._mixed.get(_family(cell), set())) > 1 or several:
            return [f"\u03b4 = {delta_text(cell.delta)}"]
        return []

    def shades(self, cell: ReportCell) -> Shades:
        """Return the colours of its algorithm."""
        return self.palette[algorithm_of(cell)]

    def look(self, cell: ReportCell) -> Look:
        """Return dashes, marker and weight of its trust model and noise."""
        if not cell.private:
            return look("none")
        model = model_of(cell)
        return look(model, self._noises[model].index(_noise_of(cell.row)))

    def sentences(self, drawn: Iterable[Line]) -> list[str]:
        """Return delta, if labels do not have it, and the meaning of line weights, or of markers if no line joins any.

        drawn: the lines of the chart.
        """
        told, joined = [_delta_sentence(self.deltas)], {line.look for line in drawn if len(line.x) > 1}
        for model, kinds in self._noises.items():
            if len(kinds) < 2:
                continue
            shared = set.intersection(*map(set, kinds))
            names = [" ".join(word for word in kind if word not in shared) or "default" for kind in kinds]
            what = trust_word(model)
            others = ", ".join(first_of(names[1:], _MOST_NOISES - 1))
            best, *rest = (look(model, noise) for noise in range(len(kinds)))
            heavy = "heavy lines" if best in joined else MARKER_WORDS[best.marker]
            thin = "thin lines" if joined & {*rest} else "other markers"
            told.append(f"Noise, {what}: {names[0]} ({heavy}); {others} ({thin}).")
        return told


_Family = tuple[str, str, str]


def _family(cell: ReportCell) -> _Family:
    return algorithm_of(cell), model_of(cell), label_of(cell)


def _noise_of(row: Row) -> tuple[str, ...]:
    keys = (key for key in row if key.startswith(NOISE) and key not in NAMED and "score" not in key)
    return tuple(short_setting(key, row[key]) for key in sorted(keys))


def _delta_sentence(deltas: set[float]) -> str:
    if not deltas or deltas == {0.0}:
        return ""
    if len(deltas) == 1:
        return f"\u03b4 = {delta_text(deltas.pop())}."
    return "\u03b4 = 0 unless a label says otherwise."


def columns_of(cells: Sequence[ReportCell], over: str = "") -> dict[tuple[str, ...], str]:
    """Return the environments and lengths of these cells, each with its title: their names and the settings needed.

    over: the setting on the x axis, which is in no title.
    """
    keys = environment_keys([cell.row for cell in cells], over)
    seen = {key: list(dict.fromkeys(_value(cell, key) for cell in cells)) for key in keys}
    found: dict[tuple[str, ...], str] = {}
    for cell in sorted(cells, key=lambda cell: [_sortable(cell, key, seen[key]) for key in keys]):
        found.setdefault(column_of(cell, over), environment_text(cell.row, keys, _column_word))
    return found


def column_of(cell: ReportCell, over: str = "") -> tuple[str, ...]:
    """Return the name of the cell's column."""
    keys = sorted(key for key in cell.row if (key.startswith("env.") or key == EPISODES) and key != over)
    return tuple(f"{key}={_value(cell, key)}" for key in keys)


def _value(cell: ReportCell, key: str) -> str:
    return plain(cell.row.get(key))


def _sortable(cell: ReportCell, key: str, seen: Sequence[str]) -> float:
    value = cell.row.get(key)
    return float(value) if isinstance(value, int | float) else float(seen.index(_value(cell, key)))


def _column_word(key: str, value: object) -> str:
    if key == EPISODES:
        return f"K = {int(str(value)):,}"
    if key in SIZES:
        return f"{SIZES[key]} = {plain(value)}"
    return short_setting(key, value)
