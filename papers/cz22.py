"""Table 1 of [CZ22] beside ours: rates of regret of private algorithms on RiverSwim, at the paper's noise.

The paper has no experiments. Its bounds hold up to logarithms and for the worst MDP: a smaller exponent is within them.
Paper: [CZ22] Table 1, Corollaries 1 and 2.
"""

from __future__ import annotations

import pandas as pd

from dprl.papers.compare import Section, cell_key, guarantees, orders, rates, read_decade

TITLE = "Private-UCB-VI and Private-UCB-PO of Chowdhury and Zhou: stated rates beside ours"
CONFIG, QUICK = "cz22", ("seeds=3",)
NOTES = """\
RiverSwim with S = 3, H = 4, constants of the proofs, noise of `calibration: printed`. All plan after every 1 % more
episodes: a variant, the printed algorithms plan after every episode. Exponents are slopes of least squares on logs, in
K over the last decade of a run; the cost of privacy is R less the mean R without it. They have Student's 95 % intervals
over seeds, ratios Welch's. Not visible: the regret per episode had not halved by K / 10, so that the exponent would be
that of the first policy. On a single MDP regret ends up logarithmic in K, below a bound for the worst MDP of each K: so
these runs test the bounds and not whether they are tight.
"""

EXPONENTS = {"jdp": (0.5, 0.0), "ldp": (0.5, 0.5)}
"""sqrt(K) + 1 / epsilon for jdp, sqrt(K) + sqrt(K) / epsilon for ldp: of R and of the cost of privacy."""
ORDERS = [
    ("jdp", "private_ucb_po", "private_ucb_vi"),
    ("jdp", "pucb", "private_ucb_vi"),
    ("ldp", "private_ucb_po", "private_ucb_vi"),
    ("ldp", "ldp_obi", "private_ucb_vi"),
]
"""Private-UCB-VI has sqrt(SAH^3T) where the others have sqrt(S^2AH^3T); the terms with epsilon are the same."""

key, read = cell_key, read_decade


def sections(runs: pd.DataFrame) -> list[Section]:
    """Return the tables of the page."""
    return [*rates(runs, EXPONENTS), orders(runs, ORDERS), guarantees(runs)]
