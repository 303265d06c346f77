"""PGC-A3C: config and learner in one process, with a compiled loop.

`on_rllib/` runs it with workers: with the same streams and the deterministic schedule, results are equal bit for bit.

Paper: [OT20] Algorithm 1.
"""

# [OT20] Algorithm 1, each line -> the function that does it, of this file or of the named file (in this folder if its
# name has no folder). The paper numbers no lines.
#  input N, R, Q; epsilon, d^, C, MAX_BUF, eta, lambda -> PGCA3CConfig, PGCA3CConfig.privatizer
#  B = {}                                            -> algorithms/pgc/aggregator.py::AggregatorState.first
#  initialize theta                                  -> network.py::initial_parameters
#  repeat                                            -> run
#    agent n begins its process                      -> algorithms/pgc/aggregator.py::last_startable, version_of (D16)
#    theta' = theta                                  -> agent_batch.py::deliver
#    t = 0, initial state s_{n,0}                    -> agent_batch.py::deliver
#    while s_{n,t} is not terminal                   -> agent_batch.py::tick
#      a = argmax pi(a|s; theta'), or any (sec. 4)   -> agent_batch.py::_choose_actions, exploration_rate
#      receive r_{n,t}, s_{n,t+1}                    -> envs/cartpole.py::step_lanes, gradient.py::loss_tables
#      t = t + 1                                     -> agent_batch.py::_count_step
#    g_n = dL_n/dtheta'                              -> agent_batch.py::local_update, gradient.py::write_gradient
#    g~_n = Q(g_n), send it                          -> privacy/queries/gradients.py::submit; Q is Algorithm 2 or 3:
#      clip by (19), add z by (21)                   -> privacy/mechanisms/vectors.py::fill_noisy
#      u = M g, clip by (23), randomize by (24)      -> privacy/mechanisms/random_sign_kernels.py::send_signs
#      output M^T u~ (here by the server)            -> privacy/mechanisms/random_sign_kernels.py::project_back
#    B = B + {g~_n}                                  -> privacy/queries/gradients.py::receive, then aggregate
#    if |B| >= MAX_BUF: update theta by (22), B = {} -> algorithms/pgc/aggregator.py::aggregate
#  until N submissions received                      -> run

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from dprl.algorithms.base import Float64Array, Int64Array, Metric, Releases
from dprl.algorithms.learner import Learner
from dprl.algorithms.pgc.aggregator import (
    AggregatorState,
    CollectionRules,
    aggregate,
    last_startable,
    require_update,
    version_of,
)
from dprl.algorithms.pgc.scores import METRICS, SCORE, ScoreTracker, record
from dprl.algorithms.pgc_a3c.agent_batch import AgentBatch, agent_batch, deliver, is_idle, local_update, tick
from dprl.algorithms.pgc_a3c.gradient import LossTables, loss_tables
from dprl.algorithms.pgc_a3c.network import DIMENSION, initial_parameters
from dprl.compiled import no_alloc_kernel, shows_numbers
from dprl.envs import CartPoleGravity, Env
from dprl.envs.checks import require_number
from dprl.privacy import GradientLayout, GradientPrivacy, GradientPrivatizer, Streams
from dprl.privacy.base import check_fields
from dprl.privacy.queries.gradients import GradientChannel, receive, submit
from dprl.privacy.threat_models import DURATIONS, RAW_SCORES, SIMULATED_SCORES, TIMING_DETAILS

_LANES = 8
_SERVER, _SCORES = "server.", "scores."


@shows_numbers
class _Agents(NamedTuple):
    """Agents' side: lanes of acting agents, and gradients of finished ones, to be reported in the order of slots.

    gradients float64[W, d], scores float64[W]: of slot i in row i mod W; slots int64[W]: the slot of each row.
    exploration: alpha of the first agents. fading: slots until it would be 0. floor: the least alpha. n_agents: their
    number; submission n is of agent (n - 1) mod n_agents + 1. reports: 1, or 0 for the control with zero gradients.
    """

    batch: AgentBatch
    loss: LossTables
    gradients: Float64Array
    scores: Float64Array
    slots: Int64Array
    exploration: float
    fading: float
    floor: float
    n_agents: int
    reports: int


@no_alloc_kernel
def exploration_rate(first: float, fading: float, floor: float, slot: int) -> float:
    """Return alpha = max(floor, first (1 - slot / fading)); 0.5, 900 and 0 give the paper's max(0, 0.5 - n/1800).

    It depends on the slot, a public number. A dependence on agents would be another channel.
    """
    return max(floor, first * (1.0 - slot / fading))


@no_alloc_kernel
def run(
    agents: _Agents, channel: GradientChannel, server: AggregatorState, tracker: ScoreTracker, first: int, last: int
) -> float:
    """Let the agents of slots first..last act and report, and aggregate; return the sum of their scores.

    The simulator reads the scores; the server does not. Slots first..last must be charged.
    """
    batch, gradients, scores, slots = agents.batch, agents.gradients, agents.scores, agents.slots
    rules, versions, estimate = server.rules, server.versions, server.estimate
    begun, applied, total = first - 1, first - 1, 0.0
    while applied < last:
        for lane in range(batch.n_lanes):
            if is_idle(batch, lane) and begun < min(last, last_startable(rules, applied)):
                begun += 1
                agent = (begun - 1) % agents.n_agents + 1
                alpha = exploration_rate(agents.exploration, agents.fading, agents.floor, begun)
                deliver(batch, lane, versions[version_of(rules, begun) % versions.shape[0]], begun, agent, alpha)
                batch.order[lane] = begun
        if tick(batch) == 0:
            continue
        for lane in range(batch.n_lanes):
            if batch.ended[lane] == 1:
                place = batch.order[lane] % slots.shape[0]
                scores[place] = local_update(batch, lane, agents.loss, gradients[place])
                if agents.reports == 0:
                    gradients[place, :] = 0.0
                slots[place] = batch.order[lane]
        while applied < last and slots[(applied + 1) % slots.shape[0]] == applied + 1:
            applied += 1
            place = applied % slots.shape[0]
            submit(channel, gradients[place], applied)
            receive(channel, estimate)
            aggregate(server, estimate)
            record(tracker, scores[place])
            total += scores[place]
    return total


@dataclass(frozen=True)
class PGCA3CConfig:
    """PGC-A3C, actor-critic from private gradients of many agents ([OT20] Algorithm 1; with model none, clipped ones).

    Where the paper leaves choices open, the defaults are the readings nearest to its tables.

    Args:
        learning_rate: eta >= 0. buffer_size: |B|, messages for one update; the paper has 1 with the Laplace mechanism
            and 100 with projected random sign.
        halving: submissions until the step size has halved, eta / (1 + n / halving); 0 keeps it constant, as printed.
        staleness: preceding messages that an agent does not wait for; 8 for the paper's 9 threads.
        discount: gamma. value_weight: lambda. entropy_weight: beta.
        exploration: alpha of the first agents. fading: submissions until it would be 0, as printed.
        exploration_floor: the least alpha; 0 is the paper's.
        acting: 'greedy' with probability 1 - alpha, as printed, or 'sampled' from the policy.
        reward: 'terminal' is 0 except for the last step, -1 if the pole fell or else +1; 'literal' is 1 in every step.
        bootstrap: V(s_T) in eqs. (12) and (18): 'discounted' by gamma^(T-t) in both, 'printed', or 'none'.
        differentiate: whether the advantage and the target are differentiated too, as printed.
        initial: 'normal' with standard deviation `initial_scale`, or 'glorot' uniform times `initial_scale`.
        target: Theta, the mean score over 10 submissions that counts as success.
        reports: 'gradient', or 'noise': the control with zero gradients from all agents.
        padded: whether every agent computes as long as for the longest episode; the results are the same.

    Paper: [OT20] Algorithm 1 and sec. 4.
    """

    learning_rate: float = 0.5
    buffer_size: int = 1
    halving: float = 0.0
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
    plays: ClassVar[type[Env]] = CartPoleGravity
    releases: ClassVar[Releases] = "gradients"
    unit: ClassVar[Literal["episode", "submission"]] = "submission"
    covered_by: ClassVar[str | None] = None
    """No theorem covers learning; the certificate covers privacy."""
    metrics: ClassVar[tuple[Metric, ...]] = METRICS

    def __post_init__(self) -> None:
        check_fields(self)
        self.rules.checked()
        require_number("discount", self.discount, 1e-12, 1.0)
        for key in ("value_weight", "entropy_weight", "target"):
            require_number(key, getattr(self, key), 0.0)
        require_number("initial_scale", self.initial_scale, 1e-12)
        require_number("exploration", self.exploration, 0.0, 1.0)
        require_number("exploration_floor", self.exploration_floor, 0.0, 1.0)
        require_number("fading", self.fading, 1e-3)

    @property
    def rules(self) -> CollectionRules:
        """The rules of the collection."""
        return CollectionRules(self.staleness, self.buffer_size, self.learning_rate, self.halving)

    def initial_parameters(self, streams: Streams) -> Float64Array:
        """Return the first parameters float64[112]; they are public."""
        return initial_parameters(self.initial, self.initial_scale, streams.key("exploration", "first parameters"))

    def privatizer(
        self, env: CartPoleGravity, privacy: GradientPrivacy, episodes: int, streams: Streams
    ) -> GradientPrivatizer:
        """Return the privatizer of a simulated run with this number of submissions.

        Raises ValueError if the settings do not fit together.
        """
        del env
        require_update("buffer_size", self.buffer_size, episodes)
        # The simulation reads scores even if the server does not.
        scores = () if privacy.release_scores == "simulator" else (SIMULATED_SCORES,)
        durations = TIMING_DETAILS if self.padded else DURATIONS
        layout = GradientLayout(DIMENSION, self.buffer_size, (*scores, durations))
        return privacy.build(layout, episodes, streams)

    def build(
        self, env: CartPoleGravity, privatizer: GradientPrivatizer, episodes: int, streams: Streams
    ) -> _PGCA3CLearner:
        """Return a fresh learner."""
        return _PGCA3CLearner(self, env, privatizer, episodes, streams)


class _PGCA3CLearner(Learner):
    """PGC-A3C on CartPole with gravity, for a fixed number of submissions.

    *Formal guarantee.* That of the privatizer: parameters are a function of charged messages.
    """

    config: PGCA3CConfig
    privatizer: GradientPrivatizer
    last_user_sends = True

    def __init__(
        self,
        config: PGCA3CConfig,
        env: CartPoleGravity,
        privatizer: GradientPrivatizer,
        episodes: int,
        streams: Streams,
    ) -> None:
        super().__init__(config, privatizer, episodes, streams, [repr(env)])
        excluded = privatizer.query.threat_model(privatizer.trust_model, submissions=1).excluded
        if privatizer.trust_model != "none" and not {RAW_SCORES, SIMULATED_SCORES} & set(excluded):
            wrong = "privatizer must name raw scores as a channel that is not covered"
            raise ValueError(f"{wrong}; use config.privatizer(...)")
        places = config.staleness + config.buffer_size + 1  # a row for every agent that can have begun
        self._agents = _Agents(
            batch=agent_batch(_LANES, env, streams, sampled=config.acting == "sampled", padded=config.padded),
            loss=loss_tables(config, env.horizon),
            gradients=np.zeros((places, DIMENSION)),
            scores=np.zeros(places),
            slots=np.zeros(places, dtype=np.int64),
            exploration=config.exploration,
            fading=config.fading,
            floor=config.exploration_floor,
            n_agents=privatizer.n_users,
            reports=int(config.reports == "gradient"),
        )
        self._server = AggregatorState.first(config.rules, config.initial_parameters(streams))
        self._score_tracker = ScoreTracker.empty(config.target)

    @property
    def policy(self) -> Float64Array:
        return self._server.parameters.copy()

    @property
    def derived(self) -> dict[str, float]:
        return {"noise_norm": self.privatizer.query.noise_norm}

    def _run(self, first: int, last: int) -> dict[str, float]:
        total = run(self._agents, self.privatizer.channel, self._server, self._score_tracker, first, last)
        return {SCORE.name: total / (last - first + 1), **self._score_tracker.metrics(self.episodes)}

    def _arrays(self) -> dict[str, np.ndarray]:
        server = {_SERVER + name: array for name, array in self._server.arrays.items()}
        return server | {_SCORES + "last": self._score_tracker.last, _SCORES + "counts": self._score_tracker.counts}
