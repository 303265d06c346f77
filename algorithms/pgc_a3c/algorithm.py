"""PGC-A3C: its settings and its learner in one process, with a compiled loop.

With the same streams and the deterministic schedule, `on_rllib/` runs the same algorithm with workers and gives the
same bits.

Paper: [OT20] Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from dprl.algorithms.base import Float64Array, Metric, Releases, check_choice, check_number
from dprl.algorithms.learner import Learner
from dprl.algorithms.pgc.aggregator import StepRule, aggregator_state, newest
from dprl.algorithms.pgc.schedule import Schedule
from dprl.algorithms.pgc.scores import METRICS, SCORE, ScoreKeeper
from dprl.algorithms.pgc_a3c.agent_batch import agent_batch
from dprl.algorithms.pgc_a3c.gradient import Loss, loss_tables
from dprl.algorithms.pgc_a3c.loop import Agents, Behaviour, Server, no_pending_gradients, run
from dprl.algorithms.pgc_a3c.network import DIMENSION, initial_parameters
from dprl.envs import CartPole, Env
from dprl.privacy import GradientLayout, GradientPrivacyConfig, GradientPrivatizer, Streams
from dprl.privacy.threat_models import DURATIONS, RAW_SCORES, SIMULATED_SCORES, TIMING_DETAILS

_LANES = 8
_SERVER, _SCORES = "server.", "scores."


@dataclass(frozen=True)
class PGCA3CConfig:
    """PGC-A3C, actor-critic from private gradients of many agents ([OT20] Algorithm 1; clipped ones with none).

    Defaults of choices that the paper leaves open are the readings nearest to its tables.

    Args:
        learning_rate: eta >= 0. buffer_size: |B|, messages for one update; the paper has 1 with the Laplace mechanism
            and 100 with projected random sign.
        halving: submissions until the step has halved, eta / (1 + n / halving); 0 keeps it constant, as printed.
        staleness: messages before its own that an agent does not wait for; 8 for the paper's 9 threads.
        discount: gamma. value_weight: lambda. entropy_weight: beta.
        exploration: alpha of the first agents. fading: submissions until it would be 0, as printed.
        exploration_floor: the least alpha; 0 is the paper's.
        success_memory: the weight of each private score bit in the aggregator's estimate of the share of agents that
            succeed, with `privacy.release_scores: private`; the step shrinks to 0 as the share grows to `success_full`.
            0 disables this, as printed.
        acting: 'greedy' with probability 1 - alpha, as printed, or 'sampled' from the policy.
        reward: 'terminal' is 0 but for the last step's -1 (the pole fell) or +1; 'literal' is 1 for every step.
        bootstrap: V(s_T) in eqs. (12) and (18): 'discounted' by gamma^(T-t) in both, 'printed', or 'none'.
        differentiate: whether the advantage and the target are differentiated, too, as printed.
        initial: 'normal' with standard deviation `initial_scale`, or 'glorot' uniform times `initial_scale`.
        target: Theta, the mean score over 10 submissions that counts as success.
        reports: 'gradient', or 'noise': the control with zero gradients from all agents.
        padded: whether every agent computes as long as the longest episode takes; the results are the same.

    Paper: [OT20] Algorithm 1 and sec. 4.
    """

    learning_rate: float = 0.5
    buffer_size: int = 1
    halving: float = 0.0
    success_memory: float = 0.0
    success_full: float = 0.9
    staleness: int = 8
    discount: float = 0.99
    value_weight: float = 0.5
    entropy_weight: float = 0.01
    exploration: float = 0.5
    fading: float = 900.0
    exploration_floor: float = 0.0
    acting: Literal["greedy", "sampled"] = "greedy"
    reward: Literal["terminal", "literal"] = "terminal"
    bootstrap: Literal["discounted", "printed", "none"] = "discounted"
    differentiate: bool = False
    initial: Literal["normal", "glorot"] = "normal"
    initial_scale: float = 0.1
    target: float = 195.0
    reports: Literal["gradient", "noise"] = "gradient"
    padded: bool = False
    name: ClassVar[str] = "pgc_a3c"
    plays: ClassVar[type[Env]] = CartPole
    releases: ClassVar[Releases] = "gradients"
    unit: ClassVar[Literal["episode", "submission"]] = "submission"
    metrics: ClassVar[tuple[Metric, ...]] = METRICS

    def __post_init__(self) -> None:
        Schedule(self.staleness, self.buffer_size).checked()
        StepRule(self.learning_rate, self.halving, self.success_memory, self.success_full).checked()
        check_number("discount", self.discount, 1e-12, 1.0 + 1e-9)
        for key in ("value_weight", "entropy_weight", "target"):
            check_number(key, getattr(self, key), 0.0)
        check_number("initial_scale", self.initial_scale, 1e-12)
        check_number("exploration", self.exploration, 0.0, 1.0 + 1e-9)
        check_number("exploration_floor", self.exploration_floor, 0.0, 1.0 + 1e-9)
        check_number("fading", self.fading, 1e-3)
        check_choice("acting", self.acting, ["greedy", "sampled"])
        check_choice("reward", self.reward, ["terminal", "literal"])
        check_choice("bootstrap", self.bootstrap, ["discounted", "printed", "none"])
        check_choice("initial", self.initial, ["normal", "glorot"])
        check_choice("reports", self.reports, ["gradient", "noise"])

    @property
    def covered_by(self) -> str | None:
        """None: no theorem covers learning; the certificate covers privacy."""
        return None

    @property
    def schedule(self) -> Schedule:
        """The schedule of starting parameters."""
        return Schedule(self.staleness, self.buffer_size)

    def step(self, privatizer: GradientPrivatizer) -> StepRule:
        """Return the step rule. Raises ValueError if it needs score bits and none are sent."""
        self.check_score_bits(privatizer)
        response = privatizer.query.response
        bits = (1.0, 1.0) if response is None else (response.truth, response.gain)
        return StepRule(self.learning_rate, self.halving, self.success_memory, self.success_full, *bits)

    @property
    def loss(self) -> Loss:
        """The loss that agents differentiate."""
        return Loss(
            self.discount, self.value_weight, self.entropy_weight, self.reward, self.bootstrap, self.differentiate
        )

    def behaviour(self, horizon: int, n_agents: int) -> Behaviour:
        """Return the behaviour of `n_agents` agents in episodes of at most `horizon` steps."""
        loss = loss_tables(self.loss, horizon)
        return Behaviour(
            loss, self.exploration, self.fading, self.exploration_floor, n_agents, int(self.reports == "gradient")
        )

    def first_parameters(self, streams: Streams) -> Float64Array:
        """Return the first parameters float64[112]; they are public."""
        return initial_parameters(self.initial, self.initial_scale, streams.key("exploration", "first parameters"))

    def privatizer(
        self, env: CartPole, privacy: GradientPrivacyConfig, episodes: int, streams: Streams
    ) -> GradientPrivatizer:
        """Return the privatizer of a simulated run with this number of submissions.

        Raises ValueError if the settings do not fit together.
        """
        del env
        # The simulation reads scores even if the server does not.
        scores = () if privacy.release_scores == "simulator" else (SIMULATED_SCORES,)
        durations = TIMING_DETAILS if self.padded else DURATIONS
        layout = GradientLayout(DIMENSION, self.buffer_size, (*scores, durations))
        privatizer = privacy.build(layout, episodes, streams)
        self.check_score_bits(privatizer)
        return privatizer

    def check_score_bits(self, privatizer: GradientPrivatizer) -> None:
        """Raise ValueError if the step needs score bits and none are sent."""
        if self.success_memory > 0.0 and privatizer.query.response is None:
            raise ValueError(
                f"success_memory must be 0 without private score bits, got {self.success_memory}; "
                "write privacy.release_scores: private and a score_epsilon"
            )

    def build(self, env: CartPole, privatizer: GradientPrivatizer, episodes: int, streams: Streams) -> PGCA3CLearner:
        """Return a fresh learner."""
        return PGCA3CLearner(self, env, privatizer, episodes, streams)


class PGCA3CLearner(Learner):
    """PGC-A3C on CartPole with gravity, for a fixed number of submissions.

    *Formal guarantee.* That of the privatizer: parameters are a function of charged messages.
    """

    config: PGCA3CConfig
    privatizer: GradientPrivatizer
    last_user_sends = True

    def __init__(
        self, config: PGCA3CConfig, env: CartPole, privatizer: GradientPrivatizer, episodes: int, streams: Streams
    ) -> None:
        super().__init__(config, privatizer, episodes, streams, [repr(env)])
        _check_scores_are_named(privatizer)
        schedule, first = config.schedule, config.first_parameters(streams)
        people = agent_batch(_LANES, env, streams, sampled=config.acting == "sampled", padded=config.padded)
        behaviour = config.behaviour(env.horizon, privatizer.n_users)
        self._agents = Agents(people, no_pending_gradients(schedule, DIMENSION), behaviour)
        step = config.step(privatizer)
        self._server = Server(aggregator_state(schedule, first), schedule, step, np.zeros(DIMENSION))
        self._keeper = ScoreKeeper.of(config.target)

    @property
    def parameters(self) -> Float64Array:
        """The parameters after the last update, a copy float64[112]."""
        return newest(self._server.state).copy()

    @property
    def policy(self) -> Float64Array:
        """The parameters after the last update, a copy float64[112]."""
        return self.parameters

    @property
    def derived(self) -> dict[str, float]:
        """Noise of one message, as the norm of the error of its estimate."""
        return {"noise_norm": self.privatizer.query.law.noise_norm}

    def _run(self, first: int, last: int) -> dict[str, float]:
        total = run(self._agents, self.privatizer.channel, self._server, self._keeper, first, last)
        return {SCORE.name: total / (last - first + 1), **self._keeper.metrics(self.episodes)}

    def _arrays(self) -> dict[str, np.ndarray]:
        server = {_SERVER + name: array for name, array in self._server.state._asdict().items()}
        return server | {_SCORES + "last": self._keeper.last, _SCORES + "counts": self._keeper.counts}


def _check_scores_are_named(privatizer: GradientPrivatizer) -> None:
    """Raise ValueError unless the certificate names raw scores as read: this learner reads them."""
    excluded = privatizer.query.threat_model(submissions=1).excluded
    if privatizer.trust_model != "none" and not {RAW_SCORES, SIMULATED_SCORES} & set(excluded):
        raise ValueError("privatizer must name raw scores as a channel that is left open; take config.privatizer(...)")
