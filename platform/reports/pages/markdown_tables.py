"""Finished sweeps as one Markdown page: for each environment a table, with the scales of constants side by side."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from dprl.algorithms import Metric
from dprl.platform.reports.cell_texts import (
    Row,
    Scales,
    algorithm_name,
    band_text,
    by_environment,
    common_settings,
    delta_text,
    ends_text,
    epsilon_text,
    first_and_last,
    halved_text,
    plain,
    result_band,
    scales,
    scales_text,
    settings_text,
    table,
    varying_settings,
)
from dprl.platform.reports.pages.comparison import comparison
from dprl.platform.reports.records import full_label, headlines_in, results_in
from dprl.platform.reports.tables import verdict_text

_MOST_COLUMNS = 4
"""Joint values of the scales that still fit side by side."""
_ALGORITHM, _MODEL, _EPSILON, _DELTA = "algorithm", "trust model", "certified \u03b5", "\u03b4"
_NOISE, _VERDICT, _SCALES = "noise", "verdict", "scales"
_ROW = (_ALGORITHM, _MODEL, _EPSILON, _DELTA, _NOISE, _VERDICT)
"""Columns that identify a row when scales stand side by side."""
_TEXTS = (_ALGORITHM, _MODEL, _NOISE, _VERDICT, _SCALES)
_PRIVACY = ("privacy.", "noise.")
_COUNTS = {"episodes": "K", "seeds": "seeds", "seed": "first seed"}
"""Headers of the settings outside algorithm, environment and privacy."""
_REGRET_EXPLAINED = """\
`episodes to half regret`: episodes until the regret per episode is at most half of that of the first episode, and stays
so; median over seeds [95 % interval, from 6 seeds on]. `>K`: not halved within the K episodes of the run. Regret is
exact pseudo-regret of the published policies, its interval there from 3 seeds on; `first \u2192 last` are its means
over the first and the last block of episodes."""
_EXPLAINED = """\
The certified \u03b5 is the \u03b5 that the noise of the run proves at that \u03b4. All definitions: docs/metrics.md."""
_RESULTS_EXPLAINED = """\
All after the last episode, means over seeds; docs/metrics.md says when a bound is proved."""
_MEDIANS_EXPLAINED = """\
Of {}: medians over seeds [95 % interval, from 6 seeds on], `>K` where it has not happened within the K of their run."""
_MEANS_EXPLAINED = """\
Its mean is over the run, and over seeds; `first \u2192 last` are those of the first and the last block."""
_GOOD = {"low": "lower is better", "high": "higher is better"}
_REGRET = "mean_regret"
_HALVING = "episodes to half regret"
_WIDTH = 120
_EACH_K = """\
K differs between runs, and noise and bonuses depend on it: both are made for the K episodes of a run, so a run of
another length would halve at another episode."""


def page(title: str, cells: Sequence[Row], about: Sequence[str], compared: tuple[str, str] | None = None) -> str:
    """Return the page.

    cells: rows of `records.summary_row` of one sweep or several, see `cell_texts.rows_of`. about: what
    stands at the top, paragraph by paragraph. compared: two algorithms for a summary in numbers.
    """
    marks = _marks(cells)
    regret = _REGRET_EXPLAINED if any(_REGRET in cell for cell in cells) else ""
    parts = [
        f"# {title}",
        *about,
        _filled(f"{regret} {_EXPLAINED}"),
        _means_explained(cells),
        _results_explained(cells),
    ]
    if len({cell["episodes"] for cell in cells}) > 1:
        parts.append(_EACH_K)
    parts.append(_theorems(marks))
    if compared is not None:
        parts.append(comparison(cells, *compared))
    for environment, found in by_environment(cells).items():
        parts += [f"## {environment}", *_Section(found, marks).texts()]
    return "\n\n".join(part for part in parts if part) + "\n"


def _marks(cells: Sequence[Row]) -> dict[str, str]:
    """Return a mark for each theorem that covers some cell."""
    theorems = dict.fromkeys(str(cell["theorem"]) for cell in cells if cell.get("theorem"))
    return {theorem: f"T{i}" for i, theorem in enumerate(theorems, start=1)}


def _theorems(marks: Mapping[str, str]) -> str:
    """Return which theorems the marks stand for; each says itself what it proves."""
    if not marks:
        return "No theorem covers any run on this page with its settings."
    told = "; ".join(f"{mark} {theorem}" for theorem, mark in marks.items())
    return f"A column 'theorem' says which one covers a run, with its settings and noise: {told}. Blank: none does."


def _results(cells: Sequence[Row]) -> list[Metric]:
    """Return the results that some cell has."""
    return results_in({key for cell in cells for key in cell})


def _results_explained(cells: Sequence[Row]) -> str:
    """Return what the results are that some cell has, '' if there are none."""
    found = _results(cells)
    told = [f"`{metric.label}`: {metric.definition or full_label(metric)}" for metric in found]
    medians = [f"`{metric.label}`" for metric in found if metric.across == "median"]
    more = f" {_MEDIANS_EXPLAINED.format(', '.join(medians))}" if medians else ""
    return _filled(f"{'. '.join(told)}. {_RESULTS_EXPLAINED}{more}") if told else ""


def _means(cells: Sequence[Row]) -> list[Metric]:
    """Return the headlines, means over the run, that some cell has."""
    return [metric for metric in headlines_in({key for cell in cells for key in cell}) if metric.over == "mean"]


def _means_explained(cells: Sequence[Row]) -> str:
    """Return what the headlines are that are means, '' if there are none."""
    told = [
        f"`{metric.label}`: {metric.definition or metric.label}; {_GOOD[metric.better]}" for metric in _means(cells)
    ]
    return _filled(f"{'. '.join(told)}. {_MEANS_EXPLAINED}") if told else ""


def _filled(text: str) -> str:
    return textwrap.fill(text.strip(), _WIDTH, break_on_hyphens=False)


def _rank(cell: Row) -> tuple[object, ...]:
    """Return what cells are sorted by: who asks for the same stands together."""
    epsilon, delta = (float(cell.get(f"privacy.{key}", 0.0)) for key in ("epsilon", "delta"))
    model = cell["privacy.model"]
    return model != "none", model, epsilon, delta, cell["algorithm.name"]


class _Section:
    """The cells of one environment as a table."""

    def __init__(self, cells: Sequence[Row], marks: Mapping[str, str]) -> None:
        self.cells = sorted(cells, key=_rank)
        self.marks = marks
        self.varying = varying_settings(cells)
        self.columns = list(dict.fromkeys(map(scales, cells)))
        self.table_rows = self._side_by_side()
        self.aside = bool(self.table_rows) and len(self.columns) <= _MOST_COLUMNS
        if not self.aside:
            self.table_rows = [{scales(cell): cell} for cell in self.cells]
        self.counts = {key: text for key, text in _COUNTS.items() if len({cell[key] for cell in cells}) > 1}
        self.measured = self._measured_columns()

    def texts(self) -> list[str]:
        """Return what all cells have in common, and the table of the rest."""
        shared = [f"{text} {plain(self.cells[0][key])}" for key, text in _COUNTS.items() if key not in self.counts]
        shared += common_settings(self.cells)
        if len(self.columns) == 1:
            shared.append(scales_text(self.columns[0]))
        if all(map(_stands, self.cells)):
            shared.append("every privacy claim holds")
        fixed = self._fixed_headers()
        groups = self.columns if self.aside else [None]
        headers = [*fixed, *(header for group in groups for header in self._measured_headers(group))]
        lines = []
        for row in self.table_rows:
            cell = next(iter(row.values()))
            line = [self._fixed(cell)[header] for header in fixed]
            for group in groups:
                line += self._measured_texts(cell if group is None else row.get(group))
            lines.append(line)
        return [f"In all rows: {', '.join(shared)}.", table(headers, lines, _TEXTS)]

    def _side_by_side(self) -> list[dict[Scales, Row]]:
        """Return a row for cells that differ in their scales and in K only; none if that leaves two in one place."""
        rows: dict[tuple[str, ...], dict[Scales, Row]] = {}
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
            _VERDICT: not all(map(_stands, self.cells)),
            _SCALES: not self.aside and len(self.columns) > 1,
        }
        return [header for header in (*_ROW, _SCALES) if wanted.get(header, True)]

    def _fixed(self, cell: Row) -> dict[str, str]:
        return {
            _ALGORITHM: f"{algorithm_name(cell)} {settings_text(cell, self.varying, ('algorithm.',))}".strip(),
            _MODEL: str(cell["privacy.model"]),
            _EPSILON: epsilon_text(cell),
            _DELTA: delta_text(cell),
            _NOISE: settings_text(cell, self.varying, _PRIVACY),
            _VERDICT: verdict_text(cell),
            _SCALES: scales_text(scales(cell)),
        }

    def _measured_columns(self) -> dict[str, Callable[[Row], str]]:
        """Return what was measured, by header: what a cell shows of it."""
        with_regret = [cell for cell in self.cells if _REGRET in cell]
        found: dict[str, Callable[[Row], str]] = {}
        if with_regret:
            few = any("halved_at_lower" not in cell for cell in with_regret)
            found[f"{_HALVING} [95 %, from 6 seeds on]" if few else f"{_HALVING} [95 %]"] = halved_text
        found |= {text: partial(_setting_text, key=key) for key, text in self.counts.items()}
        if with_regret:
            found["regret per episode, first \u2192 last"] = first_and_last
        for metric in _means(self.cells):
            found[f"{metric.label} first \u2192 last"] = partial(ends_text, column=metric.name)
            found[f"{metric.label} [95 %]"] = partial(band_text, column=metric.name)
        found |= {f"{metric.label} [95 %]": partial(result_band, metric=metric) for metric in _results(self.cells)}
        if with_regret and (not self.aside or len(self.columns) == 1):
            found["mean regret per episode [95 %]"] = partial(band_text, column=_REGRET)
        if not found or any(self._mark(cell) for cell in self.cells):
            found["theorem"] = self._mark
        return found

    def _mark(self, cell: Row) -> str:
        return self.marks.get(str(cell.get("theorem", "")), "")

    def _measured_headers(self, group: Scales | None) -> list[str]:
        first, *others = self.measured
        if group is not None and len(self.columns) > 1:
            return [f"{scales_text(group)}: {first}", *others]
        return [first, *others]

    def _measured_texts(self, cell: Row | None) -> list[str]:
        """Return the numbers of a cell; blanks if there is no cell."""
        return [text(cell) if cell is not None else "" for text in self.measured.values()]


def _setting_text(cell: Row, key: str) -> str:
    return plain(cell[key])


def _stands(cell: Row) -> bool:
    """Whether what a cell claims is proved; without privacy nothing is claimed."""
    return str(cell["verdict"]) == "holds" or str(cell["privacy.model"]) == "none"
