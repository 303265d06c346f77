"""`dprl report`: finished sweeps as one page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from dprl.platform.errors import broken_rule, counted, suggestion
from dprl.platform.program import command
from dprl.platform.reports.markdown import page
from dprl.platform.sweeps.cell_folder import CellFolder
from dprl.platform.sweeps.layout import SweepLayout

_MADE_BY = ("dprl", "source_digest", "python", "cpu")


def summaries(home: Path, names: Sequence[str]) -> pd.DataFrame:
    """Return the summary rows of finished sweeps, one sweep after the other. Raises UserError."""
    return pd.concat([_summary(home, name) for name in names], ignore_index=True)


def report_page(home: Path, names: Sequence[str], title: str | None, called: str) -> str:
    """Return a Markdown page on the finished sweeps. Raises UserError.

    called: the command, which the page names. title: by default the sweeps' names.
    """
    summary = summaries(home, names)
    made = [f"Made by `{called}`.", *_versions(home, names)]
    return page(title or f"Results of {', '.join(names)}", summary, made)


def _summary(home: Path, name: str) -> pd.DataFrame:
    layout = SweepLayout(home, name)
    again = f"run `{command('sweep', name)}`"
    if not layout.summary_file.is_file():
        known = sorted(folder.parent.name for folder in home.glob("sweeps/*/summary.csv"))
        raise broken_rule("SWEEP", f"must be a sweep in {home}", name, f"{suggestion(name, known)}; {again} first")
    # An empty field is the only missing value: 'none' and 'None' are words.
    summary = pd.read_csv(layout.summary_file, keep_default_na=False, na_values=[""])
    if "halved_at" not in summary.columns or not layout.status_file.is_file():
        raise broken_rule("SWEEP", "must be summarised by this version of dprl", name, f"{again} again")
    counts = json.loads(layout.status_file.read_text())
    missing = counts["cells"] - counts["cells_finished"]
    if missing:
        rule = f"must be finished, and lacks {missing} of {counted(counts['cells'], 'cell')}"
        raise broken_rule("SWEEP", rule, name, f"{again}, which resumes it")
    return summary.assign(sweep=name)


def _versions(home: Path, names: Sequence[str]) -> list[str]:
    """Return, once each, what made the cells."""
    lines: dict[str, None] = {}
    for name in names:
        layout = SweepLayout(home, name)
        cells = pd.read_csv(layout.summary_file, usecols=["cell"], dtype=str)["cell"]
        for digest in cells:
            file = CellFolder(layout.folder / "cells" / digest).versions_file
            versions = json.loads(file.read_text())
            about = ", ".join(f"{key} {versions[key]}" for key in _MADE_BY)
            lines[f"With {about}."] = None
    return list(lines)
