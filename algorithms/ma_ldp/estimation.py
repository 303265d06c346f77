"""Ridge regression on noisy sums, the inverse of Sigma, and the radius beta_{k,h} as printed in [TH23]."""

from __future__ import annotations

import math

import numpy as np

from dprl.algorithms.base import Float64Array
from dprl.algorithms.numerics import inverted
from dprl.compiled import no_alloc_kernel

RIDGE = 1.0
"""eta of line 38, 1 in the paper; also the lambda of Lambda_1."""
EXPONENT = 0.25
"""beta grows like k^(1/4)."""


_POWERS = {
    "raw": (0.0, 0.0),
    "gram_gaussian": (0.5, 0.25),
    "gram_laplace": (0.5, 0.0),
    "gram_bounded_laplace": (0.5, 0.0),
    "gram_uniform": (0.0, 0.25),
}
"""Factor of beta by mechanism: the powers of 1/epsilon and of ln((H-h+1)/delta)."""


def shift_rates(deviations: Float64Array, dimension: int, alpha: float, scale: float) -> Float64Array:
    """Return the shift of each stage's matrix per square root of messages, float64[H]: scale * 2 Gamma_k / sqrt(k-1).

    deviations float64[H]: of one number's noise. With probability 1 - alpha/6 the noise of a matrix with independent
    entries has no eigenvalue below -Gamma_k; 2 Gamma_k makes Sigma positive definite. Post-processing.

    Paper: [TH23] appendix C, eqs. (6) and (8).
    """
    # D24: line 38 adds eta = 1 only; Sigma then has negative eigenvalues from the first messages on.
    factor = math.sqrt(4.0 * dimension) + 2.0 * math.log(6.0 * deviations.shape[0] / alpha)
    return scale * 2.0 * deviations * factor


@no_alloc_kernel
def estimate(
    matrices: Float64Array,
    vectors: Float64Array,
    rates: Float64Array,
    n_messages: int,
    theta: Float64Array,
    inverses: Float64Array,
    factor: Float64Array,
) -> int:
    """Fill theta and Sigma^-1 from the sums of `n_messages` messages; return the number of extra shifts.

    matrices float64[M, H, D, D]: Lambda, the upper triangle; vectors float64[M, H, D]: u; rates float64[H]: see
    `shift_rates`. theta float64[M, H, D]; inverses float64[M, H, D, D]; factor float64[D, D]: scratch. The last stage,
    with known values, is skipped. If Sigma is not positive definite, the shift doubles until it is; this is
    post-processing of released sums.

    Paper: [TH23] Algorithm 1, lines 38 and 39.
    """
    root, indefinite = math.sqrt(float(n_messages)), 0
    for m in range(vectors.shape[0]):
        for h in range(vectors.shape[1] - 1):
            shift, inverse = RIDGE + rates[h] * root, inverses[m, h]
            if not inverted(matrices[m, h], shift, factor, inverse):
                indefinite += 1
                shift *= 2.0
                while not inverted(matrices[m, h], shift, factor, inverse):
                    shift *= 2.0
            for i in range(theta.shape[2]):
                total = 0.0
                for j in range(theta.shape[2]):
                    total += inverse[i, j] * vectors[m, h, j]
                theta[m, h, i] = total
    return indefinite


def beta_rates(
    mechanism: str, budget: tuple[float, float] | None, sizes: tuple[int, int, int], alpha: float
) -> Float64Array:
    """Return beta_{k,h} / (c k^(1/4)), float64[H]: (nd)^(3/4) (H-h+1)^(3/2) ln(ndT/alpha) times the mechanism's factor.

    budget: the requested epsilon and delta, None without noise. sizes: D = n d, H and K; T = K H.

    Paper: [TH23] Theorems 2, 4, 6 and 8.
    """
    dimension, horizon, episodes = sizes
    of_epsilon, of_delta = _POWERS[mechanism]
    ahead = np.arange(horizon, 0, -1)
    rates = dimension**0.75 * math.log(dimension * episodes * horizon / alpha) * ahead**1.5
    if budget is None:
        return np.asarray(rates)
    epsilon, delta = budget
    logarithms = np.log(ahead / delta) ** of_delta if of_delta else 1.0
    return np.asarray(rates * logarithms / epsilon**of_epsilon)
