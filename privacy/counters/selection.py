"""Selection of the counter with the smallest error for a requested guarantee: `counter: auto`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

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


class CounterChoice(NamedTuple):
    """A calibrated counter, the root mean square of its prefixes' standard deviations, and why it was chosen."""

    counter: AnyCounter
    rms: float
    reason: str


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

    def mean_square(each: AnyCounter) -> float:
        if isinstance(each, KaryTree):
            return node_of(each).variance * mean_blocks(each.n_items, each.k)
        return deviations(each)[0] ** 2

    return calibrated[0] if len(calibrated) == 1 else min(calibrated, key=mean_square)


def choose(
    required: CounterRequirements, counters: Iterable[str], mechanisms: Iterable[type[Mechanism]]
) -> CounterChoice:
    """Return the counter of least root mean square error among all pairs of `counters` and `mechanisms`.

    Raises ValueError with all reasons if no pair can give the guarantee.
    """
    names, found, notes = list(counters), [], set()
    for name in names:
        for mechanism in mechanisms:
            kind = counter_class(name, mechanism)
            if kind.place not in mechanism.places:
                continue
            try:
                counter = _calibrated(kind, mechanism, required)
            except ValueError as error:
                notes.add(f"{kind.name} with {mechanism.name}: {error}")
            else:
                found.append((*deviations(counter), kind.name, mechanism.name, counter))
    if not found:
        if len(names) == 1 and not notes:
            raise ValueError(_no_law(names[0], required))
        if len(names) == 1 and (note := _too_large(COUNTERS[names[0]](required.n_items), required)):
            raise ValueError(f"counter: {names[0]} {note}")
        reasons = "; ".join(sorted(notes)) or "no pair of names"
        raise ValueError(f"counter must be one that can give the guarantee, got none: {reasons}")
    (rms, _, name, law, counter), *others = sorted(found, key=lambda each: each[:4])
    text = f"{name} with {law} noise has the smallest root mean square error, {rms:.4g}"
    if not others:
        return CounterChoice(counter, rms, f"{text}; nothing else is possible here")
    next_rms, _, next_name, next_law, _ = others[0]
    return CounterChoice(counter, rms, f"{text}; next: {next_name} with {next_law} noise, {next_rms:.4g}")


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


def counter_class(name: str, mechanism: type[Mechanism]) -> type[AnyCounter]:
    """Return the class of the counter of that name for noise of that class; KeyError for an unknown name."""
    return (EXACT_COUNTERS if mechanism.arithmetic == INTEGER else COUNTERS)[name]


def deviations(counter: AnyCounter) -> tuple[float, float]:
    """Return root mean square and maximum of the prefixes' standard deviations, in counts."""
    rms, largest = _unit_errors(replace(counter, node=None))
    node = math.sqrt(node_of(counter).variance)
    return node * rms, node * largest


@lru_cache(maxsize=256)  # the cells of a sweep share them
def _unit_errors(shape: AnyCounter) -> tuple[float, float]:
    return shape.errors()


def _calibrated(kind: type[AnyCounter], mechanism: type[Mechanism], required: CounterRequirements) -> AnyCounter:
    shape = kind(required.n_items).suited(mechanism.norm)
    if note := _too_large(shape, required):
        raise ValueError(note)
    return calibrate(shape, mechanism, required.epsilon, required.delta, required.row)


def _too_large(counter: AnyCounter, required: CounterRequirements) -> str:
    """Return a message if the counter's noise exceeds the memory, else ''."""
    needed = counter.memory(required.n_cells)
    return f"needs {needed / 1e9:.3g} GB of noise, more than 2 GiB; use kary_tree" if needed > _MEMORY_LIMIT else ""


def _no_law(name: str, required: CounterRequirements) -> str:
    """Return the message that no asked law is possible for a counter."""
    pure = ", which needs a delta above 0; add delta: 1e-6" if required.delta <= 0.0 else "; write mechanism: auto"
    return f"counter: {name} takes {law_names(COUNTERS[name].place)} noise only{pure}, or counter: kary_tree"
