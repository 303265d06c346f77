"""Each marked line hands an algorithm something that has not been released; the type checker must reject it."""

import numpy as np

from dprl.algorithms import Algorithm
from dprl.privacy import Contribution, PrivateCounts, Privatizer, Report


def leaks(algorithm: Algorithm, privatizer: Privatizer, contribution: Contribution, report: Report) -> None:
    algorithm.plan(privatizer.absorb(privatizer.encode(contribution, 1)))
    algorithm.plan(np.zeros(3))  # LEAK: raw counts
    algorithm.plan(contribution)  # LEAK: a raw trajectory
    algorithm.plan(report)  # LEAK: a single report
    privatizer.absorb(contribution)  # LEAK: a raw trajectory that skips encode
    privatizer.absorb(Report(1, np.zeros(3), object()))  # LEAK: a report that was not encoded
    PrivateCounts(privatizer.families, np.zeros(3), 1, object())  # LEAK: counts without a seal
    PrivateCounts(privatizer.families, report.values, 1, report.seal)  # LEAK: a report dressed as counts
