"""`dprl report`: finished sweeps as one page."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from dprl.platform.configs.config import config_files, load_cells
from dprl.platform.errors import UserError, broken_rule, counted, suggestion
from dprl.platform.program import command
from dprl.platform.reports.cell_texts import cells_of
from dprl.platform.reports.markdown import page
from dprl.platform.sweeps.cell_folder import CellFolder
from dprl.platform.sweeps.layout import SweepLayout

_MADE_BY = ("dprl", "git_commit", "source_digest", "python", "cpu")
_THEOREM = "theorem"
_SWEEPS = "sweeps"
"""The folder in the home that holds the sweeps."""


@dataclass(frozen=True)
class PageRequest:
    """What a page is to say besides its tables.

    title: by default the sweeps' names. preface: a Markdown file whose text stands at the top, if any. compared: two
    algorithms, the first to be compared with the second. command: what the user typed, which the page names.
    """

    title: str | None
    preface: str | None
    compared: tuple[str, str] | None
    command: str


def summaries(home: Path, names: Sequence[str]) -> pd.DataFrame:
    """Return the summary rows of finished sweeps, one sweep after the other. Raises UserError.

    names: of the sweeps, or the paths of their folders in `home`.
    """
    return pd.concat([_summary(home, _sweep_name(home, name)) for name in names], ignore_index=True)


def report_page(home: Path, names: Sequence[str], wanted: PageRequest) -> str:
    """Return a Markdown page on the finished sweeps, whatever version of dprl has run them; names as for `summaries`.

    Raises UserError.
    """
    names = [_sweep_name(home, name) for name in names]
    about = [] if wanted.preface is None else [_text_of(wanted.preface)]
    cells = cells_of(summaries(home, names))
    known = sorted({str(cell["algorithm.name"]) for cell in cells})
    for name in wanted.compared or ():
        if name not in known:
            raise broken_rule("--compare", "must be algorithms of the sweeps", name, suggestion(name, known))
    made = [f"Made by `{wanted.command}`.", *_versions(home, names)]
    title = wanted.title or f"Results of {', '.join(names)}"
    return page(title, cells, [*about, "  \n".join(made)], wanted.compared)


def _text_of(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        rule = f"must be a Markdown file that can be read ({why})"
        raise broken_rule("--preface", rule, file, "give the path of one") from None


def _sweep_name(home: Path, word: str) -> str:
    """Return the name of the sweep that `word` names, or whose folder in `home` it is the path of. Raises UserError."""
    if os.sep not in word:
        return word
    folder = Path(word).resolve()
    if folder.parent == (home / _SWEEPS).resolve():
        return folder.name
    remedy = f"give its name: {folder.name}"
    if folder.parent.name == _SWEEPS and folder.is_dir():
        remedy += f", and its home: --storage {folder.parents[1]}"
    raise broken_rule("SWEEP", f"must be a sweep in {home}", word, remedy)


def _summary(home: Path, name: str) -> pd.DataFrame:
    layout = SweepLayout(home, name)
    if not layout.folder.is_dir():
        known = sorted(folder.parent.name for folder in home.glob(f"{_SWEEPS}/*/summary.csv"))
        start = command("sweep", name) if name in config_files() else _naming(name)
        remedy = f"{suggestion(name, known)}; run `{start}` first"
        raise broken_rule("SWEEP", f"must be a sweep in {home}", name, remedy)
    status = json.loads(layout.status_file.read_text()) if layout.status_file.is_file() else {}
    resume = status.get("command", _naming(name))
    if not layout.summary_file.is_file():
        cells = (layout.folder / "cells").glob("*")
        lack = "has no summary yet" if any(CellFolder(cell).finished for cell in cells) else "has no finished cell"
        raise broken_rule("SWEEP", f"must be finished, and {lack}", name, f"resume with `{resume}`")
    # An empty field is the only missing value: 'none' and 'None' are words.
    summary = pd.read_csv(layout.summary_file, keep_default_na=False, na_values=[""], dtype={"cell": str})
    outdated = "regret" in summary.columns and "halved_at" not in summary.columns
    if outdated or not status:
        raise broken_rule("SWEEP", "must be summarised by this version of dprl", name, f"run `{resume}` again")
    missing = status["cells"] - status["cells_finished"]
    if missing:
        rule = f"must be finished, and lacks {missing} of {counted(status['cells'], 'cell')}"
        raise broken_rule("SWEEP", rule, name, f"resume with `{resume}`")
    if _THEOREM not in summary.columns:
        summary[_THEOREM] = [_theorem(layout, digest) for digest in summary["cell"]]
    return summary.assign(sweep=name)


def _naming(name: str) -> str:
    """Return the command of a sweep of which only the name is known."""
    return command("sweep", "CONFIG", "--name", name)


def _theorem(layout: SweepLayout, digest: str) -> str:
    """Return the theorem that covers a cell of a sweep from before summaries had them, '' for none."""
    file = CellFolder(layout.folder / "cells" / digest).experiment_file
    try:
        return load_cells(str(file), [])[0].theorem
    except UserError as error:
        raise UserError(f"SWEEP: must have settings that this version of dprl knows: {error}") from None


def _versions(home: Path, names: Sequence[str]) -> list[str]:
    """Return, once each, what made the cells."""
    lines: dict[str, None] = {}
    for name in names:
        layout = SweepLayout(home, name)
        cells = pd.read_csv(layout.summary_file, usecols=["cell"], dtype=str)["cell"]
        for digest in cells:
            file = CellFolder(layout.folder / "cells" / digest).versions_file
            versions = json.loads(file.read_text())
            about = ", ".join(f"{key} {versions[key]}" for key in _MADE_BY if versions.get(key))
            lines[f"Run with {about}."] = None
    return list(lines)
