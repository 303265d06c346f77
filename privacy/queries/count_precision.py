"""High-probability error bounds of released counts: `precision: exact` and `printed`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from dprl.privacy.counters import BinaryTree, GridToeplitz, KaryTree
from dprl.privacy.counters.base import Counter
from dprl.privacy.counters.error import (
    UnaryCell,
    grid_points,
    running_sum_bound,
    unary_cell_bound,
    weighted_sum_bound,
    weighted_tree_bound,
    weighted_unary_bound,
)
from dprl.privacy.mechanisms.base import INTEGER, Mechanism
from dprl.privacy.mechanisms.reports import UnaryEncoder
from dprl.privacy.queries.count_encoding import CountEncoding
from dprl.privacy.queries.count_families import CountFamily

PrintedError = Callable[[float, int, int, float], float]
"""Error bound E for the cells of one family, as a function of (Laplace scale b, n_users, n_cells, beta)."""
# For the exact bound of unary encodings; beyond this, a bound that is a few per cent larger is used.
_MOST_GRID_POINTS = 1e5


class NoiseSpec(NamedTuple):
    """The noise on counts.

    report: randomizes the client's message; None sends counts without noise. counter: the server's. printed: a paper's
    error bound to use instead of the exact one, or None.
    """

    report: Mechanism | UnaryEncoder | None
    counter: Counter
    printed: PrintedError | None = None

    @property
    def on_either_side(self) -> Mechanism | UnaryEncoder | None:
        """The law of the noise, on whichever side it is; None without noise."""
        return self.report or self.counter.node


@dataclass(frozen=True)
class WeightedSums:
    """Sums over cells of one family and step, with weights in [0, 1] that are fixed in advance.

    Args:
        family: its name. cells: number of cells in a sum; an episode enters at most one of them.
        number: number of such sums in all.
        users: the sums are read after each of the first `users` users.
    """

    family: str
    cells: int
    number: int
    users: int


def error_bounds(encoding: CountEncoding, noise: NoiseSpec, beta: float) -> dict[str, float]:
    """Return E by needed family: with probability 1 - beta no count of any cell and episode has a larger error.

    Errors are relative to the sum of all messages: a reward sent as a coin is itself a reward in [0, 1] with the same
    mean. A printed formula holds for each family at beta; exact bounds share beta.
    """
    families = encoding.needed.families
    return {family.name: _family_bound(encoding, noise, family, beta / len(families)) for family in families}


def _family_bound(encoding: CountEncoding, noise: NoiseSpec, family: CountFamily, share: float) -> float:
    n_cells = encoding.needed.layers * family.width
    if noise.printed is not None:
        law = noise.on_either_side
        beta = share * len(encoding.needed.families)
        return 0.0 if law is None else noise.printed(law.scale, noise.counter.n_items, n_cells, beta)
    return _sums_bound(noise, encoding.summands(family), n_cells, noise.counter.n_items, share, encoding.pooled)


@lru_cache(maxsize=1024)  # every seed of a cell asks for the same ones
def _sums_bound(noise: NoiseSpec, summands: int, number: int, users: int, beta: float, is_pooled: bool) -> float:
    """Return E for `number` sums of `summands` released cells each, after each of the first `users` users."""
    report, counter = noise.report, noise.counter
    if report is None:
        return counter.error_bound(number, beta, summands, users)
    if isinstance(report, UnaryEncoder):
        cell = _unary_cell(report, summands)
        if is_pooled or grid_points(cell) > _MOST_GRID_POINTS:
            return weighted_unary_bound(users, cell, beta / number, pooled=is_pooled)
        return unary_cell_bound(users, cell, number, beta)
    # The sums of `summands` cells after each user are among the partial sums of `users * summands` draws.
    return running_sum_bound(users * summands, report, number, beta)


def weighted_bound(encoding: CountEncoding, noise: NoiseSpec, sums: WeightedSums, beta: float) -> float:
    """Return E: with probability 1 - beta none of the weighted sums has an error above E.

    Weights in [0, 1] need no larger bound than weights of 1: for continuous noise see `Counter.error_bound`;
    whole-number noise and encodings have bounds by moment generating functions, a few per cent larger. The sums
    may depend on each other, because their failure probabilities are added.

    Raises ValueError with printed bounds, because no paper has one for weighted sums.
    """
    if noise.printed is not None:
        raise ValueError("precision must be exact here, got printed; no paper prints a bound for weighted sums")
    family = next(f for f in encoding.needed.families if f.name == sums.family)
    summands, users = encoding.summands(family) * sums.cells, min(sums.users, noise.counter.n_items)
    law, failure = noise.on_either_side, beta / sums.number
    if isinstance(law, UnaryEncoder):
        return weighted_unary_bound(users, _unary_cell(law, summands), failure, pooled=encoding.pooled)
    if law is None or law.arithmetic != INTEGER or isinstance(noise.counter, GridToeplitz):
        return _sums_bound(noise, summands, 1, users, failure, encoding.pooled)
    if noise.report is not None:
        return weighted_sum_bound(users, law, summands, failure)
    if not isinstance(noise.counter, BinaryTree | KaryTree):
        raise ValueError(f"counter must be one of binary_tree, kary_tree, got {noise.counter.name}; others take no law")
    return weighted_tree_bound(noise.counter.depths(users), law, summands, failure)


def _unary_cell(report: UnaryEncoder, cells: int) -> UnaryCell:
    encoding = report.encoding
    return UnaryCell(encoding.hot_probability, encoding.cold_probability, report.n_steps, cells, encoding.exclusive)
