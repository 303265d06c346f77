"""How far the counts that a learner gets are off, at most, with high probability: `precision: exact` and `printed`."""

from __future__ import annotations

from functools import lru_cache

from dprl.privacy.base import CountFamily
from dprl.privacy.channels import NoiseParts
from dprl.privacy.counters.error_bounds import UnaryCell, running_sum_bound, unary_cell_bound
from dprl.privacy.layouts import Layout
from dprl.privacy.reports import UnaryReport


def error_bounds(layout: Layout, noise: NoiseParts, beta: float) -> dict[str, float]:
    """Return E by needed family: with probability 1 - beta no count of any cell and episode is off by more.

    Off from the sum of what users sent: a reward that is sent as a coin is itself a reward in [0, 1] of the same mean.
    A printed formula holds for each family at beta; the exact bounds share it.
    """
    return {family.name: _error_bound(layout, noise, family, beta) for family in layout.needed.families}


@lru_cache(maxsize=256)  # every seed of a cell asks for the same ones
def _error_bound(layout: Layout, noise: NoiseParts, family: CountFamily, beta: float) -> float:
    n_cells, summands = layout.needed.n_steps * family.width, layout.summands(family)
    report, counter, printed = noise
    if printed is not None:
        law = report or counter.node
        return 0.0 if law is None else printed.error(law.scale, counter.n_items, n_cells, beta)
    share = beta / len(layout.needed.families)
    if report is None:
        return counter.error_bound(n_cells, share, summands)
    if isinstance(report, UnaryReport):
        encoding, steps = report.encoding, report.n_steps if report.sampled else 1
        cell = UnaryCell(encoding.hot_probability, encoding.cold_probability, steps, summands)
        return unary_cell_bound(counter.n_items, cell, n_cells, share)
    # The sums of `summands` cells after each user are among the partial sums of so many times more draws.
    return running_sum_bound(counter.n_items * summands, report, n_cells, share)
