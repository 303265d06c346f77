"""PGC-A3C in one process: the compiled box as a learner that the platform runs.

The same run on RLlib, with workers, is in `on_rllib/`; given the same Streams and the
deterministic schedule both give the same bits.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from dprl.algorithms.base import Float64Array, Segment
from dprl.algorithms.pgc.aggregator import aggregator_state, newest
from dprl.algorithms.pgc.scores import SCORE, ScoreKeeper
from dprl.algorithms.pgc_a3c.crowd import crowd
from dprl.algorithms.pgc_a3c.loop import Agents, Server, outbox, run
from dprl.algorithms.pgc_a3c.network import DIMENSION
from dprl.envs import CartPole
from dprl.privacy import Certificate, GradientPrivatizer, Streams
from dprl.privacy.scopes import RAW_SCORES, SIMULATED_SCORES
from dprl.privacy.states import check_arrays, part_of

if TYPE_CHECKING:
    from dprl.algorithms.pgc_a3c.config import PGCA3CConfig

LANES = 8
_SERVER, _SCORES, _PRIVATIZER, _DONE, _DIGEST = "server.", "scores.", "privatizer.", "episodes_done", "digest"


def _require_told(privatizer: GradientPrivatizer) -> None:
    """Raise ValueError unless the certificate will say that raw scores are read: this learner reads them."""
    if privatizer.trust_model != "none" and not {RAW_SCORES, SIMULATED_SCORES} & set(privatizer.parts.scope.excluded):
        raise ValueError("privatizer must name raw scores as a channel that is left open; take config.privatizer(...)")


class PGCA3CLearner:
    """PGC-A3C on CartPole with gravity, for a fixed number of submissions.

    *Formal guarantee.* The privatizer's: parameters are a function of messages that its ledger has charged.
    """

    def __init__(
        self, config: PGCA3CConfig, env: CartPole, privatizer: GradientPrivatizer, episodes: int, streams: Streams
    ) -> None:
        self.config = config
        self.privatizer = privatizer
        self.episodes = episodes
        self.episodes_done = 0
        self.theorem = None
        self._identity = f"{config!r} {env!r} {episodes} {streams.seed} {streams.context}"
        schedule, first = config.schedule, config.first_parameters(streams)
        people = crowd(LANES, env, streams, sampled=config.acting == "sampled", padded=config.padded)
        behaviour = config.behaviour(env.horizon, privatizer.n_agents)
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
        """What a finished run leaves: 'policy', the parameters."""
        return {"policy": self.parameters}

    @property
    def derived(self) -> dict[str, float]:
        """How much noise one message has, as the norm of the error of its estimate."""
        return {"noise_norm": self.privatizer.noise_norm}

    def certificate(self) -> Certificate:
        """Return what the messages so far prove."""
        return self.privatizer.certificate(self.config.name)

    def learn(self, n: int) -> Segment:
        """Take the next n submissions; raise ValueError beyond the number that this learner was built for."""
        first, last = self.episodes_done + 1, self.episodes_done + n
        if n < 1 or last > self.episodes:
            raise ValueError(f"n must be in 1..{self.episodes - self.episodes_done}, got {n}; build for more episodes")
        self.privatizer.charge(first, last)
        total = run(self._agents, self.privatizer.channel, self._server, self._keeper, first, last)
        self.episodes_done = last
        return Segment(n, {SCORE.name: total / n, **self._keeper.metrics(self.episodes)})

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return parameters, scores and position; between two stretches no agent is under way."""
        own = {name: array.copy() for name, array in self._arrays().items()}
        own[_DONE] = np.array(self.episodes_done)
        state = {_PRIVATIZER + key: value for key, value in self.privatizer.state_dict().items()}
        return state | own | {_DIGEST: self._digest(own)}

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        """Continue from `state_dict`, bit for bit. Raises ValueError for the state of another run."""
        own = self._arrays()
        check_arrays(state, own)
        mine = {name: state[name] for name in (*own, _DONE) if name in state}
        if not np.array_equal(state.get(_DIGEST, np.zeros(0)), self._digest(mine)):
            raise ValueError("the state must be that of the same settings, environment and seed, unchanged; start anew")
        privatizers = part_of(state, _PRIVATIZER)
        # Before it is loaded: a privatizer that has charged submissions takes no other state.
        if self.privatizer.charged_in(privatizers) != int(state[_DONE]):
            raise ValueError("the state's submissions are not those that its ledger has charged; start anew")
        self.privatizer.load_state_dict(privatizers)
        for name, array in own.items():
            array[:] = state[name]
        self.episodes_done = int(state[_DONE])

    def _arrays(self) -> dict[str, np.ndarray]:
        """Return what changes in a run."""
        server = {_SERVER + name: array for name, array in self._server.state._asdict().items()}
        return server | {_SCORES + "last": self._keeper.last, _SCORES + "counts": self._keeper.counts}

    def _digest(self, own: dict[str, np.ndarray]) -> np.ndarray:
        """Return SHA-256 of what a state is a state of, and of the state, uint8[32]."""
        digest = hashlib.sha256(self._identity.encode())
        for name in sorted(own):
            array = np.asarray(own[name])
            digest.update(f"{name}{array.dtype.str}{array.shape}".encode() + array.tobytes())
        return np.frombuffer(digest.digest(), dtype=np.uint8)
