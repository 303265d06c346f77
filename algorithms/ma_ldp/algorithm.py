"""MA-LDP: its settings and its learner.

Paper: [TH23] Algorithm 1.
"""

# [TH23] Algorithm 1, each line -> the function that does it, of this file or of the named file (in this folder if its
# name has no folder). Lines 7, 12, 13, 19, 27, 28, 31, 40, 41 and 44 end loops.
#  1     epsilon, delta, alpha, eta, w = 0             -> MALDPConfig, estimation.py::RIDGE, rewards.py::first_estimates
#  2     sigma or b                                    -> privacy/designs/linear_statistics.py::StatisticsPrivacy (D8)
#  3     for user k = 1, ..., K                        -> run
#  4-6   for i: receive Sigma, theta^ of the server    -> _plan
#  8, 9  for i = 1, ..., n; for h = H, ..., 1          -> planning.py::make_plan
# 10     Q = min(H+1-h, r- + <theta^, phi_V> + beta |Sigma^(-1/2) phi_V|) -> planning.py::fill_worst, _fill_total
# 11     V = max_{a^i} Q(., a^i, a^-i)                 -> planning.py::_fill_values
# 14-16 receive s_1; for h = 1, ..., H; for i          -> users.py::play
# 17     a^i = argmax_a min_{a^-i} Q(s, a, a^-i)       -> planning.py::_decide, drawn by users.py::_choose
# 18     w~ = w + gamma (r^i - r-) grad r-             -> users.py::play, released, then rewards.py::correct
# 20, 21 a = (a^1, ..., a^n); observe s_{h+1}          -> envs/network_mdp/dynamics.py::next_state
# 22-24 for i: dLambda~ = phi_V phi_V^T, du~ = phi_V V -> users.py::_look, privacy/mechanisms/gram.py::finish_gram
# 25, 26 dLambda = dLambda~ + W, du = du~ + xi         -> privacy/queries/linear_statistics_kernels.py::send_statistics
# 29-32 for i: D_k^i; send D_k to the server           -> privacy/queries/linear_statistics_kernels.py::send_statistics
# 33-37 server: Lambda, u += dLambda, du               -> privacy/queries/linear_statistics_kernels.py::add_statistics
# 38     Sigma = Lambda + eta I                        -> estimation.py::estimate, shift_rates (D24)
# 39     theta^ = Sigma^(-1) u                         -> estimation.py::estimate
# 42     send Sigma, theta^ to user k+1                -> _plan
# 43     w^i = sum_j l(i, j) w~^j                      -> rewards.py::update, consensus

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from dprl.algorithms.base import REGRET, SATURATED, Float64Array, Int64Array, Metric, Releases, check_number
from dprl.algorithms.learner import Learner
from dprl.algorithms.ma_ldp.estimation import EXPONENT, beta_rates, estimate, shift_rates
from dprl.algorithms.ma_ldp.planning import Planning, make_plan, planning
from dprl.algorithms.ma_ldp.rewards import (
    GRAPHS,
    RewardEstimates,
    check_steps,
    collect,
    first_estimates,
    mean_error,
    update,
)
from dprl.algorithms.ma_ldp.users import Users, play, regret, users_of
from dprl.compiled import no_alloc_kernel, shows_numbers
from dprl.envs import Env, LinearMixtureMDP
from dprl.privacy import StatisticsLayout, StatisticsPrivacy, StatisticsPrivatizer, Streams
from dprl.privacy.base import check_choice, check_fields
from dprl.privacy.queries.linear_statistics_kernels import (
    StatisticsChannel,
    add_statistics,
    aggregate_statistics,
    send_statistics,
)
from dprl.privacy.schedule import ReleaseSchedule, next_plan

INDEFINITE = Metric("indefinite", "mean", covered=True)
"""Share of noisy matrices Sigma that were not positive definite with their shift and needed more."""
REWARD_ERROR = Metric(
    name="reward_error",
    over="last",
    unit="reward",
    definition="how wrong agents are about the mean reward, on average over agents and what each stage can reach",
    covered=True,
)
"""Mean of |<psi(s), w> - r(s)|; 0 where rewards are public."""


_LAST, _NEXT, _PLANS = range(3)
_CUT, _INDEFINITE = range(2)


@shows_numbers
class _Server(NamedTuple):
    """Server state, computed from messages only.

    matrices float64[M, H, D, D], vectors float64[M, H, D]: the sums Lambda (upper triangle) and u of all messages.
    theta float64[M, H, D], inverses float64[M, H, D, D]: theta^ and Sigma^-1; factor float64[D, D]: scratch.
    rewards: estimates of the mean reward. growing: whether noise adds up over messages, as in the local model; a
    counter's noise does not. beta_rates float64[H]: beta_{k,h} / k^(1/4), or
    beta_{k,h} if it does not grow; shift_rates float64[H]: see `shift_rates`. betas float64[H]: scratch, beta_{k,h}.
    growth, block: see `next_plan`. plans int64[3]: the episodes of the last and the next plan, and how many were made.
    counted int64[2]: of the last plan, the entries of Q cut at H - h + 1 and the matrices with an extra shift.
    """

    matrices: Float64Array
    vectors: Float64Array
    theta: Float64Array
    inverses: Float64Array
    factor: Float64Array
    rewards: RewardEstimates
    growing: bool
    beta_rates: Float64Array
    shift_rates: Float64Array
    betas: Float64Array
    growth: float
    block: int
    plans: Int64Array
    counted: Int64Array


@no_alloc_kernel
def run(
    users: Users, planning: Planning, channel: StatisticsChannel, server: _Server, first: int, last: int
) -> tuple[float, int, int]:
    """Run episodes first..last (from 1 on, inclusive) of K.

    Returns the total regret, the number of entries of Q cut at H - h + 1, and the number of matrices with an extra
    shift, over all episodes. Between two plans the policy, the values and the estimated rewards are constant, so the
    messages of these users are about the same values. The user of episode K sends nothing, because no later policy
    could use it. Users first..last must be charged.
    """
    rewards = server.rewards
    summed, cut, indefinite, current = 0.0, 0, 0, regret(users, planning)
    for k in range(first, last + 1):
        if k == server.plans[_NEXT] and _plan(planning, server, k):
            current = regret(users, planning)
        summed += current
        cut += server.counted[_CUT]
        indefinite += server.counted[_INDEFINITE]
        # User side, lines 14 to 22.
        play(users, planning, rewards.values, k)
        if k < users.episodes:
            # User side, lines 23 to 32: the only output.
            send_statistics(channel, users.device.features, users.device.targets, users.device.corrections, k)
            # Server side, lines 33 to 37.
            read = k + 1 == server.plans[_NEXT]
            if read:
                add_statistics(channel, server.matrices, server.vectors, rewards.received)
            else:
                aggregate_statistics(channel, server.matrices, server.vectors, rewards.received)
            if rewards.learned == 1:  # lines 18 and 43
                collect(rewards)
                if read:
                    update(rewards, server.plans[_PLANS], k + 1 - server.plans[_LAST])
    return summed, cut, indefinite


@no_alloc_kernel
def _plan(planning: Planning, server: _Server, k: int) -> bool:
    """Plan before episode k from the released sums; return whether the policy changed."""
    plans, theta, inverses, n = server.plans, server.theta, server.inverses, k - 1 if server.growing else 1
    # Lines 6, 38 and 39.
    shifted = estimate(server.matrices, server.vectors, server.shift_rates, n, theta, inverses, server.factor)
    growth = float(k) ** EXPONENT if server.growing else 1.0
    for h in range(server.betas.shape[0]):
        server.betas[h] = server.beta_rates[h] * growth
    # Lines 8 to 13 and 17.
    changed, entries = make_plan(planning, theta, inverses, server.rewards.values, server.betas)
    server.counted[_CUT], server.counted[_INDEFINITE] = entries, shifted
    plans[_LAST], plans[_NEXT], plans[_PLANS] = k, next_plan(server.growth, server.block, k), plans[_PLANS] + 1
    return changed


@dataclass(frozen=True)
class MALDPConfig:
    """MA-LDP, decentralised agents who learn a linear mixture MDP from locally private statistics ([TH23] Algorithm 1).

    Args:
        bonus_scale: c >= 0, multiplies beta; the paper's is 1, and leaves the constants c_g, c_l, c_u and c_bl open.
        shift_scale: multiplies the shift that makes the noisy matrices positive definite; 1 is that of the proofs.
        alpha: failure probability of the confidence bounds, in [1e-20, 1).
        value: reading of V in line 11, which does not define others' actions: 'maxmin' over them, as in line 17, or
            the best 'joint' action, as in the Bellman equation of sec. 2.1.
        share: whether the n agents use one estimate, and send one message instead of n. They then have one value
            function, so this requires value: joint and privacy.rewards: public.
        reward_step, reward_decay: steps gamma_k = step * k^(-decay) for learning rewards, decay in (1/2, 1].
        replan_growth: plan again when the number of episodes has grown by this share, a schedule that is fixed in
            advance; 0 plans before every episode, as printed. Above 0 rewards are learned in one step per plan, along
            the mean of the corrections since the last one.
        graph: communication graph after each stage.

    Paper: [TH23] Algorithm 1.
    """

    bonus_scale: float = 1.0
    shift_scale: float = 1.0
    alpha: float = 0.1
    value: Literal["maxmin", "joint"] = "maxmin"
    share: bool = False
    reward_step: float = 1.0
    reward_decay: float = 0.75
    replan_growth: float = 0.0
    graph: str = "complete"
    name: ClassVar[str] = "ma_ldp"
    plays: ClassVar[type[Env]] = LinearMixtureMDP
    releases: ClassVar[Releases] = "statistics"
    unit: ClassVar[Literal["episode", "submission"]] = "episode"
    covered_by: ClassVar[str | None] = None
    """The assumptions of the theorems on regret do not hold, see docs/ma_ldp.md."""
    metrics: ClassVar[tuple[Metric, ...]] = (REGRET, SATURATED, INDEFINITE, REWARD_ERROR)

    def __post_init__(self) -> None:
        check_fields(self)
        check_number("bonus_scale", self.bonus_scale, 0.0)
        check_number("shift_scale", self.shift_scale, 0.0)
        check_number("alpha", self.alpha, 1e-20, 1.0)
        check_number("replan_growth", self.replan_growth, 0.0, 1e6)
        if self.share and self.value != "joint":
            raise ValueError(
                f"value must be joint with share: true, got {self.value!r}; agents who take the worst of each other "
                "have value functions of their own: write value: joint and privacy.rewards: public"
            )
        check_steps(self.reward_step, self.reward_decay)
        check_choice("graph", self.graph, GRAPHS)

    def layout(self, env: LinearMixtureMDP) -> StatisticsLayout:
        """Return the layout of users' messages."""
        n = env.n_agents
        p = env.reward_features.shape[1]
        return StatisticsLayout(env.horizon, n * env.dimension, 1 if self.share else n, n, p)

    def privatizer(
        self, env: LinearMixtureMDP, privacy: StatisticsPrivacy, episodes: int, streams: Streams
    ) -> StatisticsPrivatizer:
        """Return the privatizer of users 1..K-1; the last user's message could serve no later policy.

        Raises ValueError if the settings do not fit together.
        """
        found = privacy.build(self.layout(env), episodes - 1, streams, growth=self.replan_growth)
        if self.share and found.query.rewards != "public":
            raise ValueError(
                f"share must be false with privacy.rewards: {found.query.rewards}, got True; agents who learn rewards "
                "believe different ones: write privacy.rewards: public"
            )
        return found

    def build(
        self, env: LinearMixtureMDP, privatizer: StatisticsPrivatizer, episodes: int, streams: Streams
    ) -> MALDPLearner:
        """Return a fresh learner."""
        return MALDPLearner(self, env, privatizer, episodes, streams)


class MALDPLearner(Learner):
    """MA-LDP on one linear mixture MDP, for a fixed number of episodes.

    *Formal guarantee.* That of the privatizer: all plans are functions of charged messages.
    """

    config: MALDPConfig
    privatizer: StatisticsPrivatizer

    def __init__(
        self,
        config: MALDPConfig,
        env: LinearMixtureMDP,
        privatizer: StatisticsPrivatizer,
        episodes: int,
        streams: Streams,
    ) -> None:
        if privatizer.query.layout != config.layout(env):
            raise ValueError(
                f"the privatizer must be built for this environment, got one for {privatizer.query.layout}; "
                "use config.privatizer"
            )
        schedule = privatizer.query.schedule
        if schedule is not None and schedule.growth != config.replan_growth:
            raise ValueError(
                f"the privatizer must be built for replan_growth {config.replan_growth}, got one for "
                f"{schedule.growth}; use config.privatizer"
            )
        if config.share and privatizer.query.rewards != "public":
            raise ValueError(f"share needs public rewards, got {privatizer.query.rewards} ones; use config.privatizer")
        super().__init__(config, privatizer, episodes, streams, env.identity())
        n_messages, clipped = privatizer.query.layout.n_messages, privatizer.query.clipped
        self._env = env
        self._users = users_of(env, episodes, streams, n_messages, privatizer.query.bounds)
        floor = 0.0 if clipped else -math.inf
        self._planning = planning(env, floor, config.value == "joint", n_messages)
        self._server = self._new_server()

    def _new_server(self) -> _Server:
        config, query, env, request = self.config, self.privatizer.query, self._env, self.privatizer.design.requested
        n_messages, horizon, dimension = query.layout.n_messages, env.horizon, query.layout.dimension
        budget = None if request is None else (request.epsilon, request.delta)
        printed = beta_rates(query.mechanism, budget, (dimension, horizon, self.episodes), config.alpha)
        # beta grows like the square root of the noise, so noise other than the printed one rescales it.
        noise = math.sqrt(query.noise_ratio) if request is not None else 1.0
        return _Server(
            matrices=np.zeros((n_messages, horizon, dimension, dimension)),
            vectors=np.zeros((n_messages, horizon, dimension)),
            theta=np.zeros((n_messages, horizon, dimension)),
            inverses=np.tile(np.eye(dimension), (n_messages, horizon, 1, 1)),
            factor=np.zeros((dimension, dimension)),
            rewards=first_estimates(
                env,
                learned=query.rewards != "public",
                cut=query.clipped,
                step=config.reward_step,
                decay=config.reward_decay,
                graph=config.graph,
                n_messages=n_messages,
            ),
            growing=not self.privatizer.server_noise,
            beta_rates=config.bonus_scale * noise * printed,
            shift_rates=shift_rates(query.deviations, dimension, config.alpha, config.shift_scale),
            betas=np.zeros(horizon),
            growth=config.replan_growth,
            block=1 if query.schedule is None else query.schedule.block,
            plans=np.array([1, 1, 0], dtype=np.int64),
            counted=np.zeros(2, dtype=np.int64),
        )

    @property
    def beta_rates(self) -> Float64Array:
        """beta_{k,h} / k^(1/4), float64[H]; a copy."""
        return self._server.beta_rates.copy()

    @property
    def shift_rates(self) -> Float64Array:
        """Shift of the diagonal of Sigma per square root of messages, float64[H]; a copy."""
        return self._server.shift_rates.copy()

    @property
    def policy(self) -> Float64Array:
        """The probabilities [H, S, n, A] of the agents' actions, as deployed last; a copy."""
        return self._planning.plan.chances.copy()

    @property
    def derived(self) -> dict[str, float]:
        """The first stage's radius beta and shift in the last plan, and one number's noise in one message."""
        server = self._server
        messages = self.episodes - 1
        if server.growth > 0.0 or server.block > 1:
            messages = int(ReleaseSchedule(server.growth, messages, server.block).times[-1])
        return {
            "last_beta": float(server.beta_rates[0] * ((messages + 1) ** EXPONENT if server.growing else 1.0)),
            "last_shift": float(server.shift_rates[0] * (math.sqrt(messages) if server.growing else 1.0)),
            "noise_deviation": float(self.privatizer.query.deviations[0]),
        }

    def _run(self, first: int, last: int) -> dict[str, float]:
        server = self._server
        regret, cut, indefinite = run(self._users, self._planning, self.privatizer.channel, server, first, last)
        stages = server.vectors.shape[0] * (self._env.horizon - 1)
        entries = stages * self._env.n_states * self._env.n_joint_actions
        n = last - first + 1
        return {
            REGRET.name: regret,
            SATURATED.name: cut / (n * entries),
            INDEFINITE.name: indefinite / (n * stages),
            REWARD_ERROR.name: mean_error(server.rewards, self._env.common_rewards, self._users.reached),
        }

    def _arrays(self) -> dict[str, np.ndarray]:
        """Return the state that changes in a run."""
        server, plan = self._server, self._planning.plan
        return {
            "matrices": server.matrices,
            "vectors": server.vectors,
            "weights": server.rewards.weights,
            "rewards": server.rewards.values,
            "corrections": server.rewards.corrections,
            "chances": plan.chances,
            "values": plan.values,
            "slopes": plan.slopes,
            "levels": plan.levels,
            "plans": server.plans,
            "counted": server.counted,
        }
