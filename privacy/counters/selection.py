"""Which counter has the smallest error for a requested guarantee, and by how much: `counter: auto`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from dprl.privacy.counters import COUNTERS, AnyCounter, BufferedToeplitz, KaryTree, NormalizedSquareRoot
from dprl.privacy.counters.base import law_names, node_of
from dprl.privacy.counters.kary_tree import mean_blocks
from dprl.privacy.counters.normalized_square_root import MEMORY_LIMIT
from dprl.privacy.mechanisms.base import INTEGER, Mechanism, Sensitivity
from dprl.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from dprl.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.laplace import Laplace

NODES: tuple[type[Mechanism], ...] = (Laplace, Gaussian, DiscreteLaplace, DiscreteGaussian)
"""The noise that `choose` tries in every counter that can use it."""
# Beyond, the error of the normalised square root takes seconds.
_QUICK_PROFILE = 5000
_GB, _GIB = 1e9, 2.0**30


@dataclass(frozen=True)
class Wanted:
    """What a counter is wanted for.

    Args:
        epsilon, delta: the guarantee; delta = 0 asks for a pure one.
        row: how much replacing a user changes that user's row.
        n_items: T, how many users at most. n_cells: how many counters.
        exact: whether noise must be integer, as a real release needs it.
        memory: bytes of noise that may be kept.
    """

    epsilon: float
    delta: float
    row: Sensitivity
    n_items: int
    n_cells: int
    exact: bool = False
    memory: int = MEMORY_LIMIT


@dataclass(frozen=True)
class Candidate:
    """One counter with one noise: the standard deviation of its prefixes, or why it is out.

    Args:
        counter, mechanism: names.
        rms, largest: root mean square and maximum over the prefixes, in counts; infinite if it is out.
        note: why it is out, or what the numbers are; empty if they are exact.
    """

    counter: str
    mechanism: str
    rms: float
    largest: float
    note: str


@dataclass(frozen=True)
class Choice:
    """The calibrated counter with the smallest root mean square error, and all that were compared, best first."""

    counter: AnyCounter
    candidates: tuple[Candidate, ...]

    @property
    def reason(self) -> str:
        """One sentence: which and why."""
        best = self.candidates[0]
        others = [c for c in self.candidates[1:] if math.isfinite(c.rms)]
        text = f"{best.counter} with {best.mechanism} noise has the smallest root mean square error, {best.rms:.4g}"
        if not others:
            return f"{text}; nothing else is possible here"
        return f"{text}; next: {others[0].counter} with {others[0].mechanism} noise, {others[0].rms:.4g}"


def calibrate(
    counter: AnyCounter, mechanism: type[Mechanism], epsilon: float, delta: float, row: Sensitivity
) -> AnyCounter:
    """Return `counter` with the least noise of class `mechanism` that makes it (epsilon, delta)-DP for rows `row`.

    *Formal guarantee.* All T prefixes together are (epsilon, delta)-DP between neighbours that differ in one row by at
    most `row`, also when later rows depend on earlier outputs, in the arithmetic of the mechanism.

    Raises ValueError if the mechanism cannot do that (Gaussian noise at delta = 0; a law that the counter cannot use).
    """
    # Composed, many small losses add up like squares: a tree may then want fewer levels or more.
    norms = {mechanism.norm} if delta <= 0.0 else {mechanism.norm, "l2"}
    shapes = {counter.suited(norm) for norm in sorted(norms)}
    calibrated = [replace(shape, node=mechanism.calibrated(epsilon, delta, shape.sensitivity(row))) for shape in shapes]
    return calibrated[0] if len(calibrated) == 1 else min(calibrated, key=_mean_square)


def choose(
    wanted: Wanted, counters: Iterable[str] = tuple(COUNTERS), mechanisms: Iterable[type[Mechanism]] = NODES
) -> Choice:
    """Return the counter of least root mean square error among all pairs of `counters` and `mechanisms`.

    Raises ValueError if no pair can give the guarantee.
    """
    tried = [
        _try(COUNTERS[name](wanted.n_items), mechanism, wanted)
        for name in counters
        for mechanism in mechanisms
        if mechanism.law in COUNTERS[name].laws
    ]
    tried.sort(key=lambda pair: (pair[1].rms, pair[1].largest, pair[1].counter, pair[1].mechanism))
    candidates = tuple(candidate for _, candidate in tried)
    if not tried or tried[0][0] is None:
        raise ValueError(_none_possible(wanted, list(counters), candidates))
    return Choice(tried[0][0], candidates)


def calibrated_of(name: str, mechanism: type[Mechanism], wanted: Wanted) -> tuple[AnyCounter, str]:
    """Return the counter of that name with the least noise of class `mechanism`, or the best one for 'auto'.

    With the reason where there was a choice. Raises ValueError if none can give the guarantee.
    """
    if name == "auto":
        choice = choose(wanted, mechanisms=[mechanism])
        return choice.counter, choice.reason
    shape = COUNTERS[name](wanted.n_items)
    check_memory(shape, wanted)
    return calibrate(shape, mechanism, wanted.epsilon, wanted.delta, wanted.row), ""


def check_memory(counter: AnyCounter, wanted: Wanted) -> None:
    """Raise ValueError if the counter keeps more noise than `wanted` allows."""
    if note := _too_large(counter, wanted):
        raise ValueError(f"counter: {counter.name} {note}")


def _none_possible(wanted: Wanted, counters: list[str], candidates: tuple[Candidate, ...]) -> str:
    """Return why no pair can give the guarantee; one counter's reason stands alone."""
    if len(counters) == 1:
        (name,) = counters
        if not candidates:
            allowed = law_names(COUNTERS[name].laws)
            pure = (
                ", which needs a delta above 0; add delta: 1e-6" if wanted.delta <= 0.0 else "; write mechanism: auto"
            )
            return f"counter: {name} takes {allowed} noise only{pure}, or counter: kary_tree"
        if note := _too_large(COUNTERS[name](wanted.n_items), wanted):
            return f"counter: {name} {note}"
    notes = "; ".join(sorted({f"{c.counter} with {c.mechanism}: {c.note}" for c in candidates}))
    return f"counter must be one that can give the guarantee, got none: {notes or 'no pair of names'}"


def _too_large(counter: AnyCounter, wanted: Wanted) -> str:
    """Return by how much the counter's noise exceeds the memory; nothing if it fits."""
    needed = counter.memory(wanted.n_cells)
    if needed <= wanted.memory:
        return ""
    limit = f"{wanted.memory / _GIB:.3g} GiB"
    smaller = BufferedToeplitz(wanted.n_items)
    fits = not isinstance(counter, BufferedToeplitz) and smaller.memory(wanted.n_cells) <= wanted.memory
    other = BufferedToeplitz.name if fits else KaryTree.name
    return f"needs {needed / _GB:.3g} GB of noise, more than {limit}; use {other}"


def _try(counter: AnyCounter, mechanism: type[Mechanism], wanted: Wanted) -> tuple[AnyCounter | None, Candidate]:
    def out(note: str) -> tuple[None, Candidate]:
        return None, Candidate(counter.name, mechanism.name, math.inf, math.inf, note)

    integer = mechanism.arithmetic == INTEGER
    if wanted.exact != integer:
        return out("exact arithmetic needs integer noise" if wanted.exact else "integer noise is for exact arithmetic")
    if wanted.exact and not counter.keeps_integers:
        return out("its prefixes are not integers")
    shape = counter.suited(mechanism.norm)
    if note := _too_large(shape, wanted):
        return out(note)
    try:
        calibrated = calibrate(counter, mechanism, wanted.epsilon, wanted.delta, wanted.row)
    except ValueError as error:
        return out(str(error))
    rms, largest, note = _errors(calibrated)
    return calibrated, Candidate(counter.name, mechanism.name, rms, largest, note)


def _mean_square(counter: AnyCounter) -> float:
    if isinstance(counter, KaryTree):
        return node_of(counter).variance * mean_blocks(counter.n_items, counter.k)
    return _errors(counter)[0] ** 2


def _errors(counter: AnyCounter) -> tuple[float, float, str]:
    """Return root mean square and maximum of the prefixes' standard deviations, and what they are."""
    rms, largest, note = _unit_errors(replace(counter, node=None))
    node = math.sqrt(node_of(counter).variance)
    return node * rms, node * largest, note


@lru_cache(maxsize=256)  # of every cell of a sweep the same
def _unit_errors(shape: AnyCounter) -> tuple[float, float, str]:
    """Return the same for noise of variance 1."""
    if isinstance(shape, NormalizedSquareRoot) and shape.n_items > _QUICK_PROFILE:
        return (*shape.errors_at_most(), "at most: the square root's error")
    return (*shape.errors(), "")
