"""Tables and figures specific to the page on [OT20]: controls, random search, privacy, and our own best settings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dprl.algorithms.base import Float64Array
from dprl.algorithms.pgc_a3c.random_search import first_successes
from dprl.envs import CartPoleGravity
from dprl.platform.configs.config import config_files, load_cells
from dprl.platform.configs.experiment import Scalar, varying_keys
from dprl.platform.reports.documents.markdown import markdown_table
from dprl.platform.reports.inference.effects import Estimate
from dprl.platform.reports.inference.intervals import FEWEST_SEEDS
from dprl.platform.reports.verdicts import epsilon_sign
from dprl.platform.reproductions import claims, pgc_a3c, robustness, tables
from dprl.platform.reproductions.engine import Findings, Paper, Ran, Request
from dprl.platform.reproductions.figures import COLOURS, DASHED, DOTTED, SOLID, Line, Panel, draw_panels
from dprl.platform.reproductions.resampling import compared, estimate, mean, median, share
from dprl.platform.results.layout import SweepLayout
from dprl.platform.results.summary import standing
from dprl.privacy import Streams

FIGURES = ("pgc_a3c_figure_2.png", "pgc_a3c_figure_3.png")
_BEST, _SEARCHES = "pgc_a3c_best", 400
_APART = ("privacy.model", "privacy.mechanism", "privacy.epsilon", "privacy.clip_norm")
"""Settings with a column of their own."""
_BEST_TEXT = """\
## Best mechanism per \u03b5 at the same guarantee, ours

Ours, not the paper's: other mechanisms and step sizes at the same guarantee. They were tuned on the simulator's scores
of other seeds, which real users would not give away. Sorted by \u03b5, then by the median; **bold** is the smallest
median at its \u03b5, chosen after seeing the rows of this table. Runs have {submissions:,} submissions, so
areas and mean scores are not comparable with those above.

"""
_TEXTS = ("reading", "mechanism", "settings", "verdict", "inside", "search")
_STYLES: dict[str, dict[str, Any]] = {
    pgc_a3c.LAPLACE: {"color": COLOURS[0], "ls": SOLID, "lw": 1.8},
    pgc_a3c.PROJECTED: {"color": COLOURS[1], "ls": DASHED, "lw": 1.8},
    pgc_a3c.ELEMENTWISE: {"color": COLOURS[6], "ls": (0, (1, 1.2)), "lw": 1.4},
}
"""Dashes and widths also distinguish the lines in grey."""
_NOISE_STYLES: dict[str, dict[str, Any]] = {
    pgc_a3c.LAPLACE: {"color": COLOURS[0], "ls": (0, (8, 2, 1.5, 2)), "lw": 0.9},
    pgc_a3c.PROJECTED: {"color": COLOURS[1], "ls": (0, (2.5, 2.5)), "lw": 0.9},
}
_BUFFER_STYLES: dict[int, dict[str, Any]] = {
    1: {"color": COLOURS[0], "ls": SOLID, "lw": 1.6},
    100: {"color": COLOURS[4], "ls": DASHED, "lw": 1.6},
}


@dataclass(frozen=True, eq=False)
class BestCell:
    """Private cell of our own sweep, pgc_a3c_best.

    proved: epsilon, and delta if it is positive. settings: those that distinguish it from the others.
    """

    epsilon: float
    proved: str
    mechanism: str
    settings: str
    cell: claims.Cell

    @classmethod
    def of(cls, flat: Mapping[str, Scalar], keys: Sequence[str], cell: claims.Cell) -> BestCell:
        """Return the cell with these parameters; `keys` are those that distinguish it from the others."""
        epsilon, delta = float(flat["privacy.epsilon"]), float(flat.get("privacy.delta", 0.0))
        proved = epsilon_sign(standing(cell.certificate).proved) + (f", \u03b4={delta:g}" if delta else "")
        told = [f"{name.rpartition('.')[2]} {_plain(flat[name])}" for name in keys if name in flat]
        return cls(epsilon, proved, str(flat["privacy.mechanism"]), ", ".join(told), cell)


def _plain(value: Scalar) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def extra(request: Request, further: Sequence[Ran]) -> dict[str, Any]:
    """Return the random searches, with the same draws every time, scores by environment, and our own best cells."""
    (ran,) = further
    env, runs, streams = CartPoleGravity().build(), request.searches or _SEARCHES, Streams(0, "random search")
    return {
        "greedy": first_successes(env, runs, streams, pgc_a3c.TARGET),
        "exploring": first_successes(env, runs, streams, pgc_a3c.TARGET, exploring=True),
        "robustness": robustness.scored(ran.cells),
        "robustness_made": ran.made,
        "best": _best_cells(request.home.resolve()),
    }


def _best_cells(home: Path) -> list[BestCell]:
    """Return the finished private cells of that sweep, sorted by epsilon and median; [] if it was never run."""
    layout = SweepLayout(home, _BEST)
    if _BEST not in config_files() or not layout.folder.is_dir():
        return []
    cells = layout.cells(load_cells(_BEST))
    keys = [name for name in varying_keys([cell.experiment for cell in cells]) if name not in _APART]
    found = []
    for cell in cells:
        flat = cell.experiment.parameters()
        if cell.finished and flat["privacy.model"] != "none":
            found.append(BestCell.of(flat, keys, pgc_a3c.read(cell.folder.results())))
    return sorted(found, key=lambda one: (one.epsilon, pgc_a3c.FIRST.estimate(one.cell).value))


def blocks(found: Findings) -> dict[str, str]:
    """Return the text of the placeholders that only this page has."""
    cells = found.cells
    least = min(cell.count for cell in cells.values())
    few = f" With {least} trials the column `as many runs` is resampled from no more than these; --full runs 100."
    literal = "The literal reading has the noise-only controls of R2: without gradients they are the same runs."
    return {
        "counted": f"{tables.run_counts(cells)} trials of {tables.longest(cells):,} submissions for each cell."
        + ("" if least > pgc_a3c.RUNS else few),
        "laplace_buffering": pgc_a3c.LAPLACE_BUFFERING.text,
        "projected_buffering": pgc_a3c.PROJECTED_BUFFERING.text,
        "controls": _control_table(cells),
        "literal": literal if "literal" in PAPER.present(cells) else "",
        "search": _search_table(found.extra),
        "scores": _score_table(cells),
        **robustness.blocks(found.extra["robustness"], found.extra["robustness_made"]),
        "noise": "; ".join(_noise(cells)) or "none",
        "best": _best_table(found.extra["best"]),
    }


def _control_table(cells: claims.Cells) -> str:
    lines = []
    for name, cell in cells.items():
        control = cells.get(name._replace(control=pgc_a3c.NOISE))
        if not name.control and control is not None and name.setting == pgc_a3c.BUFFERS.get(name.mechanism):
            difference = compared(cell.values["area"], control.values["area"], mean, pgc_a3c.RUNS)
            gained = Estimate(difference.difference, difference.lower, difference.upper, "linear")
            shares = [
                tables.number(float(mean(one.values[kind])), 3)
                for kind in ("success", "area")
                for one in (cell, control)
            ]
            row = [
                name.group,
                pgc_a3c.NAMES[name.mechanism],
                tables.epsilon_text(name.epsilon),
                *shares,
                tables.interval(gained, 3),
            ]
            lines.append((_place(name), row))
    headers = ["reading", "mechanism", "\u03b5", "success", "noise only", "area", "noise only", "area gained [95 %]"]
    return markdown_table(headers, [row for _, row in sorted(lines)], _TEXTS)


def _place(name: claims.Key) -> tuple[int, int, float]:
    order = [reading.name for reading in pgc_a3c.READINGS]
    return order.index(name.group), [*pgc_a3c.NAMES].index(name.mechanism), name.epsilon


def _search_table(found: Mapping[str, Any]) -> str:
    lines = []
    for name, words in (("greedy", "greedy"), ("exploring", "with the agents' exploration")):
        successes: Float64Array = found[name]
        ratio = share((successes < math.inf).astype(np.float64))
        shown = tables.interval(estimate(successes, median)), tables.interval(ratio, 3)
        lines.append([words, str(len(successes)), *shown])
    return markdown_table(["search", "runs", "median first success [95 %]", "success [95 %]"], lines, _TEXTS)


def _score_table(cells: claims.Cells) -> str:
    order = [reading.name for reading in pgc_a3c.READINGS]
    lines = [
        [name.group, pgc_a3c.NAMES[name.mechanism], tables.epsilon_text(name.epsilon), f"{name.setting:g}"]
        + [tables.interval(one.estimate(cell), one.decimals) for one in (pgc_a3c.MEAN_SCORE, pgc_a3c.FINAL)]
        for name, cell in cells.items()
        if not name.control
    ]
    lines.sort(key=lambda line: order.index(line[0]))
    return markdown_table(
        ["reading", "mechanism", "\u03b5", "buffer", "all [95 %]", "last 5,000 [95 %]"], lines, _TEXTS
    )


def _noise(cells: claims.Cells) -> list[str]:
    """Return the distinct ways in which noise is drawn."""
    every = (noise for cell in cells.values() for noise in cell.certificate["noise"])
    drawn = (f"{one['arithmetic']}, {one['entropy']}" for one in every if one.get("mechanism") != "raw")
    return list(dict.fromkeys(drawn))


def _best_table(best: Sequence[BestCell]) -> str:
    """Return the section on our own settings, '' if they were never run."""
    if not best:
        return ""
    lines, seen = [], set()
    for one in best:
        first = tables.interval(pgc_a3c.FIRST.estimate(one.cell))
        bold = f"**{first}**" if one.epsilon not in seen else first
        seen.add(one.epsilon)
        others = [
            tables.interval(each.estimate(one.cell), each.decimals)
            for each in (pgc_a3c.SUCCESS, pgc_a3c.AREA_UNDER, pgc_a3c.MEAN_SCORE)
        ]
        settings = [tables.epsilon_text(one.epsilon), one.proved, one.mechanism, one.settings]
        lines.append([*settings, bold, *others, str(one.cell.count)])
    headers = ["\u03b5", "proved", "mechanism", "settings", "median first success [95 %]"]
    headers += ["success [95 %]", "area [95 %]", "mean score [95 %]", "trials"]
    text = _BEST_TEXT.format(submissions=max(one.cell.episodes for one in best))
    return text + markdown_table(headers, lines, _TEXTS)


def figures(found: Findings) -> dict[str, bytes]:
    """Return Figures 2 and 3 of the paper from our trials."""
    cells = found.cells
    readings = [name for name in ("R1", "R2") if name in PAPER.present(cells)]
    trials = f"{tables.run_counts(cells)} trials"
    stretch = max(int(np.diff(cell.ends, prepend=0).max()) for cell in cells.values())
    scores = [[_score_panel(reading, mechanism, cells) for mechanism in pgc_a3c.BUFFERS] for reading in readings]
    successes = [[_success_panel(reading, epsilon, cells) for epsilon in pgc_a3c.EPSILONS] for reading in readings]
    return {
        FIGURES[0]: draw_panels(
            scores,
            f"Figure 2, \u03b5 = 1: mean score over {stretch:,} submissions, {trials}; band: middle half of them",
            ("submissions", "score (steps)"),
            (0.0, 208.0),
        ),
        FIGURES[1]: draw_panels(
            successes,
            f"Figure 3: share of trials with a first success by then, {trials}; bands: 95 % intervals (Clopper and "
            "Pearson)",
            ("submissions", "success ratio"),
            (0.0, 1.02),
        ),
    }


def _score_panel(reading: str, mechanism: str, cells: claims.Cells) -> Panel:
    """Return mean scores over submissions at epsilon 1 with and without buffering."""
    lines = []
    for size, style in _BUFFER_STYLES.items():
        cell = cells.get(claims.Key(reading, mechanism, 1.0, size))
        if cell is not None:
            band = np.quantile(cell.curves, (0.25, 0.75), axis=0) if cell.count >= FEWEST_SEEDS else None
            lines.append(Line(f"|B| = {size}", cell.ends, cell.curves.mean(axis=0), style, band))
    target = Line(
        f"target {pgc_a3c.TARGET:g}",
        [0, tables.longest(cells)],
        [pgc_a3c.TARGET] * 2,
        {"color": "0.4", "lw": 0.8, "ls": DOTTED},
    )
    return Panel(f"{reading}: {pgc_a3c.NAMES[mechanism]}", [*lines, target])


def _success_panel(reading: str, epsilon: float, cells: claims.Cells) -> Panel:
    """Return success ratios over submissions, with those of noise alone and those without privacy."""
    found: list[tuple[claims.Key, str, dict[str, Any], bool]] = []
    for mechanism, size in pgc_a3c.BUFFERS.items():
        name, label = claims.Key(reading, mechanism, epsilon, size), pgc_a3c.NAMES[mechanism]
        found.append((name, label, _STYLES[mechanism], True))
        found.append((name._replace(control=pgc_a3c.NOISE), f"{label}, noise only", _NOISE_STYLES[mechanism], False))
    free = claims.Key(reading, pgc_a3c.ELEMENTWISE, math.inf, pgc_a3c.BUFFERS[pgc_a3c.LAPLACE])
    found.append((free, "no privacy, |B| = 1", _STYLES[pgc_a3c.ELEMENTWISE], False))
    lines = [_success_line(cells[name], label, style, band) for name, label, style, band in found if name in cells]
    return Panel(f"{reading}: \u03b5 = {epsilon:g}", lines)


def _success_line(cell: claims.Cell, label: str, style: Mapping[str, Any], band: bool) -> Line:
    """Return a line that steps up at every first success, with pointwise 95 % intervals."""
    first = cell.values["first_success"]
    times = np.unique(np.r_[0.0, first[np.isfinite(first)], cell.episodes])
    hits = [(first <= time).astype(np.float64) for time in times]
    ends = np.array([share(one)[1:3] for one in hits]).T if band and cell.count >= FEWEST_SEEDS else None
    return Line(label, times, [one.mean() for one in hits], style, ends, steps=True)


def more(found: Findings) -> dict[str, Any]:
    """Return the random searches and the scores by environment as plain data."""
    return {
        "robustness": robustness.data(found.extra["robustness"]),
        "random_search": {
            name: {
                "runs": len(found.extra[name]),
                "first_success": claims.estimate_data(estimate(found.extra[name], median)),
            }
            for name in ("greedy", "exploring")
        },
    }


def named(name: claims.Key) -> dict[str, Any]:
    """Return the key of a cell as plain data."""
    return {
        "reading": name.group,
        "mechanism": name.mechanism,
        "epsilon": claims.finite_epsilon(name),
        "buffer_size": name.setting,
        "reports": name.control or "gradient",
    }


PAPER = Paper(
    name="pgc_a3c",
    config=pgc_a3c.CONFIG,
    runs=pgc_a3c.RUNS,
    groups=pgc_a3c.READINGS,
    names=pgc_a3c.NAMES,
    key=pgc_a3c.key,
    read=pgc_a3c.read,
    measures=(pgc_a3c.FIRST, pgc_a3c.SUCCESS, pgc_a3c.AREA_UNDER, pgc_a3c.MEAN_SCORE, pgc_a3c.FINAL),
    tables=pgc_a3c.TABLES,
    sentences=pgc_a3c.SENTENCES,
    extra=extra,
    blocks=blocks,
    figures=figures,
    more=more,
    named=named,
    units=("trials", "submissions"),
    further=(robustness.CONFIG,),
)
