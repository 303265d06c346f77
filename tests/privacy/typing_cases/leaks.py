"""Each marked line hands an algorithm something that has not been released; the type checker must reject it."""

import numpy as np

from dprl.algorithms import TabularLearner
from dprl.privacy import Contribution, GradientPrivatizer, Lease, PrivateCounts, PrivateMessages, Privatizer, Report


def of_counts(algorithm: TabularLearner, privatizer: Privatizer, contribution: Contribution, report: Report) -> None:
    algorithm.plan(privatizer.absorb(privatizer.encode(contribution, 1)))
    algorithm.plan(np.zeros(3))  # LEAK: raw counts
    algorithm.plan(contribution)  # LEAK: a raw trajectory
    algorithm.plan(report)  # LEAK: a single report
    privatizer.absorb(contribution)  # LEAK: a raw trajectory that skips encode
    privatizer.absorb(Report(1, np.zeros(3), object()))  # LEAK: a report that was not encoded
    PrivateCounts(privatizer.families, np.zeros(3), 1, object())  # LEAK: counts without a seal
    PrivateCounts(privatizer.families, report.values, 1, report.seal)  # LEAK: a report dressed as counts


def of_gradients(privatizer: GradientPrivatizer, lease: Lease, messages: PrivateMessages) -> None:
    privatizer.estimates(messages)
    privatizer.estimates(np.zeros((1, 3)))  # LEAK: a raw gradient
    privatizer.score_bits(np.zeros(1))  # LEAK: a raw score
    privatizer.estimates(lease)  # LEAK: not yet sent
    Lease(1, 2, 3, object())  # LEAK: submissions that are not charged
    Lease(1, 2, 3, messages.seal)  # LEAK: the seal of messages
    PrivateMessages(messages.first, np.zeros((1, 3)), object())  # LEAK: a raw gradient dressed as messages
    PrivateMessages(messages.first, messages.values, lease.seal)  # LEAK: the seal of a lease
