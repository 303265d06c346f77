"""Table 1 of [QW24] beside ours: rates of regret of DP-Nash-VI in a random game, and of its comparators on RiverSwim.

The paper has no experiments. Its bounds hold up to logarithms and for the worst game: smaller exponents are within.
Paper: [QW24] Table 1, Theorems 5.2 and 5.5.
"""

from __future__ import annotations

import pandas as pd

from dprl.papers import cz22
from dprl.papers.compare import Section
from dprl.papers.cz22 import key, read

__all__ = ["CONFIG", "NOTES", "QUICK", "TITLE", "key", "read", "sections"]

TITLE = "DP-Nash-VI of Qiao and Wang: stated rates beside ours"
CONFIG, QUICK = "qw24", ("seeds=3",)
NOTES = """\
A random game with S = 3, A = B = 2, H = 3, and for the comparators, which have one player, RiverSwim with S = 3, H = 4;
unit constants for DP-Nash-VI and DP-UCBVI, where the paper leaves them open; noise of `calibration: printed`. The rest
as in the reproduction of [CZ22]: `dprl reproduce cz22`.
"""

ORDERS = [
    ("jdp", "private_ucb_vi", "dp_ucbvi"),
    ("jdp", "pucb", "private_ucb_vi"),
    ("ldp", "private_ucb_vi", "dp_ucbvi"),
    ("ldp", "ldp_obi", "private_ucb_vi"),
]
"""For one player: sqrt(H^2SAT), sqrt(H^3SAT) and sqrt(H^3S^2AT); the terms with epsilon are the same."""


def sections(runs: pd.DataFrame) -> list[Section]:
    """Return the tables of the page."""
    return cz22.tables(runs, ORDERS)
