"""Which sweep a word names, how far it is, and what resumes it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from dprl.platform.configs.config import config_files
from dprl.platform.errors import UserError, broken_rule, suggestion
from dprl.platform.program import command
from dprl.platform.results.cell_folder import CellFolder
from dprl.platform.results.layout import SweepLayout
from dprl.platform.results.meaning import Grid, Stages

_SWEEPS = "sweeps"
"""The folder in the home that holds the sweeps."""
_MADE_BY = ("dprl", "git_commit", "source_digest", "python", "cpu")


class SweepStatus(NamedTuple):
    """How far a sweep was when it was last written. cells: 0 where that is not known."""

    cells: int
    cells_finished: int
    cells_failed: int
    resume: str

    @classmethod
    def of(cls, layout: SweepLayout) -> SweepStatus:
        """Return that of a sweep, nothing known but how to name it where it has written none."""
        found = json.loads(layout.status_file.read_text()) if layout.status_file.is_file() else {}
        cells, finished, failed = (int(found.get(key, 0)) for key in ("cells", "cells_finished", "cells_failed"))
        resume = found.get("command", command("sweep", "CONFIG", "--name", layout.name))
        return cls(cells, finished, failed, resume)


def sweep_layout(home: Path, word: str) -> SweepLayout:
    """Return the sweep that `word` names, or whose folder in `home` it is the path of. Raises UserError."""
    layout = SweepLayout(home, _sweep_name(home, word))
    if layout.folder.is_dir():
        return layout
    name = layout.name
    known = sorted(folder.parent.name for folder in home.glob(f"{_SWEEPS}/*/summary.csv"))
    words = (name,) if name in config_files() else ("CONFIG", "--name", name)
    remedy = f"{suggestion(name, known)}; run `{command('sweep', *words)}` first"
    raise broken_rule("SWEEP", f"must be a sweep in {home}", name, remedy)


def stages_of(layout: SweepLayout) -> Stages | None:
    """Return in which stages a sweep adds seeds, None if their number is fixed."""
    grid = Grid.read(layout.grid_file)
    return grid.stages if grid is not None else None


def finished_cells(layout: SweepLayout) -> list[CellFolder]:
    """Return the folders of the finished cells of a sweep's grid."""
    grid = Grid.read(layout.grid_file)
    folders = (CellFolder(layout.cell_folder(digest)) for digest in (grid.cells if grid is not None else ()))
    return [folder for folder in folders if folder.finished]


def read_summary(layout: SweepLayout) -> pd.DataFrame:
    """Return the summary of a sweep that has one."""
    # An empty field is the only missing value: 'none' and 'None' are words.
    return pd.read_csv(layout.summary_file, keep_default_na=False, na_values=[""], dtype={"cell": str})


def versions_text(folder: CellFolder) -> str:
    """Return what made a finished cell."""
    versions = json.loads(folder.versions_file.read_text())
    return ", ".join(f"{key} {versions[key]}" for key in _MADE_BY if versions.get(key))


def nothing_finished(layout: SweepLayout) -> UserError:
    """Return the error for a sweep that has nothing to be reported."""
    rule, remedy = "must be finished, and has no finished cell", f"resume with `{SweepStatus.of(layout).resume}`"
    return broken_rule("SWEEP", rule, layout.name, remedy)


def _sweep_name(home: Path, word: str) -> str:
    if os.sep not in word:
        return word
    folder = Path(word).resolve()
    if folder.parent == (home / _SWEEPS).resolve():
        return folder.name
    remedy = f"give its name: {folder.name}"
    if folder.parent.name == _SWEEPS and folder.is_dir():
        remedy += f", and its home: --storage {folder.parents[1]}"
    raise broken_rule("SWEEP", f"must be a sweep in {home}", word, remedy)
