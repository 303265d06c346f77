"""What all reproductions do alike: run the sweep that a paper needs, and write the page with its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dprl.platform.configs.config import load_cells
from dprl.platform.configs.experiment import Experiment
from dprl.platform.errors import UserError, counted
from dprl.platform.reproductions.request import Request
from dprl.platform.results.atomic_files import write_bytes, write_text
from dprl.platform.results.cell_folder import CellResults
from dprl.platform.results.home import Home
from dprl.platform.results.layout import SweepCell, SweepLayout
from dprl.platform.sweeps.sweep import SweepOptions, run_sweep


@dataclass(frozen=True)
class Ran:
    """What became of the sweep.

    folder: of the runs. page_folder: where the page is to be. cells: the finished ones. made: lines on what was run.
    failed: a line for each cell that did, for each file and for MLflow if it lacks something, and one if cells are
    missing. complete: whether every cell is finished.
    """

    folder: Path
    page_folder: Path
    cells: Sequence[tuple[Experiment, CellResults]]
    made: Sequence[str]
    failed: Sequence[str]
    complete: bool


def run_cells(request: Request, config: str, paper: str, quick_seeds: int) -> Ran:
    """Run what is not finished of the sweep of `config`; with --quick another one, of `quick_seeds` runs a cell.

    The page belongs into <home>/reproductions/PAPER[_quick], as soon as no cell is missing. Raises UserError if the
    sweep cannot start.
    """
    suffix = "_quick" if request.quick else ""
    overrides = [f"name={config}{suffix}", *([f"seeds={quick_seeds}"] if request.quick else []), *request.overrides]
    cells = load_cells(config, overrides)
    options = SweepOptions(
        name=cells[0].name,
        home=request.home,
        executor=request.executor,
        address=None,
        tracking_uri=request.tracking_uri,
        fresh=request.fresh,
        command=request.command,
    )
    swept = run_sweep(cells, options)
    home = request.home.resolve()
    found = [cell for cell in SweepLayout(home, options.name).cells(cells) if cell.finished]
    missing = len(cells) - len(found)
    told = f"{counted(missing, 'cell')} of {len(cells)} not finished: no page was written"
    return Ran(
        folder=swept.folder,
        page_folder=Home(home).reproductions / f"{paper}{suffix}",
        cells=[(cell.experiment, cell.folder.results()) for cell in found],
        made=[f"Made by `{request.command}` from the sweep {options.name} ({config}.yaml).", *_versions(found)],
        failed=[*swept.failed, *swept.unwritten, *([told] if missing else [])],
        complete=not missing,
    )


def write_page(folder: Path, name: str, text: str, figures: Mapping[str, bytes]) -> Path:
    """Write the figures and then the page into the folder; return the page. Raises UserError where that cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, drawn in figures.items():
            write_bytes(folder / file, drawn)
        write_text(folder / name, text)
    except OSError as error:
        raise UserError(f"{folder}: must be a folder that can be written, got '{error.strerror}'; free it") from None
    return folder / name


def _versions(found: Sequence[SweepCell]) -> list[str]:
    """Return, once each, what made the cells."""
    return list(dict.fromkeys(f"Run with {cell.folder.made_by()}." for cell in found))
