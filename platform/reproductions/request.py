"""What a reproduction is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dprl.platform.sweeps.workplace import Executor


@dataclass(frozen=True)
class Request:
    """How to reproduce a paper.

    home: where all state lives. quick: with as many trials as the paper has, instead of with more. command: what the
    user typed, for messages and the page. executor: as for a sweep. overrides: of the config, as --set has them.
    searches: runs of a control that is no cell, 0 for the usual number. fresh: delete what earlier calls did.
    tracking_uri: of MLflow, or None for a database in `home`.
    """

    home: Path
    quick: bool
    command: str
    executor: Executor = "tune"
    overrides: tuple[str, ...] = ()
    searches: int = 0
    fresh: bool = False
    tracking_uri: str | None = None


@dataclass(frozen=True)
class Reproduced:
    """What a reproduction left.

    paper: its name. page: the Markdown file, None if cells are missing. sweep: the folder of the runs. verdicts: rows
    of a short table, headers first. data: all numbers, for programs. failed: a line for all that went wrong.
    """

    paper: str
    page: Path | None
    sweep: Path
    verdicts: Sequence[Sequence[str]]
    data: dict[str, Any]
    failed: Sequence[str]
