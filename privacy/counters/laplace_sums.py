"""The tail of a sum of Laplace variables: a signed mixture of Gamma tails, without a Chernoff bound."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaincc, gammaln

_MIXTURE_STANDARD_DEVIATIONS = 14.0
# What the left-out part of a mixture can weigh.
_LEFT_OUT = 1e-40


def laplace_sum_tail(x: float, m: int) -> float:
    """Return P(|X_1 + ... + X_m| > x) for independent Laplace(1), up to a relative rounding error below 1e-7.

    With weights w_j = C(m-1+j, j) 2^-(m+j), j < m, the density is the w-mixture of Gamma(m-j) on either side; the
    weights of one side sum to 1/2. Those further than 14 standard deviations from the top are left out, and what they
    can weigh is added.
    """
    first = max(0, m - 1 - int(_MIXTURE_STANDARD_DEVIATIONS * np.sqrt(2.0 * m)))
    j = np.arange(first, m)
    log_weight = gammaln(m + j) - gammaln(j + 1) - gammaln(m) - (m + j) * np.log(2.0)
    weight = np.exp(log_weight)
    # Dividing by their sum removes the error that all weights of a large m share.
    return float(np.sum(weight * gammaincc(m - j, x)) / np.sum(weight)) + (0.0 if first == 0 else _LEFT_OUT)
