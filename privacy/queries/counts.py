"""Counts of episodes: every user adds to one cell per step and family, and a learner reads noisy sums of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from dprl.privacy.base import Float64Array, Int64Array, LedgerError, Precision, TrustModel
from dprl.privacy.channel import RECEIVED, RELEASED, advance_block, new_cursor
from dprl.privacy.counters import COUNTERS, EXACT_COUNTERS, ExactCounter
from dprl.privacy.mechanisms.base import INTEGER
from dprl.privacy.mechanisms.reports import ShuffledReports, UnaryEncoder
from dprl.privacy.mechanisms.sampling import SILENT
from dprl.privacy.noise_design import Release
from dprl.privacy.queries.count_blocks import UserBlock, draws_blocks, sum_of_messages
from dprl.privacy.queries.count_encoding import CountEncoding, collect
from dprl.privacy.queries.count_families import CountFamilies, UserRecord
from dprl.privacy.queries.count_kernels import (
    ONE_STEP,
    SUMS,
    ClientState,
    CountChannel,
    Released,
    ServerState,
    add_message,
    encode,
    release,
)
from dprl.privacy.queries.count_precision import NoiseSpec, WeightedSums, error_bounds, weighted_bound
from dprl.privacy.query import Query
from dprl.privacy.randomness.streams import Streams, noise_identity
from dprl.privacy.schedule import EVERY_USER, ReleaseSchedule, release_number
from dprl.privacy.threat_models import ThreatModel, check_shuffled, of_counts

_MOST_PROFILE_ITEMS = 10**6


@dataclass(frozen=True)
class CountQuery(Query):
    """The counts of a user's episode, with a law on the client's side or a noisy counter on the server's.

    *Formal guarantee.* That of the law or of the counter, for any two records of one user.

    Args:
        encoding: the counted families, and the released ones.
        noise: on either side.
        schedule: of the releases, which are the items of a noisy counter; None for one after every user.
        shuffled: whether a shuffler permutes the reports between two releases.

    Raises:
        LedgerError: for a counter or a law that the kernels cannot run, or a counter of other releases.
    """

    encoding: CountEncoding
    noise: NoiseSpec
    schedule: ReleaseSchedule | None = None
    shuffled: bool = False
    name: ClassVar[str] = "counts"

    def __post_init__(self) -> None:
        if type(self.noise.counter) not in (ExactCounter, *COUNTERS.values(), *EXACT_COUNTERS.values()):
            raise LedgerError(
                f"the kernels cannot run a counter of type {type(self.noise.counter).__name__}; add its release"
            )
        if self.shuffled and (self.schedule is None or self.noise.report is None):
            raise LedgerError("shuffled counts must have a report with noise, and a schedule of releases; give both")
        if self._counts_releases and self.schedule:
            self.schedule.check_counter(self.noise.counter.n_items)
        if isinstance(self.noise.report, UnaryEncoder) and not _fits(self.noise.report, self.encoding.released):
            raise LedgerError(
                f"{self.noise.report.name} encodes one row of {self.noise.report.width} cells a step; the encoding has others"
            )

    @property
    def families(self) -> CountFamilies:
        """The families that a learner reads."""
        return self.encoding.needed

    @property
    def noisy_sides(self) -> tuple[bool, bool]:
        """Whether there is noise on (the client's side, the server's side)."""
        return self.noise.report is not None, self.noise.counter.node is not None

    @property
    def _counts_releases(self) -> bool:
        """Whether the counter has an item for every release, not for every user."""
        return self.schedule is not None and not self.shuffled

    @property
    def identity(self) -> str:
        """Text that identifies record and noise."""
        described = (self.encoding, self.noise.report, self.noise.counter, *filter(None, [self.schedule, self.shuffled]))
        return f"counts|{noise_identity(*described)}"

    @property
    def counted_users(self) -> int | None:
        """Number of users of a noisy counter, or of shuffled blocks."""
        if self.noise.counter.node is None and not self.shuffled:
            return None
        return self.noise.counter.n_items if self.schedule is None else self.schedule.users

    def check_continued(self, charged: int) -> None:
        """Raise LedgerError for shuffled reports after a charge: those of the interrupted block are lost."""
        if charged > 0 and self.shuffled:
            raise LedgerError(
                f"a run with shuffled counts cannot go on from a journal, got {charged} submissions there, as the rest "
                "of a block would be too small; begin another attempt"
            )

    def events(self, entropy: str) -> tuple[Release, ...]:
        """Return the releases of a run, one for each released family.

        Raises LedgerError for whole-number noise on values in [0, 1], because it would not hide their fractions.
        """
        noise, families, counter = self.noise.on_either_side, self.encoding.released, self.noise.counter
        if noise is not None and noise.arithmetic == INTEGER and not self.encoding.integral:
            raise LedgerError(
                f"{noise.name} hides whole numbers only, and values in [0, 1] are sent; send coins instead"
            )
        # The encoder of one row changes by two cells; additive noise hides all that a user adds to a family.
        encoded = isinstance(noise, UnaryEncoder)
        row = None if noise is None else noise.sensitivity if isinstance(noise, UnaryEncoder) else families.row()
        mechanism: Any = noise
        if noise is not None and self.shuffled and self.schedule is not None:
            # An incomplete last block is never released.
            mechanism = ShuffledReports(noise, int(self.schedule.blocks().min()))
        return tuple(
            Release(
                channel=family.name,
                mechanism=mechanism,
                row=row,
                attainable=noise is None or (families.attains_row(family) and counter.attained and not self.shuffled),
                cells=families.layers * family.width,
                entropy=entropy,
                counter=None if counter.node is None else counter,
                row_line="" if encoded else families.explain(),
            )
            for family in families.families
        )

    def threat_model(self, model: TrustModel, submissions: int) -> ThreatModel:
        """Return the threat model. Raises LedgerError unless reports are shuffled in that trust model and no other."""
        del submissions
        check_shuffled(self.shuffled, model)
        return of_counts(model, self.families.players)

    def open(self, streams: Streams) -> CountChannel:
        """Return the channel before the first user."""
        encoding, law, released = self.encoding, self.noise.report, self.encoding.released
        n_cells = released.n_cells
        drawn = law.encoding if isinstance(law, UnaryEncoder) else law
        totals = np.zeros(n_cells)
        # Without noise, and if every sum may be read, the sums are the releases.
        noisy = totals if self.noise.counter.node is None and self.schedule is None else np.zeros(n_cells)
        return CountChannel(
            cursor=new_cursor(),
            slots=encoding.slots(),
            n_steps=released.n_steps,
            client=ClientState(
                kind=ONE_STEP if isinstance(law, UnaryEncoder) else SUMS,
                noise=SILENT if drawn is None else drawn.noise(streams.key("user_noise", self.identity)),
                coins_key=streams.key("user_coins", self.identity),
                coins=np.zeros(released.n_steps * len(self.families.families)),
            ),
            server=ServerState(
                shift=law.encoding.cold_probability if isinstance(law, UnaryEncoder) else 0.0,
                factor=law.factor if isinstance(law, UnaryEncoder) else 1.0,
                totals=totals,
                counter=self.noise.counter.open(n_cells, streams.key("server_noise", self.identity)),
                noisy=noisy,
            ),
            message=np.zeros(law.message_cells if isinstance(law, UnaryEncoder) else n_cells),
            released=np.zeros(self.families.n_cells) if encoding.kind == "one_hot" else noisy,
            times=EVERY_USER if self.schedule is None else self.schedule.times,
        )

    def changing(self, channel: CountChannel) -> dict[str, np.ndarray]:
        """Return the arrays besides the cursor that change in a run."""
        server = channel.server
        noisy = {} if server.noisy is server.totals else {"noisy": server.noisy}
        return {"totals": server.totals, **noisy, **server.counter.changing}

    def catch_up(self, channel: CountChannel) -> None:
        """Release the counts of users added without a release, unless the schedule has no release here."""
        received = channel.cursor[RECEIVED]
        if channel.cursor[RELEASED] != received and release_number(channel.times, received) > 0:
            release(channel)

    def restored(self, channel: CountChannel) -> None:
        """Sum the needed families again."""
        if self.encoding.kind == "one_hot":
            collect(channel.released, channel.server.noisy, channel.slots)

    def check_record(self, record: UserRecord) -> None:
        """Raise ValueError unless a record has one cell per step and family; the message reveals no content."""
        self._arrays(record)

    def send(self, channel: CountChannel, record: UserRecord, user: int) -> None:
        """Client side: send one user's record."""
        encode(channel, *self._arrays(record), user)

    def receive(self, channel: CountChannel) -> None:
        """Server side: add the current message."""
        add_message(channel)

    @property
    def client_side(self) -> Self:
        """The query without the server's counter and schedule."""
        return replace(self, noise=NoiseSpec(self.noise.report, ExactCounter(self.noise.counter.n_items)), schedule=None)

    def check_message(self, channel: CountChannel, values: Float64Array) -> None:
        """Raise ValueError unless a client could have sent these values.

        A server that adds the noise accepts no number above H, and only whole numbers if all users send such, because
        one user could otherwise change others' digits in rounded sums.
        """
        super().check_message(channel, values)
        whole = not self.encoding.integral or bool((values == np.rint(values)).all())
        if self.noise.report is None and not (whole and values.min() >= 0.0 and values.max() <= channel.n_steps):
            raise ValueError(
                f"counts of an episode must lie in 0..{channel.n_steps}, got others; send a record's counts"
            )

    def receive_values(self, channel: CountChannel, values: Float64Array) -> None:
        """Server side: add a message from another process; release if the schedule says so."""
        channel.message[:] = values
        add_message(channel)
        self.catch_up(channel)

    def last_release(self, channel: CountChannel) -> dict[str, np.ndarray]:
        """Return the released sums."""
        return {"noisy": channel.server.noisy}

    def restart(self, channel: CountChannel) -> None:
        """Continue from the released sums."""
        channel.server.totals[:] = channel.server.noisy
        self.restored(channel)

    @property
    def draws_blocks(self) -> bool:
        """Whether the sum of many users' messages can be drawn at once."""
        return draws_blocks(self.encoding, self.noise.report)

    def add_block(self, channel: CountChannel, block: UserBlock) -> None:
        """Add the messages of a block of simulated users, drawn from their joint distribution."""
        advance_block(channel.cursor, block.first, block.users)
        client, totals = channel.client, channel.server.totals
        totals += sum_of_messages(self.encoding, self.noise.report, (client.noise.key, client.coins_key), block)

    def released(self, channel: CountChannel) -> Released:
        """Server side: return the counts of all users received so far, or of the last release; read-only copies."""
        self.catch_up(channel)
        users = int(channel.cursor[RELEASED])
        return Released(np.frombuffer(channel.released.tobytes(), dtype=np.float64), users, users)

    def family(self, counts: Released, name: str) -> Float64Array:
        """Return a view float64[layers, width] of one family of released counts; KeyError for an unknown name."""
        families = self.families
        for start, family in zip(families.offsets(), families.families, strict=True):
            if family.name == name:
                return counts.values.reshape(families.layers, families.block)[:, start : start + family.width]
        raise KeyError(f"no count family {name!r}; there are {[family.name for family in families.families]}")

    def precision(self, beta: float) -> Precision:
        """Return error bounds E that hold with probability 1 - beta for every cell and episode."""
        _check_beta(beta)
        return Precision(beta, error_bounds(self.encoding, self.noise, beta))

    def weighted_precision(self, sums: WeightedSums, beta: float) -> float:
        """Return E: with probability 1 - beta none of the weighted sums of noise is above E in absolute value.

        Raises ValueError unless 0 < beta < 1, and with `precision: printed`.
        """
        _check_beta(beta)
        if self.schedule is not None and self._counts_releases:
            sums = replace(sums, users=self.schedule.releases_until(sums.users))
        return weighted_bound(self.encoding, self.noise, sums, beta)

    def deviations(self) -> tuple[Int64Array, Float64Array, float]:
        """Return the standard deviation of the noise of one released cell.

        The result is numbers of users int64[n] with the deviation after each, float64[n], or, if it grows with the root
        of their number, n = 0 and that after one user. Counters of more than a million items have their largest one.
        """
        counter, law = self.noise.counter, self.noise.report
        if law is not None or counter.node is None:
            one = 0.0 if law is None else math.sqrt(self.encoding.report_variance(law, summands=1))
            return np.zeros(0, dtype=np.int64), np.zeros(0), one
        node = math.sqrt(counter.node.variance)
        if counter.n_items > _MOST_PROFILE_ITEMS:
            return np.array([counter.n_items]), np.array([node * counter.errors()[1]]), 0.0
        times = np.arange(1, counter.n_items + 1) if self.schedule is None else self.schedule.times
        return times, node * counter.profile(), 0.0

    @property
    def assumption(self) -> str | None:  # type: ignore[override]
        """Assumption on the environment or the server, for the certificate; None without one."""
        return self.families.assumption

    def _arrays(self, record: UserRecord) -> tuple[Int64Array, Float64Array]:
        expected = (self.families.n_steps, len(self.families.families))
        index, value = np.asarray(record.index), np.asarray(record.value)
        numbers = index.dtype.kind in "iu" and value.dtype.kind in "iuf"
        if index.shape != expected or value.shape != expected or not numbers:
            raise ValueError(
                f"a record has one cell per step and family, integers and values of shape {expected}, "
                f"got {index.shape} and {value.shape}; fill every slot"
            )
        return index.astype(np.int64), value.astype(np.float64)


def _fits(law: UnaryEncoder, released: CountFamilies) -> bool:
    """Whether a law encodes the released families: one whole cell of one family per step."""
    one_hot = len(released.families) == 1 and released.families[0].indicator
    return one_hot and (released.n_steps, released.block) == (law.n_steps, law.width)


def _check_beta(beta: float) -> None:
    if not 0 < beta < 1:
        raise ValueError(f"beta must lie in (0, 1), got {beta}; it is a probability")
