"""The noise scales that [TH23] prints for Gram matrices: to be run and certified, not to be believed.

None of them holds as claimed for all numbers of agents; GramGaussian and GramLaplace say what each really proves, after
the clips that the paper leaves out.
"""

from __future__ import annotations

import math

from dprl.privacy.accounting.closed_forms import gaussian_mu
from dprl.privacy.mechanisms.gram import JOINT_L2_SQUARED, GramRelease


def printed_gaussian_sigma(horizon: int, epsilon: float, delta: float) -> float:
    """Return sigma = 4 H^3 sqrt(2 ln(2.5 H / delta)) / epsilon, claimed to be (epsilon, delta)-LDP for any n.

    Paper: [TH23] Theorem 1.
    """
    # D8: for n agents the proof needs n times this; it has no n.
    return 4.0 * horizon**3 * math.sqrt(2.0 * math.log(2.5 * horizon / delta)) / epsilon


def printed_laplace_scale(horizon: int, dimension: int, epsilon: float) -> float:
    """Return b = 4 H^3 sqrt(n d) / epsilon for dimension = n d, claimed to be (epsilon, 0)-LDP.

    The bounded Laplace law has the same b and any bound.

    Paper: [TH23] Theorems 3 and 7.
    """
    # D8 and D9: no factor n, and sqrt(n d) where the matrix needs n d.
    return 4.0 * horizon**3 * math.sqrt(dimension) / epsilon


def printed_uniform_bound(horizon: int, delta: float, appendix: bool = False) -> float:
    """Return a = 4 H^3 sqrt(ln(2 H / delta)), claimed to be (0, delta)-LDP; without the root as the appendix has it.

    Paper: [TH23] Theorem 5; appendix D.3.
    """
    # D10: it would have to grow with 1 / delta, with or without the root.
    logarithm = math.log(2.0 * horizon / delta)
    return 4.0 * horizon**3 * (logarithm if appendix else math.sqrt(logarithm))


def most_agents_of_printed_gaussian(horizon: int, epsilon: float, delta: float) -> int:
    """Return the largest n for which the printed sigma is (epsilon, delta)-LDP, with m_h = H - h; it names no limit."""
    per_agent = JOINT_L2_SQUARED * GramRelease.of_horizon(horizon, 1, 1).power_sum(4)
    largest = gaussian_mu(epsilon, delta) * printed_gaussian_sigma(horizon, epsilon, delta)
    return math.floor(largest**2 / per_agent)
