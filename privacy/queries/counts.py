"""Counts of episodes: every user adds to one cell per step and family, and a learner reads noisy sums of them.

First the channel and its kernels: compiled loops call `send_and_aggregate` and, before a plan, `release`; `encode` and
`add_message` are the two sides of a message, one user at a time. Then the query, error bounds, and blocks of users.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from dprl.compiled import kernel, no_alloc_kernel, read_only
from dprl.privacy.base import Float64Array, Int64Array, LedgerError, Sensitivity, TrustModel
from dprl.privacy.counters import COUNTERS, EXACT_COUNTERS, BinaryTree, ExactCounter, GridToeplitz, KaryTree, error
from dprl.privacy.counters.base import EXACT, Counter, CounterState
from dprl.privacy.counters.release import release_prefix
from dprl.privacy.mechanisms.base import INTEGER, Mechanism
from dprl.privacy.mechanisms.reports import ShuffledReports, UnaryEncoder, choose_step
from dprl.privacy.mechanisms.sampling import NO_NOISE, SILENT, Noise, fill_noise
from dprl.privacy.noise_design import Release
from dprl.privacy.queries import count_layout
from dprl.privacy.queries.base import RECEIVED, RELEASED, Query, advance_received, advance_sent, count_block, new_cursor
from dprl.privacy.queries.count_layout import CountEncoding, CountFamilies, Slots, UserRecord
from dprl.privacy.randomness.bits import fill_uniform
from dprl.privacy.randomness.streams import Streams, block_generator, noise_identity
from dprl.privacy.schedule import EVERY_USER, ReleaseSchedule, release_number, required_release
from dprl.privacy.threat_models import PLAYERS, SHUFFLE, THREAT_MODELS, ThreatModel

PrintedError = Callable[[float, int, int, float], float]
"""Error bound E for the cells of one family, as a function of (Laplace scale b, n_users, n_cells, beta)."""
_MOST_PROFILE_ITEMS = 10**6
# For the exact bound of unary encodings; beyond this, a bound that is a few per cent larger is used.
_MOST_GRID_POINTS = 1e5
SUMS, ONE_STEP = range(2)
"""Kinds of messages: counts that are summed, or the bits of one step that was drawn."""


class CountChannel(NamedTuple):
    """The channel of counts.

    cursor int64[5]; slots: the encoding; n_steps: H; message float64[m]: the current message.

    Client's side: kind: of message, a code above; noise: added to sums, or the unary encoding; coins_key uint64[5]: of
    the coins that round values in [0, 1]; coins float64[n_steps * F]: those of one user.

    Server's side: shift, factor: a received bit counts as (bit - shift) * factor; totals float64[cells]: sums of
    messages; counter: its noise; noisy float64[cells]: the released sums; needed float64[n_cells]: the families for the
    learner, read by `released_counts` only; times int64[n]: the schedule of releases, empty for one after every user.
    """

    cursor: Int64Array
    slots: Slots
    n_steps: int
    message: Float64Array
    kind: int
    noise: Noise
    coins_key: np.ndarray
    coins: Float64Array
    shift: float
    factor: float
    totals: Float64Array
    counter: CounterState
    noisy: Float64Array
    needed: Float64Array
    times: Int64Array

    def __repr__(self) -> str:
        return f"CountChannel({self.needed.shape[0]} cells, {self.cursor[RECEIVED]} users received)"


class Released(NamedTuple):
    """Private counts: all that a planner learns about users. Only a query makes it, of a release.

    values float64[n_cells]: the needed families, side by side in each step; they may be negative or fractional. users:
    number of counted episodes, k - 1 before episode k. new: number of those since the last plan.
    """

    values: Float64Array
    users: int
    new: int


@no_alloc_kernel
def released_counts(channel: CountChannel, new: int) -> Released:
    """Server side: return the counts of the last release; `new`: users since the last plan."""
    return Released(read_only(channel.needed), int(channel.cursor[RELEASED]), new)


@no_alloc_kernel
def _start(channel: CountChannel, index: Int64Array, value: Float64Array, user: int) -> None:
    """Client side: check a record and its turn, and draw the coins that round values in [0, 1] to bits, if any.

    Raises ValueError unless the record has one cell per step and family, LedgerError out of turn.
    """
    shape = (channel.n_steps, channel.slots.widths.shape[0])
    if index.shape != shape or value.shape != shape:
        raise ValueError("a record has one cell per step and family; fill every slot")
    advance_sent(channel.cursor, user)
    if channel.slots.tossed != 0:
        fill_uniform(channel.coins, channel.coins_key, np.uint64(user) * np.uint64(channel.coins.shape[0]))


@no_alloc_kernel
def encode(channel: CountChannel, index: Int64Array, value: Float64Array, user: int) -> None:
    """Client side: write user `user`'s (1-based) message into channel.message. Raises LedgerError.

    *Formal guarantee.* That of the client's law for any two records; without a law the message is the raw record, for a
    trusted server only. Draws are keyed by `user`: two messages of one user with different contents would share their
    noise, so every user sends one.
    Paper: [CZ22] sec. 5.2.
    """
    _start(channel, index, value, user)
    slots, message, noise = channel.slots, channel.message, channel.noise
    if channel.kind == SUMS:
        fill_noise(message, noise, np.uint64(user) * np.uint64(message.shape[0]))
        count_layout.add_record(slots, message, index, value, channel.coins)
    else:
        step = choose_step(channel.coins_key, np.uint64(2**63) + np.uint64(user), channel.n_steps)
        message[0] = step
        hot = count_layout.one_hot_index(slots, index, value, channel.coins, step)
        encoded = Noise(noise.law, noise.scale, float(hot), noise.key, noise.table, noise.draw)
        fill_noise(message[1:], encoded, np.uint64(user) * np.uint64(slots.block))


@no_alloc_kernel
def release(channel: CountChannel) -> None:
    """Server side: write the released sums of all users received so far, with the counter's noise if there is any.

    Raises LedgerError if the schedule has no release here, for which the counter has no noise.
    """
    received = channel.cursor[RECEIVED]
    number = required_release(channel.times, received)
    if (channel.counter.kind != EXACT or channel.times.shape[0] > 0) and received > 0:
        release_prefix(channel.noisy, channel.totals, channel.counter, number)
    if channel.slots.one_hot != 0:
        count_layout.collect(channel.needed, channel.noisy, channel.slots)
    channel.cursor[RELEASED] = received


@no_alloc_kernel
def add_message(channel: CountChannel) -> None:
    """Server side: add the current message to the sums, which stay on the server. Raises LedgerError.

    Paper: [CZ22] sec. 5.2.
    """
    advance_received(channel.cursor)
    totals, message, slots = channel.totals, channel.message, channel.slots
    if channel.kind == SUMS:
        for i in range(totals.shape[0]):
            totals[i] += message[i]
    else:
        start = min(max(int(message[0]), 0), channel.n_steps - 1) * slots.stride
        for i in range(slots.block):
            totals[start + i] += (message[i + 1] - channel.shift) * channel.factor


@no_alloc_kernel
def send_and_aggregate(channel: CountChannel, index: Int64Array, value: Float64Array, user: int) -> None:
    """Encode and add a record in one call, with the same bits; of a noiseless message only non-zeros are added.

    Read no counts before the next `release`. The schedule may depend on earlier releases but on no other data of users.
    Without a schedule of releases, later ones are bit for bit those of a run that releases after every user.

    *Formal guarantee.* That of `encode` and `release`: every user is charged, as some prefixes are a function of all.
    """
    if channel.kind != SUMS or channel.noise.law != NO_NOISE:
        encode(channel, index, value, user)
        add_message(channel)
    else:
        _start(channel, index, value, user)
        advance_received(channel.cursor)
        count_layout.add_record(channel.slots, channel.totals, index, value, channel.coins)


# ---- the query ----


@dataclass(frozen=True)
class CountQuery(Query):
    """The counts of a user's episode, with a law on the client's side or a noisy counter on the server's.

    *Formal guarantee.* That of the law or of the counter, for any two records of one user.

    Args:
        encoding: the counted families, and the released ones.
        report: randomizes the client's message; None sends counts without noise.
        counter: the server's.
        schedule: of the releases, the items of a noisy counter; None for one after every user.
        shuffled: whether a shuffler permutes the reports between two releases.
        printed: a paper's error bound to use instead of the exact one; None for that.

    Raises LedgerError for a counter or a law that the kernels cannot run, or a counter of other releases.
    """

    encoding: CountEncoding
    report: Mechanism | UnaryEncoder | None
    counter: Counter
    schedule: ReleaseSchedule | None = None
    shuffled: bool = False
    printed: PrintedError | None = None
    name: ClassVar[str] = "counts"

    def __post_init__(self) -> None:
        report, counter, released = self.report, self.counter, self.encoding.released
        if type(counter) not in (ExactCounter, *COUNTERS.values(), *EXACT_COUNTERS.values()):
            raise LedgerError(f"the kernels cannot run a counter of type {type(counter).__name__}; add its release")
        if self.shuffled and (self.schedule is None or report is None):
            raise LedgerError("shuffled counts must have a report with noise, and a schedule of releases; give both")
        if self.schedule is not None and not self.shuffled:
            self.schedule.check_counter(counter.n_items)
        if isinstance(report, UnaryEncoder):
            one_row = len(released.families) == 1 and released.families[0].indicator
            if not one_row or (released.n_steps, released.block) != (report.n_steps, report.width):
                raise LedgerError(f"{report.name} encodes rows of {report.width} cells a step; the encoding has others")

    @property
    def families(self) -> CountFamilies:
        """The families that a learner reads."""
        return self.encoding.needed

    @property
    def law(self) -> Mechanism | UnaryEncoder | None:
        """The law of the noise, on whichever side it is; None without noise."""
        return self.report or self.counter.node

    @property
    def noisy_sides(self) -> tuple[bool, bool]:
        return self.report is not None, self.counter.node is not None

    @property
    def identity(self) -> str:
        described = (self.encoding, self.report, self.counter, *filter(None, [self.schedule, self.shuffled]))
        return f"counts|{noise_identity(*described)}"

    def check_continued(self, charged: int) -> None:
        """Raise LedgerError for shuffled reports after a charge: those of the interrupted block are lost."""
        if charged > 0 and self.shuffled:
            wrong = f"a run with shuffled counts cannot go on from a journal, got {charged} submissions there"
            raise LedgerError(f"{wrong}, as the rest of a block would be too small; begin another attempt")

    def events(self, entropy: str) -> tuple[Release, ...]:
        """Return the releases of a run, one for each released family.

        Raises LedgerError for whole-number noise on values in [0, 1], because it would not hide their fractions.
        """
        families, counter = self.encoding.released, self.counter
        noise = self.report or counter.node
        if noise is not None and noise.arithmetic == INTEGER and not self.encoding.integral:
            raise LedgerError(f"{noise.name} hides whole numbers only, and values in [0, 1] are sent; send coins")
        # The encoder of one row changes by two cells; additive noise hides all that a user adds to a family.
        encoded = isinstance(noise, UnaryEncoder)
        row = None if noise is None else Sensitivity.of_cells(2) if encoded else families.row()
        mechanism: Any = noise
        if noise is not None and self.shuffled and self.schedule is not None:
            # An incomplete last block is never released.
            mechanism = ShuffledReports(noise, int(np.diff(self.schedule.times, prepend=0).min()))
        return tuple(
            Release(
                channel=family.name,
                mechanism=mechanism,
                row=row,
                # Two trajectories can differ at a step if the family has two cells there.
                attainable=noise is None or (family.width > 1 and counter.attained and not self.shuffled),
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
        if self.shuffled != (model == SHUFFLE):
            raise LedgerError(f"reports must be shuffled with model {SHUFFLE} only, got {model}; ask for the right one")
        found, players = THREAT_MODELS[self.name, model], self.families.players
        if players == 1:
            return found
        unit = f"one user, the {players} players of an episode together, who take part in one episode"
        return replace(found, unit=unit).excluding(PLAYERS)

    def open(self, streams: Streams) -> CountChannel:
        report, counter, released = self.report, self.counter, self.encoding.released
        encoder = report if isinstance(report, UnaryEncoder) else None
        drawn: Any = report if encoder is None else encoder.encoding
        n_cells = released.n_cells
        totals = np.zeros(n_cells)
        # Without noise, and if every sum may be read, the sums are the releases.
        noisy = totals if counter.node is None and self.schedule is None else np.zeros(n_cells)
        return CountChannel(
            cursor=new_cursor(),
            slots=self.encoding.slots(),
            n_steps=released.n_steps,
            message=np.zeros(n_cells if encoder is None else 1 + encoder.width),
            kind=SUMS if encoder is None else ONE_STEP,
            noise=SILENT if drawn is None else drawn.noise(streams.key("user_noise", self.identity)),
            coins_key=streams.key("user_coins", self.identity),
            coins=np.zeros(released.n_steps * len(self.families.families)),
            shift=0.0 if encoder is None else encoder.encoding.cold_probability,
            factor=1.0 if encoder is None else encoder.factor,
            totals=totals,
            counter=counter.open(n_cells, streams.key("server_noise", self.identity)),
            noisy=noisy,
            needed=np.zeros(self.families.n_cells) if self.encoding.kind == "one_hot" else noisy,
            times=EVERY_USER if self.schedule is None else self.schedule.times,
        )

    def changing(self, channel: CountChannel) -> dict[str, np.ndarray]:
        noisy = {} if channel.noisy is channel.totals else {"noisy": channel.noisy}
        return {"totals": channel.totals, **noisy, **channel.counter.changing}

    def catch_up(self, channel: CountChannel) -> None:
        """Release the counts of users added without a release, unless the schedule has no release here."""
        received = channel.cursor[RECEIVED]
        if channel.cursor[RELEASED] != received and release_number(channel.times, received) > 0:
            release(channel)

    def restored(self, channel: CountChannel) -> None:
        if self.encoding.kind == "one_hot":
            count_layout.collect(channel.needed, channel.noisy, channel.slots)

    def check_record(self, record: UserRecord) -> None:
        expected = (self.families.n_steps, len(self.families.families))
        index, value = np.asarray(record.index), np.asarray(record.value)
        numbers = index.dtype.kind in "iu" and value.dtype.kind in "iuf"
        if index.shape != expected or value.shape != expected or not numbers:
            rule = f"a record has one cell per step and family, integers and values of shape {expected}"
            raise ValueError(f"{rule}, got {index.shape} and {value.shape}; fill every slot")

    def send(self, channel: CountChannel, record: UserRecord, user: int) -> None:
        encode(channel, np.asarray(record.index).astype(np.int64), np.asarray(record.value).astype(np.float64), user)

    @property
    def client_side(self) -> Self:
        return replace(self, counter=ExactCounter(self.counter.n_items), schedule=None, printed=None)

    def check_message(self, channel: CountChannel, values: Float64Array) -> None:
        """Raise ValueError unless a client could have sent these values.

        A server that adds the noise accepts no number above H, and only whole numbers if all users send such, because
        one user could otherwise change others' digits in rounded sums.
        """
        super().check_message(channel, values)
        whole = not self.encoding.integral or bool((values == np.rint(values)).all())
        if self.report is None and not (whole and values.min() >= 0.0 and values.max() <= channel.n_steps):
            raise ValueError(f"an episode's counts must be in 0..{channel.n_steps}, got others; send a record's counts")

    def receive_values(self, channel: CountChannel, values: Float64Array) -> None:
        channel.message[:] = values
        add_message(channel)
        self.catch_up(channel)

    def released(self, channel: CountChannel) -> Released:
        """Server side: return the counts of all users received so far, or of the last release; read-only copies."""
        self.catch_up(channel)
        users = int(channel.cursor[RELEASED])
        return Released(np.frombuffer(channel.needed.tobytes(), dtype=np.float64), users, users)

    def family(self, counts: Released, name: str) -> Float64Array:
        """Return a view float64[layers, width] of one family of released counts; KeyError for an unknown name."""
        families = self.families
        for start, family in zip(families.offsets(), families.families, strict=True):
            if family.name == name:
                return counts.values.reshape(families.layers, families.block)[:, start : start + family.width]
        raise KeyError(f"no count family {name!r}; there are {[family.name for family in families.families]}")

    def precision(self, beta: float) -> dict[str, float]:
        """Return error bounds E by family: with probability 1 - beta no cell has a larger error in any episode.

        Errors are relative to the sum of all messages: a reward sent as a coin is itself a reward in [0, 1] with the
        same mean. A printed formula holds for each family at beta; exact bounds share beta.
        """
        _check_beta(beta)
        families, users = self.families, self.counter.n_items
        bounds: dict[str, float] = {}
        for family in families.families:
            cells = families.layers * family.width
            if self.printed is not None:
                bounds[family.name] = 0.0 if self.law is None else self.printed(self.law.scale, users, cells, beta)
            else:
                share, summands = beta / len(families.families), self.encoding.summands(family)
                bounds[family.name] = _sums_bound(self, summands, cells, users, share)
        return bounds

    def weighted_precision(self, family: str, cells: int, number: int, users: int, beta: float) -> float:
        """Return E: with probability 1 - beta none of the weighted sums of noise is above E in absolute value.

        The sums have weights in [0, 1], fixed in advance, which need no larger bound than weights of 1: for continuous
        noise see `Counter.error_bound`; whole-number noise and encodings have bounds by moment generating functions, a
        few per cent larger. The sums may depend on each other, because their failure probabilities are added.

        Args:
            family: name of the family; every sum is over cells of one step.
            cells: number of cells in a sum; an episode enters at most one of them. number: of such sums in all.
            users: the sums are read after each of the first `users` users. beta: the failure probability.

        Raises ValueError unless 0 < beta < 1, and with `precision: printed`, as no paper bounds weighted sums.
        """
        _check_beta(beta)
        if self.printed is not None:
            raise ValueError("precision must be exact here, got printed; no paper prints a bound for weighted sums")
        if self.schedule is not None and not self.shuffled:
            users = self.schedule.releases_until(users)
        summands = cells * self.encoding.summands(next(f for f in self.families.families if f.name == family))
        law, counter, failure = self.law, self.counter, beta / number
        users = min(users, counter.n_items)
        if isinstance(law, UnaryEncoder):
            return error.weighted_unary_bound(users, _unary_cell(law, summands), failure, pooled=self.encoding.pooled)
        if law is None or law.arithmetic != INTEGER or isinstance(counter, GridToeplitz):
            return _sums_bound(self, summands, 1, users, failure)
        if self.report is not None:
            return error.weighted_sum_bound(users, law, summands, failure)
        if not isinstance(counter, BinaryTree | KaryTree):
            raise ValueError(f"counter must be one of binary_tree, kary_tree, got {counter.name}; others take no law")
        return error.weighted_tree_bound(counter.depths(users), law, summands, failure)

    def deviations(self) -> tuple[Int64Array, Float64Array, float]:
        """Return the standard deviation of the noise of one released cell.

        The result is numbers of users int64[n] with the deviation after each, float64[n], or, if it grows with the root
        of their number, n = 0 and that after one user. Counters of more than a million items have their largest one.
        """
        counter = self.counter
        if self.report is not None or counter.node is None:
            one = 0.0 if self.report is None else math.sqrt(self.encoding.report_variance(self.report, summands=1))
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

    @property
    def draws_blocks(self) -> bool:
        """Whether messages can be drawn at once: all cells follow from the first family, and the sums are known."""
        first, *others = self.families.families
        marginals = first.indicator and all(family.marginal_of == first.name for family in others)
        known = self.report is None or isinstance(self.report, UnaryEncoder) or self.report.draws_sums
        return marginals and known

    def add_block(
        self,
        channel: CountChannel,
        first: int,
        users: int,
        draw: Callable[[Int64Array | None], Int64Array],
        values: Float64Array | None = None,
    ) -> None:
        """Add the messages of a block of simulated users, drawn from the law of the sum of their unbiased estimates.

        For seeded simulations only: between two releases the policy is fixed and users are independent, so counts of
        cells are multinomial, and sums of m noise draws and m coins have known distributions. The cost is independent
        of m. No message is made; the ledger charges every user. The block's draws are those of its first user.

        Args:
            first: the first of the users, 1-based; they send one after the other, all under one policy.
            users: m, their number.
            draw: draws the number of users in each cell of the first family at each step, int64[H, width]. Called with
                None if all m users are in every step, or with sizes int64[H] if step h has sizes[h] users of its own.
            values: of the family with values in [0, 1], float64[H, its width], the same for all users; None without.
        """
        count_block(channel.cursor, first, users)
        noise, coins = (block_generator(key, first) for key in (channel.noise.key, channel.coins_key))
        report, horizon, slots, families = self.report, channel.n_steps, channel.slots, self.families.families
        sizes, sums = None, np.zeros(channel.totals.shape[0])
        if isinstance(report, UnaryEncoder):
            # Each user sends one step, so steps have different users; every step has bits of its own.
            sizes = noise.multinomial(users, np.full(horizon, 1.0 / horizon))
            slots, sums = slots._replace(stride=slots.block), np.zeros(horizon * slots.block)
        numbers = draw(sizes)
        step, cell = np.nonzero(numbers)
        visitors = numbers[step, cell]
        value = np.ones((visitors.shape[0], len(families)))
        for i, family in enumerate(families):
            if not family.indicator and values is not None:
                value[:, i] = np.clip(values[step, cell % family.width], 0.0, 1.0)
        tossed = slots.coins.astype(bool)
        heads = np.zeros(value.shape, dtype=np.int64)
        heads[:, tossed] = coins.binomial(visitors[:, None], value[:, tossed])
        _add(slots, sums, step, cell, visitors, value, heads)
        if isinstance(report, UnaryEncoder) and sizes is not None:
            bits = report.encoding.sum_of_bits(sums.reshape(horizon, -1).astype(np.int64), sizes, noise)
            estimates = (bits - sizes[:, None] * channel.shift) * channel.factor
            sums = estimates.reshape(-1, channel.totals.shape[0]).sum(axis=0)
        elif report is not None and not isinstance(report, UnaryEncoder):
            sums += report.sum_of_draws(users, sums.shape[0], noise)
        channel.totals[:] += sums


def _check_beta(beta: float) -> None:
    if not 0 < beta < 1:
        raise ValueError(f"beta must lie in (0, 1), got {beta}; it is a probability")


@lru_cache(maxsize=1024)  # every seed of a cell asks for the same ones
def _sums_bound(query: CountQuery, summands: int, number: int, users: int, beta: float) -> float:
    """Return E for `number` sums of `summands` released cells each, after each of the first `users` users."""
    report, pooled = query.report, query.encoding.pooled
    if report is None:
        return query.counter.error_bound(number, beta, summands, users)
    if isinstance(report, UnaryEncoder):
        cell = _unary_cell(report, summands)
        if pooled or error.grid_points(cell) > _MOST_GRID_POINTS:
            return error.weighted_unary_bound(users, cell, beta / number, pooled=pooled)
        return error.unary_cell_bound(users, cell, number, beta)
    # The sums of `summands` cells after each user are among the partial sums of `users * summands` draws.
    return error.running_sum_bound(users * summands, report, number, beta)


def _unary_cell(report: UnaryEncoder, cells: int) -> error.UnaryCell:
    encoding = report.encoding
    p, q = encoding.hot_probability, encoding.cold_probability
    return error.UnaryCell(p, q, report.n_steps, cells, encoding.exclusive)


@kernel
def _add(
    slots: Slots,
    sums: Float64Array,
    steps: Int64Array,
    cells: Int64Array,
    users: Int64Array,
    value: Float64Array,
    heads: Int64Array,
) -> None:
    """Add records to sums float64[layers * block], like `add_record` for one user.

    steps, cells and numbers of users, int64[n] each; value float64[n, F]; heads int64[n, F]: number of ones among the
    users' coins with probability `value`.
    """
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
