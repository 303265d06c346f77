"""Flags, output and numbers that several commands share."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter, Token, validators

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
from dprl.platform.program import STDERR, STDOUT, redirected, resume_command

if TYPE_CHECKING:
    from dprl.platform.configs.experiment import Experiment

Json = Annotated[bool, Parameter("--json", help="print JSON for a program to read")]
Storage = Annotated[str | None, Parameter(help="as for sweep (default: $DPRL_HOME or ./dprl_runs)")]
Settings = Annotated[
    list[str],
    Parameter("--set", help="replace a value, e.g. env.horizon=10 or 'privacy={model: jdp, epsilon: 2}'; repeatable"),
]
Fresh = Annotated[bool, Parameter(help="delete earlier results of this name and restart")]


def whole(least: int, most: int, text: str) -> Parameter:
    """Return the flag of a whole number from `least` to `most`, such as '40' or '1e5', with this help."""

    def convert(_: object, tokens: Sequence[Token]) -> int:
        value = float(tokens[0].value)
        if not value.is_integer():  # cyclopts itself would round 1.5
            raise ValueError
        return int(value)

    bounds = validators.Number(gte=least, lte=most)
    return Parameter(converter=convert, validator=bounds, allow_leading_hyphen=True, help=text)


@Parameter(name="*")
@dataclass(frozen=True)
class RunFlags:
    """Flags of commands that run the cells of a config."""

    settings: Settings = field(default_factory=list)
    name: Annotated[str | None, Parameter(help="name of the sweep and its folder (default: the config's)")] = None
    fresh: Fresh = False
    quiet: Annotated[bool, Parameter(help="print only results and errors")] = False
    tracking_uri: Annotated[
        str | None,
        Parameter(help="URI of MLflow, from the head of a cluster (default: $MLFLOW_TRACKING_URI, or a database)"),
    ] = None
    as_json: Json = False

    @property
    def overrides(self) -> list[str]:
        """Values that replace those of the config."""
        # Quoted, because YAML would read a name such as 1e5 as a number.
        return [*self.settings, *([] if self.name is None else [f"name={json.dumps(self.name)}"])]

    def cells(self, config: str, here: bool = True) -> list[Experiment]:
        """Return the cells of a config, to be run on this machine or elsewhere. Raises UserError."""
        return expanded_cells(config, self.overrides, here=here)


@Parameter(name="*")
@dataclass(frozen=True)
class SweepFlags(RunFlags):
    """Flags of `sweep`, of which `submit` hands on `words`."""

    storage: Annotated[
        str | None, Parameter(help="folder of all results, seen by all nodes (default: $DPRL_HOME or ./dprl_runs)")
    ] = None
    max_restarts: Annotated[
        int | None,
        whole(-1, 10**6, "how often a cell restarts after its worker or node is lost; -1: no limit (default: 3)"),
    ] = None
    cpus: Annotated[int | None, whole(1, 100_000, "use at most N CPUs, at least one per cell (default: all)")] = None
    memory: Annotated[str | None, Parameter(help="GB of memory that Ray reserves per cell, as in the config")] = None

    @property
    def overrides(self) -> list[str]:
        """Values that replace those of the config."""
        return [*super().overrides, *([] if self.memory is None else [f"memory={self.memory}"])]

    @property
    def words(self) -> list[str]:
        """Words that give another `dprl sweep` these flags, but for the config, the store and the storage."""
        switches = [f"--{name}" for name in ("fresh", "quiet") if getattr(self, name)]
        numbers = {"--max-restarts": self.max_restarts, "--cpus": self.cpus}
        return switches + [word for flag, n in numbers.items() if n is not None for word in (flag, str(n))]


def stdout_for_results(on_ray: bool = False) -> AbstractContextManager[None]:
    """Redirect standard output to standard error within the context, or discard it if `on_ray`.

    A sweep reports its progress on standard error; Ray prints long messages about dead workers on standard output.
    """
    return redirected(STDOUT, None if on_ray else STDERR)


def json_text(data: object) -> str:
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


def interrupted(error: KeyboardInterrupt, command: str | None = None) -> int:
    """Print the command that resumes, unless the sweep has already printed it, and return the exit code."""
    if not isinstance(error, Interrupted):
        print_error(f"dprl: {how_to_resume(command or resume_command())}")
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


def expanded_cells(config: str, overrides: Sequence[str], run: bool = True, here: bool = True) -> list[Experiment]:
    """Return the cells of a config, to be run or only certified, on this machine or elsewhere. Raises UserError."""
    from dprl.platform.configs.config import load_cells
    from dprl.platform.configs.memory import require_memory

    cells = load_cells(config, overrides)
    # Before anything is built: an environment may need more memory than there is.
    require_memory(cells, run=run, here=here)
    return cells
