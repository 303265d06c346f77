"""PGC-A3C in one process: the compiled box as a learner of the platform.

The same run on RLlib, with workers, is in `on_rllib/`; given the same Streams and the
deterministic schedule both give the same bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dprl.algorithms.base import Float64Array, Segment
from dprl.algorithms.pgc.aggregator import aggregator_state, newest
from dprl.algorithms.pgc.scores import SCORE, ScoreKeeper
from dprl.algorithms.pgc_a3c.crowd import crowd
from dprl.algorithms.pgc_a3c.loop import Agents, Server, outbox, run
from dprl.algorithms.pgc_a3c.network import DIMENSION
from dprl.algorithms.resuming import ResumableLearner
from dprl.envs import CartPole
from dprl.privacy import Certificate, GradientPrivatizer, Streams
from dprl.privacy.threat_models import RAW_SCORES, SIMULATED_SCORES

if TYPE_CHECKING:
    from dprl.algorithms.pgc_a3c.config import PGCA3CConfig

LANES = 8
_SERVER, _SCORES = "server.", "scores."


def _require_told(privatizer: GradientPrivatizer) -> None:
    """Raise ValueError unless the certificate names raw scores as read: this learner reads them."""
    excluded = privatizer.query.threat_model(submissions=1).excluded
    if privatizer.trust_model != "none" and not {RAW_SCORES, SIMULATED_SCORES} & set(excluded):
        raise ValueError("privatizer must name raw scores as a channel that is left open; take config.privatizer(...)")


class PGCA3CLearner(ResumableLearner):
    """PGC-A3C on CartPole with gravity, for a fixed number of submissions.

    *Formal guarantee.* That of the privatizer: parameters are a function of charged messages.
    """

    def __init__(
        self, config: PGCA3CConfig, env: CartPole, privatizer: GradientPrivatizer, episodes: int, streams: Streams
    ) -> None:
        super().__init__(episodes, privatizer, (f"{config!r} {env!r} {streams.seed} {streams.context}", ()))
        self.config = config
        self.privatizer = privatizer
        self.theorem = None
        schedule, first = config.schedule, config.first_parameters(streams)
        people = crowd(LANES, env, streams, sampled=config.acting == "sampled", padded=config.padded)
        behaviour = config.behaviour(env.horizon, privatizer.n_users)
        self._agents = Agents(people, outbox(schedule, DIMENSION), behaviour)
        _require_told(privatizer)
        step = config.step(privatizer)
        self._server = Server(aggregator_state(schedule, first), schedule, step, np.zeros(DIMENSION))
        self._keeper = ScoreKeeper.of(config.target)

    @property
    def parameters(self) -> Float64Array:
        """The parameters after the last update, a copy float64[112]."""
        return newest(self._server.state).copy()

    @property
    def policies(self) -> dict[str, np.ndarray]:
        """Output of a finished run: 'policy', the parameters."""
        return {"policy": self.parameters}

    @property
    def derived(self) -> dict[str, float]:
        """Noise of one message, as the norm of the error of its estimate."""
        return {"noise_norm": self.privatizer.query.law.noise_norm}

    def certificate(self) -> Certificate:
        """Return the certificate of the messages so far."""
        return self.privatizer.certificate(self.config.name)

    def learn(self, n: int) -> Segment:
        """Take the next n submissions; raise ValueError beyond the number that this learner was built for."""
        first, last = self._stretch(n)
        self.privatizer.charge(first, last)
        total = run(self._agents, self.privatizer.channel, self._server, self._keeper, first, last)
        self.episodes_done = last
        return Segment(n, {SCORE.name: total / n, **self._keeper.metrics(self.episodes)})

    def _charged_after(self, done: int) -> int:
        return done

    def _arrays(self) -> dict[str, np.ndarray]:
        server = {_SERVER + name: array for name, array in self._server.state._asdict().items()}
        return server | {_SCORES + "last": self._keeper.last, _SCORES + "counts": self._keeper.counts}
