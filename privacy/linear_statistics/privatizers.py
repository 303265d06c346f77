"""The privatizer of a linear model's statistics: each user's device sends noisy Gram matrices, and a ledger accounts.

User k sends one message: for each agent i and stage h of the episode (phi phi^T + W, phi V + xi), and what updates the
rewards' weights. Compiled loops hand `channel` to `send_statistics` and `add_statistics`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from dprl.privacy.base import Float64Array, Int64Array, LedgerError, TrustModel
from dprl.privacy.certificate import ENTROPY, PrivacyRequest
from dprl.privacy.ledgers.ledger import Release
from dprl.privacy.linear_statistics.channels import (
    BY_STAGE,
    NOISY,
    NONE,
    OPEN,
    PUBLIC,
    WHOLE,
    RewardNoise,
    StageNoise,
    StatisticsChannel,
    add_statistics,
    digest_of,
    send_statistics,
)
from dprl.privacy.mechanisms import GRAMS, GramMechanism
from dprl.privacy.mechanisms.clipping import NORMS
from dprl.privacy.mechanisms.gradients import ClippedGaussian, ClippedLaplace
from dprl.privacy.mechanisms.gram import GramRelease
from dprl.privacy.mechanisms.gram_base import RawGram
from dprl.privacy.mechanisms.gram_keys import stage_key
from dprl.privacy.mechanisms.sampling import SILENT
from dprl.privacy.mechanisms.vectors import RawVector
from dprl.privacy.randomness.bits import KEY_WORDS
from dprl.privacy.randomness.streams import Streams, forgotten_by_forks, noise_identity
from dprl.privacy.scopes import of_statistics
from dprl.privacy.submitting import SubmittingUsers, Terms

__all__ = [
    "Rewards",
    "StatisticsChannel",
    "StatisticsLayout",
    "StatisticsParts",
    "StatisticsPrivatizer",
    "add_statistics",
    "send_statistics",
]

Rewards = Literal["public", "noisy", "open"]
REWARDS: dict[str, int] = {"public": PUBLIC, "noisy": NOISY, "open": OPEN}
"""What becomes of the rewards' corrections."""
_MOST_DRAWS = 2**53


@dataclass(frozen=True)
class StatisticsLayout:
    """What the users of a linear model send.

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
        """Return what one user sends in an episode, without the corrections."""
        return GramRelease.of_horizon(self.horizon, self.dimension, self.n_messages, clipped)

    @property
    def n_corrections(self) -> int:
        """Numbers of all corrections of a user: n H p."""
        return self.n_agents * self.horizon * self.reward_dimension


@dataclass(frozen=True)
class StatisticsParts:
    """What a trust model decides.

    Args:
        layout: what is sent. mechanism: the noise of the Gram matrices, and whether the device clips.
        rewards: what becomes of the corrections. reward_clip: G; with noise each of them is clipped to this norm.
        reward_noise: for 'noisy', that of all corrections of a user as one vector; of diameter 2 G sqrt(n H) in the L2
            norm, or 2 G n H in the L1 norm.
        noise_ratio: the scale that runs over the one that [TH23] prints for the same request; 0 without noise.
    """

    layout: StatisticsLayout
    mechanism: GramMechanism | RawGram
    rewards: Rewards
    reward_noise: ClippedGaussian | ClippedLaplace | None = None
    reward_clip: float = 1.0
    noise_ratio: float = 0.0

    def releases(self, entropy: str) -> tuple[Release, ...]:
        """Return the releases of one user's message, described by the objects that make the noise."""
        mechanism, cells = self.mechanism, self.mechanism.release.n_numbers
        if isinstance(mechanism, RawGram):
            found = [Release("statistics", None, None, None, True, 1, cells, entropy)]
        else:
            found = [Release.of_message("statistics", mechanism, mechanism.curve().exact, cells, entropy)]
        name, numbers = "reward corrections", self.layout.n_corrections
        if self.rewards == "open":
            # D6
            found.append(Release(name, None, None, None, True, 1, numbers, entropy))
        elif self.reward_noise is not None:
            found.append(Release.of_message(name, self.reward_noise, False, numbers, entropy))
        return tuple(found)


class StatisticsPrivatizer(SubmittingUsers):
    """Turns users' features and values into noisy statistics that a server may use, and accounts for them.

    *Formal guarantee.* That of its `parts`, for all that one user sends, which is one message: see the mechanisms'
    classes. What certificate() says is computed from these objects.

    Args:
        request: what was asked for and what is claimed; only the certificate compares with it.
        trust_model: for ledger and certificate; must be what the noise makes it.
        parts: what is sent, with which noise. n_users: K. streams: named random streams.

    Raises:
        LedgerError: if the noise is not where the trust model needs it.
        ValueError: for less than one user, and for more than a stream of noise lasts for.
    """

    def __init__(
        self,
        request: PrivacyRequest,
        trust_model: TrustModel,
        parts: StatisticsParts,
        n_users: int,
        streams: Streams,
    ) -> None:
        raw = isinstance(parts.mechanism, RawGram)
        if trust_model not in ("none", "ldp") or raw != (trust_model == "none"):
            raise LedgerError(f"{trust_model} needs its noise on the user's side; this has {parts.mechanism}")
        if (parts.reward_noise is not None) != (parts.rewards == "noisy") or (raw and parts.rewards == "noisy"):
            raise LedgerError(f"rewards are noisy where there is noise for them and for the rest; this has {parts}")
        _check_fits(parts)
        terms = Terms(
            trust_model,
            parts.releases(ENTROPY[streams.noise.entropy]),
            of_statistics(trust_model, parts.rewards, parts.mechanism.release.clipped),
            n_users,
        )
        numbers = max(parts.mechanism.release.n_numbers, parts.layout.n_corrections)
        if n_users >= _MOST_DRAWS // numbers:
            raise ValueError(f"n_users must be below 2^53 / {numbers}, got {n_users}; a key lasts no longer")
        self.parts = parts
        sent = noise_identity(parts.layout, parts.mechanism, parts.rewards, parts.reward_noise, parts.reward_clip)
        keys = streams.key("user_noise", f"statistics|{sent}"), streams.key("user_noise", f"reward corrections|{sent}")
        self._channel = open_channel(parts, *keys)
        super().__init__(request, terms, streams)

    @property
    def layout(self) -> StatisticsLayout:
        """What is sent."""
        return self.parts.layout

    @property
    def clipped(self) -> bool:
        """Whether the device clips features and values."""
        return self.parts.mechanism.release.clipped

    @property
    def bounds(self) -> Float64Array:
        """m_h, which the device clips features and values to, float64[H]; infinite where it does not clip."""
        release = self.parts.mechanism.release
        return np.array(release.bounds) if release.clipped else np.full(len(release.bounds), np.inf)

    @property
    def rewards(self) -> Rewards:
        """What becomes of the rewards' corrections."""
        return self.parts.rewards

    @property
    def deviations(self) -> Float64Array:
        """Standard deviation float64[H] of the noise of a number on the diagonal; 0 without, and where none is sent."""
        sent = np.array(self.parts.mechanism.release.bounds) > 0.0
        return np.where(sent, self.parts.mechanism.deviations, 0.0)

    @property
    def noise_ratio(self) -> float:
        """The scale that runs over the one that [TH23] prints, the mean over stages; 1 for printed, 0 without noise."""
        return self.parts.noise_ratio

    @property
    def mechanism_name(self) -> str:
        """The mechanism of the Gram matrices; 'raw' without noise."""
        return self.parts.mechanism.name

    @property
    def channel(self) -> StatisticsChannel:
        """What compiled loops hand to `send_statistics` and `add_statistics`."""
        return self._channel

    @property
    def _turns(self) -> Int64Array:
        return self._channel.turns

    def _running(self) -> str:
        return digest_of(self._channel)

    def _charged_for(self) -> str:
        keys = self._channel.noise.whole.key, self._channel.rewards.noise.noise.key
        charged = self.parts.releases(ENTROPY[self._streams.noise.entropy])
        return digest_of(open_channel(self.parts, *keys)) if charged == self._ledger.releases else ""


def open_channel(parts: StatisticsParts, key: np.ndarray, reward_key: np.ndarray) -> StatisticsChannel:
    """Return a channel before anybody has sent anything; keys uint64[5] of the noise of either part."""
    layout, release = parts.layout, parts.mechanism.release
    vector = parts.reward_noise or RawVector(layout.n_corrections, "none", 1.0)
    sent = 0 if parts.rewards == "public" else layout.n_corrections
    norm = "none" if parts.reward_noise is None else parts.reward_noise.norm
    rewards = RewardNoise(
        REWARDS[parts.rewards],
        float(parts.reward_clip),
        NORMS[norm],
        vector.vector_noise(reward_key),
        np.zeros((layout.n_agents * layout.horizon, layout.reward_dimension)),
    )
    return StatisticsChannel(
        n_messages=layout.n_messages,
        length=release.message_length,
        bounds=np.array(release.bounds),
        clips=release.clipped,
        noise=_stage_noise(parts.mechanism, key),
        rewards=rewards,
        feature=np.zeros(layout.dimension),
        message=np.zeros(release.n_numbers + sent),
        turns=np.zeros(4, dtype=np.int64),
    )


def _stage_noise(mechanism: GramMechanism | RawGram, key: np.ndarray) -> StageNoise:
    """Return how the kernels draw: everything at once if all stages have one law up to scale, else stage by stage."""
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


def _check_fits(parts: StatisticsParts) -> None:
    """Raise LedgerError unless the mechanisms are of what is sent, and known."""
    layout, mechanism, vector = parts.layout, parts.mechanism, parts.reward_noise
    if mechanism.release != layout.release(mechanism.release.clipped):
        raise LedgerError(f"the mechanism's release must be the layout's, got {mechanism.release} for {layout}")
    if type(mechanism) not in (RawGram, *GRAMS.values()):
        raise LedgerError(f"the kernels cannot run a mechanism of type {type(mechanism).__name__}; add its release")
    if vector is not None:
        rows = layout.n_agents * layout.horizon
        # What each correction, clipped by itself, makes of all of them together.
        radius = parts.reward_clip * (rows**0.5 if vector.norm == "l2" else rows)
        if vector.dimension != layout.n_corrections or vector.clip < 2.0 * radius * (1.0 - 1e-12):
            raise LedgerError(f"the rewards' noise must be for all corrections together, got {vector} for {layout}")
