"""Tables and figures specific to the page on [OT20]: controls, privacy, and our own best settings."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dprl.platform.configs.config import config_files, load_cells
from dprl.platform.configs.experiment import varying_keys
from dprl.platform.reports.cell_texts import plain
from dprl.platform.reports.figures.charts import Axis, Chart, Line
from dprl.platform.reports.figures.colours import BLACK, BLUE, ORANGE, VERMILION, Look, Shades
from dprl.platform.reports.inference.intervals import FEWEST_SEEDS
from dprl.platform.reproductions import claims, pgc_a3c, tables
from dprl.platform.reproductions.engine import PageData, Paper, Request
from dprl.platform.reproductions.figures import DASHED, DOTTED, SOLID, chart, curve, draw_charts
from dprl.platform.reproductions.resampling import compared, mean, share
from dprl.platform.results.layout import SweepLayout

_DRAWN = ("R1", "R2")
"""Readings with the cells of Figure 2."""
FIGURES = ("pgc_a3c_figure_2.png", "pgc_a3c_figure_3.png")
_BEST = "pgc_a3c_best"
_APART = ("privacy.model", "privacy.mechanism", "privacy.epsilon", "privacy.clip_norm")
"""Settings with a column of their own."""
_BEST_TEXT = """\
## Best mechanism per \u03b5 at the same guarantee, ours

Ours, not the paper's: other mechanisms and step sizes at the same guarantee. They were tuned on the simulator's scores
of other seeds, which real users would not give away. Sorted by \u03b5, then by the median; **bold** is the smallest
median at its \u03b5, chosen after seeing the rows of this table. Runs have {submissions:,} submissions, so
areas and mean scores are not comparable with those above.

"""
_LOOKS = {
    pgc_a3c.LAPLACE: (BLUE, Look(SOLID, "", 1.0)),
    pgc_a3c.PROJECTED: (VERMILION, Look(DASHED, "", 1.0)),
    pgc_a3c.ELEMENTWISE: (BLACK, Look((0, (1, 1.2)), "", 0.8)),
}
"""Dashes and widths also distinguish the lines in grey."""
_NOISE_LOOKS = {
    pgc_a3c.LAPLACE: (BLUE, Look((0, (8, 2, 1.5, 2)), "", 0.5)),
    pgc_a3c.PROJECTED: (VERMILION, Look((0, (2.5, 2.5)), "", 0.5)),
}
_BUFFER_LOOKS = {1: (BLUE, Look(SOLID, "", 0.9)), 100: (ORANGE, Look(DASHED, "", 0.9))}


class _PGCA3C(Paper):
    """[OT20], with controls and our own best settings."""

    name, config, runs = "pgc_a3c", pgc_a3c.CONFIG, pgc_a3c.RUNS
    groups, names, units = pgc_a3c.READINGS, pgc_a3c.NAMES, ("trials", "submissions")
    measures = (pgc_a3c.FIRST, pgc_a3c.SUCCESS, pgc_a3c.AREA_UNDER, pgc_a3c.MEAN_SCORE, pgc_a3c.FINAL)
    tables, sentences = pgc_a3c.TABLES, pgc_a3c.SENTENCES

    key, read = staticmethod(pgc_a3c.key), staticmethod(pgc_a3c.read)

    def extra(self, request: Request) -> dict[str, Any]:
        """Return our own best cells."""
        return {"best": _best_cells(request.sweep.home.resolve())}

    def blocks(self, found: PageData) -> dict[str, str]:
        """Return the text of the placeholders that only this page has."""
        cells = found.cells
        least = min(cell.count for cell in cells.values())
        few = f" With {least} trials the column `as many runs` is resampled from no more than these; --full runs 100."
        return {
            **super().blocks(found),
            "counted": f"{tables.run_counts(cells)} trials of {tables.longest(cells):,} submissions for each cell."
            + ("" if least > pgc_a3c.RUNS else few),
            "laplace_buffering": pgc_a3c.LAPLACE_BUFFERING.text,
            "projected_buffering": pgc_a3c.PROJECTED_BUFFERING.text,
            "controls": tables.table(_control_rows(cells)),
            "scores": tables.table(_score_rows(cells)),
            "noise": "; ".join(_noise(cells)) or "none",
            "best": _best_table(found.extra["best"]),
        }

    def figures(self, found: PageData) -> dict[str, bytes]:
        """Return Figures 2 and 3 of the paper from our trials."""
        cells = found.cells
        trials = f"{tables.run_counts(cells)} trials"
        stretch = max(int(np.diff(cell.ends, prepend=0).max()) for cell in cells.values())
        scores = [[_score_chart(reading, mechanism, cells) for mechanism in pgc_a3c.BUFFERS] for reading in _DRAWN]
        successes = [[_success_chart(reading, epsilon, cells) for epsilon in pgc_a3c.EPSILONS] for reading in _DRAWN]
        return {
            FIGURES[0]: draw_charts(
                scores,
                f"Figure 2, \u03b5 = 1: mean score over {stretch:,} submissions, {trials}; band: middle half of them",
            ),
            FIGURES[1]: draw_charts(
                successes,
                f"Figure 3: share of trials with a first success by then, {trials}; bands: 95 % intervals (Clopper and "
                "Pearson)",
            ),
        }

    def named(self, key: claims.Key) -> dict[str, Any]:
        """Return the key of a cell as plain data."""
        return {
            "reading": key.group,
            "mechanism": key.mechanism,
            "epsilon": claims.finite_epsilon(key),
            "buffer_size": key.setting,
            "reports": key.control or "gradient",
        }


PAPER = _PGCA3C()


def _best_cells(home: Path) -> dict[claims.Key, claims.PaperCell]:
    """Return the finished private cells of that sweep, sorted by epsilon and median; {} if it was never run.

    Key.control has the settings that distinguish a cell from the others.
    """
    layout = SweepLayout(home, _BEST)
    if _BEST not in config_files() or not layout.folder.is_dir():
        return {}
    cells = layout.cells(load_cells(_BEST))
    names = [name for name in varying_keys([cell.experiment for cell in cells]) if name not in _APART]
    found = {}
    for cell in cells:
        flat = cell.experiment.parameters()
        if cell.finished and flat["privacy.model"] != "none":
            told = ", ".join(f"{name.rpartition('.')[2]} {plain(flat[name])}" for name in names if name in flat)
            name = claims.Key("", str(flat["privacy.mechanism"]), float(flat["privacy.epsilon"]), control=told)
            found[name] = pgc_a3c.read(cell.folder.results())
    return dict(sorted(found.items(), key=lambda one: (one[0].epsilon, pgc_a3c.FIRST.estimate(one[1]).value)))


def _control_rows(cells: claims.Cells) -> Iterator[dict[str, str]]:
    for name in sorted(cells, key=_place):
        cell, control = cells[name], cells.get(name._replace(control=pgc_a3c.NOISE))
        if not name.control and control is not None and name.setting == pgc_a3c.BUFFERS.get(name.mechanism):
            gained = compared(cell.values["area"], control.values["area"], mean, pgc_a3c.RUNS).estimate
            row = _named(name)
            for kind in ("success", "area"):
                row[kind] = tables.number(float(mean(cell.values[kind])), 3)
                row[f"{kind}, noise only"] = tables.number(float(mean(control.values[kind])), 3)
            yield {**row, "area gained [95 %]": tables.interval(gained, 3)}


def _named(name: claims.Key) -> dict[str, str]:
    """Return the columns that name a cell."""
    mechanism = pgc_a3c.NAMES[name.mechanism]
    return {"reading": name.group, "mechanism": mechanism, "\u03b5": tables.epsilon_text(name.epsilon)}


def _place(name: claims.Key) -> tuple[int, int, float]:
    order = [reading.name for reading in pgc_a3c.READINGS]
    return order.index(name.group), [*pgc_a3c.NAMES].index(name.mechanism), name.epsilon


def _score_rows(cells: claims.Cells) -> Iterator[dict[str, str]]:
    for name, cell in sorted(cells.items(), key=lambda pair: _place(pair[0])[0]):
        if not name.control:
            yield {
                **_named(name),
                "buffer": f"{name.setting:g}",
                "all [95 %]": tables.measured(pgc_a3c.MEAN_SCORE, cell),
                "last 5,000 [95 %]": tables.measured(pgc_a3c.FINAL, cell),
            }


def _noise(cells: claims.Cells) -> list[str]:
    """Return the distinct ways in which noise is drawn."""
    every = (noise for cell in cells.values() for noise in cell.certificate["noise"])
    drawn = (f"{one['arithmetic']}, {one['entropy']}" for one in every if one.get("mechanism") != "raw")
    return list(dict.fromkeys(drawn))


def _best_table(best: claims.Cells) -> str:
    """Return the section on our own settings, '' if they were never run."""
    if not best:
        return ""
    rows, seen = [], set()
    for name, cell in best.items():
        first = tables.measured(pgc_a3c.FIRST, cell)
        row = {
            "\u03b5": tables.epsilon_text(name.epsilon),
            "proved": tables.proved_text(cell),
            "mechanism": name.mechanism,
            "settings": name.control,
            "median first success [95 %]": first if name.epsilon in seen else f"**{first}**",
            "success [95 %]": tables.measured(pgc_a3c.SUCCESS, cell),
            "area [95 %]": tables.measured(pgc_a3c.AREA_UNDER, cell),
            "mean score [95 %]": tables.measured(pgc_a3c.MEAN_SCORE, cell),
            "trials": str(cell.count),
        }
        seen.add(name.epsilon)
        rows.append(row)
    return _BEST_TEXT.format(submissions=tables.longest(best)) + tables.table(rows)


def _axes(cells: claims.Cells, title: str, most: float) -> tuple[Axis, Axis]:
    """Return the axes of submissions and of a number from 0 to `most`."""
    x = Axis("submissions", "submissions", False, (0.0, float(tables.longest(cells))), counts=True)
    return x, Axis(title, title, False, (0.0, most))


def _score_chart(reading: str, mechanism: str, cells: claims.Cells) -> Chart:
    """Return mean scores over submissions at epsilon 1 with and without buffering."""
    lines = []
    for size, look in _BUFFER_LOOKS.items():
        cell = cells[claims.Key(reading, mechanism, 1.0, size)]
        band = np.quantile(cell.curves, (0.25, 0.75), axis=0) if cell.count >= FEWEST_SEEDS else None
        lines.append(curve(f"|B| = {size}", cell.ends, cell.curves.mean(axis=0), look, band))
    ends, target = [0, tables.longest(cells)], pgc_a3c.TARGET
    lines.append(curve(f"target {target:g}", ends, [target] * 2, (BLACK, Look(DOTTED, "", 0.5))))
    return chart(f"{reading}: {pgc_a3c.NAMES[mechanism]}", lines, *_axes(cells, "score (steps)", 208.0))


def _success_chart(reading: str, epsilon: float, cells: claims.Cells) -> Chart:
    """Return success ratios over submissions, with those of noise alone and those without privacy."""
    lines = []
    for mechanism, size in pgc_a3c.BUFFERS.items():
        name, label = claims.Key(reading, mechanism, epsilon, size), pgc_a3c.NAMES[mechanism]
        control = cells[name._replace(control=pgc_a3c.NOISE)]
        lines.append(_success_line(cells[name], label, _LOOKS[mechanism], band=True))
        lines.append(_success_line(control, f"{label}, noise only", _NOISE_LOOKS[mechanism]))
    free = cells[claims.Key(reading, pgc_a3c.ELEMENTWISE, math.inf, pgc_a3c.BUFFERS[pgc_a3c.LAPLACE])]
    lines.append(_success_line(free, "no privacy, |B| = 1", _LOOKS[pgc_a3c.ELEMENTWISE]))
    return chart(f"{reading}: \u03b5 = {epsilon:g}", lines, *_axes(cells, "success ratio", 1.02))


def _success_line(cell: claims.PaperCell, label: str, look: tuple[Shades, Look], *, band: bool = False) -> Line:
    """Return a line that steps up at every first success, with pointwise 95 % intervals."""
    first = cell.values["first_success"]
    times = np.unique(np.r_[0.0, first[np.isfinite(first)], cell.episodes])
    found = [share((first <= time).astype(np.float64))[:3] for time in times]
    # Each value lasts until the next time.
    value, *ends = np.repeat(np.array(found).T, 2, axis=1)[:, :-1]
    return curve(label, np.repeat(times, 2)[1:], value, look, ends if band and cell.count >= FEWEST_SEEDS else None)
