"""Each marked line hands an algorithm something that has not been released; the type checker must reject it."""

from __future__ import annotations

import numpy as np

from dprl.algorithms import TabularLearner
from dprl.privacy import CountPrivatizer, GradientPrivatizer, PrivateMessages, SubmissionRange, UserRecord
from dprl.privacy.queries.counts import Released


def of_counts(
    algorithm: TabularLearner, privatizer: CountPrivatizer, record: UserRecord, message: PrivateMessages
) -> None:
    algorithm.plan(privatizer.release())
    algorithm.plan(np.zeros(3))  # LEAK: raw counts
    algorithm.plan(record)  # LEAK: a raw trajectory
    algorithm.plan(message)  # LEAK: a single message
    privatizer.accept(record)  # LEAK: a raw trajectory that skips a client
    Released(message, 1, 1)  # LEAK: a message dressed as counts


def of_gradients(privatizer: GradientPrivatizer, lease: SubmissionRange, messages: PrivateMessages) -> None:
    privatizer.accept(messages)
    privatizer.accept(np.zeros((1, 3)))  # LEAK: a raw gradient
    privatizer.accept(lease)  # LEAK: not yet sent
