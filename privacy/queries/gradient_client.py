"""Client of gradients: the agents' side in another process, which turns gradients into messages."""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from dprl.privacy.base import Float64Array, LedgerError
from dprl.privacy.messages import PrivateMessages, RangeSet, SubmissionRange
from dprl.privacy.privatizer import ClientSpec
from dprl.privacy.queries.gradients import GradientQuery, send_all, shrink_all


class GradientClient:
    """The client side of agents in this process: turns their gradients into messages. For one thread.

    >>> from dprl.privacy import GradientLayout, GradientPrivacy, Streams
    >>> server = GradientPrivacy("ldp", 1e6, clip=2.0).build(GradientLayout(2), 3, Streams(0, "an example"))
    >>> messages = GradientClient(server.client_spec).send(server.lease(1), np.array([[0.5, 0.0]]))
    >>> server.accept(messages).round(3)
    array([[0.5, 0. ]])

    *Formal guarantee.* Every message is that of `spec.query` for its submission: with noise, or clipped for a trusted
    server that adds noise to sums. A submission is sent only once from here; give every part of a range to one client
    only. With entropy `seed`, a second client of the same submission draws the same noise; with `os`, keys are drawn
    here, and a process forked from this one does not have them.

    Args:
        spec: the privatizer's `client_spec`.
    """

    def __init__(self, spec: ClientSpec[GradientQuery]) -> None:
        self.spec = spec
        self._noise = spec.query.randomizer(spec.streams)
        self._sent = RangeSet()

    def send(self, lease: SubmissionRange, gradients: Float64Array) -> PrivateMessages:
        """Return the messages of a range's submissions for gradients float64[k, d].

        Raises:
            LedgerError: if one of them was sent here before, the lease is another privatizer's, or this process was
                forked from the one that took the keys.
            ValueError: for arrays of another shape; the error discloses only shapes, which are public.
        """
        expected = (len(lease), self.spec.query.dimension)
        given = np.ascontiguousarray(gradients, dtype=np.float64)
        if given.shape != expected:
            raise ValueError(f"gradients must have shape {expected}, got {given.shape}; one row for each submission")
        if lease.issuer != self.spec.issuer:
            raise LedgerError("a range is sent by clients of the privatizer that charged it")
        again = self._sent.first_common(lease.first, lease.last)
        if again is not None:
            raise LedgerError(f"submission {again} was sent already; a message that was lost takes a new number")
        self._sent.add(lease.first, lease.last)
        values = np.empty((len(lease), self.spec.query.message_length))
        if self.spec.query.noisy_sides[1]:
            shrink_all(values, given, self._noise)
        else:
            send_all(values, given, self._noise, lease.first)
        return PrivateMessages(lease.first, values, self.spec.issuer)

    def __reduce__(self) -> NoReturn:
        # A copy would send other data under the same noise.
        raise LedgerError("a client cannot be copied or pickled; make one from the spec in each process")
