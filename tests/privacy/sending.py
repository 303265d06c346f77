"""One user at a time, from the record to what is released."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dprl.privacy import CountPrivatizer, UserRecord
from dprl.privacy.base import Float64Array
from dprl.privacy.mechanisms.sampling import SILENT
from dprl.privacy.mechanisms.vectors import VectorMechanism
from dprl.privacy.queries.count_kernels import Released
from dprl.privacy.queries.gradients import estimate_all


def sent(privatizer: CountPrivatizer, record: UserRecord, user: int) -> Released:
    """Send and receive the message of `user`, and return the counts of all users so far."""
    privatizer.receive(privatizer.send(record, user))
    released: Released = privatizer.release()
    return released


def estimated(mechanism: VectorMechanism, messages: Sequence[Float64Array] | Float64Array) -> Float64Array:
    """Return the server's estimates from messages, float64[k, d]."""
    out = np.empty((len(messages), mechanism.dimension))
    estimate_all(out, np.array(messages), mechanism.vector_noise(SILENT.key))
    return out
