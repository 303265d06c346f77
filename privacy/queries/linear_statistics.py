"""Statistics of a linear model: noisy Gram matrices, one message from every user.

User k sends one message: for each agent i and stage h of the episode (phi phi^T + W, phi V + xi), and the corrections
that update the rewards' weights. First the channel and its kernels: compiled loops call `send_statistics` and then
`add_statistics` or, for a user without a release after it, `aggregate_statistics`, one user at a time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, cast

import numpy as np

from dprl.compiled import no_alloc_kernel
from dprl.privacy.accounting.closed_forms import Unbounded
from dprl.privacy.base import Float64Array, Int64Array, LedgerError, Sensitivity, TrustModel, check_positive
from dprl.privacy.counters import COUNTERS, ExactCounter
from dprl.privacy.counters.base import Counter, CounterState, node_of
from dprl.privacy.counters.release import release_prefix
from dprl.privacy.mechanisms import GRAMS, gram
from dprl.privacy.mechanisms.base import IDEALISED
from dprl.privacy.mechanisms.clipping import L2, MOST, NORMS, fill_clipped
from dprl.privacy.mechanisms.gram import Gram, GramGaussian, GramRelease, gram_sensitivity
from dprl.privacy.mechanisms.sampling import SILENT, Noise, fill_noise, silent
from dprl.privacy.mechanisms.vectors import ClippedGaussian, ClippedLaplace, RawVector, VectorNoise, fill_noisy
from dprl.privacy.noise_design import Release
from dprl.privacy.queries.base import RECEIVED, RELEASED, SENT, Query, advance_received, advance_sent, new_cursor
from dprl.privacy.randomness.exact import UInt64Array
from dprl.privacy.randomness.streams import Streams, noise_identity
from dprl.privacy.schedule import EVERY_USER, ReleaseSchedule, required_release
from dprl.privacy.threat_models import ThreatModel, of_statistics

PUBLIC, NOISY, OPEN, CLIPPED = range(4)
"""Treatment of the rewards' corrections: not sent, sent with noise, sent as they are, sent clipped without noise."""
_LONGEST = 10**6
Rewards = Literal["public", "noisy", "open"]
REWARDS: dict[str, int] = {"public": PUBLIC, "noisy": NOISY, "open": OPEN}
"""Treatment of the rewards' corrections."""


class StatisticsChannel(NamedTuple):
    """The channel of statistics.

    cursor int64[5]; message float64[m]: the current one, with the stages of each of the M in order, then the
    corrections; n_messages: M; length: D (D + 3) / 2; bounds float64[H]: m_h, 0 for stages that are not sent; rewards:
    treatment of the rewards' corrections, a code above.

    Client's side: clips: whether the device clips; feature float64[D]: workspace; noise: of scale 1, or none;
    factors float64[H, 2]: of the draws of a stage, on and off the diagonal; radius, norm: of the ball into which each
    correction is clipped; reward_noise: of all corrections as one vector; clipped float64[n H, p]: workspace.

    Side of a trusted server, empty arrays without one: counter: its noise; units float64[m]: the counter's unit of each
    number of a message; totals, noisy float64[m]: sums in these units without and with noise; released float64[m]: the
    noisy sums of the last release; times int64[n]: the schedule of releases, empty for one after every user.
    """

    cursor: Int64Array
    message: Float64Array
    n_messages: int
    length: int
    bounds: Float64Array
    rewards: int
    clips: bool
    feature: Float64Array
    noise: Noise
    factors: Float64Array
    radius: float
    norm: int
    reward_noise: VectorNoise
    clipped: Float64Array
    counter: CounterState
    units: Float64Array
    totals: Float64Array
    noisy: Float64Array
    released: Float64Array
    times: Int64Array

    def __repr__(self) -> str:
        # Workspace and message hold users' data.
        return f"StatisticsChannel({self.message.shape[0]} numbers, {self.cursor[SENT]} users sent)"


@no_alloc_kernel
def send_statistics(
    channel: StatisticsChannel, features: Float64Array, targets: Float64Array, corrections: Float64Array, user: int
) -> None:
    """Client side: make the message of `user` (from 1 on), the only output of the user's side here.

    If the noise is on the server's side, the message is for a trusted server only.

    features: float64[M, H, D], phi of the visited state and action; targets: float64[M, H], V at the next state;
    corrections: float64[n, H, p], (r_i - <psi, w_i>) psi, read unless rewards are public. Numbers that are not finite
    count as 0. Stages of bound 0 are not sent.
    Raises LedgerError unless the user is charged and is the next one to send; ValueError for other shapes.

    *Formal guarantee.* That of the query's mechanisms, for any two inputs of the user; see their classes.
    Paper: [TH23] Algorithm 1.
    """
    _check_shapes(channel, features, targets, corrections)
    advance_sent(channel.cursor, user)
    length, n_stages = channel.length, channel.bounds.shape[0]
    wide = channel.message.shape[0] - _corrections_sent(channel)
    fill_noise(channel.message[:wide], channel.noise, np.uint64(user) * np.uint64(wide))
    place = 0
    for m in range(channel.n_messages):
        for h in range(n_stages):
            bound = channel.bounds[h]
            if bound > 0.0:
                gram.clip_features(channel.feature, features[m, h], bound, channel.clips)
                target = gram.clip_value(targets[m, h], bound, channel.clips)
                numbers, factors = channel.message[place : place + length], channel.factors[h]
                gram.finish_gram(numbers, channel.feature, target, factors[0], factors[1])
                place += length
    _send_corrections(channel, channel.message[wide:], corrections, user)


@no_alloc_kernel
def add_statistics(
    channel: StatisticsChannel, matrices: Float64Array, vectors: Float64Array, corrections: Float64Array
) -> None:
    """Server side: add the current message to sums, and write its corrections.

    A trusted server adds it to its own totals and releases them with noise: the sums are overwritten, and the
    corrections are the difference from the last release.

    matrices: float64[M, H, D, D], only the upper triangle and the diagonal are changed; vectors: float64[M, H, D];
    corrections: float64[n, H, p], overwritten; unchanged if rewards are public. Stages of bound 0 are unchanged.
    Raises LedgerError without a message to receive, or if a schedule has no release here; ValueError for other shapes.

    *Formal guarantee.* Post-processing of messages with noise; else that of the counter, for all releases together.
    """
    aggregate_statistics(channel, matrices, vectors, corrections)
    if channel.totals.shape[0] == 0:
        return
    # The release takes the message's place: noisy sums of Gram matrices, and the growth of those of corrections.
    message, received = channel.message, channel.cursor[RECEIVED]
    release_prefix(channel.noisy, channel.totals, channel.counter, required_release(channel.times, received))
    wide = message.shape[0] - _corrections_sent(channel)
    for i in range(message.shape[0]):
        released = channel.noisy[i] * channel.units[i]
        message[i] = released if i < wide else released - channel.released[i]
        channel.released[i] = released
    channel.cursor[RELEASED] = received
    _read_message(channel, matrices, vectors, corrections, True)


@no_alloc_kernel
def aggregate_statistics(
    channel: StatisticsChannel, matrices: Float64Array, vectors: Float64Array, corrections: Float64Array
) -> None:
    """Server side: add the current message without a release; messages with their own noise are added to the sums.

    A trusted server leaves its last released sums unchanged, and writes zero corrections: they are in its next release.
    Raises LedgerError without a message to receive; ValueError for other shapes.

    *Formal guarantee.* That of `add_statistics`, and charged like it.
    """
    _check_shapes(channel, vectors, vectors[:, :, 0], corrections)
    if matrices.shape[:3] != vectors.shape or matrices.shape[3] != vectors.shape[2]:
        raise ValueError("matrices must be of the features' shape, and square")
    advance_received(channel.cursor)
    if channel.totals.shape[0] == 0:
        _read_message(channel, matrices, vectors, corrections, False)
        return
    totals, message, units = channel.totals, channel.message, channel.units
    for i in range(message.shape[0]):
        totals[i] += message[i] / units[i]
    if channel.rewards != PUBLIC:
        corrections[...] = 0.0


@no_alloc_kernel
def _read_message(
    channel: StatisticsChannel, matrices: Float64Array, vectors: Float64Array, corrections: Float64Array, anew: bool
) -> None:
    """Add the Gram matrices in channel.message to the sums, which may be reset first, and write its corrections."""
    length, n_stages = channel.length, channel.bounds.shape[0]
    place = 0
    for m in range(channel.n_messages):
        for h in range(n_stages):
            if channel.bounds[h] > 0.0:
                if anew:
                    matrices[m, h] = 0.0
                    vectors[m, h] = 0.0
                gram.add_gram(matrices[m, h], vectors[m, h], channel.message[place : place + length])
                place += length
    if channel.rewards != PUBLIC:
        flat = corrections.reshape(corrections.size)
        for i in range(flat.shape[0]):
            flat[i] = channel.message[place + i]


@no_alloc_kernel
def _check_shapes(
    channel: StatisticsChannel, features: Float64Array, targets: Float64Array, corrections: Float64Array
) -> None:
    """Raise ValueError for arrays of other shapes; shapes are public."""
    expected = (channel.n_messages, channel.bounds.shape[0], channel.feature.shape[0])
    if features.shape != expected or targets.shape != expected[:2]:
        raise ValueError("features and targets must be of the layout's shape; there is one for each message and stage")
    rows, p = channel.clipped.shape
    if channel.rewards != PUBLIC:
        n, n_stages, width = corrections.shape
        if n * n_stages != rows or width != p:
            raise ValueError("corrections must be of the layout's shape; there is one for each agent and stage")


@no_alloc_kernel
def _corrections_sent(channel: StatisticsChannel) -> int:
    """Return the number of the rewards' corrections in a message."""
    return 0 if channel.rewards == PUBLIC else channel.clipped.size


@no_alloc_kernel
def _send_corrections(channel: StatisticsChannel, message: Float64Array, corrections: Float64Array, user: int) -> None:
    """Write the corrections to their part of the message: clipped one by one, unchanged, or not at all."""
    if channel.rewards == PUBLIC:
        return
    flat = corrections.reshape(corrections.size)
    if channel.rewards == OPEN:
        # D6
        for i in range(flat.shape[0]):
            message[i] = flat[i]
        return
    # Every correction is shrunk into the ball of that radius; numbers that are not finite count as 0.
    radius, norm = channel.radius, channel.norm
    n_rows, p = channel.clipped.shape
    for row in range(n_rows):
        out, total = channel.clipped[row], 0.0
        for j in range(p):
            x = flat[row * p + j]
            out[j] = x if abs(x) < math.inf else 0.0
            total += out[j] * out[j] if norm == L2 else abs(out[j])
        size = math.sqrt(total) if norm == L2 else total
        if size > MOST:
            fill_clipped(out, flat[row * p : (row + 1) * p], radius, norm)
        elif size > radius:
            for j in range(p):
                out[j] *= radius / size
    clipped = channel.clipped.reshape(channel.clipped.size)
    if channel.rewards == CLIPPED:
        for i in range(clipped.shape[0]):
            message[i] = clipped[i]
    else:
        fill_noisy(message, clipped, channel.reward_noise, np.uint64(user) * np.uint64(channel.reward_noise.draws))


# ---- the query ----


@dataclass(frozen=True)
class StatisticsLayout:
    """Sizes of the statistics that users of a linear model send.

    >>> StatisticsLayout(horizon=5, dimension=4, n_messages=2, n_agents=2, reward_dimension=3).n_corrections
    30

    Args:
        horizon: H >= 2; at the last stage no user data are sent, because no value follows it.
        dimension: D, of phi: n d in [TH23].
        n_messages: M: n, or 1 if all agents share one value function.
        n_agents: n, of the rewards' corrections. reward_dimension: p, of psi.
    """

    horizon: int
    dimension: int
    n_messages: int
    n_agents: int
    reward_dimension: int

    def __post_init__(self) -> None:
        if self.horizon < 2:
            raise ValueError(f"horizon must be at least 2, got {self.horizon}; at the last stage nothing is learned")
        if self.horizon > _LONGEST:
            raise ValueError(f"horizon must be at most {_LONGEST}, got {self.horizon}; every stage has a scale")
        if min(self.dimension, self.n_agents, self.reward_dimension) < 1 or self.n_messages not in (1, self.n_agents):
            raise ValueError(f"a layout has numbers of at least 1 and 1 or n_agents messages, got {self}; count again")

    def release(self, clipped: bool, centered: bool = False) -> GramRelease:
        """Return the Gram matrices that one user sends in an episode, without the corrections."""
        return GramRelease.of_horizon(self.horizon, self.dimension, self.n_messages, clipped, centered)

    @property
    def n_corrections(self) -> int:
        """Numbers of all corrections of a user: n H p."""
        return self.n_agents * self.horizon * self.reward_dimension


def gram_row(release: GramRelease, scales: tuple[float, ...], norm: str) -> Sensitivity:
    """Return the largest change of one user's Gram matrices, each number in units of its scale.

    norm: 'l1', or 'l2', with a unit smaller by sqrt(2) off the diagonal. The number of cells bounds the other norm.
    """
    parts = [gram_sensitivity(release.dimension, bound) for bound in release.bounds if bound > 0.0]
    units = [scale for scale, bound in zip(scales, release.bounds, strict=True) if bound > 0.0]
    n, cells = release.n_messages, release.n_numbers
    l2 = math.sqrt(n * math.fsum((part.l2 / unit) ** 2 for part, unit in zip(parts, units, strict=True)))
    l1 = n * math.fsum(part.l1 / unit for part, unit in zip(parts, units, strict=True))
    largest = max(part.linf / unit for part, unit in zip(parts, units, strict=True))
    return Sensitivity(math.sqrt(cells) * l2 if norm == "l2" else l1, l2, largest, cells)


def correction_row(layout: StatisticsLayout, clip: float, scale: float, norm: str) -> Sensitivity:
    """Return the largest change of one user's corrections, each clipped to `clip` in `norm`, in units of `scale`."""
    rows, numbers = layout.n_agents * layout.horizon, layout.n_corrections
    each = 2.0 * clip / scale
    l2 = each * math.sqrt(rows)
    return Sensitivity(each * rows if norm == "l1" else l2 * math.sqrt(numbers), l2, each, numbers)


@dataclass(frozen=True)
class StatisticsQuery(Query):
    """Gram matrices and reward corrections of every user's episode, with the noise on them.

    *Formal guarantee.* On the users' side, that of the two laws together, for the one message of a user; see the
    mechanisms' classes. With a trusted server, that of the counter for rows that change by `row`, for all releases
    together, and for policies by the billboard lemma. One user's Gram matrices change by at most c_hi m_h^2 in the L1
    norm and sqrt(4.5) m_h^2 in the L2 norm, for each stage and message; see `gram_sensitivity`.

    Args:
        layout: sizes. law: the noise of the Gram matrices, and whether the device clips; a GramRelease has no noise.
        rewards: treatment of the corrections. reward_clip: G; with noise each of them is clipped to this norm.
        reward_law: for 'noisy', the law of all corrections of a user as one vector; of diameter 2 G sqrt(n H) in the L2
            norm, or 2 G n H in the L1 norm.
        noise_ratio: the scale in use divided by the one that [TH23] prints for the same request, the mean over stages;
            1 for printed, 0 without noise.
        counter: of a trusted server, for running sums of all numbers, in units of their scales, with a Gaussian or a
            Laplace node; the law is then a bare release, and the device clips for it. None for noise on messages.
        scales: with a counter, of a number on the diagonal, stage by stage, for a node of scale 1; changes are divided
            by them. reward_scale: of a number of the corrections; 0 if none are sent.
        schedule: of a trusted server's releases, the items of its counter; None for one after every user.

    Raises LedgerError if the laws do not fit each other, the layout or the schedule; ValueError for scales not above 0.
    """

    layout: StatisticsLayout
    law: Gram | GramRelease
    rewards: Rewards
    reward_law: ClippedGaussian | ClippedLaplace | None = None
    reward_clip: float = 1.0
    noise_ratio: float = 0.0
    counter: Counter | None = None
    scales: tuple[float, ...] = ()
    reward_scale: float = 0.0
    schedule: ReleaseSchedule | None = None
    name: ClassVar[str] = "statistics"

    def __post_init__(self) -> None:
        layout, law, vector, counter, sent = self.layout, self.law, self.reward_law, self.counter, self.rewards
        raw = isinstance(law, GramRelease)
        if counter is not None:
            if not (raw and vector is None and self.clipped and sent != "open"):
                raise LedgerError(f"a server's noise is on clipped statistics without noise of their own, got {self}")
            # Whole-number noise would leave the fractional parts of the sums open.
            if type(counter) not in COUNTERS.values() or node_of(counter).arithmetic != IDEALISED:
                raise LedgerError(f"the kernels cannot run a counter {counter}; take a calibrated one of COUNTERS")
            for scale in (*self.scales, self.reward_scale or 1.0):
                check_positive("scale", scale, "write 1 for a stage without anything of a user")
            if len(self.scales) != layout.horizon or (self.reward_scale > 0.0) != (sent == "noisy"):
                raise LedgerError(f"a server's noise has a scale for each stage, and one for corrections, got {self}")
            if self.schedule is not None:
                self.schedule.check_counter(counter.n_items)
        elif self.schedule is not None:
            raise LedgerError(f"only a trusted server releases sums on a schedule, got {self.schedule}; leave it out")
        elif (vector is not None) != (sent == "noisy") or (raw and sent == "noisy"):
            raise LedgerError(f"rewards are noisy where there is noise for them and for the rest; this has {self}")
        if self.release != layout.release(self.clipped) and not self.centered:
            raise LedgerError(f"the mechanism's release must be the layout's, got {self.release} for {layout}")
        if type(law) not in (GramRelease, *GRAMS.values()):
            raise LedgerError(f"the kernels cannot run a mechanism of type {type(law).__name__}; add its release")
        if vector is not None:
            rows = layout.n_agents * layout.horizon
            # The radius of all corrections together, each clipped separately.
            radius = self.reward_clip * (rows**0.5 if vector.norm == "l2" else rows)
            if vector.dimension != layout.n_corrections or vector.clip < 2.0 * radius * (1.0 - 1e-12):
                raise LedgerError(f"the rewards' noise must be for all corrections together, got {vector} for {layout}")

    @property
    def noisy_sides(self) -> tuple[bool, bool]:
        return isinstance(self.law, Gram), self.counter is not None

    @property
    def mechanism(self) -> str:
        """Name of the Gram mechanism, on either side; 'raw' without noise."""
        if self.counter is not None:
            return f"gram_{node_of(self.counter).name}"
        return self.law.name if isinstance(self.law, Gram) else "raw"

    @property
    def identity(self) -> str:
        law = noise_identity(self.law)
        if isinstance(self.law, GramRelease):
            law = f"raw[release={law},scales=()]"
        rewards = noise_identity(self.rewards, self.reward_law, self.reward_clip)
        parts = [noise_identity(self.layout), law, rewards]
        if self.counter is not None:
            counter, reward, scales = map(noise_identity, (self.counter, self.reward_scale, self.scales))
            parts.append(f"[counter={counter},reward_scale={reward},scales={scales}]")
        return "|".join([*parts, *([noise_identity(self.schedule)] if self.schedule else [])])

    @property
    def row(self) -> Sensitivity:
        """Sensitivity of a trusted server's sums, in units of the scales."""
        norm = node_of(cast("Counter", self.counter)).norm
        row = gram_row(self.release, self.scales, norm)
        if self.rewards != "noisy":
            return row
        return row.beside(correction_row(self.layout, self.reward_clip, self.reward_scale, norm))

    @property
    def release(self) -> GramRelease:
        """The messages of one user, with or without noise."""
        return self.law if isinstance(self.law, GramRelease) else self.law.release

    @property
    def clipped(self) -> bool:
        """Whether the device clips features and values."""
        return self.release.clipped

    @property
    def centered(self) -> bool:
        """Whether values are sent as their distance from the centre of their range."""
        return self.clipped and self.release == self.layout.release(clipped=True, centered=True)

    @property
    def bounds(self) -> Float64Array:
        """m_h, the clip of features and values, float64[H]; infinite if the device does not clip."""
        release = self.release
        return np.array(release.bounds) if release.clipped else np.full(len(release.bounds), np.inf)

    @property
    def deviations(self) -> Float64Array:
        """Standard deviation float64[H] of a diagonal number's noise; 0 without noise, or if the stage is not sent.

        It is that of one message, or of the noisiest sum that a trusted server releases.
        """
        found = self.law.deviations if isinstance(self.law, Gram) else np.zeros(self.layout.horizon)
        if self.counter is not None:
            found = np.array(self.scales) * (math.sqrt(node_of(self.counter).variance) * self.counter.errors()[1])
        return np.where(np.array(self.release.bounds) > 0.0, found, 0.0)

    @property
    def longest_run(self) -> int:  # type: ignore[override]
        """Maximum of submissions under one key."""
        return Query.longest_run // max(self.release.n_numbers, self.layout.n_corrections) - 1

    def events(self, entropy: str) -> tuple[Release, ...]:
        law, cells = self.law, self.release.n_numbers
        if self.counter is not None:
            # The counter adds noise to Gram matrices and corrections alike.
            counter, row = self.counter, self.row
            line = (
                f"in units of their scales, two users' statistics, clipped to {self.release.bounds[0]:g} at stage 1, "
                "differ by at most "
                f"{row.l1:.6g} in L1 and {row.l2:.6g} in L2, the sums over messages and stages"
            )
            channel = "sums of statistics"
            return (Release(channel, counter.node, row, False, row.cells, entropy, counter, row_line=line),)
        if isinstance(law, GramRelease):
            found = [Release("statistics", None, None, True, cells, entropy)]
        else:
            # [TH23]'s features attain the Gaussian curve in four dimensions or more, if V is not centred.
            gaussian = isinstance(law, GramGaussian) and law.release.dimension >= 4 and not self.centered
            attained = isinstance(law.curve(), Unbounded) or gaussian
            found = [Release("statistics", law, None, attained, cells, entropy)]
        if self.rewards != "public":
            # D6: open corrections have no noise.
            attained, numbers = self.reward_law is None, self.layout.n_corrections
            found.append(Release("reward corrections", self.reward_law, None, attained, numbers, entropy))
        return tuple(found)

    def threat_model(self, model: TrustModel, submissions: int) -> ThreatModel:
        del submissions
        return of_statistics(model, self.rewards, self.clipped)

    def open(self, streams: Streams) -> StatisticsChannel:
        if self.counter is not None:
            return self.opened(SILENT.key, SILENT.key, streams.key("server_noise", self.identity))
        key = streams.key("user_noise", f"statistics|{self.identity}")
        return self.opened(key, streams.key("user_noise", f"reward corrections|{self.identity}"))

    def changing(self, channel: StatisticsChannel) -> dict[str, np.ndarray]:
        if not channel.totals.size:
            return {}
        return {"totals": channel.totals, "released": channel.released, **channel.counter.changing}

    def opened(
        self, key: UInt64Array, reward_key: UInt64Array, server_key: UInt64Array | None = None
    ) -> StatisticsChannel:
        """Return the channel before the first user, with keys uint64[5] for the noise of the two parts.

        server_key uint64[5]: of a trusted server's counter; None for the users' side alone.
        """
        layout, law, release = self.layout, self.law, self.release
        factors, noise = np.ones((layout.horizon, 2)), silent(key)
        if isinstance(law, Gram):
            noise, factors[:, 0] = law.of_scale(1.0).noise(key), law.scales
            factors[:, 1] = factors[:, 0] * law.off_diagonal
        rewards, norm = REWARDS[self.rewards], "none" if self.reward_law is None else self.reward_law.norm
        counter, units = ExactCounter(1).open(0, key), np.zeros(0)
        if self.counter is not None:
            rewards = CLIPPED if self.rewards == "noisy" else rewards
            norm = "l1" if node_of(self.counter).norm == "l1" else "l2"
        if self.counter is not None and server_key is not None:
            # The Frobenius norm counts an entry off the diagonal twice.
            off_diagonal = math.sqrt(0.5) if norm == "l2" else 1.0
            ends = np.ones(2 * layout.dimension)
            stage = np.append(ends, np.full(release.message_length - ends.size, off_diagonal))
            sent = [scale * stage for scale, bound in zip(self.scales, release.bounds, strict=True) if bound > 0.0]
            corrections = np.full(layout.n_corrections if self.rewards == "noisy" else 0, self.reward_scale)
            units = np.concatenate([*(sent * release.n_messages), corrections])
            counter = self.counter.open(units.size, server_key)
        return StatisticsChannel(
            cursor=new_cursor(),
            message=np.zeros(release.n_numbers + (0 if self.rewards == "public" else layout.n_corrections)),
            n_messages=layout.n_messages,
            length=release.message_length,
            bounds=np.array(release.bounds),
            rewards=rewards,
            clips=release.clipped,
            feature=np.zeros(layout.dimension),
            noise=noise,
            factors=factors,
            radius=float(self.reward_clip),
            norm=NORMS[norm],
            reward_noise=(self.reward_law or RawVector(layout.n_corrections, "none", 1.0)).vector_noise(reward_key),
            clipped=np.zeros((layout.n_agents * layout.horizon, layout.reward_dimension)),
            counter=counter,
            units=units,
            totals=np.zeros(units.size),
            noisy=np.zeros(units.size),
            released=np.zeros(units.size),
            times=EVERY_USER if self.schedule is None else self.schedule.times,
        )
