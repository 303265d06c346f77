"""The ledger: users are charged for a design of noise before anything of them is released."""

from __future__ import annotations

import math
import operator
import os
from threading import Lock
from typing import Any, NamedTuple, NoReturn, Protocol

from dprl.privacy.accounting.closed_forms import PrivacyCurve
from dprl.privacy.base import LedgerError
from dprl.privacy.noise_design import NoiseDesign


class Charged(NamedTuple):
    """Content of a journal: the number of submissions that each earlier attempt has charged, and the current one."""

    earlier: tuple[int, ...]
    current: int


class Journal(Protocol):
    """Journal of charges that survives a crash; journal.py stores it in a file. It must not call the ledger."""

    def recorded(self, terms: str, users: int) -> Charged:
        """Return its content without writing. Raises LedgerError if it was written for other terms or users."""

    def begin(self, terms: str, users: int) -> Charged:
        """Open it for writing, before the first charge, and return its content, because others may have written."""

    def write(self, first: int, last: int) -> None:
        """Write that submissions first..last are charged: all or nothing.

        Returns when the charges are durable; raises LedgerError if they are not.
        """


class Ledger:
    """All releases of one run, and the number of submissions charged for them: 1, 2, ... in order.

    Submission n is of user (n - 1) % users + 1, so every user submits at most `submissions` times.

    *Formal guarantee.* All submissions of one user together are charged as `submissions`-fold adaptive composition of
    all releases, even if the user submits less often. A further attempt with fresh noise asks the same users again, so
    the curve composes as many attempts as any user took part in. A submission is charged before anything of it is
    released: `charge` first writes to the journal, then counts, then returns. If the journal raises, nothing is counted
    and nothing may be released. A submission that was journaled and then lost stays charged.

    Args:
        design: of the noise. journal: receives charges before they count; None for simulated users.
    """

    def __init__(self, design: NoiseDesign[Any], journal: Journal | None = None) -> None:
        self.design = design
        self._journal = journal
        self._writing = journal is None
        self._earlier: tuple[int, ...] = ()
        self._charged = 0
        self._curves: dict[int, PrivacyCurve] = {}
        # Two charges at the same time could both be the last one.
        self._lock = Lock()
        secret = any(release.mechanism is not None and release.entropy == "os" for release in design.releases)
        self._owner = os.getpid() if secret else None
        if journal is not None:
            self._include(journal.recorded(design.terms, design.n_users))

    @classmethod
    def of_charges(cls, design: NoiseDesign[Any], charged: Charged) -> Ledger:
        """Return the ledger of charges that a certificate states."""
        ledger = cls(design)
        ledger._include(charged)
        return ledger

    @property
    def charged(self) -> int:
        """Number of submissions that the current attempt has charged; the next one has the number after that."""
        return self._charged

    @property
    def charged_before(self) -> tuple[int, ...]:
        """Numbers of submissions that the earlier attempts have charged."""
        return self._earlier

    @property
    def users_charged(self) -> int:
        """Number of users charged at least once, in any attempt."""
        return min(max(self._charged, *self._earlier, 0), self.design.n_users)

    @property
    def attempts(self) -> int:
        """Number of attempts that have charged a user; 1 if the run was never started again."""
        return max(1, len([charged for charged in (*self._earlier, self._charged) if charged]))

    @property
    def users_asked_again(self) -> int:
        """Number of users charged in more than one attempt."""
        charged = sorted((*self._earlier, self._charged), reverse=True)
        return min(charged[1], self.design.n_users) if len(charged) > 1 else 0

    @property
    def curve(self) -> PrivacyCurve:
        """Privacy curve of all submissions of one user to all releases, in all attempts."""
        times = self.design.submissions * self.attempts
        if times not in self._curves:
            self._curves[times] = self.design.curve(times)
        return self._curves[times]

    def epsilon(self, delta: float) -> float:
        """Return an epsilon that holds at `delta`; inf if none is known."""
        return math.inf if self.design.has_raw_release else self.curve.epsilon(delta)

    def delta(self, epsilon: float) -> float:
        """Return a delta that holds at `epsilon`; 1 with a raw release."""
        return 1.0 if self.design.has_raw_release else self.curve.delta(epsilon)

    def begin(self) -> None:
        """Open the journal for writing and count its charges; otherwise the first charge does so."""
        with self._lock:
            self._begin()

    def charge(self, first: int, last: int) -> None:
        """Charge submissions first..last (1-based, inclusive) before they are released: all or none of them.

        Raises:
            LedgerError: if one of them was charged before, some would be left out, the journal cannot be written, or
                this process was forked from the one that may charge.
            ValueError: beyond the ledger's capacity.
        """
        first, last = operator.index(first), operator.index(last)
        with self._lock:
            self._begin()
            if first != self._charged + 1 or last < first:
                raise LedgerError(
                    f"submission {first} cannot be charged: those up to {self._charged} are charged already"
                )
            if last > self.design.capacity:
                raise ValueError(
                    f"at most {self.design.capacity} submissions can be charged, got {last}; build for more episodes"
                )
            if self._journal is not None:
                self._journal.write(first, last)
            self._charged = last

    def __reduce__(self) -> NoReturn:
        # With two copies every user could submit twice as often.
        raise LedgerError("a ledger cannot be copied or pickled; continue from a checkpoint or a journal")

    def _begin(self) -> None:
        self._require_own_process()
        if not self._writing and self._journal is not None:
            self._include(self._journal.begin(self.design.terms, self.design.n_users))
            self._writing = True

    def _include(self, found: Charged) -> None:
        """Count the journal's charges."""
        most = max(found.current, *found.earlier, 0)
        if most > self.design.capacity:
            raise LedgerError(f"the journal has {most} submissions of {self.design.capacity}; name this run's journal")
        self._earlier, self._charged = found

    def _require_own_process(self) -> None:
        """Raise LedgerError in a process that inherited this object by a fork, unless its noise is seeded.

        Parent and child would each charge the same users once. With noise from the operating system these are two
        releases, with seeded noise they are the same one.
        """
        if self._owner not in (None, os.getpid()):
            raise LedgerError(
                "noise from the operating system is drawn in one process only, and this process was forked from it; "
                "build a new privatizer here"
            )
