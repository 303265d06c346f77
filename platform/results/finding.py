"""Which sweep a word names."""

from __future__ import annotations

import os
from pathlib import Path

from dprl.platform.configs.config import config_files
from dprl.platform.errors import UserError, broken_rule, suggestion
from dprl.platform.program import command
from dprl.platform.results.home import Home
from dprl.platform.results.layout import SweepLayout


def sweep_layout(home: Path, word: str) -> SweepLayout:
    """Return the sweep that `word` names, or whose folder in `home` it is the path of. Raises UserError."""
    layout = SweepLayout(home, _sweep_name(home, word))
    if layout.folder.is_dir():
        return layout
    name = layout.name
    known = sorted(folder.parent.name for folder in Home(home).sweeps.glob("*/summary.csv"))
    words = (name,) if name in config_files() else ("CONFIG", "--name", name)
    remedy = f"{suggestion(name, known)}; run `{command('sweep', *words)}` first"
    raise broken_rule("SWEEP", f"must be a sweep in {home}", name, remedy)


def nothing_finished(layout: SweepLayout) -> UserError:
    """Return the error for a sweep that has nothing to be reported."""
    rule, remedy = "must be finished, and has no finished cell", f"resume with `{layout.status().command}`"
    return broken_rule("SWEEP", rule, layout.name, remedy)


def _sweep_name(home: Path, word: str) -> str:
    if os.sep not in word:
        return word
    folder, sweeps = Path(word).resolve(), Home(home).sweeps
    if folder.parent == sweeps.resolve():
        return folder.name
    remedy = f"give its name: {folder.name}"
    if folder.parent.name == sweeps.name and folder.is_dir():
        remedy += f", and its home: --storage {folder.parents[1]}"
    raise broken_rule("SWEEP", f"must be a sweep in {home}", word, remedy)
