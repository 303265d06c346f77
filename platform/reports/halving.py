"""Episodes until the regret per episode has halved: of each seed, and over the seeds of a cell."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from dprl.platform.reports.inference.intervals import median_interval


def halved_at(records: pd.DataFrame) -> np.ndarray:
    """Return the episode when each seed's regret per episode has halved, float64[n_seeds]; inf if it never does.

    It is the end of the first block with a mean regret per episode of at most half the first record's, if the means
    from there to the end of every later block are as small. So a temporary dip does not count, however well a long run
    ends, nor does the last block, which nothing confirms.

    records: columns `results.summary.columns`, the same episodes for every seed.
    """
    regret = records.pivot_table(index="seed", columns="episode", values="regret")
    ends, total = regret.columns.to_numpy(dtype=np.float64), regret.to_numpy()
    target = total[:, :1] / ends[0] / 2
    # Over a range of episodes, the mean is at most the target exactly if the excess does not rise.
    excess = total - target * ends
    highest_later = np.maximum.accumulate(excess[:, ::-1], axis=1)[:, ::-1][:, 1:]
    below = np.diff(excess, axis=1, prepend=0.0)[:, :-1] <= 0.0
    lasting = below & (highest_later <= excess[:, :-1])
    found = lasting.any(axis=1)
    return np.where(found, ends[lasting.argmax(axis=1)], math.inf)


def halving_columns(records: pd.DataFrame) -> dict[str, float]:
    """Return the columns of a cell's halving: the median with its interval, and the share of seeds halved."""
    values = halved_at(records)
    median, lower, upper = median_interval(values)
    share = float(np.isfinite(values).mean())
    return {"halved_at": median, "halved_at_lower": lower, "halved_at_upper": upper, "halved_share": share}
