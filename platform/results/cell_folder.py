"""Files of one cell: their names, and their content once the cell is finished."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from dprl.platform.configs.config import load_cells
from dprl.platform.configs.experiment import Experiment
from dprl.platform.errors import UserError, shortened, shown
from dprl.privacy.certificate import SCHEMA, checksum

_MADE_BY = ("dprl", "git_commit", "results_version", "python", "cpu")
_LONGEST_CAUSE = 120


class DamagedCellError(UserError):
    """A file of a finished cell is missing or was changed. cause: the file, and the difference."""

    def __init__(self, folder: Path, cause: str) -> None:
        super().__init__(f"{folder}: must have all that its cell wrote, got {cause}; `dprl sweep` runs the cell again")
        self.cause = cause


@dataclass(frozen=True)
class CellResults:
    """Results of a finished cell.

    records: one row per seed and block, columns `results.summary.columns`. certificate: as from `Certificate.to_dict`.
    seconds: compute time. finished_at: time stamp of the end, in seconds. theorem: the one that covers the runs, '' for
    none. derived: settings computed from the noise and the sizes of the runs.
    """

    records: pd.DataFrame
    certificate: dict[str, Any]
    seconds: float
    finished_at: float
    theorem: str = ""
    derived: Mapping[str, float] = field(default_factory=dict)
    versions: Mapping[str, Any] = field(default_factory=dict)


@dataclass(unsafe_hash=True)
class CellFolder:
    """Folder of one cell: a checkpoint while the cell runs; artifacts and, written last, a marker once it has ended."""

    path: Path

    def __post_init__(self) -> None:
        self.state_file = self.path / "state.npz"  # the checkpoint; gone once the cell is finished
        self.marker_file = self.path / "finished.json"  # written last: if it exists, all other files do
        self.experiment_file = self.path / "experiment.yaml"  # the cell as a config that can be run again
        self.certificate_file = self.path / "certificate.json"  # of the noise that was drawn
        self.certificate_page = self.path / "certificate.html"
        self.records_file = self.path / "records.parquet"  # the curves of every seed
        self.policy_file = self.path / "policy.npz"  # the last policy of every seed
        self.versions_file = self.path / "versions.json"  # of the software that produced the results

    def charges_file(self, seed_index: int) -> Path:
        """The journal of charges of one seed; outside the folder, because deleting a cell must not delete it."""
        return self.path.parent / "charges" / f"{self.path.name}-{seed_index}.journal"

    @property
    def finished(self) -> bool:
        """Whether all artifacts are written."""
        return self.marker_file.is_file()

    def finished_as(self, digest: str) -> bool:
        """Whether all artifacts of the cell with that digest are written; False if its marker cannot be read."""
        try:
            return bool(json.loads(self.marker_file.read_text())["digest"] == digest)
        except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
            return False

    def require_whole(self) -> None:
        """Raise DamagedCellError if there are results but neither a checkpoint nor a readable marker."""
        written = (self.certificate_file, self.records_file, self.policy_file, self.marker_file)
        if not self.state_file.exists() and any(file.exists() for file in written):
            with self._reading():
                _json(self.marker_file, "digest", "seconds")

    def results(self) -> CellResults:
        """Read the results of a finished cell. Raises DamagedCellError."""
        with self._reading():
            done = _json(self.marker_file, "seconds", "theorem", "derived")
            return CellResults(
                records=_records(self.records_file),
                certificate=self.certificate(),
                seconds=float(done["seconds"]),
                finished_at=self.marker_file.stat().st_mtime,
                theorem=str(done["theorem"]),
                derived=dict(done["derived"]),
                versions=self.versions(),
            )

    def records(self, columns: Sequence[str]) -> pd.DataFrame:
        """Read seed, episode and the named columns of a finished cell's records. Raises DamagedCellError."""
        with self._reading():
            return _records(self.records_file, ["seed", "episode", *columns])

    def experiment(self) -> Experiment:
        """Read the cell's experiment. Raises UserError, also for settings that this version of dprl does not know."""
        cells = load_cells(self.experiment_file)
        if len(cells) != 1:
            rule, remedy = f"must describe one cell, got {len(cells)}", "take the file from the cell's folder"
            raise UserError(f"{self.experiment_file}: {rule}; {remedy}")
        return cells[0]

    def certificate(self) -> dict[str, Any]:
        """Read the certificate of a finished cell, as from `Certificate.to_dict`.

        Raises DamagedCellError, and UserError for a cell of an earlier version.
        """
        with self._reading():
            found = _json(self.certificate_file, "schema")
            if found["schema"] != SCHEMA:
                rule = f"{self.path}: must be a cell of this version of dprl ({SCHEMA})"
                made = f"{shown(found['schema'])} of dprl {found.get('version', 'earlier')}"
                raise UserError(f"{rule}, got {made}; run its experiment.yaml again, or read it with that version")
            if found.get("checksum") != checksum(found):
                raise ValueError(f"{self.certificate_file.name} was edited: its checksum does not match")
            return found

    def versions(self) -> dict[str, Any]:
        """Read the versions behind a finished cell, as from `sweeps.versions`. Raises DamagedCellError."""
        with self._reading():
            return _json(self.versions_file, "results_version")

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Turn any error that a damaged file causes in its reader into a DamagedCellError."""
        try:
            if any(each.is_fifo() for each in self.path.iterdir()):
                raise ValueError("a pipe among its files")  # reading it would wait forever
            yield
        except (OSError, ValueError, KeyError, TypeError) as error:
            if isinstance(error, OSError) and error.errno not in (None, errno.ENOENT):
                raise  # The files may be intact but unreachable. Pyarrow's errors about content have no errno.
            cause = shortened(f"{type(error).__name__}: {' '.join(str(error).split())}", _LONGEST_CAUSE)
            raise DamagedCellError(self.path, cause) from error

    def made_by(self) -> str:
        """Return a text with the versions behind a finished cell."""
        versions = self.versions()
        return ", ".join(f"{key} {versions[key]}" for key in _MADE_BY if versions.get(key))

    def artifacts(self) -> list[Path]:
        """Return the result files of a finished cell, without the bookkeeping."""
        files = (file for file in self.path.iterdir() if file.is_file() and not file.name.startswith("."))
        return sorted(file for file in files if file not in (self.state_file, self.marker_file))


def _json(file: Path, *fields: str) -> dict[str, Any]:
    """Read a JSON mapping that has these fields. Raises OSError, ValueError."""
    found = json.loads(file.read_text(encoding="utf-8"))
    if not isinstance(found, dict) or not found.keys() >= {*fields}:
        raise ValueError(f"{file.name} must be a mapping with {', '.join(fields)}")
    return found


def _records(file: Path, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Read records that have the same episodes of every seed. Raises OSError, ValueError."""
    found = pd.read_parquet(file, columns=None if columns is None else list(columns))
    if found.empty or not {"seed", "episode"} <= set(found.columns):
        raise ValueError(f"{file.name} must have rows and the columns seed and episode")
    blocks = found.groupby("seed")["episode"]
    if blocks.count().nunique() != 1:
        raise ValueError(f"{file.name} must have the same episodes of every seed")
    return found
