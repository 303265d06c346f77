"""What several commands need: cells and their certificates, output for people and programs."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dprl.platform.configs.config import load_cells
from dprl.platform.configs.experiment import Experiment, varying_keys
from dprl.platform.configs.memory import require_memory
from dprl.platform.configs.sections import field_names
from dprl.platform.errors import (
    EXIT_INTERRUPTED,
    Interrupted,
    UserError,
    below,
    broken_rule,
    complain,
    how_to_resume,
)
from dprl.platform.sweep_flags import DEFAULT_RESTARTS, MAX_RESTARTS

if TYPE_CHECKING:
    from dprl.platform.results.named_grid import Stages

_STDOUT, _STDERR = 1, 2
_MOST_RESTARTS = 10**6


def expanded_cells(options: argparse.Namespace) -> list[Experiment]:
    """Return the cells of the config that the command names. Raises UserError."""
    overrides = list(options.set)
    if getattr(options, "name", None) is not None:
        overrides.append(f"name={json.dumps(options.name)}")
    cells = load_cells(options.config, overrides)
    # Before anything is built: an environment may need more than there is. `certify` does not run what it certifies.
    require_memory(cells, run=options.command != "certify", here=getattr(options, "address", None) is None)
    return cells


def labels_of(cells: Sequence[Experiment]) -> list[str]:
    """Return names of cells that say the trust model and epsilon first, also of a single cell."""
    keys = list(dict.fromkeys(["privacy.model", "privacy.epsilon", *varying_keys(cells)]))
    return [cell.short_name(keys) for cell in cells]


def planned_certificates(cells: Sequence[Experiment]) -> list[dict[str, Any]]:
    """Return every cell's planned certificate, with the cell that it is for.

    Raises UserError if the settings of a cell do not fit together; nothing has been written then.
    """
    found = []
    for cell, label in zip(cells, labels_of(cells), strict=True):
        try:
            proved = cell.certificate().to_dict()
        except ValueError as error:
            raise unfit_settings(cell, label, error) from None
        found.append({"cell": cell.digest, "parameters": cell.parameters(), **proved})
    return found


def unfit_settings(cell: Experiment, label: str, error: ValueError) -> UserError:
    """Return the error for a cell whose privacy cannot be built: what the room says, at its place in the config."""
    return UserError(f"{label}: {below('privacy', field_names(type(cell.privacy)), str(error))}")


def stages_asked(cells: Sequence[Experiment], options: argparse.Namespace) -> Stages | None:
    """Return in which stages --adaptive adds seeds, None without it. Raises UserError, also for half of it."""
    if not options.adaptive:
        if options.most_seeds is not None:
            raise broken_rule("--most-seeds", "is only for --adaptive", options.most_seeds, "add --adaptive")
        return None
    # Only here: it loads pandas and the tests.
    from dprl.platform.sweeps.adaptive import stages_asked_for  # noqa: PLC0415

    return stages_asked_for(cells, options.most_seeds)


def restarts_asked(options: argparse.Namespace) -> int:
    """Return how often a cell goes on after its worker or node is lost, -1 for no limit. Raises UserError."""
    text = getattr(options, "max_restarts", None)
    if text is None:
        return DEFAULT_RESTARTS
    try:
        number = int(text)
    except ValueError:
        number = -2
    if not -1 <= number <= _MOST_RESTARTS:
        raise broken_rule(MAX_RESTARTS, f"must be a whole number from -1 to {_MOST_RESTARTS}", text, "write e.g. 20")
    return number


@contextmanager
def stdout_for_results(on_ray: bool = False) -> Iterator[None]:
    """Lead to standard error what anything prints meanwhile, or `on_ray` to nowhere.

    What a sweep itself tells meanwhile goes to standard error; on standard output Ray tells of dead workers, at length.
    """
    sys.stdout.flush()
    kept = os.dup(_STDOUT)
    if on_ray:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, _STDOUT)
        os.close(nowhere)
    else:
        os.dup2(_STDERR, _STDOUT)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, _STDOUT)
        os.close(kept)


def as_json(data: object) -> str:
    """Return `data` as the JSON text that `--json` prints."""
    return json.dumps(_json_ready(data), indent=2, allow_nan=False)


def _json_ready(value: object) -> object:
    """Return `value` as strict JSON: infinity as 'inf', NaN as null, NumPy numbers as plain ones."""
    if isinstance(value, Mapping):
        return {str(key): _json_ready(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_ready(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value


def interrupted(error: KeyboardInterrupt, options: argparse.Namespace) -> int:
    """Say how to go on, unless the sweep has said it, and return the exit code."""
    if not isinstance(error, Interrupted):
        complain(f"dprl: {how_to_resume(options.resume_command)}")
    return EXIT_INTERRUPTED


def say(text: str) -> None:
    """Print a line of the command's answer at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
