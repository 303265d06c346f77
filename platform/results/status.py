"""How far a sweep is, as its folder says it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from dprl.platform.errors import UserError
from dprl.platform.results.atomic_files import write_json

_COUNTS = ("cells", "cells_finished", "cells_failed")


@dataclass(frozen=True)
class SweepStatus:
    """How far a sweep was when that was last written. cells: 0 where it is not known. command: what resumes it."""

    cells: int
    cells_finished: int
    cells_failed: int
    command: str

    @classmethod
    def read(cls, file: Path, command: str) -> SweepStatus:
        """Return what a call of the sweep wrote, nothing known if there was none.

        command: what resumes the sweep, if the file does not say it. Raises UserError for a damaged file.
        """
        try:
            found = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
            cells, finished, failed = (int(found.get(key, 0)) for key in _COUNTS)
            return cls(cells, finished, failed, found.get("command", command))
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise UserError(f"{file}: must be what an earlier call wrote, got {error}; remove it") from None

    def write(self, file: Path) -> None:
        """Write the status for reports and for people."""
        write_json(file, asdict(self))

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of cells by name."""
        return {key: getattr(self, key) for key in _COUNTS}
