"""Noise summary of a certificate: the size of the error, and the best noise available."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from dprl.privacy.base import Guarantee
from dprl.privacy.queries.count_calibration import CountBudget, best_of_all, detection_threshold, report_variance
from dprl.privacy.queries.count_encoding import CountEncoding
from dprl.privacy.queries.count_precision import NoiseSpec
from dprl.privacy.schedule import ReleaseSchedule


def count_error(encoding: CountEncoding, noise: NoiseSpec) -> tuple[float, float]:
    """Return (rms over the episodes, maximum) of the standard deviation of one cell of the first family."""
    summands, users = encoding.summands(encoding.needed.families[0]), noise.counter.n_items
    if noise.law is not None:
        node = report_variance(noise.law, encoding.released, summands)
        rms, largest = math.sqrt((users + 1) / 2.0), math.sqrt(users)
    elif noise.counter.node is not None:
        node = noise.counter.node.variance * summands
        rms, largest = noise.counter.errors()
    else:
        return 0.0, 0.0
    deviation = math.sqrt(node)
    return rms * deviation, largest * deviation


@lru_cache(maxsize=64)  # every seed of a cell asks for the same ones
def noise_summary(
    guarantee: Guarantee | None,
    encoding: CountEncoding,
    noise: NoiseSpec,
    arithmetic: str,
    schedule: ReleaseSchedule | None,
) -> dict[str, Any]:
    """Return 'error' and 'best_available' for the certificate; {} without a guarantee.

    `arithmetic`, 'fast' or 'exact', restricts the best noise. On a schedule errors are those of its releases, and
    'releases' is their number, see `ReleaseSchedule`. The result is shared, so callers must not change it.
    """
    if guarantee is None:
        return {}
    rms, largest = count_error(encoding, noise)
    error = {"family": encoding.needed.families[0].name, "rms": rms, "max": largest}
    budget = CountBudget(guarantee.epsilon, guarantee.delta, encoding, noise.counter.n_items, arithmetic)
    best = best_of_all(budget, local=noise.law is not None)
    if noise.law is not None:
        error["threshold"] = detection_threshold(noise.law, budget)
    return {
        "error": error,
        "releases": None if schedule is None else schedule.number,
        "best_available": {**best, "ratio": rms / best["rms"] if best["rms"] > 0.0 else 1.0},
    }
