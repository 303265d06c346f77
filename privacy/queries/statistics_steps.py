"""Steps in the derivation of noise on statistics, from one message to all numbers of a user."""

from __future__ import annotations

import math

from dprl.privacy.derivation import Step, code_of, weights_of_stages
from dprl.privacy.mechanisms.base import Sensitivity
from dprl.privacy.mechanisms.gram import GramRelease, gram_sensitivity

_PLACE, _VECTOR = "docs/ma_ldp.md#privacy", "All numbers of a user are one vector: L1 norms and squared L2 norms add up"


def message_step(release: GramRelease, norm: str) -> Step:
    """Return the step to the change of one agent's message at the first stage, in a norm."""
    m, name = release.bounds[0], f"replacing one user, in one message of the first stage, {norm.upper()}"
    change, code = gram_sensitivity(release.dimension, m), code_of(gram_sensitivity)
    if norm == "l2":
        lemma = "Features and values are clipped to m: the worst pair has the cosine -1/2"
        return Step(name, "sqrt(4.5) * m**2", {"m": m}, change.l2, lemma, _PLACE, code)
    lemma = "Features and values are clipped to m: c is the largest L1 distance for m = 1 in this dimension"
    return Step(name, "c * m**2", {"c": change.l1 / m**2, "m": m}, change.l1, lemma, _PLACE, code)


def row_steps(release: GramRelease, unit: float, norm: str, row: Sensitivity) -> list[Step]:
    """Return the steps to the change of all messages, in units of their noise.

    unit: noise scale of the first stage. row: the change of all messages.
    """
    first = message_step(release, norm)
    for factor, size, names in weights_of_stages(release, 4 if norm == "l2" else 2):
        square = norm == "l2"
        value = (math.sqrt(size) if square else size) * first.value / unit
        if math.isclose(value, float(getattr(row, norm)), rel_tol=1e-9):
            formula = f"{f'sqrt({factor})' if square else factor} * change / unit"
            name = f"all messages of a user, in units of their noise, {norm.upper()}"
            numbers = {**names, "change": first.value, "unit": unit}
            return [first, Step(name, formula, numbers, value, _VECTOR, _PLACE, code_of(row_steps))]
    return [first]


def correction_steps(rows: int, clip: float, norm: str, unit: float = 1.0, messages: float = 0.0) -> list[Step]:
    """Return the steps to the change of reward corrections, alone and with all messages, in units of their noise.

    rows: number of corrections of a user. clip: their largest norm. messages: the change of all messages, 0 if they are
    a separate release.
    """
    numbers, code = {"clip": clip, "corrections": float(rows)}, code_of(correction_steps)
    square = norm == "l2"
    formula, value = "2 * clip * corrections", 2.0 * clip * rows
    if square:
        formula, value = "2 * clip * sqrt(corrections)", 2.0 * clip * math.sqrt(rows)
    if messages:
        formula, value, numbers["unit"] = f"{formula} / unit", value / unit, unit
    name = f"all reward corrections of a user{', in units of their noise' if messages else ''}, {norm.upper()}"
    found = [Step(name, formula, numbers, value, "Each is clipped, and moves by its diameter at most", _PLACE, code)]
    if messages:
        together, total = "messages + rewards", messages + value
        if square:
            together, total = "sqrt(messages**2 + rewards**2)", math.hypot(messages, value)
        name, parts = f"messages and corrections together, {norm.upper()}", {"messages": messages, "rewards": value}
        found.append(Step(name, together, parts, total, _VECTOR, _PLACE, code))
    return found
