"""Identity of a sweep: under one name, its grid may grow or shrink, but not become another grid."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dprl.atomic_files import read_regular, write_json
from dprl.platform.configs.experiment import Experiment, Scalar
from dprl.platform.errors import UserError, counted, first_of, shortened, shown

_MOST_KEYS, _MOST_VALUES, _LONGEST_SHOWN = 3, 3, 20


@dataclass(frozen=True)
class Grid:
    """The cells of one call of a sweep: their settings by digest, and the digest of the code that they run."""

    sources: str
    cells: Mapping[str, Mapping[str, Scalar]]

    @classmethod
    def of(cls, experiments: Sequence[Experiment]) -> Grid:
        """Return the grid of these cells."""
        return cls(
            " ".join(sorted({each.sources for each in experiments})),
            {each.digest: each.parameters() for each in experiments},
        )

    @classmethod
    def read(cls, file: Path) -> Grid | None:
        """Return the grid that an earlier call wrote, None without one. Raises UserError for a damaged file."""
        try:
            found = json.loads(read_regular(file))
            return cls(found["sources"], found["cells"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            remedy = "remove it and run the sweep again, which keeps its cells"
            raise UserError(f"{file}: must be what an earlier call wrote, got {error}; {remedy}") from None

    def write(self, file: Path) -> None:
        """Write the grid for later calls."""
        write_json(file, {"sources": self.sources, "cells": self.cells})

    def continues(self, before: Grid) -> bool:
        """Whether this is `before`, grown or shrunk."""
        return self.cells.keys() >= before.cells.keys() or self.cells.keys() <= before.cells.keys()

    def difference(self, before: Grid) -> str:
        """Return the changes since `before`: the values of the first settings that differ, or the code."""
        keys = list(dict.fromkeys(key for grid in (before, self) for cell in grid.cells.values() for key in cell))
        changed = [(key, before.values(key), self.values(key)) for key in keys]
        told = [f"{key} {_shown(old)} -> {_shown(new)}" for key, old, new in changed if set(old) != set(new)]
        if self.sources != before.sources:
            told.append(f"the code of privacy/, envs/ or algorithms/ ({before.sources[:12]} -> {self.sources[:12]})")
        return ", ".join(first_of(told, _MOST_KEYS)) or "the same values of settings in other combinations"

    def values(self, key: str) -> list[str]:
        """Return the distinct values of a setting in the cells, '-' for a cell without it."""
        return list(dict.fromkeys(str(cell.get(key, "-")) for cell in self.cells.values()))


def require_same_meaning(name: str, before: Grid, now: Grid, n_finished: int) -> None:
    """Raise UserError if `now` is another grid than `before` with its `n_finished` finished cells.

    If no cell is finished, nothing is lost, and the new grid takes over the name.
    """
    if now.continues(before) or not n_finished:
        return
    seeds = set(now.values("seeds")) != set(before.values("seeds"))
    other = "another name (for more seeds also a seed beyond them; a report can pool both)" if seeds else "another name"
    rule = f"name: {shown(name)} has {counted(n_finished, 'finished cell')} of another grid, got "
    remedy = f"; choose {other}, or forget them (--fresh, in Python fresh=True)"
    raise UserError(rule + now.difference(before) + remedy)


def require_no_charges(name: str, journals: Path, now: Grid) -> None:
    """Raise UserError if cells outside of `now` have charged users of a release: their charges would not count."""
    charged = {file.name.rpartition("-")[0] for file in journals.glob("*.journal")} - now.cells.keys()
    if charged:
        raise UserError(
            f"name: {name!r} has charged users of a release in {counted(len(charged), 'cell')} of other settings or "
            f"code, got their journals in {journals}; choose another name, and for users who take part again compose "
            "the certificates (dprl compose)"
        )


def _shown(values: Sequence[str]) -> str:
    if len(values) == 1:
        return shortened(values[0], _LONGEST_SHOWN)
    more = ", ..." if len(values) > _MOST_VALUES else ""
    return f"{{{', '.join(shortened(value, _LONGEST_SHOWN) for value in values[:_MOST_VALUES])}{more}}}"
