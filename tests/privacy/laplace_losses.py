"""Epsilons of noise by sums on a grid, independent of dprl's accounting."""

from __future__ import annotations

import math

import numpy as np
import scipy

from dprl.privacy.base import Float64Array

_STEPS = 200


def of_laplace_losses(n: float, most: float, delta: float) -> float:
    """Return the epsilon of n numbers with Laplace noise that change by `most` scales each, within 1e-4 of it.

    n may be fractional; one number then changes by less. The loss of one is `most` with probability 1/2, -`most` with
    probability e^-most / 2, and has the density e^(-(most - l) / 2) / 4 between; losses are added on a grid.
    """
    if delta <= 0.0:
        return n * most
    step, whole = most / _STEPS, int(n)
    last = round((n - whole) * _STEPS)
    size = 2 * (whole * _STEPS + last) + 1
    spectrum = np.fft.rfft(_laplace_loss(_STEPS, step), size) ** whole
    if last > 0:
        spectrum *= np.fft.rfft(_laplace_loss(last, step), size)
    chances = np.maximum(np.fft.irfft(spectrum, size), 0.0)
    losses = step * (np.arange(size) - size // 2)

    def failure(epsilon: float) -> float:
        return float(chances @ np.maximum(0.0, -np.expm1(np.minimum(epsilon - losses, 0.0))))

    return 0.0 if failure(0.0) <= delta else float(scipy.optimize.brentq(lambda e: failure(e) - delta, 0.0, n * most))


def _laplace_loss(steps: int, step: float) -> Float64Array:
    """Return the probabilities of the losses -steps..steps of one number; a loss between two counts half for each."""
    most, edges = steps * step, step * np.arange(-steps, steps + 1)
    between = np.diff(np.exp(-(most - edges) / 2.0)) / 2.0
    found = np.convolve(between, [0.5, 0.5])
    found[0] += math.exp(-most) / 2.0
    found[-1] += 0.5
    return found
