"""Looseness of the privacy curves: `python -m benchmarks.accounting` prints the table of docs/privacy_model.md."""

from __future__ import annotations

import math

from dp_accounting.pld import privacy_loss_distribution as peer

from dprl.privacy.accounting.closed_forms import composed_epsilon, gaussian_mu, zcdp_rho
from dprl.privacy.mechanisms.base import Sensitivity
from dprl.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from dprl.privacy.mechanisms.laplace import Laplace

# Two counts that change by 5 each.
POOLED = Sensitivity(10.0, math.sqrt(50.0), 5.0, 10)


def _true(n: int, loss: float, delta: float) -> float:
    one = peer.from_laplace_mechanism(1.0 / loss, value_discretization_interval=1e-5 * max(1.0, n * loss))
    return float(one.self_compose(n).get_epsilon_for_delta(delta))


def rows() -> list[tuple[str, float, float, float]]:
    """Return (case, before, now, true) of every case; in cases named noise, relative to the Gaussian's."""
    found = []
    for n, pure, delta in ((28, 16.0, 1e-5), (100, 5.0, 1e-6), (200, 2.9, 1e-6)):
        now = Laplace(n / pure).curve(Sensitivity.of_cells(n)).epsilon(delta)
        before = composed_epsilon(delta, n, pure / n)
        case = f"epsilon, Laplace, {n} counts, pure {pure:g}, delta {delta:g}"
        found.append((case, before, now, _true(n, pure / n, delta)))
    # Ten nodes of a binary tree.
    scale, change = 50.0, POOLED.repeated(10)
    now = Laplace(scale).curve(change).epsilon(1e-6)
    before = composed_epsilon(1e-6, change.cells, 5.0 / scale)
    found.append(("epsilon, Laplace, pooled counts of H = 5 in 10 nodes", before, now, _true(20, 5.0 / scale, 1e-6)))
    cases = (
        ("clipped vector", 1.0, Sensitivity(1e4, 1e3, 1e3, 100)),
        ("pooled counts", 1.0, POOLED),
        ("4 joined nodes", 1.0, Sensitivity.of_cells(10).joined(4)),
        ("4 joined nodes", 3.0, Sensitivity.of_cells(10).joined(4)),
        ("4 joined nodes", 8.0, Sensitivity.of_cells(10).joined(4)),
    )
    for name, epsilon, change in cases:
        least = change.l2 / gaussian_mu(epsilon, 1e-6)
        before = change.l2 / math.sqrt(2.0 * zcdp_rho(epsilon, 1e-6)) / least
        now = DiscreteGaussian.calibrated(epsilon, 1e-6, change).scale / least
        found.append((f"noise, discrete Gaussian, {name}, ({epsilon:g}, 1e-6)", before, now, 1.0))
    return found


def main() -> None:
    """Print the table."""
    print("| quantity | before | now | true (noise: the Gaussian's) |\n|---|---|---|---|")
    for case, before, now, true in rows():
        print(f"| {case} | {before:.4f} | {now:.4f} | {true:.4f} |")


if __name__ == "__main__":
    main()
