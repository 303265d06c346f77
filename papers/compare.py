"""The runs of a paper's cells, statistics of their trials, and the page with the paper's numbers beside ours.

A paper is a module with CONFIG, the sweep of its cells; QUICK, overrides for --quick; TITLE and NOTES of its page;
`key` and `read`, which give the key of a cell and its trials; and `sections`, which makes the tables from all trials.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from dprl.algorithms.base import Float64Array
from dprl.atomic_files import write_text
from dprl.platform.configs.config import load_cells
from dprl.platform.configs.experiment import Scalar
from dprl.platform.errors import UserError, counted
from dprl.platform.reports.number_texts import estimate_text
from dprl.platform.results.cell_folder import CellResults
from dprl.platform.results.home import Home
from dprl.platform.results.inference import CONFIDENCE, FEWEST_SEEDS, Estimate
from dprl.platform.results.layout import SweepCell, SweepLayout
from dprl.platform.results.summary import standing
from dprl.platform.sweeps.sweep import SweepOptions, run_sweep

_RESAMPLES = 4000
NONE = "\u2014"

Statistic = Callable[..., Any]
"""Of samples float64[..., n], over the last axis."""
Trials = Mapping[str, Float64Array | float]
"""Numbers of a cell by name: one for each trial, or one for all."""


class Section(NamedTuple):
    """A table of a page. data: its rows. shown: their texts in another form, if they do not stand there as they are."""

    title: str
    data: pd.DataFrame
    shown: pd.DataFrame | None = None

    @property
    def texts(self) -> pd.DataFrame:
        """The cells as text."""
        return (self.data if self.shown is None else self.shown).map(_text)

    def records(self) -> list[dict[str, Any]]:
        """Return the rows for programs."""
        plain = self.data.map(lambda cell: cell._asdict() if isinstance(cell, Estimate) else cell)
        return [{str(name): cell for name, cell in row.items()} for row in plain.to_dict("records")]


def _text(cell: object) -> str:
    if isinstance(cell, Estimate):
        return estimate_text(cell) or NONE
    if isinstance(cell, float | int) and not isinstance(cell, bool):
        return NONE if math.isnan(cell) else "\u221e" if math.isinf(cell) else f"{cell:.4g}"
    return NONE if cell is None else str(cell)


# ---- runs ----


def reproduce(
    paper: ModuleType, sweep: SweepOptions, quick: bool = False, overrides: Sequence[str] = ()
) -> tuple[list[Section], Path | None, list[str]]:
    """Run the unfinished cells of a paper, and write its page, <home>/reproductions/NAME[_quick].md.

    Returns its tables, the page and one line per failure; no tables and no page while cells are missing. sweep: options
    of the sweep, except for its name. Raises UserError if the sweep cannot start.
    """
    suffix = "_quick" * quick
    cells = load_cells(paper.CONFIG, [f"name={paper.CONFIG}{suffix}", *(paper.QUICK if quick else ()), *overrides])
    options = replace(sweep, name=cells[0].name)
    swept = run_sweep(cells, options)
    failed = [*swept.failed, *swept.unwritten]
    finished = [cell for cell in SweepLayout(options.home.resolve(), options.name).cells(cells) if cell.finished]
    if missing := len(cells) - len(finished):
        told = f"{counted(missing, 'cell')} of {len(cells)} not finished: no page was written"
        return [], None, [*failed, told]
    sections = paper.sections(trials(finished, paper.key, paper.read))
    sizes = ([getattr(cell.experiment, key) for cell in finished] for key in ("seeds", "episodes"))
    seeds, episodes = (" to ".join(f"{size:,}" for size in sorted({min(found), max(found)})) for found in sizes)
    made = [f"Made by `{options.command}` from the sweep {options.name} ({paper.CONFIG}.yaml)."]
    made.append(f"{counted(len(finished), 'cell')} of {seeds} seeds, {episodes} episodes each.")
    made += dict.fromkeys(f"Run with {cell.folder.made_by()}." for cell in finished)
    tables = [f"## {one.title}\n\n{markdown(one.texts)}" for one in sections if len(one.texts)]
    text = "\n\n".join([f"# {paper.TITLE}", "  \n".join(made), *tables, f"## Methods\n\n{paper.NOTES}"])
    page = Home(options.home.resolve()).reproductions / f"{paper.__name__.rpartition('.')[2]}{suffix}.md"
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        write_text(page, text)
    except OSError as error:
        raise UserError(f"{page}: must be a file that can be written, got '{error.strerror}'; free it") from None
    return sections, page, failed


def trials(
    cells: Sequence[SweepCell],
    key: Callable[[Mapping[str, Scalar]], Mapping[str, Any] | None],
    read: Callable[[CellResults], Trials],
) -> pd.DataFrame:
    """Return one row for each trial, with the columns of `key` and `read` and the certificate's.

    key: names a cell from its flat parameters, with infinite epsilon without privacy; None for a cell to be left out.
    read: the numbers of its trials. claimed, proved, verdict: of its certificate.
    """
    frames = []
    for cell in cells:
        name = key(cell.experiment.parameters())
        if name is not None:
            results = cell.folder.results()
            claimed, stands = results.certificate["claimed"]["epsilon"], standing(results.certificate)
            proof = {"claimed": claimed, "proved": stands.proved, "verdict": stands.verdict}
            frames.append(pd.DataFrame({**name, **read(results), **proof}))
    return pd.concat(frames, ignore_index=True)


def chosen(runs: pd.DataFrame, **key: object) -> pd.DataFrame:
    """Return the trials with these values in these columns."""
    return runs[np.logical_and.reduce([runs[name] == value for name, value in key.items()])]


def values(runs: pd.DataFrame, column: str, **key: object) -> Float64Array:
    """Return a column of the trials of one cell, float64[n]; empty if it was not run."""
    return chosen(runs, **key)[column].to_numpy(dtype=np.float64)


# ---- statistics: deterministic, and infinity counts like any large value ----


def bootstrap(statistic: Statistic, *samples: Float64Array, size: int | None = None) -> Estimate:
    """Return a statistic of independent samples, float64[n] each, with the central 95 % of it over 4000 resamples.

    Both ends are resampled values; they are NaN below 3 trials, or if a resample has no value. scipy.stats.bootstrap
    averages infinite values, and draws as many as a sample has. size: of a resample, if it is another.
    """
    value, ends = float(statistic(*samples)), (math.nan, math.nan)
    if min(map(len, samples)) >= FEWEST_SEEDS:
        drawn = []
        for stream, sample in enumerate(samples):
            n, many = len(sample), len(sample) if size is None else size
            generator = np.random.default_rng([n, many, stream])
            drawn.append(sample[generator.integers(0, n, size=(_RESAMPLES, many))])
        found = np.sort(statistic(*drawn))
        outside = round(_RESAMPLES * (1.0 - CONFIDENCE) / 2)
        if not np.isnan(found).any():
            ends = float(found[outside]), float(found[-1 - outside])
    return Estimate(value, *ends, "linear")


mean, median = partial(np.mean, axis=-1), partial(np.median, axis=-1)


def ratio(sample: Float64Array, reference: Float64Array) -> Float64Array:
    """Return the quotient of two means, NaN where the second one is 0."""
    one, other = np.asarray(mean(sample)), np.asarray(mean(reference))
    return np.asarray(np.divide(one, other, out=np.full(one.shape, math.nan), where=other != 0.0))


def share(hits: Float64Array) -> Estimate:
    """Return the share of ones with the interval of Clopper and Pearson; a bootstrap of all ones has no width."""
    n, k = len(hits), int(np.sum(hits))
    if n < FEWEST_SEEDS:
        return Estimate(k / n, math.nan, math.nan, "linear")
    found = stats.binomtest(k, n).proportion_ci(CONFIDENCE, "exact")
    return Estimate(k / n, float(found.low), float(found.high), "linear")


def verdict(larger: Float64Array, smaller: Float64Array | None, statistic: Statistic, size: int) -> str:
    """Return whether a paper's 'larger exceeds smaller' holds in our trials: 'holds', 'fails' or 'open'.

    It is open if the interval of the difference contains 0. Without `smaller` the claim is that all trials are ones; it
    fails if fewer than 2.5 % of resamples of the paper's `size` are all ones.
    """
    if smaller is None:
        highest = bootstrap(mean, larger, size=size).upper
        return "holds" if larger.all() else "open" if highest == 1.0 else "fails"

    def difference(one: Float64Array, other: Float64Array) -> Float64Array:
        x, y = np.asarray(statistic(one)), np.asarray(statistic(other))
        # Two infinite values do not differ.
        return np.asarray(np.subtract(x, y, where=x != y, out=np.zeros(x.shape)))

    found = bootstrap(difference, larger, smaller)
    return "holds" if found.lower > 0.0 else "fails" if found.upper < 0.0 else "open"


def joint_verdict(verdicts: Sequence[str]) -> str:
    """Return the verdict on a sentence with several claims; '' without any."""
    return next((word for word in ("fails", "open", "holds") if word in verdicts), "")


# ---- texts ----


def markdown(shown: pd.DataFrame) -> str:
    """Return a table of texts in Markdown."""
    lines = [[*shown.columns], [":--"] * len(shown.columns), *shown.to_numpy().tolist()]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
