"""Cells of the config that a command names, and their planned certificates."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from dprl.platform.configs.config import load_cells
from dprl.platform.configs.experiment import Experiment, varying_keys
from dprl.platform.configs.memory import require_memory
from dprl.platform.configs.sections import field_names
from dprl.platform.errors import UserError, below, print_error
from dprl.privacy import Certificate

T = TypeVar("T")


def overrides(options: argparse.Namespace) -> list[str]:
    """Return the values that the command line replaces in the config, --name and --memory among them."""
    name, memory = getattr(options, "name", None), getattr(options, "memory", None)
    # Quoted, because YAML would read a name such as 1e5 as a number.
    named = [] if name is None else [f"name={json.dumps(name)}"]
    return [*options.set, *named, *([] if memory is None else [f"memory={memory}"])]


def expanded_cells(options: argparse.Namespace) -> list[Experiment]:
    """Return the cells of the config that the command names. Raises UserError."""
    cells = load_cells(options.config, overrides(options))
    # Before anything is built: an environment may need more memory than there is. `certify` runs no cell.
    require_memory(cells, run=options.command != "certify", here=getattr(options, "address", None) is None)
    return cells


def labels_of(cells: Sequence[Experiment]) -> list[str]:
    """Return names of cells by the settings that vary, in a sweep's order, trust model and epsilon always included."""
    varying = varying_keys(cells)
    keys = [*(key for key in ("privacy.model", "privacy.epsilon") if key not in varying), *varying]
    return [cell.short_name(keys) for cell in cells]


def computed(cells: Sequence[Experiment], compute: Callable[[Experiment], T]) -> Iterator[T]:
    """Yield the result of `compute` for every cell.

    Raises UserError, placed at its section of the config, if the privacy settings of a cell do not fit together.
    """
    for i, cell in enumerate(cells):
        try:
            found = compute(cell)
        except ValueError as error:
            told = below("privacy", field_names(type(cell.privacy)), str(error))
            raise UserError(f"{labels_of(cells)[i]}: {told}") from None
        yield found


def certificates_of(cells: Sequence[Experiment]) -> list[Certificate]:
    """Return every cell's planned certificate, before anything is written. Raises UserError like `computed`.

    Prints a line on standard error for each cell that is known to prove nothing.
    """
    found = list(computed(cells, Experiment.certificate))
    for i, line in enumerate(computed(cells, Experiment.expected)):
        if line:
            print_error(f"dprl: {labels_of(cells)[i]}: {line}")
    return found


def planned_certificates(cells: Sequence[Experiment]) -> list[dict[str, Any]]:
    """Return planned certificates as JSON-ready data, with each cell's digest and parameters. Raises UserError."""
    return [
        {"cell": cell.digest, "parameters": cell.parameters(), **proved.to_dict()}
        for cell, proved in zip(cells, certificates_of(cells), strict=True)
    ]
