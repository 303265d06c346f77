"""Engine of all reproductions: it runs the cells of a paper, passes them to the paper's file, and writes the page.

A paper is one file of data and one page in Markdown with placeholders for tables. `papers.PAPERS` lists them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from dprl.atomic_files import write_text
from dprl.platform.configs.config import load_cells
from dprl.platform.configs.experiment import Experiment, Scalar
from dprl.platform.errors import UserError, counted
from dprl.platform.reproductions import claims, tables
from dprl.platform.results.cell_folder import CellResults
from dprl.platform.results.home import Home
from dprl.platform.results.layout import SweepCell, SweepLayout
from dprl.platform.sweeps.sweep import SweepOptions, run_sweep

_QUICK = "_quick"


@dataclass(frozen=True)
class Request:
    """Settings of one reproduction.

    sweep: options of its sweep, except for its name. quick: whether to make only as many runs as the paper has.
    overrides: of the config, in the form of --set.
    """

    sweep: SweepOptions
    quick: bool
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reproduced:
    """Results of one reproduction.

    paper: its name. page: the Markdown file, None if cells are missing. verdicts: rows of a short table, headers first.
    data: all numbers, for programs. failed: one line per failure.
    """

    paper: str
    page: Path | None
    verdicts: Sequence[Sequence[str]]
    data: dict[str, Any]
    failed: Sequence[str]


class PaperGroup(NamedTuple):
    """Cells that share `settings`, keyed by dotted names of configs, and differ in mechanism and epsilon.

    words: its description on pages. private: whether it claims privacy.
    """

    name: str
    words: str
    settings: Mapping[str, Scalar]
    private: bool = True


class _Ran(NamedTuple):
    """Outcome of the sweep.

    cells: the finished ones. made: lines on the runs. failed: one line per failed cell and unwritten file, one if
    MLflow lacks entries, and one if cells are missing. complete: whether every cell is finished.
    """

    cells: Sequence[SweepCell]
    made: Sequence[str]
    failed: Sequence[str]
    complete: bool


class Paper:
    """Published experiment that can be reproduced.

    Attributes:
        name: of the reproduction, of its page and its template.
        config: name of the config of the sweep with its cells.
        runs: number per cell in the paper.
        groups: readings, if the paper leaves settings open; an experiment belongs to the first one that fits.
        names: of mechanisms, on pages.
        measures: of every cell, for programs.
        tables, sentences: of the paper; all are tested in every group.
        units: names of the numbers of runs and of episodes, on the page and in the data.
    """

    name: str
    config: str
    runs: int
    groups: tuple[PaperGroup, ...]
    names: Mapping[str, str]
    measures: tuple[claims.Measure, ...] = ()
    tables: tuple[claims.PublishedTable, ...] = ()
    sentences: tuple[claims.Sentence, ...] = ()
    units: tuple[str, str] = ("runs", "episodes")

    def key(self, group: str, flat: Mapping[str, Scalar]) -> claims.Key | None:
        """Return the key of the cell of a group with these parameters, None if it is not in the paper."""
        raise NotImplementedError

    def read(self, results: CellResults) -> claims.PaperCell:
        """Return the results of one cell."""
        raise NotImplementedError

    def blocks(self, cells: claims.Cells) -> dict[str, str]:
        """Return the text of the template's placeholders."""
        groups = [group.name for group in self.groups]
        return {
            "counted": tables.counted(cells, self.units),
            "groups": "\n".join(f"* **{one.name}**: {one.words}" for one in self.groups),
            "tables": tables.published_table(self.tables, groups, cells, self.runs, self.names) if self.tables else "",
            "sentences": tables.sentence_table(self.decided(cells), groups) if self.sentences else "",
        }

    def named(self, key: claims.Key) -> dict[str, Any]:
        """Return the key of a cell as plain data."""
        return {**key._asdict(), "epsilon": claims.finite_epsilon(key)}

    def __call__(self, request: Request) -> Reproduced:
        """Run the unfinished cells of the sweep, and write the page into <home>/reproductions/NAME[_quick].

        Raises UserError if the sweep cannot start; no page is written while cells are missing.
        """
        ran = run_cells(request, self.config, self.runs)
        if not ran.complete:
            return Reproduced(self.name, None, [], {}, ran.failed)
        keyed = ((self.key_of(cell.experiment), cell.folder.results()) for cell in ran.cells)
        cells = {key: self.read(results) for key, results in keyed if key is not None}
        folder = Home(request.sweep.home.resolve()).reproductions / f"{self.name}{_QUICK * request.quick}"
        page = folder / f"reproduction_{self.name}.md"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_text(page, self.page(cells, ran.made))
        except OSError as error:
            told = f"{folder}: must be a folder that can be written, got '{error.strerror}'; free it"
            raise UserError(told) from None
        return Reproduced(self.name, page, self.verdicts(cells), self.data(cells), ran.failed)

    def key_of(self, experiment: Experiment) -> claims.Key | None:
        """Return the key of an experiment, None if it is not in the paper."""
        flat = experiment.parameters()
        fit = (one for one in self.groups if all(flat.get(name) == value for name, value in one.settings.items()))
        group = next(fit, None)
        return None if group is None else self.key(group.name, flat)

    def decided(self, cells: claims.Cells) -> claims.Decided:
        """Return the outcomes of each sentence, by group."""
        groups = [group.name for group in self.groups]
        return {one: {group: claims.decide(one, group, cells, self.runs) for group in groups} for one in self.sentences}

    def page(self, cells: claims.Cells, made: Sequence[str]) -> str:
        """Return the page: the template with its placeholders filled. made: lines on the runs."""
        template = (Path(__file__).parent / f"{self.name}.md").read_text(encoding="utf-8")
        return template.format(made="  \n".join(made), **self.blocks(cells))

    def verdicts(self, cells: claims.Cells) -> list[list[str]]:
        """Return a table for a terminal: published numbers and sentences by group. The first row has the headers."""
        groups, rows = [group.name for group in self.groups], []
        for one in self.tables:
            counts = (claims.inside(one.entries(group, cells, self.runs)) for group in groups)
            rows.append([f"{one.name}: inside our range", *(f"{hits} of {asked}" for hits, asked in counts)])
        for sentence, by_group in self.decided(cells).items():
            words = (claims.verdict_of(by_group[group]) for group in groups)
            rows.append([sentence.text, *("-" if word == "not run" else word for word in words)])
        return [["", *groups], *rows]

    def data(self, cells: claims.Cells) -> dict[str, Any]:
        """Return all numbers as plain data."""
        entries = [
            {"table": place, **self.named(entry.key), **claims.entry_data(entry, self.runs)}
            for place, one in enumerate(self.tables, 1)
            for group in self.groups
            for entry in one.entries(group.name, cells, self.runs)
        ]
        sentences = [claims.sentence_data(sentence, by_group) for sentence, by_group in self.decided(cells).items()]
        every = [
            {**self.named(key), **claims.cell_data(cell, self.measures, self.units)} for key, cell in cells.items()
        ]
        return {"tables": entries, "sentences": sentences, "cells": every}


def run_cells(request: Request, config: str, quick_seeds: int) -> _Ran:
    """Run the unfinished cells of the sweep of `config`; with --quick those of a sweep with `quick_seeds` per cell.

    Raises UserError if the sweep cannot start.
    """
    quick = [f"seeds={quick_seeds}"] if request.quick else []
    overrides = [f"name={config}{_QUICK * request.quick}", *quick, *request.overrides]
    cells = load_cells(config, overrides)
    options = replace(request.sweep, name=cells[0].name)
    swept = run_sweep(cells, options)
    found = [cell for cell in SweepLayout(options.home.resolve(), options.name).cells(cells) if cell.finished]
    versions = dict.fromkeys(f"Run with {cell.folder.made_by()}." for cell in found)
    missing = len(cells) - len(found)
    told = f"{counted(missing, 'cell')} of {len(cells)} not finished: no page was written"
    return _Ran(
        cells=found,
        made=[f"Made by `{options.command}` from the sweep {options.name} ({config}.yaml).", *versions],
        failed=[*swept.failed, *swept.unwritten, *([told] if missing else [])],
        complete=not missing,
    )
