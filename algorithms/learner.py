"""Interface of algorithms: the config, and the learner with its stretches, charges, certificates and checkpoints."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

from dprl.algorithms.base import Metric, Releases
from dprl.envs import Env
from dprl.privacy import Certificate, Privatizer, Streams
from dprl.privacy.privatizer import check_arrays, digest_of, part_of

_PRIVATIZER, _DONE, _DIGEST = "privatizer.", "episodes_done", "digest"


class Learner(ABC):
    """Learner for K = `episodes` users that runs in stretches and can be saved between two of them.

    A subclass defines `policy`, `_run` and `_arrays`. The last user sends nothing if no later policy could use it.

    Draws are keyed by episode, so a state contains no generator. It belongs to one run: with other settings, another
    environment or other streams, the noise of a prefix would also hide other users' data.

    *Formal guarantee.* The privatizer's: all policies are functions of messages that its ledger has charged.

    Args:
        config: frozen dataclass with the settings and the algorithm's `name`.
        privatizer: for the users who send. episodes: K. streams: named random streams.
        identity: the environment, as text or arrays that differ for another one.
    """

    last_user_sends: ClassVar[bool] = False

    def __init__(
        self,
        config: Any,  # noqa: ANN401 - a config of its own for each algorithm
        privatizer: Privatizer[Any],
        episodes: int,
        streams: Streams,
        identity: Sequence[str | np.ndarray],
    ) -> None:
        self.privatizer = privatizer
        senders = self._senders(episodes, episodes)
        if senders < 1:
            raise ValueError(f"episodes must be at least 2, got {episodes}; the second is the first that can learn")
        if privatizer.capacity < senders:
            rule = f"the privatizer must be built for {senders} users"
            raise ValueError(f"{rule}, got {privatizer.capacity}; use config.privatizer")
        self.config = config
        self.episodes = episodes
        self.episodes_done = 0
        self.theorem: str | None = None
        self._fixed = f"{config!r} {streams.seed} {streams.context} {episodes}"
        self._identity = {f"identity.{i}": np.asarray(part) for i, part in enumerate(identity)}

    @property
    @abstractmethod
    def policy(self) -> np.ndarray:
        """The policy deployed last, a copy."""

    @property
    def policies(self) -> dict[str, np.ndarray]:
        """Output of a finished run: named tables, including 'policy'."""
        return {"policy": self.policy}

    @property
    def derived(self) -> Mapping[str, float]:
        """Numbers that follow from the settings, the noise and the sizes of the run, by name."""
        return {}

    @abstractmethod
    def _run(self, first: int, last: int) -> dict[str, float]:
        """Run episodes first..last (inclusive), with their users charged; return the metrics of the stretch."""

    @abstractmethod
    def _arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays that change in a run and are not rebuilt in each episode; resuming writes into them."""

    def learn(self, n: int) -> dict[str, float]:
        """Run the next n episodes, and return the algorithm's metrics of this stretch, by name.

        Raises ValueError beyond the number of episodes that this learner was built for.
        """
        first, last = self.episodes_done + 1, self.episodes_done + n
        if n < 1 or last > self.episodes:
            raise ValueError(f"n must be in 1..{self.episodes - self.episodes_done}, got {n}; build for more episodes")
        before, charged = self._senders(self.episodes_done, self.episodes), self._senders(last, self.episodes)
        if before < charged:
            self.privatizer.charge(before + 1, charged)
        metrics = self._run(first, last)
        self.episodes_done = last
        return metrics

    def certificate(self) -> Certificate:
        """Return the certificate of the noise that ran, for the users charged so far."""
        return self.privatizer.certificate(self.config.name)

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return the state for resuming, as arrays."""
        own = {name: array.copy() for name, array in self._arrays().items()}
        own[_DONE] = np.array(self.episodes_done)
        messages = {_PRIVATIZER + name: array for name, array in self.privatizer.state_dict().items()}
        return messages | own | {_DIGEST: self._digest(own, messages[_PRIVATIZER + _DIGEST])}

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        """Continue from `state_dict`, bit for bit. Raises ValueError for the state of another run."""
        own = self._arrays()
        check_arrays(state, own)
        found = {name: state[name] for name in (*own, _DONE) if name in state}
        messages = part_of(state, _PRIVATIZER)
        digest = self._digest(found, messages.get(_DIGEST, np.zeros(0)))
        if not np.array_equal(state.get(_DIGEST, np.zeros(0)), digest):
            raise ValueError("the state must be that of the same settings, environment and seed, unchanged; start anew")
        done = int(state[_DONE])
        # Checked first: after loading, a privatizer that has charged messages accepts no other state.
        if self.privatizer.charged_in(messages) != self._senders(done, self.episodes):
            raise ValueError("the state's episodes must be those that its ledger has charged; start anew")
        self.privatizer.load_state_dict(messages)
        for name, array in own.items():
            array[...] = state[name]
        self.episodes_done = done

    def _senders(self, done: int, episodes: int) -> int:
        """Return the number of users who send in the first `done` episodes."""
        return done if self.last_user_sends else min(done, episodes - 1)

    def _digest(self, own: Mapping[str, np.ndarray], messages: np.ndarray) -> np.ndarray:
        """Return a digest uint8[64] of the run's settings, its arrays, and the digest of its messages."""
        return digest_of(self._fixed, dict(own) | self._identity | {"messages": messages})


class AlgorithmConfig(Protocol):
    """Config of one algorithm: its settings in a file, and the builder of its learner.

    plays: class of environments. metrics: reported by the learner. releases: kind of data that users release; privacy
    settings must be of the same kind. unit: name of one episode in the config.
    """

    name: ClassVar[str]
    plays: ClassVar[type[Env]]
    metrics: ClassVar[tuple[Metric, ...]]
    releases: ClassVar[Releases]
    unit: ClassVar[Literal["episode", "submission"]]

    @property
    def covered_by(self) -> str | None:
        """Theorem that covers all runs with these settings, and its subject; None if no theorem does."""

    def privatizer(self, env: Any, privacy: Any, episodes: int, streams: Streams) -> Privatizer[Any]:  # noqa: ANN401
        """Return the privatizer of a run of `episodes` under `privacy`, settings of the same kind as `releases`."""

    def build(self, env: Any, privatizer: Any, episodes: int, streams: Streams) -> Learner:  # noqa: ANN401
        """Return a fresh learner behind `privatizer`."""
