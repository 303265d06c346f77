"""Channel from a user to a learner: the cursor that every message advances, and the releases at its end.

A channel is a NamedTuple of arrays for compiled loops: its `cursor`, the client's side, the current `message`, and the
server's side. Each query in `queries/` has its own, with kernels for both sides. In a deployment, the network lies
between the kernel that writes `message` and the one that reads it.
"""

from __future__ import annotations

import numpy as np

from dprl.compiled import no_alloc_kernel
from dprl.privacy.base import Int64Array, LedgerError

CHARGED, SENT, MESSAGES, RECEIVED, RELEASED = range(5)
"""Entries of a cursor int64[5]: the last submission charged, the last one sent, the number of messages sent, the last
submission received, and the last one released."""


def new_cursor() -> Int64Array:
    """Return the cursor of a run without charges."""
    return np.zeros(5, dtype=np.int64)


@no_alloc_kernel
def advance_sent(cursor: Int64Array, submission: int) -> None:
    """Client side: raise LedgerError unless `submission` is charged and is the next one to send."""
    if submission != cursor[SENT] + 1 or submission > cursor[CHARGED]:
        raise LedgerError("users send once, in order, and after the ledger has charged them")
    cursor[SENT] = submission
    cursor[MESSAGES] += 1


def advance_block(cursor: Int64Array, first: int, users: int) -> None:
    """Count `users` users from `first` on as sent and received. Raises LedgerError like `advance_sent`."""
    last = first + users - 1
    if first != cursor[SENT] + 1 or cursor[RECEIVED] != cursor[SENT] or users < 1 or last > cursor[CHARGED]:
        raise LedgerError("users send once, in order, and after the ledger has charged them")
    cursor[[SENT, RECEIVED]] = last
    cursor[MESSAGES] += users


@no_alloc_kernel
def advance_received(cursor: Int64Array) -> None:
    """Server side: raise LedgerError unless a message was sent and not yet received."""
    if cursor[RECEIVED] >= cursor[SENT]:
        raise LedgerError("a message is received once, after it was sent")
    cursor[RECEIVED] = cursor[SENT]
