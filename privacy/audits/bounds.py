"""Lower bounds on epsilon and delta from counts of an event in two worlds, with a stated confidence."""

from __future__ import annotations

import math

import scipy


def clopper_pearson_lower(successes: int, runs: int, alpha: float) -> float:
    """Return p with P(p > true probability) <= alpha, from `successes` of `runs` independent trials.

    Paper: Clopper, Pearson 1934.
    """
    return 0.0 if successes <= 0 else float(scipy.special.betaincinv(successes, runs - successes + 1, alpha))


def clopper_pearson_upper(successes: int, runs: int, alpha: float) -> float:
    """Return p with P(p < true probability) <= alpha, from `successes` of `runs` independent trials.

    Paper: Clopper, Pearson 1934.
    """
    return 1.0 if successes >= runs else float(scipy.special.betainccinv(successes + 1, runs - successes, alpha))


def epsilon_lower_bound(likely: float, unlikely: float, delta: float) -> float:
    """Return an epsilon >= 0 below which no (epsilon, delta)-DP mechanism has an event of these probabilities.

    likely: lower bound on its probability in one world; unlikely: upper bound on its probability in the other.
    """
    return max(0.0, math.log((likely - delta) / unlikely)) if likely > delta else 0.0


def delta_lower_bound(likely: float, unlikely: float, epsilon: float) -> float:
    """Return a delta below which no (epsilon, delta)-DP mechanism has an event of these probabilities."""
    if math.log(unlikely) + epsilon >= 0.0:
        return 0.0
    return max(0.0, likely - math.exp(epsilon) * unlikely)


def largest_epsilon_bound(runs: int, alpha: float, delta: float) -> float:
    """Return the epsilon_lower_bound of an event that all of `runs` runs have in one world and none in the other.

    No larger bound can be shown by that many runs. alpha: failure probability of each probability's bound.
    """
    likely, unlikely = clopper_pearson_lower(runs, runs, alpha), clopper_pearson_upper(0, runs, alpha)
    return epsilon_lower_bound(likely, unlikely, delta)
