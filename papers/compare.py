"""The runs of a paper's cells, statistics of their trials, and the page with the paper's numbers beside ours.

A paper is a module with CONFIG, the sweep of its cells; QUICK, overrides for --quick; TITLE and NOTES of its page;
`key` and `read`, which give the key of a cell and its trials; and `sections`, which makes the tables from all trials.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from dprl.algorithms.base import REGRET, Float64Array
from dprl.atomic_files import write_text
from dprl.platform.configs.config import load_cells
from dprl.platform.configs.experiment import Scalar
from dprl.platform.errors import UserError, counted
from dprl.platform.reports.number_texts import estimate_text
from dprl.platform.results.cell_folder import CellResults
from dprl.platform.results.home import Home
from dprl.platform.results.inference import CONFIDENCE, FEWEST_SEEDS, Estimate, effect, estimate
from dprl.platform.results.layout import SweepCell, SweepLayout
from dprl.platform.results.summary import by_seed, halved_at, standing
from dprl.platform.sweeps.sweep import SweepOptions, run_sweep

_RESAMPLES, _CHUNK = 4000, 500
"""Resamples, and how many are drawn at a time, which does not change results."""
_PERMUTATIONS = 9999
_SURE = 1e-12
NONE, NOT_VISIBLE = "\u2014", "not visible at this size"
DECADE = np.linspace(-1.0, 0.0, 11)
POINTS = [f"R(K 10^{exponent:.1f})" for exponent in DECADE]
"""Columns with the regret at points of the last decade."""

Statistic = Callable[..., Any]
"""np.mean or np.median: of values float64[..., n], with `axis`."""
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
    made = [f"Made by `{options.command}` from the sweep {options.name} ({paper.CONFIG}.yaml).", _sizes(finished)]
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


def _sizes(cells: Sequence[SweepCell]) -> str:
    """Return the number of cells and the range of their seeds and episodes, e.g. '53 cells of 100 seeds.'"""
    sizes = []
    for values in ([cell.experiment.seeds for cell in cells], [cell.experiment.episodes for cell in cells]):
        sizes.append(f"{min(values):,}" + f" to {max(values):,}" * (min(values) < max(values)))
    return f"{counted(len(cells), 'cell')} of {sizes[0]} seeds, {sizes[1]} episodes each."


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


def resampled(sample: Float64Array, statistic: Statistic, size: int, stream: int = 0) -> Float64Array:
    """Return the statistic of 4000 resamples of `size` of a sample float64[n], drawn with replacement.

    scipy.stats.bootstrap draws as many as the sample has, and averages infinite values. stream: samples with different
    streams have independent resamples.
    """
    generator = np.random.default_rng([len(sample), size, stream])
    draws = (generator.integers(0, len(sample), size=(_CHUNK, size)) for _ in range(0, _RESAMPLES, _CHUNK))
    return np.concatenate([statistic(sample[drawn], axis=-1) for drawn in draws])


def central(numbers: Float64Array) -> tuple[float, float]:
    """Return the ends of the central 95 % of `numbers`: two of them."""
    ordered = np.sort(numbers)
    outside = math.floor(len(ordered) * (1.0 - CONFIDENCE) / 2 + _SURE)
    return float(ordered[outside]), float(ordered[len(ordered) - 1 - outside])


def interval(sample: Float64Array, statistic: Statistic) -> Estimate:
    """Return the statistic of a sample float64[n] with its bootstrap interval."""
    ends = central(resampled(sample, statistic, len(sample))) if len(sample) >= FEWEST_SEEDS else (math.nan, math.nan)
    return Estimate(float(statistic(sample)), *ends, "linear")


def share(hits: Float64Array) -> Estimate:
    """Return the share of ones with the interval of Clopper and Pearson; a bootstrap of all ones has no width."""
    n, k = len(hits), int(np.sum(hits))
    if n < FEWEST_SEEDS:
        return Estimate(k / n, math.nan, math.nan, "linear")
    found = stats.binomtest(k, n).proportion_ci(CONFIDENCE, "exact")
    return Estimate(k / n, float(found.low), float(found.high), "linear")


def ratio(sample: Float64Array, reference: Float64Array, size: int | None = None) -> Estimate:
    """Return the quotient of two means, and the central 95 % for resamples: of `size`, or as many as there are.

    The ends are NaN if a resampled reference is 0.
    """
    sizes = (len(sample), len(reference)) if size is None else (size, size)
    one, other = resampled(sample, np.mean, sizes[0], 0), resampled(reference, np.mean, sizes[1], 1)
    few = min(len(sample), len(reference)) < FEWEST_SEEDS or not other.all()
    ends = (math.nan, math.nan) if few else central(one / other)
    mean = float(np.mean(reference))
    return Estimate(float(np.mean(sample)) / mean if mean else math.nan, *ends, "linear")


def difference(one: Float64Array, other: Float64Array, statistic: Statistic) -> Estimate:
    """Return the difference between the statistics of independent samples; two infinite values do not differ."""

    def less(x: Float64Array, y: Float64Array) -> Float64Array:
        return np.subtract(x, y, where=x != y, out=np.zeros(x.shape))

    value = float(less(*(np.asarray(statistic(each), dtype=np.float64) for each in (one, other))))
    if min(len(one), len(other)) < FEWEST_SEEDS:
        return Estimate(value, math.nan, math.nan, "linear")
    drawn = less(*(resampled(each, statistic, len(each), stream) for stream, each in enumerate((one, other))))
    return Estimate(value, *central(drawn), "linear")


def permutation_p(one: Float64Array, other: Float64Array) -> float:
    """Return the one-sided p-value for the mean of `one` exceeding that of `other`, by 9999 permutations.

    It is valid if both have the same distribution, whatever that is. Its least value is 1/10000.
    """

    def larger(x: Float64Array, y: Float64Array, axis: int) -> Float64Array:
        return np.asarray(np.mean(x, axis=axis) - np.mean(y, axis=axis))

    generator, n = np.random.default_rng([len(one), len(other)]), _PERMUTATIONS
    tested = stats.permutation_test(
        (one, other), larger, alternative="greater", n_resamples=n, vectorized=True, random_state=generator
    )
    return float(tested.pvalue)


def verdict(larger: Float64Array, smaller: Float64Array | None, statistic: Statistic, size: int) -> str:
    """Return whether a paper's 'larger exceeds smaller' holds in our trials: 'holds', 'fails' or 'open'.

    It is open if the interval of the difference contains 0. Without `smaller` the claim is that all trials are ones; it
    fails if fewer than 2.5 % of resamples of the paper's `size` are all ones.
    """
    if smaller is not None:
        found = difference(larger, smaller, statistic)
        return "holds" if found.lower > 0.0 else "fails" if found.upper < 0.0 else "open"
    highest = central(resampled(larger, np.mean, size))[1]
    return "holds" if larger.all() else "open" if highest == 1.0 else "fails"


def joint_verdict(verdicts: Sequence[str]) -> str:
    """Return the verdict on a sentence with several claims; '' without any."""
    return next((word for word in ("fails", "open", "holds") if word in verdicts), "")


# ---- rates: exponents of regret in K and in 1 / epsilon ----


def read_decade(results: CellResults) -> dict[str, Any]:
    """Return the regret of each seed at 11 episodes of the last decade, and whether a decade earlier it had bent.

    visible: whether the regret per episode had halved by K / 10; else most of the regret is that of the first policy.
    """
    ends, regrets = by_seed(results.records, REGRET.name)
    at = np.log(ends[-1]) + DECADE * math.log(10.0)
    curves = [np.exp(np.interp(at, np.log(ends), np.log(regret))) for regret in regrets.T]
    visible = bool(np.all(halved_at(results.records) <= ends[-1] / 10.0))
    points = dict(zip(POINTS, np.transpose(curves), strict=True))
    return {"K": int(ends[-1]), "visible": visible, **points}


def cell_key(flat: Mapping[str, Scalar]) -> dict[str, Any]:
    """Return the key of a cell: algorithm, trust model and claimed epsilon, infinite without privacy."""
    epsilon = math.inf if flat["privacy.model"] == "none" else float(flat["privacy.epsilon"])
    return {"algorithm": flat["algorithm.name"], "model": flat["privacy.model"], "epsilon": epsilon}


def slope(curves: Float64Array, at: Float64Array) -> Estimate | str:
    """Return the mean over seeds of the least-squares slopes of log curves float64[seeds, n] at float64[n]."""
    if not curves.size:
        return NONE
    return estimate(np.polyfit(at, np.log(curves).T, 1)[0]) if (curves > 0.0).all() else "not always above 0"


def rates(runs: pd.DataFrame, exponents: Mapping[str, tuple[float, float]]) -> list[Section]:
    """Return the tables of exponents of K and of 1 / epsilon.

    exponents: those of K that a paper states, by trust model: of regret R, and of the cost of privacy, R less the mean
    of the same algorithm without privacy; both are upper bounds.
    """
    in_k, in_epsilon = [], []
    private = runs[runs["model"] != "none"]
    for algorithm, model in private[["algorithm", "model"]].drop_duplicates().to_numpy().tolist():
        group, about = chosen(runs, algorithm=algorithm, model=model), {"algorithm": algorithm, "model": model}
        without = chosen(runs, algorithm=algorithm, model="none", K=group["K"].iloc[0])[POINTS].to_numpy()
        at_the_end = {}
        for epsilon in sorted(group["epsilon"].unique().tolist()):
            cell = chosen(group, epsilon=epsilon)
            regret, row = cell[POINTS].to_numpy(), {**about, "epsilon": epsilon, "K": cell["K"].iloc[0]}
            costs = regret - without.mean(axis=0) if len(without) else np.empty(0)
            for name, curves, stated in zip(("R", "cost"), (regret, costs), exponents[model], strict=True):
                ours = slope(curves, DECADE * math.log(10.0)) if cell["visible"].all() else NOT_VISIBLE
                row |= {f"{name}: at most": stated, f"{name}: ours": ours}
            in_k.append(row)
            if cell["visible"].all():
                at_the_end[epsilon] = (costs if len(without) else regret)[:, -1]
        curves, at = np.transpose([*at_the_end.values()]), -np.log([*at_the_end])
        of, used = "cost" if len(without) else "R", ", ".join(f"{epsilon:g}" for epsilon in at_the_end)
        ours = slope(curves, at) if len(at) > 1 else NOT_VISIBLE
        in_epsilon.append({**about, "of": of, "at most": 1.0, "ours": ours, "epsilons used": used})
    return [
        Section("Exponents of K over the last decade of a run", pd.DataFrame(in_k)),
        Section("Exponents of 1 / epsilon at the end of a run", pd.DataFrame(in_epsilon)),
    ]


def orders(runs: pd.DataFrame, stated: Sequence[tuple[str, str, str]]) -> Section:
    """Return a paper's order of algorithms by regret, as (model, larger, smaller), at each epsilon that both have."""
    rows = []
    for model, larger, smaller in stated:
        for epsilon in sorted(chosen(runs, model=model)["epsilon"].unique().tolist()):
            one, other = (chosen(runs, model=model, algorithm=name, epsilon=epsilon) for name in (larger, smaller))
            if one.empty or other.empty:
                continue
            found = effect(one[POINTS[-1]].to_numpy(), other[POINTS[-1]].to_numpy(), "log")
            verdict = "shows" if found.lower > 1.0 else "reversed" if found.upper < 1.0 else "no difference seen"
            about = {"model": model, "epsilon": epsilon, "order by the bounds": f"{larger} > {smaller}"}
            ratio = Estimate(found.value, found.lower, found.upper, "log")
            seen = one["visible"].all() and other["visible"].all()
            rows.append({**about, "ratio, ours": ratio, "verdict": verdict if seen else NOT_VISIBLE})
    return Section("Order of the algorithms", pd.DataFrame(rows))


def guarantees(runs: pd.DataFrame) -> Section:
    """Return the claimed epsilon beside the proved one."""
    names = ["model", "K", "claimed", "proved", "verdict"]
    rows = runs.loc[runs["model"] != "none", names].drop_duplicates(ignore_index=True)
    return Section("Epsilon claimed and proved", rows)


# ---- texts ----


def markdown(shown: pd.DataFrame) -> str:
    """Return a table of texts in Markdown."""
    lines = [[*shown.columns], [":--"] * len(shown.columns), *shown.to_numpy().tolist()]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
