"""Sweep that adds seeds, stage by stage, to cells with declared comparisons that are not significant yet."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from dprl.platform.configs.experiment import LARGEST_SEED, MOST_SEEDS, Experiment
from dprl.platform.errors import broken_rule
from dprl.platform.reports.comparing.groups import groups_of
from dprl.platform.reports.comparing.report_cells import ReportCell, read_cells
from dprl.platform.reports.inference.intervals import FEWEST_SEEDS
from dprl.platform.results.layout import SweepLayout
from dprl.platform.results.sweep_identity import Stages
from dprl.platform.sweeps.sweep import SweepOptions, SweepResult, run_sweep

_STAGES = 5
"""Default maximum."""


def stages_asked_for(cells: Sequence[Experiment], most_seeds: str | None) -> Stages:
    """Return the stages of a sweep: the config's seeds in each, at most `most_seeds` together. Raises UserError."""
    seeds = {cell.seeds for cell in cells}
    if len(seeds) > 1 or min(seeds) < FEWEST_SEEDS:
        rule = f"must be one number for all cells, at least {FEWEST_SEEDS}, with --adaptive"
        raise broken_rule("seeds", rule, sorted(seeds), "write e.g. seeds: 5")
    each = seeds.pop()
    distinct = {cell.digest: cell for cell in cells}.values()
    if len({dataclasses.replace(cell, seed=0).digest for cell in distinct}) < len(distinct):
        rule = "must not be the only difference of two cells with --adaptive, which adds seeds itself"
        raise broken_rule("seed", rule, sorted({cell.seed for cell in distinct}), "write one number, e.g. seed: 0")
    stages = Stages(each, _STAGES if most_seeds is None else _most(most_seeds, each) // each)
    last = max(cell.seed for cell in cells) + (stages.most - 1) * each
    if last > LARGEST_SEED:
        rule = f"must leave room for {stages.most} stages of {each} seeds up to {LARGEST_SEED}"
        raise broken_rule("seed", rule, max(cell.seed for cell in cells), "take a smaller one, e.g. seed: 0")
    return stages


def _most(seeds: str, each: int) -> int:
    """Return how many seeds a cell may have at most. Raises UserError."""
    most = int(seeds) if seeds.isdecimal() else 0
    if not each <= most <= MOST_SEEDS:
        rule = f"must be a whole number from the config's seeds, {each}, to {MOST_SEEDS}"
        raise broken_rule("--most-seeds", rule, seeds, f"write e.g. {_STAGES * each}")
    return most


def run_adaptive(cells: Sequence[Experiment], options: SweepOptions, stages: Stages) -> SweepResult:
    """Run the cells stage by stage and return the result of all of them, as `run_sweep` does.

    A stage of a cell is an ordinary cell with the next seeds; finished stages are therefore not run again. After each
    stage, the cells with a declared comparison without a significant difference continue. Raises as `run_sweep` does.
    """
    options = dataclasses.replace(options, stages=stages)
    layout = SweepLayout(options.home.resolve(), options.name)
    first = list({cell.digest: cell for cell in cells}.values())
    every, going = list(first), list(first)
    result = run_sweep(every, options) if options.fresh else None
    options = dataclasses.replace(options, fresh=False)
    for stage in range(1, stages.most + 1):
        # Finished stages need no sweep of their own: it would forget the later stages.
        if result is None or len(result.summary) < len(every):
            result = None if _done(layout, every) else run_sweep(every, options)
        if result is not None and result.failed:
            return result
        going = _undecided(layout, every, going, stages, stage)
        if not going or stage == stages.most:
            break
        every += [dataclasses.replace(cell, seed=cell.seed + stage * stages.seeds) for cell in going]
    return result if result is not None else run_sweep(every, options)


def _done(layout: SweepLayout, cells: Sequence[Experiment]) -> bool:
    """Whether all the cells are finished and in the sweep's grid: reports read only cells in the grid."""
    known = layout.grid().cells
    return all(cell.finished and cell.digest in known for cell in layout.cells(cells))


def _undecided(
    layout: SweepLayout, every: Sequence[Experiment], going: Sequence[Experiment], stages: Stages, stage: int
) -> list[Experiment]:
    """Return the cells among `going` that have a comparison not significant after the first `stage` stages.

    The report declares the comparisons. A cell in none of them gets no more seeds.
    """
    known = {cell.digest for cell in layout.cells(every)}
    # An earlier call may have gone further.
    found = [cell.first_seeds(stage * stages.seeds) for cell in read_cells([layout]) if known & _digests(cell)]
    still: set[str] = set()
    for group in groups_of(found, stages):
        for comparison in group.comparisons.values():
            if not comparison.test.significant:
                test = comparison.test
                still |= _digests(group.cells[test.first]) | _digests(group.cells[test.second])
    return [cell for cell in going if cell.digest in still]


def _digests(cell: ReportCell) -> set[str]:
    """Return the digests of the cells that make up this one."""
    return set(str(cell.row["cell"]).split())
