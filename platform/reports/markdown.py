"""Finished sweeps as one Markdown page: for each environment a table, with the scales of constants side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dprl.platform.reports.cell_texts import (
    Cell,
    Scales,
    band_text,
    by_environment,
    common_settings,
    delta_text,
    epsilon_text,
    first_and_last,
    halved_text,
    plain,
    scales,
    scales_text,
    settings_text,
    table,
    varying_settings,
    verdict_text,
)
from dprl.platform.reports.comparison import comparison
from dprl.platform.reports.records import EXPLOITABILITY, SMALLEST_GAP

_MOST_COLUMNS = 4
"""Joint values of the scales that still fit side by side."""
_ALGORITHM, _MODEL, _EPSILON, _DELTA = "algorithm", "trust model", "proved \u03b5", "\u03b4"
_NOISE, _VERDICT, _SCALES = "noise", "verdict", "scales"
_ROW = (_ALGORITHM, _MODEL, _EPSILON, _DELTA, _NOISE, _VERDICT)
"""What tells rows apart when scales stand side by side."""
_TEXTS = (_ALGORITHM, _MODEL, _NOISE, _VERDICT, _SCALES)
_PRIVACY = ("privacy.", "noise.")
_HOLDING = ("holds", "unbounded")
"""Verdicts of a claim that is proved, and of cells that claim nothing."""
_COUNTS = {"episodes": "K", "seeds": "seeds", "seed": "first seed"}
"""Settings that are no part of algorithm, environment or privacy: what they are called."""
_EXPLAINED = """\
`halved at`: episodes until the regret per episode is at most half of that of the first episode, and stays so; median
over seeds [95 % interval, from 6 seeds on], and `>K` where so many seeds have not halved within the K episodes of their
run. Regret is exact pseudo-regret of the published policies, its interval there from 3 seeds on; `first \u2192 last`
are its means over the first and the last block of episodes. The proved \u03b5 is what the noise that ran proves at that
\u03b4. All definitions: docs/metrics.md."""
_GAPS = {SMALLEST_GAP: "smallest gap [95 %]", EXPLOITABILITY: "exploitability [95 %]"}
"""Columns of environments in which some cell has them, and their headers."""
_GAPS_EXPLAINED = """\
`smallest gap`: the least V_up - V_lo at the start of all plans of a run; `exploitability`: what best responses gain
against the marginals of the policy of that plan, which is what the run gives out: V^{dagger,nu} - V^{mu,dagger}, exact.
Both after the last episode, means over seeds. While the bounds hold, the first is at least the second; docs/metrics.md
says when that is proved. Regret in a game is the sum of the exploitabilities of the policies deployed."""
_EACH_K = """\
K differs between runs, and noise and bonuses depend on it: both are made for the K episodes of a run, so a run of
another length would halve at another episode."""


def page(title: str, cells: Sequence[Cell], about: Sequence[str], compared: tuple[str, str] | None = None) -> str:
    """Return the page.

    cells: rows of `records.summary_row`, with seconds, of one sweep or several, see `cell_texts.cells_of`. about: what
    stands at the top, paragraph by paragraph. compared: two algorithms for a summary in numbers.
    """
    marks = _marks(cells)
    parts = [f"# {title}", *about, _EXPLAINED]
    with_gaps = any(column in cell for cell in cells for column in _GAPS)
    if with_gaps:
        parts.append(_GAPS_EXPLAINED)
    if len({cell["episodes"] for cell in cells}) > 1:
        parts.append(_EACH_K)
    parts.append(_theorems(marks, with_gaps))
    if compared is not None:
        parts.append(comparison(cells, *compared))
    for environment, found in by_environment(cells).items():
        parts += [f"## {environment}", *_Section(found, marks).texts()]
    return "\n\n".join(part for part in parts if part) + "\n"


def _marks(cells: Sequence[Cell]) -> dict[str, str]:
    """Return a mark for each theorem that covers some cell."""
    theorems = dict.fromkeys(str(cell["theorem"]) for cell in cells if cell.get("theorem"))
    return {theorem: f"(T{i})" for i, theorem in enumerate(theorems, start=1)}


def _theorems(marks: Mapping[str, str], with_gaps: bool) -> str:
    """Return which theorems the marks stand for; with gaps, they may be of these."""
    bounded = "the regret or proves the gap" if with_gaps else "the regret"
    if not marks:
        return f"No theorem bounds {bounded} of any run on this page with its settings."
    told = "; ".join(f"{mark} {theorem}" for theorem, mark in marks.items())
    return f"A theorem bounds {bounded} of the runs that are marked: {told}. None does that of the others."


def _rank(cell: Cell) -> tuple[object, ...]:
    """Return what cells are sorted by: who asks for the same stands together."""
    epsilon, delta = (float(cell.get(f"privacy.{key}", 0.0)) for key in ("epsilon", "delta"))
    model = cell["privacy.model"]
    return model != "none", model, epsilon, delta, cell["algorithm.name"]


class _Section:
    """The cells of one environment as a table."""

    def __init__(self, cells: Sequence[Cell], marks: Mapping[str, str]) -> None:
        self.cells = sorted(cells, key=_rank)
        self.marks = marks
        self.varying = varying_settings(cells)
        self.columns = list(dict.fromkeys(map(scales, cells)))
        self.table_rows = self._side_by_side()
        self.aside = bool(self.table_rows) and len(self.columns) <= _MOST_COLUMNS
        if not self.aside:
            self.table_rows = [{scales(cell): cell} for cell in self.cells]
        self.counts = {key: text for key, text in _COUNTS.items() if len({cell[key] for cell in cells}) > 1}
        self.gaps = {key: text for key, text in _GAPS.items() if any(key in cell for cell in cells)}

    def texts(self) -> list[str]:
        """Return what all cells have in common, and the table of the rest."""
        shared = [f"{text} {plain(self.cells[0][key])}" for key, text in _COUNTS.items() if key not in self.counts]
        shared += common_settings(self.cells)
        if len(self.columns) == 1:
            shared.append(scales_text(self.columns[0]))
        if all(cell["verdict"] in _HOLDING for cell in self.cells):
            shared.append("every privacy claim holds")
        fixed = self._fixed_headers()
        groups = self.columns if self.aside else [None]
        headers = [*fixed, *(header for group in groups for header in self._measured_headers(group))]
        lines = []
        for row in self.table_rows:
            cell = next(iter(row.values()))
            line = [self._fixed(cell)[header] for header in fixed]
            for group in groups:
                line += self._measured(cell if group is None else row.get(group))
            lines.append(line)
        return [f"In all rows: {', '.join(shared)}.", table(headers, lines, _TEXTS)]

    def _side_by_side(self) -> list[dict[Scales, Cell]]:
        """Return a row for cells that differ in their scales and in K only; none if that leaves two in one place."""
        rows: dict[tuple[str, ...], dict[Scales, Cell]] = {}
        for cell in self.cells:
            row = rows.setdefault(tuple(self._fixed(cell)[header] for header in _ROW), {})
            if scales(cell) in row:
                return []
            row[scales(cell)] = cell
        return list(rows.values())

    def _fixed_headers(self) -> list[str]:
        """Return the headers of what was run; a column that says nothing is left out."""
        wanted = {
            _NOISE: any(key.startswith(_PRIVACY) for key in self.varying),
            _VERDICT: any(cell["verdict"] not in _HOLDING for cell in self.cells),
            _SCALES: not self.aside and len(self.columns) > 1,
        }
        return [header for header in (*_ROW, _SCALES) if wanted.get(header, True)]

    def _fixed(self, cell: Cell) -> dict[str, str]:
        return {
            _ALGORITHM: f"{cell['algorithm.name']} {settings_text(cell, self.varying, ('algorithm.',))}".strip(),
            _MODEL: str(cell["privacy.model"]),
            _EPSILON: epsilon_text(cell),
            _DELTA: delta_text(cell),
            _NOISE: settings_text(cell, self.varying, _PRIVACY),
            _VERDICT: verdict_text(cell),
            _SCALES: scales_text(scales(cell)),
        }

    def _measured_headers(self, group: Scales | None) -> list[str]:
        few = any("halved_at_lower" not in cell for cell in self.cells)
        halved = "halved at [95 %, from 6 seeds on]" if few else "halved at [95 %]"
        headers = [halved, *self.counts.values(), "regret/episode first \u2192 last", *self.gaps.values()]
        if group is not None and len(self.columns) > 1:
            return [f"{scales_text(group)}: {headers[0]}", *headers[1:]]
        return [*headers, "regret / K [95 %]"]

    def _measured(self, cell: Cell | None) -> list[str]:
        """Return the numbers of a cell, the theorem's mark behind the first; blanks if there is no cell."""
        wide = not self.aside or len(self.columns) == 1
        if cell is None:
            return [""] * (len(self.counts) + 2 + len(self.gaps) + wide)
        mark = self.marks.get(str(cell.get("theorem", "")), "")
        numbers = [plain(cell[key]) for key in self.counts]
        told = [f"{halved_text(cell)} {mark}".strip(), *numbers, first_and_last(cell)]
        told += [band_text(cell, key) for key in self.gaps]
        return [*told, band_text(cell, "mean_regret")] if wide else told
