"""The privatizer of a run: it charges the ledger, opens the channel, certifies the run, and can be checkpointed.

Compiled loops pass `channel` to the kernels of the query. Clients in other processes are made by `new_client` and send
the submissions of a range that `lease` has charged; `accept` takes each of their messages once.
"""

from __future__ import annotations

import hashlib
import operator
import secrets
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any, Generic, NoReturn

import numpy as np
import numpy.typing as npt

from dprl.privacy.base import LedgerError
from dprl.privacy.certificate import Certificate, certify
from dprl.privacy.journal import ChargeJournal
from dprl.privacy.ledger import Ledger
from dprl.privacy.messages import Client, PrivateMessages, RangeSet, SubmissionRange
from dprl.privacy.noise_design import ENTROPY, NoiseDesign
from dprl.privacy.queries.base import CHARGED, RECEIVED, RELEASED, SENT, Q
from dprl.privacy.randomness.streams import Streams
from dprl.privacy.threat_models import SHUFFLE

_NOBODY, LOOP, _CLIENTS = range(3)


class Privatizer(Generic[Q]):
    """Privatizer of users' records: it releases them to a learner with noise, and accounts for it. For one thread.

    Submission n = 1, 2, ... is of user (n - 1) % n_users + 1. Submissions are charged in order, and come from the
    compiled loop (`charge`) or from clients (`lease`), not from both.

    >>> from dprl.privacy import CountFamilies, CountFamily, CountPrivacy
    >>> from dprl.privacy.queries.counts import send_and_aggregate
    >>> visits = CountFamilies(1, (CountFamily("visits", 2),))
    >>> users = CountPrivacy("jdp", 1e6).build(visits, 10, Streams(0, "an example"))
    >>> users.charge(1, 3)
    >>> for user in (1, 2, 3):
    ...     send_and_aggregate(users.channel, np.array([[1]]), np.ones((1, 1)), user)
    >>> users.release().values.round(3).tolist(), users.certificate("mine").users
    ([-0.0, 3.0], 3)

    *Formal guarantee.* That of the query's noise, for all submissions of one user together; see the classes of its
    mechanisms. The certificate is computed from these objects.

    design: of the noise. streams: random streams. journal: keeps charges through a crash; None for simulations.

    The design's `trust_model`, `n_users`, `submissions` of one user and `capacity` in all are attributes, besides
    `server_noise`: whether a trusted server adds the noise, and `in_blocks`: whether users are simulated in blocks.
    Raises LedgerError for a design without a query, or of other noise than the query's and the streams'.
    """

    def __init__(self, design: NoiseDesign[Q], streams: Streams, journal: ChargeJournal | None = None) -> None:
        if design.query is None:
            raise LedgerError("a design must have a query to run, got a composed one; build one from settings")
        events = design.query.events(ENTROPY[streams.noise.entropy])
        threats = design.query.threat_model(design.model, design.submissions)
        if (design.noise, design.releases, design.threat_model) != (streams.noise, events, threats):
            raise LedgerError("a design must be of its query and of the streams' noise; build it from settings again")
        self.design, self.query, self.streams = design, design.query, streams
        self.trust_model, self.server_noise = design.model, design.query.noisy_sides[1]
        self.n_users, self.submissions, self.capacity = design.n_users, design.submissions, design.capacity
        self._issuer = secrets.token_hex(8)
        self._source, self._received, self._skipped, self.in_blocks = _NOBODY, RangeSet(), 0, False
        self._journal: ChargeJournal | None = None
        self.ledger = Ledger(design)
        if journal is not None:
            self.persist(journal)

    @property
    def charged(self) -> int:
        """Number of charged submissions; the next one has the number after that."""
        return self.ledger.charged

    @cached_property
    def channel(self) -> Any:  # noqa: ANN401 - each query has its own
        """The channel that compiled loops pass to the query's kernels.

        It is opened on first access, when a counter may draw all its noise.
        """
        channel = self.query.open(self.streams)
        self._skip(channel)
        return channel

    @property
    def leased(self) -> int:
        """Number of charged submissions without those that `lease` has charged ahead."""
        return self.ledger.leased

    @property
    def new_client(self) -> Callable[[], Client]:
        """Maker of clients; it can be pickled for other processes, and has no key from the operating system."""
        return partial(Client, self.query, self.streams, self._issuer)

    def persist(self, journal: ChargeJournal) -> None:
        """Write charges to `journal` from now on, and skip submissions that it has charged. Call before any charge.

        Raises LedgerError if a user is charged already, the journal is of other releases, or seeded noise would repeat.
        """
        if self._source != _NOBODY:
            raise LedgerError(f"submissions up to {self.charged} are charged already; name the journal before that")
        ledger = Ledger(self.design, journal)
        self._check_fresh(ledger)
        self._journal, vars(self)["ledger"] = journal, ledger
        if "channel" in vars(self):
            self._skip(self.channel)

    def charge(self, first: int, last: int) -> None:
        """Charge submissions first..last (inclusive) before the compiled loop sends them through `channel`.

        Raises like `Ledger.charge`, and LedgerError if there are clients.
        """
        self._take(LOOP)
        self.ledger.charge(first, last)
        self.channel.cursor[CHARGED] = self.charged

    def lease(self, k: int, needed: int = 0) -> SubmissionRange:
        """Charge the next k submissions and return them, for clients.

        needed: k or more submissions that will be leased in all; up to CHARGED_AT_ONCE of them are charged together,
        and are lost if the process dies before they are leased.
        Raises ValueError for k < 1; LedgerError if fewer are left, the loop submits, or no client can send messages.
        """
        if self.trust_model == SHUFFLE or (self.server_noise and not self.query.adds_up_messages):
            wrong = f"{self.query.name} with model: {self.trust_model} come from the compiled loop"
            raise LedgerError(f"{wrong}, not from clients in other processes; run that, or use model: ldp")
        k = operator.index(k)
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}; ask for the messages of an update")
        self._take(_CLIENTS)
        last = self.ledger.lease(k, needed)
        return SubmissionRange(last - k + 1, last, self.n_users, self._issuer)

    def clipped_by_runners(self, first: int, last: int) -> SubmissionRange:
        """Return numbers for records of sampled users that the server's own runners clip, without noise.

        Raises LedgerError unless rounds are sampled and the population is charged; `accept` refuses such messages.
        """
        if not self.query.sampled or self.charged < self.capacity:
            raise LedgerError("only sampled rounds of a charged population are clipped by the server; lease messages")
        return SubmissionRange(first, last, self.n_users, self._issuer)

    def accept(self, *messages: PrivateMessages) -> Any:  # noqa: ANN401 - each query has its own
        """Return the content of messages from clients; each submission is accepted once.

        A trusted server takes all messages of a sum at once, and returns their sum with noise.
        Raises LedgerError if one is not charged, was accepted or is another privatizer's; for a sum with two of a user.
        """
        for each in messages:
            if each.issuer != self._issuer:
                raise LedgerError("messages are accepted by the privatizer that leased them, as no other has its noise")
            if self._source != _CLIENTS or each.first <= self._skipped or each.last > self.leased:
                raise LedgerError("a message is of a submission that is leased; lease it first")
            again = self._received.first_common(each.first, each.last)
            if again is not None:
                raise LedgerError(f"submission {again} was received already; send each once")
        if len({each.values.shape[1] for each in messages}) != 1:
            raise LedgerError("messages of one length are accepted, one or more, got none or several; send them again")
        submissions = np.concatenate([each.submissions for each in messages])
        units = (submissions - 1) % self.n_users if self.server_noise else submissions
        if len(np.unique(units)) < len(units):
            raise LedgerError("a submission is accepted once, and a user is in a sum once; take smaller sums")
        values, last = np.concatenate([each.values for each in messages]), int(submissions.max())
        # Before they count as received, so that the right messages can still come.
        self.query.check_read(self.channel, values, last)
        for each in messages:
            self._received.add(each.first, each.last)
        return self.query.read(self.channel, values, last)

    @property
    def draws_blocks(self) -> bool:
        """Whether users can be simulated in blocks: their noise allows it, and there is no journal."""
        return self._journal is None and self.design.draws_blocks

    def simulate_in_blocks(self) -> None:
        """Let `add_block` simulate users; the certificate says so. Raises LedgerError unless `draws_blocks`."""
        if not self.draws_blocks:
            why = "users are simulated in blocks where noise is seeded and their sums have a known law"
            raise LedgerError(f"{why}; write simulation: users")
        vars(self)["in_blocks"] = True

    def add_block(self, first: int, users: int, draw: Any, values: Any = None) -> None:  # noqa: ANN401 - the query's
        """Add the messages of charged, simulated users at once, from the exact law of their sum; see the query's.

        Raises LedgerError unless `simulate_in_blocks` was called, for users who are not charged, or out of order.
        """
        if not self.in_blocks or not self.draws_blocks:
            raise LedgerError("users are simulated in blocks after simulate_in_blocks() only; call it first")
        self.query.add_block(self.channel, first, users, draw, values)

    def release(self) -> Any:  # noqa: ANN401 - each query has its own
        """Server side: return the release of all messages received so far."""
        return self.query.released(self.channel)

    def precision(self, beta: float) -> dict[str, float]:
        """Return error bounds of released values by family that hold together with probability 1 - beta.

        Raises ValueError unless 0 < beta < 1, TypeError if no bound is known.
        Paper: [CZ22] Assumption 1.
        """
        return self.query.precision(beta)

    def planned_ledger(self) -> Ledger:
        """Return the ledger of a run that uses all submissions, without releasing anything."""
        return Ledger(self.design, charges=[self.capacity])

    def planned_certificate(self, algorithm: str) -> Certificate:
        """Return the certificate of a run that uses all submissions."""
        return certify(self.planned_ledger(), algorithm, self._simulation)

    def certificate(self, algorithm: str) -> Certificate:
        """Return the certificate of all charges so far.

        Raises LedgerError if more was sent than was charged.
        """
        charged, sent, messages, received, _ = (int(count) for count in self.channel.cursor)
        in_turn = 0 <= received <= sent <= charged <= self.charged and messages == max(sent - self._skipped, 0)
        if not in_turn or self._received.last > self.charged:
            raise LedgerError("more was sent than was charged; nothing can be certified")
        return certify(self.ledger, algorithm, self._simulation)

    @property
    def _simulation(self) -> str:
        return "blocks" if self.in_blocks else "users"

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return everything that changes in a run; draws are keyed by submission, so there is no generator state.

        With a trusted server or shuffler it contains sums that nobody else may see.
        Raises LedgerError if the noise comes from the operating system, because it is not stored, so nothing could
        continue; and with a journal, from which a new privatizer continues.
        """
        if self.streams.noise.entropy == "os":
            wrong = "a run with entropy: os has no checkpoints, as its noise must stay secret"
            raise LedgerError(f"{wrong}; use entropy: seed or a journal")
        if self._journal is not None:
            raise LedgerError("a run with a journal has no state; build a privatizer with the same journal to go on")
        if self.channel.cursor[RECEIVED] != self.channel.cursor[SENT]:
            raise LedgerError("a message is under way, and a state would lose it; receive it first")
        self.query.catch_up(self.channel)
        return sealed(self._sealing, self._changing())

    @staticmethod
    def charged_in(state: Mapping[str, np.ndarray]) -> int:
        """Return the number of submissions charged in an unchecked `state_dict`, -1 for another mapping."""
        counts = state.get("counts")
        valid = isinstance(counts, np.ndarray) and counts.dtype == np.int64 and counts.ndim == 1 and counts.size > 0
        return int(counts[0]) if valid and counts is not None else -1

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        """Continue a run from `state_dict`, in a privatizer without charges.

        Users that the interrupted run charged after this state submit again under the same noise. That is the same
        release if their data are the same, as in a simulation with the same seed and code; with other data, the
        difference of the two releases would be exact.
        Raises LedgerError if it has charged users or noise from the operating system; ValueError for another's state.
        """
        if self._source != _NOBODY:
            raise LedgerError(f"submissions up to {self.charged} are charged here already; load into a new privatizer")
        check_sealed(state, self.state_dict(), self._sealing)
        charged, source, in_blocks = (int(count) for count in state["counts"])
        _, sent, messages, received, _ = (int(count) for count in state["cursor"])
        if not (0 <= received == sent == messages <= charged <= self.capacity and source in range(3)):
            raise ValueError(f"the state has {charged} of {self.capacity} submissions; start anew")
        self._received = RangeSet.from_array(state["received"])
        for name, array in self._changing().items():
            if name not in ("counts", "received"):
                array[:] = state[name]
        self.query.restored(self.channel)
        self._source = source
        vars(self)["in_blocks"] = self.in_blocks or bool(in_blocks)
        if charged:
            self.ledger.charge(1, charged)

    def __setattr__(self, name: str, value: Any) -> None:  # noqa: ANN401
        # The certificate and the checks of messages read them.
        if name in vars(self) and not name.startswith("_"):
            raise AttributeError(f"{name} of a privatizer is fixed; build another one")
        super().__setattr__(name, value)

    def __reduce__(self) -> NoReturn:
        # A copy would send other users' data under the same noise.
        raise LedgerError("a privatizer cannot be copied or pickled; continue from state_dict")

    def _changing(self) -> dict[str, np.ndarray]:
        counts = np.array([self.charged, self._source, self.in_blocks], dtype=np.int64)
        own = {"cursor": self.channel.cursor, "counts": counts, "received": self._received.to_array()}
        return own | self.query.changing(self.channel)

    def _take(self, source: int) -> None:
        if self._source not in (_NOBODY, source):
            raise LedgerError("submissions come from the compiled loop or from clients; build another privatizer")
        if self._source == _NOBODY:
            self.ledger.begin()
            self._check_fresh(self.ledger)
            self._source = source
            self._skip(self.channel)

    def _check_fresh(self, ledger: Ledger) -> None:
        """Raise LedgerError if the same noise would be added to other sums, because their difference would be exact."""
        continues = self.server_noise and not self.query.adds_up_messages
        again = any(ledger.charged_before) or (continues and ledger.charged > 0)
        if again and self.streams.noise.entropy == "seed":
            wrong = "noise of a seed must be drawn once, and this journal has charges under it"
            raise LedgerError(f"{wrong}; take entropy: os, or begin a new journal with new users")

    def _skip(self, channel: Any) -> None:  # noqa: ANN401
        """Count submissions in the journal as sent, because it is unknown which of them were."""
        if self._journal is not None:
            self.query.check_continued(self.charged)
            channel.cursor[[CHARGED, SENT, RECEIVED, RELEASED]] = self._skipped = self.charged

    @property
    def _sealing(self) -> str:
        """Text that must be the same for a state to continue."""
        streams = self.streams
        return f"{self.query.identity}|{self.design.terms}|{streams.seed}|{len(streams.context)}|{streams.context}"


# ---- checkpoints: arrays by name, sealed with digests, and checked before anything is changed ----

_FIXED, _DIGEST = "fixed", "digest"
_GROWING = "received"  # the array with any number of rows


def check_arrays(state: Mapping[str, np.ndarray], own: Mapping[str, np.ndarray]) -> None:
    """Raise ValueError unless `state` has an array for each of `own`, of the same shape and type."""
    for name, array in own.items():
        found, shape = state.get(name), array.shape[1:] if name == _GROWING else array.shape
        same = isinstance(found, np.ndarray) and found.ndim == array.ndim and found.dtype == array.dtype
        if not same or (found.shape[1:] if name == _GROWING else found.shape) != shape:  # type: ignore[union-attr]
            raise ValueError(f"the state's {name!r} is missing or of another shape; resume with the same settings")


def part_of(state: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """Return the arrays with names that begin with `prefix`, without it."""
    return {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}


def digest_of(words: str, arrays: Mapping[str, np.ndarray]) -> npt.NDArray[np.uint8]:
    """Return a digest uint8[64] of words and of named arrays, independent of the order of the names."""
    digest = hashlib.blake2b(words.encode() + b"\0")
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        digest.update(f"|{name} {array.dtype.str}{array.shape}".encode() + array.tobytes())
    return np.frombuffer(digest.digest(), dtype=np.uint8)


def sealed(fixed: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return a state: copies of `arrays`, with digests of the settings, fixed in a run, and of the whole."""
    copies = {name: array.copy() for name, array in arrays.items()}
    return {_FIXED: digest_of(fixed, {}), _DIGEST: digest_of(fixed, copies), **copies}


def check_sealed(state: Mapping[str, np.ndarray], own: Mapping[str, np.ndarray], fixed: str) -> None:
    """Raise ValueError unless `sealed` returned `state` in a run like the one that continues, of `own` and `fixed`."""
    check_arrays(state, own)
    if not np.array_equal(state[_FIXED], own[_FIXED]):
        raise ValueError("the state is of other noise, another seed or other settings; resume with the same ones")
    arrays = {name: state[name] for name in own if name not in (_FIXED, _DIGEST)}
    if not np.array_equal(state[_DIGEST], digest_of(fixed, arrays)):
        raise ValueError("the state is not the one that was written; start anew")
