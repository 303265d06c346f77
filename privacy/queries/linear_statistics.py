"""Statistics of a linear model: noisy Gram matrices, one message from every user.

User k sends one message: for each agent i and stage h of the episode (phi phi^T + W, phi V + xi), and the corrections
that update the rewards' weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, cast

import numpy as np
import numpy.typing as npt

from dprl.privacy.accounting.closed_forms import Unbounded
from dprl.privacy.base import Float64Array, LedgerError, TrustModel
from dprl.privacy.channel import new_cursor
from dprl.privacy.counters import COUNTERS, ExactCounter
from dprl.privacy.counters.base import Counter, node_of
from dprl.privacy.mechanisms import GRAMS, GramMechanism
from dprl.privacy.mechanisms.base import Sensitivity, require_positive
from dprl.privacy.mechanisms.clipping import NORMS
from dprl.privacy.mechanisms.gram import GramGaussian, GramRelease, RawGram, gram_sensitivity
from dprl.privacy.mechanisms.sampling import SILENT
from dprl.privacy.mechanisms.vectors import ClippedGaussian, ClippedLaplace, RawVector
from dprl.privacy.noise_design import Release
from dprl.privacy.queries.linear_statistics_kernels import (
    CLIPPED,
    NOISY,
    OPEN,
    PUBLIC,
    RewardNoise,
    ServerNoise,
    StatisticsChannel,
    stage_noise,
)
from dprl.privacy.query import MOST_DRAWS, Query
from dprl.privacy.randomness.streams import Streams, noise_identity
from dprl.privacy.schedule import EVERY_USER, ReleaseSchedule
from dprl.privacy.threat_models import ThreatModel, of_statistics

_LONGEST = 10**6
Rewards = Literal["public", "noisy", "open"]
REWARDS: dict[str, int] = {"public": PUBLIC, "noisy": NOISY, "open": OPEN}
"""Treatment of the rewards' corrections."""


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

    def release(self, clipped: bool) -> GramRelease:
        """Return the Gram matrices that one user sends in an episode, without the corrections."""
        return GramRelease.of_horizon(self.horizon, self.dimension, self.n_messages, clipped)

    @property
    def n_corrections(self) -> int:
        """Numbers of all corrections of a user: n H p."""
        return self.n_agents * self.horizon * self.reward_dimension


@dataclass(frozen=True)
class CountedStatistics:
    """The noise of a trusted server on running sums of statistics.

    *Formal guarantee.* That of the counter for rows that change by `row`, for all releases together, and for policies
    by the billboard lemma. One user's Gram matrices change by at most c_hi m_h^2 in the L1 norm and sqrt(4.5) m_h^2 in
    the L2 norm, for each stage and message; see `gram_sensitivity`.

    Args:
        counter: of all numbers, in units of their scales, with a Gaussian or a Laplace node.
        scales: of a number on the diagonal, stage by stage, for a node of scale 1; changes are divided by them.
        reward_scale: of a number of the corrections; 0 if none are sent.
    """

    counter: Counter
    scales: tuple[float, ...]
    reward_scale: float = 0.0

    def __post_init__(self) -> None:
        for scale in (*self.scales, self.reward_scale or 1.0):
            require_positive("scale", scale, "write 1 for a stage without anything of a user")

    @property
    def off_diagonal(self) -> float:
        """Scale of an entry off the diagonal, in units of its stage's: the Frobenius norm counts it twice."""
        return math.sqrt(0.5) if node_of(self.counter).norm == "l2" else 1.0

    @property
    def deviations(self) -> Float64Array:
        """Standard deviation float64[H] of a number on the diagonal of the noisiest release."""
        return np.array(self.scales) * (math.sqrt(node_of(self.counter).variance) * self.counter.errors()[1])


def gram_row(release: GramRelease, scales: tuple[float, ...], norm: str) -> Sensitivity:
    """Return the largest change of one user's Gram matrices, each number in units of its scale.

    norm: 'l1', or 'l2', for which the unit of off-diagonal entries is smaller by sqrt(2). The other norm is a bound by
    the number of cells.
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

    *Formal guarantee.* That of the two laws together, for the one message of a user; see the mechanisms' classes.

    Args:
        layout: sizes. law: the noise of the Gram matrices, and whether the device clips.
        rewards: treatment of the corrections. reward_clip: G; with noise each of them is clipped to this norm.
        reward_law: for 'noisy', the law of all corrections of a user as one vector; of diameter 2 G sqrt(n H) in the L2
            norm, or 2 G n H in the L1 norm.
        noise_ratio: the scale in use divided by the one that [TH23] prints for the same request, the mean over stages;
            1 for printed, 0 without noise.
        central: the noise of a trusted server; the law is then RawGram, and the device clips for it.
        schedule: of a trusted server's releases, which are the items of its counter; None for a release after every
            user.

    Raises:
        LedgerError: if the laws do not fit each other, the layout or the schedule.
    """

    layout: StatisticsLayout
    law: GramMechanism | RawGram
    rewards: Rewards
    reward_law: ClippedGaussian | ClippedLaplace | None = None
    reward_clip: float = 1.0
    noise_ratio: float = 0.0
    central: CountedStatistics | None = None
    schedule: ReleaseSchedule | None = None
    name: ClassVar[str] = "statistics"

    def __post_init__(self) -> None:
        layout, law, vector = self.layout, self.law, self.reward_law
        raw = isinstance(law, RawGram)
        if self.central is not None:
            self._check_central(self.central)
        elif self.schedule is not None:
            raise LedgerError(f"only a trusted server releases sums on a schedule, got {self.schedule}; leave it out")
        elif (vector is not None) != (self.rewards == "noisy") or (raw and self.rewards == "noisy"):
            raise LedgerError(f"rewards are noisy where there is noise for them and for the rest; this has {self}")
        if len(law.release.bounds) != layout.horizon or law.release != layout.release(law.release.clipped):
            raise LedgerError(f"the mechanism's release must be the layout's, got {law.release} for {layout}")
        if type(law) not in (RawGram, *GRAMS.values()):
            raise LedgerError(f"the kernels cannot run a mechanism of type {type(law).__name__}; add its release")
        if vector is not None:
            rows = layout.n_agents * layout.horizon
            # The radius of all corrections together, each clipped separately.
            radius = self.reward_clip * (rows**0.5 if vector.norm == "l2" else rows)
            if vector.dimension != layout.n_corrections or vector.clip < 2.0 * radius * (1.0 - 1e-12):
                raise LedgerError(f"the rewards' noise must be for all corrections together, got {vector} for {layout}")

    def _check_central(self, central: CountedStatistics) -> None:
        """Raise LedgerError unless a trusted server's counter covers all numbers, and the device clips them."""
        bare = isinstance(self.law, RawGram) and self.reward_law is None
        if not (bare and self.clipped and self.rewards != "open"):
            raise LedgerError(f"a server's noise is on clipped statistics without noise of their own, got {self}")
        if type(central.counter) not in COUNTERS.values() or central.counter.node is None:
            raise LedgerError(f"the kernels cannot run a counter {central.counter}; take a calibrated one of COUNTERS")
        sent = self.rewards == "noisy"
        if len(central.scales) != self.layout.horizon or (central.reward_scale > 0.0) != sent:
            raise LedgerError(f"a server's noise has a scale for each stage, and one for corrections, got {central}")
        if self.schedule is not None:
            self.schedule.check_counter(central.counter.n_items)

    @property
    def noisy_sides(self) -> tuple[bool, bool]:
        """Whether there is noise on (the client's side, the server's side)."""
        return not isinstance(self.law, RawGram), self.central is not None

    @property
    def mechanism(self) -> str:
        """Name of the Gram mechanism, on either side; 'raw' without noise."""
        return self.law.name if self.central is None else f"gram_{node_of(self.central.counter).name}"

    @property
    def identity(self) -> str:
        """Text that identifies record and noise."""
        parts = noise_identity(self.layout, self.law, self.rewards, self.reward_law, self.reward_clip)
        return "|".join([parts, *map(noise_identity, filter(None, [self.central, self.schedule]))])

    @property
    def row(self) -> Sensitivity:
        """Sensitivity of a trusted server's sums, in units of the scales."""
        central = cast("CountedStatistics", self.central)
        norm = node_of(central.counter).norm
        row = gram_row(self.law.release, central.scales, norm)
        if self.rewards != "noisy":
            return row
        return row.beside(correction_row(self.layout, self.reward_clip, central.reward_scale, norm))

    @property
    def clipped(self) -> bool:
        """Whether the device clips features and values."""
        return self.law.release.clipped

    @property
    def bounds(self) -> Float64Array:
        """m_h, the clip of features and values, float64[H]; infinite if the device does not clip."""
        release = self.law.release
        return np.array(release.bounds) if release.clipped else np.full(len(release.bounds), np.inf)

    @property
    def deviations(self) -> Float64Array:
        """Standard deviation float64[H] of a diagonal number's noise; 0 without noise, or if the stage is not sent.

        It is that of one message, or of the noisiest sum that a trusted server releases.
        """
        found = self.law.deviations if self.central is None else self.central.deviations
        return np.where(np.array(self.law.release.bounds) > 0.0, found, 0.0)

    @property
    def longest_run(self) -> int:
        """Maximum of submissions for which the noise of one key suffices."""
        return MOST_DRAWS // max(self.law.release.n_numbers, self.layout.n_corrections) - 1

    @property
    def counted_users(self) -> int | None:
        """Number of users of a trusted server's counter."""
        if self.central is None:
            return None
        return self.central.counter.n_items if self.schedule is None else self.schedule.users

    def events(self, entropy: str) -> tuple[Release, ...]:
        """Return the releases of one user's message."""
        law, cells = self.law, self.law.release.n_numbers
        if self.central is not None:
            # The counter adds noise to Gram matrices and corrections alike.
            counter, row = self.central.counter, self.row
            line = (
                "in units of their scales, two users' clipped statistics differ by at most "
                f"{row.l1:.6g} in L1 and {row.l2:.6g} in L2, the sums over messages and stages"
            )
            channel = "sums of statistics"
            return (Release(channel, counter.node, row, False, row.cells, entropy, counter, row_line=line),)
        if isinstance(law, RawGram):
            found = [Release("statistics", None, None, True, cells, entropy)]
        else:
            attained = isinstance(law.curve(), Unbounded) or (isinstance(law, GramGaussian) and law.attained)
            found = [Release("statistics", law, None, attained, cells, entropy)]
        if self.rewards != "public":
            # D6: open corrections have no noise.
            attained, numbers = self.reward_law is None, self.layout.n_corrections
            found.append(Release("reward corrections", self.reward_law, None, attained, numbers, entropy))
        return tuple(found)

    def threat_model(self, model: TrustModel, submissions: int) -> ThreatModel:
        """Return the threat model."""
        del submissions
        return of_statistics(model, self.rewards, self.clipped)

    def open(self, streams: Streams) -> StatisticsChannel:
        """Return the channel before the first user."""
        if self.central is not None:
            key = streams.key("server_noise", self.identity)
            return self.opened(SILENT.key, SILENT.key)._replace(server=self._server(self.central, key))
        key = streams.key("user_noise", f"statistics|{self.identity}")
        return self.opened(key, streams.key("user_noise", f"reward corrections|{self.identity}"))

    def _server(self, central: CountedStatistics, key: npt.NDArray[np.uint64]) -> ServerNoise:
        """Return the server's side before the first user; the counter draws from `key` uint64[5]."""
        release, d = self.law.release, self.layout.dimension
        ends, others = np.ones(2 * d), np.full(release.message_length - 2 * d, central.off_diagonal)
        stage = np.concatenate([ends, others])
        sent = [s * stage for s, bound in zip(central.scales, release.bounds, strict=True) if bound > 0.0]
        corrections = np.full(self.layout.n_corrections if self.rewards == "noisy" else 0, central.reward_scale)
        units = np.concatenate([*(sent * release.n_messages), corrections])
        totals, noisy, released = (np.zeros(units.size) for _ in range(3))
        return ServerNoise(central.counter.open(units.size, key), units, totals, noisy, released)

    def changing(self, channel: StatisticsChannel) -> dict[str, np.ndarray]:
        """Return the arrays of a trusted server, with which they stay."""
        server = channel.server
        if not server.totals.size:
            return {}
        return {"totals": server.totals, "released": server.released, **server.counter.changing}

    def opened(self, key: npt.NDArray[np.uint64], reward_key: npt.NDArray[np.uint64]) -> StatisticsChannel:
        """Return the channel before the first user, with keys uint64[5] for the noise of the two parts."""
        layout, release, reward_law = self.layout, self.law.release, self.reward_law
        vector = reward_law or RawVector(layout.n_corrections, "none", 1.0)
        norm = "none" if reward_law is None else reward_law.norm
        if self.central is not None:
            norm = "l1" if node_of(self.central.counter).norm == "l1" else "l2"
        rewards = RewardNoise(
            CLIPPED if self.central is not None and self.rewards == "noisy" else REWARDS[self.rewards],
            float(self.reward_clip),
            NORMS[norm],
            vector.vector_noise(reward_key),
            np.zeros((layout.n_agents * layout.horizon, layout.reward_dimension)),
        )
        numbers = release.n_numbers + (0 if self.rewards == "public" else layout.n_corrections)
        return StatisticsChannel(
            n_messages=layout.n_messages,
            length=release.message_length,
            bounds=np.array(release.bounds),
            clips=release.clipped,
            noise=stage_noise(self.law, key),
            rewards=rewards,
            feature=np.zeros(layout.dimension),
            message=np.zeros(numbers),
            server=ServerNoise(ExactCounter(1).open(0, key), *(np.zeros(0) for _ in range(4))),
            times=EVERY_USER if self.schedule is None else self.schedule.times,
            cursor=new_cursor(),
        )
