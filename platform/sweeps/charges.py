"""Charges of earlier calls under a sweep's name; every later certificate must include them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from dprl.platform.configs.experiment import Experiment
from dprl.platform.errors import UserError
from dprl.platform.results.cell_folder import CellFolder, DamagedCellError
from dprl.platform.results.layout import SweepCell, SweepLayout
from dprl.platform.results.sweep_identity import Grid, require_no_charges, require_same_meaning
from dprl.privacy.base import LedgerError
from dprl.privacy.journal import charging_attempts


def require_name(layout: SweepLayout, cells: Sequence[Experiment], grid: Grid, fresh: bool) -> None:
    """Raise UserError if the sweep's name stands for another grid already."""
    before = None
    with suppress(*((UserError,) if fresh else ())):  # a damaged file is no obstacle to a fresh start
        before = Grid.read(layout.grid_file)
    journals = layout.cell_folder("charges")
    new = [cell.digest for cell in cells if cell.asks_users and before and cell.digest not in before.cells]
    new_release = any(not [*journals.glob(f"{digest}-*")] for digest in new)
    if before is None or not grid.continues(before) or new_release:
        require_no_charges(layout.name, journals, grid)
    if before is not None and not fresh:
        finished = sum(CellFolder(layout.cell_folder(digest)).finished for digest in before.cells)
        require_same_meaning(layout.name, before, grid, finished)


def require_journals(cells: Sequence[SweepCell]) -> None:
    """Raise UserError before a fresh start deletes the certificate of users without a journal."""
    for cell in cells:
        lost = lost_charges(cell, fresh=True)
        if lost:
            raise UserError(f"{cell.label}: {lost}")


def lost_charges(cell: SweepCell, fresh: bool) -> str:
    """Return why the journals of a finished release do not have the charges of its certificate, '' if they do.

    fresh: whether they may have more, because the next certificate composes all of them.
    """
    if not (cell.finished and cell.experiment.asks_users):
        return ""
    stated = 1
    with suppress(*((DamagedCellError,) if fresh else ())):  # a damaged file is no obstacle to a fresh start
        stated = int(cell.folder.certificate().get("attempts", 1))
    try:
        recorded = [charging_attempts(cell.folder.charges_file(seed)) for seed in range(cell.experiment.seeds)]
    except LedgerError as error:
        return str(error)
    if min(recorded) > 0 and (max(recorded) == stated or (fresh and max(recorded) > stated)):
        return ""
    return (
        f"charges/{cell.folder.path.name}-*.journal must record its attempts, {stated} for a seed, got {recorded}; "
        "restore the latest state of the cell and its journals, or choose another name for new users"
    )
