"""The Markdown form of `dprl report`: finished sweeps as one page."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from dprl.platform.errors import UserError, broken_rule, counted, suggestion
from dprl.platform.reports.cell_texts import rows_of
from dprl.platform.reports.comparing.report_cells import experiment_of
from dprl.platform.reports.pages.markdown_tables import page
from dprl.platform.results.cell_folder import CellFolder, DamagedCellError
from dprl.platform.results.layout import SweepLayout, nothing_finished, sweep_layout

_THEOREM = "theorem"


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
    return pd.concat([_summary(sweep_layout(home, name)) for name in names], ignore_index=True)


def report_page(home: Path, names: Sequence[str], wanted: PageRequest) -> str:
    """Return a Markdown page on the finished sweeps, whatever version of dprl has run them; names as for `summaries`.

    Raises UserError.
    """
    layouts = [sweep_layout(home, name) for name in names]
    about = [] if wanted.preface is None else [_text_of(wanted.preface)]
    damaged = _damaged_cells(layouts)
    cells = [cell for cell in rows_of(summaries(home, names)) if (str(cell["sweep"]), str(cell["cell"])) not in damaged]
    if not cells:
        raise UserError(f"SWEEP: must have a cell that can be read: {next(iter(damaged.values()))}")
    known = sorted({str(cell["algorithm.name"]) for cell in cells})
    for name in wanted.compared or ():
        if name not in known:
            raise broken_rule("--compare", "must be algorithms of the sweeps", name, suggestion(name, known))
    made = [f"Made by `{wanted.command}`.", *_versions(layouts, damaged)]
    made += [f"Left out: {line}" for line in damaged.values()]
    title = wanted.title or f"Results of {', '.join(layout.name for layout in layouts)}"
    return page(title, cells, [*about, "  \n".join(made)], wanted.compared)


def _text_of(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        rule = f"must be a Markdown file that can be read ({why})"
        raise broken_rule("--preface", rule, file, "give the path of one") from None


def _summary(layout: SweepLayout) -> pd.DataFrame:
    status = layout.status()
    if not layout.summary_file.is_file():
        if not layout.finished_cells():
            raise nothing_finished(layout)
        rule = "must be finished, and has no summary yet"
        raise broken_rule("SWEEP", rule, layout.name, f"resume with `{status.command}`")
    summary = layout.summary()
    outdated = "regret" in summary.columns and "halved_at" not in summary.columns
    if outdated or not status.cells:
        remedy = f"run `{status.command}` again"
        raise broken_rule("SWEEP", "must be summarised by this version of dprl", layout.name, remedy)
    missing = status.cells - status.cells_finished
    if missing:
        rule = f"must be finished, and lacks {missing} of {counted(status.cells, 'cell')}"
        raise broken_rule("SWEEP", rule, layout.name, f"resume with `{status.command}`")
    if _THEOREM not in summary.columns:
        summary[_THEOREM] = [_theorem(layout, digest) for digest in summary["cell"]]
    return summary.assign(sweep=layout.name)


def _theorem(layout: SweepLayout, digest: str) -> str:
    """Return the theorem that covers a cell of a sweep from before summaries had them, '' for none."""
    return experiment_of(CellFolder(layout.cell_folder(digest))).theorem


def _damaged_cells(layouts: Sequence[SweepLayout]) -> dict[tuple[str, str], str]:
    """Return a line for each cell whose files cannot be read, by its sweep and its digest."""
    damaged = {}
    for layout in layouts:
        for folder in layout.finished_cells():
            try:
                folder.results()
            except DamagedCellError as error:
                damaged[layout.name, folder.path.name] = str(error)
    return damaged


def _versions(layouts: Sequence[SweepLayout], damaged: Collection[tuple[str, str]]) -> list[str]:
    """Return, once each, what made the cells of finished sweeps that can be read."""
    found = [
        CellFolder(layout.cell_folder(digest)).made_by()
        for layout in layouts
        for digest in layout.summary()["cell"]
        if (layout.name, digest) not in damaged
    ]
    return list(dict.fromkeys(f"Run with {text}." for text in found))
