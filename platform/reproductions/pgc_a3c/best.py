"""Our own settings for PGC-A3C, at the paper's guarantees: the finished cells of the sweep pgc_a3c_best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dprl.platform.configs.config import config_files, load_cells
from dprl.platform.configs.experiment import Scalar, varying_keys
from dprl.platform.reports.verdicts import epsilon_sign, standing
from dprl.platform.reproductions.pgc_a3c.trials import Trials
from dprl.platform.reproductions.resampling import median
from dprl.platform.results.layout import SweepLayout

BEST = "pgc_a3c_best"
_APART = ("privacy.model", "privacy.mechanism", "privacy.epsilon", "privacy.clip_norm")
"""What has a column of its own."""


@dataclass(frozen=True, eq=False)
class BestCell:
    """A cell of that sweep. proved: epsilon, and delta where there is one. settings: what tells it from the others."""

    epsilon: float
    proved: str
    mechanism: str
    settings: str
    trials: Trials

    @classmethod
    def of(cls, flat: Mapping[str, Scalar], keys: Sequence[str], trials: Trials) -> BestCell:
        """Return the cell with these settings; `keys` are those that tell it from the others."""
        epsilon, delta = float(flat["privacy.epsilon"]), float(flat.get("privacy.delta", 0.0))
        proved = epsilon_sign(standing(trials.certificate).proved) + (f", \u03b4={delta:g}" if delta else "")
        told = [f"{key.rpartition('.')[2]} {_plain(flat[key])}" for key in keys if key in flat]
        return cls(epsilon, proved, str(flat["privacy.mechanism"]), ", ".join(told), trials)


def best_cells(home: Path) -> list[BestCell]:
    """Return the private cells of the sweep that are finished, by epsilon and by median; none if it was never run."""
    layout = SweepLayout(home, BEST)
    if BEST not in config_files() or not layout.folder.is_dir():
        return []
    cells = layout.cells(load_cells(BEST))
    keys = [key for key in varying_keys([cell.experiment for cell in cells]) if key not in _APART]
    found = []
    for cell in cells:
        flat = cell.experiment.parameters()
        if cell.finished and flat["privacy.model"] != "none":
            found.append(BestCell.of(flat, keys, Trials.of(cell.folder.results())))
    return sorted(found, key=lambda one: (one.epsilon, float(median(one.trials.first_success))))


def _plain(value: Scalar) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
