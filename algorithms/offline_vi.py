"""offline_vi: pessimistic value iteration on one private release of logged episodes.

Users 1..K-1 are logged under a fixed behaviour policy. The output is a policy with a lower bound on its value. The
bounds mirror those of bernstein_vi, for values that depend on the data; docs/proofs/offline_vi.md derives every line.

logged_vi is the same on a file, for environments without a simulator: docs/offline_vi.md, 'Your own logged episodes'.
"""

# Our pseudo-code, each line -> the function that does it, of this file if no other is named.
#  1  bounds of the noise and of sampling              -> limits_of
#  2  for users k = 1, ..., K-1                        -> algorithms/tabular/loop.py::learning_loop,
#                                                         algorithms/tabular/loop.py::run_in_blocks
#  3    roll out the behaviour policy                  -> algorithms/tabular/simulator.py::play_stochastic
#       or, in logged_vi, take row k of the file       -> play_logged
#  4  receive N~, R~, once                             -> privacy/queries/counts.py::send_and_aggregate
#  5  V~_{H+1} = V^cert_{H+1} = 0; for h = H, ..., 1   -> plain_plan; plan is the same, compiled
#  6    Q~ = lower bound of r + P V~, constants scaled -> plain_lower_values; lower_value in kernels
#  7    pi(s) = argmax_a Q~(s, a), V~(s) = its value   -> plain_plan, plan
#  8    V^cert(s) = proved lower bound at pi(s)        -> plain_lower_values; lower_value in kernels
#  9  user K plays pi; return pi and V^cert_1          -> _PessimisticVIConfig.measure

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dprl.algorithms.base import REGRET, SATURATED, Float64Array, Int64Array, Metric
from dprl.algorithms.tabular import Preset, Released, StationaryMDPConfig, learning_loop
from dprl.algorithms.tabular.simulator import (
    N_FAMILIES,
    EpisodeBuffer,
    episode_buffer,
    play_stochastic,
    stochastic_policy_value,
    stochastic_regret,
)
from dprl.compiled import kernel, no_alloc_kernel, shows_numbers
from dprl.envs import Env, FiniteMDP, LoggedEpisodes
from dprl.envs.checks import require_number
from dprl.privacy import CountFamilies, CountPrivacy, CountPrivatizer, Streams

_MOST_SUBSETS = 2**20  # With more next states, bounds for single cells replace bounds for all their subsets.
_MOST_USERS = 10**11

UNINFORMED = replace(
    SATURATED,
    over="last",
    of="output",
    definition="the share of (h, s, a) with no lower bound from the counts, about which the policy knows nothing",
)
VALUE = Metric(
    "value", "last", "reward", "output", "value", "the output policy's exact value", better="high", covered=True
)
LOWER_BOUND = replace(
    VALUE, name="lower_bound", short="bound", definition="the proved lower bound on the output policy's value"
)
OPTIMUM_GAP = Metric(
    "optimum_gap", "last", "reward", "output", "gap", "the optimal value less the output policy's", covered=True
)


class _Limits(NamedTuple):
    """The numbers of the bounds.

    e: error bound of weighted sums of transitions, for all weights in [0, 1] at once; e_rewards: of a count of rewards;
    divergence: u, the bound on N KL(empirical, true next states); iota: the same for rewards; scale: of the penalty.
    """

    e: float
    e_rewards: float
    divergence: float
    iota: float
    scale: float


class _Bonus(NamedTuple):
    """Bounds for planning, with bonus_scale and precision_scale multiplied in, and for the certificate, without."""

    planning: _Limits
    proved: _Limits


class _Tables(NamedTuple):
    """Arrays of planning.

    policy float64[H, S, A]: the behaviour policy until the release, then the output; optimistic float64[S]: certified
    lower bounds of the values of the first step; values float64[S]: lower bounds with scaled constants, used to choose
    actions; older float64[2, S]: `values` and `optimistic` of the next step.
    """

    policy: Float64Array
    optimistic: Float64Array
    values: Float64Array
    older: Float64Array

    @classmethod
    def zeros(cls, policy: Float64Array) -> _Tables:
        """Return tables before any planning: a behaviour policy float64[H, S, A], and values of zero."""
        n_states = policy.shape[1]
        return cls(policy, np.zeros(n_states), np.zeros(n_states), np.zeros((2, n_states)))


def plain_lower_values(step: Float64Array, values: Float64Array, cap: float, limits: _Limits) -> Float64Array:
    """Return lower bounds on r(s,a) + sum_s' P(s'|s,a) values(s') in [0, cap], float64[S*A]: docs/proofs/offline_vi.md.

    step float64[S+2, S*A]: transitions, visits, rewards; values float64[S]: of the next step, at least 0.
    """
    counts, rewards, low, high = step[:-2], step[-1], values.min(), values.max()
    total, span = counts.sum(axis=0), high - low
    known, most = total - limits.e, total + limits.e
    n, least = np.where(known > 0.0, (total, known), 1.0)
    mean, share = np.clip(values @ counts / n, low, high), np.clip(rewards / n, 0.0, 1.0)
    squares = np.maximum((counts * (values[:, None] - mean) ** 2).sum(axis=0), 0.0)
    squares = np.minimum(squares + np.maximum(mean - low, high - mean) ** 2 * limits.e, 0.25 * most * span**2)
    spread = np.minimum(rewards, total - rewards + limits.e) + limits.e_rewards
    spread = np.clip(spread, 0.0, np.maximum(0.25 * most, 0.0))
    of_values = span * (limits.e + limits.divergence) + np.sqrt(2.0 * limits.divergence * np.maximum(squares, 0.0))
    of_rewards = limits.e_rewards + share * limits.e + limits.iota + np.sqrt(2.0 * limits.iota * spread)
    after = np.maximum(low, mean - limits.scale * of_values / least)
    found = after + np.maximum(0.0, share - limits.scale * of_rewards / least)
    return np.asarray(np.minimum(np.where(known > 0.0, found, low), cap))


def plain_plan(
    counts: Released, planning: _Limits, proved: _Limits, shape: tuple[int, int, int]
) -> tuple[Int64Array, Float64Array]:
    """Return the policy int64[H, S] of the pessimistic values, and its certified first values float64[S]."""
    horizon, n_states, _ = shape
    steps, policy = counts.values.reshape(-1, n_states + 2, shape[1] * shape[2]), np.zeros(shape[:2], dtype=np.int64)
    values, certified = np.zeros(n_states), np.zeros(n_states)
    for h in reversed(range(horizon)):
        step = steps[h if len(steps) == horizon else 0]
        q = plain_lower_values(step, values, float(horizon - h), planning).reshape(shape[1:])
        sure = plain_lower_values(step, certified, float(horizon - h), proved).reshape(shape[1:])
        policy[h], values = q.argmax(axis=1), q.max(axis=1)
        certified = sure[np.arange(n_states), policy[h]]
    return policy, certified


@no_alloc_kernel
def lower_value(step: Float64Array, pair: int, values: Float64Array, cap: float, limits: _Limits) -> tuple[float, bool]:
    """Return the bound of `plain_lower_values` for one pair (s, a), and whether the counts improve it."""
    n_states = values.shape[0]
    low, high, total, first = values[0], values[0], 0.0, 0.0
    for t in range(n_states):
        low, high = min(low, values[t]), max(high, values[t])
        total += step[t, pair]
        first += step[t, pair] * values[t]
    known, most, third = total - limits.e, total + limits.e, step[n_states + 1, pair]
    if known <= 0.0:
        return min(low, cap), False
    mean, squares, span = min(max(first / total, low), high), 0.0, high - low
    for t in range(n_states):
        squares += step[t, pair] * (values[t] - mean) ** 2
    squares = min(max(squares, 0.0) + max(mean - low, high - mean) ** 2 * limits.e, 0.25 * most * span * span)
    penalty = span * (limits.e + limits.divergence) + math.sqrt(2.0 * limits.divergence * squares)
    after = max(low, mean - limits.scale * penalty / known)
    share = min(max(third / total, 0.0), 1.0)
    spread = min(third, total - third + limits.e) + limits.e_rewards
    spread = min(max(spread, 0.0), 0.25 * most)
    penalty = limits.e_rewards + share * limits.e + limits.iota + math.sqrt(2.0 * limits.iota * spread)
    reward = max(0.0, share - limits.scale * penalty / known)
    return min(reward + after, cap), reward + after > low


@kernel
def plan(counts: Released, bonus: _Bonus, tables: _Tables) -> tuple[bool, float]:
    """Plan as `plain_plan` does; return (did the policy change, share of bounds that the counts do not raise).

    Before the release it keeps the behaviour policy and returns a share of 0.
    """
    policy, proved, planned, older = tables
    horizon, n_states, n_actions = policy.shape
    proved[:], planned[:] = 0.0, 0.0
    if counts.users == 0:
        return False, 0.0
    values = counts.values.reshape((-1, n_states + 2, n_states * n_actions))
    changed, unknown = False, 0
    for h in range(horizon - 1, -1, -1):
        older[0], older[1] = planned, proved
        cap = float(horizon - h)
        step = values[h if values.shape[0] == horizon else 0]
        for s in range(n_states):
            best, action = -1.0, 0
            for a in range(n_actions):
                bound, told = lower_value(step, s * n_actions + a, older[0], cap, bonus.planning)
                unknown += not told
                if bound > best:
                    best, action = bound, a
            planned[s] = best
            proved[s], _ = lower_value(step, s * n_actions + action, older[1], cap, bonus.proved)
            changed |= policy[h, s, action] != 1.0
            policy[h, s] = 0.0
            policy[h, s, action] = 1.0
    return changed, unknown / (horizon * n_states * n_actions)


run = learning_loop(plan, play_stochastic, stochastic_regret)


@dataclass(frozen=True)
class _PessimisticVIConfig(StationaryMDPConfig):
    """Settings of pessimistic value iteration on one private release of users 1..K-1, with a certified value (ours)."""

    preset: Preset = "tuned"
    online: ClassVar[bool] = False
    tuned: ClassVar[tuple[float, float] | None] = (0.3, 0.3)
    weighs_counts: ClassVar[bool] = True
    theorem: ClassVar[str | None] = "docs/offline_vi.md, Theorem 1 (lower bound)"
    plan = staticmethod(plan)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.replan_growth != 0.0:
            rule = f"replan_growth must be 0 with {self.name}"
            raise ValueError(f"{rule}, got {self.replan_growth}; it plans once, from one release")

    @property
    def covered_by(self) -> str | None:
        return self.theorem

    def families(self, env: FiniteMDP) -> CountFamilies:
        """Return transitions, visits, and rewards or losses, with one error bound for all cells of a family."""
        return replace(super().families(env), by_bound=True)

    def bonus(self, env: FiniteMDP, privatizer: CountPrivatizer, episodes: int) -> _Bonus:  # noqa: ARG002
        proved = limits_of(env, privatizer, self.beta)
        scaled = self.precision_scale * proved.e, self.precision_scale * proved.e_rewards
        planning = proved._replace(e=scaled[0], e_rewards=scaled[1], scale=self.bonus_scale)
        return _Bonus(planning, proved)

    def measure(self, simulator: Any, tables: Any) -> dict[str, float]:  # noqa: ANN401 - as in the base class
        return {LOWER_BOUND.name: float(simulator.start @ tables.optimistic)}


@dataclass(frozen=True)
class OfflineVIConfig(_PessimisticVIConfig):
    """Pessimistic value iteration on one private release of logged episodes, with a certified value (ours).

    Users 1..K-1 are logged under the behaviour policy, and episode K plays the output policy. The certified lower bound
    holds at any scale; the scales affect the choice of the policy only.

    Args:
        exploration: probability of a uniformly random action of the behaviour policy, in [0, 1]; else it takes an
            optimal one, like an expert. The algorithm does not read it.
    """

    exploration: float = 1.0
    name: ClassVar[str] = "offline_vi"
    metrics: ClassVar[tuple[Metric, ...]] = (REGRET, UNINFORMED, LOWER_BOUND, VALUE, OPTIMUM_GAP)
    run = staticmethod(run)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_number("exploration", self.exploration, 0.0, 1.0)

    def tables(self, env: FiniteMDP, episodes: int) -> _Tables:  # noqa: ARG002
        expert = np.eye(env.n_actions)[env.optimum()[1]]
        return _Tables.zeros((1.0 - self.exploration) * expert + self.exploration / env.n_actions)

    def measure(self, simulator: Any, tables: Any) -> dict[str, float]:  # noqa: ANN401 - as in the base class
        value = float(stochastic_policy_value(simulator, tables.policy))
        return super().measure(simulator, tables) | {
            VALUE.name: value,
            OPTIMUM_GAP.name: max(0.0, simulator.optimal_value - value),
        }


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


run_logged = learning_loop(plan, play_logged, unknown_regret)


@dataclass(frozen=True)
class LoggedVIConfig(_PessimisticVIConfig):
    """Pessimistic value iteration on one private release of the episodes of a file, with a certified value (ours).

    Users 1..K-1 are the rows of the file. No episode is simulated, and neither regret nor value is reported.
    """

    name: ClassVar[str] = "logged_vi"
    plays: ClassVar[type[Env]] = LoggedEpisodes
    metrics: ClassVar[tuple[Metric, ...]] = (UNINFORMED, LOWER_BOUND)
    run = staticmethod(run_logged)

    def privatizer(self, env: Any, privacy: CountPrivacy, episodes: int, streams: Streams) -> CountPrivatizer:  # noqa: ANN401
        """Return the privatizer of the counts of the file's users; raise ValueError if `episodes` does not fit.

        Noise from a seed is refused: on another file it would be the same, and the difference would reveal records.
        """
        if episodes != env.n_users + 1:
            rule = f"episodes must be {env.n_users + 1}, the file's {env.n_users} users and one"
            raise ValueError(f"{rule}, got {episodes}; set it")
        if privacy.model != "none" and streams.noise.entropy == "seed":
            wrong = f"entropy must be os with {self.name}, got seed; another file would get the same noise"
            raise ValueError(f"{wrong}: write noise: {{arithmetic: exact, entropy: os}}")
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

    def tables(self, env: Any, episodes: int) -> _Tables:  # noqa: ANN401, ARG002
        shape = env.horizon, env.n_states, env.n_actions
        return _Tables.zeros(np.full(shape, 1.0 / env.n_actions))


def limits_of(env: FiniteMDP, privatizer: CountPrivatizer, beta: float) -> _Limits:
    """Return the numbers of the bounds, which hold with probability 1 - beta for all releases of a run.

    Half of beta is for the noise, half for the users' episodes.
    """
    n_next, query, users = env.n_states, privatizer.query, privatizer.capacity
    layers = query.families.layers
    pairs, visits = layers * env.n_states * env.n_actions, env.horizon // layers * users
    iota = math.log(4.0 * pairs * visits / beta)

    def bound(family: str, cells: int, number: int) -> float:
        return query.weighted_precision(family, cells, number, users, beta / 4.0)

    e = n_next * bound("transitions", 1, n_next * pairs)
    if 2**n_next <= _MOST_SUBSETS:
        e = min(e, bound("transitions", n_next, 2**n_next * pairs))
    return _Limits(e, bound(query.families.families[2].name, 1, pairs), divergence_bound(n_next, iota), iota, 1.0)


def divergence_bound(n_states: int, iota: float) -> float:
    """Return u with P(N KL(empirical law of N draws, their law) >= u) <= e^-iota, for laws on this many states.

    Paper: Agrawal 2020 (the moment generating function is at most that of a gamma law).
    """
    others = n_states - 1
    if others == 0:
        return 0.0
    u = 2.0 * iota + 4.0 * others  # above the root of u - others ln(e u / others) = iota, and falls to it
    for _ in range(100):
        u = iota + others * (1.0 + math.log(u / others))
    return u
