"""The ledger: users are charged for a design of noise before anything of them is released."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Sequence
from threading import Lock
from typing import Any, NoReturn

from dprl.privacy.accounting.closed_forms import PrivacyCurve
from dprl.privacy.base import LedgerError
from dprl.privacy.journal import ChargeJournal
from dprl.privacy.noise_design import NoiseDesign

CHARGED_AT_ONCE = 240
"""Most submissions charged ahead: each line of a journal waits for the disk."""


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
        charges: without a journal, the number of submissions that each attempt has charged, the current one last, as
            a certificate states them.
    """

    def __init__(
        self, design: NoiseDesign[Any], journal: ChargeJournal | None = None, charges: Sequence[int] = (0,)
    ) -> None:
        self.design = design
        self._journal = journal
        self._writing = journal is None
        # Two charges at the same time could both be the last one.
        self._lock = Lock()
        secret = any(release.mechanism is not None and release.entropy == "os" for release in design.releases)
        self._owner = os.getpid() if secret else None
        self._charges: tuple[int, ...] = ()
        self._ahead = 0
        self._include(charges if journal is None else journal.recorded(design.terms, design.n_users))

    @property
    def charged(self) -> int:
        """Number of submissions that the current attempt has charged; the next one has the number after that."""
        return self._charges[-1]

    @property
    def leased(self) -> int:
        """Number of charged submissions without those that `lease` has charged ahead."""
        return self.charged - self._ahead

    @property
    def charged_before(self) -> tuple[int, ...]:
        """Numbers of submissions that the earlier attempts have charged."""
        return self._charges[:-1]

    @property
    def users_charged(self) -> int:
        """Number of users charged at least once, in any attempt."""
        return min(max(self._charges), self.design.n_users)

    @property
    def attempts(self) -> int:
        """Number of attempts that have charged a user; 1 if the run was never started again."""
        return max(1, sum(charged > 0 for charged in self._charges))

    @property
    def users_asked_again(self) -> int:
        """Number of users charged in more than one attempt."""
        charged = sorted(self._charges, reverse=True)
        return min(charged[1], self.design.n_users) if len(charged) > 1 else 0

    @property
    def curve(self) -> PrivacyCurve:
        """Privacy curve of all submissions of one user to all releases, in all attempts."""
        return self.design.curve(self.design.submissions * self.attempts)

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

        Raises LedgerError if one of them was charged before, some would be left out, the journal cannot be written, or
        this process was forked from the one that may charge; ValueError beyond the ledger's capacity.
        """
        first, last = operator.index(first), operator.index(last)
        with self._lock:
            self._begin()
            if first != self.charged + 1 or last < first:
                raise LedgerError(
                    f"submission {first} cannot be charged: those up to {self.charged} are charged already"
                )
            if last > self.design.capacity:
                rule = f"at most {self.design.capacity} submissions can be charged"
                raise ValueError(f"{rule}, got {last}; build for more episodes")
            self._write(last)

    def lease(self, k: int, needed: int) -> int:
        """Give the next k submissions to one caller, charged before, and return the last of them.

        needed: k or more that will be leased in all; up to CHARGED_AT_ONCE of them are charged together, and are lost
        if the process dies before they are leased. Raises LedgerError like `charge`, and if fewer are left.
        """
        with self._lock:
            # Also for those that are charged already: a forked process would give them away, too.
            self._begin()
            last = self.leased + k
            if last > self.charged:
                end = max(last, min(self.leased + needed, self.charged + CHARGED_AT_ONCE))
                if end > self.design.capacity:
                    most = f"{self.design.n_users} users submit {self.design.submissions} times at most"
                    raise LedgerError(f"submission {end} cannot be charged: {most}; build for more submissions")
                self._write(end)
            elif self._journal is not None:
                self._journal.require_owned()
            self._ahead = self.charged - last
            return last

    def _write(self, last: int) -> None:
        if self._journal is not None:
            self._journal.write(self.charged + 1, last)
        self._charges = (*self._charges[:-1], last)

    def __reduce__(self) -> NoReturn:
        # With two copies every user could submit twice as often.
        raise LedgerError("a ledger cannot be copied or pickled; continue from a checkpoint or a journal")

    def _begin(self) -> None:
        # In a process that inherited this object by a fork, parent and child would each charge the same users once.
        # With noise from the operating system these are two releases, with seeded noise they are the same one.
        if self._owner not in (None, os.getpid()):
            wrong = "noise from the operating system is drawn in one process only, and this process was forked from it"
            raise LedgerError(f"{wrong}; build a new privatizer here")
        if not self._writing and self._journal is not None:
            self._include(self._journal.begin(self.design.terms, self.design.n_users))
            self._writing = True

    def _include(self, charges: Sequence[int]) -> None:
        """Take over charges of the journal or a certificate."""
        most = max(charges)
        if min(charges) < 0:
            raise LedgerError(f"charges must be at least 0, got {charges}; count the submissions of each attempt")
        if most > self.design.capacity:
            raise LedgerError(
                f"the journal or certificate has {most} submissions of {self.design.capacity}; take that of this run"
            )
        self._charges = tuple(charges)
