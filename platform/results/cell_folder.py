"""The files of one cell: their names, and what they say once the cell is finished."""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from dprl.platform.configs.config import load_cells
from dprl.platform.configs.experiment import Experiment
from dprl.platform.errors import UserError

_MADE_BY = ("dprl", "git_commit", "source_digest", "python", "cpu")


class DamagedCellError(UserError):
    """A cell has its marker, and lacks a file or has another one than was written."""


@dataclass(frozen=True)
class CellResults:
    """What a finished cell left.

    records: one row per seed and block, columns `results.records.columns`. certificate: as `Certificate.to_dict`
    gives it. seconds: of computing. finished_at: time stamp of the end, in seconds. theorem: the one that covers the
    runs, '' for none. derived: numbers that the settings left to the noise and the sizes of the runs.
    """

    records: pd.DataFrame
    certificate: dict[str, Any]
    seconds: float
    finished_at: float
    theorem: str = ""
    derived: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class CellFolder:
    """The folder of one cell: a checkpoint while it runs, artifacts and at last a marker when it has ended."""

    path: Path

    @property
    def state_file(self) -> Path:
        """The checkpoint; gone once the cell is finished."""
        return self.path / "state.npz"

    @property
    def marker_file(self) -> Path:
        """Written last: where it is, everything else is."""
        return self.path / "finished.json"

    @property
    def experiment_file(self) -> Path:
        """The cell as a config that can be run again."""
        return self.path / "experiment.yaml"

    @property
    def certificate_file(self) -> Path:
        """What the noise that ran proves."""
        return self.path / "certificate.json"

    @property
    def records_file(self) -> Path:
        """The curves of every seed."""
        return self.path / "records.parquet"

    @property
    def policy_file(self) -> Path:
        """The last policy of every seed."""
        return self.path / "policy.npz"

    def figure_file(self, name: str) -> Path:
        """A figure of the cell, by the name that `reports.figures.of_cell` gives it."""
        return self.path / name

    @property
    def versions_file(self) -> Path:
        """What made the results."""
        return self.path / "versions.json"

    @property
    def finished(self) -> bool:
        """Whether all artifacts are written."""
        return self.marker_file.is_file()

    def finished_as(self, digest: str) -> bool:
        """Whether all artifacts of the cell of that digest are written; not so if its marker cannot be made out."""
        try:
            return bool(json.loads(self.marker_file.read_text())["digest"] == digest)
        except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
            return False

    def results(self) -> CellResults:
        """Read what a finished cell left. Raises DamagedCellError."""
        try:
            return self._results()
        except (OSError, ValueError, KeyError, TypeError) as error:
            if isinstance(error, OSError) and error.errno not in (None, errno.ENOENT):
                raise  # The files may be whole, and cannot be reached now. Pyarrow's errors on content have no number.
            cause = f"{type(error).__name__}: {error}"
            rule, remedy = "must have all that its cell wrote", "remove the folder and run the sweep again"
            raise DamagedCellError(f"{self.path}: {rule}, got {cause}; {remedy}") from error

    def _results(self) -> CellResults:
        done = json.loads(self.marker_file.read_text())
        return CellResults(
            records=pd.read_parquet(self.records_file),
            certificate=self.certificate(),
            seconds=float(done["seconds"]),
            finished_at=self.marker_file.stat().st_mtime,
            theorem=done.get("theorem", ""),
            derived=done.get("derived", {}),
        )

    def experiment(self) -> Experiment:
        """Read what the cell runs. Raises UserError, also for settings that this version of dprl does not know."""
        cells = load_cells(self.experiment_file)
        if len(cells) != 1:
            rule, remedy = f"must describe one cell, got {len(cells)}", "take the file from the cell's folder"
            raise UserError(f"{self.experiment_file}: {rule}; {remedy}")
        return cells[0]

    def certificate(self) -> dict[str, Any]:
        """Read what the noise of a finished cell proves, as `Certificate.to_dict` gives it."""
        found: dict[str, Any] = json.loads(self.certificate_file.read_text())
        return found

    def versions(self) -> dict[str, Any]:
        """Read what made a finished cell, as `sweeps.versions` gives it."""
        found: dict[str, Any] = json.loads(self.versions_file.read_text())
        return found

    def made_by(self) -> str:
        """Say what made a finished cell."""
        versions = self.versions()
        return ", ".join(f"{key} {versions[key]}" for key in _MADE_BY if versions.get(key))

    def artifacts(self) -> list[Path]:
        """Return the result files of a finished cell, without the bookkeeping."""
        files = (file for file in self.path.iterdir() if file.is_file() and not file.name.startswith("."))
        return sorted(file for file in files if file not in (self.state_file, self.marker_file))
