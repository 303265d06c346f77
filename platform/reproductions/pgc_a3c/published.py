"""What [OT20] prints: its three tables, as far as their cells have come down to us, and its sentences.

Several cells of Tables 1 and 3 are missing from the text that is at hand; they are left out, not guessed.
Paper: [OT20] Tables 1, 2 and 3, sec. 4.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

LAPLACE, PROJECTED = "clipped_laplace", "projected_random_sign"
EPSILONS = (1.0, 2.0, 5.0, 10.0)
BUFFERS = {LAPLACE: 1, PROJECTED: 100}
"""|B| of the tables, as the last sentence of sec. 4.1 has it."""
TRIALS = 20
TARGET = 195.0

Numbers = Mapping[tuple[str, float], float]
"""By mechanism and epsilon, infinite without privacy."""

FIRST_SUCCESS: Numbers = {
    (LAPLACE, 2.0): 20238.5,
    (LAPLACE, math.inf): 1769.0,
    (PROJECTED, 1.0): 25226.5,
    (PROJECTED, 2.0): 7549.0,
    (PROJECTED, 5.0): 2656.5,
    (PROJECTED, 10.0): 11217.5,
    (PROJECTED, math.inf): 1709.0,
}
"""Table 1: the median over trials of the first success, in submissions."""
SUCCESS: Numbers = {
    **{(LAPLACE, epsilon): value for epsilon, value in zip(EPSILONS, (0.80, 0.90, 1.00, 1.00), strict=True)},
    **{(PROJECTED, epsilon): value for epsilon, value in zip(EPSILONS, (0.85, 0.95, 0.90, 0.90), strict=True)},
    **{(mechanism, math.inf): 1.0 for mechanism in BUFFERS},
}
"""Table 2: the share of trials with a first success."""
AREA: Numbers = {
    (LAPLACE, 2.0): 0.711,
    (LAPLACE, 10.0): 0.965,
    (PROJECTED, 2.0): 0.862,
    (PROJECTED, 10.0): 0.771,
}
"""Table 3: the area under the success ratio, relative to that without privacy, whose own is 1."""


class Quote(NamedTuple):
    """What the paper says. place: the section, or the table that shows it. text: its words, or what the table shows."""

    place: str
    text: str


LAPLACE_BUFFERING = Quote(
    "4.1", "the buffering limits the learning dynamics of the Laplace mechanism too small to learn"
)
PROJECTED_BUFFERING = Quote("4.1", "in the PRS mechanism, the buffering gives better learning stability")
LAPLACE_FALLS = Quote("4.2", "the Laplace mechanism shows a decreasing the median of FST along with increasing \u03b5")
PROJECTED_SOONER = Quote("4.2", "PGC-A3C with PRS shows better results within \u03b5={2,5}")
NO_IMPROVEMENT = Quote("4.2", "it does not show such improvement at \u03b5=10")
PROJECTED_FALLS = Quote("Table 1", "(the median of PRS falls from \u03b5=1 to 5)")
NON_PRIVATE = Quote("4.3", "The non-private A3C (\u03b5=\u221e) succeeds in all trials")
MORE_SUCCESSES = Quote("4.3", "the algorithms tend to make more successes for larger \u03b5")
PROJECTED_SUCCESSES = Quote("4.3", "PRS gives more successes for \u03b5=1,2")
LAPLACE_SUCCESSES = Quote("4.3", "the Laplace mechanism shows better for \u03b5=5,10")
EARLY_STAGE = Quote("4.3", "PRS makes more successes in the early stage")
LATE_STAGE = Quote("4.3", "Laplace shows more successes by the end of each training process")
LAPLACE_AREA = Quote("4.3", "Laplace mechanism achieves larger AUC in proportional to \u03b5")
PROJECTED_BEST = Quote("4.3", "PRS shows the best at \u03b5 = 2")
STRONG_PRIVACY = Quote("4.3", "PRS may be a better choice if we require strong privacy guarantees (\u03b5<10)")
WEAK_PRIVACY = Quote("4.3", "Otherwise, the Laplace mechanism seems more promising")
