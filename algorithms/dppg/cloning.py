"""DP-BC: behaviour cloning of logged users by the rounds of DPPG, one clipped update for each user and round."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from dprl.algorithms.base import Float64Array, Metric
from dprl.algorithms.dppg.algorithm import EVALUATION, EXPLORING, RoundsConfig, _DPPGLearner
from dprl.algorithms.dppg.updates import Rollout, inside_of
from dprl.algorithms.pgc.aggregator import require_update
from dprl.envs import Env, Episodes, LoggedControl
from dprl.envs.checks import require_number
from dprl.privacy import GradientLayout, GradientPrivacy, GradientPrivatizer, Streams
from dprl.privacy.queries.sampled_gradients import draw_users
from dprl.privacy.threat_models import TIMING_DETAILS

_OTHERS = "other trajectories of the same person: each trajectory of the log counts as one user"


@dataclass(frozen=True)
class DPBCConfig(RoundsConfig):
    """DP-BC, private behaviour cloning of logged users, or regression weighted by their returns (ours).

    With `privacy.sampling: poisson` and `population`, the number of users in the log, each user joins each round with
    probability users_per_update / population, and `episodes` is the number of updates that are expected in all rounds;
    without it users take turns, each with one update or `privacy.submissions` of them. Learning needs no simulator;
    with an `env_id` policies are evaluated in it.

        file = dprl.log_trajectories(dataset.iterate_episodes(), "users.npz", env_id="CartPole-v1", horizon=500)
        private = {"model": "jdp", "epsilon": 1, "delta": 1e-6, "sampling": "poisson", "population": 3000}
        dprl.run(algorithm="dp_bc", env=file, privacy=private, noise={"entropy": "os"}, episodes=20_000, seeds=1)

    Args:
        learning_rate, users_per_update, optimizer, halving, hidden: see `RoundsConfig`.
        sharpness: beta >= 0: the update of a user with return R has the weight exp(-beta (highest - R) / (highest -
            lowest)), by `lowest_return` and `highest_return` of the env, to which R is cut; 0 imitates all users alike.

    *Formal guarantee.* The privatizer's; updates depend on one trajectory and on public parameters.
    """

    learning_rate: float = 0.02
    sharpness: float = 0.0
    name: ClassVar[str] = "dp_bc"
    plays: ClassVar[type[Env]] = LoggedControl
    # Of released parameters, in a simulator.
    metrics: ClassVar[tuple[Metric, ...]] = (replace(EVALUATION, covered=True), replace(EXPLORING, covered=True))
    entropy_weight: ClassVar[float] = 0.0
    padded: ClassVar[bool] = True
    """Arrays of a log always have the length of the horizon."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_number("sharpness", self.sharpness, 0.0)

    def privatizer(
        self, env: LoggedControl, privacy: GradientPrivacy, episodes: int, streams: Streams
    ) -> GradientPrivatizer:
        """Return the privatizer of this number of updates. Raises ValueError if the log has another number of users."""
        require_update("users_per_update", self.users_per_update, episodes)
        if privacy.sampling == "poisson" and privacy.population != env.n_users:
            n = privacy.population
            raise ValueError(f"population must be {env.n_users}, the users in the log, got {n}; correct it")
        if self.sharpness and not env.returns[0] < env.returns[1]:
            wrong = f"sharpness must be 0 without bounds of returns, got {self.sharpness:g}"
            raise ValueError(f"{wrong}; set env.lowest_return and env.highest_return, public facts")
        if privacy.model == "ldp":
            rule = "model must be jdp or none with a log"
            raise ValueError(f"{rule}, got ldp; the log is with the runner: write model: jdp")
        dimension = self.network(env.task).dimension
        layout = GradientLayout(dimension, self.users_per_update, (_OTHERS, TIMING_DETAILS), draws=True, paper=False)
        found = replace(privacy, release_scores="none").build(layout, episodes, streams)  # there are no scores to read
        if found.n_users > env.n_users:
            most = env.n_users * found.submissions
            raise ValueError(
                f"episodes must be at most {most}, updates of the {env.n_users} users in the log, got {episodes}; "
                "lower it, raise privacy.submissions, or sample users with privacy.sampling: poisson"
            )
        return found

    def build(
        self, env: LoggedControl, privatizer: GradientPrivatizer, episodes: int, streams: Streams
    ) -> _DPBCLearner:
        """Return a fresh learner."""
        return _DPBCLearner(self, env, privatizer, episodes, streams)


class _Cloning(Rollout):
    """Updates of logged episodes: the gradient of the mean log probability of actions, weighted by the return.

    bounds: the least and the largest return.
    """

    bounds = (0.0, 0.0)

    def gains(self, episodes: Episodes) -> Float64Array:
        return np.where(inside_of(episodes), 1.0, 0.0)

    def updates(self, theta: Float64Array, episodes: Episodes) -> Float64Array:
        found, config = super().updates(theta, episodes), self.config
        if config.sharpness > 0.0:  # at most 1, so no update is longer than `radius`
            low, high = self.bounds
            shares = (high - np.clip(episodes.scores, low, high)) / (high - low)
            found *= np.exp(-config.sharpness * shares)[:, None]
        return found


class _DPBCLearner(_DPPGLearner):
    """DP-BC on a log of users.

    *Formal guarantee.* That of the privatizer: parameters are a function of charged updates.
    """

    def __init__(
        self, config: DPBCConfig, env: LoggedControl, privatizer: GradientPrivatizer, episodes: int, streams: Streams
    ) -> None:
        self._log = env
        super().__init__(config, env.task, privatizer, episodes, streams)
        self._rollout = _Cloning(env.task, self._rollout.policy, config, privatizer.query.law.largest_norm)
        self._rollout.bounds = env.returns

    def _run(self, first: int, last: int) -> dict[str, float]:
        found = super()._run(first, last)
        return {metric.name: found[metric.name] for metric in self.config.metrics}

    def _round(self, begin: int) -> tuple[Float64Array, Float64Array]:
        """Return the updates float64[B, d] of the users from `begin` on, or of those drawn, and zeros [B, 2]."""
        if self._pending is None or self._pending[0] != begin:
            end = min(begin + self.config.users_per_update, self.episodes + 1)
            if self._sampled:
                users = draw_users(self.privatizer.channel)
            else:  # in turn, as they are charged
                users = np.arange(begin - 1, end - 1) % self.privatizer.n_users + 1
            with np.errstate(all="ignore"):  # a warning would tell of a value
                found = self._rollout.updates(self._server.parameters, self._log.episodes(users))
            self._pending = begin, found, np.zeros((users.size, 2))
        return self._pending[1:]

    def _evaluation(self, done: int) -> dict[str, float]:
        if self._log.task.entry.entry_point is None:
            return {metric.name: math.nan for metric in self.config.metrics}
        return super()._evaluation(done)
