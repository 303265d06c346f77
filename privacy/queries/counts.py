"""Counts of episodes: every user adds to one cell per step and family, and a learner reads noisy sums of them.

After the query: error bounds of released counts, and blocks of simulated users at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from dprl.compiled import kernel
from dprl.privacy.base import Float64Array, Int64Array, LedgerError, Precision, TrustModel
from dprl.privacy.channel import RECEIVED, RELEASED, advance_block, new_cursor
from dprl.privacy.counters import COUNTERS, EXACT_COUNTERS, BinaryTree, ExactCounter, GridToeplitz, KaryTree
from dprl.privacy.counters.base import Counter
from dprl.privacy.counters.error import (
    UnaryCell,
    grid_points,
    running_sum_bound,
    unary_cell_bound,
    weighted_sum_bound,
    weighted_tree_bound,
    weighted_unary_bound,
)
from dprl.privacy.mechanisms.base import INTEGER, Mechanism
from dprl.privacy.mechanisms.reports import ShuffledReports, UnaryEncoder
from dprl.privacy.mechanisms.sampling import SILENT
from dprl.privacy.noise_design import Release
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
from dprl.privacy.queries.count_layout import CountEncoding, CountFamilies, CountFamily, Slots, UserRecord, collect
from dprl.privacy.query import Query
from dprl.privacy.randomness.streams import Streams, block_generator, noise_identity
from dprl.privacy.schedule import EVERY_USER, ReleaseSchedule, release_number
from dprl.privacy.threat_models import ThreatModel, check_shuffled, of_counts

PrintedError = Callable[[float, int, int, float], float]
"""Error bound E for the cells of one family, as a function of (Laplace scale b, n_users, n_cells, beta)."""
_MOST_PROFILE_ITEMS = 10**6
# For the exact bound of unary encodings; beyond this, a bound that is a few per cent larger is used.
_MOST_GRID_POINTS = 1e5


class NoiseSpec(NamedTuple):
    """The noise on counts.

    report: randomizes the client's message; None sends counts without noise. counter: the server's. printed: a paper's
    error bound to use instead of the exact one, or None.
    """

    report: Mechanism | UnaryEncoder | None
    counter: Counter
    printed: PrintedError | None = None

    @property
    def on_either_side(self) -> Mechanism | UnaryEncoder | None:
        """The law of the noise, on whichever side it is; None without noise."""
        return self.report or self.counter.node


@dataclass(frozen=True)
class WeightedSums:
    """Sums over cells of one family and step, with weights in [0, 1] that are fixed in advance.

    Args:
        family: its name. cells: number of cells in a sum; an episode enters at most one of them.
        number: number of such sums in all.
        users: the sums are read after each of the first `users` users.
    """

    family: str
    cells: int
    number: int
    users: int


@dataclass(frozen=True)
class UserBlock:
    """Users who send one after the other, all under one policy.

    Args:
        first: the first of them, 1-based. users: m, their number.
        draw: draws the number of users in each cell of the first family at each step, int64[H, width]. Called with None
            if all m users are in every step, or with sizes int64[H] if step h has sizes[h] users, each in one step.
        values: of the family with values in [0, 1], float64[H, its width], the same for all users; None without one.
    """

    first: int
    users: int
    draw: Callable[[Int64Array | None], Int64Array] = field(repr=False)
    values: Float64Array | None = field(default=None, repr=False)


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
        report = self.noise.report
        if isinstance(report, UnaryEncoder) and not _fits(report, self.encoding.released):
            raise LedgerError(f"{report.name} encodes one row of {report.width} cells a step; the encoding has others")

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
        noise = self.noise
        described = (self.encoding, noise.report, noise.counter, *filter(None, [self.schedule, self.shuffled]))
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
        without = NoiseSpec(self.noise.report, ExactCounter(self.noise.counter.n_items))
        return replace(self, noise=without, schedule=None)

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


# ---- error bounds ----


def error_bounds(encoding: CountEncoding, noise: NoiseSpec, beta: float) -> dict[str, float]:
    """Return E by needed family: with probability 1 - beta no count of any cell and episode has a larger error.

    Errors are relative to the sum of all messages: a reward sent as a coin is itself a reward in [0, 1] with the same
    mean. A printed formula holds for each family at beta; exact bounds share beta.
    """
    families = encoding.needed.families
    return {family.name: _family_bound(encoding, noise, family, beta / len(families)) for family in families}


def _family_bound(encoding: CountEncoding, noise: NoiseSpec, family: CountFamily, share: float) -> float:
    n_cells = encoding.needed.layers * family.width
    if noise.printed is not None:
        law = noise.on_either_side
        beta = share * len(encoding.needed.families)
        return 0.0 if law is None else noise.printed(law.scale, noise.counter.n_items, n_cells, beta)
    return _sums_bound(noise, encoding.summands(family), n_cells, noise.counter.n_items, share, encoding.pooled)


@lru_cache(maxsize=1024)  # every seed of a cell asks for the same ones
def _sums_bound(noise: NoiseSpec, summands: int, number: int, users: int, beta: float, is_pooled: bool) -> float:
    """Return E for `number` sums of `summands` released cells each, after each of the first `users` users."""
    report, counter = noise.report, noise.counter
    if report is None:
        return counter.error_bound(number, beta, summands, users)
    if isinstance(report, UnaryEncoder):
        cell = _unary_cell(report, summands)
        if is_pooled or grid_points(cell) > _MOST_GRID_POINTS:
            return weighted_unary_bound(users, cell, beta / number, pooled=is_pooled)
        return unary_cell_bound(users, cell, number, beta)
    # The sums of `summands` cells after each user are among the partial sums of `users * summands` draws.
    return running_sum_bound(users * summands, report, number, beta)


def weighted_bound(encoding: CountEncoding, noise: NoiseSpec, sums: WeightedSums, beta: float) -> float:
    """Return E: with probability 1 - beta none of the weighted sums has an error above E.

    Weights in [0, 1] need no larger bound than weights of 1: for continuous noise see `Counter.error_bound`;
    whole-number noise and encodings have bounds by moment generating functions, a few per cent larger. The sums
    may depend on each other, because their failure probabilities are added.

    Raises ValueError with printed bounds, because no paper has one for weighted sums.
    """
    if noise.printed is not None:
        raise ValueError("precision must be exact here, got printed; no paper prints a bound for weighted sums")
    family = next(f for f in encoding.needed.families if f.name == sums.family)
    summands, users = encoding.summands(family) * sums.cells, min(sums.users, noise.counter.n_items)
    law, failure = noise.on_either_side, beta / sums.number
    if isinstance(law, UnaryEncoder):
        return weighted_unary_bound(users, _unary_cell(law, summands), failure, pooled=encoding.pooled)
    if law is None or law.arithmetic != INTEGER or isinstance(noise.counter, GridToeplitz):
        return _sums_bound(noise, summands, 1, users, failure, encoding.pooled)
    if noise.report is not None:
        return weighted_sum_bound(users, law, summands, failure)
    if not isinstance(noise.counter, BinaryTree | KaryTree):
        raise ValueError(f"counter must be one of binary_tree, kary_tree, got {noise.counter.name}; others take no law")
    return weighted_tree_bound(noise.counter.depths(users), law, summands, failure)


def _unary_cell(report: UnaryEncoder, cells: int) -> UnaryCell:
    encoding = report.encoding
    return UnaryCell(encoding.hot_probability, encoding.cold_probability, report.n_steps, cells, encoding.exclusive)


# ---- a block of users at once ----
# For seeded simulations only: between two releases the policy is fixed and users are independent, so counts of cells
# are multinomial, and sums of m noise draws and m coins have known distributions. The cost is independent of m. No
# message is made; the ledger charges every user.


def draws_blocks(encoding: CountEncoding, law: object) -> bool:
    """Whether sums of messages can be drawn at once: all cells follow from the first family, and the sums are known."""
    first, *others = encoding.needed.families
    marginals = first.indicator and all(family.marginal_of == first.name for family in others)
    return marginals and (law is None or isinstance(law, UnaryEncoder) or bool(getattr(law, "draws_sums", False)))


def sum_of_messages(
    encoding: CountEncoding, law: object, keys: tuple[np.ndarray, np.ndarray], block: UserBlock
) -> Float64Array:
    """Return the sum of the unbiased estimates in the messages of a block, float64[cells].

    keys: of the noise and of the coins of users, both uint64[5]; the block's draws are those of its first user.
    """
    noise, coins = (block_generator(key, block.first) for key in keys)
    horizon, slots = encoding.released.n_steps, encoding.slots()
    sizes = np.full(horizon, block.users, dtype=np.int64)
    if isinstance(law, UnaryEncoder):
        # Each user sends one step, so steps have different users; every step has bits of its own.
        sizes = noise.multinomial(block.users, np.full(horizon, 1.0 / horizon))
        slots = slots._replace(stride=slots.block)
    drawn = block.draw(sizes if isinstance(law, UnaryEncoder) else None)
    sums = _encoded(encoding, slots, drawn, block.values, coins)
    if isinstance(law, UnaryEncoder):
        bits = law.encoding.sum_of_bits(sums.reshape(horizon, -1).astype(np.int64), sizes, noise)
        estimates = (bits - sizes[:, None] * law.encoding.cold_probability) * law.factor
        return np.asarray(estimates.reshape(-1, encoding.released.n_cells).sum(axis=0))
    return sums if law is None else sums + law.sum_of_draws(block.users, sums.shape[0], noise)  # type: ignore[attr-defined]


def _encoded(
    encoding: CountEncoding,
    slots: Slots,
    numbers: Int64Array,
    values: Float64Array | None,
    coins: np.random.Generator,
) -> Float64Array:
    """Return the sum of a block's records, encoded for the released families, float64[cells]."""
    families = encoding.needed.families
    step, cell = np.nonzero(numbers)
    users = numbers[step, cell]
    value = np.ones((users.shape[0], len(families)))
    for i, family in enumerate(families):
        if not family.indicator and values is not None:
            value[:, i] = np.clip(values[step, cell % family.width], 0.0, 1.0)
    tossed = slots.coins.astype(bool)
    heads = np.zeros(value.shape, dtype=np.int64)
    heads[:, tossed] = coins.binomial(users[:, None], value[:, tossed])
    sums = np.zeros(slots.block * (encoding.released.n_steps if slots.stride > 0 else 1))
    _add(slots, sums, (step, cell, users), value, heads)
    return sums


@kernel
def _add(
    slots: Slots,
    sums: Float64Array,
    entered: tuple[Int64Array, Int64Array, Int64Array],
    value: Float64Array,
    heads: Int64Array,
) -> None:
    """Add records to sums float64[layers * block], like `add_record` for one user.

    entered: steps, cells and numbers of users, int64[n] each; value float64[n, F]; heads int64[n, F]: number of ones
    among the users' coins with probability `value`.
    """
    steps, cells, users = entered
    for i in range(steps.shape[0]):
        start = steps[i] * slots.stride
        if slots.one_hot != 0:
            above = heads[i, slots.bit] if slots.bit >= 0 else 0
            sums[start + cells[i]] += users[i] - above
            if above > 0:
                sums[start + slots.widths[0] + cells[i]] += above
            continue
        for family in range(slots.widths.shape[0]):
            amount = users[i] * value[i, family]
            if slots.coins[family] != 0:
                amount = float(heads[i, family])
            sums[start + slots.starts[family] + cells[i] % slots.widths[family]] += amount
