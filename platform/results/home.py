"""Folder of all results, and the places in it."""

from __future__ import annotations

import os
from pathlib import Path

from dprl.platform.errors import broken_rule, fits_into_text

_VARIABLE = "DPRL_HOME"
_DEFAULT = "dprl_runs"


class Home:
    """The folder of all results, and the places in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sweeps = path / "sweeps"  # a folder for each sweep
        self.tune = path / "tune"  # Ray Tune's files of its trials
        self.database = path / "mlflow.db"  # MLflow's, of all runs
        self.artifacts = path / "artifacts"  # files that MLflow keeps of runs
        self.reproductions = path / "reproductions"  # a page for each paper


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
