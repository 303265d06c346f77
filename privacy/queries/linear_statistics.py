"""Statistics of a linear model: noisy Gram matrices, one message from every user.

User k sends one message: for each agent i and stage h of the episode (phi phi^T + W, phi V + xi), and the corrections
that update the rewards' weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from dprl.privacy.base import Float64Array, LedgerError
from dprl.privacy.channel import new_cursor
from dprl.privacy.ledger import ReleaseEvent
from dprl.privacy.mechanisms import GRAMS, GramMechanism
from dprl.privacy.mechanisms.clipping import NORMS
from dprl.privacy.mechanisms.gradients import ClippedGaussian, ClippedLaplace
from dprl.privacy.mechanisms.gram import GramRelease
from dprl.privacy.mechanisms.gram_base import RawGram
from dprl.privacy.mechanisms.gram_keys import stage_key
from dprl.privacy.mechanisms.sampling import SILENT
from dprl.privacy.mechanisms.vectors import RawVector
from dprl.privacy.queries.linear_statistics_kernels import (
    BY_STAGE,
    NOISY,
    NONE,
    OPEN,
    PUBLIC,
    WHOLE,
    RewardNoise,
    StageNoise,
    StatisticsChannel,
)
from dprl.privacy.query import MOST_DRAWS, Query
from dprl.privacy.randomness.bits import KEY_WORDS
from dprl.privacy.randomness.streams import Streams, forgotten_by_forks, noise_identity
from dprl.privacy.threat_models import ThreatModel, of_statistics

Rewards = Literal["public", "noisy", "open"]
REWARDS: dict[str, int] = {"public": PUBLIC, "noisy": NOISY, "open": OPEN}
"""Treatment of the rewards' corrections."""


@dataclass(frozen=True)
class StatisticsLayout:
    """Sizes of the statistics that users of a linear model send.

    Args:
        horizon: H >= 2; at the last stage nothing of the user is sent, as no value comes after it.
        dimension: D, of phi: n d in [TH23].
        n_messages: M: n, or 1 where all agents share one value function.
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
class StatisticsQuery(Query):
    """Gram matrices and reward corrections of every user's episode, with the noise on them.

    *Formal guarantee.* That of the two laws together, for all that one user sends, which is one message: see the
    mechanisms' classes.

    Args:
        layout: sizes. law: the noise of the Gram matrices, and whether the device clips.
        rewards: treatment of the corrections. reward_clip: G; with noise each of them is clipped to this norm.
        reward_law: for 'noisy', that of all corrections of a user as one vector; of diameter 2 G sqrt(n H) in the L2
            norm, or 2 G n H in the L1 norm.
        noise_ratio: the scale that runs over the one that [TH23] prints for the same request, the mean over stages;
            1 for printed, 0 without noise.

    Raises:
        LedgerError: if the laws do not fit each other or the layout.
    """

    layout: StatisticsLayout
    law: GramMechanism | RawGram
    rewards: Rewards
    reward_law: ClippedGaussian | ClippedLaplace | None = None
    reward_clip: float = 1.0
    noise_ratio: float = 0.0
    name: ClassVar[str] = "statistics"

    def __post_init__(self) -> None:
        layout, law, vector = self.layout, self.law, self.reward_law
        raw = isinstance(law, RawGram)
        if (vector is not None) != (self.rewards == "noisy") or (raw and self.rewards == "noisy"):
            raise LedgerError(f"rewards are noisy where there is noise for them and for the rest; this has {self}")
        if law.release != layout.release(law.release.clipped):
            raise LedgerError(f"the mechanism's release must be the layout's, got {law.release} for {layout}")
        if type(law) not in (RawGram, *GRAMS.values()):
            raise LedgerError(f"the kernels cannot run a mechanism of type {type(law).__name__}; add its release")
        if vector is not None:
            rows = layout.n_agents * layout.horizon
            # The radius of all corrections together, each clipped by itself.
            radius = self.reward_clip * (rows**0.5 if vector.norm == "l2" else rows)
            if vector.dimension != layout.n_corrections or vector.clip < 2.0 * radius * (1.0 - 1e-12):
                raise LedgerError(f"the rewards' noise must be for all corrections together, got {vector} for {layout}")

    @property
    def noisy_sides(self) -> tuple[bool, bool]:
        """Whether there is noise on (the client's side, the server's side)."""
        return not isinstance(self.law, RawGram), False

    @property
    def identity(self) -> str:
        """Text that identifies record and noise."""
        return noise_identity(self.layout, self.law, self.rewards, self.reward_law, self.reward_clip)

    @property
    def clipped(self) -> bool:
        """Whether the device clips features and values."""
        return self.law.release.clipped

    @property
    def bounds(self) -> Float64Array:
        """m_h, the clip of features and values, float64[H]; infinite where the device does not clip."""
        release = self.law.release
        return np.array(release.bounds) if release.clipped else np.full(len(release.bounds), np.inf)

    @property
    def deviations(self) -> Float64Array:
        """Standard deviation float64[H] of the noise of a number on the diagonal; 0 without, and where none is sent."""
        return np.where(np.array(self.law.release.bounds) > 0.0, self.law.deviations, 0.0)

    @property
    def longest_run(self) -> int:
        """How many submissions the noise of one key lasts for."""
        return MOST_DRAWS // max(self.law.release.n_numbers, self.layout.n_corrections) - 1

    def events(self, entropy: str) -> tuple[ReleaseEvent, ...]:
        """Return the releases of one user's message."""
        law, cells = self.law, self.law.release.n_numbers
        if isinstance(law, RawGram):
            found = [ReleaseEvent.without_noise("statistics", cells, entropy)]
        else:
            found = [ReleaseEvent.of_message("statistics", law, law.curve().exact, cells, entropy)]
        channel, numbers = "reward corrections", self.layout.n_corrections
        if self.rewards == "open":
            # D6
            found.append(ReleaseEvent.without_noise(channel, numbers, entropy))
        elif self.reward_law is not None:
            found.append(ReleaseEvent.of_message(channel, self.reward_law, False, numbers, entropy))
        return tuple(found)

    def threat_model(self, submissions: int) -> ThreatModel:
        """Return whom the guarantee protects."""
        del submissions
        return of_statistics(self.trust_model, self.rewards, self.clipped)

    def open(self, streams: Streams) -> StatisticsChannel:
        """Return the channel before the first user."""
        key = streams.key("user_noise", f"statistics|{self.identity}")
        return self.opened(key, streams.key("user_noise", f"reward corrections|{self.identity}"))

    def opened(self, key: npt.NDArray[np.uint64], reward_key: npt.NDArray[np.uint64]) -> StatisticsChannel:
        """Return the channel before the first user, with keys uint64[5] of the noise of either part."""
        layout, release, reward_law = self.layout, self.law.release, self.reward_law
        vector = reward_law or RawVector(layout.n_corrections, "none", 1.0)
        rewards = RewardNoise(
            REWARDS[self.rewards],
            float(self.reward_clip),
            NORMS["none" if reward_law is None else reward_law.norm],
            vector.vector_noise(reward_key),
            np.zeros((layout.n_agents * layout.horizon, layout.reward_dimension)),
        )
        corrections = 0 if self.rewards == "public" else layout.n_corrections
        return StatisticsChannel(
            n_messages=layout.n_messages,
            length=release.message_length,
            bounds=np.array(release.bounds),
            clips=release.clipped,
            noise=_stage_noise(self.law, key),
            rewards=rewards,
            feature=np.zeros(layout.dimension),
            message=np.zeros(release.n_numbers + corrections),
            cursor=new_cursor(),
        )


def _stage_noise(mechanism: GramMechanism | RawGram, key: np.ndarray) -> StageNoise:
    """Return the draws of a message: all at once if the stages have one law up to scale, else stage by stage."""
    n_stages = len(mechanism.release.bounds)
    factors = np.ones((n_stages, 2))
    found = StageNoise(
        drawn=NONE,
        whole=SILENT._replace(key=key),
        keys=np.zeros((n_stages, KEY_WORDS), dtype=np.uint64),
        laws=np.zeros(n_stages, dtype=np.int64),
        limits=np.zeros(n_stages),
        sizes=np.zeros((n_stages, 2)),
        tables=np.zeros(0, dtype=np.uint64),
        ends=np.zeros(2 * n_stages + 1, dtype=np.int64),
        factors=factors,
        grids=np.zeros(n_stages),
    )
    if isinstance(mechanism, RawGram):
        return found
    unit = mechanism.unit
    if unit is not None:
        factors[:, 0] = mechanism.scales
        factors[:, 1] = factors[:, 0] * mechanism.off_diagonal
        return found._replace(drawn=WHOLE, whole=unit.noise(key))
    tables: list[np.ndarray] = []
    for h in range(n_stages):
        if mechanism.release.bounds[h] > 0.0:
            found.keys[h] = stage_key(key, h + 1)
            found.grids[h] = mechanism.grid(h + 1)
            factors[h] = found.grids[h] or 1.0
            for part, law in enumerate(mechanism.stage_mechanisms(h + 1)):
                noise = law.noise(key)
                found.laws[h], found.limits[h], found.sizes[h, part] = noise.law, noise.bound, noise.scale
                tables.append(noise.table)
                found.ends[2 * h + part + 1] = noise.table.shape[0]
    forgotten_by_forks(found.keys)
    return found._replace(drawn=BY_STAGE, tables=np.concatenate(tables), ends=np.cumsum(found.ends))
