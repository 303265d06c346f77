"""Folder of one sweep: its files, cells, status and grid, which may grow or shrink, and the charges it must keep."""

from __future__ import annotations

import json
import os
import re
import shutil
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from dprl.atomic_files import read_regular, write_json, write_text
from dprl.platform.configs.config import config_files
from dprl.platform.configs.experiment import NAME_RULE, Experiment, Scalar, fits_as_name, labels_of
from dprl.platform.errors import UserError, broken_rule, counted, first_of, shown, suggestion
from dprl.platform.program import command
from dprl.platform.results.cell_folder import CellFolder, DamagedCellError
from dprl.platform.results.home import Home
from dprl.platform.results.lock import FolderLock
from dprl.privacy.base import LedgerError
from dprl.privacy.journal import charging_attempts

_DIGEST = re.compile(r"[0-9a-f]{12}")
_ID = re.compile(r"[0-9a-f]{32}")
_ORPHAN_PATIENCE = 60.0
"""Seconds that a cell waits for its previous writer; a Ray worker without a driver ends within a few."""


@dataclass(frozen=True)
class SweepCell:
    """Grid point of a sweep: its experiment, short name and folder."""

    experiment: Experiment
    label: str
    folder: CellFolder
    lock_path: Path

    @property
    def digest(self) -> str:
        """The experiment's identity, the same in every sweep and on every machine."""
        return self.experiment.digest

    @property
    def finished(self) -> bool:
        """Whether all artifacts of the cell are written, by the code that this process runs."""
        return self.folder.finished_as(self.digest)

    def lock(self) -> FolderLock:
        """The lock held by the process that writes the cell's folder."""
        return FolderLock(self.lock_path, _ORPHAN_PATIENCE)


@dataclass(unsafe_hash=True)
class SweepLayout:
    """The folder `<home>/sweeps/<name>` of one sweep. Raises UserError for an invalid name."""

    home: Path
    name: str

    def __post_init__(self) -> None:
        if not fits_as_name(self.name):
            rule = f"{NAME_RULE} (a folder is named by it)"
            raise broken_rule("name", rule, self.name, "choose another")
        self.folder = Home(self.home).sweeps / self.name
        self.summary_file = self.folder / "summary.csv"  # a row per finished cell of the grid, as of the last call
        self.status_file = self.folder / "status.json"  # numbers of cells, and the command that resumes the sweep
        self.grid_file = self.folder / "grid.json"  # the cells of the last call, compared with those of the next
        self.id_file = self.folder / "sweep_id"  # distinguishes the sweep from others of its name
        self.logs = self.folder / "logs"
        self.log_file = self.logs / "sweep.log"  # all calls, with times
        self.tune_folder = Home(self.home).tune / self.name  # while the sweep runs

    def failure_log(self, digest: str) -> Path:
        """The file with the traceback of the cell with that digest, if it failed."""
        return self.logs / f"{digest}.txt"

    def cell_folder(self, digest: str) -> Path:
        """The folder of the cell with that digest."""
        return self.folder / "cells" / digest

    def lock(self) -> FolderLock:
        """The lock of the one process that drives this sweep."""
        return FolderLock(self.folder / "locks" / "sweep", patience=0.0, name=f"sweep {self.name}")

    def sweep_id(self) -> str:
        """Return the id that distinguishes the sweep from others of its name in MLflow; the first call makes it."""
        found = self.id_file.read_text(errors="replace").strip() if self.id_file.is_file() else ""
        if not _ID.fullmatch(found):
            found = uuid.uuid4().hex
            write_text(self.id_file, found + "\n")
        return found

    def grid(self) -> Grid:
        """Return the grid of the last call, an empty one if there was none. Raises UserError."""
        return Grid.read(self.grid_file)

    def finished_cells(self) -> list[CellFolder]:
        """Return the folders of the finished cells of the sweep's grid. Raises UserError."""
        folders = (CellFolder(self.cell_folder(digest)) for digest in self.grid().cells)
        return [folder for folder in folders if folder.finished]

    def require_finished(self) -> list[CellFolder]:
        """Return the folders of the finished cells. Raises UserError if there is none."""
        if not (found := self.finished_cells()):
            rule, remedy = "must be finished, and has no finished cell", f"resume with `{self.status()['command']}`"
            raise broken_rule("SWEEP", rule, self.name, remedy)
        return found

    def summary(self) -> pd.DataFrame:
        """Read the summary of a sweep, without cells that are gone. Raises UserError for a missing or damaged file."""
        if not self.summary_file.is_file():
            rule, remedy = "must exist, and is written when a sweep ends", f"resume it with: {self.status()['command']}"
            raise broken_rule(str(self.summary_file), rule, "no file", remedy)
        try:
            # An empty field is the only missing value: 'none' and 'None' are words.
            words = dict.fromkeys(("cell", "label", "cell_label", "algorithm_label"), str)
            found = pd.read_csv(self.summary_file, keep_default_na=False, na_values=[""], dtype=words)
            gaps = found[["cell", "episodes", "seeds", "verdict"]].isna().to_numpy().any()
            damage = "rows with missing fields" if gaps else ""
        except (ValueError, KeyError) as error:
            damage = f"{type(error).__name__}: {error}".strip()
        if damage:
            rule, remedy = "must have one row per finished cell", "delete it and repeat the sweep, which writes it"
            raise broken_rule(str(self.summary_file), rule, damage, remedy)
        there = [CellFolder(self.cell_folder(digest)).finished for digest in found["cell"]]
        return found[there].reset_index(drop=True)

    def status(self) -> dict[str, Any]:
        """Return the status as last written: numbers of `cells` (0 if unknown), and the `command` that resumes them.

        Those that have finished or failed are `cells_finished` and `cells_failed`. Raises UserError for a damaged file.
        """
        nothing = {"cells": 0, "cells_finished": 0, "cells_failed": 0}
        found: dict[str, Any] = {**nothing, "command": command("sweep", "CONFIG", "--name", self.name)}
        try:
            if self.status_file.is_file():
                found |= json.loads(self.status_file.read_text(encoding="utf-8"))
            return found | {key: int(found[key]) for key in nothing}
        except (OSError, ValueError, TypeError) as error:
            raise UserError(f"{self.status_file}: must be what an earlier call wrote, got {error}; remove it") from None

    def cells(self, experiments: Sequence[Experiment]) -> list[SweepCell]:
        """The sweep's cells in grid order; grid points that are the same experiment are one cell."""
        distinct = {experiment.digest: experiment for experiment in experiments}
        labels, locks = labels_of([*distinct.values()]), self.folder / "locks"
        return [
            SweepCell(cell, label, CellFolder(self.cell_folder(digest)), locks / digest)
            for label, (digest, cell) in zip(labels, distinct.items(), strict=True)
        ]

    def require_no_links(self, digests: Sequence[str]) -> None:
        """Raise UserError if the sweep, or a cell, would write to or delete files at the target of a link."""
        cells = self.folder / "cells"
        own = (self.folder, self.folder / "locks", self.logs, cells, cells / "charges", *map(self.cell_folder, digests))
        for folder in own:
            if folder.is_symlink():
                rule = "must be a folder of its own to be written, got a symbolic link"
                raise UserError(f"{folder}: {rule}; move its target here, or choose another --name")

    def delete_cells(self) -> int:
        """Remove every cell of this sweep and return how many there were; keep everything else in the folder."""
        cells = [cell for cell in self.cell_folder("").glob("*") if _DIGEST.fullmatch(cell.name)]
        cells = [cell for cell in cells if cell.is_dir() and not cell.is_symlink()]
        for cell in cells:
            with FolderLock(self.folder / "locks" / cell.name, _ORPHAN_PATIENCE):
                # The marker first: a kill between two files must not leave a cell that counts as finished.
                CellFolder(cell).marker_file.unlink(missing_ok=True)
                shutil.rmtree(cell)
        return len(cells)


def sweep_layout(home: Path, word: str) -> SweepLayout:
    """Return the sweep with the name `word` in `home`, or with the folder `word` in any home. Raises UserError."""
    name = word
    if os.sep in word:
        folder = Path(word).resolve()
        name, home = folder.name, folder.parents[1] if len(folder.parents) > 1 else home
        if folder.parent != Home(home).sweeps:
            rule = f"must be a name, or a folder {home}/sweeps/NAME"
            raise broken_rule("SWEEP", rule, word, f"give its name: {name}")
    layout = SweepLayout(home, name)
    if layout.folder.is_dir():
        return layout
    known = sorted(folder.parent.name for folder in Home(home).sweeps.glob("*/summary.csv"))
    words = (name,) if name in config_files() else ("CONFIG", "--name", name)
    remedy = f"{suggestion(name, known)}; run `{command('sweep', *words)}` first"
    raise broken_rule("SWEEP", f"must be a sweep in {home}", name, remedy)


# ---- the identity of a sweep's name ----


@dataclass(frozen=True)
class Grid:
    """The cells of one call of a sweep: their settings by digest, and the digest of the code that they run."""

    sources: str
    cells: Mapping[str, Mapping[str, Scalar]]

    @classmethod
    def of(cls, experiments: Sequence[Experiment]) -> Grid:
        """Return the grid of these cells."""
        sources = " ".join(sorted({each.sources for each in experiments}))
        return cls(sources, {each.digest: each.parameters() for each in experiments})

    @classmethod
    def read(cls, file: Path) -> Grid:
        """Return the grid that an earlier call wrote, an empty one without one. Raises UserError for a damaged file."""
        try:
            found = json.loads(read_regular(file))
            return cls(found["sources"], found["cells"])
        except FileNotFoundError:
            return cls("", {})
        except (OSError, ValueError, KeyError, TypeError) as error:
            remedy = "remove it and run the sweep again, which keeps its cells"
            raise UserError(f"{file}: must be what an earlier call wrote, got {error}; {remedy}") from None

    def write(self, file: Path) -> None:
        """Write the grid for later calls."""
        write_json(file, asdict(self))

    def continues(self, before: Grid) -> bool:
        """Whether this is `before`, grown or shrunk."""
        return self.cells.keys() >= before.cells.keys() or self.cells.keys() <= before.cells.keys()

    def difference(self, before: Grid) -> str:
        """Return the names of the first settings that differ from those of `before`, or that the code does."""
        keys = dict.fromkeys(key for grid in (before, self) for cell in grid.cells.values() for key in cell)
        old, new = ({key: {cell.get(key) for cell in grid.cells.values()} for key in keys} for grid in (before, self))
        changed = [key for key in keys if old[key] != new[key]]
        if self.sources != before.sources:
            changed.append("code of privacy/, envs/ or algorithms/")
        return f"other {', '.join(first_of(changed, 3) or ['combinations of settings'])}"


def require_name(layout: SweepLayout, cells: Sequence[Experiment], grid: Grid, fresh: bool) -> None:
    """Raise UserError if the sweep's name stands for another grid with finished cells, or with charged users.

    fresh: forgets finished cells, but never charges: those of cells outside of the grid would not count any more.
    """
    before = Grid("", {})
    with suppress(*((UserError,) if fresh else ())):  # a damaged file is no obstacle to a fresh start
        before = Grid.read(layout.grid_file)
    journals = layout.cell_folder("charges")
    new = [cell.digest for cell in cells if cell.asks_users and before.cells and cell.digest not in before.cells]
    if not before.cells or not grid.continues(before) or any(not [*journals.glob(f"{digest}-*")] for digest in new):
        charged = {file.name.rpartition("-")[0] for file in journals.glob("*.journal")} - grid.cells.keys()
        if charged:
            rule = f"has charged users of a release in {counted(len(charged), 'cell')} of other settings or code"
            remedy = "choose another name, and for users who take part again compose the certificates (dprl compose)"
            raise UserError(f"name: {layout.name!r} {rule}, got their journals in {journals}; {remedy}")
    if fresh or grid.continues(before):
        return
    finished = sum(CellFolder(layout.cell_folder(digest)).finished for digest in before.cells)
    if finished:
        remedy = "choose another name, or forget them"
        rule = f"name: {shown(layout.name)} has {counted(finished, 'finished cell')} of another grid"
        raise UserError(f"{rule}, got {grid.difference(before)}; {remedy} (--fresh, in Python fresh=True)")


def lost_charges(cell: SweepCell, fresh: bool) -> str:
    """Return why the journals of a finished release do not have the charges of its certificate, '' if they do.

    fresh: whether they may have more, because the next certificate composes all of them.
    """
    if not (cell.finished and cell.experiment.asks_users):
        return ""
    stated = 1
    with suppress(*((DamagedCellError,) if fresh else ())):  # a damaged file is no obstacle to a fresh start
        stated = int(cell.folder.certificate().get("attempts", 1))
    try:
        recorded = [charging_attempts(cell.folder.charges_file(seed)) for seed in range(cell.experiment.seeds)]
    except LedgerError as error:
        return str(error)
    if min(recorded) > 0 and (max(recorded) == stated or (fresh and max(recorded) > stated)):
        return ""
    return (
        f"charges/{cell.folder.path.name}-*.journal must record its attempts, {stated} for a seed, got {recorded}; "
        "restore the latest state of the cell and its journals, or choose another name for new users"
    )
