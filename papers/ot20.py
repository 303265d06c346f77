"""Tables and sentences of [OT20] on PGC-A3C beside ours: Laplace and projected random sign (PRS) on CartPole.

Several cells of Tables 1 and 3 are missing from the available text; they are left out, not guessed.
Paper: [OT20] Tables 1, 2 and 3, sec. 4.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dprl.algorithms.pgc.scores import AREA, FINAL_SCORE, FIRST_SUCCESS, SCORE
from dprl.papers.compare import (
    Section,
    Statistic,
    bootstrap,
    joint_verdict,
    mean,
    median,
    ratio,
    share,
    values,
    verdict,
)
from dprl.platform.configs.experiment import Scalar
from dprl.platform.reports.number_texts import estimate_text
from dprl.platform.results.cell_folder import CellResults
from dprl.platform.results.summary import by_seed

TITLE = "Reproduction: PGC-A3C of Ono and Takahashi, 'Locally Private Distributed Reinforcement Learning'"
CONFIG, RUNS = "pgc_a3c_table", 20
"""RUNS: trials of a cell in the paper."""
QUICK = (f"seeds={RUNS}",)
EARLY = 10_000
"""Submissions; the paper does not say when its early stage ends."""
NOTES = """\
Ours has a 95 % interval (bootstrap; for shares Clopper and Pearson). `*`: the published number lies outside the central
95 % of results of 20 of our trials, as many as the paper has. Numbers that the text at hand has lost are left out. A
median is \u221e where half of the trials have no first success. Without privacy each coordinate is clipped, our choice.

A sentence holds if the 95 % intervals of all its differences lie above 0, fails if one lies below, and is open
otherwise; intervals are not adjusted. The early stage ends at submission 10,000, our choice.

Readings: R1 has a reward of 0 except at the last step, -1 if the pole fell and +1 if not; V(s_T) discounted in both
eqs. (12) and (18); first parameters normal with standard deviation 0.1. R2 is the same with Glorot uniform first
parameters, the default of TensorFlow's layers. Literal are the formulas as printed: a reward of 1 for every step;
V(s_T) discounted in eq. (12) and not in eq. (18); first parameters Glorot uniform. The printed formulas do not give
these tables. R1 and R2 were kept out of some hundred readings after seeing results, then run with other seeds.

`dprl certify pgc_a3c_table` prints every certificate, `dprl reproduce ot20 --json` all numbers, `dprl sweep
pgc_a3c_best` our own settings.
"""

# ---- settings: the readings of the paper, and its cells ----

READINGS = {
    "R1": ("terminal", "discounted", "normal", 0.1),
    "R2": ("terminal", "discounted", "glorot", 1.0),
    "literal": ("literal", "printed", "glorot", 1.0),
}
"""Of the algorithm, by reading: reward, bootstrap, initial, initial_scale."""
LAPLACE, PRS, NO_NOISE = "clipped_laplace", "projected_random_sign", "elementwise"
"""NO_NOISE: each coordinate is clipped."""
NAMES = {LAPLACE: "Laplace", PRS: "PRS", NO_NOISE: "none, each coordinate clipped", "l1": "none, Laplace's L1 clip"}
BUFFERS = {LAPLACE: 1, PRS: 100}
"""|B| of the tables, by the last sentence of sec. 4.1."""
EPSILONS, NEVER = (1.0, 2.0, 5.0, 10.0), math.inf


class Cell(NamedTuple):
    """A cell of every reading. epsilon: infinite without privacy. reports: 'noise' for gradients of zero."""

    mechanism: str
    epsilon: float
    buffer: int
    reports: str = "gradient"


def cell(mechanism: str, epsilon: float, buffer: int | None = None) -> Cell:
    """Return the cell of a mechanism with the buffer of the tables or another one."""
    size = BUFFERS[mechanism] if buffer is None else buffer
    return Cell(mechanism if math.isfinite(epsilon) else NO_NOISE, epsilon, size)


# ---- the paper: numbers by mechanism and epsilon, and sentences as claims that one cell exceeds another ----

# fmt: off
NUMBERS = pd.DataFrame(
    [
        ("Table 1", "first_success", LAPLACE, {2.0: "20238.5", NEVER: "1769.0"}),
        ("Table 1", "first_success", PRS,
         {1.0: "25226.5", 2.0: "7549.0", 5.0: "2656.5", 10.0: "11217.5", NEVER: "1709.0"}),
        ("Table 2", "success", LAPLACE, {1.0: "0.80", 2.0: "0.90", 5.0: "1.00", 10.0: "1.00", NEVER: "1.00"}),
        ("Table 2", "success", PRS, {1.0: "0.85", 2.0: "0.95", 5.0: "0.90", 10.0: "0.90", NEVER: "1.00"}),
        ("Table 3", "relative_area", LAPLACE, {2.0: "0.711", 10.0: "0.965"}),
        ("Table 3", "relative_area", PRS, {2.0: "0.862", 10.0: "0.771"}),
    ],
    columns=["table", "column", "mechanism", "by_epsilon"],
)
# fmt: on
Claim = tuple[str, Cell, Cell | None]
"""A number of trials, the cell where it is larger, and the other one; None: it is 1 in all trials."""


def falls(column: str, mechanism: str, *epsilons: float) -> list[Claim]:
    """Return the claims that a number falls from each epsilon to the next."""
    return [(column, cell(mechanism, one), cell(mechanism, other)) for one, other in itertools.pairwise(epsilons)]


def exceeds(column: str, mechanism: str, *epsilons: float) -> list[Claim]:
    """Return the claims that a mechanism's number is larger than the other's at these epsilons."""
    other = LAPLACE if mechanism == PRS else PRS
    return [(column, cell(mechanism, epsilon), cell(other, epsilon)) for epsilon in epsilons]


def buffered(mechanism: str, better: int, worse: int) -> list[Claim]:
    """Return the claims that one buffer is better than another at epsilon 1."""
    one, other = cell(mechanism, 1.0, better), cell(mechanism, 1.0, worse)
    return [(column, one, other) for column in ("area", "mean_score")]


# fmt: off
SENTENCES: list[tuple[str, str, list[Claim]]] = [
    ("4.1", "the buffering limits the learning dynamics of the Laplace mechanism too small to learn",
     buffered(LAPLACE, 1, 100)),
    ("4.1", "in the PRS mechanism, the buffering gives better learning stability", buffered(PRS, 100, 1)),
    ("4.2", "the Laplace mechanism shows a decreasing the median of FST along with increasing \u03b5",
     falls("first_success", LAPLACE, *EPSILONS)),
    ("4.2", "PGC-A3C with PRS shows better results within \u03b5={2,5}", exceeds("first_success", LAPLACE, 2.0, 5.0)),
    ("Table 1", "(the median of PRS falls from \u03b5=1 to 5)", falls("first_success", PRS, 1.0, 5.0)),
    ("4.2", "it does not show such improvement at \u03b5=10", falls("first_success", PRS, 10.0, 5.0)),
    ("4.3", "The non-private A3C (\u03b5=\u221e) succeeds in all trials",
     [("success", cell(mechanism, NEVER), None) for mechanism in BUFFERS]),
    ("4.3", "the algorithms tend to make more successes for larger \u03b5",
     [claim for mechanism in BUFFERS for claim in falls("success", mechanism, 10.0, 1.0)]),
    ("4.3", "PRS gives more successes for \u03b5=1,2", exceeds("success", PRS, 1.0, 2.0)),
    ("4.3", "the Laplace mechanism shows better for \u03b5=5,10", exceeds("success", LAPLACE, 5.0, 10.0)),
    ("4.3", "PRS makes more successes in the early stage", exceeds("early_success", PRS, *EPSILONS)),
    ("4.3", "Laplace shows more successes by the end of each training process", exceeds("success", LAPLACE, *EPSILONS)),
    ("4.3", "Laplace mechanism achieves larger AUC in proportional to \u03b5", falls("area", LAPLACE, *EPSILONS[::-1])),
    ("4.3", "PRS shows the best at \u03b5 = 2",
     [claim for epsilon in (1.0, 5.0, 10.0) for claim in falls("area", PRS, 2.0, epsilon)]),
    ("4.3", "PRS may be a better choice if we require strong privacy guarantees (\u03b5<10)",
     exceeds("area", PRS, 1.0, 2.0, 5.0)),
    ("4.3", "Otherwise, the Laplace mechanism seems more promising", exceeds("area", LAPLACE, 10.0)),
]
# fmt: on

# ---- our trials ----


def key(flat: Mapping[str, Scalar]) -> dict[str, Any] | None:
    """Return the reading and the cell of an experiment, None if it has none."""
    private = flat["privacy.model"] != "none"
    mechanism = str(flat["privacy.mechanism" if private else "privacy.clip_norm"])
    settings = tuple(flat[f"algorithm.{name}"] for name in ("reward", "bootstrap", "initial", "initial_scale"))
    reading = next((name for name, those in READINGS.items() if those == settings), None)
    if reading is None or mechanism not in NAMES:
        return None
    epsilon, reports = float(flat["privacy.epsilon"]) if private else NEVER, str(flat["algorithm.reports"])
    return {"reading": reading, **Cell(mechanism, epsilon, int(flat["algorithm.buffer_size"]), reports)._asdict()}


def read(results: CellResults) -> dict[str, Any]:
    """Return the trials of a cell.

    first_success: its submission, infinite without one. area: under the step function that jumps to 1 there.
    mean_score: of all submissions. final_score: of the last 5,000.
    """
    first, area, final = (by_seed(results.records, one.name)[1][-1] for one in (FIRST_SUCCESS, AREA, FINAL_SCORE))
    ends, scores = by_seed(results.records, SCORE.name)
    return {
        "first_success": first,
        "success": np.isfinite(first).astype(float),
        "early_success": (first <= EARLY).astype(float),
        "area": area,
        "mean_score": np.average(scores, axis=0, weights=np.diff(ends, prepend=0)),
        "final_score": final,
    }


# ---- the paper's numbers and sentences beside ours ----


def statistic(column: str) -> Statistic:
    """Return the function of trials that the paper reports."""
    return median if column == "first_success" else ratio if column == "relative_area" else mean


def sections(runs: pd.DataFrame) -> list[Section]:
    """Return the tables of the page from trials."""
    judged = [
        {"sentence": text, "place": place, "reading": reading, "verdict": decide(runs, reading, claims)}
        for place, text, claims in SENTENCES
        for reading in READINGS
    ]
    numbers, sentences = published(runs), pd.DataFrame(judged)
    means = runs.groupby(["reading", *Cell._fields, "proved", "verdict"], sort=False).mean().reset_index()
    return [
        Section("Published numbers beside ours", numbers, by_reading(numbers, "text")),
        Section("Sentences of the paper", sentences, by_reading(sentences, "verdict")),
        Section("Means of all cells", means, pd.DataFrame()),
    ]


def published(runs: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each published number and reading: ours, its interval and the range of 20 of our trials."""
    rows = []
    for (_, printed), reading in itertools.product(NUMBERS.iterrows(), READINGS):
        for epsilon, paper in printed["by_epsilon"].items():
            of, column = cell(printed["mechanism"], epsilon), printed["column"]
            samples = [values(runs, column.removeprefix("relative_"), reading=reading, **of._asdict())]
            if column == "relative_area":
                free = of._replace(mechanism=NO_NOISE, epsilon=NEVER)
                samples.append(values(runs, "area", reading=reading, **free._asdict()))
            ours = share(*samples) if column == "success" else bootstrap(statistic(column), *samples)
            _, low, high, _ = bootstrap(statistic(column), *samples, size=RUNS)
            inside = None if math.isnan(low) else low <= float(paper) <= high
            about = {"table": printed["table"], "mechanism": NAMES[of.mechanism], "\u03b5": epsilon, "|B|": of.buffer}
            found = {"ours": ours, "low_of_20": low, "high_of_20": high, "inside": inside}
            text = estimate_text(ours) + " *" * (inside is False)
            rows.append({**about, "paper": paper, "reading": reading, **found, "text": text})
    return pd.DataFrame(rows)


def decide(runs: pd.DataFrame, reading: str, claims: Sequence[Claim]) -> str:
    """Return the verdict on a sentence in one reading, '' if a cell was not run."""
    found = []
    for column, larger, smaller in claims:
        samples = [values(runs, column, reading=reading, **one._asdict()) for one in (larger, smaller) if one]
        if not all(map(len, samples)):
            return ""
        found.append(verdict(samples[0], samples[1] if smaller else None, statistic(column), RUNS))
    return joint_verdict(found)


def by_reading(frame: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return one column for each reading."""
    head = list(frame.columns[: frame.columns.get_loc("reading")])
    wide = frame.set_index([*head, "reading"])[column].unstack("reading", sort=False)
    return wide.reset_index()[[*head, *READINGS]]
