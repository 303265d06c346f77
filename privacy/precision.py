"""How far the counts that a learner gets are off, at most, with high probability: `precision: exact` and `printed`."""

from __future__ import annotations

from dprl.privacy.base import CountFamily
from dprl.privacy.channels import NoiseParts
from dprl.privacy.counters.error_bounds import running_sum_bound, unary_sum_bound
from dprl.privacy.layouts import Layout
from dprl.privacy.reports import UnaryReport


def error_bounds(layout: Layout, noise: NoiseParts, beta: float) -> dict[str, float]:
    """Return E by needed family: with probability 1 - beta no count of any cell and episode is off by more.

    A printed formula holds for each family at beta; the exact bounds share it.
    """
    families = layout.needed.families
    return {family.name: _error_bound(layout, noise, family, beta / len(families), beta) for family in families}


def _error_bound(layout: Layout, noise: NoiseParts, family: CountFamily, share: float, beta: float) -> float:
    n_cells, summands = layout.needed.n_steps * family.width, layout.summands(family)
    report, counter, printed = noise
    if printed is not None:
        law = report or counter.node
        return 0.0 if law is None else printed.error(law.scale, counter.n_items, n_cells, beta)
    if report is None:
        return counter.error_bound(n_cells, share, summands)
    if isinstance(report, UnaryReport):
        return _unary_bound(report, counter.n_items, n_cells, share, summands)
    return running_sum_bound(counter.n_items, report, n_cells, share, summands)
