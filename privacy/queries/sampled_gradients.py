"""Gradients of a fixed population, from which a trusted server draws the users of every round at random and secretly.

The server draws the users of the next round with `draw_users`, collects their gradients, and releases the noisy sum
with `release_round`. Nobody else learns their names or their number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from dprl.compiled import no_alloc_kernel
from dprl.privacy.base import Float64Array, Int64Array, LedgerError, TrustModel
from dprl.privacy.mechanisms.vectors import ClippedGaussian, SampledGaussian, VectorNoise
from dprl.privacy.noise_design import Release
from dprl.privacy.queries.base import CHARGED, MOST_DRAWS, new_cursor
from dprl.privacy.queries.gradients import GradientQuery, release_sum
from dprl.privacy.randomness.bits import fill_uniform
from dprl.privacy.randomness.streams import Streams
from dprl.privacy.threat_models import ThreatModel, of_sampled_gradients

MOST_USERS = 10_000_000
_UNIFORMS = 2.0**53
ROUNDS, JOINED = range(2)
"""Entries of the progress int64[2]: released rounds, and users who joined the current round, -1 before the draw."""


class SampledChannel(NamedTuple):
    """The server's side of sampled rounds.

    cursor int64[5]; noise: of one sum; coins uint64[5]: the key of the draws; limits: population, rounds, and the
    probability of a coin; progress int64[2]: see above; total, message float64[d]: workspace.
    """

    cursor: Int64Array
    noise: VectorNoise
    coins: npt.NDArray[np.uint64]
    limits: tuple[int, int, float]
    progress: Int64Array
    total: Float64Array
    message: Float64Array

    def __repr__(self) -> str:
        # The number of users of a round is secret, and the workspace holds their gradients.
        return f"SampledChannel({self.noise.dimension} numbers, {self.progress[ROUNDS]} rounds)"


def draw_users(channel: SampledChannel) -> Int64Array:
    """Server side: return the users (1-based, int64[m]) who join the next round; for the trusted server only.

    Each user joins by a separate coin, a fresh one in every round. A round's draw can be repeated before its release.
    Raises LedgerError unless the whole population is charged, or after the last round.
    """
    population, rounds, chance = channel.limits
    begun = int(channel.progress[ROUNDS])
    if channel.cursor[CHARGED] != population:
        raise LedgerError("the whole population is charged before the first draw: each of them may join a round")
    if begun >= rounds:
        raise LedgerError(f"at most {rounds} rounds are charged, and all of them are released; build for more")
    coins = np.empty(population)
    fill_uniform(coins, channel.coins, np.uint64(begun) * np.uint64(population))
    joined = np.flatnonzero(coins < chance) + 1
    channel.progress[JOINED] = joined.size
    return joined.astype(np.int64)


@no_alloc_kernel
def release_round(channel: SampledChannel, gradients: Float64Array, out: Float64Array) -> None:
    """Server side: write the noisy sum of the clipped gradients float64[m, d] of the users drawn into `out` float64[d].

    Raises LedgerError unless there is one gradient for each user drawn for this round.

    *Formal guarantee.* That of `SampledGaussian` for all rounds: rounds have different numbers of noise and draws.
    """
    progress = channel.progress
    if progress[JOINED] != gradients.shape[0]:
        raise LedgerError("a round is released once, with the gradients of the users who were drawn for it")
    progress[JOINED] = -1
    progress[ROUNDS] += 1
    release_sum(channel.total, channel.message, channel.noise, gradients, progress[ROUNDS], out)


@dataclass(frozen=True)
class SampledGradientQuery(GradientQuery):
    """Gradients of a fixed population, sampled in rounds; `window` is the expected number of users of a round.

    *Formal guarantee.* That of `SampledGaussian`, under addition or removal of one user. Sums are divided by the
    expected number of users, because the number who joined is secret.

    population: number of users, each charged once for all rounds. rounds: maximum number of rounds.
    Raises LedgerError for another law than clipped_gaussian, or numbers out of range.
    """

    population: int = 0
    rounds: int = 0
    sampled: ClassVar[bool] = True
    adds_up_messages: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.law, ClippedGaussian):
            raise LedgerError(f"sampled rounds are proved for clipped_gaussian of a server, got {self.law.name}")
        if not (1 <= self.window <= self.population <= MOST_USERS and self.rounds >= 1):
            rule = f"window must be at least 1, population at least that and at most {MOST_USERS}, rounds at least 1"
            raise LedgerError(f"{rule}, got {self.window}, {self.population} and {self.rounds}")
        if self.rounds * max(self.population, self.law.dimension) >= MOST_DRAWS:
            raise LedgerError(f"rounds must draw less than {MOST_DRAWS} numbers, got {self.rounds}; take fewer")

    @property
    def mechanism(self) -> SampledGaussian:
        """The mechanism of all rounds together."""
        return SampledGaussian(self.law, self.window / self.population, self.rounds)  # type: ignore[arg-type]

    @property
    def identity(self) -> str:
        return f"{super().identity}|sampled from {self.population}, {self.rounds} rounds"

    def check_run(self, n_users: int, submissions: int) -> None:
        if (n_users, submissions) != (self.population, 1):
            rule = f"n_users and submissions must be {self.population} and 1 with sampled rounds"
            raise LedgerError(f"{rule}, got {n_users} and {submissions}; one charge is for all rounds")

    def check_continued(self, charged: int) -> None:
        """Raise LedgerError after a charge, because the journal does not record the number of released rounds."""
        if charged > 0:
            wrong = f"sampled rounds cannot go on from a journal, got {charged} users charged there"
            raise LedgerError(f"{wrong}, as nobody knows how many rounds were released; begin another attempt")

    def events(self, entropy: str) -> tuple[Release, ...]:
        return (Release("gradient", self.mechanism, None, False, self.law.message_length, entropy),)

    @property
    def assumption(self) -> str:  # type: ignore[override]
        """The sampling, in words for the certificate."""
        return (
            f"the server draws users secretly: each of {self.population:,} joins each of {self.rounds:,} rounds with "
            f"probability {self.window / self.population:.6g}"
        )

    def threat_model(self, model: TrustModel, submissions: int) -> ThreatModel:
        return of_sampled_gradients(super().threat_model(model, submissions))

    def open(self, streams: Streams) -> SampledChannel:  # type: ignore[override]
        noise = self.law.vector_noise(streams.key("user_noise", self.identity))
        # Coins are uniform on multiples of 2^-53: rounded down, their probability is at most the rate of the proof.
        chance = math.floor(self.window / self.population * _UNIFORMS) / _UNIFORMS
        limits, size = (self.population, self.rounds, chance), self.dimension
        coins = streams.key("server_noise", f"draws|{self.identity}")
        progress = np.array([0, -1], dtype=np.int64)
        return SampledChannel(new_cursor(), noise, coins, limits, progress, np.zeros(size), np.zeros(size))

    def changing(self, channel: Any) -> dict[str, np.ndarray]:  # noqa: ANN401 - its own channel
        """Return the number of released rounds; the draw of the current round is repeated."""
        return {"rounds": channel.progress[:JOINED]}

    @property
    def client_side(self) -> GradientQuery:  # type: ignore[override]
        """The query that clips gradients for the server; clients of the server alone know who plays."""
        return GradientQuery(self.law, self.release_scores, self.left_open, self.window)
