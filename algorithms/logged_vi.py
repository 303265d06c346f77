"""logged_vi: offline_vi on a file of logged episodes, for environments without a simulator.

docs/offline_vi.md, 'Your own logged episodes', has the format of the file and an example.
"""

# Our pseudo-code, each line -> the function that does it, of this file if no other is named.
#  1  bounds of the noise and of sampling            -> algorithms/offline_vi.py::limits_of
#  2  for users k = 1, ..., N = K-1                  -> algorithms/tabular/loop.py::learning_loop
#  3    count the episode in row k of the file       -> play_logged
#  4  receive N~, R~, once                           -> privacy/queries/count_kernels.py::send_and_aggregate
#  5  pi and its lower bounds V^cert, from N~ and R~ -> algorithms/offline_vi.py::plan, its lines 5 to 8
#  6  return pi and V^cert_1                         -> algorithms/offline_vi.py::PessimisticVIConfig.measure

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dprl.algorithms.base import Float64Array, Int64Array, Metric
from dprl.algorithms.offline_vi import (
    LOWER_BOUND,
    UNINFORMED,
    OfflineTables,
    PessimisticVIConfig,
    limits_of,
    lower_value,
    plan,
)
from dprl.algorithms.tabular import learning_loop
from dprl.algorithms.tabular.simulator import N_FAMILIES, EpisodeBuffer, episode_buffer
from dprl.compiled import no_alloc_kernel, shows_numbers
from dprl.envs import Env, LoggedEpisodes
from dprl.privacy import CountPrivacy, CountPrivatizer, Streams

_MOST_USERS = 10**11


@shows_numbers
class _LoggedUsers(NamedTuple):
    """Users of a file for compiled loops; only `play_logged` may read their rows.

    states int64[N, H+1], next_states and actions int64[N, H], rewards float64[N, H]: user k's episode is row k - 1;
    shape: S, A; start float64[S]: distribution of the first state; episodes: K = N + 1; device: a user's.
    """

    states: Int64Array
    next_states: Int64Array
    actions: Int64Array
    rewards: Float64Array
    shape: tuple[int, int]
    start: Float64Array
    episodes: int
    device: EpisodeBuffer

    def identity(self) -> tuple[np.ndarray, ...]:
        """Return arrays that differ for other sizes; a digest of the records would be published without noise."""
        return np.array([*self.shape, self.actions.shape[1], self.episodes]), self.start


@no_alloc_kernel
def play_logged(users: _LoggedUsers, policy: Float64Array, user: int) -> None:  # noqa: ARG001 - the loop's signature
    """User side: write the record of the logged episode of `user` to users.device. User K has no episode.

    For each step one cell of the transitions [S', S, A], of the visits and of the rewards [S, A].
    """
    if user < users.episodes:
        device, row, (n_states, n_actions) = users.device, user - 1, users.shape
        for h in range(users.rewards.shape[1]):
            pair = users.states[row, h] * n_actions + users.actions[row, h]
            device.cells[h, 0] = users.next_states[row, h] * (n_states * n_actions) + pair
            device.cells[h, 1] = device.cells[h, 2] = pair
            device.amounts[h, 0] = device.amounts[h, 1] = 1.0
            device.amounts[h, 2] = users.rewards[row, h]


@no_alloc_kernel
def unknown_regret(users: _LoggedUsers, policy: Float64Array) -> float:  # noqa: ARG001 - the loop's signature
    """Return 0 for the loop; no regret is reported, because the environment is unknown."""
    return 0.0


run = learning_loop(plan, play_logged, unknown_regret)


@dataclass(frozen=True)
class LoggedVIConfig(PessimisticVIConfig):
    """Pessimistic value iteration on one private release of the episodes of a file, with a certified value (ours).

    Users 1..K-1 are the rows of the file. No episode is simulated, and neither regret nor value is reported.
    """

    name: ClassVar[str] = "logged_vi"
    plays: ClassVar[type[Env]] = LoggedEpisodes
    metrics: ClassVar[tuple[Metric, ...]] = (UNINFORMED, LOWER_BOUND)
    run = staticmethod(run)

    def privatizer(self, env: Any, privacy: CountPrivacy, episodes: int, streams: Streams) -> CountPrivatizer:  # noqa: ANN401
        """Return the privatizer of the counts of the file's users; raise ValueError if `episodes` does not fit.

        Noise from a seed is refused: a run on another file would draw the same noise, and the difference between the
        two releases would reveal records.
        """
        if episodes != env.n_users + 1:
            raise ValueError(
                f"episodes must be {env.n_users + 1}, the file's {env.n_users} users and one, got {episodes}; set it"
            )
        if privacy.model != "none" and streams.noise.entropy == "seed":
            raise ValueError(
                f"entropy must be os with {self.name}, got seed; another file would get the same noise: "
                "write noise: {arithmetic: exact, entropy: os}"
            )
        return super().privatizer(env, privacy, episodes, streams)

    def expected(self, env: Any, privacy: CountPrivacy, streams: Streams) -> str:  # noqa: ANN401
        """Return a line if the file has too few users to prove anything, '' otherwise; from public sizes only.

        The yardstick is a log with a reward of 1 in every step and with visits spread evenly over states and actions.
        """
        bound, pairs = getattr(lower_value, "py_func", lower_value), env.n_states * env.n_actions
        visits_of_one = (env.horizon if self.stationary else 1) / pairs

        def proves(users: int) -> bool:
            privatizer = super(LoggedVIConfig, self).privatizer(env, privacy, users + 1, streams)
            counts = np.zeros((env.n_states + 2, 1))
            counts[0] = counts[-2:] = users * visits_of_one
            values = np.zeros(env.n_states)
            return bool(bound(counts, 0, values, 1.0, limits_of(env, privatizer, self.beta))[0] > 0.0)

        if proves(env.n_users):
            return ""
        larger = "" if privacy.model == "none" else "a larger epsilon, "
        few, enough = env.n_users, 2 * env.n_users
        while not proves(enough):
            few, enough = enough, 2 * enough
            if enough > _MOST_USERS:
                return f"a release of {env.n_users:,} users proves nothing; take {larger}fewer states"
        while enough > 1.05 * few:
            middle = round((few * enough) ** 0.5)
            few, enough = (few, middle) if proves(middle) else (middle, enough)
        needed = float(f"{enough:.1e}")
        return (
            f"a release of {env.n_users:,} users proves nothing (lower bound 0) if visits spread evenly "
            f"over states and actions: about {needed:,.0f} users are needed; take {larger}fewer states or, if "
            "the environment is the same at every step, stationary: true"
        )

    def simulator(self, env: Any, episodes: int, streams: Streams) -> Any:  # noqa: ANN401, ARG002
        """Return the users of the file."""
        return _LoggedUsers(
            states=env.states,
            next_states=env.next_states,
            actions=env.actions,
            rewards=env.rewards,
            shape=(env.n_states, env.n_actions),
            start=np.eye(env.n_states)[env.start],
            episodes=episodes,
            device=episode_buffer(env.horizon, N_FAMILIES),
        )

    def tables(self, env: Any, episodes: int) -> OfflineTables:  # noqa: ANN401, ARG002
        """Return a uniform policy, which stays until the release, and values of zero."""
        shape = env.horizon, env.n_states, env.n_actions
        return OfflineTables.zeros(np.full(shape, 1.0 / env.n_actions))
