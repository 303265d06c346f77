"""DPPG: config and learner in one process.

It is private gradient collection ([OT20] sec. 3.1.1) in rounds, for any environment and network. In the local model
users randomize their updates; in the central model a trusted server adds noise to the sum.
"""

# Our pseudo-code, each line -> the function that does it, of this file if no other is named. On RLlib lines 2, 3 and
# 6 to 8 are on_rllib/algorithm.py::DPPG and algorithms/pgc/collector.py::collect, and all else is the same code.
#  1  theta at random                                    -> algorithms/dppg/network.py::Network.first
#  2  for rounds of B users                              -> _DPPGLearner._run
#  3    each plays one episode by theta                  -> algorithms/dppg/updates.py::Rollout.play
#  4    G_t = discounted return to go, less a baseline   -> algorithms/dppg/updates.py::returns_to_go, gradients
#  5    g = gradient of -log pi(a_t|s_t) G_t (+ entropy) -> algorithms/dppg/updates.py::gradients
#  6    each sends g, scaled to the clip, with noise if it is local -> privacy/queries/gradients.py::submit, by report
#  7    read, or summed and noise added if it is central -> privacy/queries/gradients.py::receive, by report
#  8    theta = theta - step (mean of all B), or Adam    -> algorithms/pgc/aggregator.py::aggregate, DPPGConfig.rules
#  6-8  the same if users are sampled                    -> privacy/queries/sampled_gradients.py::release_round, by
#                                                           report_round
#  9  score of the most probable actions, without users  -> _DPPGLearner._evaluation

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from dprl.algorithms.base import Float64Array, Metric, Releases
from dprl.algorithms.dppg.network import Network
from dprl.algorithms.dppg.updates import Rollout
from dprl.algorithms.learner import Learner
from dprl.algorithms.pgc.aggregator import AggregatorState, CollectionRules, aggregate, require_update
from dprl.algorithms.pgc.user_code import error_barrier, silent
from dprl.compiled import no_alloc_kernel
from dprl.envs import ControlTask, Env
from dprl.envs.checks import require_integer, require_number
from dprl.privacy import GradientLayout, GradientPrivacy, GradientPrivatizer, Streams
from dprl.privacy.base import check_fields
from dprl.privacy.queries.gradients import GradientChannel, GradientQuery, receive, submit
from dprl.privacy.queries.sampled_gradients import SampledChannel, draw_users, release_round
from dprl.privacy.threat_models import CARRIED, DURATIONS, SIMULATED_SCORES, TIMING_DETAILS

SCORE = Metric(
    "score",
    "mean",
    "return",
    definition="return of the users' episodes, mean over the block",
    better="high",
    headline=True,
)
EVALUATION = Metric(
    "evaluation",
    "last",
    "return",
    of="output",
    short="final",
    definition="mean return of the last policy's most probable actions, in a simulator without users",
    better="high",
)
EXPLORING = Metric(
    "exploring",
    "last",
    "return",
    of="output",
    definition="mean return of actions drawn from the last policy, in a simulator without users",
    better="high",
)
FAILED = Metric("failed", "mean", definition="share of users with an error of their environment, so their update was 0")
_EVALUATED, _LAST_EVALUATED = 10, 100  # episodes of an evaluation after a block, and after the last episode
_OPTIMIZERS = {"adam": (0.9, 0.999), "momentum": (0.9, 0.0), "sgd": (0.0, 0.0)}
"""Memory of means of gradients, and of their squares."""
_MOST_USERS, _MOST_UNITS, _MOST_LAYERS = 10_000, 4096, 8
_FAILED_EVALUATION = "the policy could not be evaluated; texts of its environment are not shown once users have played"
_FAILED = "users could not play, and none of their data has left their side; test their environment without users"


@no_alloc_kernel
def report(channel: GradientChannel, server: AggregatorState, gradients: Float64Array, first: int) -> None:
    """Send the updates float64[k, d] of the users of slots first, first+1, ..., and aggregate them."""
    for i in range(gradients.shape[0]):
        submit(channel, gradients[i], first + i)
        receive(channel, server.estimate)
        aggregate(server, server.estimate)


def with_spare(n: int) -> int:
    """Return the number of episodes of a sampled round with n expected users, 4 standard deviations more."""
    return n + math.ceil(4.0 * math.sqrt(n))


@no_alloc_kernel
def report_round(channel: SampledChannel, server: AggregatorState, gradients: Float64Array) -> None:
    """Release the sum of the updates float64[m, d] of a sampled round, and count its expected number of users."""
    estimate = server.estimate
    estimate[:] = 0.0
    for _ in range(server.rules.buffer_size - 1):
        aggregate(server, estimate)
    release_round(channel, gradients, estimate)
    aggregate(server, estimate)


@dataclass(frozen=True)
class RoundsConfig:
    """Settings of rounds of clipped updates: `dppg` on episodes of users who play, `dp_bc` on logged ones.

    Args:
        learning_rate: eta >= 0. With sgd, the step of a round in which all users agree: the mean update is divided by
            half the clip, the norm of each update, so that the step does not depend on the clip.
        optimizer: of the parameters from noisy means of updates, without further privacy loss.
        users_per_update: B, the number of users in a round.
        halving: users until the step size has halved, eta / (1 + n / halving); 0 keeps it constant.
        hidden: 'linear', or the numbers of tanh units in the hidden layers, separated by commas.
    """

    learning_rate: float = 0.06
    users_per_update: int = 200
    optimizer: Literal["adam", "momentum", "sgd"] = "adam"
    halving: float = 0.0
    hidden: str = "64,64"
    metrics: ClassVar[tuple[Metric, ...]]
    releases: ClassVar[Releases] = "gradients"
    unit: ClassVar[Literal["episode", "submission"]] = "episode"
    covered_by: ClassVar[str | None] = None
    """No theorem covers learning; the certificate covers privacy."""

    def __post_init__(self) -> None:
        check_fields(self)
        require_integer("users_per_update", self.users_per_update, 1, _MOST_USERS)
        CollectionRules(0, self.users_per_update, self.learning_rate, self.halving).checked()
        if self._layers is None:
            rule = f"linear, or at most {_MOST_LAYERS} numbers from 1 to {_MOST_UNITS} separated by commas"
            raise ValueError(f"hidden must be {rule}, got {self.hidden!r}; write e.g. 64,64")

    @property
    def _layers(self) -> tuple[int, ...] | None:
        """Numbers of units of the hidden layers; None if `hidden` is invalid."""
        if self.hidden == "linear":
            return ()
        words = self.hidden.split(",") if isinstance(self.hidden, str) else [""]
        if not all(word.strip().isdecimal() for word in words):
            return None
        layers = tuple(int(word) for word in words)
        return layers if len(layers) <= _MOST_LAYERS and all(1 <= units <= _MOST_UNITS for units in layers) else None

    def rules(self, query: GradientQuery, *, summed: bool = False) -> CollectionRules:
        """Return the rules of rounds: one starts after the last one has ended."""
        momentum, memory = _OPTIMIZERS[self.optimizer]
        # Updates have the same norm; divided by it, means are at most 1. Adam's steps do not depend on it.
        step = self.learning_rate / (1.0 if memory else query.law.largest_norm)
        return CollectionRules(0, self.users_per_update, step, self.halving, summed, momentum, memory)

    def network(self, task: ControlTask) -> Network:
        """Return the network."""
        sizes = task.observation_size, *(self._layers or ()), task.n_actions or task.action_size
        return Network(sizes, task.n_actions == 0)


@dataclass(frozen=True)
class DPPGConfig(RoundsConfig):
    """DPPG, a policy gradient in one pass over users: clipped updates, noise on their sum or on each (ours).

    Args:
        learning_rate, users_per_update, optimizer, halving, hidden: see `RoundsConfig`.
        discount: gamma. entropy_weight: weight of the policy's entropy in the loss.
        critic: 'device': each user subtracts their own mean return and never sends it; 'none'.
        padded: whether every round takes as long as the longest episode; the results are the same.

    Defaults were chosen on variants of cart-pole, pendulum, Acrobot and a lander under jdp, epsilon 1, delta 1e-6, with
    4,000 users.

    *Formal guarantee.* The privatizer's; updates depend on one episode and on public parameters.
    """

    discount: float = 0.99
    entropy_weight: float = 0.0
    critic: Literal["none", "device"] = "device"
    padded: bool = False
    name: ClassVar[str] = "dppg"
    plays: ClassVar[type[Env]] = ControlTask
    metrics: ClassVar[tuple[Metric, ...]] = (SCORE, EVALUATION, EXPLORING, FAILED)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_number("discount", self.discount, 1e-12, 1.0)
        require_number("entropy_weight", self.entropy_weight, 0.0)

    def privatizer(
        self, env: ControlTask, privacy: GradientPrivacy, episodes: int, streams: Streams
    ) -> GradientPrivatizer:
        """Return the privatizer of a simulated run with this number of users. Raises ValueError."""
        require_update("users_per_update", self.users_per_update, episodes)
        scores = () if privacy.release_scores == "simulator" else (SIMULATED_SCORES,)
        durations = TIMING_DETAILS if self.padded else DURATIONS
        uncovered = (*scores, durations, CARRIED)
        layout = GradientLayout(self.network(env).dimension, self.users_per_update, uncovered, draws=True, paper=False)
        return privacy.build(layout, episodes, streams)

    def build(self, env: ControlTask, privatizer: GradientPrivatizer, episodes: int, streams: Streams) -> _DPPGLearner:
        """Return a fresh learner."""
        return _DPPGLearner(self, env, privatizer, episodes, streams)


class _DPPGLearner(Learner):
    """DPPG on a control task, for a fixed number of users.

    *Formal guarantee.* That of the privatizer: parameters are a function of charged updates.
    """

    config: RoundsConfig
    privatizer: GradientPrivatizer
    last_user_sends = True

    def __init__(
        self, config: RoundsConfig, env: ControlTask, privatizer: GradientPrivatizer, episodes: int, streams: Streams
    ) -> None:
        super().__init__(config, privatizer, episodes, streams, [repr(env)])
        self._streams, network = streams, config.network(env)
        self._rollout = Rollout(env, network, config, privatizer.query.law.largest_norm)
        first = network.first(self._rng("first parameters", 0))
        self._server = AggregatorState.first(config.rules(privatizer.query), first)
        # Users' side: the first user of the round that was played last, its updates, and its returns and steps.
        self._pending: tuple[int, Float64Array, Float64Array] | None = None
        self._evaluated: tuple[tuple[int, int], dict[str, float]] | None = None
        if self._for_users:
            self._evaluation(0)  # raises errors of the environment before there are users

    @property
    def policy(self) -> Float64Array:
        return self._server.parameters.copy()

    @property
    def derived(self) -> dict[str, float]:
        return {"noise_norm": self.privatizer.query.noise_norm}

    def _run(self, first: int, last: int) -> dict[str, float]:
        size, total, users, failed, at = self.config.users_per_update, 0.0, 0.0, 0, first
        while at <= last:
            end, begin = min(last, -(-at // size) * size), (at - 1) // size * size + 1
            found, played = self._round(begin)
            if not self._sampled:
                found, played = found[at - begin : end + 1 - begin], played[at - begin : end + 1 - begin]
                report(self.privatizer.channel, self._server, found, at)
            elif end % size == 0:  # a round is released when its last expected user is due
                report_round(self.privatizer.channel, self._server, found)
            scores, steps = played.T
            if scores.size:  # a sampled round without users is left out of the mean
                total, users = total + float(scores.mean()) * (end + 1 - at), users + end + 1 - at
            failed += int((steps == 0).sum()) if end % size == 0 or not self._sampled else 0
            at = end + 1
        return {SCORE.name: total / max(1.0, users), FAILED.name: failed / (last + 1 - first), **self._evaluation(last)}

    def _round(self, begin: int) -> tuple[Float64Array, Float64Array]:
        """Return the updates float64[B, d], and returns and steps float64[B, 2], of users begin, begin + 1, ...

        A round is played at once, so that results do not depend on the calls of `learn`. An update stays on the users'
        side until its user is charged. A sampled round returns the updates of the users who joined. It plays a fixed
        number of episodes unless more users joined, so its duration reveals almost nothing about their number.
        """
        if self._pending is None or self._pending[0] != begin:
            self._pending = None
            theta, n = self._server.parameters, min(self.config.users_per_update, self.episodes + 1 - begin)
            size, passes = n, 1
            if self._sampled:
                size, n = with_spare(n), draw_users(self.privatizer.channel).size
                passes = max(1, -(-n // size))
            with self._user_code(heard=False):
                # Each pass has a generator of its own: the end of another's position depends on users' episodes.
                generators = [self._rng("episodes", begin, *([i] if i else [])) for i in range(passes)]
                found, played = zip(*(self._rollout.report(size, theta, rng) for rng in generators), strict=True)
                self._pending = begin, np.concatenate(found)[:n], np.concatenate(played)[:n]
            if self._pending is None:
                raise RuntimeError(_FAILED)
        return self._pending[1:]

    @property
    def _sampled(self) -> bool:
        """Whether each round samples its users from a population; all of it is charged before the first round."""
        return self.privatizer.query.sampled

    def _senders(self, done: int, episodes: int) -> int:
        if self._sampled:
            return self.privatizer.n_users if done else 0
        return super()._senders(done, episodes)

    @property
    def _for_users(self) -> bool:
        """Whether users may be real; then errors and prints of their environments must not leave their side."""
        return self._streams.noise.entropy == "os"

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        super().load_state_dict(state)
        self._pending = self._evaluated = None

    def _evaluation(self, done: int) -> dict[str, float]:
        """Return the mean returns of a few episodes without users, of the most probable actions and of drawn ones.

        Blocks without an update between them share one evaluation.
        """
        n = _LAST_EVALUATED if done == self.episodes else _EVALUATED
        place = (self.episodes if done == self.episodes else done // self.config.users_per_update, n)
        if self._evaluated is None or self._evaluated[0] != place:
            self._evaluated = None
            # Before users take part, an error's text helps. Later the environment may carry over what it has seen.
            with self._user_code(heard=self.privatizer.charged == 0):
                rng, found = self._rng("evaluation", place[0]), dict[str, float]()
                for metric, sampled in ((EVALUATION, False), (EXPLORING, True)):
                    episodes = self._rollout.play(n, self.policy, rng, sampled=sampled, users=False)
                    found[metric.name] = float(episodes.scores.mean())
                self._evaluated = place, found
            if self._evaluated is None:
                raise RuntimeError(_FAILED_EVALUATION)
        return self._evaluated[1]

    def _user_code(self, *, heard: bool) -> ExitStack:
        """Return a block for code of the environment: if users may be real, only errors are heard, if `heard`."""
        with ExitStack() as stack:
            if self._for_users:
                stack.enter_context(silent())
                if not heard:
                    stack.enter_context(error_barrier())
            return stack.pop_all()

    def _rng(self, purpose: str, *numbers: int) -> np.random.Generator:
        key = self._streams.key("exploration", purpose)
        return np.random.default_rng([*(int(word) for word in key), *numbers])

    def _arrays(self) -> dict[str, np.ndarray]:
        return self._server.arrays
