"""Flags, output and numbers that several commands share."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from dprl.platform.errors import (
    EXIT_DONE,
    EXIT_INTERRUPTED,
    EXIT_SOME_FAILED,
    Interrupted,
    UserError,
    broken_rule,
    how_to_resume,
    print_error,
)
from dprl.platform.program import STDERR, STDOUT, redirected

if TYPE_CHECKING:
    from dprl.platform.configs.experiment import Experiment

_SET = "replace a value, e.g. env.horizon=10 or 'privacy={model: jdp, epsilon: 2}'; may be repeated"
_STORAGE = "as for sweep (default: $DPRL_HOME or ./dprl_runs)"
SWITCHES = {
    "--fresh": "delete earlier results of this name and restart",
    "--quiet": "print only results and errors",
}
"""Flags of `run`, `sweep` and `submit`, with their help."""


def add_config(parser: argparse.ArgumentParser) -> None:
    """Add CONFIG, --set and --json."""
    parser.add_argument("config", metavar="CONFIG", help="a YAML file, or the name of one in tune_configs/")
    add_set(parser)
    add_json(parser)


def add_set(parser: argparse.ArgumentParser, text: str = _SET) -> None:
    """Add --set."""
    parser.add_argument("--set", metavar="PATH=VALUE", action="append", default=[], help=text)


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add --json."""
    parser.add_argument("--json", action="store_true", help="print JSON for a program to read")


def add_storage(parser: argparse.ArgumentParser, text: str = _STORAGE) -> None:
    """Add --storage."""
    parser.add_argument("--storage", metavar="URI", help=text)


def add_naming(parser: argparse.ArgumentParser) -> None:
    """Add --name and SWITCHES."""
    parser.add_argument("--name", help="name of the sweep and of its folder (default: the config's name)")
    for flag, text in SWITCHES.items():
        parser.add_argument(flag, action="store_true", help=text)


def whole_number(flag: str, text: str, bounds: tuple[int, int], remedy: str) -> int:
    """Return the whole number in `text`, e.g. '40' or '1e5'. Raises UserError outside the bounds."""
    least, most = bounds
    try:
        value = math.nan if "_" in text else float(text)
    except ValueError:
        value = math.nan
    if not (value.is_integer() and least <= value <= most):
        raise broken_rule(flag, f"must be a whole number from {least} to {most}", text, remedy)
    return int(value)


def stdout_for_results(on_ray: bool = False) -> AbstractContextManager[None]:
    """Redirect standard output to standard error within the context, or discard it if `on_ray`.

    A sweep reports its progress on standard error; Ray prints long messages about dead workers on standard output.
    """
    return redirected(STDOUT, None if on_ray else STDERR)


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


def unwritable(path: str | Path, error: OSError, kind: str = "file", option: str = "--out") -> UserError:
    """Return the error for an --out that cannot be written."""
    return broken_rule(option, f"must be a {kind} that can be written ({error.strerror})", str(path), "choose another")


def interrupted(error: KeyboardInterrupt, options: argparse.Namespace) -> int:
    """Print the command that resumes, unless the sweep has already printed it, and return the exit code."""
    if not isinstance(error, Interrupted):
        print_error(f"dprl: {how_to_resume(options.resume_command)}")
    return EXIT_INTERRUPTED


def say(text: str) -> None:
    """Print a line of the command's answer at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def exit_code(failed: Sequence[str], unwritten: Sequence[str] = ()) -> int:
    """Print a line for each failure and each file that was not written, and return the exit code."""
    for line in failed:
        print_error(f"dprl: failed: {line}")
    for line in unwritten:
        print_error(f"dprl: not written: {line}")
    return EXIT_SOME_FAILED if failed or unwritten else EXIT_DONE


def overrides(options: argparse.Namespace) -> list[str]:
    """Return the values that the command line replaces in the config, --name and --memory among them."""
    name, memory = getattr(options, "name", None), getattr(options, "memory", None)
    # Quoted, because YAML would read a name such as 1e5 as a number.
    named = [] if name is None else [f"name={json.dumps(name)}"]
    return [*options.set, *named, *([] if memory is None else [f"memory={memory}"])]


def expanded_cells(options: argparse.Namespace) -> list[Experiment]:
    """Return the cells of the config that the command names. Raises UserError."""
    from dprl.platform.configs.config import load_cells
    from dprl.platform.configs.memory import require_memory

    cells = load_cells(options.config, overrides(options))
    # Before anything is built: an environment may need more memory than there is. `certify` runs no cell.
    require_memory(cells, run=options.command != "certify", here=getattr(options, "address", None) is None)
    return cells
