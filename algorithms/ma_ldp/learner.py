"""MA-LDP as a learner of the platform: the parts of the box, their state and their metrics."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dprl.algorithms.base import REGRET, SATURATED, Float64Array, Metric
from dprl.algorithms.ma_ldp.beliefs import Beliefs, beliefs, mean_error
from dprl.algorithms.ma_ldp.bonus import EXPONENT, beta_rates
from dprl.algorithms.ma_ldp.estimation import empty_sums, no_estimates, shift_rates
from dprl.algorithms.ma_ldp.loop import Server, run
from dprl.algorithms.ma_ldp.planning import planning
from dprl.algorithms.ma_ldp.users import users_of
from dprl.algorithms.submitting import SubmittingLearner
from dprl.envs import LinearMixtureMDP
from dprl.privacy import StatisticsPrivatizer, Streams

if TYPE_CHECKING:
    from dprl.algorithms.ma_ldp.config import MALDPConfig

INDEFINITE = Metric("indefinite", "mean")
"""Share of noisy matrices Sigma that were not positive definite with their shift and needed more."""
REWARD_ERROR = Metric(
    name="reward_error",
    over="last",
    unit="reward",
    definition="how wrong agents are about the mean reward, on average over agents and what each stage can reach",
)
"""Mean of |<psi(s), w> - r(s)|; 0 where rewards are public."""


class MALDPLearner(SubmittingLearner):
    """MA-LDP on one linear mixture MDP, for a fixed number of episodes.

    *Formal guarantee.* That of the privatizer: all plans are functions of charged messages.
    """

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
        if config.share and privatizer.query.rewards != "public":
            raise ValueError(f"share needs public rewards, got {privatizer.query.rewards} ones; use config.privatizer")
        n_messages, clipped = privatizer.query.layout.n_messages, privatizer.query.clipped
        people = users_of(env, episodes, streams, n_messages, privatizer.query.bounds)
        words = f"{config!r} {privatizer.query.layout} {streams.seed} {streams.context}"
        super().__init__(
            config.name, privatizer, episodes, (words, (*env.identity(), people.env_key, people.action_key))
        )
        self.config = config
        self.privatizer = privatizer
        self._env = env
        self._users = people
        floor = 0.0 if clipped else -math.inf
        self._planning = planning(env, floor, config.value == "joint", n_messages)
        self._server = self._new_server(streams)

    def _new_server(self, streams: Streams) -> Server:
        privatizer, env = self.privatizer, self._env
        n_messages, horizon, dimension = (
            privatizer.query.layout.n_messages,
            env.horizon,
            privatizer.query.layout.dimension,
        )
        return Server(
            sums=empty_sums(n_messages, horizon, dimension),
            estimates=no_estimates(n_messages, horizon, dimension),
            beliefs=self._first_beliefs(streams),
            beta_rates=self._beta_rates(),
            shift_rates=shift_rates(privatizer.query.deviations, dimension, self.config.alpha, self.config.shift_scale),
            betas=np.zeros(horizon),
        )

    def _first_beliefs(self, streams: Streams) -> Beliefs:
        graph, learned = self.config.communication, self.privatizer.query.rewards != "public"
        talks = (graph.matrices(self._env.n_agents), graph.cycled, streams.key("exploration", "who talks"))
        n_messages = self.privatizer.query.layout.n_messages
        return beliefs(self._env, learned, self.privatizer.query.clipped, self.config.steps, talks, n_messages)

    def _beta_rates(self) -> Float64Array:
        """Return beta_{k,h} / k^(1/4), float64[H], for the noise that runs."""
        privatizer, requested = self.privatizer, self.privatizer.request.requested
        budget = None if requested is None else (requested.epsilon, requested.delta)
        sizes = privatizer.query.layout.dimension, self._env.horizon, self.episodes
        printed = beta_rates(privatizer.query.law.name, budget, sizes, self.config.alpha)
        # beta grows like the square root of the noise, so noise other than the printed one rescales it.
        noise = math.sqrt(privatizer.query.noise_ratio) if requested is not None else 1.0
        return self.config.bonus_scale * noise * printed

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
        """The first stage's radius beta and shift in the last episode, and one number's noise in one message."""
        server, messages = self._server, self.episodes - 1
        return {
            "last_beta": float(server.beta_rates[0] * self.episodes**EXPONENT),
            "last_shift": float(server.shift_rates[0] * math.sqrt(messages)),
            "noise_deviation": float(self.privatizer.query.deviations[0]),
        }

    def _run(self, first: int, last: int) -> dict[str, float]:
        server = self._server
        regret, cut, indefinite = run(self._users, self._planning, self.privatizer.channel, server, first, last)
        stages = server.sums.vectors.shape[0] * (self._env.horizon - 1)
        entries = stages * self._env.n_states * self._env.n_joint_actions
        n = last - first + 1
        return {
            REGRET.name: regret,
            SATURATED.name: cut / (n * entries),
            INDEFINITE.name: indefinite / (n * stages),
            REWARD_ERROR.name: mean_error(server.beliefs, self._env.common_rewards, self._users.reached),
        }

    def _arrays(self) -> dict[str, np.ndarray]:
        """Return the state that is not rebuilt in each episode."""
        server = self._server
        return {
            "matrices": server.sums.matrices,
            "vectors": server.sums.vectors,
            "weights": server.beliefs.weights,
            "believed": server.beliefs.believed,
            "chances": self._planning.plan.chances,
        }
