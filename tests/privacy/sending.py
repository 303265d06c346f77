"""One user at a time, from the record to what is released."""

from __future__ import annotations

from dprl.privacy import CountPrivatizer, UserRecord
from dprl.privacy.queries.count_kernels import Released


def sent(privatizer: CountPrivatizer, record: UserRecord, user: int) -> Released:
    """Send and receive the message of `user`, and return the counts of all users so far."""
    privatizer.receive(privatizer.send(record, user))
    released: Released = privatizer.release()
    return released
