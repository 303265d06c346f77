"""Selection of the counter with the smallest error for a requested guarantee: `counter: auto`."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

from dprl.privacy.base import Sensitivity
from dprl.privacy.counters import COUNTERS, EXACT_COUNTERS, AnyCounter, KaryTree
from dprl.privacy.counters.base import law_names, node_of
from dprl.privacy.counters.trees import mean_blocks
from dprl.privacy.mechanisms.base import INTEGER, Mechanism

# Largest number of bytes of noise that a counter stores.
_MEMORY_LIMIT = 2 << 30


@lru_cache(maxsize=4096)  # the cells of a sweep share them
def calibrate(
    counter: AnyCounter, mechanism: type[Mechanism], epsilon: float, delta: float, row: Sensitivity
) -> AnyCounter:
    """Return `counter` with the least noise of class `mechanism` that makes it (epsilon, delta)-DP for rows `row`.

    *Formal guarantee.* All T prefixes together are (epsilon, delta)-DP between neighbours that differ in one row by at
    most `row`, also if later rows depend on earlier outputs, in the arithmetic of the mechanism.

    A k-ary tree gets the best base. Raises ValueError for Gaussian noise at delta = 0 or a law the counter cannot use.
    """
    if not isinstance(counter, KaryTree):
        return counter.calibrated(mechanism, epsilon, delta, row)
    # Many small losses compose like squares, so another number of levels may be best.
    norms = {mechanism.norm} if delta <= 0.0 else {mechanism.norm, "l2"}
    trees = [counter.suited(norm).calibrated(mechanism, epsilon, delta, row) for norm in sorted(norms)]
    return min(trees, key=lambda tree: node_of(tree).variance * mean_blocks(tree.n_items, tree.base))


@lru_cache(maxsize=4096)
def choose(
    counters: tuple[str, ...],
    mechanisms: tuple[type[Mechanism], ...],
    epsilon: float,
    delta: float,
    row: Sensitivity,
    n_items: int,
    n_cells: int,
) -> tuple[AnyCounter, float, str]:
    """Return the counter of least root mean square error among all pairs of `counters` and `mechanisms`.

    It comes with that error, the root mean square of its prefixes' standard deviations in counts, and with the reason.
    Raises ValueError with all reasons if no pair can give the guarantee.

    Args:
        counters: names. mechanisms: classes of noise.
        epsilon, delta: the guarantee; delta = 0 asks for a pure one. row: change of a user's row if it is replaced.
        n_items: T, the maximum number of users. n_cells: number of counters.
    """
    found, notes = [], set()
    for name in counters:
        for mechanism in mechanisms:
            kind = _kind(name, mechanism)
            if kind.place not in mechanism.places:
                continue
            try:
                counter = kind(n_items).suited(mechanism.norm)
                _check_memory(counter, n_cells)
                counter = counter.calibrated(mechanism, epsilon, delta, row)
            except ValueError as error:
                notes.add(f"{kind.name} with {mechanism.name}: {error}")
            else:
                deviation = math.sqrt(node_of(counter).variance)
                rms, largest = (deviation * error for error in _unit_errors(replace(counter, node=None)))
                found.append((rms, largest, kind.name, mechanism.name, counter))
    if not found:
        if len(counters) == 1:
            only = COUNTERS[counters[0]](n_items)
            _check_memory(only, n_cells)
            if not notes:
                pure = ", which needs a delta above 0; add delta: 1e-6" if delta <= 0.0 else "; write mechanism: auto"
                raise ValueError(
                    f"counter: {only.name} takes {law_names(only.place)} noise only{pure}, or counter: kary_tree"
                )
        reasons = "; ".join(sorted(notes)) or "no pair of names"
        raise ValueError(f"counter must be one that can give the guarantee, got none: {reasons}")
    (rms, _, name, law, counter), *others = sorted(found, key=lambda each: each[:4])
    text = f"{name} with {law} noise has the smallest root mean square error, {rms:.4g}"
    if not others:
        return counter, rms, f"{text}; nothing else is possible here"
    next_rms, _, next_name, next_law, _ = others[0]
    return counter, rms, f"{text}; next: {next_name} with {next_law} noise, {next_rms:.4g}"


def calibrated_of(
    name: str,
    mechanism: type[Mechanism],
    epsilon: float,
    delta: float,
    row: Sensitivity,
    n_items: int,
    n_cells: int,
    counters: tuple[str, ...] = tuple(COUNTERS),
) -> tuple[AnyCounter, str]:
    """Return the calibrated counter of that name, or for 'auto' the best of `counters`, with the reason of a choice."""
    if name == "auto":
        counter, _, reason = choose(counters, (mechanism,), epsilon, delta, row, n_items, n_cells)
        return counter, reason
    counter = _kind(name, mechanism)(n_items)
    _check_memory(counter, n_cells)
    return calibrate(counter, mechanism, epsilon, delta, row), ""


def _kind(name: str, mechanism: type[Mechanism]) -> type[AnyCounter]:
    return (EXACT_COUNTERS if mechanism.arithmetic == INTEGER else COUNTERS)[name]


@lru_cache(maxsize=256)  # the cells of a sweep share them
def _unit_errors(shape: AnyCounter) -> tuple[float, float]:
    return shape.errors()


def _check_memory(counter: AnyCounter, n_cells: int) -> None:
    needed = counter.memory(n_cells)
    if needed > _MEMORY_LIMIT:
        raise ValueError(f"counter: {counter.name} needs {needed / 1e9:.3g} GB of noise, above 2 GiB; use kary_tree")
