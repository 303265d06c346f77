"""Selection of the counter with the smallest error for a requested guarantee: `counter: auto`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from dprl.privacy.counters import COUNTERS, EXACT_COUNTERS, AnyCounter, KaryTree
from dprl.privacy.counters.base import law_names, node_of
from dprl.privacy.counters.kary_tree import mean_blocks
from dprl.privacy.mechanisms.base import INTEGER, Mechanism, Sensitivity

# Largest number of bytes of noise that a counter stores.
_MEMORY_LIMIT = 2 << 30


@dataclass(frozen=True)
class CounterRequirements:
    """Requirements for a counter.

    Args:
        epsilon, delta: the guarantee; delta = 0 asks for a pure one.
        row: change of a user's row if the user is replaced.
        n_items: T, the maximum number of users. n_cells: number of counters.
    """

    epsilon: float
    delta: float
    row: Sensitivity
    n_items: int
    n_cells: int


@dataclass(frozen=True)
class _Candidate:
    """One counter with one noise: the standard deviation of its prefixes, or the reason for its exclusion.

    Args:
        counter, mechanism: names.
        rms, largest: root mean square and maximum over the prefixes, in counts; infinite if it is excluded.
        note: the reason for its exclusion, or empty.
    """

    counter: str
    mechanism: str
    rms: float
    largest: float
    note: str


@dataclass(frozen=True)
class _CounterSelection:
    """The calibrated counter with the smallest root mean square error, and all compared candidates, best first."""

    counter: AnyCounter
    candidates: tuple[_Candidate, ...]

    @property
    def reason(self) -> str:
        """One sentence on the selected counter and the reason."""
        best = self.candidates[0]
        others = [c for c in self.candidates[1:] if math.isfinite(c.rms)]
        text = f"{best.counter} with {best.mechanism} noise has the smallest root mean square error, {best.rms:.4g}"
        if not others:
            return f"{text}; nothing else is possible here"
        return f"{text}; next: {others[0].counter} with {others[0].mechanism} noise, {others[0].rms:.4g}"


@lru_cache(maxsize=32)  # all seeds of a cell have the same one
def calibrate(
    counter: AnyCounter, mechanism: type[Mechanism], epsilon: float, delta: float, row: Sensitivity
) -> AnyCounter:
    """Return `counter` with the least noise of class `mechanism` that makes it (epsilon, delta)-DP for rows `row`.

    *Formal guarantee.* All T prefixes together are (epsilon, delta)-DP between neighbours that differ in one row by at
    most `row`, also if later rows depend on earlier outputs, in the arithmetic of the mechanism.

    Raises ValueError if that is impossible (Gaussian noise at delta = 0, or a law that the counter cannot use).
    """
    # Many small losses compose like squares, so another number of levels may be best for a tree.
    norms = {mechanism.norm} if delta <= 0.0 else {mechanism.norm, "l2"}
    shapes = {counter.suited(norm) for norm in sorted(norms)}
    calibrated = [shape.calibrated(mechanism, epsilon, delta, row) for shape in shapes]
    return calibrated[0] if len(calibrated) == 1 else min(calibrated, key=_mean_square)


def choose(
    required: CounterRequirements, counters: Iterable[str], mechanisms: Iterable[type[Mechanism]]
) -> _CounterSelection:
    """Return the counter of least root mean square error among all pairs of `counters` and `mechanisms`.

    Raises ValueError if no pair can give the guarantee.
    """
    tried = [
        _try(kind, mechanism, required)
        for name in counters
        for mechanism in mechanisms
        if (kind := counter_class(name, mechanism)).place in mechanism.places
    ]
    tried.sort(key=lambda pair: (pair[1].rms, pair[1].largest, pair[1].counter, pair[1].mechanism))
    candidates = tuple(candidate for _, candidate in tried)
    if not tried or tried[0][0] is None:
        raise ValueError(_none_possible(required, list(counters), candidates))
    return _CounterSelection(tried[0][0], candidates)


def counter_class(name: str, mechanism: type[Mechanism]) -> type[AnyCounter]:
    """Return the class of the counter of that name for noise of that class; KeyError for an unknown name."""
    return (EXACT_COUNTERS if mechanism.arithmetic == INTEGER else COUNTERS)[name]


def calibrated_of(
    name: str, mechanism: type[Mechanism], required: CounterRequirements, counters: Iterable[str] = tuple(COUNTERS)
) -> tuple[AnyCounter, str]:
    """Return the counter of that name with the least noise of class `mechanism`, or the best of `counters` for 'auto'.

    It comes with the reason if there was a choice. Raises ValueError if none can give the guarantee.
    """
    if name == "auto":
        choice = choose(required, counters, [mechanism])
        return choice.counter, choice.reason
    shape = counter_class(name, mechanism)(required.n_items)
    if note := _too_large(shape, required):
        raise ValueError(f"counter: {name} {note}")
    return calibrate(shape, mechanism, required.epsilon, required.delta, required.row), ""


def _none_possible(required: CounterRequirements, counters: list[str], candidates: tuple[_Candidate, ...]) -> str:
    """Return the reasons why no pair can give the guarantee, or only the reason of a single counter."""
    if len(counters) == 1:
        (name,) = counters
        if not candidates:
            allowed = law_names(COUNTERS[name].place)
            pure = (
                ", which needs a delta above 0; add delta: 1e-6" if required.delta <= 0.0 else "; write mechanism: auto"
            )
            return f"counter: {name} takes {allowed} noise only{pure}, or counter: kary_tree"
        if note := _too_large(COUNTERS[name](required.n_items), required):
            return f"counter: {name} {note}"
    notes = "; ".join(sorted({f"{c.counter} with {c.mechanism}: {c.note}" for c in candidates}))
    return f"counter must be one that can give the guarantee, got none: {notes or 'no pair of names'}"


def _too_large(counter: AnyCounter, required: CounterRequirements) -> str:
    """Return a message if the counter's noise exceeds the memory, else ''."""
    needed = counter.memory(required.n_cells)
    return f"needs {needed / 1e9:.3g} GB of noise, more than 2 GiB; use kary_tree" if needed > _MEMORY_LIMIT else ""


def _try(
    kind: type[AnyCounter], mechanism: type[Mechanism], required: CounterRequirements
) -> tuple[AnyCounter | None, _Candidate]:
    def out(note: str) -> tuple[None, _Candidate]:
        return None, _Candidate(kind.name, mechanism.name, math.inf, math.inf, note)

    try:
        shape = kind(required.n_items).suited(mechanism.norm)
        if note := _too_large(shape, required):
            return out(note)
        calibrated = calibrate(shape, mechanism, required.epsilon, required.delta, required.row)
    except ValueError as error:
        return out(str(error))
    rms, largest = _errors(calibrated)
    return calibrated, _Candidate(kind.name, mechanism.name, rms, largest, "")


def _mean_square(counter: AnyCounter) -> float:
    if isinstance(counter, KaryTree):
        return node_of(counter).variance * mean_blocks(counter.n_items, counter.k)
    return _errors(counter)[0] ** 2


def _errors(counter: AnyCounter) -> tuple[float, float]:
    """Return root mean square and maximum of the prefixes' standard deviations."""
    rms, largest = _unit_errors(replace(counter, node=None))
    node = math.sqrt(node_of(counter).variance)
    return node * rms, node * largest


@lru_cache(maxsize=256)  # the cells of a sweep share them
def _unit_errors(shape: AnyCounter) -> tuple[float, float]:
    """Return `_errors` for noise of variance 1."""
    return shape.errors()
