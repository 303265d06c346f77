"""Folder of all results, and the places in it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from dprl.platform.errors import broken_rule, fits_into_text

_VARIABLE = "DPRL_HOME"
_DEFAULT = "dprl_runs"


@dataclass(frozen=True)
class Home:
    """The folder `path`, and the names in it."""

    path: Path

    @property
    def sweeps(self) -> Path:
        """Has a folder for each sweep."""
        return self.path / "sweeps"

    @property
    def tune(self) -> Path:
        """Ray Tune's files of its trials."""
        return self.path / "tune"

    @property
    def database(self) -> Path:
        """MLflow's, of all runs."""
        return self.path / "mlflow.db"

    @property
    def artifacts(self) -> Path:
        """The files that MLflow keeps of runs."""
        return self.path / "artifacts"

    @property
    def reproductions(self) -> Path:
        """Has a page for each paper."""
        return self.path / "reproductions"


def storage_words(home: Path) -> list[str]:
    """Return the options that a command needs to find the results in `home`: none if that is its default."""
    usual = Path((os.environ.get(_VARIABLE) or _DEFAULT).removeprefix("file://"))
    return [] if usual.resolve() == home.resolve() else ["--storage", str(home)]


def home_folder(storage: str | None, *, written: bool = True) -> Path:
    """Return the folder of all results: --storage, $DPRL_HOME or ./dprl_runs. Raises UserError.

    written: whether it must be one that can be written.
    """
    source = "--storage" if storage is not None else f"${_VARIABLE}"
    text = storage if storage is not None else os.environ.get(_VARIABLE) or _DEFAULT
    path = text.removeprefix("file://")
    if not path or "://" in path:
        raise broken_rule(source, "must be a folder that every node sees", text, "mount it and give its path")
    home = Path(path).absolute()
    if not fits_into_text(str(home)):
        raise broken_rule(source, "must be a folder with a name in UTF-8", str(home), "rename it, or choose another")
    there = next(folder for folder in (home, *home.parents) if folder.exists())
    if not there.is_dir() or not os.access(there, os.X_OK | (os.W_OK if written else os.R_OK)):
        rule = f"must be a folder that can be {'written' if written else 'read'}"
        raise broken_rule(source, rule, str(there), "choose another folder")
    return home
