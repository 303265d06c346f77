"""`dprl report`: finished sweeps as one page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from dprl.platform.errors import UserError, broken_rule, suggestion
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
    file = layout.folder / "summary.csv"
    if not file.is_file():
        known = sorted(folder.parent.name for folder in home.glob("sweeps/*/summary.csv"))
        remedy = f"{suggestion(name, known)}; run `{command('sweep', name)}` first"
        raise broken_rule("SWEEP", f"must be a sweep in {home} with a summary.csv", name, remedy)
    # An empty field is the only missing value: 'none' and 'None' are words.
    summary = pd.read_csv(file, keep_default_na=False, na_values=[""])
    if "halved_at" not in summary.columns:
        raise UserError(
            f"SWEEP: must be summarised by this version of dprl, got {name} of an earlier one; sweep it again"
        )
    open_cells = [
        cell for cell in (layout.folder / "cells").glob("*/state.npz") if not CellFolder(cell.parent).finished
    ]
    if open_cells:
        rule = f"must be finished, and {len(open_cells)} of its cells {'is' if len(open_cells) == 1 else 'are'} not"
        raise broken_rule("SWEEP", rule, name, f"resume it with `{command('sweep', name)}`")
    return summary.assign(sweep=name)


def _versions(home: Path, names: Sequence[str]) -> list[str]:
    """Return, once each, what made the cells."""
    lines: dict[str, None] = {}
    for name in names:
        layout = SweepLayout(home, name)
        cells = pd.read_csv(layout.folder / "summary.csv", usecols=["cell"], dtype=str)["cell"]
        for digest in cells:
            file = CellFolder(layout.folder / "cells" / digest).versions_file
            versions = json.loads(file.read_text())
            about = ", ".join(f"{key} {versions[key]}" for key in _MADE_BY)
            lines[f"With {about}."] = None
    return list(lines)
