"""Writes the report of some sweeps: the page, its figures, and its tables as files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dprl.atomic_files import write_bytes, write_json
from dprl.platform.errors import UserError, counted
from dprl.platform.reports.cell_texts import rows_of, shared_settings
from dprl.platform.reports.comparing.answers import answers_of
from dprl.platform.reports.comparing.findings import finding_rows
from dprl.platform.reports.comparing.groups import Group, groups_of, with_comparison
from dprl.platform.reports.comparing.report_cells import ReportCell, read_cells
from dprl.platform.reports.comparing.rows import cell_frame, comparison_frame
from dprl.platform.reports.documents.blocks import Block
from dprl.platform.reports.documents.web_page import html
from dprl.platform.reports.figures.catalogue import MOST_CHARTS, chart_files, report_charts
from dprl.platform.reports.figures.charts import Chart
from dprl.platform.reports.figures.styles import FORMATS
from dprl.platform.reports.pages.cell_tables import short_title
from dprl.platform.reports.pages.content import report_document
from dprl.platform.results.layout import SweepLayout, sweep_layout

_FORMAT = "png"
"""Format of the figures beside a report."""
_PAGE, _TABLES = "report.html", ("report.csv", "comparisons.csv")
_FIGURES_FILE = "report_figures.json"
"""List of a report's figures, so that the next report in the same folder removes these files and no others."""


@dataclass(frozen=True)
class SweepReport:
    """The report of some sweeps, before it is written.

    layouts: folders of the sweeps. groups: their finished cells. missing: a line for each sweep that is not finished
    and for each cell with unreadable files.
    """

    layouts: Sequence[SweepLayout]
    groups: Sequence[Group]
    missing: Sequence[str]

    @classmethod
    def of(cls, home: Path, names: Sequence[str], compared: tuple[str, str] | None = None) -> SweepReport:
        """Read sweeps, given by their names in `home` or the paths of their folders. Raises UserError.

        compared: two algorithms or cells; their comparison is declared, too.
        """
        layouts = [sweep_layout(home, name) for name in names]
        for layout in layouts:
            layout.require_finished()
        missing = [line for line in map(_missing, layouts) if line]
        damaged: list[str] = []
        cells = read_cells(layouts, damaged)
        if not cells:
            raise UserError(f"SWEEP: must have a cell that can be read: {damaged[0]}")
        missing += [f"left out: {line}" for line in damaged]
        groups = groups_of(cells)
        return cls(layouts, groups if compared is None else with_comparison(groups, *compared), missing)

    @property
    def cells(self) -> list[ReportCell]:
        """All cells, group by group."""
        return [cell for group in self.groups for cell in group.cells]

    def data(self) -> dict[str, Any]:
        """Return the content of the page, for a program."""
        return {
            "sweeps": [layout.name for layout in self.layouts],
            "missing": list(self.missing),
            "answers": [answer._asdict() for group in self.groups for answer in answers_of(group)],
            "findings": finding_rows(self.groups),
            "cells": rows_of(cell_frame(self.groups)),
            "comparisons": rows_of(comparison_frame(self.groups)),
        }

    def write(self, folder: Path, command: str, title: str | None = None) -> list[Path]:
        """Write everything into `folder` and return the files, the page first.

        command: the one that made the report, shown on the page. title: of the page, by default the sweeps' names.
        Raises OSError if the folder cannot be written.
        """
        charts = report_charts(self.cells, MOST_CHARTS)
        document = self.document(charts, command, title, self._certificates(folder))
        rows, comparisons = (frame(self.groups).to_csv(index=False) for frame in (cell_frame, comparison_frame))
        files: dict[str, bytes] = {
            _PAGE: html(*document).encode(),
            **dict(zip(_TABLES, (rows.encode(), comparisons.encode()), strict=True)),
        }
        figures = [f"{chart.name}.{_FORMAT}" for chart in charts]
        for old in _figures_before(folder) - set(figures):
            (folder / old).unlink(missing_ok=True)
        for name, data in files.items():
            write_bytes(folder / name, data)
        # Pages and tables first: whoever stops the drawing has them. The list comes before its files.
        write_json(folder / _FIGURES_FILE, figures)
        for chart in charts:
            for name, data in chart_files(chart, _FORMAT).items():
                write_bytes(folder / name, data)
        return [folder / name for name in (*files, *figures)]

    def document(
        self, charts: Sequence[Chart], command: str, title: str | None, certificates: Sequence[tuple[str, str]] = ()
    ) -> tuple[str, list[Block]]:
        """Return the title and the blocks of the page with these figures; for the others see `write`."""
        about = self._sweeps(), self.missing, self._made(command)
        return report_document(title, self.groups, charts, *about, command, certificates)

    def _certificates(self, folder: Path) -> list[tuple[str, str]]:
        """Return the label and the page's path in `folder` of each cell with a certificate page there."""
        found = []
        for group, i in [(one, i) for one in self.groups for i in one.names]:
            folders = group.cells[i].folders
            where = f"{short_title(group, self.groups)}: " if len(self.groups) > 1 else ""
            for part, page in enumerate((each.certificate_page for each in folders), start=1):
                if page.is_file() and page.is_relative_to(folder):
                    of = f", part {part} of {len(folders)}" if len(folders) > 1 else ""
                    found.append((f"{where}{group.names[i]}{of}", page.relative_to(folder).as_posix()))
        return found

    def _sweeps(self) -> list[str]:
        """Return each sweep's name and progress."""
        found = []
        for layout in self.layouts:
            status = layout.status()
            done = len(layout.finished_cells())
            found.append(f"{layout.name}: {done} of {counted(max(done, status.cells), 'cell')} done")
        return found

    def _made(self, command: str) -> list[str]:
        ran = {layout.name: layout.status().command for layout in self.layouts}
        lines = [f"{name} was run by: {ran[name]}" for name in ran if ran[name] != command]
        shared = shared_settings([cell.row for cell in self.cells])
        if shared:
            lines.append(f"All cells: {', '.join(shared)}")
        versions = dict.fromkeys(folder.made_by() for cell in self.cells for folder in cell.folders)
        return [*lines, *(f"Cells were run with {text}" for text in versions)]


def remove_report(folder: Path) -> None:
    """Remove the page, tables and figures of a report in `folder`, and nothing else."""
    for name in [_PAGE, *_TABLES, *_figures_before(folder), _FIGURES_FILE]:
        (folder / name).unlink(missing_ok=True)


def _figures_before(folder: Path) -> set[str]:
    """Return the names of the figures that an earlier report has written into `folder`."""
    try:
        names = json.loads((folder / _FIGURES_FILE).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return set()
    found = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
    return {name for name in found if name == Path(name).name and Path(name).suffix[1:] in FORMATS}


def _missing(layout: SweepLayout) -> str:
    """Return the missing cells of a sweep and the command that resumes it, '' if it is finished."""
    status = layout.status()
    lacks = status.cells - len(layout.finished_cells())  # the status is older if the sweep was killed
    if status.cells and not lacks:
        return ""
    failed = f", {status.cells_failed} of them failed (logs in {layout.logs})" if status.cells_failed else ""
    told = f"{layout.name} lacks {lacks} of {counted(status.cells, 'cell')}{failed}"
    if not status.cells:
        told = f"{layout.name} does not say how many cells it has"
    return f"{told}; resume with: {status.command}"
