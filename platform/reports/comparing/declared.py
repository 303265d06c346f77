"""Comparisons that are declared before any result is seen: cells that differ in one factor only."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Literal, NamedTuple

from dprl.platform.configs.varying import varies
from dprl.platform.reports.cell_texts import NOISE, PRIVACY, Settings, settings_in
from dprl.platform.reports.comparing.report_cells import ReportCell
from dprl.platform.reports.number_texts import number

Kind = Literal["algorithm", "noise", "epsilon", "compare"]
"""The factor in which two cells differ; 'compare' if a user asked for the pair."""

_ALGORITHM = "algorithm."
_NAME = "algorithm.name"
MOST_PAIRS = 200
"""With more comparisons at one privacy, none is declared: after adjustment no test would have power."""
SAME_EPSILON = 1.0 + 1e-6
"""Certified epsilons may exceed a claim by rounding errors."""


class Factors(NamedTuple):
    """The factors of a cell that vary within its group.

    constants: settings of the algorithm. noise: settings of privacy besides model, epsilon and delta. epsilon: the
    claimed one if the claim holds, else the certified one; infinite without privacy. ran: the noise that ran, if there
    are several algorithms; it follows from the other factors, and from the number of releases of the algorithm.
    """

    algorithm: str
    constants: Settings
    noise: Settings
    model: str
    delta: float
    epsilon: float
    ran: Hashable

    @property
    def private(self) -> bool:
        """Whether privacy was asked for."""
        return self.model != "none"

    @property
    def budget(self) -> tuple[str, float, float]:
        """Trust model, delta and epsilon."""
        return self.model, self.delta, self.epsilon

    @property
    def comparable(self) -> bool:
        """Whether the cell may be compared: one that asked for privacy must prove a finite epsilon."""
        return not self.private or math.isfinite(self.epsilon)

    def differences(self, other: Factors) -> tuple[str, ...]:
        """Return the factors that differ between two cells, in words.

        Constants of different algorithms differ if a shared constant has different values.
        """
        same_constants = compatible(self.constants, other.constants)
        if self.algorithm == other.algorithm:
            same_constants = self.constants == other.constants
        found = (
            ("algorithm", self.algorithm != other.algorithm),
            ("constants", not same_constants),
            ("noise", self.noise != other.noise or (self.budget == other.budget and self.ran != other.ran)),
            ("trust model", self.model != other.model),
            ("\u03b5", self.epsilon != other.epsilon),
            ("\u03b4", self.delta != other.delta),
        )
        return tuple(name for name, differs in found if differs)


def factors_of(cells: Sequence[ReportCell]) -> list[Factors]:
    """Return the factors of the cells of one group.

    If all cells have one algorithm, its varying settings play the part of the algorithm; noise that follows from them
    is then no factor of its own.
    """
    rows = [cell.row for cell in cells]
    keys = [key for key in dict.fromkeys(key for row in rows for key in row) if varies(key, rows)]
    constants = [key for key in keys if key.startswith(_ALGORITHM) and key != _NAME]
    noise = [key for key in keys if key.startswith(NOISE) and key not in PRIVACY]
    alone = len({row[_NAME] for row in rows}) == 1
    found = []
    for cell in cells:
        row, settings = cell.row, settings_in(cell.row, constants)
        name = str(row[_NAME])
        if alone:
            name, settings = " ".join([name, *(f"{key.rpartition('.')[2]}={value}" for key, value in settings)]), ()
        private = cell.private
        noise_settings = settings_in(row, noise) if private else ()
        ran = _noise_of(cell) if private and not alone else ()
        delta = float(row.get("claimed_delta", 0.0)) if private else 0.0
        claimed = float(row.get("claimed_epsilon", 0.0))
        # Without a claim that holds, the certified epsilon is rounded.
        epsilon = claimed if cell.proved <= claimed * SAME_EPSILON else float(number(cell.proved))
        epsilon = epsilon if private else math.inf
        found.append(Factors(name, settings, noise_settings, str(row["privacy.model"]), delta, epsilon, ran))
    return found


def declared_pairs(factors: Sequence[Factors]) -> dict[tuple[int, int], Kind]:
    """Return the declared comparisons of a group: pairs of places, smaller first, with the factor that differs.

    They are between two algorithms at the same privacy and noise, two kinds of noise for one algorithm at the same
    privacy, or two neighbouring epsilons for one algorithm and noise. Comparisons of algorithms are not declared if one
    privacy has more than MOST_PAIRS of them, nor comparisons of noise if one algorithm and privacy has.
    """
    found: dict[tuple[int, int], Kind] = {}
    for i, j in _other_algorithm(factors):
        found[min(i, j), max(i, j)] = "algorithm"
    for i, j in _other_noise(factors):
        found[min(i, j), max(i, j)] = "noise"
    for i, j in _next_epsilon(factors):
        found[min(i, j), max(i, j)] = "epsilon"
    return found


def compatible(one: Settings, other: Settings) -> bool:
    """Whether two algorithms have equal values of the constants that both have."""
    first, second = dict(one), dict(other)
    return all(first[key] == second[key] for key in first.keys() & second.keys())


def _other_algorithm(factors: Sequence[Factors]) -> Iterable[tuple[int, int]]:
    """Yield pairs with equal shared constants, whatever the constants that only one of the algorithms has.

    So algorithms that were tuned, each with constants of its own, are compared as they were tuned.
    """
    for bucket in _buckets(factors, lambda each: (each.budget, each.noise, each.ran)):
        pairs = itertools.combinations(bucket, 2)
        others = ((i, j) for i, j in pairs if factors[i].algorithm != factors[j].algorithm)
        yield from _few(_comparable_constants(factors, others))


def _comparable_constants(factors: Sequence[Factors], pairs: Iterable[tuple[int, int]]) -> Iterable[tuple[int, int]]:
    """Yield the pairs with equal constants, and other pairs if neither cell has an equal one of the other algorithm."""
    equal: set[tuple[int, str]] = set()
    mixed: list[tuple[int, int]] = []
    for i, j in pairs:
        if compatible(factors[i].constants, factors[j].constants):
            equal |= {(i, factors[j].algorithm), (j, factors[i].algorithm)}
            yield i, j
        else:
            mixed.append((i, j))
    for i, j in mixed:
        if (i, factors[j].algorithm) not in equal and (j, factors[i].algorithm) not in equal:
            yield i, j


def _other_noise(factors: Sequence[Factors]) -> Iterable[tuple[int, int]]:
    buckets = _buckets(factors, lambda each: (each.algorithm, each.constants, each.budget))
    for bucket in buckets:
        pairs = itertools.combinations(bucket, 2)
        yield from _few((i, j) for i, j in pairs if factors[i].noise != factors[j].noise)


def _next_epsilon(factors: Sequence[Factors]) -> Iterable[tuple[int, int]]:
    buckets = _buckets(factors, lambda each: (each.algorithm, each.constants, each.noise, each.model, each.delta))
    for bucket in buckets:
        by_epsilon: dict[float, list[int]] = {}
        for i in bucket:
            by_epsilon.setdefault(factors[i].epsilon, []).append(i)
        for less, more in itertools.pairwise(sorted(by_epsilon)):
            yield from itertools.product(by_epsilon[less], by_epsilon[more])


def _few(pairs: Iterable[tuple[int, int]]) -> Iterable[tuple[int, int]]:
    """Return all of the pairs, or none if there are more than MOST_PAIRS."""
    found = list(itertools.islice(pairs, MOST_PAIRS + 1))
    return found if len(found) <= MOST_PAIRS else []


def _buckets(factors: Sequence[Factors], key: Callable[[Factors], Hashable]) -> Iterable[list[int]]:
    """Return the places of comparable cells that agree in `key`."""
    found: dict[Hashable, list[int]] = {}
    for i, each in enumerate(factors):
        if each.comparable:
            found.setdefault(key(each), []).append(i)
    return found.values()


def _noise_of(cell: ReportCell) -> Hashable:
    """Return the kinds of noise in a cell's releases, their scale, the noisy sums that a user enters, and their error.

    Scales have six digits, because two calibrations of the same noise may differ in later ones. The error of a count
    has three: counters of equal scale differ in it if they release at other times.
    """
    kinds = frozenset(
        (each.get("mechanism"), float(f"{each.get('scale') or 0.0:.6g}"), each.get("nodes_per_user"))
        for each in cell.certificate.get("noise", ())
    )
    error = cell.row.get("noise_sd")
    return kinds, None if error is None else float(f"{error:.3g}")
